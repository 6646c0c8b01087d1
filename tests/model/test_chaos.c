/* SPDX-License-Identifier: Apache-2.0
 *
 * test_model_chaos [FAILING SOUND]
 *
 * Many threads that use a translator as they like: they submit, wait, cancel, miss deadlines and drain, while devices
 * fail and the translator is closed. Each text has one answer, where one device stays sound that of a sound one, and
 * memory stays as it is. FAILING: a device that fails from outside, on the imitated card; `auto` has to choose it.
 * Without it: the reference, which fails after drawn numbers of runs, beside cpu. Exit code 77 without the device.
 *   TESSERA_CHAOS_SECONDS  how long (3)
 *   TESSERA_SEED           what the draws begin with, and those of the card (else the time)
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tessera/translator.h"
#include "tests/model/crowd.h"
#include "tests/model/generation.h"
#include "tests/support/failing.h"
#include "tools/random/random.h"

enum { N_THREADS = 64, MOST_LINES = 200, MOST_TICKETS = 4000, N_SEARCHES = 5 };

/* What a translator computes on: a device that stays, one that fails, both, or one that another one replaces. */
enum { SOUND, FAILING, BOTH, REPLACED };

static char **lines;
static char *folder;
static const char *failing = "failing:0", *sound = "cpu";
static int32_t is_outside; /* 1: what fails is no backend of ours */
static uint64_t draws;

/* ---- threads ----------------------------------------------------------------------------------------------------- */

/* One translator's life. */
typedef struct epoch {
  tsr_translator *translator;
  tsr_generate_options searches[N_SEARCHES];
  atomic_int is_over;
  atomic_int n_tickets;
  atomic_int n_answers[MOST_TICKETS]; /* by number of the text */
  atomic_int is_submitted[MOST_TICKETS];
  atomic_int n_by_status[TSR_ERR_DEADLINE + 1];
  atomic_int n_wrong;    /* answers that cannot be */
  atomic_int n_restarts; /* of their parts */
} epoch;

typedef struct sent {
  epoch *of;
  int32_t number;
  atomic_int bytes; /* of its text that came in pieces */
} sent;

typedef struct member {
  pthread_t thread;
  epoch *of;
  uint64_t seed;
} member;

static void note(const sent *text, const tsr_translation *answer)
{
  epoch *e = text->of;
  atomic_fetch_add(&e->n_answers[text->number], 1);
  atomic_fetch_add(&e->n_by_status[answer->status], 1);
  atomic_fetch_add(&e->n_restarts, answer->n_restarts);
  int32_t is_whole = answer->n_hypotheses > 0 && answer->hypotheses[0]->text;
  atomic_fetch_add(&e->n_wrong, (answer->status == TSR_OK) != is_whole || !answer->message);
  int32_t n_bytes = atomic_load(&text->bytes);
  atomic_fetch_add(&e->n_wrong, is_whole && n_bytes > 0 && n_bytes != (int32_t)strlen(answer->hypotheses[0]->text));
}

static void on_piece(void *user, uint64_t ticket, const char *text, size_t size)
{
  (void)ticket;
  (void)text;
  atomic_fetch_add(&((sent *)user)->bytes, (int32_t)size);
}

static void on_answer(void *user, uint64_t ticket, const tsr_translation *answer)
{
  (void)ticket;
  note(user, answer);
  free(user);
}

/* A text of any kind. 0 when the translator takes no more. */
static int submit_one(epoch *e, uint64_t *seed)
{
  enum { BY_FUNCTION = 0, BY_WAITING = 1, WAYS = 3 };
  int32_t number = atomic_fetch_add(&e->n_tickets, 1), way = tsr_random_below(seed, WAYS);
  if (number >= MOST_TICKETS) {
    return 0;
  }
  sent *text = calloc(1, sizeof *text);
  assert_non_null(text);
  *text = (sent){.of = e, .number = number};
  tsr_translation_request request = {
      TSR_SIZED(tsr_translation_request), .text = lines[tsr_random_below(seed, MOST_LINES)],
      .search = &e->searches[tsr_random_below(seed, N_SEARCHES)], .number = number, .long_input = TSR_LONG_SPLIT};
  request.max_source = tsr_random_below(seed, 3) == 0 ? 5 : 0;
  request.timeout = tsr_random_below(seed, 4) == 0 ? 1e-3 * tsr_random_below(seed, 50) : 0.0;
  request.alignment = tsr_random_below(seed, 5) == 0;
  if (way == BY_FUNCTION && tsr_random_below(seed, 3) == 0) {
    request.piece = on_piece;
    request.piece_user = text;
  }
  uint64_t ticket = 0;
  tsr_translation *answer = NULL;
  tsr_status status =
      tsr_translator_submit(e->translator, &request, way == BY_FUNCTION ? on_answer : NULL, text, &ticket);
  if (status != TSR_OK) {
    free(text);
    return status == TSR_ERR_BUSY;
  }
  atomic_store(&e->is_submitted[number], 1);
  if (tsr_random_below(seed, 4) == 0) {
    tsr_translator_cancel(e->translator, 1 + (uint64_t)tsr_random_below(seed, (int32_t)ticket));
  }
  if (way != BY_FUNCTION) {
    status = tsr_translator_wait(e->translator, ticket, &answer);
    atomic_fetch_add(&e->n_wrong, status != TSR_OK);
    if (status == TSR_OK) {
      note(text, answer);
    }
    tsr_translation_free(answer);
    free(text);
  }
  if (tsr_random_below(seed, 200) == 0) {
    tsr_translator_drain(e->translator);
  }
  return 1;
}

static void *use(void *user)
{
  member *m = user;
  /* One text at least, however late the thread begins on a busy machine. */
  while (submit_one(m->of, &m->seed) && !atomic_load(&m->of->is_over)) {
  }
  return NULL;
}

/* ---- one life after the other ------------------------------------------------------------------------------------ */

/* NULL: the device failed while the model was loaded onto it. */
static tsr_translator *open_some(tsr_runtime *runtime, int32_t turn, int32_t kind)
{
  const char *const devices[] = {kind == SOUND ? sound : kind == REPLACED ? "auto" : failing, sound};
  const tsr_translator_options options = {TSR_SIZED(tsr_translator_options),
                                          .n_devices = kind == BOTH ? 2 : 1,
                                          .devices = devices,
                                          .runtime = runtime,
                                          .batch = 1 + turn % 7,
                                          .queue = 60,
                                          .static_batches = turn % 5 == 4};
  tsr_translator *t = NULL;
  tsr_status status = tsr_translator_open(folder, &options, &t);
  if (!is_outside || kind == SOUND || kind == REPLACED ||
      (status != TSR_ERR_DEVICE_LOST && status != TSR_ERR_DEVICE_MEMORY)) {
    check(status);
  }
  return t;
}

static void set_searches(epoch *e)
{
  for (int32_t i = 0; i < N_SEARCHES; i++) {
    tsr_generate_options *options = &e->searches[i];
    *options = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
    check(tsr_generate_defaults(tsr_translator_model(e->translator), options));
    options->max_length = 4 + i;
    options->beam = i == 1 ? 3 : 1;
    options->n_best = 1;
    options->sample = i == 2;
    options->scores = i == 3;
    options->seed = (uint64_t)i;
  }
}

/* Answers that only a failing device gives. */
static int32_t count_failed(const epoch *e)
{
  int32_t n = 0;
  for (int32_t status = 0; status <= TSR_ERR_DEADLINE; status++) {
    int32_t is_usual = status == TSR_OK || status == TSR_ERR_CANCELLED || status == TSR_ERR_DEADLINE;
    n += is_usual ? 0 : atomic_load(&e->n_by_status[status]);
  }
  return n;
}

/* What became of all texts. */
typedef struct tally {
  int64_t n_by_status[TSR_ERR_DEADLINE + 1];
  int64_t n_restarts;
  int64_t n_not_opened; /* translators */
} tally;

static void live(tsr_runtime *runtime, int32_t turn, tally *all)
{
  static epoch e;
  static member members[N_THREADS];
  static const int32_t kinds[][3] = {{SOUND, BOTH, FAILING}, {REPLACED, BOTH, FAILING}};
  const int32_t kind = kinds[is_outside][turn % 3];
  memset((void *)&e, 0, sizeof e);
  if (!is_outside) {
    fail_after_runs(5 + tsr_random_below(&draws, 80));
  }
  e.translator = open_some(runtime, turn, kind);
  if (!e.translator) {
    all->n_not_opened++;
    return;
  }
  set_searches(&e);
  for (int32_t i = 0; i < N_THREADS; i++) {
    members[i] = (member){.of = &e, .seed = tsr_random_next(&draws)};
    assert_int_equal(pthread_create(&members[i].thread, NULL, use, &members[i]), 0);
  }
  const struct timespec span = {.tv_nsec = 1000000L * (50 + tsr_random_below(&draws, 500))};
  nanosleep(&span, NULL);
  atomic_store(&e.is_over, 1);
  for (int32_t i = 0; i < N_THREADS; i++) {
    pthread_join(members[i].thread, NULL);
  }
  tsr_translator_close(e.translator); /* with texts on their way */
  for (int32_t i = 0; i < MOST_TICKETS; i++) {
    if (atomic_load(&e.n_answers[i]) != atomic_load(&e.is_submitted[i])) {
      fail_msg("turn %d, text %d: %d answers", (int)turn, (int)i, (int)atomic_load(&e.n_answers[i]));
    }
  }
  for (int32_t i = 0; i <= TSR_ERR_DEADLINE; i++) {
    all->n_by_status[i] += atomic_load(&e.n_by_status[i]);
  }
  all->n_restarts += atomic_load(&e.n_restarts);
  assert_int_equal(atomic_load(&e.n_wrong), 0);
  if (kind != FAILING) {
    assert_int_equal(count_failed(&e), 0);
    assert_true(atomic_load(&e.n_by_status[TSR_OK]) + atomic_load(&e.n_by_status[TSR_ERR_CANCELLED]) > 0);
  }
}

/* Kilobytes of this process in memory. */
static int64_t resident(void)
{
  FILE *file = fopen("/proc/self/statm", "r");
  long long pages = 0, held = 0;
  if (!file || fscanf(file, "%lld %lld", &pages, &held) != 2) {
    held = 0;
  }
  if (file) {
    fclose(file);
  }
  return held * sysconf(_SC_PAGESIZE) / 1024;
}

static void test_chaos(void **state)
{
  (void)state;
  enum { WARM = 12, GROWTH = 192 << 10 /* kilobytes: it swings by half of that */ };
  const char *wanted = getenv("TESSERA_CHAOS_SECONDS");
  double seconds = wanted ? atof(wanted) : 3.0;
  tally all = {.n_restarts = 0};
  tsr_runtime *runtime;
  struct timespec start, now;
  int64_t before = 0, after = 0;
  int32_t turn = 0;
  check(tsr_runtime_create(NULL, &runtime));
  if (!is_outside) {
    register_failing(runtime);
  }
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    live(runtime, turn++, &all);
    after = resident();
    before = turn == WARM ? after : before;
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((double)(now.tv_sec - start.tv_sec) < seconds || turn < 6);
  tsr_runtime_destroy(runtime);
  for (int32_t status = 0; status <= TSR_ERR_DEADLINE; status++) {
    if (all.n_by_status[status] > 0) {
      printf("%lld answers: %s\n", (long long)all.n_by_status[status], tsr_status_name((tsr_status)status));
    }
  }
  printf("%lld restarts; %d translators, %lld of which failed as they were opened; %lld KiB held, %lld KiB after %d\n",
         (long long)all.n_restarts, (int)turn, (long long)all.n_not_opened, (long long)after, (long long)before,
         (int)WARM);
  assert_true(turn <= WARM || after < before + before / 4 + GROWTH);
}

static int open_lines(void **state)
{
  (void)state;
  folder = path_in_tree("tests/data/marian-en-fr");
  lines = read_test_sentences(MOST_LINES);
  return 0;
}

static int close_lines(void **state)
{
  (void)state;
  free_test_sentences(lines, MOST_LINES);
  free(folder);
  return 0;
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_chaos)};
  char card_seed[32];
  if (argc == 3) {
    is_outside = 1;
    failing = argv[1];
    sound = argv[2];
  }
  draws = draw_seed();
  snprintf(card_seed, sizeof card_seed, "%llu", (unsigned long long)draws);
  setenv("CARD_SEED", card_seed, 0);
  return is_outside && !has_device(failing) ? EXIT_SKIPPED : cmocka_run_group_tests(tests, open_lines, close_lines);
}

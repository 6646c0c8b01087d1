/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches side by side on a device: which of them takes a text that waits. The device is the reference, whose runs wait
 * until the test lets them go on, so that it knows what each batch does at what time.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/generate/search.h"
#include "tessera/backend.h"
#include "tessera/translator.h"
#include "tests/model/crowd.h"
#include "tests/model/generation.h"

enum { N_LINES = 14, MOST_BATCHES = 2, MOST_TOKENS = 20, PATIENCE = 100 /* seconds until a test has failed */ };

void __real_tsr_search_finish(tsr_search *search);
void __wrap_tsr_search_finish(tsr_search *search);
int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);

static char **lines;
static char *folder;

/* ---- the device -------------------------------------------------------------------------------------------------- */

static tsr_backend table;
static const tsr_backend *reference;

/* Where the runs of each thread wait, and the first thread's search when it is over. */
static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  int32_t is_open; /* 1: nothing waits */
  int32_t n;       /* threads that came, in the order in which they came first */
  pthread_t threads[MOST_BATCHES];
  int32_t leave[MOST_BATCHES]; /* runs that each of them may still begin */
  int32_t waits[MOST_BATCHES]; /* 1: it is here */
  int32_t rests[MOST_BATCHES]; /* how often it has begun to wait for work */
  int32_t holds_end;           /* 1: the first thread does not leave its search */
  int32_t is_at_end;           /* 1: it is there */
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static int32_t find_this(void)
{
  int32_t i = 0;
  while (i < gate.n && !pthread_equal(gate.threads[i], pthread_self())) {
    i++;
  }
  return i;
}

static int32_t number_of_this(void)
{
  const int32_t i = find_this();
  if (i == gate.n) {
    gate.threads[gate.n++] = pthread_self();
  }
  return i;
}

static int32_t run(tsr_backend_executable *executable)
{
  pthread_mutex_lock(&gate.lock);
  if (!gate.is_open) {
    const int32_t i = number_of_this();
    gate.waits[i] = 1;
    pthread_cond_broadcast(&gate.changed);
    while (!gate.is_open && gate.leave[i] == 0) {
      __real_pthread_cond_wait(&gate.changed, &gate.lock);
    }
    gate.leave[i]--;
    gate.waits[i] = 0;
  }
  pthread_mutex_unlock(&gate.lock);
  return reference->run(executable);
}

/* The linker leads what ends a search here: a batch whose search is over has looked at the queue for the last time, and
 * still counts as one that runs. */
void __wrap_tsr_search_finish(tsr_search *search)
{
  pthread_mutex_lock(&gate.lock);
  if (gate.holds_end && find_this() == 0) {
    gate.is_at_end = 1;
    pthread_cond_broadcast(&gate.changed);
    while (gate.holds_end && !gate.is_open) {
      __real_pthread_cond_wait(&gate.changed, &gate.lock);
    }
  }
  pthread_mutex_unlock(&gate.lock);
  __real_tsr_search_finish(search);
}

/* Likewise where threads wait. They do so with the translator's lock: who gets it then finds that they rest. */
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock)
{
  pthread_mutex_lock(&gate.lock);
  const int32_t i = find_this();
  if (i < gate.n) {
    gate.rests[i]++;
    pthread_cond_broadcast(&gate.changed);
  }
  pthread_mutex_unlock(&gate.lock);
  return __real_pthread_cond_wait(condition, lock);
}

static int32_t device_properties(void *context, uint32_t index, tsr_device_properties *properties)
{
  const int32_t status = reference->device_properties(context, index, properties);
  properties->concurrent_runs = MOST_BATCHES;
  return status;
}

static const tsr_backend *query(uint32_t major, const tsr_host *host)
{
  reference = tessera_backend_query(major, host);
  table = *reference;
  table.name = "gated";
  table.device_properties = device_properties;
  table.run = run;
  return &table;
}

/* With the gate's lock: until something has changed. */
static void wait_for_change(const char *what)
{
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += PATIENCE;
  if (pthread_cond_timedwait(&gate.changed, &gate.lock, &until) != 0) {
    pthread_mutex_unlock(&gate.lock);
    fail_msg("%s", what);
  }
}

/* Waits until n batches are at their first run, or a further one. */
static void expect_batches(int32_t n)
{
  pthread_mutex_lock(&gate.lock);
  while (gate.n < n || !gate.waits[n - 1]) {
    wait_for_change("a text waits although a worker is idle");
  }
  pthread_mutex_unlock(&gate.lock);
}

/* Lets a batch end, and waits until its thread waits for work. */
static void let_end(int32_t i)
{
  pthread_mutex_lock(&gate.lock);
  const int32_t rests = gate.rests[i];
  gate.leave[i] = 1 << 20;
  pthread_cond_broadcast(&gate.changed);
  while (gate.rests[i] == rests) {
    wait_for_change("a batch does not end");
  }
  gate.leave[i] = 0;
  pthread_mutex_unlock(&gate.lock);
}

/* The same of the first thread, which stays where its search is over. */
static void hold_at_end(void)
{
  pthread_mutex_lock(&gate.lock);
  gate.holds_end = 1;
  gate.leave[0] = 1 << 20;
  pthread_cond_broadcast(&gate.changed);
  while (!gate.is_at_end) {
    wait_for_change("a search does not end");
  }
  gate.leave[0] = 0;
  pthread_mutex_unlock(&gate.lock);
}

/* Waits until a thread that was resting so often before rests once more: it has looked, and found nothing to do. */
static void expect_rest(int32_t i, int32_t before)
{
  pthread_mutex_lock(&gate.lock);
  while (gate.rests[i] == before) {
    wait_for_change("a worker that idles does not look at the queue");
  }
  pthread_mutex_unlock(&gate.lock);
}

static void leave_end(void)
{
  pthread_mutex_lock(&gate.lock);
  gate.holds_end = 0;
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.lock);
}

/* Lets a batch begin so many runs, and waits until it is about to begin another one. */
static void let_run(int32_t i, int32_t n)
{
  pthread_mutex_lock(&gate.lock);
  gate.leave[i] += n;
  pthread_cond_broadcast(&gate.changed);
  while (gate.leave[i] > 0 || !gate.waits[i]) {
    wait_for_change("a batch does not go on");
  }
  pthread_mutex_unlock(&gate.lock);
}

static void open_gate(void)
{
  pthread_mutex_lock(&gate.lock);
  gate.is_open = 1;
  pthread_cond_broadcast(&gate.changed);
  pthread_mutex_unlock(&gate.lock);
}

static void close_gate(void)
{
  gate.is_open = gate.n = gate.holds_end = gate.is_at_end = 0;
  for (int32_t i = 0; i < MOST_BATCHES; i++) {
    gate.leave[i] = gate.waits[i] = gate.rests[i] = 0;
  }
}

/* ---- a translator on it ------------------------------------------------------------------------------------------ */

typedef struct bench {
  tsr_runtime *runtime;
  tsr_translator *translator;
  tsr_generate_options options[2]; /* of two classes */
} bench;

static void open_bench(bench *b, int32_t most, int32_t beam)
{
  const char *device = "gated";
  close_gate();
  check(tsr_runtime_create(NULL, &b->runtime));
  check(tsr_runtime_register(b->runtime, query));
  check(tsr_translator_open(folder,
                            &(tsr_translator_options){TSR_SIZED(tsr_translator_options), .n_devices = 1,
                                                      .devices = &device, .runtime = b->runtime, .batch = most},
                            &b->translator));
  for (int32_t i = 0; i < 2; i++) {
    b->options[i] = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
    check(tsr_generate_defaults(tsr_translator_model(b->translator), &b->options[i]));
    b->options[i].beam = beam;
    b->options[i].n_best = 1;
    b->options[i].max_length = MOST_TOKENS + i;
    b->options[i].min_length = MOST_TOKENS - 1; /* no text ends while the test looks */
  }
}

/* All n texts are translated, but those that were cancelled. */
static void close_bench_without(bench *b, int32_t n, int32_t cancelled)
{
  tsr_translator_statistics s;
  open_gate();
  tsr_translator_drain(b->translator);
  tsr_translator_measure(b->translator, &s);
  assert_int_equal(s.answered, n);
  assert_int_equal(s.failed, cancelled);
  tsr_translator_close(b->translator);
  tsr_runtime_destroy(b->runtime);
}

static void close_bench(bench *b, int32_t n)
{
  close_bench_without(b, n, 0);
}

static uint64_t submit_text(bench *b, const char *text, int32_t class)
{
  const tsr_translation_request request = {TSR_SIZED(tsr_translation_request), .text = text,
                                           .search = &b->options[class]};
  uint64_t ticket;
  check(tsr_translator_submit(b->translator, &request, NULL, NULL, &ticket));
  return ticket;
}

static void submit(bench *b, int32_t line, int32_t class)
{
  (void)submit_text(b, lines[line], class);
}

static void begin_two(bench *b, int32_t class)
{
  submit(b, 0, 0);
  expect_batches(1);
  submit(b, 1, class);
  expect_batches(2);
}

/* Two batches of a text each, the second of that class. A text does not wait while a worker is idle. */
static void open_two(bench *b, int32_t most, int32_t class)
{
  open_bench(b, most, 1);
  begin_two(b, class);
}

static void expect_state(const bench *b, int32_t batches, int32_t joined, int32_t waiting)
{
  tsr_translator_statistics s;
  tsr_translator_measure(b->translator, &s);
  assert_int_equal(s.batches, batches);
  assert_int_equal(s.joined, joined);
  assert_int_equal(s.waiting, waiting);
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

/* A text does not wait for a batch's step to end while a worker is idle. */
static void test_idle_worker(void **state)
{
  (void)state;
  bench b;
  open_two(&b, 0, 0);
  expect_state(&b, 2, 0, 0);
  close_bench(&b, 2);
}

/* Which batch ends its step first does not take all. */
static void test_equal_parts(void **state)
{
  (void)state;
  bench b;
  open_two(&b, 0, 0);
  for (int32_t i = 2; i < 6; i++) {
    submit(&b, i, 0);
  }
  let_run(0, 2); /* its encoder and a step, up to the encoder of those that join */
  expect_state(&b, 2, 2, 2);
  let_run(1, 2);
  expect_state(&b, 2, 4, 0);
  close_bench(&b, 6);
}

/* Where more rows make none cheaper, texts wait for those of a few. */
static void test_few_rows(void **state)
{
  (void)state;
  bench b;
  open_two(&b, 0, 0);
  for (int32_t i = 2; i < 14; i++) {
    submit(&b, i, 0);
  }
  let_run(0, 2);
  expect_state(&b, 2, 3, 9);
  let_run(1, 2);
  expect_state(&b, 2, 6, 6);
  close_bench(&b, 14);
}

/* As few texts, whatever their beam. */
static void test_few_texts(void **state)
{
  (void)state;
  bench b;
  open_bench(&b, 0, 4);
  begin_two(&b, 0);
  for (int32_t i = 2; i < 10; i++) {
    submit(&b, i, 0);
  }
  let_run(0, 2);
  expect_state(&b, 2, 3, 5);
  let_run(1, 2);
  expect_state(&b, 2, 6, 2);
  close_bench(&b, 10);
}

/* If more wait than a batch could ever take, it takes what it has room for. */
static void test_many_wait(void **state)
{
  (void)state;
  bench b;
  open_two(&b, 6, 0);
  for (int32_t i = 2; i < 14; i++) {
    submit(&b, i, 0);
  }
  let_run(0, 2);
  expect_state(&b, 2, 5, 7);
  close_bench(&b, 14);
}

/* Where short texts are filled up to the length of long ones, a batch takes the oldest of many that wait, and those
 * that are as long; of a few, it takes the oldest. */
static void check_alike(int32_t most, int32_t n_left)
{
  static const char brief[] = "Hello.", lengthy[] = "The museum that you asked me about is worth visiting in winter.";
  bench b;
  open_two(&b, most, 0);
  uint64_t others[3];
  (void)submit_text(&b, brief, 0);
  for (int32_t i = 0; i < 3; i++) {
    others[i] = submit_text(&b, lengthy, 0);
  }
  (void)submit_text(&b, brief, 0);
  (void)submit_text(&b, brief, 0);
  let_run(0, 2);
  expect_state(&b, 2, 3, 3);
  for (int32_t i = 0; i < 3; i++) {
    tsr_translator_cancel(b.translator, others[i]); /* one that waits leaves at once */
  }
  expect_state(&b, 2, 3, n_left);
  close_bench_without(&b, 8, 3);
}

static void test_alike(void **state)
{
  (void)state;
  check_alike(4, 0);
  check_alike(0, 2);
}

/* While many wait, texts join together, for which rows stay free meanwhile. */
static void test_join_together(void **state)
{
  (void)state;
  enum { MOST = 8, N = 20, RUNS = 3 /* encoders of seven texts of a length: four, two, and one */ };
  bench b;
  uint64_t tickets[N];
  open_two(&b, MOST, 0);
  for (int32_t i = 0; i < N; i++) {
    tickets[i] = submit_text(&b, lines[2], 0);
  }
  let_run(0, 2);
  expect_state(&b, 2, MOST - 1, N - MOST + 1);
  let_run(0, RUNS);
  tsr_translator_cancel(b.translator, tickets[0]);
  let_run(0, 1);
  expect_state(&b, 2, MOST - 1, N - MOST + 1);
  tsr_translator_cancel(b.translator, tickets[1]);
  let_run(0, 1);
  expect_state(&b, 2, MOST + 1, N - MOST - 1);
  close_bench_without(&b, N + 2, 2);
}

/* A batch that has no room, or is of another class, gets no part. */
static void test_no_part(void **state)
{
  (void)state;
  bench b;
  open_two(&b, 3, 1);
  submit(&b, 2, 0);
  submit(&b, 3, 0);
  let_run(0, 2);
  expect_state(&b, 2, 2, 0);
  submit(&b, 4, 1);
  let_run(1, 2);
  expect_state(&b, 2, 3, 0);
  close_bench(&b, 5);
}

/* A text that comes when a batch has looked at the queue for the last time is left to it by the worker that idles. That
 * worker has begun a batch last, so that the one whose batch ends leaves it back. */
static void test_text_at_the_end(void **state)
{
  (void)state;
  bench b;
  open_two(&b, 0, 0);
  let_end(1);
  hold_at_end();
  const int32_t rests = gate.rests[1];
  submit(&b, 2, 0);
  expect_rest(1, rests);
  expect_state(&b, 2, 0, 1);
  leave_end();
  expect_batches(2); /* the second thread is at a run again */
  expect_state(&b, 3, 0, 0);
  close_bench(&b, 3);
}

static int open_lines(void **state)
{
  (void)state;
  folder = path_in_tree("tests/data/marian-en-fr");
  lines = read_test_sentences(N_LINES);
  return 0;
}

static int close_lines(void **state)
{
  (void)state;
  free_test_sentences(lines, N_LINES);
  free(folder);
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_idle_worker),     cmocka_unit_test(test_equal_parts), cmocka_unit_test(test_few_rows),
      cmocka_unit_test(test_few_texts),       cmocka_unit_test(test_many_wait),   cmocka_unit_test(test_no_part),
      cmocka_unit_test(test_text_at_the_end), cmocka_unit_test(test_alike),       cmocka_unit_test(test_join_together),
  };
  return cmocka_run_group_tests(tests, open_lines, close_lines);
}

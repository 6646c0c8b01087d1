/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of one call of a translator with static batches: they give, bit for bit, what tsr_generate gives for as
 * many sentences; and its transformer, which callers take turns at.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/model/call_lines.h"

/* ---- what a call gives ------------------------------------------------------------------------------------------- */

/* A model and its tokenizer, and a translator that they outlive. */
typedef struct opened {
  tsr_runtime *runtime;
  tsr_device *device;
  tsr_model *model;
  tsr_tokenizer *tokenizer;
  tsr_transformer *transformer;
  tsr_translator *translator;
  int64_t done; /* as progress told last */
} opened;

static void on_progress(void *user, int64_t done, int64_t total)
{
  opened *o = user;
  assert_true(done > o->done && done <= total);
  o->done = done;
}

static void open_both(const char *device, int32_t workers, opened *o)
{
  *o = (opened){0};
  check(tsr_runtime_create(NULL, &o->runtime));
  check(tsr_device_open(o->runtime, device, &o->device));
  check(tsr_model_open(folder, &o->model));
  check(tsr_tokenizer_open(o->model, &o->tokenizer));
  check(tsr_transformer_create(o->model, o->device,
                               &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .workers = workers},
                               &o->transformer));
  check(
      tsr_translator_create(o->model, o->tokenizer,
                            &(tsr_translator_options){TSR_SIZED(tsr_translator_options), .n_devices = 1,
                                                      .devices = &device, .runtime = o->runtime, .workers = workers,
                                                      .static_batches = 1, .progress = on_progress, .progress_user = o},
                            &o->translator));
}

static void close_both(opened *o)
{
  tsr_translator_close(o->translator);
  tsr_transformer_destroy(o->transformer);
  tsr_tokenizer_close(o->tokenizer);
  tsr_model_close(o->model);
  tsr_device_close(o->device);
  tsr_runtime_destroy(o->runtime);
}

static void generate(const opened *o, const tsr_generate_options *options, int32_t n, tsr_generation *g)
{
  int32_t *ids[MOST_LINES], lengths[MOST_LINES];
  for (int32_t i = 0; i < n; i++) {
    check(tsr_tokenizer_encode(o->tokenizer, lines[i], strlen(lines[i]), &ids[i], &lengths[i]));
  }
  check(tsr_generate(o->transformer, n, (const int32_t *const *)ids, lengths, 0, options, NULL, NULL, g));
  for (int32_t i = 0; i < n; i++) {
    tsr_free(ids[i]);
  }
}

/* Twice, for what the first call counts must not count in the second. */
static void check_call(const char *device, int32_t workers, int32_t beam, int32_t is_sampled, int32_t n)
{
  opened o;
  tsr_generation g;
  tsr_translation_request requests[MOST_LINES];
  tsr_translation *answers[MOST_LINES];
  open_both(device, workers, &o);
  tsr_generate_options options = search_of(o.model, beam);
  options.sample = is_sampled;
  options.seed = 7;
  options.scores = 1;
  fill_requests(&options, n, requests);
  for (int32_t turn = 0; turn < 2; turn++) {
    generate(&o, &options, n, &g);
    o.done = 0;
    check(tsr_translator_translate(o.translator, n, requests, answers));
    assert_int_equal(o.done, n);
    for (int32_t i = 0; i < n; i++) {
      const tsr_hypothesis *expected = &g.hypotheses[i];
      assert_int_equal(answers[i]->status, TSR_OK);
      const tsr_translation_hypothesis *found = answers[i]->hypotheses[0];
      assert_int_equal(found->n_ids, expected->n_ids);
      assert_memory_equal(found->ids, expected->ids, (size_t)expected->n_ids * sizeof *expected->ids);
      assert_memory_equal(&found->score, &expected->score, sizeof found->score);
    }
    free_answers(n, answers);
    tsr_generation_finish(&g);
  }
  tsr_generate_statistics wanted;
  tsr_translator_statistics s;
  tsr_generate_measure(o.transformer, &wanted);
  tsr_translator_measure(o.translator, &s);
  assert_int_equal(s.answered, 2 * n);
  assert_int_equal(s.step_runs, wanted.step_runs);
  assert_int_equal(s.encode_runs, wanted.encode_runs);
  assert_int_equal(s.source_tokens, wanted.source_tokens);
  assert_int_equal(s.target_tokens, wanted.target_tokens);
  assert_int_equal(s.search_threads, wanted.workers);
  assert_int_equal(s.joined + s.waiting + s.running, 0);
  assert_true(s.search_seconds > 0.0 && s.batches > 0);
  close_both(&o);
}

static void test_call(void **state)
{
  (void)state;
  check_call("cpu", 0, 1, 0, MOST_LINES);
  check_call("cpu", 3, 4, 0, MOST_LINES);
  check_call("cpu", 2, 1, 1, MOST_LINES);
  check_call("reference", 1, 1, 0, 8);
}

/* Several devices take turns at the texts of a call: each text is as one device alone translates it. */
static void check_devices(const char *const *devices, int32_t n_devices, int32_t beam, int32_t is_sampled, int32_t n)
{
  tsr_translation_request requests[MOST_LINES];
  tsr_translation *expected[MOST_LINES], *answers[MOST_LINES];
  int64_t done = 0;
  const tsr_translator_options wanted = {
      TSR_SIZED(tsr_translator_options), .n_devices = n_devices, .devices = devices, .batch = 4, .static_batches = 1,
      .progress = on_call_progress,      .progress_user = &done};
  tsr_translator *alone = open_on("cpu", 1), *t;
  check(tsr_translator_open(folder, &wanted, &t));
  tsr_generate_options options = search_of(tsr_translator_model(t), beam);
  options.sample = is_sampled;
  options.seed = 7;
  fill_requests(&options, n, requests);
  check(tsr_translator_translate(alone, n, requests, expected));
  tsr_translator_statistics s;
  for (int32_t turn = 0; turn < 3; turn++) { /* with speeds that are not known, and with those that are */
    done = 0;
    check(tsr_translator_translate(t, n, requests, answers));
    assert_int_equal(done, n);
    for (int32_t i = 0; i < n; i++) {
      assert_int_equal(answers[i]->status, TSR_OK);
      assert_int_equal(answers[i]->n_restarts, 0);
      assert_string_equal(answers[i]->hypotheses[0]->text, expected[i]->hypotheses[0]->text);
    }
    free_answers(n, answers);
    tsr_translator_measure(t, &s);
    assert_int_equal(s.answered, (turn + 1) * n);
    assert_int_equal(s.running + s.waiting, 0);
  }
  free_answers(n, expected);
  assert_int_equal(s.devices, n_devices);
  tsr_translator_close(alone);
  tsr_translator_close(t);
}

static void test_devices(void **state)
{
  (void)state;
  static const char *const twice[] = {"cpu", "cpu"}, *const spare[] = {"reference", "cpu", "cpu"},
                           *const references[] = {"reference", "reference"};
  check_devices(twice, 2, 1, 0, MOST_LINES);
  check_devices(twice, 2, 4, 0, 3);
  check_devices(twice, 2, 1, 1, MOST_LINES / 2);
  check_devices(spare, 3, 4, 0, MOST_LINES);
  check_devices(references, 2, 1, 0, 6);
  check_devices(twice, 2, 1, 0, 1);
}

enum { LONG_CALL = MOST_LINES / 2 };

static void on_long_progress(void *user, int64_t done, int64_t total)
{
  if (total == LONG_CALL) { /* not of the short calls */
    atomic_store((atomic_int *)user, (int)done);
  }
}

static void *translate_long(void *opaque)
{
  enum { BEAM = 4, TOKENS = 100 };
  tsr_translator *t = opaque;
  tsr_translation_request requests[LONG_CALL];
  tsr_translation *answers[LONG_CALL];
  tsr_generate_options options = search_of(tsr_translator_model(t), BEAM);
  options.min_length = options.max_length = TOKENS;
  fill_requests(&options, LONG_CALL, requests);
  check(tsr_translator_translate(t, LONG_CALL, requests, answers));
  for (int32_t i = 0; i < LONG_CALL; i++) {
    assert_int_equal(answers[i]->status, TSR_OK);
  }
  free_answers(LONG_CALL, answers);
  return NULL;
}

/* How much of a long call is done when a short one, begun beside it, has its answer. */
static int32_t done_before_short(void)
{
  static const char *const devices[] = {"cpu", "cpu"};
  atomic_int done = 0;
  const tsr_translator_options wanted = {
      TSR_SIZED(tsr_translator_options), .n_devices = 2,        .devices = devices, .batch = 4, .static_batches = 1,
      .progress = on_long_progress,      .progress_user = &done};
  tsr_translator *t;
  pthread_t thread;
  tsr_translation_request request;
  tsr_translation *answer;
  tsr_translator_statistics s = {0};
  check(tsr_translator_open(folder, &wanted, &t));
  tsr_generate_options options = search_of(tsr_translator_model(t), 1);
  fill_requests(&options, 1, &request);
  assert_int_equal(pthread_create(&thread, NULL, translate_long, t), 0);
  while (s.running == 0 && s.answered == 0) {
    tsr_translator_measure(t, &s);
  }
  check(tsr_translator_translate(t, 1, &request, &answer));
  int most = atomic_load(&done);
  assert_int_equal(answer->status, TSR_OK);
  free_answers(1, &answer);
  pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&done), LONG_CALL);
  tsr_translator_close(t);
  return most;
}

/* A short call need not wait until a long one has ended, which has all devices in turns with it. On a busy machine the
 * short one may begin late. */
static void test_turns(void **state)
{
  enum { SOON = LONG_CALL * 3 / 5 };
  (void)state;
  int32_t most = LONG_CALL;
  for (int32_t i = 0; i < 5 && most > SOON; i++) {
    most = done_before_short();
  }
  assert_in_range(most, 0, SOON);
}

typedef struct stopping {
  volatile int32_t stop;
  int32_t after; /* pieces */
} stopping;

static void stop_later(void *user, uint64_t ticket, const char *text, size_t size)
{
  stopping *s = user;
  (void)ticket;
  (void)text;
  (void)size;
  s->stop = --s->after <= 0;
}

/* Either kind of translator searches texts together, on all its threads, and stops when the caller wants it. */
static void check_together(int32_t is_static)
{
  enum { N = MOST_LINES / 2 };
  tsr_translation_request requests[N];
  tsr_translation *expected[N], *answers[N];
  const char *device = "cpu";
  const tsr_translator_options wanted = {TSR_SIZED(tsr_translator_options), .n_devices = 1, .devices = &device,
                                         .workers = 2, .static_batches = is_static};
  tsr_translator *other = open_on("cpu", 1), *t;
  check(tsr_translator_open(folder, &wanted, &t));
  tsr_generate_options options = search_of(tsr_translator_model(t), 4);
  tsr_translator_statistics s;
  fill_requests(&options, N, requests);
  check(tsr_translator_translate(other, N, requests, expected));
  check(tsr_translator_translate_together(t, N, requests, NULL, answers));
  for (int32_t i = 0; i < N; i++) {
    assert_string_equal(answers[i]->hypotheses[0]->text, expected[i]->hypotheses[0]->text);
  }
  tsr_translator_measure(t, &s);
  assert_int_equal(s.search_threads, 2);
  free_answers(N, answers);

  stopping stop = {.stop = 1};
  check(tsr_translator_translate_together(t, N, requests, &stop.stop, answers));
  for (int32_t i = 0; i < N; i++) {
    assert_int_equal(answers[i]->status, TSR_ERR_CANCELLED);
  }
  free_answers(N, answers);
  int64_t steps = s.step_runs;
  tsr_translator_measure(t, &s);
  assert_int_equal(s.step_runs, steps);

  stop = (stopping){.after = 3};
  for (int32_t i = 0; i < N; i++) {
    requests[i].piece = stop_later;
    requests[i].piece_user = &stop;
  }
  check(tsr_translator_translate_together(t, N, requests, &stop.stop, answers));
  int32_t n_given_up = 0;
  for (int32_t i = 0; i < N; i++) {
    n_given_up += answers[i]->status == TSR_ERR_CANCELLED;
    assert_true(answers[i]->status == TSR_OK || answers[i]->status == TSR_ERR_CANCELLED);
  }
  assert_in_range(n_given_up, 1, N);
  free_answers(N, answers);
  tsr_translator_measure(t, &s);
  assert_int_equal(s.running + s.waiting, 0);

  check(tsr_translator_translate(t, 2, requests, answers)); /* texts that queue go on */
  assert_string_equal(answers[1]->hypotheses[0]->text, expected[1]->hypotheses[0]->text);
  free_answers(2, answers);
  assert_int_equal(tsr_translator_translate_together(NULL, 0, NULL, NULL, NULL), TSR_ERR_ARGUMENT);
  free_answers(N, expected);
  tsr_translator_close(other);
  tsr_translator_close(t);
}

static void test_together(void **state)
{
  (void)state;
  check_together(0);
  check_together(1);
}

/* A text in parts takes as many numbers; the next one's follows. */
static void test_numbers(void **state)
{
  enum { N = 6, FIRST = 100 };
  (void)state;
  tsr_translator *t = open_on("cpu", 1);
  tsr_generate_options options = search_of(tsr_translator_model(t), 1);
  tsr_translation_request requests[N];
  tsr_translation *followed[N], *named[N];
  options.sample = 1;
  fill_requests(&options, N, requests);
  for (int32_t i = 0; i < N; i++) {
    requests[i].max_source = i % 2 ? 5 : 0;
    requests[i].long_input = TSR_LONG_SPLIT;
  }
  requests[0].number = FIRST;
  requests[3].text = " ";
  check(tsr_translator_translate(t, N, requests, followed));
  int64_t next = FIRST;
  for (int32_t i = 0; i < N; i++) {
    requests[i].number = next;
    next += followed[i]->n_parts;
  }
  assert_true(next > FIRST + N);
  check(tsr_translator_translate(t, N, requests, named));
  for (int32_t i = 0; i < N; i++) {
    assert_string_equal(followed[i]->hypotheses[0]->text, named[i]->hypotheses[0]->text);
    assert_int_equal(followed[i]->hypotheses[0]->n_parts, followed[i]->n_parts);
  }
  free_answers(N, followed);
  free_answers(N, named);

  /* The same where texts queue. */
  tsr_translator *queued = open_on("cpu", 0);
  check(tsr_translator_translate(queued, N, requests, named));
  for (int32_t i = 1; i < N; i++) {
    requests[i].number = -1;
  }
  check(tsr_translator_translate(queued, N, requests, followed));
  for (int32_t i = 0; i < N; i++) {
    assert_string_equal(followed[i]->hypotheses[0]->text, named[i]->hypotheses[0]->text);
  }
  free_answers(N, followed);
  free_answers(N, named);
  tsr_translator_close(queued);
  tsr_translator_close(t);
}

/* One that is late, refused, empty, asks otherwise, or in a wrong way: the others are as without it. */
static void test_one_by_one(void **state)
{
  enum { N = 12, LATE = 2, LONG = 4, EMPTY = 5, OTHER = 7, WRONG = 9 };
  (void)state;
  tsr_translator *t = open_on("cpu", 1);
  tsr_generate_options options = search_of(tsr_translator_model(t), 1), other = options, wrong = options;
  tsr_translation_request requests[N];
  tsr_translation *expected[N], *answers[N];
  other.max_length = 4;
  wrong.beam = -1;
  fill_requests(&options, N, requests);
  check(tsr_translator_translate(t, N, requests, expected));
  requests[LATE].timeout = 1e-9;
  requests[LONG].max_source = 2;
  requests[LONG].long_input = TSR_LONG_ERROR;
  requests[EMPTY].text = "";
  requests[OTHER].search = &other;
  requests[WRONG].search = &wrong;
  requests[1].prefix = expected[1]->hypotheses[0]->text;
  requests[1].prefix_size = 1;
  check(tsr_translator_translate(t, N, requests, answers));
  assert_int_equal(answers[LATE]->status, TSR_ERR_DEADLINE);
  assert_int_equal(answers[LATE]->is_about_text, 0);
  assert_int_equal(answers[LONG]->status, TSR_ERR_ARGUMENT);
  assert_int_equal(answers[LONG]->is_about_text, 1);
  assert_int_equal(answers[EMPTY]->n_parts, 0);
  assert_int_equal(answers[EMPTY]->status, TSR_OK);
  assert_true(answers[OTHER]->hypotheses[0]->is_cut);
  assert_int_equal(answers[WRONG]->status, TSR_ERR_ARGUMENT);
  assert_int_equal(answers[WRONG]->is_about_text, 0);
  for (int32_t i = 0; i < N; i++) {
    if (i != LATE && i != LONG && i != EMPTY && i != OTHER && i != WRONG && i != 1) {
      assert_string_equal(answers[i]->hypotheses[0]->text, expected[i]->hypotheses[0]->text);
    }
  }
  assert_int_equal(answers[1]->hypotheses[0]->text[0], expected[1]->hypotheses[0]->text[0]);
  free_answers(N, expected);
  free_answers(N, answers);
  assert_int_equal(tsr_generate_check(tsr_translator_model(t), &wrong), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_generate_check(tsr_translator_model(t), &other), TSR_OK);
  tsr_translator_close(t);
}

/* ---- many threads ------------------------------------------------------------------------------------------------ */

enum { N_EACH = 10, N_THREADS = 6, N_TURNS = 8 };

typedef struct member {
  tsr_translator *translator;
  const tsr_generate_options *options;
  tsr_translation *const *expected;
  int32_t index;
  int32_t n_wrong;
  pthread_t thread;
} member;

static atomic_int n_using, n_used;

static tsr_status use(void *user, tsr_transformer *transformer)
{
  int32_t *n_wrong = user;
  *n_wrong +=
      atomic_fetch_add(&n_using, 1) != 0 || strcmp(tsr_device_name(tsr_transformer_device(transformer)), "cpu:0") != 0;
  tsr_generate_statistics s; /* no search works with it */
  tsr_generate_measure(transformer, &s);
  atomic_fetch_sub(&n_using, 1);
  atomic_fetch_add(&n_used, 1);
  return TSR_OK;
}

static void *work(void *opaque)
{
  member *m = opaque;
  for (int32_t turn = 0; turn < N_TURNS; turn++) {
    tsr_translation_request requests[N_EACH];
    tsr_translation *answers[N_EACH];
    fill_requests(m->options, N_EACH, requests);
    if (m->index % 3 == 2) {
      tsr_status status = tsr_translator_use(m->translator, 0, use, &m->n_wrong);
      m->n_wrong += status != TSR_OK;
      continue;
    }
    if (m->index % 3 == 1) { /* one by one, into the queue */
      check(tsr_translator_translate(m->translator, 1, requests + turn % N_EACH, answers));
      const tsr_translation *expected = m->expected[turn % N_EACH];
      m->n_wrong += strcmp(answers[0]->hypotheses[0]->text, expected->hypotheses[0]->text) != 0;
      tsr_translation_free(answers[0]);
      continue;
    }
    check(tsr_translator_translate(m->translator, N_EACH, requests, answers));
    for (int32_t i = 0; i < N_EACH; i++) {
      m->n_wrong += strcmp(answers[i]->hypotheses[0]->text, m->expected[i]->hypotheses[0]->text) != 0;
    }
    free_answers(N_EACH, answers);
  }
  return NULL;
}

static void check_many(int32_t is_static)
{
  tsr_translator *t = open_on("cpu", is_static);
  tsr_generate_options options = search_of(tsr_translator_model(t), 1);
  tsr_translation_request requests[N_EACH];
  tsr_translation *expected[N_EACH];
  member members[N_THREADS];
  fill_requests(&options, N_EACH, requests);
  check(tsr_translator_translate(t, N_EACH, requests, expected));
  atomic_store(&n_used, 0);
  for (int32_t i = 0; i < N_THREADS; i++) {
    members[i] = (member){.translator = t, .options = &options, .expected = expected, .index = i};
    assert_int_equal(pthread_create(&members[i].thread, NULL, work, &members[i]), 0);
  }
  for (int32_t i = 0; i < N_TURNS; i++) { /* texts that queue beside the calls */
    uint64_t ticket;
    tsr_translation *answer;
    check(tsr_translator_submit(t, &requests[i], NULL, NULL, &ticket));
    check(tsr_translator_wait(t, ticket, &answer));
    assert_string_equal(answer->hypotheses[0]->text, expected[i]->hypotheses[0]->text);
    tsr_translation_free(answer);
  }
  int32_t n_wrong = 0;
  for (int32_t i = 0; i < N_THREADS; i++) {
    pthread_join(members[i].thread, NULL);
    n_wrong += members[i].n_wrong;
  }
  assert_int_equal(n_wrong, 0);
  assert_int_equal(atomic_load(&n_used), N_THREADS / 3 * N_TURNS);
  free_answers(N_EACH, expected);
  tsr_translator_close(t);
}

static void test_many(void **state)
{
  (void)state;
  check_many(1);
  check_many(0);
}

static void *translate_all(void *opaque)
{
  member *m = opaque;
  tsr_translation_request requests[MOST_LINES];
  tsr_translation *answers[MOST_LINES];
  fill_requests(m->options, MOST_LINES, requests);
  check(tsr_translator_translate(m->translator, MOST_LINES, requests, answers));
  for (int32_t i = 0; i < MOST_LINES; i++) {
    m->n_wrong += answers[i]->status != TSR_OK && answers[i]->status != TSR_ERR_CANCELLED;
  }
  free_answers(MOST_LINES, answers);
  return NULL;
}

/* A call that is under way when the translator is closed has all its answers. */
static void test_close(void **state)
{
  (void)state;
  for (int32_t is_static = 0; is_static < 2; is_static++) {
    tsr_translator *t = open_on("cpu", is_static);
    tsr_generate_options options = search_of(tsr_translator_model(t), 4);
    tsr_translator_statistics s = {0};
    member m = {.translator = t, .options = &options};
    assert_int_equal(pthread_create(&m.thread, NULL, translate_all, &m), 0);
    while (s.running == 0 && s.answered == 0) {
      tsr_translator_measure(t, &s);
    }
    tsr_translator_close(t);
    pthread_join(m.thread, NULL);
    assert_int_equal(m.n_wrong, 0);
  }
}

typedef struct piece {
  tsr_translator *translator;
  char text[4096];
  int32_t cancels;
} piece;

static void on_piece(void *user, uint64_t ticket, const char *text, size_t size)
{
  piece *p = user;
  size_t before = strlen(p->text);
  snprintf(p->text + before, sizeof p->text - before, "%.*s", (int)size, text);
  if (p->cancels) {
    tsr_translator_cancel(p->translator, ticket);
  }
}

/* Text as it comes, which may give itself up. */
static void test_pieces(void **state)
{
  enum { N = 4 };
  static piece pieces[N];
  (void)state;
  tsr_translator *t = open_on("cpu", 1);
  tsr_generate_options options = search_of(tsr_translator_model(t), 1);
  tsr_translation_request requests[N];
  tsr_translation *answers[N];
  fill_requests(&options, N, requests);
  for (int32_t i = 0; i < N; i++) {
    pieces[i] = (piece){.translator = t, .cancels = i == 2};
    requests[i].piece = on_piece;
    requests[i].piece_user = &pieces[i];
    requests[i].max_source = i == 1 ? 5 : 0;
    requests[i].long_input = TSR_LONG_SPLIT;
  }
  check(tsr_translator_translate(t, N, requests, answers));
  for (int32_t i = 0; i < N; i++) {
    assert_int_equal(answers[i]->status, pieces[i].cancels ? TSR_ERR_CANCELLED : TSR_OK);
    if (!pieces[i].cancels) {
      assert_string_equal(pieces[i].text, answers[i]->hypotheses[0]->text);
    }
  }
  free_answers(N, answers);
  tsr_translator_close(t);
}

static tsr_status refuse(void *user, tsr_transformer *transformer)
{
  (void)user;
  (void)transformer;
  return tsr_fail(TSR_ERR_SHAPE, "as it likes");
}

static void test_use(void **state)
{
  (void)state;
  tsr_translator *t = open_on("cpu", 0);
  int32_t n_wrong = 0;
  assert_int_equal(tsr_translator_use(t, 0, refuse, NULL), TSR_ERR_SHAPE);
  assert_string_equal(tsr_error_message(), "as it likes");
  check(tsr_translator_use(t, 0, use, &n_wrong));
  assert_int_equal(n_wrong, 0);
  assert_int_equal(tsr_translator_use(t, 1, use, &n_wrong), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_translator_use(t, -1, use, &n_wrong), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_translator_use(t, 0, NULL, NULL), TSR_ERR_ARGUMENT);
  const tsr_transformer_config *config = tsr_model_config(tsr_translator_model(t));
  assert_int_equal(tsr_translator_max_source(t, NULL, 0), config->max_positions);
  assert_int_equal(tsr_translator_max_source(t, NULL, 7), 7);
  tsr_translator_close(t);
}

/* ---- devices that fail ------------------------------------------------------------------------------------------- */

/* What was finished stays; the rest goes to the other device, or has the error. */
static void check_failing(int32_t n_devices)
{
  enum { N = 12, RUNS = 20, RUNS_OF_FIRST_SHARE = 3 };
  static const char *const devices[] = {"fake", "cpu"};
  tsr_runtime *runtime;
  tsr_translator *t;
  tsr_translation_request requests[N];
  tsr_translation *answers[N];
  check(tsr_runtime_create(NULL, &runtime));
  check(tsr_runtime_register(runtime, query_fake));
  const tsr_translator_options options = {TSR_SIZED(tsr_translator_options),
                                          .n_devices = n_devices,
                                          .devices = devices,
                                          .runtime = runtime,
                                          .batch = 4,
                                          .static_batches = 1};
  check(tsr_translator_open(folder, &options, &t));
  tsr_generate_options search = search_of(tsr_translator_model(t), 1);
  search.max_length = 8;
  fill_requests(&search, N, requests);
  atomic_store(&runs_left, n_devices == 2 ? RUNS_OF_FIRST_SHARE : RUNS);
  check(tsr_translator_translate(t, N, requests, answers));
  int32_t n_good = 0, n_restarts = 0;
  for (int32_t i = 0; i < N; i++) {
    n_good += answers[i]->status == TSR_OK;
    n_restarts += answers[i]->n_restarts;
    assert_true(answers[i]->status == TSR_OK || answers[i]->status == TSR_ERR_DEVICE_LOST);
    assert_int_equal(answers[i]->is_about_text, 0);
  }
  free_answers(N, answers);
  assert_in_range(n_restarts, 1, N - 1);
  int32_t n_wrong = 0;
  tsr_status used = tsr_translator_use(t, 0, use, &n_wrong);
  if (n_devices == 2) {
    assert_int_equal(n_good, N);
    assert_int_equal(used, TSR_ERR_NO_DEVICE);
    check(tsr_translator_use(t, 1, use, &n_wrong));
    assert_int_equal(n_wrong, 0);
  } else {
    assert_in_range(n_good, 1, N - 1);
    assert_int_equal(used, TSR_ERR_DEVICE_LOST);
    check(tsr_translator_translate(t, 1, requests, answers));
    assert_int_equal(answers[0]->status, TSR_ERR_DEVICE_LOST);
    free_answers(1, answers);
  }
  tsr_translator_close(t);
  tsr_runtime_destroy(runtime);
}

static void test_failing(void **state)
{
  (void)state;
  check_failing(1);
  check_failing(2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_call),       cmocka_unit_test(test_together), cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_one_by_one), cmocka_unit_test(test_many),     cmocka_unit_test(test_close),
      cmocka_unit_test(test_pieces),     cmocka_unit_test(test_use),      cmocka_unit_test(test_failing),
      cmocka_unit_test(test_devices),    cmocka_unit_test(test_turns),
  };
  return cmocka_run_group_tests(tests, open_lines, close_lines);
}

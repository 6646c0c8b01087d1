/* SPDX-License-Identifier: Apache-2.0
 *
 * Pairs that a translator scores on its devices: whichever does, each has the score that one device gives.
 */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "core/translate/translate.h"
#include "tests/model/call_lines.h"

enum { MOST_NAPS = 6000 };

static const struct timespec a_nap = {.tv_nsec = 10000000};

/* Lines, each with the one behind it as its translation. */
typedef struct pairs {
  int32_t *source[MOST_LINES], *target[MOST_LINES];
  int32_t source_lengths[MOST_LINES], target_lengths[MOST_LINES];
  int32_t n;
} pairs;

static void open_pairs(const tsr_translator *t, int32_t n, pairs *p)
{
  const tsr_tokenizer *tokenizer = tsr_translator_tokenizer(t);
  p->n = n;
  for (int32_t i = 0; i < n; i++) {
    const char *source = lines[i], *target = lines[(i + 1) % MOST_LINES];
    check(tsr_tokenizer_encode(tokenizer, source, strlen(source), &p->source[i], &p->source_lengths[i]));
    check(tsr_tokenizer_encode_target(tokenizer, target, strlen(target), &p->target[i], &p->target_lengths[i]));
  }
}

static void close_pairs(pairs *p)
{
  for (int32_t i = 0; i < p->n; i++) {
    tsr_free(p->source[i]);
    tsr_free(p->target[i]);
  }
}

static tsr_status score(tsr_translator *t, const pairs *p, const tsr_score_options *options, int64_t *done,
                        tsr_scores *scores)
{
  *done = 0;
  return tsr_translator_score(t, p->n, (const int32_t *const *)p->source, p->source_lengths,
                              (const int32_t *const *)p->target, p->target_lengths, options, on_call_progress, done,
                              scores);
}

/* Each pair has its own score, whichever device scored it; how many were scored with it may change the last bits. */
static void expect_scores(const tsr_scores *scores, const tsr_scores *expected)
{
  assert_int_equal(scores->n_sentences, expected->n_sentences);
  for (int32_t i = 0; i < expected->n_sentences; i++) {
    const tsr_target_score *found = &scores->targets[i], *wanted = &expected->targets[i];
    assert_int_equal(found->n_tokens, wanted->n_tokens);
    assert_true(fabs(found->sum - wanted->sum) < 1e-3);
    assert_true(fabs(found->score - wanted->score) < 1e-3);
    for (int32_t k = 0; k < wanted->n_tokens; k++) {
      assert_true(fabsf(found->tokens[k] - wanted->tokens[k]) < 1e-3f);
    }
  }
}

typedef struct alone {
  const pairs *p;
  const tsr_score_options *options;
  tsr_scores scores;
} alone;

static tsr_status score_alone(void *user, tsr_transformer *transformer)
{
  alone *a = user;
  return tsr_score(transformer, a->p->n, (const int32_t *const *)a->p->source, a->p->source_lengths,
                   (const int32_t *const *)a->p->target, a->p->target_lengths, a->options, NULL, NULL, &a->scores);
}

static void check_scores(const char *const *devices, int32_t n_devices, int32_t is_static, int32_t n)
{
  static const int32_t start = 0;
  const tsr_score_options options = {TSR_SIZED(tsr_score_options), .n_batch = 3, .length_penalty = 0.5f,
                                     .decoder_start_id = &start};
  const tsr_translator_options wanted = {TSR_SIZED(tsr_translator_options), .n_devices = n_devices, .devices = devices,
                                         .static_batches = is_static};
  tsr_translator *t;
  tsr_scores scores;
  pairs p;
  int64_t done;
  check(tsr_translator_open(folder, &wanted, &t));
  open_pairs(t, n, &p);
  for (int32_t k = 0; k < 2; k++) { /* without options: a length_penalty of 1 */
    alone a = {.p = &p, .options = k > 0 ? &options : NULL};
    check(tsr_translator_use(t, n_devices - 1, score_alone, &a));
    for (int32_t turn = 0; turn < 3; turn++) { /* with speeds that are not known, and with those that are */
      check(score(t, &p, a.options, &done, &scores));
      assert_int_equal(done, n);
      expect_scores(&scores, &a.scores);
      tsr_scores_finish(&scores);
    }
    tsr_scores_finish(&a.scores);
  }
  close_pairs(&p);
  tsr_translator_close(t);
}

static void test_scores(void **state)
{
  (void)state;
  static const char *const twice[] = {"cpu", "cpu"}, *const spare[] = {"reference", "cpu"},
                           *const references[] = {"reference", "reference"};
  check_scores(twice, 2, 1, MOST_LINES);
  check_scores(twice, 2, 0, MOST_LINES);
  check_scores(twice, 1, 1, MOST_LINES / 2);
  check_scores(spare, 2, 1, 20);
  check_scores(references, 2, 0, 6);
  check_scores(twice, 2, 1, 1);
  check_scores(twice, 2, 1, 0);
}

/* What is wrong with a pair is told of it, whoever would have scored it; nothing is there then. */
static void test_scores_refused(void **state)
{
  (void)state;
  static const char *const devices[] = {"cpu", "cpu"};
  const tsr_translator_options wanted = {TSR_SIZED(tsr_translator_options), .n_devices = 2, .devices = devices,
                                         .static_batches = 1};
  tsr_score_options options = {TSR_SIZED(tsr_score_options), .n_batch = -1};
  tsr_translator *t;
  tsr_scores scores;
  pairs p;
  int64_t done;
  const char *message;
  check(tsr_translator_open(folder, &wanted, &t));
  open_pairs(t, 20, &p);
  assert_int_equal(score(t, &p, &options, &done, &scores), TSR_ERR_ARGUMENT);
  int32_t good = p.target[17][1];
  p.target[17][1] = 1 << 30;
  assert_int_equal(score(t, &p, NULL, &done, &scores), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_error_sentence(&message), 17);
  assert_non_null(strstr(tsr_error_message(), "target of sentence 17"));
  assert_int_equal(scores.n_sentences, 0);
  assert_null(scores.targets);
  p.target[17][1] = good;
  assert_int_equal(tsr_translator_score(NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &scores), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_translator_score(t, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &scores), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_translator_score(t, -1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, &scores), TSR_ERR_ARGUMENT);
  check(score(t, &p, NULL, &done, &scores));
  tsr_scores_finish(&scores);
  close_pairs(&p);
  tsr_translator_close(t);
}

static void *score_often(void *opaque)
{
  enum { TIMES = 6, N = 20 };
  tsr_translator *t = opaque;
  tsr_scores scores, first = {0};
  pairs p;
  int64_t done;
  open_pairs(t, N, &p);
  for (int32_t i = 0; i < TIMES; i++) {
    check(score(t, &p, NULL, &done, &scores));
    if (i == 0) {
      first = scores;
      continue;
    }
    expect_scores(&scores, &first);
    tsr_scores_finish(&scores);
  }
  tsr_scores_finish(&first);
  close_pairs(&p);
  return NULL;
}

/* Callers that score and one that translates have the devices in turns. */
static void test_scores_beside(void **state)
{
  (void)state;
  enum { N_SCORING = 3, N = 20 };
  static const char *const devices[] = {"cpu", "cpu"};
  for (int32_t is_static = 0; is_static < 2; is_static++) {
    const tsr_translator_options wanted = {TSR_SIZED(tsr_translator_options), .n_devices = 2, .devices = devices,
                                           .static_batches = is_static};
    tsr_translator *t;
    pthread_t threads[N_SCORING];
    tsr_translation_request requests[N];
    tsr_translation *answers[N];
    check(tsr_translator_open(folder, &wanted, &t));
    tsr_generate_options options = search_of(tsr_translator_model(t), 1);
    fill_requests(&options, N, requests);
    for (int32_t i = 0; i < N_SCORING; i++) {
      assert_int_equal(pthread_create(&threads[i], NULL, score_often, t), 0);
    }
    check(tsr_translator_translate(t, N, requests, answers));
    for (int32_t i = 0; i < N; i++) {
      assert_int_equal(answers[i]->status, TSR_OK);
    }
    free_answers(N, answers);
    for (int32_t i = 0; i < N_SCORING; i++) {
      pthread_join(threads[i], NULL);
    }
    tsr_translator_close(t);
  }
}

/* A call that scores while the translator is closed, each once. */
typedef struct last_call {
  tsr_translator *translator;
  pairs p;
  atomic_int has_begun, is_over;
  tsr_status status;
} last_call;

/* What of the translator the test waits for. */
static int is_closing(const tsr_translator *t)
{
  return t->is_closing;
}

static int has_two_holders(const tsr_translator *t)
{
  return t->seats[0].n_holders == 2;
}

static void wait_until(tsr_translator *t, int (*holds)(const tsr_translator *))
{
  for (int32_t naps = 0, is_so = 0; !is_so && naps < MOST_NAPS; naps++) {
    pthread_mutex_lock(&t->lock);
    is_so = holds(t);
    pthread_mutex_unlock(&t->lock);
    if (!is_so) {
      nanosleep(&a_nap, NULL);
    }
  }
}

/* There is more to do when the translator is closed. */
static void note_progress(void *user, int64_t done, int64_t total)
{
  last_call *c = user;
  assert_in_range(done, 1, total);
  atomic_store(&c->has_begun, 1);
  wait_until(c->translator, is_closing);
}

static void *score_last(void *opaque)
{
  last_call *c = opaque;
  const tsr_score_options options = {TSR_SIZED(tsr_score_options), .n_batch = 1, .length_penalty = 1.0f};
  tsr_scores scores;
  c->status = tsr_translator_score(c->translator, c->p.n, (const int32_t *const *)c->p.source, c->p.source_lengths,
                                   (const int32_t *const *)c->p.target, c->p.target_lengths, &options, note_progress, c,
                                   &scores);
  assert_null(scores.targets);
  atomic_store(&c->is_over, 1);
  return NULL;
}

typedef struct keeper {
  last_call *other;
  atomic_int has_it;
} keeper;

/* A tsr_translator_use_fn: keeps the device until the other call, which waits for it, has ended. */
static tsr_status keep(void *user, tsr_transformer *transformer)
{
  keeper *k = user;
  (void)transformer;
  atomic_store(&k->has_it, 1);
  for (int32_t naps = 0; !atomic_load(&k->other->is_over) && naps < MOST_NAPS; naps++) {
    nanosleep(&a_nap, NULL);
  }
  return TSR_OK;
}

static void *keep_device(void *opaque)
{
  keeper *k = opaque;
  check(tsr_translator_use(k->other->translator, 0, keep, k));
  return NULL;
}

/* In the middle of its shares, or while it waits for a device. */
static void test_scores_closed(void **state)
{
  (void)state;
  static const char *const devices[] = {"reference", "reference"};
  for (int32_t waits = 0; waits < 2; waits++) {
    const tsr_translator_options wanted = {TSR_SIZED(tsr_translator_options), .n_devices = waits ? 1 : 2,
                                           .devices = devices, .static_batches = 1};
    static last_call c;
    pthread_t thread, other;
    c = (last_call){.status = TSR_OK};
    check(tsr_translator_open(folder, &wanted, &c.translator));
    keeper k = {.other = &c};
    open_pairs(c.translator, MOST_LINES, &c.p);
    if (waits) {
      assert_int_equal(pthread_create(&other, NULL, keep_device, &k), 0);
      while (!atomic_load(&k.has_it)) {
        nanosleep(&a_nap, NULL);
      }
    }
    assert_int_equal(pthread_create(&thread, NULL, score_last, &c), 0);
    while (!waits && !atomic_load(&c.has_begun)) {
      sched_yield();
    }
    if (waits) {
      wait_until(c.translator, has_two_holders);
    }
    tsr_translator_close(c.translator);
    pthread_join(thread, NULL);
    assert_int_equal(c.status, TSR_ERR_CANCELLED);
    if (waits) {
      pthread_join(other, NULL);
    }
    close_pairs(&c.p);
  }
}

/* The pairs of a device that fails are scored by the other one; without one, there is an error and nothing else. */
static void check_failing_scores(int32_t n_devices, int32_t runs)
{
  enum { N = 12 };
  static const char *const devices[] = {"fake", "cpu"};
  tsr_runtime *runtime;
  tsr_translator *t;
  tsr_scores scores;
  pairs p;
  int64_t done = 0;
  check(tsr_runtime_create(NULL, &runtime));
  check(tsr_runtime_register(runtime, query_fake));
  const tsr_translator_options options = {TSR_SIZED(tsr_translator_options), .n_devices = n_devices, .devices = devices,
                                          .runtime = runtime, .static_batches = 1};
  const tsr_score_options batches = {TSR_SIZED(tsr_score_options), .n_batch = 1, .length_penalty = 1.0f};
  atomic_store(&runs_left, runs);
  check(tsr_translator_open(folder, &options, &t));
  open_pairs(t, N, &p);
  tsr_status status =
      tsr_translator_score(t, N, (const int32_t *const *)p.source, p.source_lengths, (const int32_t *const *)p.target,
                           p.target_lengths, &batches, NULL, NULL, &scores);
  if (n_devices == 2) {
    check(status);
    alone a = {.p = &p};
    check(tsr_translator_use(t, 1, score_alone, &a));
    expect_scores(&scores, &a.scores);
    tsr_scores_finish(&a.scores);
    tsr_scores_finish(&scores);
    check(score(t, &p, NULL, &done, &scores)); /* without it, from the start */
    assert_int_equal(done, N);
    tsr_scores_finish(&scores);
  } else {
    assert_int_equal(status, TSR_ERR_DEVICE_LOST);
    assert_null(scores.targets);
    assert_int_equal(score(t, &p, NULL, &done, &scores), TSR_ERR_DEVICE_LOST);
  }
  close_pairs(&p);
  tsr_translator_close(t);
  tsr_runtime_destroy(runtime);
}

static void test_scores_failing(void **state)
{
  (void)state;
  for (int32_t runs = 0; runs < 4; runs++) {
    check_failing_scores(1, runs);
    check_failing_scores(2, runs);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scores),        cmocka_unit_test(test_scores_refused), cmocka_unit_test(test_scores_beside),
      cmocka_unit_test(test_scores_closed), cmocka_unit_test(test_scores_failing),
  };
  return cmocka_run_group_tests(tests, open_lines, close_lines);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's translator: what a text gives is what a search of it alone gives, whoever asks at the same time; each
 * ticket is answered once, whatever becomes of it; a device that fails loses nothing.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/translator.h"
#include "tests/model/crowd.h"
#include "tests/model/generation.h"
#include "tests/support/failing.h"
#include "tests/support/sanitized.h"
#include "tools/random/random.h"

enum { MOST_LINES = 120, MOST_TOKENS = 40 };

static char **lines;
static char *folder;

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

static tsr_translator *open_translator(const tsr_translator_options *options)
{
  tsr_translator *t;
  check(tsr_translator_open(folder, options, &t));
  return t;
}

static tsr_translator *open_on(const char *device, int32_t most)
{
  return open_translator(
      &(tsr_translator_options){TSR_SIZED(tsr_translator_options), .n_devices = 1, .devices = &device, .batch = most});
}

static tsr_generate_options search_of(const tsr_translator *t, int32_t beam)
{
  tsr_generate_options options = {TSR_SIZED(tsr_generate_options)};
  check(tsr_generate_defaults(tsr_translator_model(t), &options));
  options.beam = beam;
  options.n_best = 1;
  options.max_length = MOST_TOKENS;
  return options;
}

static tsr_translation_request request_of(int32_t line, const tsr_generate_options *options)
{
  return (tsr_translation_request){TSR_SIZED(tsr_translation_request), .text = lines[line], .search = options,
                                   .number = line};
}

/* ---- company ----------------------------------------------------------------------------------------------------- */

typedef struct expected_text {
  char *text;
  float score;
} expected_text;

/* What a search of each line alone gives. */
static void search_alone(const char *device_name, const tsr_generate_options *options, int32_t n,
                         expected_text *expected)
{
  tsr_runtime *runtime;
  tsr_device *device;
  tsr_model *model;
  tsr_tokenizer *tokenizer;
  tsr_transformer *transformer;
  check(tsr_runtime_create(NULL, &runtime));
  check(tsr_device_open(runtime, device_name, &device));
  check(tsr_model_open(folder, &model));
  check(tsr_tokenizer_open(model, &tokenizer));
  check(tsr_transformer_create(model, device, NULL, &transformer));
  for (int32_t i = 0; i < n; i++) {
    tsr_generate_options one = *options;
    tsr_generation g;
    int32_t *ids, length;
    one.first_sentence = i;
    check(tsr_tokenizer_encode(tokenizer, lines[i], strlen(lines[i]), &ids, &length));
    const int32_t *source = ids;
    check(tsr_generate(transformer, 1, &source, &length, 1, &one, NULL, NULL, &g));
    check(tsr_tokenizer_decode(tokenizer, g.hypotheses[0].ids, g.hypotheses[0].n_ids, &expected[i].text));
    expected[i].score = g.hypotheses[0].score;
    tsr_generation_finish(&g);
    tsr_free(ids);
  }
  tsr_transformer_destroy(transformer);
  tsr_tokenizer_close(tokenizer);
  tsr_model_close(model);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

typedef struct asking {
  tsr_translator *translator;
  const tsr_generate_options *options;
  const expected_text *expected;
  int32_t n;     /* lines */
  int32_t first; /* the thread's own: first, first + step .. */
  int32_t step;
  int32_t n_wrong;
  pthread_t thread;
} asking;

static void *ask(void *opaque)
{
  asking *a = opaque;
  for (int32_t i = a->first; i < a->n; i += a->step) {
    int32_t line = (i * 37) % a->n; /* in no order */
    const tsr_translation_request request = request_of(line, a->options);
    tsr_translation *found = NULL;
    uint64_t ticket;
    if (tsr_translator_submit(a->translator, &request, NULL, NULL, &ticket) != TSR_OK ||
        tsr_translator_wait(a->translator, ticket, &found) != TSR_OK || found->status != TSR_OK) {
      fprintf(stderr, "line %d: %s\n", (int)line, found ? found->message : tsr_error_message());
      a->n_wrong++;
    } else {
      const tsr_translation_hypothesis *h = found->hypotheses[0];
      const expected_text *e = &a->expected[line];
      int is_same =
          strcmp(h->text, e->text) == 0 && (isnan(e->score) ? isnan(h->score) : fabsf(h->score - e->score) <= 1e-4f);
      if (!is_same) {
        fprintf(stderr, "line %d: '%s' %g, alone '%s' %g\n", (int)line, h->text, (double)h->score, e->text,
                (double)e->score);
      }
      a->n_wrong += !is_same;
    }
    tsr_translation_free(found);
  }
  return NULL;
}

static void check_company(const char *device, int32_t beam, int32_t is_sampled, int32_t n)
{
  enum { N_THREADS = 12 };
  expected_text expected[MOST_LINES];
  asking threads[N_THREADS];
  tsr_translator *t = open_on(device, 6);
  tsr_generate_options options = search_of(t, beam);
  options.sample = is_sampled;
  options.seed = 99;
  search_alone(device, &options, n, expected);
  for (int32_t i = 0; i < N_THREADS; i++) {
    threads[i] =
        (asking){.translator = t, .options = &options, .expected = expected, .n = n, .first = i, .step = N_THREADS};
    assert_int_equal(pthread_create(&threads[i].thread, NULL, ask, &threads[i]), 0);
  }
  int32_t n_wrong = 0;
  for (int32_t i = 0; i < N_THREADS; i++) {
    pthread_join(threads[i].thread, NULL);
    n_wrong += threads[i].n_wrong;
  }
  tsr_translator_statistics s;
  tsr_translator_measure(t, &s);
  if (n_wrong > 0 || s.joined == 0 || s.answered != n || s.waiting + s.running != 0) {
    fail_msg("%s, beam %d: %d of %d lines are others; %d joined, %d answered, %d wait or run", device, (int)beam,
             (int)n_wrong, (int)n, (int)s.joined, (int)s.answered, (int)(s.waiting + s.running));
  }
  tsr_translator_close(t);
  for (int32_t i = 0; i < n; i++) {
    tsr_free(expected[i].text);
  }
}

/* ThreadSanitizer follows the threads of a CPU's driver, which takes long and says nothing of ours. */
static int has_vulkan(void)
{
  if (TEST_FOLLOWS_THREADS) {
    return 0;
  }
  tsr_runtime *runtime;
  tsr_device *device = NULL;
  check(tsr_runtime_create(NULL, &runtime));
  int found = tsr_device_open(runtime, "vulkan:0", &device) == TSR_OK;
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
  return found;
}

static void test_company(void **state)
{
  (void)state;
  enum { N = TEST_IS_SANITIZED ? 40 : MOST_LINES };
  check_company("cpu", 1, 0, N);
  check_company("cpu", 4, 0, N);
  check_company("cpu", 1, 1, N);
  check_company("reference", 1, 0, 24);
  if (has_vulkan()) {
    check_company("vulkan:0", 1, 0, 24);
    check_company("vulkan:0", 4, 0, 12);
  }
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static tsr_translation *translate(tsr_translator *t, const tsr_translation_request *request)
{
  tsr_translation *answer = NULL;
  check(tsr_translator_translate(t, 1, request, &answer));
  return answer;
}

static void expect_refusal(tsr_translator *t, tsr_translation_request request, const char *message)
{
  tsr_translation *answer = translate(t, &request);
  assert_int_equal(answer->status, TSR_ERR_ARGUMENT);
  assert_int_equal(answer->n_hypotheses, 0);
  assert_non_null(strstr(answer->message, message));
  tsr_translation_free(answer);
}

static void test_requests(void **state)
{
  (void)state;
  tsr_translator *t = open_on("cpu", 0);
  tsr_generate_options options = search_of(t, 1);
  tsr_translation_request request = request_of(0, &options);
  request.text = " \t ";
  tsr_translation *answer = translate(t, &request);
  assert_int_equal(answer->status, TSR_OK);
  assert_int_equal(answer->n_parts, 0);
  assert_string_equal(answer->hypotheses[0]->text, "");
  tsr_translation_free(answer);

  request = request_of(0, &options);
  request.prefix = "Il";
  answer = translate(t, &request);
  assert_int_equal(strncmp(answer->hypotheses[0]->text, "Il", 2), 0);
  tsr_translation_free(answer);

  /* A text in parts: those of its parts, with blanks between them. */
  char text[1024], joined[4096];
  request.prefix = NULL;
  answer = translate(t, &request);
  const char *part = answer->hypotheses[0]->text;
  snprintf(text, sizeof text, "%s %s %s", lines[0], lines[0], lines[0]);
  snprintf(joined, sizeof joined, "%s %s %s", part, part, part);
  request.text = text;
  request.max_source = answer->n_source_tokens;
  request.long_input = TSR_LONG_SPLIT;
  tsr_translation_free(answer);
  answer = translate(t, &request);
  assert_int_equal(answer->n_parts, 3);
  assert_string_equal(answer->hypotheses[0]->text, joined);
  tsr_translation_free(answer);
  request.long_input = TSR_LONG_CUT;
  answer = translate(t, &request);
  assert_int_equal(answer->is_source_cut, 1);
  tsr_translation_free(answer);
  request.long_input = TSR_LONG_ERROR;
  expect_refusal(t, request, "tokens");

  options.alternatives = 3;
  request = request_of(1, &options);
  answer = translate(t, &request);
  assert_int_equal(answer->n_hypotheses, 3);
  assert_string_not_equal(answer->hypotheses[0]->text, answer->hypotheses[1]->text);
  tsr_translation_free(answer);

  options = search_of(t, 3);
  options.n_best = 3;
  options.attention = 1;
  request = request_of(1, &options);
  answer = translate(t, &request);
  assert_int_equal(answer->n_hypotheses, 3);
  assert_true(answer->hypotheses[0]->score >= answer->hypotheses[2]->score);
  assert_non_null(answer->hypotheses[0]->attention);
  tsr_translation_free(answer);

  request.source_language = "fra_Latn";
  expect_refusal(t, request, "fra_Latn");
  options.beam = -1;
  request = request_of(1, &options);
  expect_refusal(t, request, "beam");
  tsr_translator_close(t);
}

/* Each text is searched as it asks, whatever the others ask at the same time. */
static void test_classes(void **state)
{
  enum { N = 12, SHORT = 4 };
  (void)state;
  tsr_translator *t = open_on("cpu", 0);
  tsr_generate_options options[2] = {search_of(t, 1), search_of(t, 1)};
  tsr_translation_request requests[N];
  tsr_translation *answers[N];
  options[1].max_length = SHORT;
  for (int32_t i = 0; i < N; i++) {
    requests[i] = request_of(i, &options[i % 2]);
  }
  check(tsr_translator_translate(t, N, requests, answers));
  for (int32_t i = 0; i < N; i++) {
    assert_int_equal(answers[i]->status, TSR_OK);
    assert_int_equal(answers[i]->hypotheses[0]->n_ids < SHORT, i % 2);
    assert_int_equal(answers[i]->hypotheses[0]->is_cut, i % 2);
    tsr_translation_free(answers[i]);
  }
  tsr_translator_close(t);
}

/* ---- endings ----------------------------------------------------------------------------------------------------- */

enum { MOST_TICKETS = TEST_IS_SANITIZED ? 120 : 400 };

typedef struct chaos {
  tsr_translator *translator;
  tsr_generate_options options[2];
  uint64_t seed;
  int32_t n_submitted, n_refused;
  int32_t n_answers[MOST_TICKETS]; /* by place */
  int32_t n_by_status[TSR_ERR_DEADLINE + 1];
  pthread_mutex_t lock;
  pthread_t thread;
} chaos;

typedef struct place {
  chaos *owner;
  int32_t index;
} place;

static void on_answer(void *user, uint64_t ticket, const tsr_translation *translation)
{
  const place *p = user;
  (void)ticket;
  pthread_mutex_lock(&p->owner->lock);
  p->owner->n_answers[p->index]++;
  p->owner->n_by_status[translation->status]++;
  pthread_mutex_unlock(&p->owner->lock);
}

static place places[4][MOST_TICKETS];

static void *submit_wildly(void *opaque)
{
  chaos *c = opaque;
  place *own = places[c->seed % 4];
  uint64_t seed = 1000 + c->seed;
  for (int32_t i = 0; i < MOST_TICKETS; i++) {
    tsr_translation_request request =
        request_of(tsr_random_below(&seed, MOST_LINES), &c->options[tsr_random_below(&seed, 2)]);
    uint64_t ticket = 0;
    /* Some are late on any machine. */
    request.timeout = tsr_random_below(&seed, 4) == 0 ? 1e-9 + 1e-3 * tsr_random_below(&seed, 20) : 0.0;
    own[i] = (place){c, i};
    tsr_status status = tsr_translator_submit(c->translator, &request, on_answer, &own[i], &ticket);
    c->n_submitted += status == TSR_OK;
    c->n_refused += status == TSR_ERR_BUSY;
    if (status != TSR_OK) {
      c->n_answers[i] = 1;
    }
    if (status == TSR_OK && tsr_random_below(&seed, 3) == 0) {
      tsr_translator_cancel(c->translator, ticket);
    }
    if (tsr_random_below(&seed, 40) == 0) {
      tsr_translator_drain(c->translator);
    }
  }
  return NULL;
}

static void test_endings(void **state)
{
  enum { N_THREADS = 4 };
  static chaos all[N_THREADS];
  (void)state;
  const char *device = "cpu";
  tsr_translator *t = open_translator(&(tsr_translator_options){TSR_SIZED(tsr_translator_options), .n_devices = 1,
                                                                .devices = &device, .batch = 4, .queue = 50});
  for (uint64_t i = 0; i < N_THREADS; i++) {
    all[i] = (chaos){.translator = t, .seed = i, .options = {search_of(t, 1), search_of(t, 2)}};
    all[i].options[0].max_length = all[i].options[1].max_length = 6;
    pthread_mutex_init(&all[i].lock, NULL);
    assert_int_equal(pthread_create(&all[i].thread, NULL, submit_wildly, &all[i]), 0);
  }
  int32_t n_by_status[TSR_ERR_DEADLINE + 1] = {0}, n_submitted = 0, n_refused = 0;
  for (int32_t i = 0; i < N_THREADS; i++) {
    pthread_join(all[i].thread, NULL);
  }
  uint64_t unasked;
  tsr_translator_drain(t);
  tsr_translation_request request = request_of(0, &all[0].options[0]);
  check(tsr_translator_submit(t, &request, NULL, NULL, &unasked)); /* nobody waits for it */
  tsr_translator_close(t);
  for (int32_t i = 0; i < N_THREADS; i++) {
    for (int32_t k = 0; k < MOST_TICKETS; k++) {
      if (all[i].n_answers[k] != 1) {
        fail_msg("thread %d, text %d: %d answers", (int)i, (int)k, (int)all[i].n_answers[k]);
      }
    }
    for (int32_t k = 0; k <= TSR_ERR_DEADLINE; k++) {
      n_by_status[k] += all[i].n_by_status[k];
    }
    n_submitted += all[i].n_submitted;
    n_refused += all[i].n_refused;
    pthread_mutex_destroy(&all[i].lock);
  }
  assert_int_equal(n_submitted + n_refused, N_THREADS * MOST_TICKETS);
  assert_int_equal(n_by_status[TSR_OK] + n_by_status[TSR_ERR_CANCELLED] + n_by_status[TSR_ERR_DEADLINE], n_submitted);
  assert_true(n_by_status[TSR_OK] > 0 && n_by_status[TSR_ERR_CANCELLED] > 0 && n_by_status[TSR_ERR_DEADLINE] > 0);
}

/* ---- devices that fail ------------------------------------------------------------------------------------------- */

/* How many of the lines were translated. */
static int32_t translate_on(const char *const *devices, int32_t n_devices, int32_t n_runs, int32_t n,
                            tsr_translator_statistics *statistics, int32_t *n_restarts)
{
  tsr_runtime *runtime;
  tsr_translation_request requests[MOST_LINES];
  tsr_translation *answers[MOST_LINES];
  fail_after_runs(n_runs);
  check(tsr_runtime_create(NULL, &runtime));
  register_failing(runtime);
  tsr_translator *t = open_translator(&(tsr_translator_options){
      TSR_SIZED(tsr_translator_options), .n_devices = n_devices, .devices = devices, .runtime = runtime, .batch = 4});
  tsr_generate_options options = search_of(t, 1);
  int32_t n_good = 0;
  options.max_length = 8;
  for (int32_t i = 0; i < n; i++) {
    requests[i] = request_of(i, &options);
  }
  check(tsr_translator_translate(t, n, requests, answers));
  *n_restarts = 0;
  for (int32_t i = 0; i < n; i++) {
    assert_true(answers[i]->status == TSR_OK || answers[i]->status == TSR_ERR_DEVICE_LOST);
    n_good += answers[i]->status == TSR_OK;
    *n_restarts += answers[i]->n_restarts;
    tsr_translation_free(answers[i]);
  }
  tsr_translator_measure(t, statistics);
  tsr_translator_device device;
  int32_t n_lost = 0;
  for (int32_t i = 0; i < n_devices; i++) {
    check(tsr_translator_get_device(t, i, &device));
    assert_memory_equal(device.name, devices[i], strlen(devices[i]));
    assert_true(device.is_lost || device.bytes_in_use > 0);
    n_lost += device.is_lost;
  }
  assert_int_equal(statistics->devices, n_devices - n_lost);
  assert_int_equal(tsr_translator_get_device(t, n_devices, &device), TSR_ERR_ARGUMENT);
  uint64_t ticket;
  tsr_status status = tsr_translator_submit(t, &requests[0], NULL, NULL, &ticket);
  assert_int_equal(status, statistics->devices > 0 ? TSR_OK : TSR_ERR_DEVICE_LOST);
  tsr_translator_close(t);
  tsr_runtime_destroy(runtime);
  return n_good;
}

static void test_failing(void **state)
{
  enum { N = 12, SOME = 20, FEW = 5, MANY = 60 };
  static const char *const two[] = {"failing", "cpu"}, *const one[] = {"failing"};
  tsr_translator_statistics s = {.devices = 2};
  int32_t n_restarts;
  (void)state;
  for (int32_t i = 0; i < 10 && s.devices == 2; i++) { /* the other one may have taken all texts before it began */
    assert_int_equal(translate_on(two, 2, FEW, MANY, &s, &n_restarts), MANY);
  }
  assert_int_equal(s.devices, 1);
  assert_true(n_restarts > 0);
  int32_t n_good = translate_on(one, 1, SOME, N, &s, &n_restarts);
  assert_in_range(n_good, 1, N - 1);
  assert_int_equal(s.devices, 0);
  assert_int_equal(s.answered, N);
  assert_int_equal(s.failed, N - n_good);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_company), cmocka_unit_test(test_requests), cmocka_unit_test(test_classes),
      cmocka_unit_test(test_endings), cmocka_unit_test(test_failing),
  };
  return cmocka_run_group_tests(tests, open_lines, close_lines);
}

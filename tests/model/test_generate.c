/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiny random models on every device that is found: steps against teacher forcing, batches against single sentences,
 * devices against the reference, and what a long decode loop costs.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/model/generation.h"
#include "tests/model/random_model.h"

enum { N_SENTENCES = 9 };

static const random_model models[] = {
    {.seed = 11},
    {.seed = 12, .nn = 1},
    {.seed = 13, .nn = 1, .norm_first = 1, .d_model = 20, .heads = 5, .layers = 1, .vocabulary = 53},
    {.seed = 14, .d_model = 18, .layers = 1, .vocabulary = 37, .target = 23},
    {.seed = 15, .nn = 1, .max_distance = 3},
    {.seed = 16, .nn = 1, .max_distance = 1, .norm_first = 1, .d_model = 20, .heads = 5, .vocabulary = 41},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

/* ---- steps against teacher forcing ------------------------------------------------------------------------------- */

static void check_greedy(const float *logits, int32_t vocabulary, const tsr_hypothesis *h)
{
  for (int32_t t = 0; t < h->n_ids; t++) {
    const float *row = logits + (size_t)t * (size_t)vocabulary;
    int32_t best = 0;
    for (int32_t v = 1; v < vocabulary; v++) {
      best = row[v] > row[best] ? v : best;
    }
    assert_int_equal(best, h->ids[t]);
  }
}

static void check_score(const float *logits, int32_t vocabulary, float penalty, const tsr_hypothesis *h)
{
  double sum = 0.0;
  for (int32_t t = 0; t < h->n_ids; t++) {
    sum += log_probability(logits + (size_t)t * (size_t)vocabulary, vocabulary, h->ids[t]);
  }
  double score = sum / pow((double)h->n_ids, (double)penalty);
  if (!(fabs(score - (double)h->score) <= 1e-5 * fmax(1.0, fabs(score)))) {
    fail_msg("score %.9g, by teacher forcing %.9g", (double)h->score, score);
  }
}

static void check_against_forcing(const setup *s, const batch *b, int32_t beam)
{
  int32_t vocabulary = tsr_model_config(s->model)->target_vocabulary;
  tsr_generate_options options = options_for(s, beam);
  tsr_generation generation;
  check(tsr_generate(s->transformer, N_SENTENCES, b->source, b->lengths, 4, &options, NULL, NULL, &generation));
  for (int32_t i = 0; i < N_SENTENCES; i++) {
    for (int32_t j = 0; j < options.n_best; j++) {
      const tsr_hypothesis *h = &generation.hypotheses[i * options.n_best + j];
      if (b->lengths[i] == 0) {
        assert_int_equal(h->n_ids, 0);
        continue;
      }
      assert_in_range(h->n_ids, 1, options.max_length - 1);
      float *logits = forced_logits(s, b->source[i], b->lengths[i], h->ids, h->n_ids);
      if (beam == 1) {
        assert_true(isnan(h->score));
        check_greedy(logits, vocabulary, h);
      } else {
        check_score(logits, vocabulary, options.length_penalty, h);
        assert_true(j == 0 || h->score <= h[-1].score);
      }
      free(logits);
    }
  }
  tsr_generation_finish(&generation);
}

static void test_steps_equal_forcing(void **state)
{
  const fixture *f = *state;
  for (int32_t m = 0; m < N_MODELS; m++) {
    random_model_write(f->folder, &models[m]);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      setup s;
      batch b;
      open_setup(f, device_name(f, d), NULL, &s);
      make_batch(models[m].seed, 37, N_SENTENCES, &b);
      check_against_forcing(&s, &b, 1);
      check_against_forcing(&s, &b, 3);
      close_setup(&s);
      free_batch(&b);
    }
  }
}

/* ---- batches against single sentences ---------------------------------------------------------------------------- */

static void compare_generations(const setup *a, int32_t batch_a, const setup *b, int32_t batch_b, const batch *sources,
                                const tsr_generate_options *options)
{
  tsr_generation x;
  tsr_generation y;
  check(tsr_generate(a->transformer, N_SENTENCES, sources->source, sources->lengths, batch_a, options, NULL, NULL, &x));
  check(tsr_generate(b->transformer, N_SENTENCES, sources->source, sources->lengths, batch_b, options, NULL, NULL, &y));
  for (int32_t i = 0; i < N_SENTENCES * options->n_best; i++) {
    assert_same(&x.hypotheses[i], &y.hypotheses[i]);
  }
  tsr_generation_finish(&x);
  tsr_generation_finish(&y);
}

static tsr_generate_options with_everything(tsr_generate_options options)
{
  options.no_repeat_ngram = 2;
  options.min_length = 6;
  options.forced_bos_id = 3;
  options.forced_eos_id = 0;
  static const int32_t suppressed[] = {5};
  options.suppressed = suppressed;
  options.n_suppressed = 1;
  options.early_stopping = TSR_EARLY_TRUE;
  return options;
}

static void test_batches_equal_single_sentences(void **state)
{
  const fixture *f = *state;
  for (int32_t m = 0; m < N_MODELS; m++) {
    random_model_write(f->folder, &models[m]);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      setup s;
      batch b;
      open_setup(f, device_name(f, d), NULL, &s);
      make_batch(models[m].seed + 1, 37, N_SENTENCES, &b);
      for (int32_t beam = 1; beam <= 4; beam += 3) {
        tsr_generate_options options = options_for(&s, beam);
        compare_generations(&s, 32, &s, 1, &b, &options);
        options = with_everything(options);
        compare_generations(&s, 3, &s, 1, &b, &options);
      }
      close_setup(&s);
      free_batch(&b);
    }
  }
}

/* A batch of all sentences on a device, against one sentence at a time on another. Returns 1 if there were fewer rows
 * in the end. */
static int32_t check_fewer_rows(const fixture *f, const char *device, int32_t eos, const batch *b,
                                const tsr_generate_options *options, const tsr_generation *y)
{
  setup s;
  tsr_generation x;
  open_setup(f, device, &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .workers = 1, .strict = 1}, &s);
  s.model->config.eos_id = eos;
  check(tsr_generate(s.transformer, b->n, b->source, b->lengths, b->n, options, NULL, NULL, &x));
  for (int32_t i = 0; i < b->n * options->n_best; i++) {
    assert_same(&x.hypotheses[i], &y->hypotheses[i]);
  }
  int32_t fewer = smallest_step(s.transformer) < b->n;
  tsr_generation_finish(&x);
  close_setup(&s);
  return fewer;
}

/* Sentences that end early leave their rows to others, and nothing changes for those. */
static void test_fewer_rows(void **state)
{
  enum { N = 30, MOST_DEVICES = 16 };
  const fixture *f = *state;
  for (int32_t m = 0; m < N_MODELS; m++) {
    random_model_write(f->folder, &models[m]);
    setup single;
    batch b;
    open_setup(f, "reference", &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .workers = 1}, &single);
    make_batch(models[m].seed + 3, 37, N, &b);
    choose_end(&single, &b);
    int32_t n_fewer[MOST_DEVICES] = {0};
    assert_in_range(tsr_runtime_device_count(f->runtime), 1, MOST_DEVICES);
    for (int32_t how = m == 0 ? 0 : 3; how < 5; how++) {
      tsr_generate_options options = options_for(&single, how < 4 && how % 2 == 1 ? 3 : 1);
      options.max_length = 60;
      options.early_stopping = TSR_EARLY_TRUE;
      if (how == 2 || how == 3) {
        options = with_everything(options);
      }
      if (how == 4) {
        options.sample = 1;
        options.n_best = 2;
      }
      tsr_generation y;
      check(tsr_generate(single.transformer, N, b.source, b.lengths, 1, &options, NULL, NULL, &y));
      for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
        n_fewer[d] += check_fewer_rows(f, device_name(f, d), single.model->config.eos_id, &b, &options, &y);
      }
      tsr_generation_finish(&y);
    }
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      if (n_fewer[d] == 0) {
        fail_msg("model %d, %s: no sentence ended early enough for this test", (int)m, device_name(f, d));
      }
    }
    free_batch(&b);
    close_setup(&single);
  }
}

/* Ends all sentences but the first. */
static int32_t keep_first(void *user, const tsr_token *token)
{
  (void)user;
  return token->sentence > 0 && token->step > 0;
}

/* Where each row costs time, a sentence that is left alone pays for no other. */
static void test_left_alone(void **state)
{
  enum { N = 4 };
  const fixture *f = *state;
  random_model_write(f->folder, &models[0]);
  for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
    setup s;
    batch b;
    tsr_generation g;
    open_setup(f, device_name(f, d), &(tsr_transformer_options){TSR_SIZED(tsr_transformer_options), .workers = 1}, &s);
    make_batch(7, 37, N, &b);
    for (int32_t i = 0; i < N; i++) {
      b.lengths[i] = b.lengths[i] > 0 ? b.lengths[i] : 1;
    }
    tsr_generate_options options = options_for(&s, 1);
    options.max_length = 12;
    options.min_length = 11;
    options.token = keep_first;
    check(tsr_generate(s.transformer, N, b.source, b.lengths, N, &options, NULL, NULL, &g));
    if (tsr_device_get_properties(s.device)->rows_at_once == 1) {
      assert_int_equal(smallest_step(s.transformer), 1);
    }
    tsr_generation_finish(&g);
    free_batch(&b);
    close_setup(&s);
  }
}

/* What the settings forbid does not come out. */
static void test_settings_hold(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &models[0]);
  setup s;
  batch b;
  open_setup(f, "reference", NULL, &s);
  make_batch(5, 37, N_SENTENCES, &b);
  for (int32_t beam = 1; beam <= 4; beam += 3) {
    tsr_generate_options options = with_everything(options_for(&s, beam));
    tsr_generation g;
    check(tsr_generate(s.transformer, N_SENTENCES, b.source, b.lengths, 0, &options, NULL, NULL, &g));
    for (int32_t i = 0; i < N_SENTENCES * options.n_best; i++) {
      const tsr_hypothesis *h = &g.hypotheses[i];
      if (h->n_ids == 0) {
        continue;
      }
      assert_true(h->n_ids >= options.min_length);
      assert_int_equal(h->ids[0], 3);
      assert_int_equal(h->ids[h->n_ids - 1], 0);
      for (int32_t t = 0; t + 1 < h->n_ids; t++) {
        assert_int_not_equal(h->ids[t], 5);
        for (int32_t u = t + 1; u + 1 < h->n_ids - 1; u++) {
          assert_false(h->ids[t] == h->ids[u] && h->ids[t + 1] == h->ids[u + 1]);
        }
      }
    }
    tsr_generation_finish(&g);
  }
  close_setup(&s);
  free_batch(&b);
}

static int holds_pair(const tsr_hypothesis *h, const int32_t *pair)
{
  for (int32_t t = 0; t + 1 < h->n_ids; t++) {
    if (h->ids[t] == pair[0] && h->ids[t + 1] == pair[1]) {
      return 1;
    }
  }
  return 0;
}

/* Words of several tokens do not come out, their first tokens may. */
static void test_words(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &models[0]);
  setup s;
  batch b;
  open_setup(f, "reference", NULL, &s);
  make_batch(5, 37, N_SENTENCES, &b);
  for (int32_t beam = 1; beam <= 3; beam += 2) {
    tsr_generate_options options = options_for(&s, beam);
    tsr_generation g;
    check(tsr_generate(s.transformer, 1, b.source, b.lengths, 0, &options, NULL, NULL, &g));
    assert_true(g.hypotheses[0].n_ids > 1);
    const int32_t *ids = g.hypotheses[0].ids;
    const int32_t words[] = {2, ids[0], ids[1], 2, 36, 36};
    options.n_words = (int32_t)(sizeof words / sizeof words[0]);
    options.words = words;
    tsr_generation banned;
    check(tsr_generate(s.transformer, N_SENTENCES, b.source, b.lengths, 0, &options, NULL, NULL, &banned));
    int32_t first_tokens = 0;
    for (int32_t i = 0; i < N_SENTENCES * options.n_best; i++) {
      assert_false(holds_pair(&banned.hypotheses[i], words + 1));
      for (int32_t t = 0; t < banned.hypotheses[i].n_ids; t++) {
        first_tokens += banned.hypotheses[i].ids[t] == words[1];
      }
    }
    assert_true(first_tokens > 0);
    /* A word longer than what there is when its last token comes bans nothing. */
    options.n_words = 4;
    int32_t longer[] = {3, s.model->config.decoder_start_id, ids[0], ids[1]};
    options.words = longer;
    tsr_generation same;
    check(tsr_generate(s.transformer, 1, b.source, b.lengths, 0, &options, NULL, NULL, &same));
    assert_memory_equal(same.hypotheses[0].ids, ids, 2 * sizeof *ids);
    tsr_generation_finish(&same);
    longer[0] = 4;
    tsr_generation none;
    assert_int_equal(tsr_generate(s.transformer, 1, b.source, b.lengths, 0, &options, NULL, NULL, &none),
                     TSR_ERR_ARGUMENT);
    tsr_generation_finish(&banned);
    tsr_generation_finish(&g);
  }
  close_setup(&s);
  free_batch(&b);
}

/* Normalised again, the probabilities of what is not banned have a sum of 1. */
static void test_renormalize(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &models[0]);
  setup s;
  batch b;
  open_setup(f, "reference", NULL, &s);
  make_batch(6, 37, N_SENTENCES, &b);
  int32_t vocabulary = s.model->config.target_vocabulary;
  tsr_generate_options options = options_for(&s, 3);
  options.renormalize = 1;
  options.n_suppressed = 2;
  options.suppressed = (const int32_t[]){5, 36};
  for (int32_t n_words = 0; n_words <= 3; n_words += 3) {
    options.n_words = n_words; /* with a word, the mask has a row for each hypothesis */
    options.words = (const int32_t[]){2, 36, 36};
    tsr_generation g;
    check(tsr_generate(s.transformer, N_SENTENCES, b.source, b.lengths, 4, &options, NULL, NULL, &g));
    for (int32_t i = 0; i < N_SENTENCES * options.n_best; i++) {
      const tsr_hypothesis *h = &g.hypotheses[i];
      if (h->n_ids == 0) {
        continue;
      }
      int32_t sentence = i / options.n_best;
      float *logits = forced_logits(&s, b.source[sentence], b.lengths[sentence], h->ids, h->n_ids);
      for (int32_t t = 0; t < h->n_ids; t++) {
        logits[(size_t)t * (size_t)vocabulary + 5] = logits[(size_t)t * (size_t)vocabulary + 36] = -INFINITY;
      }
      check_score(logits, vocabulary, options.length_penalty, h);
      free(logits);
    }
    tsr_generation_finish(&g);
  }
  close_setup(&s);
  free_batch(&b);
}

/* ---- what is left behind in states and caches -------------------------------------------------------------------- */

static void spoil(const tsr_state_pool *pool, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    int64_t size = tsr_buffer_size(pool->buffers[i]);
    void *bytes = malloc((size_t)size);
    assert_non_null(bytes);
    memset(bytes, 0xff, (size_t)size); /* every float a NaN */
    check(tsr_buffer_write(pool->buffers[i], 0, size, bytes));
    free(bytes);
  }
}

/* Keys and values of earlier batches are not seen, whatever they hold; nor does it matter which programs are kept. */
static void test_stale_states(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &models[1]);
  for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
    setup fresh;
    setup used;
    batch b;
    const tsr_transformer_options few = {TSR_SIZED(tsr_transformer_options), .cache = 2};
    open_setup(f, device_name(f, d), NULL, &fresh);
    open_setup(f, device_name(f, d), &few, &used);
    make_batch(21, 37, N_SENTENCES, &b);
    for (int32_t beam = 1; beam <= 4; beam += 3) {
      tsr_generate_options options = options_for(&used, beam);
      compare_generations(&fresh, 0, &used, 2, &b, &options);
      spoil(&used.transformer->cross, 2 * used.model->config.decoder_layers);
      spoil(&used.transformer->self, 2 * used.model->config.decoder_layers);
      compare_generations(&fresh, 0, &used, 4, &b, &options);
    }
    close_setup(&used);
    close_setup(&fresh);
    free_batch(&b);
  }
}

/* ---- devices against the reference ------------------------------------------------------------------------------- */

static void compare_values(const float *a, const float *b, size_t n)
{
  float magnitude = 0.0f;
  for (size_t i = 0; i < n; i++) {
    magnitude = fmaxf(magnitude, fabsf(a[i]));
  }
  for (size_t i = 0; i < n; i++) {
    if (!(fabsf(a[i] - b[i]) <= 1e-5f * magnitude)) {
      fail_msg("element %zu: %.9g and %.9g, of %.9g", i, (double)a[i], (double)b[i], (double)magnitude);
    }
  }
}

static void compare_forward(const setup *a, const setup *b)
{
  enum { B = 2, S = 11, L = 7 };
  const tsr_transformer_config *config = tsr_model_config(a->model);
  const int32_t lengths[B] = {S, S};
  int32_t source[B * S];
  int32_t target[B * L];
  uint64_t seed = 99;
  size_t n_encoder = (size_t)B * S * (size_t)config->d_model;
  size_t n_logits = (size_t)B * L * (size_t)config->target_vocabulary;
  float *values = malloc(2 * (n_encoder + n_logits) * sizeof *values);
  assert_non_null(values);
  for (int32_t i = 0; i < B * S; i++) {
    source[i] = tsr_random_below(&seed, config->source_vocabulary);
  }
  for (int32_t i = 0; i < B * L; i++) {
    target[i] = tsr_random_below(&seed, config->target_vocabulary);
  }
  float *encoder[2] = {values, values + n_encoder};
  float *logits[2] = {values + 2 * n_encoder, values + 2 * n_encoder + n_logits};
  check(tsr_transformer_forward(a->transformer, B, S, source, lengths, L, target, encoder[0], logits[0]));
  check(tsr_transformer_forward(b->transformer, B, S, source, lengths, L, target, encoder[1], logits[1]));
  compare_values(encoder[0], encoder[1], n_encoder);
  compare_values(logits[0], logits[1], n_logits);
  free(values);
}

static void test_devices_equal_reference(void **state)
{
  const fixture *f = *state;
  for (int32_t m = 0; m < N_MODELS; m++) {
    random_model_write(f->folder, &models[m]);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      const tsr_dtype types[] = {TSR_F32, TSR_F16, TSR_BF16};
      for (size_t w = 0; w < 3; w++) {
        setup reference;
        setup s;
        batch b;
        tsr_transformer_options options = {TSR_SIZED(tsr_transformer_options), .weights = types[w]};
        open_setup(f, "reference", &options, &reference);
        open_setup(f, device_name(f, d), &options, &s);
        make_batch(models[m].seed + 2, 37, N_SENTENCES, &b);
        const int precise = is_precise(&s, types[w]);
        if (precise) {
          compare_forward(&reference, &s);
        }
        for (int32_t beam = 1; beam <= 4 && precise; beam += 3) {
          tsr_generate_options generate = options_for(&s, beam);
          compare_generations(&reference, 0, &s, 0, &b, &generate);
        }
        close_setup(&s);
        close_setup(&reference);
        free_batch(&b);
      }
    }
  }
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void test_bad_arguments(void **state)
{
  const fixture *f = *state;
  random_model_write(f->folder, &models[0]);
  setup s;
  open_setup(f, "reference", NULL, &s);
  const int32_t ids[2] = {1, 37};
  const int32_t *source[1] = {ids};
  int32_t length = 2;
  tsr_generation g;
  tsr_generate_options options = options_for(&s, 1);
  assert_int_equal(tsr_generate(s.transformer, 1, source, &length, 0, &options, NULL, NULL, &g), TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "37"));
  length = 65;
  assert_int_equal(tsr_generate(s.transformer, 1, source, &length, 0, &options, NULL, NULL, &g), TSR_ERR_ARGUMENT);
  length = 1;
  options.max_length = 66;
  assert_int_equal(tsr_generate(s.transformer, 1, source, &length, 0, &options, NULL, NULL, &g), TSR_ERR_ARGUMENT);
  options.max_length = 65;
  check(tsr_generate(s.transformer, 1, source, &length, 0, &options, NULL, NULL, &g));
  tsr_generation_finish(&g);
  check(tsr_generate(s.transformer, 0, NULL, NULL, 0, &options, NULL, NULL, &g));
  assert_int_equal(g.n_sentences, 0);
  tsr_generation_finish(&g);
  options.n_best = 2;
  assert_int_equal(tsr_generate(s.transformer, 1, source, &length, 0, &options, NULL, NULL, &g), TSR_ERR_ARGUMENT);
  float value = 0.0f;
  assert_int_equal(tsr_transformer_forward(s.transformer, 1, 2, ids, &(int32_t){2}, 1, ids, NULL, &value),
                   TSR_ERR_ARGUMENT);
  close_setup(&s);
}

/* ---- what a long loop costs -------------------------------------------------------------------------------------- */

static void read_counters(const setup *s, tsr_device_counters *device, tsr_generate_statistics *statistics)
{
  check(tsr_device_get_counters(s->device, device));
  tsr_generate_measure(s->transformer, statistics);
}

/* Once its states and programs are there, the same work only runs: one submit a program, nothing allocated, recorded or
 * compiled; the cache outgrows its room with a run each time. The first round makes the states grow, which drops
 * programs; the second makes them again. */
static void check_loop(const setup *s, int32_t beam)
{
  enum { N_GROWTHS = 3 /* from 32 positions to 64, 128 and 200 */ };
  const int32_t ids[5] = {3, 1, 4, 1, 5};
  const int32_t *source[2] = {ids, ids + 2};
  const int32_t lengths[2] = {5, 3};
  tsr_generate_options options = options_for(s, beam);
  options.max_length = 201;
  options.min_length = 300; /* no end before max_length */
  options.n_best = 1;
  tsr_device_counters before = {0};
  tsr_device_counters after = {0};
  tsr_generate_statistics work_before;
  tsr_generate_statistics work_after;
  for (int32_t round = 0; round < 3; round++) {
    tsr_generation g;
    before = after;
    read_counters(s, &before, &work_before);
    check(tsr_generate(s->transformer, 2, source, lengths, 0, &options, NULL, NULL, &g));
    read_counters(s, &after, &work_after);
    assert_int_equal(g.hypotheses[0].n_ids, 200);
    tsr_generation_finish(&g);
  }
  uint64_t steps = (uint64_t)(work_after.step_runs - work_before.step_runs);
  uint64_t runs = steps + (uint64_t)(work_after.encode_runs - work_before.encode_runs) + N_GROWTHS;
  assert_int_equal(steps, 200);
  assert_int_equal(after.runs - before.runs, runs);
  assert_int_equal(after.submits - before.submits, runs);
  assert_int_equal(after.allocations, before.allocations);
  assert_int_equal(after.recordings, before.recordings);
  assert_int_equal(after.pipelines, before.pipelines);
  assert_int_equal(after.bytes_in_use, before.bytes_in_use);
}

static void test_long_loop(void **state)
{
  const fixture *f = *state;
  random_model tiny = {.seed = 17, .positions = 256};
  random_model_write(f->folder, &tiny);
  for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
    setup s;
    const tsr_transformer_options strict = {TSR_SIZED(tsr_transformer_options), .strict = 1, .workers = 1};
    open_setup(f, device_name(f, d), &strict, &s);
    check_loop(&s, 1);
    check_loop(&s, 4);
    close_setup(&s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_steps_equal_forcing),
      cmocka_unit_test(test_batches_equal_single_sentences),
      cmocka_unit_test(test_fewer_rows),
      cmocka_unit_test(test_left_alone),
      cmocka_unit_test(test_stale_states),
      cmocka_unit_test(test_settings_hold),
      cmocka_unit_test(test_words),
      cmocka_unit_test(test_renormalize),
      cmocka_unit_test(test_devices_equal_reference),
      cmocka_unit_test(test_bad_arguments),
      cmocka_unit_test(test_long_loop),
  };
  return cmocka_run_group_tests(tests, start, stop);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Outputs that go on from a given beginning, and alternatives at a place, on every device: what is found is held
 * against teacher forcing.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/model/generation.h"
#include "tests/model/random_model.h"

enum { N_SENTENCES = 7, ROOM = 64, ALTERNATIVES = 4 };

static const random_model models[] = {
    {.seed = 71},
    {.seed = 72, .nn = 1, .norm_first = 1, .d_model = 20, .heads = 5, .layers = 1, .vocabulary = 53},
    {.seed = 73, .nn = 1, .max_distance = 2, .layers = 1},
};
enum { N_MODELS = sizeof models / sizeof models[0] };

/* Prefixes of 0 to 5 tokens. The last one holds the end of a sentence, which ends nothing there. */
static const int32_t pool[N_SENTENCES][5] = {{7}, {3, 9, 11, 4, 30}, {5}, {12, 12}, {8, 6, 7}, {1, 2, 3, 4}, {0, 21}};
static const int32_t prefix_lengths[N_SENTENCES] = {0, 5, 1, 2, 3, 4, 2};
static const int32_t *const prefixes[N_SENTENCES] = {pool[0], pool[1], pool[2], pool[3], pool[4], pool[5], pool[6]};

static tsr_generate_options with_prefixes(const setup *s, int32_t beam)
{
  tsr_generate_options options = options_for(s, beam);
  options.n_best = 1;
  options.prefix = prefixes;
  options.prefix_lengths = prefix_lengths;
  return options;
}

/* The log-probability of each token of a hypothesis. */
static void score_tokens(const setup *s, const batch *b, int32_t sentence, const tsr_hypothesis *h, float *tokens)
{
  tsr_scores scores;
  const int32_t *target = h->ids;
  check(tsr_score(s->transformer, 1, &b->source[sentence], &b->lengths[sentence], &target, &h->n_ids, NULL, NULL, NULL,
                  &scores));
  memcpy(tokens, scores.targets[0].tokens, (size_t)h->n_ids * sizeof *tokens);
  tsr_scores_finish(&scores);
}

/* Token t of the output has no better one in its place. */
static void check_best(const setup *s, const batch *b, int32_t sentence, const tsr_hypothesis *h, int32_t first)
{
  const tsr_transformer_config *config = tsr_model_config(s->model);
  int32_t ids[ROOM];
  size_t vocabulary = (size_t)config->target_vocabulary;
  float *logits = malloc((size_t)h->n_ids * vocabulary * sizeof *logits);
  assert_non_null(logits);
  ids[0] = config->decoder_start_id;
  memcpy(ids + 1, h->ids, (size_t)(h->n_ids - 1) * sizeof *ids);
  check(tsr_transformer_forward(s->transformer, 1, b->lengths[sentence], b->source[sentence], &b->lengths[sentence],
                                h->n_ids, ids, NULL, logits));
  for (int32_t t = first; t < h->n_ids; t++) {
    for (size_t v = 0; v < vocabulary; v++) {
      assert_true(logits[(size_t)t * vocabulary + v] <= logits[(size_t)t * vocabulary + (size_t)h->ids[t]] + 1e-4f);
    }
  }
  free(logits);
}

/* In scores, neither the prefix nor its length counts. */
static void check_score(const setup *s, const batch *b, int32_t sentence, const tsr_hypothesis *h, int32_t given,
                        float penalty)
{
  float tokens[ROOM];
  double sum = 0.0;
  score_tokens(s, b, sentence, h, tokens);
  for (int32_t t = given; t < h->n_ids; t++) {
    sum += (double)tokens[t];
  }
  double expected = sum / pow((double)(h->n_ids - given), (double)penalty);
  if (!(fabs(expected - (double)h->score) <= 2e-5 * fmax(1.0, fabs(expected)))) {
    fail_msg("sentence %d: score %.7f, by teacher forcing %.7f", (int)sentence, (double)h->score, expected);
  }
}

static void check_prefixes(const setup *s, const batch *b, int32_t beam)
{
  tsr_generate_options options = with_prefixes(s, beam);
  tsr_generation all, single;
  check(tsr_generate(s->transformer, N_SENTENCES, b->source, b->lengths, 4, &options, NULL, NULL, &all));
  for (int32_t i = 0; i < N_SENTENCES; i++) {
    const tsr_hypothesis *h = &all.hypotheses[i];
    int32_t given = prefix_lengths[i];
    if (b->lengths[i] == 0) {
      assert_int_equal(h->n_ids, 0);
      continue;
    }
    assert_in_range(h->n_ids, given + 1, options.max_length - 1);
    assert_memory_equal(h->ids, prefixes[i], (size_t)given * sizeof *h->ids);
    if (beam == 1) {
      check_best(s, b, i, h, given);
    } else {
      check_score(s, b, i, h, given, options.length_penalty);
    }
    /* By itself it comes out as in the batch. */
    options.prefix = &prefixes[i];
    options.prefix_lengths = &prefix_lengths[i];
    check(tsr_generate(s->transformer, 1, &b->source[i], &b->lengths[i], 1, &options, NULL, NULL, &single));
    assert_same(h, &single.hypotheses[0]);
    tsr_generation_finish(&single);
    options = with_prefixes(s, beam);
  }
  tsr_generation_finish(&all);
}

/* Going on from any part of what greedy search finds gives the rest of it. */
static void check_own_beginnings(const setup *s, const batch *b)
{
  tsr_generate_options options = options_for(s, 1);
  tsr_generate_statistics before, after;
  tsr_generation whole, rest;
  check(tsr_generate(s->transformer, 2, b->source, b->lengths, 0, &options, NULL, NULL, &whole));
  for (int32_t n = 0; n < whole.hypotheses[0].n_ids; n += 3) {
    const int32_t *given = whole.hypotheses[0].ids;
    options.prefix = &given;
    options.prefix_lengths = &n;
    tsr_generate_measure(s->transformer, &before);
    check(tsr_generate(s->transformer, 1, b->source, b->lengths, 0, &options, NULL, NULL, &rest));
    tsr_generate_measure(s->transformer, &after);
    /* What was given is computed in one run. */
    assert_int_equal(after.step_runs - before.step_runs, whole.hypotheses[0].n_ids - n + (n > 0));
    assert_same(&whole.hypotheses[0], &rest.hypotheses[0]);
    tsr_generation_finish(&rest);
  }
  tsr_generation_finish(&whole);
}

/* The best tokens behind the prefix, each continued as if it were part of it. */
static void check_alternatives(const setup *s, const batch *b, int32_t beam)
{
  tsr_generate_options options = with_prefixes(s, beam);
  tsr_generation all;
  options.alternatives = ALTERNATIVES;
  check(tsr_generate(s->transformer, N_SENTENCES, b->source, b->lengths, 0, &options, NULL, NULL, &all));
  assert_int_equal(all.n_best, ALTERNATIVES);
  for (int32_t i = 0; i < N_SENTENCES; i++) {
    const tsr_hypothesis *h = &all.hypotheses[i * ALTERNATIVES];
    int32_t given = prefix_lengths[i];
    float tokens[ROOM];
    float before = 0.0f;
    for (int32_t k = 0; k < ALTERNATIVES && b->lengths[i] > 0; k++) {
      assert_true(h[k].n_ids > given);
      assert_memory_equal(h[k].ids, prefixes[i], (size_t)given * sizeof(int32_t));
      score_tokens(s, b, i, &h[k], tokens);
      assert_true(k == 0 || tokens[given] <= before + 1e-5f);
      assert_true(k == 0 || h[k].ids[given] != h[k - 1].ids[given]);
      before = tokens[given];
      if (k == 0) {
        check_best(s, b, i, &(tsr_hypothesis){.ids = h->ids, .n_ids = given + 1}, given);
      }
      if (beam == 1) {
        check_best(s, b, i, &h[k], given + 1);
      } else {
        check_score(s, b, i, &h[k], given, options.length_penalty);
      }
    }
  }
  tsr_generation_finish(&all);
}

static void test_prefixes(void **state)
{
  const fixture *f = *state;
  for (int32_t m = 0; m < N_MODELS; m++) {
    random_model_write(f->folder, &models[m]);
    for (int32_t d = 0; d < tsr_runtime_device_count(f->runtime); d++) {
      setup s;
      batch b;
      open_setup(f, device_name(f, d), NULL, &s);
      make_batch(models[m].seed, 37, N_SENTENCES, &b);
      check_prefixes(&s, &b, 1);
      check_prefixes(&s, &b, 3);
      check_own_beginnings(&s, &b);
      check_alternatives(&s, &b, 1);
      check_alternatives(&s, &b, 3);
      close_setup(&s);
      free_batch(&b);
    }
  }
}

/* A first token that is forced stands only where no prefix does; the last one always. */
static void test_forced(void **state)
{
  const fixture *f = *state;
  setup s;
  batch b;
  tsr_generation g;
  random_model_write(f->folder, &models[0]);
  open_setup(f, "cpu", NULL, &s);
  make_batch(5, 37, N_SENTENCES, &b);
  for (int32_t beam = 1; beam <= 3; beam += 2) {
    tsr_generate_options options = with_prefixes(&s, beam);
    options.max_length = 9;
    options.forced_bos_id = 14;
    options.forced_eos_id = 0;
    check(tsr_generate(s.transformer, N_SENTENCES, b.source, b.lengths, 0, &options, NULL, NULL, &g));
    for (int32_t i = 0; i < N_SENTENCES; i++) {
      const tsr_hypothesis *h = &g.hypotheses[i];
      if (b.lengths[i] > 0) {
        assert_int_equal(h->ids[0], prefix_lengths[i] > 0 ? prefixes[i][0] : 14);
        assert_int_equal(h->ids[h->n_ids - 1], 0);
      }
    }
    tsr_generation_finish(&g);
    options.alternatives = 3;
    check(tsr_generate(s.transformer, 1, b.source, b.lengths, 0, &options, NULL, NULL, &g));
    for (int32_t k = 0; k < 3; k++) {
      assert_int_equal(g.hypotheses[k].ids[0], 14);
      assert_true(k == 0 || g.hypotheses[k].ids[1] != g.hypotheses[k - 1].ids[1]);
    }
    tsr_generation_finish(&g);
  }
  close_setup(&s);
  free_batch(&b);
}

static void test_mistakes(void **state)
{
  const fixture *f = *state;
  setup s;
  batch b;
  tsr_generation g;
  random_model_write(f->folder, &models[0]);
  open_setup(f, "reference", NULL, &s);
  make_batch(5, 37, N_SENTENCES, &b);
  tsr_generate_options options = with_prefixes(&s, 1);
  options.max_length = 6;
  assert_int_equal(tsr_generate(s.transformer, N_SENTENCES, b.source, b.lengths, 0, &options, NULL, NULL, &g),
                   TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "prefix of sentence 1: has 5 tokens"));
  const int32_t unknown = 37, one = 1;
  const int32_t *given = &unknown;
  options.prefix = &given;
  options.prefix_lengths = &one;
  assert_int_equal(tsr_generate(s.transformer, 1, b.source, b.lengths, 0, &options, NULL, NULL, &g), TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "prefix of sentence 0: token 0 is 37"));
  options.prefix = NULL;
  options.alternatives = 19;
  assert_int_equal(tsr_generate(s.transformer, 1, b.source, b.lengths, 0, &options, NULL, NULL, &g), TSR_ERR_ARGUMENT);
  close_setup(&s);
  free_batch(&b);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_prefixes),
      cmocka_unit_test(test_forced),
      cmocka_unit_test(test_mistakes),
  };
  return cmocka_run_group_tests_name("prefix", tests, start, stop);
}

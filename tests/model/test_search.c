/* SPDX-License-Identifier: Apache-2.0
 *
 * What a search does between two steps, without a device: expectations were worked out by hand, or recorded from an
 * independent implementation.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/generate/beam.h"
#include "core/generate/filter.h"
#include "core/generate/sample.h"
#include "core/generate/search.h"

enum { V = 10, START = 9, EOS = 0 };

static const int32_t ends[] = {EOS};

static tsr_generate_options plain(void)
{
  return (tsr_generate_options){TSR_SIZED(tsr_generate_options),
                                .beam = 1,
                                .n_best = 1,
                                .max_length = 20,
                                .length_penalty = 1.0f,
                                .decoder_start_id = START,
                                .forced_bos_id = -1,
                                .forced_eos_id = -1,
                                .n_eos = 1,
                                .eos = ends};
}

/* ---- what changes the scores ------------------------------------------------------------------------------------- */

static const float scores[V] = {2.0f, -2.0f, 0.5f, -0.5f, 1.0f, -1.0f, 3.0f, -3.0f, 0.0f, 4.0f};

/* Applies the options to the scores above, as a whole row and as a list of all tokens in reverse; compares both with
 * what is expected, NAN standing for a banned token. */
static void check_filter(const tsr_generate_options *options, const tsr_filter_row *row, const float expected[V])
{
  tsr_filter filter;
  float whole[V];
  float listed[V];
  int32_t tokens[V];
  assert_int_equal(tsr_filter_init(&filter, options, V), TSR_OK);
  tsr_filter_mark(&filter, &(tsr_filter_row){.ids = (const int32_t[]){1, 2, 3, 4, 5}, .length = 5}); /* the last row */
  tsr_filter_mark(&filter, row);
  for (int32_t i = 0; i < V; i++) {
    whole[i] = scores[i];
    tokens[i] = V - 1 - i;
    listed[i] = scores[tokens[i]];
  }
  tsr_filter_apply(&filter, whole, NULL, V);
  tsr_filter_apply(&filter, listed, tokens, V);
  int32_t changed = 0;
  for (int32_t i = 0; i < V; i++) {
    float wanted = isnan(expected[i]) ? -INFINITY : expected[i];
    if (whole[i] != wanted || listed[V - 1 - i] != wanted) {
      fail_msg("token %d: %g and %g, expected %g", (int)i, (double)whole[i], (double)listed[V - 1 - i], (double)wanted);
    }
    changed += wanted != scores[i];
    if (!isnan(expected[i])) {
      assert_true(fabsf(tsr_filter_undo(&filter, wanted, i) - scores[i]) <= 1e-6f);
    }
  }
  assert_true(filter.n_marked >= changed);
  tsr_filter_finish(&filter);
}

static void test_repetition_penalty(void **state)
{
  (void)state;
  /* Positive scores are divided, others multiplied, once however often a token is there; the start token counts. */
  static const int32_t ids[] = {START, 0, 1, 1, 2};
  static const float expected[V] = {1.0f, -4.0f, 0.25f, -0.5f, 1.0f, -1.0f, 3.0f, -3.0f, 0.0f, 2.0f};
  tsr_generate_options options = plain();
  options.repetition_penalty = 2.0f;
  assert_true(tsr_filter_is_by_row(&options));
  assert_false(tsr_filter_may_raise(&options));
  check_filter(&options, &(tsr_filter_row){.ids = ids, .length = 5}, expected);
  options.repetition_penalty = 0.5f;
  assert_true(tsr_filter_may_raise(&options));
  /* Of tokens of the source the penalty is the other way round; tokens that the vocabulary lacks do not matter. Token 2
   * is
   * in both: 0.5 * 2 / 2. */
  static const int32_t source[] = {2, 3, 50};
  static const float both[V] = {1.0f, -4.0f, 0.5f, -0.25f, 1.0f, -1.0f, 3.0f, -3.0f, 0.0f, 2.0f};
  options.repetition_penalty = 2.0f;
  options.encoder_repetition_penalty = 2.0f;
  assert_true(tsr_filter_may_raise(&options));
  check_filter(&options, &(tsr_filter_row){.ids = ids, .length = 5, .source = source, .source_length = 3}, both);
}

static void test_repeats(void **state)
{
  (void)state;
  static const int32_t ids[] = {START, 1, 2, 3, 1, 2};
  static const int32_t source[] = {2, 7, 1, 2, 8};
  float expected[V];
  tsr_generate_options options = plain();
  tsr_filter_row row = {.ids = ids, .length = 6, .source = source, .source_length = 5};
  options.no_repeat_ngram = 3; /* 1 2 was followed by 3 */
  memcpy(expected, scores, sizeof expected);
  expected[3] = NAN;
  check_filter(&options, &row, expected);
  options.encoder_no_repeat_ngram = 2; /* in the source 2 is followed by 7 and by 8 */
  expected[7] = expected[8] = NAN;
  check_filter(&options, &row, expected);
  options.no_repeat_ngram = 1; /* whatever was there */
  options.encoder_no_repeat_ngram = 0;
  memcpy(expected, scores, sizeof expected);
  expected[1] = expected[2] = expected[3] = expected[START] = NAN;
  check_filter(&options, &row, expected);
  options.no_repeat_ngram = 8; /* longer than what there is */
  check_filter(&options, &row, scores);
}

static void test_lengths_and_words(void **state)
{
  (void)state;
  static const int32_t ids[] = {START, 1, 2};
  float expected[V];
  tsr_generate_options options = plain();
  options.min_length = 3;
  options.n_eos = 2;
  options.eos = (const int32_t[]){EOS, 5};
  options.n_suppressed = 1;
  options.suppressed = (const int32_t[]){6};
  options.n_begin_suppressed = 1;
  options.begin_suppressed = (const int32_t[]){7};
  assert_false(tsr_filter_is_by_row(&options));
  assert_int_equal(tsr_filter_shared(&options), 4);
  memcpy(expected, scores, sizeof expected);
  expected[6] = NAN;
  check_filter(&options, &(tsr_filter_row){.length = 3}, expected);
  expected[EOS] = expected[5] = NAN;
  check_filter(&options, &(tsr_filter_row){.length = 2}, expected);
  expected[7] = NAN; /* at the beginning only */
  check_filter(&options, &(tsr_filter_row){.length = 1}, expected);
  options.forced_bos_id = 4; /* which is here then */
  check_filter(&options, &(tsr_filter_row){.length = 2}, expected);
  expected[7] = scores[7];
  check_filter(&options, &(tsr_filter_row){.length = 1}, expected);
  options = plain();
  static const int32_t words[] = {2, 2, 4, 3, 1, 2, 8, 2, 1, 3, 4, START, 1, 2, 5};
  options.n_words = 15;
  options.words = words;
  memcpy(expected, scores, sizeof expected);
  expected[4] = expected[8] = NAN; /* of four tokens: longer than what there is */
  check_filter(&options, &(tsr_filter_row){.ids = ids, .length = 3}, expected);
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

static void test_length_penalties(void **state)
{
  (void)state;
  tsr_generate_options options = plain();
  options.length_penalty = 0.5f;
  assert_true(tsr_search_score(&options, -6.0, 4) == -3.0);
  options.length_kind = TSR_LENGTH_GNMT; /* ((5 + 4) / 6)^0.5 */
  assert_true(fabs(tsr_search_score(&options, -6.0, 4) - -6.0 / sqrt(1.5)) < 1e-12);
  options.length_penalty = 0.0f;
  assert_true(tsr_search_score(&options, -6.0, 4) == -6.0);
  options.length_kind = TSR_LENGTH_POWER;
  options.word_penalty = 0.25f; /* of Marian's search alone */
  assert_true(tsr_search_score(&options, -6.0, 4) == -6.0);
  options.search = TSR_SEARCH_MARIAN;
  options.length_penalty = 1.0f;
  assert_true(tsr_search_score(&options, -6.0, 4) == -1.75);
}

/* ---- Marian's beam ----------------------------------------------------------------------------------------------- */

enum { N = 3, K = 6 };

static void step(tsr_beam *beam, const float values[N * K], const int32_t tokens[N * K], int32_t open)
{
  int32_t parents[N];
  assert_int_equal(tsr_beam_advance(beam, K, values, tokens, parents), TSR_OK);
  assert_int_equal(beam->open, open);
  for (int32_t i = 0; i < N; i++) {
    assert_in_range(parents[i], 0, N - 1);
    assert_in_range(tsr_beam_token(beam, i), 0, START);
  }
}

static tsr_generate_options marian(float normalize)
{
  tsr_generate_options options = plain();
  options.search = TSR_SEARCH_MARIAN;
  options.beam = options.n_best = N;
  options.length_penalty = normalize;
  return options;
}

/* A hypothesis that ends leaves the beam, which is narrower from then on. */
static void test_marian_beam(void **state)
{
  (void)state;
  static const int32_t first_tokens[N * K] = {5, EOS, 6, 7, 8, 3};
  static const float first[N * K] = {-1.0f, -2.0f, -3.0f, -4.0f, -5.0f, -6.0f};
  static const int32_t second_tokens[N * K] = {5, 6, EOS, 7, 8, 3, 5, EOS, 6, 7, 8, 3, 5, EOS, 6, 7, 8, 3};
  static const float second[N * K] = {-1.5f, -1.75f, -2.5f, -4.0f, -5.0f, -6.0f, -0.25f, -0.5f, -3.0f,
                                      -4.0f, -5.0f,  -6.0f, 0.0f,  0.0f,  0.0f,  0.0f,   0.0f,  0.0f};
  tsr_beam beam;
  tsr_generate_options options = marian(1.0f);
  assert_int_equal(tsr_beam_init(&beam, &options, 5, NULL), TSR_OK);
  assert_int_equal(beam.open, 1);
  step(&beam, first, first_tokens, 2); /* 5 and 6 go on; </s> has -2 / 1 */
  assert_int_equal(beam.n_finished, 1);
  /* Two places are left. Sums: 5 5 -2.5, 5 6 -2.75, then 6 5 -3.25, 5 </s> -3.5, 6 </s> -3.5: the ends come too
   * late. */
  step(&beam, second, second_tokens, 2);
  assert_int_equal(beam.n_finished, 1);
  assert_int_equal(tsr_beam_ids(&beam, 1)[2], 6);
  /* Of 5 5: </s> -2.75; of 5 6: </s> -3.0; both are among the best two. */
  static const int32_t third_tokens[N * K] = {EOS, 6, 5, 7, 8, 3, EOS, 5, 6, 7, 8, 3, EOS, 5, 6, 7, 8, 3};
  static const float third[N * K] = {-0.25f, -1.75f, -2.5f, -4.0f, -5.0f, -6.0f, -0.25f, -0.75f, -3.0f,
                                     -4.0f,  -5.0f,  -6.0f, 0.0f,  0.0f,  0.0f,  0.0f,   0.0f,   0.0f};
  step(&beam, third, third_tokens, 0);
  assert_true(beam.done);
  assert_int_equal(tsr_beam_close(&beam), TSR_OK);
  assert_int_equal(beam.n_finished, N);
  assert_true(fabs(beam.finished[0].score - -2.75 / 3.0) < 1e-12);
  assert_true(fabs(beam.finished[1].score - -3.0 / 3.0) < 1e-12);
  assert_true(beam.finished[2].score == -2.0);
  assert_int_equal(beam.finished[0].n_ids, 3);
  tsr_beam_finish(&beam);
}

/* The limit follows the source: 1.5 times 2 tokens. What is open then ends as it is; what is banned takes no place. */
static void test_marian_limit(void **state)
{
  (void)state;
  static const int32_t tokens[N * K] = {5, 6, 7, 8, 3, 4, 5, 6, 7, 8, 3, 4, 5, 6, 7, 8, 3, 4};
  static const float values[N * K] = {-1.0f, -2.0f,     -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                                      -1.0f, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
                                      -1.0f, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY};
  tsr_beam beam;
  tsr_generate_options options = marian(0.0f);
  options.max_length_factor = 1.5f;
  assert_int_equal(tsr_beam_init(&beam, &options, 2, NULL), TSR_OK);
  step(&beam, values, tokens, 2);
  step(&beam, values, tokens, 3); /* -2, then -3 twice */
  step(&beam, values, tokens, 3); /* -3, then -4 three times, of which two */
  assert_true(beam.done);
  assert_int_equal(tsr_beam_close(&beam), TSR_OK);
  assert_int_equal(tsr_beam_close(&beam), TSR_OK);
  assert_int_equal(beam.n_finished, N);
  assert_int_equal(beam.finished[0].n_ids, 4);
  assert_false(beam.finished[0].ended);
  assert_true(beam.finished[0].score == -3.0);
  assert_true(beam.finished[2].score == -4.0);
  tsr_beam_finish(&beam);
}

/* ---- the other beam ---------------------------------------------------------------------------------------------- */

/* With patience 1.5 a beam of 2 stops at its third finished hypothesis. With two tokens that end a sentence, three
 * times as many candidates as hypotheses are looked at. */
static void test_patience_and_ends(void **state)
{
  (void)state;
  static const int32_t tokens[2 * K] = {EOS, 5, 3, 6, 7, 8, EOS, 5, 3, 6, 7, 8};
  static const float values[2 * K] = {-1.0f, -1.25f, -1.5f, -1.75f, -2.0f, -2.25f,
                                      -1.0f, -1.25f, -1.5f, -1.75f, -2.0f, -2.25f};
  static const struct {
    float patience;
    int32_t finished;
  } rows[] = {{0.0f, 2}, {1.0f, 2}, {1.5f, 3}, {2.0f, 4}, {0.5f, 1}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tsr_generate_options options = plain();
    options.beam = 2;
    options.early_stopping = TSR_EARLY_TRUE;
    options.patience = rows[i].patience;
    options.n_eos = 2;
    options.eos = (const int32_t[]){EOS, 3};
    assert_int_equal(tsr_search_beam_candidates(&options), 6);
    tsr_beam beam;
    assert_int_equal(tsr_beam_init(&beam, &options, 5, NULL), TSR_OK);
    int32_t steps = 0;
    /* First step: </s> ends, 5 goes on, the other end is of rank 2 = N and dropped, 6 goes on. Then, with sums -1.25
     * and -1.75: 5 </s> -2.25, 5 5 -2.5; so one hypothesis ends in each step. */
    while (!beam.done && steps < 10) {
      int32_t parents[2];
      assert_int_equal(tsr_beam_advance(&beam, K, values, tokens, parents), TSR_OK);
      steps++;
      if (!beam.done) {
        assert_int_equal(beam.n_finished, steps);
      }
    }
    assert_int_equal(beam.n_finished, rows[i].finished);
    assert_int_equal(steps, rows[i].finished);
    tsr_beam_finish(&beam);
  }
}

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

enum { N_DRAWS = 20000 };

/* Draws from probabilities 0.4, 0.3, 0.2, 0.1, and nothing for a banned token; counts what came out, by token. */
static void draw(const tsr_generate_options *options, int32_t counts[V])
{
  static const double probabilities[] = {0.1, 0.4, 0.0, 0.2, 0.3};
  static const int32_t tokens[] = {8, 3, 2, 5, 1};
  float logits[5];
  int32_t order[5];
  memset(counts, 0, V * sizeof *counts);
  for (int32_t i = 0; i < 5; i++) {
    logits[i] = (float)(log(probabilities[i]) + 2.0);
  }
  for (int32_t i = 0; i < N_DRAWS; i++) {
    const tsr_draw_place place = {.sentence = i % 10, .hypothesis = i % 3, .length = i};
    counts[tokens[tsr_sample(options, &place, logits, tokens, 5, order)]]++;
  }
}

/* Within five standard deviations. */
static void assert_share(int32_t count, double share)
{
  double off = fabs(count - share * N_DRAWS);
  assert_true(off <= 5.0 * sqrt(share * (1.0 - share) * N_DRAWS));
}

static void test_drawing(void **state)
{
  (void)state;
  int32_t counts[V];
  tsr_generate_options options = plain();
  options.sample = 1;
  options.seed = 77;
  draw(&options, counts);
  assert_share(counts[3], 0.4);
  assert_share(counts[1], 0.3);
  assert_share(counts[5], 0.2);
  assert_share(counts[8], 0.1);
  options.top_k = 2;
  draw(&options, counts);
  assert_share(counts[3], 4.0 / 7.0);
  assert_share(counts[1], 3.0 / 7.0);
  options.top_k = 0;
  options.top_p = 0.75f; /* 0.4 + 0.3 is less: the third counts, too */
  draw(&options, counts);
  assert_share(counts[3], 4.0 / 9.0);
  assert_share(counts[5], 2.0 / 9.0);
  assert_int_equal(counts[8], 0);
  options.top_k = 3; /* of 0.9, 0.65 is 0.585: two are enough */
  options.top_p = 0.65f;
  draw(&options, counts);
  assert_share(counts[3], 4.0 / 7.0);
  assert_int_equal(counts[5], 0);
  options.top_p = 1e-6f;
  draw(&options, counts);
  assert_int_equal(counts[3], N_DRAWS);
  options.top_p = 1.0f;
  options.top_k = 0;
  options.temperature = 0.5f; /* squares: 16, 9, 4, 1 of 30 */
  draw(&options, counts);
  assert_share(counts[3], 16.0 / 30.0);
  assert_share(counts[8], 1.0 / 30.0);
  assert_int_equal(counts[2], 0);
}

/* A draw hangs on nothing but its place: neither on the order of the candidates nor on those that are no longer
 * there. */
static void test_draws_stay(void **state)
{
  (void)state;
  static const float logits[] = {1.0f, 0.5f, 0.25f, 0.0f, -9.0f};
  static const int32_t tokens[] = {4, 2, 7, 1, 5};
  static const float reversed[] = {0.0f, 0.25f, 0.5f, 1.0f};
  static const int32_t reversed_tokens[] = {1, 7, 2, 4};
  tsr_generate_options options = plain();
  int32_t order[5];
  int32_t differ = 0;
  options.sample = 1;
  options.top_k = 4;
  for (int32_t i = 0; i < 200; i++) {
    tsr_draw_place place = {.sentence = i, .length = 3};
    int32_t token = tokens[tsr_sample(&options, &place, logits, tokens, 5, order)];
    assert_int_equal(reversed_tokens[tsr_sample(&options, &place, reversed, reversed_tokens, 4, order)], token);
    place.hypothesis = 1;
    differ += tokens[tsr_sample(&options, &place, logits, tokens, 5, order)] != token;
  }
  assert_in_range(differ, 50, 200);
  static const float banned[] = {-INFINITY, -INFINITY, -INFINITY};
  assert_int_equal(tsr_sample(&options, &(tsr_draw_place){.length = 1}, banned, tokens, 3, order), 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_repetition_penalty), cmocka_unit_test(test_repeats),
      cmocka_unit_test(test_lengths_and_words),  cmocka_unit_test(test_length_penalties),
      cmocka_unit_test(test_marian_beam),        cmocka_unit_test(test_marian_limit),
      cmocka_unit_test(test_patience_and_ends),  cmocka_unit_test(test_drawing),
      cmocka_unit_test(test_draws_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

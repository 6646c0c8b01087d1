/* SPDX-License-Identifier: Apache-2.0
 *
 * Beam search without a device, on candidates that were worked out by hand.
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

enum { N = 2, K = 4, START = 9, EOS = 0, SOURCE = 3 };

static const int32_t ends[] = {EOS};

static tsr_generate_options options_with(int32_t early, float penalty, int32_t max_length)
{
  return (tsr_generate_options){TSR_SIZED(tsr_generate_options),
                                .beam = N,
                                .n_best = N,
                                .max_length = max_length,
                                .early_stopping = early,
                                .length_penalty = penalty,
                                .decoder_start_id = START,
                                .n_eos = 1,
                                .eos = ends};
}

static void step(tsr_beam *beam, const float values[N * K], const int32_t tokens[N * K], int32_t parent0,
                 int32_t parent1)
{
  int32_t parents[N];
  assert_int_equal(tsr_beam_advance(beam, K, values, tokens, parents), TSR_OK);
  assert_int_equal(parents[0], parent0);
  assert_int_equal(parents[1], parent1);
}

/* The first step: both hypotheses are alike, and only the first is expanded. */
static const float first_values[N * K] = {-1.0f, -2.0f, -3.0f, -4.0f, -1.0f, -2.0f, -3.0f, -4.0f};
static const int32_t first_tokens[N * K] = {5, EOS, 6, 7, 5, EOS, 6, 7};

static void test_first_step(void **state)
{
  (void)state;
  tsr_beam beam;
  tsr_generate_options options = options_with(TSR_EARLY_FALSE, 1.0f, 10);
  assert_int_equal(tsr_beam_init(&beam, &options, SOURCE, NULL), TSR_OK);
  step(&beam, first_values, first_tokens, 0, 0);
  assert_int_equal(tsr_beam_token(&beam, 0), 5);
  assert_int_equal(tsr_beam_token(&beam, 1), 6);
  /* </s> was of rank 1 < N: one finished hypothesis of one generated token. */
  assert_int_equal(beam.n_finished, 1);
  assert_true(beam.finished[0].score == -2.0);
  assert_false(beam.done);
  tsr_beam_finish(&beam);
}

/* An end of rank N or more is dropped. */
static void test_late_end_is_dropped(void **state)
{
  (void)state;
  static const int32_t tokens[N * K] = {5, 6, EOS, 7, 5, 6, EOS, 7};
  tsr_beam beam;
  tsr_generate_options options = options_with(TSR_EARLY_FALSE, 1.0f, 10);
  assert_int_equal(tsr_beam_init(&beam, &options, SOURCE, NULL), TSR_OK);
  step(&beam, first_values, tokens, 0, 0);
  assert_int_equal(beam.n_finished, 0);
  tsr_beam_finish(&beam);
}

/* Two more steps: hypotheses 5 (-1) and 6 (-3); then both end, with sums -1.5 and -3.25. */
static void run_to_the_end(tsr_beam *beam)
{
  static const float values[N * K] = {-0.5f, -9.0f, -9.0f, -9.0f, -0.25f, -9.0f, -9.0f, -9.0f};
  static const int32_t tokens[N * K] = {EOS, 3, 4, 8, EOS, 3, 4, 8};
  step(beam, first_values, first_tokens, 0, 0);
  /* The end after 6 is of rank 1: sums are -1.5, -3.25, then -10 three times, the lower hypothesis first. */
  step(beam, values, tokens, 0, 0);
}

static void test_early_stopping(void **state)
{
  (void)state;
  static const struct {
    int32_t early;
    float penalty;
    int32_t done;
  } rows[] = {
      /* Finished: -2 / 1, -1.5 / 2^p, and -3.25 / 2^p pushed out or not; worst of the best two against the best sum,
       * -1.5 at this length. */
      {TSR_EARLY_TRUE, 1.0f, 1},  {TSR_EARLY_FALSE, 1.0f, 0}, {TSR_EARLY_FALSE, 0.0f, 0},
      {TSR_EARLY_NEVER, 1.0f, 0}, {TSR_EARLY_NEVER, 0.0f, 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tsr_beam beam;
    tsr_generate_options options = options_with(rows[i].early, rows[i].penalty, 10);
    assert_int_equal(tsr_beam_init(&beam, &options, SOURCE, NULL), TSR_OK);
    run_to_the_end(&beam);
    assert_int_equal(beam.n_finished, N);
    assert_int_equal(beam.done, rows[i].done);
    tsr_beam_finish(&beam);
  }
}

/* A third step whose best sum cannot reach the worst finished score any more. */
static void test_done_when_out_of_reach(void **state)
{
  (void)state;
  static const float values[N * K] = {-1.0f, -2.0f, -3.0f, -4.0f, -1.0f, -2.0f, -3.0f, -4.0f};
  static const int32_t tokens[N * K] = {3, 4, 5, 6, 3, 4, 5, 6};
  tsr_beam beam;
  tsr_generate_options options = options_with(TSR_EARLY_FALSE, 1.0f, 10);
  assert_int_equal(tsr_beam_init(&beam, &options, SOURCE, NULL), TSR_OK);
  run_to_the_end(&beam);
  step(&beam, values, tokens, 0, 1); /* sums -11 over 3 tokens: below -1.625 */
  assert_true(beam.done);
  /* -1.5 / 2, then -3.25 / 2: better than -2 / 1, which was pushed out. */
  assert_int_equal(tsr_beam_close(&beam), TSR_OK);
  assert_int_equal(beam.n_finished, N);
  assert_true(beam.finished[0].score == -0.75);
  assert_true(beam.finished[1].score == -1.625);
  assert_int_equal(beam.finished[0].n_ids, 2);
  assert_int_equal(beam.finished[0].ids[1], 5);
  assert_true(beam.finished[0].ended);
  /* Nothing happens after the end. */
  step(&beam, values, tokens, 0, 1);
  tsr_beam_finish(&beam);
}

/* At max_length what is open ends as it is. */
static void test_open_hypotheses_close(void **state)
{
  (void)state;
  static const int32_t tokens[N * K] = {5, 6, 7, 8, 5, 6, 7, 8};
  static const float penalties[] = {1.0f, 0.0f, -1.0f};
  for (size_t i = 0; i < 3; i++) {
    tsr_beam beam;
    tsr_generate_options options = options_with(TSR_EARLY_FALSE, penalties[i], 3);
    assert_int_equal(tsr_beam_init(&beam, &options, SOURCE, NULL), TSR_OK);
    step(&beam, first_values, tokens, 0, 0);
    step(&beam, first_values, tokens, 0, 0); /* sums -1 - 1 and -1 - 2; -2 - 1 is equal, but of hypothesis 1 */
    assert_int_equal(tsr_beam_close(&beam), TSR_OK);
    assert_int_equal(beam.n_finished, N);
    assert_false(beam.finished[0].ended);
    assert_int_equal(beam.finished[0].n_ids, 3);
    assert_true(fabs(beam.finished[0].score - -2.0 / pow(2.0, (double)penalties[i])) < 1e-12);
    assert_true(fabs(beam.finished[1].score - -3.0 / pow(2.0, (double)penalties[i])) < 1e-12);
    tsr_beam_finish(&beam);
  }
}

/* Of equal sums those of the lower hypothesis come first, and of these the lower token, in whatever order they are
 * found. */
static void test_ties(void **state)
{
  (void)state;
  static const float values[N * K] = {-1.0f, -1.0f, -1.0f, -9.0f, -1.0f, -1.0f, -1.0f, -9.0f};
  static const int32_t tokens[N * K] = {8, 4, 6, 7, 3, 2, 5, 7};
  tsr_beam beam;
  tsr_generate_options options = options_with(TSR_EARLY_FALSE, 1.0f, 10);
  assert_int_equal(tsr_beam_init(&beam, &options, SOURCE, NULL), TSR_OK);
  beam.sums[1] = beam.sums[0];
  step(&beam, values, tokens, 0, 0);
  assert_int_equal(tsr_beam_token(&beam, 0), 4);
  assert_int_equal(tsr_beam_token(&beam, 1), 6);
  tsr_beam_finish(&beam);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_step),
      cmocka_unit_test(test_late_end_is_dropped),
      cmocka_unit_test(test_early_stopping),
      cmocka_unit_test(test_done_when_out_of_reach),
      cmocka_unit_test(test_open_hypotheses_close),
      cmocka_unit_test(test_ties),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

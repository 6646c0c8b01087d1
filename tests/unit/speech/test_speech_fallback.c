/* SPDX-License-Identifier: Apache-2.0
 *
 * How good a window's text is: ratios of texts whose compressed sizes are known, means, and each decision.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "tessera/speech.h"
#include "tests/unit/speech/recordings.h"

static void test_ratio(void **state)
{
  (void)state;
  double ratio = 7.0;
  assert_int_equal(tsr_speech_compression_ratio(NULL, 0, &ratio), TSR_OK);
  assert_true(ratio == 0.0);
  /* zlib: 2 bytes before and 4 behind; a short text that does not repeat takes 2 bytes more than its own. */
  assert_int_equal(tsr_speech_compression_ratio("abc", 3, &ratio), TSR_OK);
  assert_true(fabs(ratio - 3.0 / 11.0) < 1e-9);
  char repeated[4000];
  for (size_t i = 0; i < sizeof repeated; i++) {
    repeated[i] = "ha "[i % 3];
  }
  assert_int_equal(tsr_speech_compression_ratio(repeated, sizeof repeated, &ratio), TSR_OK);
  assert_true(ratio > 100.0);
  static const char sentence[] = "The quick brown fox jumps over the lazy dog, and nobody knows why it does so.";
  assert_int_equal(tsr_speech_compression_ratio(sentence, sizeof sentence - 1, &ratio), TSR_OK);
  assert_true(ratio > 0.9 && ratio < 1.5);
  assert_int_equal(tsr_speech_compression_ratio(NULL, 1, &ratio), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_compression_ratio("a", 1, NULL), TSR_ERR_ARGUMENT);
}

static void test_mean(void **state)
{
  (void)state;
  const float logprobs[] = {-0.5f, -1.0f, -1.5f};
  assert_true(fabs(tsr_speech_average_logprob(logprobs, 3) + 0.75) < 1e-9);
  assert_true(tsr_speech_average_logprob(logprobs, 0) == 0.0);
}

static void test_decisions(void **state)
{
  (void)state;
  const double none = NAN;
  static const struct {
    double ratio, logprob, no_speech;
    int32_t expected;
  } cases[] = {
      {2.0, -0.5, 0.1, TSR_SPEECH_ACCEPT}, {2.4, -1.0, 0.6, TSR_SPEECH_ACCEPT}, {2.5, -0.5, 0.1, TSR_SPEECH_RETRY},
      {2.0, -1.1, 0.1, TSR_SPEECH_RETRY},  {2.0, -1.1, 0.7, TSR_SPEECH_SKIP},   {9.0, -1.1, 0.7, TSR_SPEECH_SKIP},
      {2.0, -0.5, 0.7, TSR_SPEECH_ACCEPT}, {2.5, -0.5, 0.7, TSR_SPEECH_RETRY},  {NAN, -0.5, 0.1, TSR_SPEECH_ACCEPT},
      {2.5, -1.5, NAN, TSR_SPEECH_RETRY},
  };
  const tsr_speech_measures limits = {2.4, -1.0, 0.6};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const tsr_speech_measures measured = {cases[i].ratio, cases[i].logprob, cases[i].no_speech};
    assert_int_equal(tsr_speech_judge(&measured, &limits), cases[i].expected);
  }
  const tsr_speech_measures bad = {9.0, -9.0, 0.9};
  assert_int_equal(tsr_speech_judge(&bad, &(tsr_speech_measures){none, none, none}), TSR_SPEECH_ACCEPT);
  assert_int_equal(tsr_speech_judge(&bad, &(tsr_speech_measures){none, none, 0.6}), TSR_SPEECH_SKIP);
  assert_int_equal(tsr_speech_judge(&bad, &(tsr_speech_measures){none, -1.0, none}), TSR_SPEECH_RETRY);
  assert_int_equal(tsr_speech_judge(&bad, &(tsr_speech_measures){2.4, none, none}), TSR_SPEECH_RETRY);
}

/* The windows that were recorded as skipped, by the limits of their call. */
static int32_t n_windows, n_skipped;

static double limit_of(const json_t *recorded, const char *key)
{
  const char *call = json_string_value(json_object_get(recorded, "call"));
  const char *found = strstr(call, key);
  return found ? strtod(found + strlen(key), NULL) : NAN;
}

static void check_windows(json_t *golden)
{
  size_t at, k;
  json_t *recorded, *window;
  json_array_foreach(json_object_get(golden, "long_form"), at, recorded)
  {
    const tsr_speech_measures limits = {NAN, limit_of(recorded, "logprob_threshold="),
                                        limit_of(recorded, "no_speech_threshold=")};
    json_array_foreach(json_object_get(recorded, "windows"), k, window)
    {
      if (!json_object_get(window, "skipped")) {
        continue;
      }
      const tsr_speech_measures measured = {1.0, json_number_value(json_object_get(window, "avg_logprob")),
                                            json_number_value(json_object_get(window, "no_speech_prob"))};
      const int is_skipped = json_is_true(json_object_get(window, "skipped"));
      assert_int_equal(tsr_speech_judge(&measured, &limits) == TSR_SPEECH_SKIP, is_skipped);
      n_windows++;
      n_skipped += is_skipped;
    }
  }
}

static void test_recorded(void **state)
{
  (void)state;
  for_each_recording(check_windows);
  if (n_windows == 0) {
    skip();
  }
  assert_true(n_skipped < n_windows);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ratio),
      cmocka_unit_test(test_mean),
      cmocka_unit_test(test_decisions),
      cmocka_unit_test(test_recorded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

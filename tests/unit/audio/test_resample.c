/* SPDX-License-Identifier: Apache-2.0
 *
 * Resampling by the plugin: sines keep amplitude and phase, what 16 kHz cannot hold is suppressed, and lengths are
 * n * 16000 / rate, rounded.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "tessera/audio.h"
#include "tests/support/sanitized.h"
#include "tests/unit/audio/files.h"

static const double pi = 3.14159265358979323846;

static tsr_audio *open_floats(const float *samples, int64_t n, int32_t rate)
{
  const tsr_audio_options options = {TSR_SIZED(tsr_audio_options), .raw = TSR_AUDIO_F32, .rate = rate,
                                     .plugins_path = TESSERA_AUDIO_PLUGINS};
  tsr_audio *audio;
  if (tsr_audio_view("sine", samples, (size_t)n * sizeof *samples, &options, &audio) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  return audio;
}

/* All samples, read in pieces; *n are expected. */
static float *read_resampled(tsr_audio *audio, int64_t n, int64_t piece)
{
  float *samples = malloc((size_t)(n + piece) * sizeof *samples);
  assert_non_null(samples);
  int64_t total = 0;
  for (int64_t got = piece; got == piece; total += got) {
    assert_true(total <= n);
    assert_int_equal(tsr_audio_read(audio, samples + total, piece, &got), TSR_OK);
  }
  assert_int_equal(total, n);
  return samples;
}

static int64_t rounded_length(int64_t n, int32_t rate)
{
  return (int64_t)floor((double)n * 16000 / rate + 0.5);
}

/* Half a second in the middle of a sine of 2 s: its largest difference from `amplitude` times the sine. */
static double difference_of(int32_t rate, double hertz, double amplitude)
{
  const int64_t n = 2 * (int64_t)rate;
  float *samples = malloc((size_t)n * sizeof *samples);
  assert_non_null(samples);
  for (int64_t i = 0; i < n; i++) {
    samples[i] = (float)(0.5 * sin(2 * pi * hertz * (double)i / rate + 1));
  }
  tsr_audio *audio = open_floats(samples, n, rate);
  tsr_audio_info info;
  tsr_audio_describe(audio, &info);
  assert_int_equal(info.rate, rate);
  assert_int_equal(info.length, n);
  assert_int_equal(info.samples, 32000);
  float *resampled = read_resampled(audio, 32000, 1000);
  double difference = 0;
  for (int32_t i = 12000; i < 20000; i++) {
    difference = fmax(difference, fabs((double)resampled[i] - amplitude * 0.5 * sin(2 * pi * hertz * i / 16000 + 1)));
  }
  tsr_audio_close(audio);
  free(resampled);
  free(samples);
  return difference;
}

static void test_sines(void **state)
{
  (void)state;
  static const int32_t rates[] = {1000, 8000, 11025, 15999, 22050, 44100, 48000, 96000, 192000};
  for (size_t r = 0; r < sizeof rates / sizeof *rates; r += TEST_IS_SANITIZED ? 3 : 1) {
    const double highest = 0.44 * (rates[r] < 16000 ? rates[r] : 16000);
    const double passed[] = {50, 440, 1000, 3333, 6500, 7000};
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
      const double difference = passed[i] < highest ? difference_of(rates[r], passed[i], 1) : 0;
      if (!(difference < (passed[i] < 5000 ? 1e-5 : 1e-3))) { /* the filter falls from 6 kHz on, by 0.01 dB */
        fail_msg("%d samples a second, %g Hz: off by %g", (int)rates[r], passed[i], difference);
      }
    }
    /* What lies above 8 kHz would come out as another sine. */
    const double stopped[] = {8200, 9000, 12000, 16000, 20000, 33000, 80000};
    for (size_t i = 0; i < sizeof stopped / sizeof *stopped; i++) {
      const double difference = stopped[i] * 2 < rates[r] ? difference_of(rates[r], stopped[i], 0) : 0;
      if (!(difference < 1e-5)) {
        fail_msg("%d samples a second, %g Hz: %g is left", (int)rates[r], stopped[i], difference);
      }
    }
  }
}

static void test_lengths(void **state)
{
  (void)state;
  static const int32_t rates[] = {1000, 8000, 11025, 15999, 16001, 22050, 44100, 48000, 192000, 4000000};
  static const int64_t lengths[] = {0, 1, 2, 3, 5, 137, 5000, 44100, 100003};
  static float samples[100003];
  uint32_t seed = 1;
  for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
    samples[i] = next_noise(&seed);
  }
  for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
      const int64_t n = rounded_length(lengths[i], rates[r]);
      tsr_audio *audio = open_floats(samples, lengths[i], rates[r]);
      tsr_audio_info info;
      tsr_audio_describe(audio, &info);
      assert_int_equal(info.samples, n);
      float *whole = read_resampled(audio, n, n + 1);
      for (int64_t k = 0; k < n; k++) {
        assert_true(isfinite(whole[k]));
      }
      assert_int_equal(tsr_audio_restart(audio), TSR_OK);
      float *pieces = read_resampled(audio, n, 701);
      assert_memory_equal(whole, pieces, (size_t)n * sizeof *whole);
      tsr_audio_close(audio);
      free(whole);
      free(pieces);
    }
  }
}

/* The first and the last samples of a constant come near it: the filter's delay is made up for. */
static void test_ends(void **state)
{
  (void)state;
  enum { N = 44100 };
  static float samples[N];
  for (int32_t i = 0; i < N; i++) {
    samples[i] = i < N / 2 ? 0.0f : 0.5f;
  }
  tsr_audio *audio = open_floats(samples, N, 44100);
  float *resampled = read_resampled(audio, 16000, 4096);
  assert_true(fabsf(resampled[0]) < 1e-4f && fabsf(resampled[7900]) < 1e-2f);
  assert_true(fabsf(resampled[8100] - 0.5f) < 1e-2f && fabsf(resampled[15900] - 0.5f) < 1e-2f);
  assert_true(fabsf(resampled[8000] - 0.25f) < 0.15f); /* the step is where it was */
  tsr_audio_close(audio);
  free(resampled);

  samples[100] = NAN;
  audio = open_floats(samples, N, 44100);
  int64_t got;
  assert_int_equal(tsr_audio_read(audio, samples, N, &got), TSR_ERR_FORMAT);
  assert_non_null(strstr(tsr_error_message(), "sine: sample 100 is not finite"));
  tsr_audio_close(audio);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sines),
      cmocka_unit_test(test_lengths),
      cmocka_unit_test(test_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

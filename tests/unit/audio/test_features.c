/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of a sound's features: the same bits as those of the whole sound at once, whatever is asked for in whatever
 * order; of a pipe, too.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include <math.h>

#include "core/audio/mel.h"
#include "tests/support/sanitized.h"
#include "tests/unit/audio/files.h"

#define LONG31 TESSERA_SOURCE_ROOT "/tests/data/goldens/speech/features/long31.wav"

enum { MELS = 80 };

static const tsr_audio_options floats = {TSR_SIZED(tsr_audio_options), .raw = TSR_AUDIO_F32,
                                         .plugins_path = "/nonexistent"};

/* ---- a sound in memory ------------------------------------------------------------------------------------------- */

typedef struct sound {
  tsr_mel *mel;
  float *samples;
  int64_t n, frames;
  float *logarithms; /* [MELS, frames] of the whole sound, from which all windows follow */
  size_t at;         /* of a pipe, in bytes */
  int fails;         /* 1: where the pipe would end, it fails */
} sound;

/* Takes the samples. */
static void begin(sound *s, float *samples, int64_t n)
{
  *s = (sound){.samples = samples, .n = n, .frames = n / TSR_MEL_HOP};
  assert_int_equal(tsr_mel_create(MELS, &s->mel), TSR_OK);
  s->logarithms = calloc((size_t)(MELS * s->frames) + 1, sizeof *s->logarithms);
  assert_non_null(s->logarithms);
  const tsr_sound_part part = {.samples = samples, .n = n, .length = n};
  (void)tsr_mel_logarithms(s->mel, &part, 0, s->frames, -INFINITY, s->logarithms, s->frames);
}

static void end(sound *s)
{
  tsr_mel_destroy(s->mel);
  free(s->logarithms);
  free(s->samples);
}

static tsr_status give(void *context, void *bytes, size_t size, size_t *got)
{
  sound *s = context;
  const size_t left = (size_t)s->n * sizeof *s->samples - s->at;
  if (left == 0 && s->fails) {
    return tsr_fail(TSR_ERR_IO, "the line was cut");
  }
  *got = size < left ? size : left;
  memcpy(bytes, (const char *)s->samples + s->at, *got);
  s->at += *got;
  return TSR_OK;
}

static void open_sound(sound *s, int is_pipe, tsr_audio **audio, tsr_features **features)
{
  const tsr_audio_source source = {give, NULL, s, 0};
  s->at = 0;
  assert_int_equal(is_pipe ? tsr_audio_open_source("pipe", &source, &floats, audio)
                           : tsr_audio_view("file", s->samples, (size_t)s->n * sizeof *s->samples, &floats, audio),
                   TSR_OK);
  assert_int_equal(tsr_features_open(*audio, s->mel, features), TSR_OK);
}

static void close_sound(tsr_audio *audio, tsr_features *features)
{
  tsr_features_close(features);
  tsr_audio_close(audio);
}

/* The largest logarithm of the frames before `until`. */
static float largest_until(const sound *s, int64_t until)
{
  float largest = -INFINITY;
  for (int64_t m = 0; m < MELS; m++) {
    for (int64_t t = 0; t < until && t < s->frames; t++) {
      largest = fmaxf(largest, s->logarithms[m * s->frames + t]);
    }
  }
  return largest;
}

static int64_t frames_of(const sound *s, int64_t first, int32_t n)
{
  const int64_t left = s->frames - first;
  return left < 0 ? 0 : left < n ? left : n;
}

/* A window of the whole, whose maximum is that of the frames before `until`. */
static void check_whole(sound *s, tsr_features *features, int64_t first, int32_t n, int64_t until)
{
  float *values = malloc((size_t)n * MELS * sizeof *values);
  assert_non_null(values);
  int32_t got;
  assert_int_equal(tsr_features_read(features, first, n, TSR_FEATURES_WHOLE, values, &got), TSR_OK);
  assert_int_equal(got, frames_of(s, first, n));
  const float largest = largest_until(s, until);
  for (int64_t m = 0; m < MELS; m++) {
    for (int64_t i = 0; i < n; i++) {
      float expected = 0;
      if (i < got) {
        expected = s->logarithms[m * s->frames + first + i];
        tsr_mel_scale(&expected, 1, largest);
      }
      if (values[m * n + i] != expected) {
        fail_msg("frame %lld of the window from %lld on, mel %d: %.9g, expected %.9g", (long long)i, (long long)first,
                 (int)m, (double)values[m * n + i], (double)expected);
      }
    }
  }
  free(values);
}

static void check_alone(sound *s, tsr_features *features, int64_t first, int32_t n)
{
  float *values = malloc((size_t)n * MELS * sizeof *values), *expected = malloc((size_t)n * MELS * sizeof *expected);
  assert_true(values && expected);
  int32_t got;
  assert_int_equal(tsr_features_read(features, first, n, TSR_FEATURES_ALONE, values, &got), TSR_OK);
  assert_int_equal(got, frames_of(s, first, n));
  const int64_t left = s->n - first * TSR_MEL_HOP;
  assert_int_equal(tsr_mel_features(s->mel, left > 0 ? s->samples + first * TSR_MEL_HOP : NULL, left > 0 ? left : 0,
                                    (int64_t)n * TSR_MEL_HOP, expected),
                   TSR_OK);
  assert_memory_equal(values, expected, (size_t)n * MELS * sizeof *values);
  free(values);
  free(expected);
}

/* ---- recordings -------------------------------------------------------------------------------------------------- */

/* 31 s of speech, window by window as a transcription moves through it. */
static void test_speech(void **state)
{
  (void)state;
  sound s;
  int64_t n;
  float *samples = read_samples(LONG31, &n);
  begin(&s, samples, n);
  for (int is_pipe = 0; is_pipe <= 1; is_pipe++) {
    tsr_audio *audio;
    tsr_features *features;
    open_sound(&s, is_pipe, &audio, &features);
    int32_t has;
    assert_int_equal(tsr_features_has(features, 3099, &has), TSR_OK);
    assert_int_equal(has, 1);
    assert_int_equal(tsr_features_has(features, 3100, &has), TSR_OK);
    assert_int_equal(has, 0);
    check_alone(&s, features, 0, 3000);
    for (int64_t first = 0; first < 3100; first += 771) {
      check_whole(&s, features, first, 900, is_pipe ? first + 900 : s.frames);
    }
    close_sound(audio, features);
  }
  end(&s);
}

/* ---- noise ------------------------------------------------------------------------------------------------------- */

/* Noise that becomes louder and softer, so that the maximum lies somewhere. */
static float *make_noise(int64_t n, uint32_t seed)
{
  float *samples = malloc((size_t)n * sizeof *samples + 1);
  assert_non_null(samples);
  const double middle = (double)(seed % 7) / 7 * (double)n;
  for (int64_t i = 0; i < n; i++) {
    samples[i] = next_noise(&seed) * (float)exp(-fabs((double)i - middle) / 3000);
  }
  return samples;
}

/* Sounds of all lengths around a frame, and shorter than what a frame needs. */
static void test_short(void **state)
{
  (void)state;
  static const int64_t lengths[] = {0, 1, 2, 100, 159, 160, 161, 199, 200, 201, 319, 320, 399, 400, 401, 1600, 1999};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    sound s;
    begin(&s, make_noise(lengths[i], (uint32_t)i + 1), lengths[i]);
    for (int is_pipe = 0; is_pipe <= 1; is_pipe++) {
      tsr_audio *audio;
      tsr_features *features;
      open_sound(&s, is_pipe, &audio, &features);
      for (int64_t frame = 0; frame < 15; frame++) {
        int32_t has;
        assert_int_equal(tsr_features_has(features, frame, &has), TSR_OK);
        assert_int_equal(has, frame < s.frames);
      }
      for (int64_t first = 0; first < 4; first++) {
        check_alone(&s, features, first, 5);
        check_whole(&s, features, first, 20, s.frames);
      }
      close_sound(audio, features);
    }
    end(&s);
  }
}

/* A sound that is longer than what is read at once, with windows anywhere. */
static void test_anywhere(void **state)
{
  (void)state;
  enum { FRAMES = 2500 };
  for (uint32_t seed = 1; seed <= (TEST_IS_SANITIZED ? 1 : 4); seed++) {
    sound s;
    begin(&s, make_noise(FRAMES * TSR_MEL_HOP + 17 * seed, seed), FRAMES * TSR_MEL_HOP + 17 * seed);
    tsr_audio *audio;
    tsr_features *features;
    open_sound(&s, 0, &audio, &features);
    uint32_t drawn = seed;
    for (int i = 0; i < 12; i++) {
      const int64_t first = (int64_t)((next_noise(&drawn) + 1) * 1300);
      const int32_t n = 1 + (int32_t)((next_noise(&drawn) + 1) * 100);
      if (next_noise(&drawn) < 0) {
        check_alone(&s, features, first, n);
      } else {
        check_whole(&s, features, first, n, s.frames);
      }
    }
    close_sound(audio, features);

    /* A pipe: forward alone, and the maximum of what came, also in gaps and in windows of the other kind. */
    open_sound(&s, 1, &audio, &features);
    int64_t first = 0, until = 0;
    for (int i = 0; first < FRAMES; i++) {
      const int32_t n = 1 + (int32_t)((next_noise(&drawn) + 1) * 100);
      if (i % 3 == 1) {
        check_alone(&s, features, first, n);
        until = until > first ? until : first;
      } else {
        until = until > first + n ? until : first + n;
        check_whole(&s, features, first, n, until);
      }
      first += (int64_t)((next_noise(&drawn) + 1) * 150);
    }
    close_sound(audio, features);
    end(&s);
  }
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void refuse(tsr_status found, const char *words)
{
  assert_int_equal(found, TSR_ERR_ARGUMENT);
  if (!strstr(tsr_error_message(), words)) {
    fail_msg("'%s' is not said in '%s'", words, tsr_error_message());
  }
}

static void test_arguments(void **state)
{
  (void)state;
  sound s;
  begin(&s, make_noise(16000, 1), 16000);
  tsr_audio *audio;
  tsr_features *features;
  static float values[MELS * 10];
  int32_t got;
  open_sound(&s, 1, &audio, &features);
  refuse(tsr_features_read(features, -1, 10, TSR_FEATURES_WHOLE, values, &got), "frames from -1 on");
  refuse(tsr_features_read(features, 0, 0, TSR_FEATURES_WHOLE, values, &got), "0 of them");
  refuse(tsr_features_read(features, 0, TSR_FEATURES_MOST + 1, TSR_FEATURES_WHOLE, values, &got), "65537 of them");
  refuse(tsr_features_read(features, INT64_MAX, 1, TSR_FEATURES_WHOLE, values, &got), "expected");
  refuse(tsr_features_read(features, 0, 10, 2, values, &got), "of kind 2");
  refuse(tsr_features_read(features, 0, 10, TSR_FEATURES_WHOLE, NULL, &got), "no NULL");
  refuse(tsr_features_has(features, -1, &got), "frame -1");
  refuse(tsr_features_has(features, TSR_FEATURES_MOST + 1, &got), "frame 65537");
  assert_int_equal(tsr_features_has(features, TSR_FEATURES_MOST, &got), TSR_OK); /* behind the longest window */
  assert_int_equal(got, 0);
  refuse(tsr_features_open(NULL, s.mel, &features), "must not be NULL");
  refuse(tsr_features_open(audio, NULL, &features), "must not be NULL");
  tsr_features_close(features);
  tsr_audio_close(audio);
  tsr_features_close(NULL);

  open_sound(&s, 1, &audio, &features);
  assert_int_equal(tsr_features_read(features, 50, 10, TSR_FEATURES_ALONE, values, &got), TSR_OK);
  refuse(tsr_features_read(features, 40, 10, TSR_FEATURES_ALONE, values, &got),
         "frame 40 is gone: the sound comes through a pipe, and was read from frame 50 on");
  assert_int_equal(tsr_features_read(features, 50, 10, TSR_FEATURES_WHOLE, values, &got), TSR_OK);
  assert_int_equal(got, 10);
  assert_int_equal(tsr_features_read(features, 1000000, 10, TSR_FEATURES_WHOLE, values, &got), TSR_OK);
  assert_int_equal(got, 0);
  close_sound(audio, features);
  end(&s);
}

/* Of a pipe that breaks off, all windows are there that came; the error stands behind them. */
static void test_cut(void **state)
{
  (void)state;
  sound s;
  tsr_audio *audio;
  tsr_features *features;
  static float values[MELS * 10];
  int32_t got;
  begin(&s, make_noise(40000, 3), 40000);
  s.fails = 1;
  open_sound(&s, 1, &audio, &features);
  check_whole(&s, features, 0, 100, 100);
  check_whole(&s, features, 200, 100, 300);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(tsr_features_has(features, 250, &got), TSR_OK);
    assert_int_equal(got, 0);
    assert_int_equal(tsr_features_read(features, 250, 10, TSR_FEATURES_WHOLE, values, &got), TSR_ERR_IO);
    assert_non_null(strstr(tsr_error_message(), "the line was cut"));
  }
  close_sound(audio, features);
  end(&s);
}

/* ---- an hour ----------------------------------------------------------------------------------------------------- */

typedef struct drone {
  int64_t at, size; /* bytes */
} drone;

/* 16 kHz, silent but for a second at the end. */
static tsr_status give_drone(void *context, void *bytes, size_t size, size_t *got)
{
  drone *d = context;
  const int64_t left = d->size - d->at;
  *got = (int64_t)size < left ? size : (size_t)left;
  memset(bytes, 0, *got);
  const int64_t loud = d->size - 32000;
  for (int64_t i = d->at > loud ? d->at : loud; i < d->at + (int64_t)*got; i++) {
    ((unsigned char *)bytes)[i - d->at] = i % 4 == 1 ? 0x40 : 0;
  }
  d->at += (int64_t)*got;
  return TSR_OK;
}

static tsr_status seek_drone(void *context, int64_t offset)
{
  ((drone *)context)->at = offset;
  return TSR_OK;
}

static long peak_kilobytes(void)
{
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_maxrss;
}

/* The maximum lies an hour behind the first window (with a sanitizer: five minutes). */
static void test_hour(void **state)
{
  (void)state;
  enum { SECONDS = TEST_IS_SANITIZED ? 300 : 3600, N = 100 };
  const tsr_audio_options options = {TSR_SIZED(tsr_audio_options), .raw = TSR_AUDIO_S16};
  drone d = {0, (int64_t)SECONDS * 32000};
  static float values[MELS * N];
  tsr_mel *mel;
  assert_int_equal(tsr_mel_create(MELS, &mel), TSR_OK);
  const long before = peak_kilobytes();
  for (int is_pipe = 0; is_pipe <= 1; is_pipe++) {
    const tsr_audio_source source = {give_drone, is_pipe ? NULL : seek_drone, &d, d.size};
    d.at = 0;
    tsr_audio *audio;
    tsr_features *features;
    assert_int_equal(tsr_audio_open_source("drone", &source, &options, &audio), TSR_OK);
    assert_int_equal(tsr_features_open(audio, mel, &features), TSR_OK);
    int32_t got;
    assert_int_equal(tsr_features_read(features, 0, N, TSR_FEATURES_WHOLE, values, &got), TSR_OK);
    assert_int_equal(got, N);
    const float quiet = values[0]; /* 8 below the maximum, or silence */
    assert_true(is_pipe ? quiet == -1.5f : quiet > -1.0f);
    assert_int_equal(tsr_features_read(features, (int64_t)SECONDS * 100 - N + 10, N, TSR_FEATURES_WHOLE, values, &got),
                     TSR_OK);
    assert_int_equal(got, N - 10);
    float largest = -INFINITY;
    for (int32_t i = 0; i < MELS * N; i++) {
      largest = fmaxf(largest, values[i]);
    }
    assert_true(fabsf(largest - quiet - 2) < 0.01f || is_pipe);
    assert_true(largest > 0);
    close_sound(audio, features);
  }
  const long grown = peak_kilobytes() - before;
  if (grown > 8192) {
    fail_msg("%ld KiB more after an hour", grown);
  }
  tsr_mel_destroy(mel);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_speech),    cmocka_unit_test(test_short), cmocka_unit_test(test_anywhere),
      cmocka_unit_test(test_arguments), cmocka_unit_test(test_cut),   cmocka_unit_test(test_hour),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

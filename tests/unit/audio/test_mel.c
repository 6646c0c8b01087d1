/* SPDX-License-Identifier: Apache-2.0
 *
 * Log-mel features: the recordings of tests/data/goldens/speech/features (TESSERA_GOLDENS names another folder of
 * recordings), and sounds of other lengths against the sums that audio.h tells.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include <math.h>

#include "tessera/audio.h"
#include "tessera/checkpoint.h"
#include "tests/support/goldens.h"
#include "tests/unit/audio/files.h"

enum { WINDOW = 480000 };

static const double near = 1e-5;
static const double pi = 3.14159265358979323846;

/* ---- recordings -------------------------------------------------------------------------------------------------- */

static const char *recorded(const char *name)
{
  char path[256];
  snprintf(path, sizeof path, "speech/features/%s", name);
  return golden_path(TESSERA_SOURCE_ROOT, path);
}

static double number(json_t *values, int32_t n_mels, const char *key)
{
  char name[64];
  snprintf(name, sizeof name, "mel%d.%s", (int)n_mels, key);
  return json_number_value(json_object_get(values, name));
}

/* features [n_mels, frames]: from frame `first` on they are those of the tensor, and behind it `rest`. */
static void compare(const float *features, int32_t n_mels, int64_t frames, const tsr_checkpoint_tensor *tensor,
                    int64_t first, double rest)
{
  tsr_checkpoint_tensor_info info;
  tsr_checkpoint_describe(tensor, &info);
  assert_int_equal(info.shape.extent[0], n_mels);
  const int64_t stored = info.shape.extent[1];
  assert_true(first + stored <= frames);
  float *values = calloc((size_t)(n_mels * stored), sizeof *values);
  assert_int_equal(tsr_checkpoint_read(tensor, 0, n_mels * stored, TSR_F32, values), TSR_OK);
  for (int32_t m = 0; m < n_mels; m++) {
    for (int64_t t = first; t < frames; t++) {
      const double expected = t < first + stored ? (double)values[m * stored + t - first] : rest;
      const double found = (double)features[m * frames + t];
      if (!(fabs(found - expected) <= near)) {
        fail_msg("%s: mel %d, frame %lld: %.9g, expected %.9g", info.name, (int)m, (long long)t, found, expected);
      }
    }
  }
  free(values);
}

static void compare_tensor(const tsr_checkpoint_tensor *tensor, json_t *files)
{
  tsr_checkpoint_tensor_info info;
  tsr_checkpoint_describe(tensor, &info);
  char file[128], what[32] = "";
  int n_mels;
  const int found = sscanf(info.name, "%99[^.].mel%d.%31s", file, &n_mels, what);
  assert_true(found >= 2);
  strcat(file, ".wav");
  json_t *values = json_object_get(files, file);
  assert_non_null(values);
  int64_t n;
  float *samples = read_samples(recorded(file), &n);
  assert_int_equal(n, json_integer_value(json_object_get(values, "samples")));
  const int is_whole = strcmp(what, "full_tail") == 0; /* of the sound as long as it is */
  const int64_t length = is_whole ? n : WINDOW, frames = length / TSR_MEL_HOP;
  float *features = calloc((size_t)(n_mels * frames), sizeof *features);
  tsr_mel *mel;
  assert_int_equal(tsr_mel_create(n_mels, &mel), TSR_OK);
  assert_int_equal(tsr_mel_features(mel, samples, n, length, features), TSR_OK);
  compare(features, n_mels, frames, tensor, is_whole ? (int64_t)number(values, n_mels, "full_tail_first_frame") : 0,
          number(values, n_mels, "value_of_all_later_frames"));
  tsr_mel_destroy(mel);
  free(features);
  free(samples);
}

static void test_recordings(void **state)
{
  (void)state;
  tsr_checkpoint *checkpoint;
  if (!recorded("features.safetensors")) {
    skip();
  }
  assert_int_equal(tsr_checkpoint_open(recorded("features.safetensors"), &checkpoint), TSR_OK);
  json_t *root = json_load_file(recorded("features.json"), 0, NULL);
  json_t *files = json_object_get(root, "files");
  assert_non_null(files);
  int32_t compared = 0;
  for (int32_t i = 0; i < tsr_checkpoint_count(checkpoint); i++) {
    const tsr_checkpoint_tensor *tensor = tsr_checkpoint_at(checkpoint, i);
    tsr_checkpoint_tensor_info info;
    tsr_checkpoint_describe(tensor, &info);
    if (strstr(info.name, ".mel")) {
      compare_tensor(tensor, files);
      compared++;
    }
  }
  assert_true(compared >= (int32_t)json_object_size(files));
  json_decref(root);
  tsr_checkpoint_close(checkpoint);
}

/* ---- other lengths ----------------------------------------------------------------------------------------------- */

static double noise(uint32_t *seed)
{
  *seed = *seed * 1664525u + 1013904223u;
  return (double)*seed / 2147483648.0 - 1;
}

/* As numpy.pad reflects: back and forth. */
static double reflected(const float *samples, int64_t n, int64_t length, int64_t i)
{
  while (i < 0 || i >= length) {
    i = length == 1 ? 0 : i < 0 ? -i : 2 * (length - 1) - i;
  }
  return i < n ? (double)samples[i] : 0;
}

static double scale(double hertz)
{
  return hertz < 1000 ? hertz * 3 / 200 : 15 + log(hertz / 1000) * 27 / log(6.4);
}

static double unscale(double mel)
{
  return mel < 15 ? mel * 200 / 3 : 1000 * pow(6.4, (mel - 15) / 27);
}

/* The sums that audio.h tells, without a table and without symmetries. */
static void slow_features(int32_t n_mels, const float *samples, int64_t n, int64_t length, double *features)
{
  const int64_t frames = length / TSR_MEL_HOP;
  double largest = -INFINITY, power[201];
  for (int64_t t = 0; t < frames; t++) {
    for (int32_t k = 0; k <= 200; k++) {
      double real = 0, imaginary = 0;
      for (int32_t i = 0; i < 400; i++) {
        const double x = (0.5 - 0.5 * cos(2 * pi * i / 400)) * reflected(samples, n, length, t * TSR_MEL_HOP - 200 + i);
        real += x * cos(2 * pi * k * i / 400);
        imaginary += x * sin(2 * pi * k * i / 400);
      }
      power[k] = real * real + imaginary * imaginary;
    }
    for (int32_t m = 0; m < n_mels; m++) {
      const double step = scale(8000) / (n_mels + 1);
      const double low = unscale(m * step), top = unscale((m + 1) * step), high = unscale((m + 2) * step);
      double sum = 0;
      for (int32_t k = 0; k <= 200; k++) {
        const double side = fmin((k * 40 - low) / (top - low), (high - k * 40) / (high - top));
        sum += fmax(0, side) * 2 / (high - low) * power[k];
      }
      features[m * frames + t] = log10(fmax(sum, 1e-10));
      largest = fmax(largest, features[m * frames + t]);
    }
  }
  for (int64_t i = 0; i < n_mels * frames; i++) {
    features[i] = (fmax(features[i], largest - 8) + 4) / 4;
  }
}

static void test_lengths(void **state)
{
  (void)state;
  static const struct {
    int64_t n, length;
    int32_t n_mels;
  } cases[] = {
      {0, 160, 80},     {1, 160, 5},      {160, 160, 1},   {161, 161, 80},  {199, 199, 128},
      {200, 200, 80},   {320, 320, 7},    {401, 401, 80},  {1000, 1000, 3}, {1439, 1439, 80},
      {1441, 1600, 40}, {3000, 1700, 80}, {50, 2000, 128}, {2000, 159, 80}, {0, 0, 80},
  };
  uint32_t seed = 1;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int64_t n = cases[i].n, length = cases[i].length, frames = length / TSR_MEL_HOP;
    const int32_t n_mels = cases[i].n_mels;
    float *samples = calloc((size_t)n + 1, sizeof *samples), *features = calloc((size_t)(n_mels * frames) + 1, 4);
    double *expected = calloc((size_t)(n_mels * frames) + 1, sizeof *expected);
    for (int64_t k = 0; k < n; k++) {
      samples[k] = (float)(0.5 * sin(0.2 * (double)k) + 0.1 * noise(&seed));
    }
    tsr_mel *mel;
    assert_int_equal(tsr_mel_create(n_mels, &mel), TSR_OK);
    assert_int_equal(tsr_mel_features(mel, samples, n, length, features), TSR_OK);
    slow_features(n_mels, samples, n, length, expected);
    for (int64_t k = 0; k < n_mels * frames; k++) {
      if (!(fabs((double)features[k] - expected[k]) <= 1e-6)) {
        fail_msg("%lld of %lld samples, %d mels, feature %lld: %.9g, expected %.9g", (long long)n, (long long)length,
                 (int)n_mels, (long long)k, (double)features[k], expected[k]);
      }
    }
    tsr_mel_destroy(mel);
    free(samples);
    free(features);
    free(expected);
  }
}

static void test_arguments(void **state)
{
  (void)state;
  tsr_mel *mel;
  assert_int_equal(tsr_mel_create(0, &mel), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_mel_create(TSR_MEL_MOST_MELS + 1, &mel), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_mel_create(80, NULL), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_mel_create(80, &mel), TSR_OK);
  assert_int_equal(tsr_mel_count(mel), 80);
  float value = 0;
  assert_int_equal(tsr_mel_features(NULL, &value, 1, 1, &value), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_mel_features(mel, NULL, 1, 1, &value), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_mel_features(mel, &value, -1, 1, &value), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_mel_features(mel, &value, 1, TSR_MEL_HOP, NULL), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_mel_features(mel, NULL, 0, TSR_MEL_HOP - 1, NULL), TSR_OK); /* no frame */
  tsr_mel_destroy(mel);
  tsr_mel_destroy(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_recordings),
      cmocka_unit_test(test_lengths),
      cmocka_unit_test(test_arguments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Times of tokens: against a plain form that sorts each neighbourhood and keeps whole tables, on drawn weights of many
 * sizes, with ties, and on the attention that was recorded of a small model.
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

#include "tessera/checkpoint.h"
#include "tessera/speech.h"
#include "tests/unit/speech/recordings.h"

/* ---- plain ------------------------------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static float median_at(const float *row, int32_t n, int32_t at, int32_t width)
{
  float near[64];
  const int32_t half = width / 2;
  if (n <= half) {
    return row[at];
  }
  for (int32_t i = -half; i <= half; i++) {
    const int32_t t = abs(at + i);
    near[i + half] = row[t < n ? t : 2 * n - 2 - t];
  }
  qsort(near, (size_t)width, sizeof *near, compare);
  return near[half];
}

/* matrix [rows, used] of what the path is to collect, summed over heads. */
static void plain_matrix(const float *weights, int32_t heads, int32_t rows, int32_t frames, int32_t used, int32_t width,
                         double *matrix)
{
  float *head = malloc((size_t)(rows * used) * sizeof *head);
  assert_non_null(head);
  memset(matrix, 0, (size_t)(rows * used) * sizeof *matrix);
  for (int32_t h = 0; h < heads; h++, weights += (size_t)rows * (size_t)frames) {
    for (int32_t t = 0; t < used; t++) {
      double mean = 0.0, variance = 0.0;
      for (int32_t r = 0; r < rows; r++) {
        mean += (double)weights[r * frames + t];
      }
      mean /= rows;
      for (int32_t r = 0; r < rows; r++) {
        const double difference = (double)weights[r * frames + t] - mean;
        variance += difference * difference;
      }
      const double deviation = sqrt(variance / rows);
      for (int32_t r = 0; r < rows; r++) {
        head[r * used + t] = deviation > 0.0 ? (float)(((double)weights[r * frames + t] - mean) / deviation) : 0.0f;
      }
    }
    for (int32_t i = 0; i < rows * used; i++) {
      matrix[i] += (double)median_at(head + i / used * used, used, i % used, width);
    }
  }
  free(head);
}

/* Tables [rows + 1, used + 1], column by column. */
static void plain_times(const float *weights, int32_t heads, int32_t rows, int32_t frames, int32_t used, int32_t width,
                        double *times)
{
  const size_t cells = (size_t)(rows + 1) * (size_t)(used + 1);
  double *matrix = malloc((size_t)(rows * used) * sizeof *matrix);
  float *cost = malloc(cells * sizeof *cost);
  char *trace = malloc(cells);
  assert_true(matrix && cost && trace);
  plain_matrix(weights, heads, rows, frames, used, width, matrix);
  for (size_t i = 0; i < cells; i++) {
    cost[i] = INFINITY;
  }
  cost[0] = 0.0f;
  for (int32_t j = 1; j <= used; j++) {
    for (int32_t i = 1; i <= rows; i++) {
      const float c0 = cost[(i - 1) * (used + 1) + j - 1];
      const float c1 = cost[(i - 1) * (used + 1) + j];
      const float c2 = cost[i * (used + 1) + j - 1];
      float c = c2;
      char step = 'j';
      if (c0 < c1 && c0 < c2) {
        c = c0;
        step = 'b';
      } else if (c1 < c0 && c1 < c2) {
        c = c1;
        step = 'i';
      }
      cost[i * (used + 1) + j] = (float)((double)c - matrix[(i - 1) * used + j - 1] / heads);
      trace[i * (used + 1) + j] = step;
    }
  }
  times[0] = 0.0;
  for (int32_t i = rows, j = used; i > 0 && j > 0;) {
    times[i] = (j - 1) * 0.02;
    const char step = trace[i * (used + 1) + j];
    i -= step != 'j';
    j -= step != 'i';
  }
  free(matrix);
  free(cost);
  free(trace);
}

static void expect_plain(const float *weights, int32_t heads, int32_t rows, int32_t frames, int32_t used, int32_t width)
{
  double *expected = malloc((size_t)(rows + 1) * sizeof *expected);
  double *found = malloc((size_t)(rows + 2) * sizeof *found);
  assert_true(expected && found);
  found[rows + 1] = 7.0; /* a guard */
  plain_times(weights, heads, rows, frames, used, width, expected);
  assert_int_equal(tsr_speech_token_times(weights, heads, rows, frames, used, width, found), TSR_OK);
  for (int32_t r = 0; r <= rows; r++) {
    if (!(fabs(found[r] - expected[r]) < 1e-9)) {
      fail_msg("%d heads, %d rows, %d of %d frames, a median of %d: row %d at %g, expected %g", (int)heads, (int)rows,
               (int)used, (int)frames, (int)width, (int)r, found[r], expected[r]);
    }
    assert_true(r == 0 || found[r] >= found[r - 1]);
  }
  assert_true(found[rows + 1] == 7.0);
  free(expected);
  free(found);
}

/* ---- drawn ------------------------------------------------------------------------------------------------------- */

static uint32_t drawn = 2024;

static int32_t draw(int32_t below)
{
  drawn = drawn * 1664525u + 1013904223u;
  return (int32_t)((drawn >> 8) % (uint32_t)below);
}

/* levels: of which few make ties. */
static float *draw_weights(int32_t n, int32_t levels)
{
  float *weights = malloc((size_t)n * sizeof *weights);
  assert_non_null(weights);
  for (int32_t i = 0; i < n; i++) {
    weights[i] = (float)draw(levels) / (float)levels;
  }
  return weights;
}

static void test_drawn(void **state)
{
  (void)state;
  for (int32_t round = 0; round < 1500; round++) {
    const int32_t heads = 1 + draw(4), rows = 1 + draw(12), frames = 1 + draw(20);
    const int32_t used = 1 + draw(frames), width = 1 + 2 * draw(6);
    float *weights = draw_weights(heads * rows * frames, round % 2 ? 3 : 1 << 20);
    expect_plain(weights, heads, rows, frames, used, width);
    free(weights);
  }
}

/* As large as published models are. */
static void test_large(void **state)
{
  (void)state;
  float *weights = draw_weights(448 * 1500, 1 << 20);
  expect_plain(weights, 1, 448, 1500, 1500, 7);
  free(weights);
}

/* A path that can be seen: each token attends to three frames of its own. */
static void test_diagonal(void **state)
{
  (void)state;
  float weights[4 * 12] = {0};
  for (int32_t r = 0; r < 4; r++) {
    for (int32_t t = 0; t < 3; t++) {
      weights[r * 12 + 3 * r + t] = 1.0f;
    }
  }
  double times[5];
  assert_int_equal(tsr_speech_token_times(weights, 1, 4, 12, 12, 3, times), TSR_OK);
  const double expected[] = {0.0, 0.0, 0.06, 0.12, 0.18};
  for (int32_t i = 0; i < 5; i++) {
    assert_true(fabs(times[i] - expected[i]) < 1e-9);
  }
}

/* What is equal everywhere, and what is no number, tells nothing; it must end all the same. */
static void test_flat(void **state)
{
  (void)state;
  float weights[6] = {0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f};
  double times[4];
  expect_plain(weights, 1, 2, 3, 3, 1);
  expect_plain(weights, 1, 1, 6, 6, 7);
  weights[1] = NAN;
  weights[4] = INFINITY;
  assert_int_equal(tsr_speech_token_times(weights, 1, 3, 2, 2, 3, times), TSR_OK);
  assert_true(times[0] == 0.0 && times[3] <= 0.02);
}

static void test_refused(void **state)
{
  (void)state;
  const float weights[4] = {0};
  double times[3];
  assert_int_equal(tsr_speech_token_times(weights, 1, 2, 2, 2, 2, times), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_token_times(weights, 1, 2, 2, 3, 1, times), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_token_times(weights, 1, 2, 2, 0, 1, times), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_token_times(weights, 0, 2, 2, 2, 1, times), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_token_times(weights, 1, 0, 2, 2, 1, times), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_token_times(NULL, 1, 2, 2, 2, 1, times), TSR_ERR_ARGUMENT);
}

/* ---- recorded ---------------------------------------------------------------------------------------------------- */

/* The attention of all heads [batch, head, row, frame] of a layer; the caller frees it. */
static float *read_attention(const tsr_checkpoint *checkpoint, int32_t layer, int64_t shape[4])
{
  char name[64];
  snprintf(name, sizeof name, "cross_attn.%d", (int)layer);
  const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(checkpoint, name);
  assert_non_null(tensor);
  tsr_checkpoint_tensor_info info;
  tsr_checkpoint_describe(tensor, &info);
  assert_int_equal(info.shape.rank, 4);
  int64_t n = 1;
  for (int32_t i = 0; i < 4; i++) {
    shape[i] = info.shape.extent[i];
    n *= shape[i];
  }
  float *values = malloc((size_t)n * sizeof *values);
  assert_non_null(values);
  assert_int_equal(tsr_checkpoint_read(tensor, 0, n, TSR_F32, values), TSR_OK);
  return values;
}

/* The heads that follow the sound, of one sentence and its first rows: [heads, rows, frames]. */
static void check_sentence(const tsr_checkpoint *checkpoint, const json_t *heads, int64_t sentence, int32_t rows,
                           int32_t width)
{
  const int32_t n_heads = (int32_t)json_array_size(heads);
  float *weights = NULL;
  int64_t shape[4] = {0};
  for (int32_t h = 0; h < n_heads; h++) {
    const json_t *head = json_array_get(heads, (size_t)h);
    float *all = read_attention(checkpoint, (int32_t)json_integer_value(json_array_get(head, 0)), shape);
    const int64_t index = json_integer_value(json_array_get(head, 1));
    const size_t size = (size_t)rows * (size_t)shape[3] * sizeof *weights;
    if (!weights) {
      weights = malloc((size_t)n_heads * size);
      assert_non_null(weights);
    }
    memcpy((char *)weights + (size_t)h * size, all + (sentence * shape[1] + index) * shape[2] * shape[3], size);
    free(all);
  }
  expect_plain(weights, n_heads, rows, (int32_t)shape[3], (int32_t)shape[3], width);
  expect_plain(weights, n_heads, rows, (int32_t)shape[3], (int32_t)shape[3] * 4 / 5, width);
  free(weights);
}

static void check_recorded(json_t *golden)
{
  tsr_checkpoint *checkpoint;
  assert_int_equal(tsr_checkpoint_open(recorded_file("golden.safetensors"), &checkpoint), TSR_OK);
  json_error_t error;
  json_t *settings = json_load_file(recorded_file("generation_config.json"), 0, &error);
  assert_non_null(settings);
  const json_t *heads = json_object_get(settings, "alignment_heads");
  const json_t *lengths = json_object_get(golden, "decoder_lengths");
  for (size_t i = 0; i < json_array_size(lengths); i++) {
    check_sentence(checkpoint, heads, (int64_t)i, (int32_t)json_integer_value(json_array_get(lengths, i)),
                   model_number(golden, "median_filter_width"));
  }
  json_decref(settings);
  tsr_checkpoint_close(checkpoint);
}

static void test_recorded(void **state)
{
  (void)state;
  if (for_each_recording(check_recorded) == 0) {
    skip();
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_drawn), cmocka_unit_test(test_large),   cmocka_unit_test(test_diagonal),
      cmocka_unit_test(test_flat),  cmocka_unit_test(test_refused), cmocka_unit_test(test_recorded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

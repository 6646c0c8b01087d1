/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu backend joins a product with the topk that reads it, and finds the largest column from a copy of the
 * weights in bytes. What it finds must be what the lines give one by one, bit for bit: they are run so with
 * keep_all, where these may not be joined. It joins a sum with the layernorm that reads it, unless the sum is read
 * elsewhere in that line.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/ops.h"
#include "tessera/runtime.h"
#include "tools/tessera/random.h"

static void check(tsr_status status)
{
  if (status != TSR_OK) {
    fail_msg("%s: %s", tsr_status_name(status), tsr_error_message());
  }
}

typedef enum data {
  PLAIN,       /* values from -1 to 1 */
  OUTLIERS,    /* a few elements of each row of a far larger than the others: bytes stand for the rest badly */
  ALIKE,       /* all columns nearly the same: all of them are candidates */
  TIES,        /* columns repeated, so that the lowest index counts */
  WHOLE,       /* whole numbers: many exact ties */
  STRANGE,     /* rows with NaN, infinities, zeros, tiny and huge elements */
  STRANGE_B,   /* the same in columns */
  SMALL,       /* rows whose elements' squares are too small for f32, no bias */
  SMALL_B,     /* the same in columns, of sizes far apart */
  SUPPRESSED,  /* most of the bias -inf */
  ALL_EXCLUDED /* all of it */
} data;

typedef struct shape {
  int32_t rows, columns, depth, k;
} shape;

static float *random_floats(int64_t n, uint64_t seed)
{
  float *values = malloc((size_t)n * sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < n; i++) {
    values[i] = (float)tsr_random_real(&seed);
  }
  return values;
}

static void make_strange(float *row, int64_t n, int64_t which)
{
  static const float specials[] = {NAN, INFINITY, -INFINITY, 1e25f, 1e38f, -1e38f};
  if (which % 9 < 6) {
    row[which % n] = specials[which % 9];
  } else {
    for (int64_t i = 0; i < n; i++) {
      row[i] *= which % 9 == 6 ? 0.0f : which % 9 == 7 ? 1e-35f : 1e15f;
    }
  }
}

static void fill(data kind, const shape *s, float *a, float *b, float *bias)
{
  const int64_t K = s->depth;
  for (int64_t m = 0; m < s->rows; m++) {
    if (kind == STRANGE) {
      make_strange(a + m * K, K, m);
    } else if (kind == OUTLIERS) {
      a[m * K + m % K] *= 400.0f;
    } else if (kind == SMALL) {
      for (int64_t k = 0; k < K; k++) {
        a[m * K + k] *= 1e-25f;
      }
    }
  }
  for (int64_t n = 0; n < s->columns; n++) {
    float *column = b + n * K;
    if (kind == TIES) {
      memcpy(column, b + n % 7 * K, (size_t)K * sizeof *column);
    } else if (kind == STRANGE_B && n % 50 == 3) {
      make_strange(column, K, n / 50);
    }
    for (int64_t k = 0; k < K; k++) {
      column[k] = kind == ALIKE ? b[k] + 1e-4f * column[k] : kind == WHOLE ? rintf(3.0f * column[k]) : column[k];
      column[k] *= kind == SMALL_B ? powf(10.0f, (float)(-14 - n % 12)) : 1.0f;
    }
    bias[n] = kind == ALL_EXCLUDED || (kind == SUPPRESSED && n % 64 != 9)         ? -INFINITY
              : kind == WHOLE || kind == TIES || kind == SMALL || kind == SMALL_B ? 0.0f
                                                                                  : bias[n];
  }
  for (int64_t i = 0; kind == WHOLE && i < s->rows * K; i++) {
    a[i] = rintf(3.0f * a[i]);
  }
}

typedef struct found {
  float *values;
  int32_t *indices;
} found;

/* The k largest of alpha * a @ b + bias, or of its log-softmax. a and what is found are temporaries, which may take
 * turns in the same memory. */
static found run(tsr_device *device, const shape *s, tsr_dtype dtype, int32_t logs, int32_t keep_all, const float *a,
                 const float *b, const float *bias)
{
  const int64_t a_size = (int64_t)s->rows * s->depth, b_size = (int64_t)s->columns * s->depth;
  const int64_t results = (int64_t)s->rows * s->k;
  found result = {.values = malloc((size_t)results * 4), .indices = malloc((size_t)results * 4)};
  void *narrow = malloc((size_t)b_size * 4);
  tsr_program *p;
  tsr_executable *executable;
  tsr_binding bindings[2];
  tsr_buffer *buffers[2];
  tsr_ref indices = TSR_NONE;
  assert_true(result.values && result.indices && narrow);
  check(tsr_convert(TSR_F32, b, dtype, narrow, b_size));
  check(tsr_program_create(&p));
  const tsr_ref given = tsr_input(p, "a", TSR_F32, TSR_SHAPE(s->rows, s->depth)), x = tsr_copy(p, given, TSR_F32);
  const tsr_ref weights = tsr_constant(p, "b", dtype, TSR_SHAPE(s->columns, s->depth));
  const tsr_ref added = tsr_constant(p, "bias", TSR_F32, TSR_SHAPE(s->columns));
  tsr_ref y = tsr_matmul(p, x, tsr_transpose(p, weights, 0, 1), added, 0.75f, TSR_ACTIVATION_NONE);
  y = logs ? tsr_log_softmax(p, y) : y;
  y = tsr_topk(p, y, s->k, &indices);
  const tsr_ref values = tsr_output(p, "values", tsr_copy(p, y, TSR_F32));
  indices = tsr_output(p, "indices", tsr_copy(p, indices, TSR_I32));
  check(tsr_program_status(p));
  const int64_t sizes[2] = {b_size * (int64_t)tsr_dtype_size(dtype), s->columns * (int64_t)sizeof(float)};
  const void *const bytes[2] = {narrow, bias};
  const tsr_ref tensors[2] = {weights, added};
  for (int32_t i = 0; i < 2; i++) {
    check(tsr_buffer_create(device, sizes[i], TSR_BUFFER_DEVICE, &buffers[i]));
    check(tsr_buffer_write(buffers[i], 0, sizes[i], bytes[i]));
    bindings[i] = (tsr_binding){.tensor = tensors[i], .buffer = buffers[i]};
  }
  const tsr_compile_options options = {.bindings = bindings, .n_bindings = 2, .strict = 1, .keep_all = keep_all};
  check(tsr_executable_create(device, p, &options, &executable));
  check(tsr_executable_write(executable, given, a, a_size * (int64_t)sizeof *a));
  check(tsr_executable_run(executable));
  check(tsr_executable_run(executable)); /* nothing is left over from the first */
  check(tsr_executable_read(executable, values, result.values, results * 4));
  check(tsr_executable_read(executable, indices, result.indices, results * 4));
  tsr_executable_destroy(executable);
  tsr_buffer_destroy(buffers[0]);
  tsr_buffer_destroy(buffers[1]);
  tsr_program_destroy(p);
  free(narrow);
  return result;
}

static int is_same(float a, float b)
{
  return (isnan(a) && isnan(b)) || a == b;
}

static void compare(tsr_device *device, const shape *s, data kind, tsr_dtype dtype, int32_t logs)
{
  float *a = random_floats((int64_t)s->rows * s->depth, 1), *bias = random_floats(s->columns, 3);
  float *b = random_floats((int64_t)s->columns * s->depth, 2);
  fill(kind, s, a, b, bias);
  found joined = run(device, s, dtype, logs, 0, a, b, bias), one_by_one = run(device, s, dtype, logs, 1, a, b, bias);
  for (int64_t i = 0; i < (int64_t)s->rows * s->k; i++) {
    /* The logarithm's sum is taken in another order. */
    const float x = joined.values[i], y = one_by_one.values[i];
    const int close = is_same(x, y) || (logs && fabsf(x - y) <= 4e-6f * (1.0f + fabsf(y)));
    /* Where logits part by less than that, either may come first. */
    if (!close || (joined.indices[i] != one_by_one.indices[i] && !logs)) {
      fail_msg("%s: %d x %d x %d, k %d, data %d, %s, row %lld, place %lld: %.9g at %d, one by one %.9g at %d",
               tsr_device_name(device), (int)s->rows, (int)s->columns, (int)s->depth, (int)s->k, (int)kind,
               tsr_dtype_name(dtype), (long long)(i / s->k), (long long)(i % s->k), (double)x, (int)joined.indices[i],
               (double)y, (int)one_by_one.indices[i]);
    }
  }
  free(joined.values);
  free(joined.indices);
  free(one_by_one.values);
  free(one_by_one.indices);
  free(a);
  free(b);
  free(bias);
}

static tsr_runtime *open_runtime(void)
{
  tsr_runtime *runtime;
  check(tsr_runtime_create(&(tsr_runtime_options){.path = CPU_FOLDER}, &runtime));
  check(tsr_runtime_option(runtime, "THREADS", "2"));
  check(tsr_runtime_option(runtime, "CPU_LEVEL", "all"));
  return runtime;
}

static tsr_device *open_level(tsr_runtime *runtime, int32_t level)
{
  tsr_device_info info;
  tsr_device *device;
  check(tsr_runtime_device_info(runtime, level, &info));
  check(tsr_device_open(runtime, info.name, &device));
  return device;
}

/* A row gives the bits in a batch that it gives alone: scores do not depend on who is translated beside. */
static void compare_rows_alone(tsr_device *device, const shape *s, int32_t logs)
{
  float *a = random_floats((int64_t)s->rows * s->depth, 1), *bias = random_floats(s->columns, 3);
  float *b = random_floats((int64_t)s->columns * s->depth, 2);
  found together = run(device, s, TSR_F32, logs, 0, a, b, bias);
  for (int32_t row = 0; row < s->rows; row += 9) {
    const shape one = {1, s->columns, s->depth, s->k};
    found alone = run(device, &one, TSR_F32, logs, 0, a + (int64_t)row * s->depth, b, bias);
    assert_memory_equal(alone.values, together.values + row * s->k, (size_t)s->k * sizeof(float));
    assert_memory_equal(alone.indices, together.indices + row * s->k, (size_t)s->k * sizeof(int32_t));
    free(alone.values);
    free(alone.indices);
  }
  free(together.values);
  free(together.indices);
  free(a);
  free(b);
  free(bias);
}

static void on_each_level(const shape *shapes, int32_t n, int32_t logs, int32_t alone)
{
  static const tsr_dtype dtypes[] = {TSR_F32, TSR_F16, TSR_BF16};
  tsr_runtime *runtime = open_runtime();
  for (int32_t level = 0; level < tsr_runtime_device_count(runtime); level++) {
    tsr_device *device = open_level(runtime, level);
    for (int32_t i = 0; i < n && alone; i++) {
      compare_rows_alone(device, &shapes[i], logs);
    }
    for (int32_t i = 0; i < n && !alone; i++) {
      for (data kind = PLAIN; kind <= ALL_EXCLUDED; kind++) {
        compare(device, &shapes[i], kind, dtypes[(i + kind) % 3], logs);
        compare(device, &shapes[i], kind, TSR_F32, logs);
      }
    }
    tsr_device_close(device);
  }
  tsr_runtime_destroy(runtime);
}

static void test_largest(void **state)
{
  (void)state;
  static const shape shapes[] = {{1, 1024, 64, 1},  {1, 5003, 192, 1}, {19, 1500, 17, 1}, {40, 2048, 40, 1},
                                 {7, 1111, 512, 1}, {130, 1030, 9, 1}, {3, 500, 33, 1}};
  on_each_level(shapes, sizeof shapes / sizeof shapes[0], 0, 0);
}

static void test_several_largest(void **state)
{
  (void)state;
  static const shape shapes[] = {{1, 1024, 64, 8}, {19, 1500, 17, 64}, {130, 300, 40, 3}, {7, 65, 31, 5}};
  on_each_level(shapes, sizeof shapes / sizeof shapes[0], 0, 0);
}

static void test_log_probabilities(void **state)
{
  (void)state;
  static const shape shapes[] = {{1, 1024, 64, 8}, {19, 1500, 17, 4}, {130, 300, 40, 3}};
  on_each_level(shapes, sizeof shapes / sizeof shapes[0], 1, 0);
}

enum { NORM_ROWS = 300, NORM_SIZE = NORM_ROWS * NORM_ROWS, NORM_COLUMN = 7 };

/* layernorm of a + its transpose, whose gain or bias is a column of that sum: a view of it, or, given, an input. */
static void norm_of_sum(tsr_device *device, int32_t as_bias, int32_t is_view, const float *a, float *y)
{
  tsr_program *p;
  tsr_executable *executable;
  float column[NORM_ROWS];
  check(tsr_program_create(&p));
  const tsr_ref x = tsr_input(p, "a", TSR_F32, TSR_SHAPE(NORM_ROWS, NORM_ROWS));
  const tsr_ref given = tsr_input(p, "column", TSR_F32, TSR_SHAPE(NORM_ROWS));
  const tsr_ref sum = tsr_add(p, x, tsr_transpose(p, x, 0, 1));
  const tsr_ref view = tsr_reshape(p, tsr_slice(p, sum, 1, NORM_COLUMN, 1), TSR_SHAPE(NORM_ROWS));
  const tsr_ref other = is_view ? view : given, gain = as_bias ? given : other, bias = as_bias ? other : TSR_NONE;
  const tsr_ref normal = tsr_output(p, "y", tsr_layernorm(p, sum, gain, bias, 1e-5f));
  check(tsr_program_status(p));
  for (int32_t i = 0; i < NORM_ROWS; i++) {
    column[i] = a[i * NORM_ROWS + NORM_COLUMN] + a[NORM_COLUMN * NORM_ROWS + i];
  }
  check(tsr_executable_create(device, p, &(tsr_compile_options){.strict = 1}, &executable));
  check(tsr_executable_write(executable, x, a, NORM_SIZE * (int64_t)sizeof *a));
  check(tsr_executable_write(executable, given, column, sizeof column));
  check(tsr_executable_run(executable));
  check(tsr_executable_read(executable, normal, y, NORM_SIZE * (int64_t)sizeof *y));
  tsr_executable_destroy(executable);
  tsr_program_destroy(p);
}

static void test_norm_of_sum(void **state)
{
  (void)state;
  float *a = random_floats(NORM_SIZE, 4), *seen = random_floats(NORM_SIZE, 5), *wanted = random_floats(NORM_SIZE, 6);
  tsr_runtime *runtime = open_runtime();
  for (int32_t level = 0; level < tsr_runtime_device_count(runtime); level++) {
    tsr_device *device = open_level(runtime, level);
    for (int32_t as_bias = 0; as_bias <= 1; as_bias++) {
      norm_of_sum(device, as_bias, 1, a, seen);
      norm_of_sum(device, as_bias, 0, a, wanted);
      assert_memory_equal(seen, wanted, NORM_SIZE * sizeof *seen);
    }
    tsr_device_close(device);
  }
  tsr_runtime_destroy(runtime);
  free(a);
  free(seen);
  free(wanted);
}

static void test_rows_alone(void **state)
{
  (void)state;
  static const shape shapes[] = {{130, 300, 40, 3}, {20, 5003, 64, 1}, {20, 5003, 64, 8}, {7, 1024, 512, 4}};
  on_each_level(shapes, sizeof shapes / sizeof shapes[0], 0, 1);
  on_each_level(shapes, sizeof shapes / sizeof shapes[0], 1, 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_largest),           cmocka_unit_test(test_several_largest),
      cmocka_unit_test(test_log_probabilities), cmocka_unit_test(test_rows_alone),
      cmocka_unit_test(test_norm_of_sum),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu backend fuses a product with the topk that reads it, and finds the largest column from a copy of the
 * weights in bytes. What it finds must be what the lines give one by one, bit for bit: they are run so with
 * keep_all, where these may not be fused. It fuses a sum with the layernorm that reads it, unless the sum is read
 * elsewhere in that line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tessera/ops.h"
#include "tessera/runtime.h"
#include "tests/support/fused.h"
#include "tests/support/sanitized.h"

/* The k largest of alpha * a @ b + bias, or of its log-softmax. a and what is found are temporaries, which may take
 * turns in the same memory. */
static found run(tsr_device *device, const extents *s, tsr_dtype dtype, int32_t logs, int32_t keep_all, const float *a,
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
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = bindings, .n_bindings = 2,
                                       .strict = 1, .keep_all = keep_all};
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

static void compare(tsr_device *device, const extents *s, data kind, tsr_dtype dtype, int32_t logs)
{
  float *a = random_floats((int64_t)s->rows * s->depth, 1), *bias = random_floats(s->columns, 3);
  float *b = random_floats((int64_t)s->columns * s->depth, 2);
  fill(kind, s, a, b, bias);
  found fused = run(device, s, dtype, logs, 0, a, b, bias), one_by_one = run(device, s, dtype, logs, 1, a, b, bias);
  check_found(tsr_device_name(device), s, kind, dtype, logs, fused, one_by_one);
  free(a);
  free(b);
  free(bias);
}

static tsr_runtime *open_runtime(void)
{
  tsr_runtime *runtime;
  check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = CPU_FOLDER}, &runtime));
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
static void compare_rows_alone(tsr_device *device, const extents *s, int32_t logs)
{
  float *a = random_floats((int64_t)s->rows * s->depth, 1), *bias = random_floats(s->columns, 3);
  float *b = random_floats((int64_t)s->columns * s->depth, 2);
  found together = run(device, s, TSR_F32, logs, 0, a, b, bias);
  for (int32_t row = 0; row < s->rows; row += TEST_IS_SANITIZED ? 45 : 9) {
    const extents one = {1, s->columns, s->depth, s->k};
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

static void on_each_level(const extents *shapes, int32_t n, int32_t logs, int32_t alone)
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
        if (!TEST_IS_SANITIZED) {
          compare(device, &shapes[i], kind, TSR_F32, logs);
        }
      }
    }
    tsr_device_close(device);
  }
  tsr_runtime_destroy(runtime);
}

static void test_largest(void **state)
{
  (void)state;
  static const extents shapes[] = {{1, 1024, 64, 1},  {1, 5003, 192, 1}, {19, 1500, 17, 1}, {40, 2048, 40, 1},
                                   {7, 1111, 512, 1}, {130, 1030, 9, 1}, {3, 500, 33, 1}};
  on_each_level(shapes, sizeof shapes / sizeof shapes[0], 0, 0);
}

static void test_several_largest(void **state)
{
  (void)state;
  static const extents shapes[] = {{1, 1024, 64, 8}, {19, 1500, 17, 64}, {130, 300, 40, 3}, {7, 65, 31, 5}};
  on_each_level(shapes, sizeof shapes / sizeof shapes[0], 0, 0);
}

static void test_log_probabilities(void **state)
{
  (void)state;
  static const extents shapes[] = {{1, 1024, 64, 8}, {19, 1500, 17, 4}, {130, 300, 40, 3}};
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
  check(tsr_executable_create(device, p, &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .strict = 1},
                              &executable));
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
  static const extents shapes[] = {{130, 300, 40, 3}, {20, 5003, 64, 1}, {20, 5003, 64, 8}, {7, 1024, 512, 4}};
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

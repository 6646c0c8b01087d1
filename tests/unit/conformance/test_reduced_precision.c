/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounds of lines of reduced precision: a device that rounds the factors as ops.h allows is within them in every
 * case of the conformance tests, one that keeps fewer bits is not.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/runtime.h"
#include "tests/support/sanitized.h"
#include "tools/conformance/conformance.h"

/* How factors are rounded. bits: after the first, 0: as many as the type has. */
typedef struct rounding {
  int32_t nearest, flush, bits;
} rounding;

static rounding how;

static float round_to(float value, int32_t dtype)
{
  const int half = dtype == TSR_F16;
  const float largest = half ? 65504.0f : 0x1.fep127f;
  int32_t bits = how.bits ? how.bits : half ? 10 : 7, exponent;
  if (!isfinite(value) || value == 0.0f) {
    return value;
  }
  frexpf(value, &exponent); /* |value| = m 2^exponent, 1/2 <= m < 1 */
  const int32_t least = half ? -13 : -125;
  if (exponent < least && how.flush) {
    return copysignf(0.0f, value);
  }
  exponent = exponent < least ? least : exponent;
  const double unit = ldexp(1.0, exponent - 1 - bits), steps = (double)value / unit;
  const double rounded = (how.nearest ? nearbyint(steps) : trunc(steps)) * unit;
  return fabs(rounded) > (double)largest ? copysignf(largest, value) : (float)rounded;
}

/* The reference, but for the factors of lines of reduced precision: they are rounded before a run, and put back after
 * it. */
typedef struct factor {
  tsr_backend_buffer *buffer;
  int64_t offset, size; /* bytes */
  int32_t dtype;
  float *kept, *rounded;
} factor;

/* EVERY: of so many cases, one is run; an odd number, as those of f16 and bf16 take turns. */
enum { MAX_FACTORS = 8, EVERY = TEST_IS_SANITIZED ? 9 : 3 };

static const tsr_backend *exact;
static tsr_backend table;
static factor factors[MAX_FACTORS];
static int32_t n_factors;

static void add_factor(const tsr_compile_args *args, int32_t tensor, int32_t dtype)
{
  const tsr_tensor_desc *desc = tsr_tensor_at(args->program, tensor);
  const tsr_storage_desc *storage = tsr_storage_at(args->program, desc->storage);
  if (desc->dtype != TSR_F32 || storage->size == 0) {
    return;
  }
  for (int32_t i = 0; i < n_factors; i++) { /* an attention and its gradient read the same */
    if (factors[i].buffer == args->buffers[storage->buffer] && factors[i].offset == storage->offset) {
      return;
    }
  }
  factor *f = &factors[n_factors++];
  *f = (factor){args->buffers[storage->buffer], storage->offset, storage->size, dtype, NULL, NULL};
  f->kept = malloc((size_t)f->size);
  f->rounded = malloc((size_t)f->size);
}

static int32_t compile(tsr_backend_device *device, const tsr_compile_args *args, tsr_backend_executable **executable)
{
  for (int32_t i = 0; i < args->program->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(args->program, i);
    if (!line->attributes.reduced_precision) {
      continue;
    }
    if (line->op == TSR_OP_MATMUL) {
      const int32_t reduced = line->attributes.reduced_precision;
      const int32_t dtype = reduced > 1 ? reduced : tsr_tensor_at(args->program, line->in[1])->dtype;
      add_factor(args, line->in[0], dtype);
      add_factor(args, line->in[1], dtype); /* if it is not of that type */
    }
    const int is_attention = line->op == TSR_OP_ATTENTION || line->op == TSR_OP_ATTENTION_GRADIENT;
    for (int32_t slot = 0; slot < 3 && is_attention; slot++) {
      add_factor(args, line->in[slot], line->attributes.reduced_precision == TSR_BF16 ? TSR_BF16 : TSR_F16);
    }
  }
  return exact->compile(device, args, executable);
}

static void destroy(tsr_backend_executable *executable)
{
  while (n_factors > 0) {
    n_factors--;
    free(factors[n_factors].kept);
    free(factors[n_factors].rounded);
  }
  exact->executable_destroy(executable);
}

static int32_t run(tsr_backend_executable *executable)
{
  int32_t status = TSR_OK;
  for (int32_t i = 0; i < n_factors && !status; i++) {
    factor *f = &factors[i];
    status = exact->buffer_read(f->buffer, (uint64_t)f->offset, (uint64_t)f->size, f->kept);
    for (int64_t j = 0; j < f->size / 4; j++) {
      f->rounded[j] = round_to(f->kept[j], f->dtype);
    }
    if (!status) {
      status = exact->buffer_write(f->buffer, (uint64_t)f->offset, (uint64_t)f->size, f->rounded);
    }
  }
  if (!status) {
    status = exact->run(executable);
  }
  if (!status) {
    status = exact->wait(executable);
  }
  for (int32_t i = 0; i < n_factors && !status; i++) {
    status =
        exact->buffer_write(factors[i].buffer, (uint64_t)factors[i].offset, (uint64_t)factors[i].size, factors[i].kept);
  }
  return status;
}

static const tsr_backend *query_rounding(uint32_t major, const tsr_host *host)
{
  exact = tessera_backend_query(major, host);
  table = *exact;
  table.name = "rounding";
  table.compile = compile;
  table.executable_destroy = destroy;
  table.run = run;
  return &table;
}

/* Sums so long that the reference takes seconds for them; what they show the others show, too. */
static int is_long(const char *name)
{
  return strstr(name, "K=20011") != NULL || strstr(name, "M=2053") != NULL;
}

static void test_bounds(void **state)
{
  (void)state;
  static const rounding allowed[] = {{.nearest = 1}, {0}, {.flush = 1}};
  static const struct {
    int32_t op;
    const char *part; /* of the case's name */
    rounding how;
  } coarse[] = {{TSR_OP_MATMUL, "b=f16", {.nearest = 1, .bits = 7}},
                {TSR_OP_MATMUL, "b=bf16", {.nearest = 1, .bits = 4}},
                {TSR_OP_ATTENTION, "", {.nearest = 1, .bits = 7}},
                {TSR_OP_ATTENTION, "narrow bf16", {.nearest = 1, .bits = 4}},
                {TSR_OP_ATTENTION_GRADIENT, "narrow f16", {.nearest = 1, .bits = 7}},
                {TSR_OP_ATTENTION_GRADIENT, "narrow bf16", {.nearest = 1, .bits = 4}}};
  int32_t caught[sizeof coarse / sizeof coarse[0]] = {0}, n_cases = 0, n_seen = 0;
  tsr_runtime *runtime;
  check_device reference, device;
  check_table cases;
  assert_int_equal(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = ""}, &runtime),
                   TSR_OK);
  assert_int_equal(tsr_runtime_register(runtime, tessera_backend_query), TSR_OK);
  assert_int_equal(tsr_runtime_register(runtime, query_rounding), TSR_OK);
  assert_int_equal(check_device_open(&reference, runtime, "reference"), TSR_OK);
  assert_int_equal(check_device_open(&device, runtime, "rounding"), TSR_OK);
  assert_int_equal(check_table_create(&cases), TSR_OK);
  for (int32_t i = 0; i < cases.count; i++) {
    const check_case *test = &cases.test[i];
    check_oracle *oracle;
    check_result result;
    if (test->perf || !strstr(test->name, ",narrow") || is_long(test->name) || n_seen++ % EVERY != 0) {
      continue;
    }
    n_cases++;
    if (check_oracle_create(test, 1, &reference, &oracle) != TSR_OK) {
      fail_msg("%s: %s", test->name, tsr_error_message());
    }
    for (size_t j = 0; j < sizeof allowed / sizeof allowed[0]; j++) {
      how = allowed[j];
      check_oracle_try(oracle, &device, &result);
      if (result.verdict != CHECK_PASSED) {
        fail_msg("%s, rounding %d: %s", test->name, (int)j, result.message);
      }
    }
    for (size_t j = 0; j < sizeof coarse / sizeof coarse[0]; j++) {
      if (coarse[j].op != test->op || !strstr(test->name, coarse[j].part)) {
        continue;
      }
      how = coarse[j].how;
      check_oracle_try(oracle, &device, &result);
      caught[j] += result.verdict == CHECK_FAILED;
    }
    check_oracle_destroy(oracle);
  }
  assert_true(n_cases > 300 / EVERY);
  for (size_t j = 0; j < sizeof coarse / sizeof coarse[0]; j++) {
    print_message("%s of reduced precision, %d bits: %d cases tell\n", tsr_op_describe(coarse[j].op)->name,
                  (int)coarse[j].how.bits, (int)caught[j]);
    assert_true(caught[j] * EVERY >= 5);
  }
  check_table_finish(&cases);
  check_device_finish(&device);
  check_device_finish(&reference);
  tsr_runtime_destroy(runtime);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_bounds)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

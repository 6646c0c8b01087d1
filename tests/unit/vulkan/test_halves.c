/* SPDX-License-Identifier: Apache-2.0
 *
 * Products by cooperative matrices round their factors to f16. Where only such a product reads the result of a norm, of
 * attention or of another product, that leaves it rounded. What comes of it must be what comes of the lines one by one,
 * bit by bit. How many lines were computed with the next shows by their time, 0.
 *
 * Skipped without a device that has cooperative matrices, and without a compiler of shaders that knew them.
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
#include "tests/support/fused.h"

enum { MAX_INPUTS = 8, MAX_OUTPUTS = 3 };

/* Values of an input */
typedef enum range { USUAL, BEYOND_F16, NOT_FINITE } range;

typedef struct chain {
  tsr_program *program;
  range range; /* of x */
  tsr_ref x;
  tsr_ref inputs[MAX_INPUTS], outputs[MAX_OUTPUTS];
  int32_t n_inputs, n_outputs;
} chain;

static tsr_ref input(chain *c, tsr_dtype dtype, tsr_shape shape)
{
  char name[16];
  snprintf(name, sizeof name, "x%d", (int)c->n_inputs);
  return c->inputs[c->n_inputs++] = tsr_input(c->program, name, dtype, shape);
}

static void output(chain *c, tsr_ref x)
{
  char name[16];
  snprintf(name, sizeof name, "y%d", (int)c->n_outputs);
  c->outputs[c->n_outputs++] = tsr_output(c->program, name, x);
}

/* Weights [N, K] as models store them, seen as [K, N]. */
static tsr_ref weights(chain *c, int64_t K, int64_t N)
{
  return tsr_transpose(c->program, input(c, TSR_F16, TSR_SHAPE(N, K)), 0, 1);
}

static tsr_ref multiply(chain *c, tsr_ref x, tsr_ref w, tsr_ref bias, int32_t activation)
{
  return tsr_matmul_reduced_precision(c->program, x, w, bias, 0.125f, activation);
}

/* Each builds a chain and returns how many of its lines are computed with the next. */
typedef int32_t (*build_fn)(chain *c, int64_t R, int64_t C);

/* A layer with its norm in front: norm, two products, and the residual. */
static int32_t build_feed_forward(chain *c, int64_t R, int64_t C)
{
  tsr_program *p = c->program;
  const tsr_ref x = input(c, TSR_F32, TSR_SHAPE(R, C)), gain = input(c, TSR_F32, TSR_SHAPE(C));
  const tsr_ref bias = input(c, TSR_F32, TSR_SHAPE(2 * C));
  tsr_ref y = tsr_layernorm(p, x, gain, TSR_NONE, 1e-5f);
  y = multiply(c, y, weights(c, C, 2 * C), bias, TSR_ACTIVATION_GELU_ERF);
  y = tsr_add(p, x, multiply(c, y, weights(c, 2 * C, C), gain, TSR_ACTIVATION_NONE));
  output(c, tsr_mul(p, y, y));
  return 3;
}

/* A norm behind a sum, both of which are needed later, too. */
static int32_t build_kept(chain *c, int64_t R, int64_t C)
{
  tsr_program *p = c->program;
  const tsr_ref x = input(c, TSR_F32, TSR_SHAPE(R, C)), more = input(c, TSR_F32, TSR_SHAPE(R, C));
  const tsr_ref gain = input(c, TSR_F32, TSR_SHAPE(C)), sum = tsr_add(p, x, more);
  const tsr_ref normed = tsr_rmsnorm(p, sum, gain, 1e-5f);
  const tsr_ref y = multiply(c, normed, weights(c, C, C + 8), TSR_NONE, TSR_ACTIVATION_RELU);
  output(c, tsr_mul(p, sum, normed));
  output(c, tsr_mul(p, y, y));
  return 2;
}

/* Attention and its output, of heads that are no whole shapes. */
static int32_t build_attention(chain *c, int64_t R, int64_t C)
{
  enum { HEADS = 2, B = 2, K = 36, D = HEADS * K };
  tsr_program *p = c->program;
  const tsr_ref q = input(c, TSR_F32, TSR_SHAPE(B, R / B, HEADS, K));
  const tsr_ref k = input(c, TSR_F32, TSR_SHAPE(B, 20, HEADS, K));
  const tsr_ref lengths = input(c, TSR_I32, TSR_SHAPE(B)), bias = input(c, TSR_F32, TSR_SHAPE(D));
  const tsr_attention_args args = {
      .q = q, .k = k, .v = k, .masking = {.lengths = lengths}, .alpha = 0.25f, .reduced_precision = 1};
  const tsr_ref y = tsr_reshape(p, tsr_attention(p, &args), TSR_SHAPE(R / B * B, D));
  output(c, tsr_add(p, multiply(c, y, weights(c, D, D), bias, TSR_ACTIVATION_NONE),
                    tsr_reshape(p, q, TSR_SHAPE(R / B * B, D))));
  (void)C;
  return 2;
}

/* Products one after another, of x as it is; what the last one leaves is read twice. The weights of one lie by rows. */
static int32_t build_products(chain *c, int64_t R, int64_t C)
{
  tsr_program *p = c->program;
  tsr_ref y = c->x = input(c, TSR_F32, TSR_SHAPE(R, C));
  y = multiply(c, y, weights(c, C, 24), TSR_NONE, TSR_ACTIVATION_NONE);
  y = multiply(c, y, input(c, TSR_F16, TSR_SHAPE(24, C)), TSR_NONE, TSR_ACTIVATION_RELU);
  y = multiply(c, y, weights(c, C, 33), TSR_NONE, TSR_ACTIVATION_NONE);
  output(c, tsr_mul(p, y, y));
  return 2;
}

/* Of a depth that is cut into parts, behind a norm. */
static int32_t build_deep(chain *c, int64_t R, int64_t C)
{
  tsr_program *p = c->program;
  const tsr_ref x = input(c, TSR_F32, TSR_SHAPE(R, 8 * C)), gain = input(c, TSR_F32, TSR_SHAPE(8 * C));
  tsr_ref y = tsr_layernorm(p, x, gain, gain, 1e-5f);
  y = multiply(c, y, weights(c, 8 * C, 16), TSR_NONE, TSR_ACTIVATION_SILU);
  output(c, tsr_mul(p, y, y));
  return 1;
}

/* Nothing is rounded early that something else reads as it is: two products of one result, a sum with it, a product
 * that reads it turned, and weights of f32 or i8. */
static int32_t build_apart(chain *c, int64_t R, int64_t C)
{
  tsr_program *p = c->program;
  const tsr_ref x = input(c, TSR_F32, TSR_SHAPE(R, C)), square = input(c, TSR_F32, TSR_SHAPE(C, C));
  const tsr_ref w = weights(c, C, C);
  tsr_ref y = multiply(c, x, w, TSR_NONE, TSR_ACTIVATION_NONE);
  const tsr_ref z = multiply(c, y, w, TSR_NONE, TSR_ACTIVATION_NONE);
  y = tsr_mul(p, z, multiply(c, y, w, TSR_NONE, TSR_ACTIVATION_RELU));
  y = multiply(c, y, w, TSR_NONE, TSR_ACTIVATION_NONE);
  output(c, tsr_matmul(p, y, square, TSR_NONE, 0.125f, TSR_ACTIVATION_NONE));
  y = multiply(c, x, weights(c, C, R), TSR_NONE, TSR_ACTIVATION_NONE);
  y = multiply(c, tsr_transpose(p, y, 0, 1), weights(c, R, 16), TSR_NONE, TSR_ACTIVATION_NONE);
  output(c, tsr_mul(p, y, y));
  y = multiply(c, x, w, TSR_NONE, TSR_ACTIVATION_NONE);
  const tsr_ref bytes = tsr_transpose(p, input(c, TSR_I8, TSR_SHAPE(C, C)), 0, 1);
  output(c, tsr_matmul_i8(p, y, bytes, input(c, TSR_F32, TSR_SHAPE(C)), TSR_NONE, 0.125f, TSR_ACTIVATION_NONE));
  return 0;
}

static void write_input(tsr_executable *executable, const chain *c, int32_t index)
{
  static const float strange[] = {INFINITY, -INFINITY, NAN, 65519.0f, 65520.0f, -1e30f, 3e-8f};
  const tsr_ref ref = c->inputs[index];
  const int64_t n = elements_of(c->program, ref);
  const tsr_dtype dtype = tsr_ref_dtype(c->program, ref);
  float *values = random_floats(n, 1 + (uint64_t)index);
  for (int64_t i = 0; ref == c->x && c->range != USUAL && i < n; i++) {
    if (c->range == BEYOND_F16) {
      values[i] *= 1e5f;
    } else if (i % 1009 == 0) { /* in some rows alone */
      values[i] = strange[i / 1009 % 7];
    }
  }
  if (dtype == TSR_I8) {
    for (int64_t i = 0; i < n; i++) {
      ((int8_t *)values)[i] = (int8_t)(127.0f * values[i]);
    }
  } else if (dtype == TSR_I32) {
    for (int64_t i = 0; i < n; i++) {
      ((int32_t *)values)[i] = 20 - 7 * (int32_t)i;
    }
  } else if (dtype != TSR_F32) {
    void *stored = malloc((size_t)n * tsr_dtype_size(dtype));
    assert_non_null(stored);
    check(tsr_convert(TSR_F32, values, dtype, stored, n));
    memcpy(values, stored, (size_t)n * tsr_dtype_size(dtype));
    free(stored);
  }
  check(tsr_executable_write(executable, ref, values, n * (int64_t)tsr_dtype_size(dtype)));
  free(values);
}

static void write_inputs(tsr_executable *executable, const void *user)
{
  const chain *c = user;
  for (int32_t i = 0; i < c->n_inputs; i++) {
    write_input(executable, c, i);
  }
}

static void run_chain(tsr_device *device, const chain *c, float *results[MAX_OUTPUTS], int32_t *fused)
{
  const fused_run run = {
      .program = c->program, .write = write_inputs, .user = c, .outputs = c->outputs, .n_outputs = c->n_outputs};
  run_fused(device, &run, results, fused);
}

typedef struct trial {
  const char *name;
  build_fn build;
  range range;
  int exact;  /* bit by bit; else a norm has the same sums in the same order, but a compiler may round once where a
              * product is added to, and so a factor may become the next number of f16 */
  int forced; /* attention's variant has to be forced, because the device's subgroups are small */
} trial;

static const trial trials[] = {
    {"feed forward", build_feed_forward, USUAL, 0, 0},
    {"kept", build_kept, USUAL, 0, 0},
    {"attention", build_attention, USUAL, 1, 1},
    {"products", build_products, USUAL, 1, 0},
    {"large products", build_products, BEYOND_F16, 1, 0},
    {"strange products", build_products, NOT_FINITE, 1, 0},
    {"deep", build_deep, USUAL, 0, 0},
    {"apart", build_apart, USUAL, 1, 0},
};

/* The variant of that name; 0: there is none. */
static int32_t variant_called(tsr_device *device, const char *name)
{
  for (int32_t i = 1; i <= tsr_device_variant_count(device); i++) {
    if (strcmp(tsr_device_variant_name(device, i), name) == 0) {
      return i;
    }
  }
  return 0;
}

/* Attention is forced to its cooperative variant, and what is behind it remembered as one. */
static void force(tsr_device *device, const tsr_program *program)
{
  check(tsr_device_force_variant(device, variant_called(device, "attention.coop")));
  check(tsr_device_remember_variant(device, program, 1, variant_called(device, "matmul.coop_f16_64")));
}

static void compare(tsr_device *fusing, tsr_device *apart, const trial *t, int64_t rows, int64_t columns)
{
  const float tolerance = t->exact ? 0.0f : 1e-3f;
  chain c = {.range = t->range};
  float *fused[MAX_OUTPUTS], *one_by_one[MAX_OUTPUTS];
  int32_t lines_fused, lines_apart;
  check(tsr_program_create(&c.program));
  const int32_t expected = t->build(&c, rows, columns);
  check(tsr_program_status(c.program));
  if (t->forced) {
    force(fusing, c.program);
    force(apart, c.program);
  }
  run_chain(apart, &c, one_by_one, &lines_apart);
  run_chain(fusing, &c, fused, &lines_fused);
  if (lines_fused != -1 && (lines_apart != 0 || lines_fused != expected)) {
    fail_msg("of %s, %lld x %lld, %d lines are computed with the next, not %d; %d where none may be", t->name,
             (long long)rows, (long long)columns, (int)lines_fused, (int)expected, (int)lines_apart);
  }
  for (int32_t i = 0; i < c.n_outputs; i++) {
    for (int64_t k = 0; k < elements_of(c.program, c.outputs[i]); k++) {
      const float x = fused[i][k], y = one_by_one[i][k];
      const int same = x == y || (isnan(x) && isnan(y));
      if (!same && !(fabsf(x - y) <= tolerance * (0.1f + fabsf(y)))) {
        fail_msg("%s, output %d, element %lld of %lld x %lld: %.9g, one by one %.9g", t->name, (int)i, (long long)k,
                 (long long)rows, (long long)columns, (double)x, (double)y);
      }
    }
    free(fused[i]);
    free(one_by_one[i]);
  }
  tsr_program_destroy(c.program);
}

/* 1 if the device would multiply halves by cooperative matrices. */
static int is_cooperative(tsr_device *device)
{
  chain c = {.range = USUAL};
  check(tsr_program_create(&c.program));
  build_products(&c, 64, 64);
  check(tsr_program_status(c.program));
  const char *name = tsr_device_variant_name(device, tsr_device_variant_of(device, c.program, 0));
  tsr_program_destroy(c.program);
  return name != NULL && strstr(name, "coop_f16") != NULL;
}

static tsr_runtime *open_runtime(const char *kernels, const char *fusion)
{
  tsr_runtime *runtime;
  check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = VULKAN_FOLDER}, &runtime));
  check(tsr_runtime_option(runtime, "VULKAN_KERNELS", kernels));
  check(tsr_runtime_option(runtime, "VULKAN_FUSION", fusion));
  return runtime;
}

/* Those that are forced, on a device that takes every variant whatever its subgroups; or the others. */
static void compare_all(tsr_device *fusing, tsr_device *apart, int forced)
{
  static const int64_t sizes[][2] = {{34, 64}, {72, 136}, {300, 32}};
  for (size_t i = 0; i < sizeof trials / sizeof trials[0]; i++) {
    for (size_t k = 0; trials[i].forced == forced && k < sizeof sizes / sizeof sizes[0]; k++) {
      compare(fusing, apart, &trials[i], sizes[k][0], sizes[k][1]);
    }
  }
}

static void test_trials(void **state)
{
  (void)state;
  static const char *const kernels[] = {"gpu", "cpu"};
  uint64_t cooperative = 0; /* a bit each */
  for (int forced = 0; forced < 2; forced++) {
    tsr_runtime *fusing = open_runtime(kernels[forced], "1"), *apart = open_runtime(kernels[forced], "0");
    for (int32_t i = 0; i < tsr_runtime_device_count(fusing); i++) {
      tsr_device_info info;
      tsr_device *devices[2];
      check(tsr_runtime_device_info(fusing, i, &info));
      check(tsr_device_open(fusing, info.name, &devices[0]));
      check(tsr_device_open(apart, info.name, &devices[1]));
      cooperative |= (uint64_t)(forced == 0 && is_cooperative(devices[0])) << i;
      if (cooperative >> i & 1) {
        compare_all(devices[0], devices[1], forced);
      }
      tsr_device_close(devices[0]);
      tsr_device_close(devices[1]);
    }
    tsr_runtime_destroy(fusing);
    tsr_runtime_destroy(apart);
  }
  if (cooperative == 0) {
    skip();
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_trials)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

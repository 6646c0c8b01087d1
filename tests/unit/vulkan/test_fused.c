/* SPDX-License-Identifier: Apache-2.0
 *
 * The Vulkan backend computes some neighbouring lines as one. What they give must be what they give one by one, with
 * the option that keeps them apart. Lines that were fused with the next show by their time, 0.
 *
 * Without a device: skipped.
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
#include "tessera/transformer.h"
#include "tests/support/fused.h"

enum { MAX_INPUTS = 8, MAX_OUTPUTS = 4, MAX_LINES = 64 };

/* A device twice. */
typedef struct pair {
  tsr_device *fusing, *apart;
} pair;

/* ---- chains of sums, products and norms ------------------------------------------------------------------------- */

typedef struct chain {
  tsr_program *program;
  tsr_ref inputs[MAX_INPUTS], outputs[MAX_OUTPUTS];
  int32_t n_inputs, n_outputs;
} chain;

static tsr_ref typed_input(chain *c, tsr_dtype dtype, tsr_shape shape)
{
  char name[16];
  snprintf(name, sizeof name, "x%d", (int)c->n_inputs);
  return c->inputs[c->n_inputs++] = tsr_input(c->program, name, dtype, shape);
}

static tsr_ref input(chain *c, tsr_shape shape)
{
  return typed_input(c, TSR_F32, shape);
}

static void output(chain *c, tsr_ref x)
{
  char name[16];
  snprintf(name, sizeof name, "y%d", (int)c->n_outputs);
  c->outputs[c->n_outputs++] = tsr_output(c->program, name, x);
}

/* Each builds a chain of R x C matrices and returns how many of its lines are fused with the next. */
typedef int32_t (*build_fn)(chain *c, int64_t R, int64_t C);

static int32_t build_norms(chain *c, int64_t R, int64_t C)
{
  tsr_program *p = c->program;
  tsr_ref x = input(c, TSR_SHAPE(R, C)), more = input(c, TSR_SHAPE(R, C)), gain = input(c, TSR_SHAPE(C));
  tsr_ref row = input(c, TSR_SHAPE(C)), column = input(c, TSR_SHAPE(R, 1));
  x = tsr_layernorm(p, tsr_add(p, x, more), gain, row, 1e-5f);
  x = tsr_rmsnorm(p, tsr_add(p, row, x), gain, 1e-5f);
  x = tsr_layernorm(p, tsr_add(p, x, column), gain, TSR_NONE, 1e-5f);
  output(c, x);
  return 3;
}

/* What is added up is needed once more: as a result of the program, and by a later line. */
static int32_t build_norms_kept(chain *c, int64_t R, int64_t C)
{
  tsr_program *p = c->program;
  tsr_ref x = input(c, TSR_SHAPE(R, C)), more = input(c, TSR_SHAPE(R, C)), gain = input(c, TSR_SHAPE(C));
  tsr_ref sum = tsr_add(p, x, more), next = tsr_add(p, tsr_layernorm(p, sum, gain, TSR_NONE, 1e-5f), sum);
  output(c, next);
  output(c, tsr_rmsnorm(p, next, gain, 1e-5f));
  return 2;
}

/* The norm's gain is a view of the sum: not fused. Nor is a norm that reads the sum turned, or a sum of whole
 * numbers. */
static int32_t build_norms_apart(chain *c, int64_t R, int64_t C)
{
  tsr_program *p = c->program;
  tsr_ref x = input(c, TSR_SHAPE(C, C)), more = input(c, TSR_SHAPE(C, C)), gain = input(c, TSR_SHAPE(C));
  tsr_ref sum = tsr_add(p, x, more);
  x = tsr_rmsnorm(p, sum, tsr_reshape(p, tsr_slice(p, sum, 0, 1, 1), TSR_SHAPE(C)), 1e-5f);
  x = tsr_layernorm(p, tsr_transpose(p, tsr_add(p, x, more), 0, 1), gain, TSR_NONE, 1e-5f);
  output(c, x);
  (void)R;
  return 0;
}

/* Products whose results are added to something: what is added is a residual, or the bias of a product without one. */
static int32_t build_residuals(chain *c, int64_t R, int64_t C)
{
  tsr_program *p = c->program;
  tsr_ref x = input(c, TSR_SHAPE(R, C)), weight = input(c, TSR_SHAPE(C, C)), bias = input(c, TSR_SHAPE(C));
  tsr_ref column = input(c, TSR_SHAPE(R, 1)), turned = input(c, TSR_SHAPE(C, R));
  x = tsr_add(p, x, tsr_matmul(p, x, weight, bias, 0.1f, TSR_ACTIVATION_SILU));
  x = tsr_mul(p, x, tsr_reshape(p, bias, TSR_SHAPE(1, C)));
  x = tsr_add(p, tsr_matmul(p, x, tsr_transpose(p, weight, 0, 1), TSR_NONE, 0.1f, TSR_ACTIVATION_NONE), column);
  x = tsr_mul(p, x, x);
  tsr_ref y = tsr_matmul(p, x, weight, bias, 0.1f, TSR_ACTIVATION_NONE);
  y = tsr_add(p, tsr_reshape(p, y, TSR_SHAPE(1, R * C)), tsr_reshape(p, x, TSR_SHAPE(1, R * C))); /* same order */
  output(c, tsr_add(p, tsr_reshape(p, y, TSR_SHAPE(R, C)), tsr_transpose(p, turned, 0, 1)));
  return 3;
}

/* Not fused: a residual that is no plain matrix, a result that is needed later, a sum that goes into a norm alone
 * (that is fused instead), and one with itself. */
static int32_t build_residuals_apart(chain *c, int64_t R, int64_t C)
{
  tsr_program *p = c->program;
  tsr_ref x = input(c, TSR_SHAPE(R, C)), weight = input(c, TSR_SHAPE(C, C)), bias = input(c, TSR_SHAPE(C));
  tsr_ref turned = input(c, TSR_SHAPE(C, R));
  tsr_ref y = tsr_matmul(p, x, weight, bias, 0.1f, TSR_ACTIVATION_RELU);
  y = tsr_add(p, y, tsr_transpose(p, turned, 0, 1));
  tsr_ref z = tsr_matmul(p, y, weight, bias, 0.1f, TSR_ACTIVATION_NONE);
  y = tsr_mul(p, tsr_add(p, z, x), z);
  z = tsr_matmul(p, y, weight, bias, 0.1f, TSR_ACTIVATION_NONE);
  y = tsr_rmsnorm(p, tsr_add(p, z, x), bias, 1e-5f);
  z = tsr_matmul(p, y, weight, bias, 0.1f, TSR_ACTIVATION_NONE);
  output(c, tsr_add(p, z, z));
  return 1;
}

/* A layer with its norm in front, twice: the memory plan leaves the residuals' places apart from what products read. */
static int32_t build_layers(chain *c, int64_t R, int64_t C)
{
  tsr_program *p = c->program;
  tsr_ref x = input(c, TSR_SHAPE(R, C)), wide = input(c, TSR_SHAPE(C, 4 * C)), narrow = input(c, TSR_SHAPE(4 * C, C));
  tsr_ref gain = input(c, TSR_SHAPE(C)), bias = input(c, TSR_SHAPE(4 * C)), last = input(c, TSR_SHAPE(C));
  x = tsr_copy(p, x, TSR_F32);
  for (int32_t i = 0; i < 2; i++) {
    tsr_ref h = tsr_layernorm(p, x, gain, TSR_NONE, 1e-5f);
    h = tsr_matmul(p, h, wide, bias, 0.1f, TSR_ACTIVATION_GELU_ERF);
    x = tsr_add(p, x, tsr_matmul(p, h, narrow, last, 0.1f, TSR_ACTIVATION_NONE));
  }
  output(c, tsr_mul(p, x, x));
  return 2;
}

/* Products with weights of i8 that quantise the same rows, once for all, until something else is written to where
 * those, or what they became, lie. No lines become one here. */
static int32_t build_quantised(chain *c, int64_t R, int64_t C)
{
  tsr_program *p = c->program;
  tsr_ref x = input(c, TSR_SHAPE(R, C)), scales = input(c, TSR_SHAPE(C)), many = input(c, TSR_SHAPE(1, 100000));
  tsr_ref weights[3], turned[3], indices;
  for (int32_t i = 0; i < 3; i++) {
    weights[i] = typed_input(c, TSR_I8, TSR_SHAPE(C, C));
    turned[i] = tsr_transpose(p, weights[i], 0, 1);
  }
  tsr_ref state = tsr_state(p, "state", TSR_F32, TSR_SHAPE(R, C));
  x = tsr_copy(p, x, TSR_F32); /* a temporary */
  tsr_ref gate = tsr_matmul_i8(p, x, turned[0], scales, TSR_NONE, 1.0f / 64.0f, TSR_ACTIVATION_SILU);
  tsr_ref y = tsr_mul(p, gate, tsr_matmul_i8(p, x, turned[1], scales, TSR_NONE, 1.0f / 64.0f, TSR_ACTIVATION_NONE));
  state = tsr_update(p, state, y);
  y = tsr_matmul_i8(p, state, turned[0], scales, TSR_NONE, 1.0f / 64.0f, TSR_ACTIVATION_NONE);
  state = tsr_update(p, state, y); /* read before, and again: as it is now */
  tsr_ref z = tsr_matmul_i8(p, state, turned[1], scales, TSR_NONE, 1.0f / 64.0f, TSR_ACTIVATION_NONE);
  tsr_update(p, tsr_slice(p, state, 0, R - 1, 1), tsr_slice(p, x, 0, 0, 1)); /* its last row alone */
  y = tsr_matmul_i8(p, state, turned[2], scales, TSR_NONE, 1.0f / 64.0f, TSR_ACTIVATION_NONE);
  z = tsr_mul(p, z, y);
  y = tsr_matmul_i8(p, z, turned[0], scales, TSR_NONE, 1.0f / 64.0f, TSR_ACTIVATION_NONE);
  output(c, tsr_topk(p, many, 4, &indices)); /* takes scratch, too */
  output(c, tsr_matmul_i8(p, z, turned[1], scales, TSR_NONE, 1.0f / 64.0f, TSR_ACTIVATION_NONE));
  output(c, tsr_matmul_i8(p, z, turned[2], scales, TSR_NONE, 1.0f / 64.0f, TSR_ACTIVATION_NONE));
  output(c, tsr_mul(p, y, y));
  return 0;
}

/* The same sums behind products with weights of i8: a residual, and what takes the place of a bias. */
static int32_t build_quantised_residuals(chain *c, int64_t R, int64_t C)
{
  tsr_program *p = c->program;
  tsr_ref x = input(c, TSR_SHAPE(R, C)), scales = input(c, TSR_SHAPE(C)), bias = input(c, TSR_SHAPE(C));
  tsr_ref weight = tsr_transpose(p, typed_input(c, TSR_I8, TSR_SHAPE(C, C)), 0, 1);
  tsr_ref y = tsr_matmul_i8(p, x, weight, scales, bias, 1.0f / 64.0f, TSR_ACTIVATION_SILU);
  output(c, tsr_add(p, y, x));
  y = tsr_matmul_i8(p, x, weight, scales, TSR_NONE, 1.0f / 64.0f, TSR_ACTIVATION_NONE);
  output(c, tsr_add(p, x, y));
  return 2;
}

static void write_inputs(tsr_executable *executable, const void *user)
{
  const chain *c = user;
  for (int32_t i = 0; i < c->n_inputs; i++) {
    const int64_t n = elements_of(c->program, c->inputs[i]);
    float *values = random_floats(n, 1 + (uint64_t)i);
    const tsr_dtype dtype = tsr_ref_dtype(c->program, c->inputs[i]);
    if (dtype == TSR_I8) {
      for (int64_t k = 0; k < n; k++) {
        ((int8_t *)values)[k] = (int8_t)(127.0f * values[k]);
      }
    }
    check(tsr_executable_write(executable, c->inputs[i], values, n * (int64_t)tsr_dtype_size(dtype)));
    free(values);
  }
}

static void run_chain(tsr_device *device, const chain *c, int32_t keep_all, float *results[MAX_OUTPUTS], int32_t *fused)
{
  const fused_run run = {.program = c->program,
                         .write = write_inputs,
                         .user = c,
                         .outputs = c->outputs,
                         .n_outputs = c->n_outputs,
                         .keep_all = keep_all};
  run_fused(device, &run, results, fused);
}

/* exact: bit by bit. Else there are the same sums in the same order, but a compiler may round once where a product is
 * added to. */
static void compare_chain(const pair *devices, const char *name, build_fn build, int exact, int64_t rows,
                          int64_t columns)
{
  const float tolerance = exact ? 0.0f : 1e-5f;
  chain c = {0};
  float *fused[MAX_OUTPUTS], *one_by_one[MAX_OUTPUTS];
  int32_t lines_fused, lines_apart;
  check(tsr_program_create(&c.program));
  const int32_t expected = build(&c, rows, columns);
  check(tsr_program_status(c.program));
  run_chain(devices->apart, &c, 0, one_by_one, &lines_apart);
  for (int32_t keep_all = 0; keep_all < 2; keep_all++) {
    run_chain(devices->fusing, &c, keep_all, fused, &lines_fused);
    if (lines_fused != -1 && (lines_apart != 0 || (lines_fused != expected && !keep_all))) {
      fail_msg("of %s %d lines are fused, not %d; %d where none may be", name, (int)lines_fused, (int)expected,
               (int)lines_apart);
    }
    for (int32_t i = 0; i < c.n_outputs; i++) {
      for (int64_t k = 0; k < elements_of(c.program, c.outputs[i]); k++) {
        if (!(fabsf(fused[i][k] - one_by_one[i][k]) <= tolerance * (1.0f + fabsf(one_by_one[i][k])))) {
          fail_msg("%s, output %d, element %lld of %lld x %lld: %.9g, one by one %.9g", name, (int)i, (long long)k,
                   (long long)rows, (long long)columns, (double)fused[i][k], (double)one_by_one[i][k]);
        }
      }
      free(fused[i]);
    }
  }
  for (int32_t i = 0; i < c.n_outputs; i++) {
    free(one_by_one[i]);
  }
  tsr_program_destroy(c.program);
}

/* ---- products and their largest columns ------------------------------------------------------------------------- */

/* The weights, in bytes of TSR_I8 also those of four bits, and the scales that their type has. */
typedef struct stored_weights {
  void *weights, *scales;
  tsr_dtype dtype, scales_dtype;
  tsr_shape shape, scales_shape;
} stored_weights;

/* b in the type of the weights; as whole numbers what is not within -1 .. 1 is other numbers. */
static stored_weights store_weights(const float *b, const extents *s, tsr_dtype dtype)
{
  const int64_t n = (int64_t)s->columns * s->depth, groups = (s->depth + TSR_I4_GROUP - 1) / TSR_I4_GROUP;
  const int64_t n_scales = s->columns * groups;
  stored_weights all = {.weights = calloc((size_t)(n + s->columns * TSR_I4_GROUP), 4),
                        .scales = calloc((size_t)n_scales, 4),
                        .dtype = dtype,
                        .scales_dtype = TSR_F32,
                        .shape = TSR_SHAPE(s->columns, s->depth),
                        .scales_shape = TSR_SHAPE(s->columns)};
  assert_true(all.weights && all.scales);
  if (dtype != TSR_I8 && dtype != TSR_I4) {
    check(tsr_convert(TSR_F32, b, dtype, all.weights, n));
    return all;
  }
  for (int64_t i = 0; i < n; i++) {
    const float x = fabsf(b[i]) <= 1.0f ? b[i] : (float)(i % 100) / 100.0f;
    const int64_t k = i % s->depth, row = i / s->depth * groups * TSR_I4_BYTES;
    if (dtype == TSR_I8) {
      ((int8_t *)all.weights)[i] = (int8_t)rintf(127.0f * x);
    } else {
      ((uint8_t *)all.weights)[row + k / 8 * 4 + k % 4] |= (uint8_t)((int)rintf(7.0f * x) + 8) << (k % 8 < 4 ? 0 : 4);
    }
  }
  float *units = all.scales;
  for (int64_t i = 0; i < n_scales; i++) {
    units[i] = dtype == TSR_I8 ? 1.0f / 127.0f : (float)(1 + i % 3) / 16.0f;
  }
  if (dtype == TSR_I4) {
    void *halves = calloc((size_t)n_scales, 4);
    assert_non_null(halves);
    check(tsr_convert(TSR_F32, units, TSR_F16, halves, n_scales));
    free(units);
    all.scales = halves;
    all.dtype = TSR_I8;
    all.scales_dtype = TSR_F16;
    all.shape = TSR_SHAPE(s->columns, groups * TSR_I4_BYTES);
    all.scales_shape = TSR_SHAPE(s->columns, groups);
  }
  return all;
}

static int64_t count_of(tsr_shape shape)
{
  return shape.extent[0] * (shape.rank > 1 ? shape.extent[1] : 1);
}

/* The k largest of alpha * a @ b + bias, or of its log-softmax. a and what is found are temporaries, which may take
 * turns in the same memory. runs: of which the last counts. *fused: how many lines took no time. */
static found run_largest(tsr_device *device, const extents *s, tsr_dtype dtype, int32_t logs, int32_t runs,
                         const float *a, const float *b, const float *bias, int32_t *fused)
{
  const int64_t a_size = (int64_t)s->rows * s->depth;
  const int64_t results = (int64_t)s->rows * s->k;
  found result = {.values = malloc((size_t)results * 4), .indices = malloc((size_t)results * 4)};
  stored_weights stored = store_weights(b, s, dtype);
  tsr_program *p;
  tsr_executable *executable;
  tsr_ref indices = TSR_NONE;
  uint64_t nanoseconds[MAX_LINES];
  assert_true(result.values && result.indices);
  check(tsr_program_create(&p));
  const tsr_ref given = tsr_input(p, "a", TSR_F32, TSR_SHAPE(s->rows, s->depth)), x = tsr_copy(p, given, TSR_F32);
  const tsr_ref weights = tsr_input(p, "b", stored.dtype, stored.shape);
  const tsr_ref added = tsr_input(p, "bias", TSR_F32, TSR_SHAPE(s->columns));
  const tsr_ref scales =
      stored.dtype == TSR_I8 ? tsr_input(p, "scales", stored.scales_dtype, stored.scales_shape) : TSR_NONE;
  const tsr_ref turned = tsr_transpose(p, weights, 0, 1);
  tsr_ref y = dtype == TSR_I8 ? tsr_matmul_i8(p, x, turned, scales, added, 0.75f, TSR_ACTIVATION_NONE)
              : dtype == TSR_I4
                  ? tsr_matmul_i4(p, x, turned, tsr_transpose(p, scales, 0, 1), added, 0.75f, TSR_ACTIVATION_NONE)
                  : tsr_matmul(p, x, turned, added, 0.75f, TSR_ACTIVATION_NONE);
  y = logs ? tsr_log_softmax(p, y) : y;
  y = tsr_topk(p, y, s->k, &indices);
  if (s->k == 1) { /* fed back to a state, from which it is read */
    const tsr_ref state = tsr_state(p, "state", TSR_I32, TSR_SHAPE(s->rows));
    indices = tsr_update(p, state, tsr_reshape(p, indices, TSR_SHAPE(s->rows)));
  }
  const tsr_ref values = tsr_output(p, "values", tsr_copy(p, y, TSR_F32));
  indices = tsr_output(p, "indices", tsr_copy(p, indices, TSR_I32));
  check(tsr_program_status(p));
  check(tsr_executable_create(
      device, p, &(tsr_compile_options){TSR_SIZED(tsr_compile_options), .strict = 1, .profile = 1}, &executable));
  check(tsr_executable_write(executable, given, a, a_size * (int64_t)sizeof *a));
  check(tsr_executable_write(executable, weights, stored.weights,
                             count_of(stored.shape) * (int64_t)tsr_dtype_size(stored.dtype)));
  check(tsr_executable_write(executable, added, bias, s->columns * (int64_t)sizeof *bias));
  if (scales != TSR_NONE) {
    check(tsr_executable_write(executable, scales, stored.scales,
                               count_of(stored.scales_shape) * (int64_t)tsr_dtype_size(stored.scales_dtype)));
  }
  for (int32_t i = 0; i < runs; i++) {
    check(tsr_executable_run(executable));
  }
  const int32_t n_lines = tsr_program_line_count(p);
  *fused = tsr_executable_profile(executable, nanoseconds, n_lines) == TSR_OK ? 0 : -1;
  for (int32_t i = 0; i < n_lines && *fused >= 0; i++) {
    *fused += nanoseconds[i] == 0;
  }
  check(tsr_executable_read(executable, values, result.values, results * 4));
  check(tsr_executable_read(executable, indices, result.indices, results * 4));
  tsr_executable_destroy(executable);
  tsr_program_destroy(p);
  free(stored.weights);
  free(stored.scales);
  return result;
}

static void compare_largest(const pair *devices, const extents *s, data kind, tsr_dtype dtype, int32_t logs)
{
  float *a = random_floats((int64_t)s->rows * s->depth, 1), *bias = random_floats(s->columns, 3);
  float *b = random_floats((int64_t)s->columns * s->depth, 2);
  int32_t lines_fused, lines_apart;
  fill(kind, s, a, b, bias);
  const int32_t runs = kind == PLAIN ? 2 : 1; /* nothing is left over from the first */
  found fused = run_largest(devices->fusing, s, dtype, logs, runs, a, b, bias, &lines_fused);
  found one_by_one = run_largest(devices->apart, s, dtype, logs, 1, a, b, bias, &lines_apart);
  /* Products with weights of i8 of a depth that is not in groups stay apart. */
  const int can = dtype != TSR_I8 || s->depth % 16 == 0;
  if (lines_fused != -1 && (lines_fused != (can ? (logs ? 2 : 1) + (s->k == 1) : 0) || lines_apart != 0)) {
    fail_msg("%d x %d x %d, k %d, %s: %d lines are fused, %d where none may be", (int)s->rows, (int)s->columns,
             (int)s->depth, (int)s->k, tsr_dtype_name(dtype), (int)lines_fused, (int)lines_apart);
  }
  check_found(tsr_device_name(devices->fusing), s, kind, dtype, logs, fused, one_by_one);
  free(a);
  free(b);
  free(bias);
}

/* ---- devices ---------------------------------------------------------------------------------------------------- */

static tsr_runtime *open_runtime(const char *kernels, const char *variant, const char *fusion)
{
  tsr_runtime *runtime;
  check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = VULKAN_FOLDER}, &runtime));
  check(tsr_runtime_option(runtime, "VULKAN_KERNELS", kernels));
  check(tsr_runtime_option(runtime, "VULKAN_VARIANT", variant));
  check(tsr_runtime_option(runtime, "VULKAN_FUSION", fusion));
  return runtime;
}

/* Calls body with each device, with kernels as for a CPU, and as for a GPU of small and of large subgroups. */
static void on_each_device(void (*body)(const pair *devices))
{
  static const char *const ways[][2] = {{"cpu", ""}, {"gpu", ""}, {"gpu", "matmul.vector_subgroup"}};
  int32_t n_devices = 0;
  for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
    tsr_runtime *fusing = open_runtime(ways[way][0], ways[way][1], "1");
    tsr_runtime *apart = open_runtime(ways[way][0], ways[way][1], "0");
    n_devices = tsr_runtime_device_count(fusing);
    for (int32_t i = 0; i < n_devices; i++) {
      tsr_device_info info;
      pair devices;
      check(tsr_runtime_device_info(fusing, i, &info));
      check(tsr_device_open(fusing, info.name, &devices.fusing));
      check(tsr_device_open(apart, info.name, &devices.apart));
      body(&devices);
      tsr_device_close(devices.fusing);
      tsr_device_close(devices.apart);
    }
    tsr_runtime_destroy(fusing);
    tsr_runtime_destroy(apart);
  }
  if (n_devices == 0) {
    skip();
  }
}

static void all_chains(const pair *devices)
{
  static const struct {
    const char *name;
    build_fn build;
    int exact;
  } chains[] = {
      {"norms", build_norms},
      {"norms kept", build_norms_kept},
      {"norms apart", build_norms_apart},
      {"residuals", build_residuals},
      {"residuals apart", build_residuals_apart},
      {"layers", build_layers},
      {"quantised", build_quantised, 1},
  };
  static const int64_t sizes[][2] = {{2, 33}, {70, 132}};
  for (size_t i = 0; i < sizeof chains / sizeof chains[0]; i++) {
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
      compare_chain(devices, chains[i].name, chains[i].build, chains[i].exact, sizes[k][0], sizes[k][1]);
    }
  }
  compare_chain(devices, "quantised residuals", build_quantised_residuals, 0, 5, 1040);
  compare_chain(devices, "quantised in parts", build_quantised, 1, 20, 528); /* of the depth */
}

static void test_chains(void **state)
{
  (void)state;
  on_each_device(all_chains);
}

static void all_largest(const pair *devices)
{
  static const tsr_dtype dtypes[] = {TSR_F32, TSR_F16, TSR_BF16};
  static const extents shapes[] = {{4, 1303, 64, 8}, {19, 300, 16, 5}, {1, 5003, 32, 1},
                                   {70, 300, 40, 3}, {7, 130, 32, 32}, {6, 515, 16, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
    for (data kind = PLAIN; kind <= (i < 2 ? ALL_EXCLUDED : PLAIN); kind++) {
      if (i != 1) {
        compare_largest(devices, &shapes[i], kind, dtypes[(i + kind) % 3], 0);
      }
      if (i != 2) {
        compare_largest(devices, &shapes[i], kind, TSR_F32, 1);
      }
    }
    static const data kinds[] = {PLAIN, OUTLIERS, TIES, STRANGE, SUPPRESSED};
    for (size_t k = 0; k < (i == 0 ? sizeof kinds / sizeof kinds[0] : 1); k++) {
      compare_largest(devices, &shapes[i], kinds[k], TSR_I8, (int32_t)(i + k) % 2);
      compare_largest(devices, &shapes[i], kinds[k], TSR_I4, (int32_t)(i + k + 1) % 2);
    }
  }
}

static void test_largest(void **state)
{
  (void)state;
  on_each_device(all_largest);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_chains),
      cmocka_unit_test(test_largest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

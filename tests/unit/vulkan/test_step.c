/* SPDX-License-Identifier: Apache-2.0
 *
 * What a decoding step has around a product with few rows, a sum and a norm before it and appends to caches behind it,
 * the Vulkan backend computes with it (backends/vulkan/matmul_fused.c). What it gives must be what the lines give one
 * by one. Lines that were computed with the next show by their time, 0.
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

enum { POSITIONS = 5, HEADS = 2, MAX_OUTPUTS = 5, MAX_INPUTS = 12 };

typedef enum norm_kind { NO_NORM, LAYERNORM, LAYERNORM_STD, LAYERNORM_WITHOUT_BIAS, RMSNORM } norm_kind;
typedef enum addend_kind { NO_ADDEND, ADDEND, ONE_ROW, COLUMN } addend_kind;

typedef struct step {
  int32_t rows, depth, columns; /* columns: a third each are queries, keys and values where there are caches */
  norm_kind norm;
  addend_kind addend;
  tsr_dtype weights;  /* TSR_I4: of four bits */
  tsr_dtype caches;   /* 0: there are none */
  int32_t keeps_sum;  /* a later line reads it */
  int32_t keeps_norm; /* likewise */
  int32_t biased;
  int32_t activation; /* TSR_ACTIVATION_* */
  int32_t is_strange; /* a row has NaN and infinities */
  int32_t fused;      /* lines that a GPU computes with the next */
  int32_t or_fused;   /* those of a small one, if it is another number */
} step;

/* A step's program. */
typedef struct built {
  tsr_program *program;
  tsr_ref input[MAX_INPUTS], output[MAX_OUTPUTS];
  float tolerance[MAX_OUTPUTS];
  int32_t n_inputs, n_outputs;
  int32_t limit;      /* of whole numbers: positions, lengths */
  int32_t is_strange; /* the first input has NaN and infinities */
} built;

static tsr_ref input(built *b, tsr_dtype dtype, tsr_shape shape)
{
  char name[16];
  snprintf(name, sizeof name, "x%d", (int)b->n_inputs);
  return b->input[b->n_inputs++] = tsr_input(b->program, name, dtype, shape);
}

static void output(built *b, tsr_ref x, float tolerance)
{
  char name[16];
  snprintf(name, sizeof name, "y%d", (int)b->n_outputs);
  b->tolerance[b->n_outputs] = tolerance;
  b->output[b->n_outputs++] = tsr_output(b->program, name, x);
}

static tsr_ref norm_of(built *b, const step *s, tsr_ref x)
{
  tsr_program *p = b->program;
  const tsr_ref gain = input(b, TSR_F32, TSR_SHAPE(s->depth)), bias = input(b, TSR_F32, TSR_SHAPE(s->depth));
  switch (s->norm) {
  case LAYERNORM:
    return tsr_layernorm(p, x, gain, bias, 1e-5f);
  case LAYERNORM_STD:
    return tsr_layernorm_std(p, x, gain, bias, 1e-6f);
  case LAYERNORM_WITHOUT_BIAS:
    return tsr_layernorm(p, x, gain, TSR_NONE, 1e-5f);
  case RMSNORM:
    return tsr_rmsnorm(p, x, gain, 1e-6f);
  default:
    return x;
  }
}

static int is_quantised(const step *s)
{
  return s->weights == TSR_I8 || s->weights == TSR_I4;
}

/* x times the weights of the step. */
static tsr_ref product_of(built *b, const step *s, tsr_ref x)
{
  tsr_program *p = b->program;
  const float by = 1.0f / sqrtf((float)s->depth);
  const int64_t groups = (s->depth + TSR_I4_GROUP - 1) / TSR_I4_GROUP;
  const tsr_ref weights = s->weights == TSR_I4 ? input(b, TSR_I8, TSR_SHAPE(s->columns, groups * TSR_I4_BYTES))
                                               : input(b, s->weights, TSR_SHAPE(s->columns, s->depth));
  const tsr_ref turned = tsr_transpose(p, weights, 0, 1), given = input(b, TSR_F32, TSR_SHAPE(s->columns));
  const tsr_ref bias = s->biased ? given : TSR_NONE;
  if (s->weights == TSR_I4) {
    const tsr_ref scales = input(b, TSR_F16, TSR_SHAPE(s->columns, groups));
    return tsr_matmul_i4(p, x, turned, tsr_transpose(p, scales, 0, 1), bias, by / 8.0f, s->activation);
  }
  if (s->weights == TSR_I8) {
    const tsr_ref scales = input(b, TSR_F32, TSR_SHAPE(s->columns));
    return tsr_matmul_i8(p, x, turned, scales, bias, by / 127.0f, s->activation);
  }
  return tsr_matmul(p, x, turned, bias, by, s->activation);
}

static void append(built *b, const step *s, tsr_ref product, int32_t part, tsr_ref position, const char *name)
{
  const int64_t third = s->columns / 3;
  tsr_program *p = b->program;
  const tsr_ref slice = tsr_slice(p, product, 1, part * third, third);
  tsr_ref cache = tsr_state(p, name, s->caches, TSR_SHAPE(s->rows, POSITIONS, HEADS, third / HEADS));
  cache = tsr_append(p, cache, tsr_reshape(p, slice, TSR_SHAPE(s->rows, 1, HEADS, third / HEADS)), position);
  b->output[b->n_outputs] = cache; /* its output follows, when all is appended */
  b->tolerance[b->n_outputs++] = s->caches == TSR_BF16                   ? 1e-2f
                                 : is_quantised(s) && s->norm != NO_NORM ? 4e-3f
                                 : s->caches == TSR_F16                  ? 2e-3f
                                                                         : 1e-5f;
}

static void build(const step *s, built *b)
{
  *b = (built){.limit = POSITIONS, .is_strange = s->is_strange};
  check(tsr_program_create(&b->program));
  tsr_program *p = b->program;
  const tsr_ref given = input(b, TSR_F32, TSR_SHAPE(s->rows, s->depth));
  tsr_ref x = tsr_copy(p, given, TSR_F32); /* a temporary */
  if (s->addend != NO_ADDEND) {
    const tsr_shape shape = s->addend == ADDEND    ? TSR_SHAPE(s->rows, s->depth)
                            : s->addend == ONE_ROW ? TSR_SHAPE(1, s->depth)
                                                   : TSR_SHAPE(s->rows, 1);
    const tsr_ref addend = input(b, TSR_F32, shape);
    x = tsr_add(p, x, s->addend == COLUMN ? addend : tsr_copy(p, addend, TSR_F32));
  }
  const tsr_ref sum = x;
  x = norm_of(b, s, x);
  const tsr_ref y = product_of(b, s, x);
  /* What a norm gives may be rounded to i8 otherwise where it is computed otherwise: by a unit of its largest. */
  const float tolerance = is_quantised(s) && s->norm != NO_NORM ? 4e-3f : 1e-5f;
  if (s->caches != 0) {
    const tsr_ref position = input(b, TSR_I32, TSR_SHAPE(s->rows));
    append(b, s, y, 1, position, "keys");
    append(b, s, y, 2, position, "values");
    for (int32_t i = 0; i < b->n_outputs; i++) {
      b->output[i] = tsr_output(p, i == 0 ? "y0" : "y1", tsr_copy(p, b->output[i], TSR_F32));
    }
  }
  output(b, tsr_mul(p, y, y), tolerance);
  if (s->keeps_sum) {
    output(b, tsr_mul(p, sum, sum), 1e-5f);
  }
  if (s->keeps_norm) {
    output(b, tsr_mul(p, x, x), 1e-5f);
  }
  check(tsr_program_status(p));
}

static void write_input(tsr_executable *executable, const built *b, int32_t index)
{
  const int64_t n = elements_of(b->program, b->input[index]);
  const tsr_dtype dtype = tsr_ref_dtype(b->program, b->input[index]);
  float *values = random_floats(n, 1 + (uint64_t)index);
  void *stored = calloc((size_t)n, 4);
  assert_non_null(stored);
  if (b->is_strange && index == 0) {
    values[1] = INFINITY;
    values[n - 2] = NAN;
  }
  if (dtype == TSR_I32) {
    for (int32_t i = 0; i < n; i++) { /* as a position one beyond the cache's end: that row is not appended */
      ((int32_t *)stored)[i] = (b->limit - 3 + i) % (b->limit + 1);
    }
  } else if (dtype == TSR_I8) {
    for (int64_t i = 0; i < n; i++) {
      ((int8_t *)stored)[i] = (int8_t)(127.0f * values[i]);
    }
  } else {
    check(tsr_convert(TSR_F32, values, dtype, stored, n));
  }
  check(tsr_executable_write(executable, b->input[index], stored, n * (int64_t)tsr_dtype_size(dtype)));
  free(values);
  free(stored);
}

static void write_inputs(tsr_executable *executable, const void *user)
{
  const built *b = user;
  for (int32_t i = 0; i < b->n_inputs; i++) {
    write_input(executable, b, i);
  }
}

static void run(tsr_device *device, const built *b, float *results[MAX_OUTPUTS], int32_t *fused)
{
  const fused_run all = {
      .program = b->program, .write = write_inputs, .user = b, .outputs = b->output, .n_outputs = b->n_outputs};
  run_fused(device, &all, results, fused);
}

static int same(float a, float b, float tolerance)
{
  return fabsf(a - b) <= tolerance * (1.0f + fabsf(b)) || (isnan(a) && isnan(b)) || (isinf(a) && a == b);
}

/* Runs what was built on both devices, and destroys it. */
static void compare(tsr_device *fusing, tsr_device *apart, built b, const char *what, int32_t number, int32_t expected,
                    int32_t or_expected)
{
  float *as_one[MAX_OUTPUTS], *one_by_one[MAX_OUTPUTS];
  int32_t lines_fused, lines_apart;
  run(fusing, &b, as_one, &lines_fused);
  run(apart, &b, one_by_one, &lines_apart);
  if (lines_fused != -1 && ((lines_fused != expected && lines_fused != or_expected) || lines_apart != 0)) {
    fail_msg("%s, %s %d: %d lines are fused, not %d; %d where none may be", tsr_device_name(fusing), what, (int)number,
             (int)lines_fused, (int)expected, (int)lines_apart);
  }
  for (int32_t i = 0; i < b.n_outputs; i++) {
    for (int64_t k = 0; k < elements_of(b.program, b.output[i]); k++) {
      if (!same(as_one[i][k], one_by_one[i][k], b.tolerance[i])) {
        fail_msg("%s, %s %d, output %d, element %lld: %.9g, one by one %.9g", tsr_device_name(fusing), what,
                 (int)number, (int)i, (long long)k, (double)as_one[i][k], (double)one_by_one[i][k]);
      }
    }
    free(as_one[i]);
    free(one_by_one[i]);
  }
  tsr_program_destroy(b.program);
}

/* Those that are computed as one, and others that are nearly like them and stay apart. */
static const step steps[] = {
    {1, 64, 96, LAYERNORM, NO_ADDEND, TSR_F32, TSR_F16, .biased = 1, .keeps_norm = 1, .fused = 3},
    {2, 512, 768, LAYERNORM, ADDEND, TSR_F16, TSR_F16, .keeps_sum = 1, .biased = 1, .fused = 4},
    {8, 512, 1548, LAYERNORM, ONE_ROW, TSR_BF16, TSR_BF16, .keeps_norm = 1, .biased = 1, .fused = 4},
    {5, 48, 60, RMSNORM, NO_ADDEND, TSR_F16, TSR_F32, .is_strange = 1, .fused = 3},
    {3, 1024, 2050, LAYERNORM_STD, ADDEND, TSR_F32, .activation = TSR_ACTIVATION_RELU, .biased = 1, .fused = 2},
    {7, 1016, 31, LAYERNORM_WITHOUT_BIAS, ADDEND, TSR_F16, .activation = TSR_ACTIVATION_GELU_TANH, .keeps_sum = 1,
     .keeps_norm = 1, .fused = 2},
    {8, 1024, 4096, RMSNORM, NO_ADDEND, TSR_BF16, .activation = TSR_ACTIVATION_SILU, .is_strange = 1, .fused = 1},
    {4, 128, 384, NO_NORM, NO_ADDEND, TSR_F32, TSR_F16, .biased = 1, .fused = 2},
    {6, 8, 6, LAYERNORM, ADDEND, TSR_F16, .biased = 1, .fused = 2},
    {1, 4096, 5, RMSNORM, ADDEND, TSR_F32, .keeps_sum = 1, .fused = 2},
    {9, 64, 96, LAYERNORM, ADDEND, TSR_F32, TSR_F16, .keeps_sum = 1, .keeps_norm = 1, .biased = 1, .fused = 4,
     .or_fused = 1},
    {29, 1024, 192, LAYERNORM, ONE_ROW, TSR_F16, TSR_F16, .keeps_sum = 1, .biased = 1, .fused = 4, .or_fused = 1},
    /* Many rows; depths that are no whole groups: what is left is the sum with the norm. Then heads of an odd width,
     * and an addend that is a column, which is fused with the norm alone. */
    {33, 64, 96, LAYERNORM, ADDEND, TSR_F32, TSR_F16, .biased = 1, .fused = 1},
    {2, 30, 96, LAYERNORM, ADDEND, TSR_F32, TSR_F16, .biased = 1, .fused = 1},
    {2, 12, 96, LAYERNORM, ADDEND, TSR_F16, TSR_F16, .biased = 1, .fused = 1},
    {2, 64, 90, LAYERNORM, NO_ADDEND, TSR_F32, TSR_F16, .biased = 1, .fused = 3},
    {2, 64, 96, LAYERNORM, COLUMN, TSR_F32, TSR_F32, .biased = 1, .fused = 3},
    /* Weights of i8: in whole groups of 16, and with a sum or a norm that is needed later, not both. */
    {1, 512, 1536, LAYERNORM, ADDEND, TSR_I8, TSR_F16, .keeps_sum = 1, .biased = 1, .fused = 4},
    {8, 1024, 390, LAYERNORM, ONE_ROW, TSR_I8, TSR_BF16, .keeps_norm = 1, .biased = 1, .fused = 4},
    {5, 48, 60, RMSNORM, NO_ADDEND, TSR_I8, TSR_F32, .is_strange = 1, .fused = 3},
    {3, 1040, 2051, LAYERNORM_STD, ADDEND, TSR_I8, .activation = TSR_ACTIVATION_RELU, .biased = 1, .fused = 2},
    {7, 4096, 192, NO_NORM, NO_ADDEND, TSR_I8, TSR_F16, .biased = 1, .fused = 2},
    {6, 16, 6, NO_NORM, NO_ADDEND, TSR_I8, TSR_F32, .is_strange = 1, .fused = 2},
    {29, 1024, 192, LAYERNORM, ADDEND, TSR_I8, TSR_F16, .keeps_sum = 1, .fused = 4, .or_fused = 1},
    {2, 24, 96, LAYERNORM, ADDEND, TSR_I8, TSR_F16, .biased = 1, .fused = 1},
    {2, 64, 96, LAYERNORM, ADDEND, TSR_I8, TSR_F16, .keeps_sum = 1, .keeps_norm = 1, .fused = 3},
    /* Of four bits: in whole groups of 32. */
    {1, 512, 1536, LAYERNORM, ADDEND, TSR_I4, TSR_F16, .keeps_sum = 1, .biased = 1, .fused = 4},
    {8, 1024, 390, LAYERNORM, ONE_ROW, TSR_I4, TSR_BF16, .keeps_norm = 1, .biased = 1, .fused = 4},
    {5, 96, 60, RMSNORM, NO_ADDEND, TSR_I4, TSR_F32, .is_strange = 1, .fused = 3},
    {7, 4096, 192, NO_NORM, NO_ADDEND, TSR_I4, TSR_F16, .biased = 1, .fused = 2},
    {29, 1024, 192, LAYERNORM, ADDEND, TSR_I4, TSR_F16, .keeps_sum = 1, .fused = 4, .or_fused = 1},
    {2, 48, 96, LAYERNORM, ADDEND, TSR_I4, TSR_F16, .biased = 1, .fused = 1},
};

/* ---- attention with its output --------------------------------------------------------------------------------- */

/* Attention, the product of its heads, the sum with that, a norm, and a product of it. */
typedef struct attended {
  int32_t sentences, queries, heads, depth, keys, width, columns; /* width: of the sum */
  tsr_dtype cache, weights;
  int32_t biased;
  int32_t turned;    /* the product is the sum's first operand */
  int32_t keeps_sum; /* a later line reads it */
  int32_t fused;
} attended;

static void build_attended(const attended *s, built *b)
{
  *b = (built){.limit = s->keys};
  check(tsr_program_create(&b->program));
  tsr_program *p = b->program;
  const int64_t rows = (int64_t)s->sentences * s->queries, inner = (int64_t)s->heads * s->depth;
  const tsr_shape cache = TSR_SHAPE(s->sentences, s->keys, s->heads, s->depth);
  const tsr_ref q = input(b, TSR_F32, TSR_SHAPE(s->sentences, s->queries, s->heads, s->depth));
  const tsr_ref k = input(b, s->cache, cache), v = input(b, s->cache, cache);
  const tsr_ref lengths = input(b, TSR_I32, TSR_SHAPE(s->sentences));
  const tsr_ref given = input(b, TSR_F32, TSR_SHAPE(rows, s->width));
  const tsr_ref output_weights = input(b, s->weights, TSR_SHAPE(s->width, inner));
  const tsr_ref bias = input(b, TSR_F32, TSR_SHAPE(s->width)), gain = input(b, TSR_F32, TSR_SHAPE(s->width));
  const tsr_ref weights = input(b, s->weights, TSR_SHAPE(s->columns, s->width));
  const tsr_ref x = tsr_copy(p, given, TSR_F32);
  tsr_ref y = tsr_attention(
      p, &(tsr_attention_args){
             .q = q, .k = k, .v = v, .masking = {.lengths = lengths}, .alpha = 1.0f / sqrtf((float)s->depth)});
  y = tsr_reshape(p, y, TSR_SHAPE(rows, inner));
  y = tsr_matmul(p, y, tsr_transpose(p, output_weights, 0, 1), s->biased ? bias : TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
  const tsr_ref sum = s->turned ? tsr_add(p, y, x) : tsr_add(p, x, y);
  y = tsr_layernorm(p, sum, gain, bias, 1e-5f);
  y = tsr_matmul(p, y, tsr_transpose(p, weights, 0, 1), TSR_NONE, 0.1f, TSR_ACTIVATION_RELU);
  output(b, tsr_mul(p, y, y), 1e-5f);
  if (s->keeps_sum) {
    output(b, tsr_mul(p, sum, sum), 1e-5f);
  }
  check(tsr_program_status(p));
}

/* Three rows have attention alone, then the product with its sum, or the sum with what comes behind it. */
static const attended attentions[] = {
    {1, 1, 8, 64, 100, 512, 384, TSR_F16, TSR_F16, .biased = 1, .keeps_sum = 1, .fused = 4},
    {2, 1, 4, 32, 128, 128, 96, TSR_F32, TSR_BF16, .biased = 1, .turned = 1, .fused = 4},
    {1, 2, 3, 16, 7, 136, 8, TSR_F16, TSR_F32, .keeps_sum = 1, .fused = 4},
    {1, 1, 2, 128, 40, 1024, 260, TSR_BF16, TSR_F16, .fused = 4},
    {3, 1, 4, 32, 20, 128, 96, TSR_F16, TSR_F16, .biased = 1, .keeps_sum = 1, .fused = 2},
};

static void on_each_device(const char *kernels, const char *variant, int like_cpu)
{
  tsr_runtime *runtime[2];
  for (int32_t fusion = 0; fusion < 2; fusion++) {
    check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = VULKAN_FOLDER},
                             &runtime[fusion]));
    check(tsr_runtime_option(runtime[fusion], "VULKAN_KERNELS", kernels));
    check(tsr_runtime_option(runtime[fusion], "VULKAN_VARIANT", variant));
    check(tsr_runtime_option(runtime[fusion], "VULKAN_FUSION", fusion ? "1" : "0"));
  }
  const int32_t n_devices = tsr_runtime_device_count(runtime[1]);
  for (int32_t i = 0; i < n_devices; i++) {
    tsr_device_info info;
    tsr_device *device[2];
    check(tsr_runtime_device_info(runtime[1], i, &info));
    check(tsr_device_open(runtime[0], info.name, &device[0]));
    check(tsr_device_open(runtime[1], info.name, &device[1]));
    for (int32_t k = 0; k < (int32_t)(sizeof steps / sizeof steps[0]); k++) {
      const int32_t on_cpu = steps[k].addend != NO_ADDEND;
      const int32_t or_fused = steps[k].or_fused > 0 ? steps[k].or_fused : steps[k].fused;
      built b;
      build(&steps[k], &b);
      compare(device[1], device[0], b, "step", k, like_cpu ? on_cpu : steps[k].fused, like_cpu ? on_cpu : or_fused);
    }
    for (int32_t k = 0; !like_cpu && k < (int32_t)(sizeof attentions / sizeof attentions[0]); k++) {
      built b;
      build_attended(&attentions[k], &b);
      compare(device[1], device[0], b, "attention", k, attentions[k].fused, attentions[k].fused);
    }
    tsr_device_close(device[0]);
    tsr_device_close(device[1]);
  }
  tsr_runtime_destroy(runtime[0]);
  tsr_runtime_destroy(runtime[1]);
  if (n_devices == 0) {
    skip();
  }
}

static void test_shared_memory(void **state)
{
  (void)state;
  on_each_device("gpu", "matmul.vector", 0);
}

static void test_subgroups(void **state)
{
  (void)state;
  on_each_device("gpu", "matmul.vector_subgroup", 0);
}

static void test_like_cpu(void **state)
{
  (void)state;
  on_each_device("cpu", "", 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shared_memory),
      cmocka_unit_test(test_subgroups),
      cmocka_unit_test(test_like_cpu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

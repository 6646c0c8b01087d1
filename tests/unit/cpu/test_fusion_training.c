/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu backend fuses lines that follow one another in a step of training: a dropout with the sum and the norm after
 * it, with the activation before it or the activation's gradient after it; the gradient of a norm with the sum before
 * it and the dropout after it. What they give must be what they give one by one, bit for bit: with keep_all, where they
 * may not be fused. Which lines were fused shows in the profile: only the last of them takes time.
 */
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

enum { ROWS = 150, COLUMNS = 117, SIZE = ROWS * COLUMNS, MAX_OUTPUTS = 12, MAX_LINES = 40 };

typedef struct chain {
  tsr_program *program;
  tsr_ref x, z, column, seed; /* inputs: [ROWS, COLUMNS], the same, [COLUMNS], [2] */
  tsr_ref outputs[MAX_OUTPUTS];
  int32_t n_outputs;
} chain;

static void output(chain *c, tsr_ref y)
{
  char name[16];
  snprintf(name, sizeof name, "y%d", (int)c->n_outputs);
  c->outputs[c->n_outputs++] = tsr_output(c->program, name, tsr_copy(c->program, y, TSR_F32));
}

/* Temporaries, so that the plan lets what is dead give its place to what comes. */
static tsr_ref temporary(chain *c, tsr_ref x)
{
  return tsr_mul(c->program, x, x);
}

/* Each builder returns how many lines disappear in the line after them. */

static int32_t build_dropped_sum(chain *c, int32_t slot, int32_t sum_is_read)
{
  tsr_program *p = c->program;
  const tsr_ref x = temporary(c, c->x), z = temporary(c, c->z), dropped = tsr_dropout(p, z, c->seed, 0.3f, 5);
  const tsr_ref sum = slot ? tsr_add(p, x, dropped) : tsr_add(p, dropped, x);
  output(c, tsr_layernorm(p, sum, c->column, slot ? c->column : TSR_NONE, 1e-5f));
  if (sum_is_read) {
    output(c, sum);
  }
  return 2;
}

static int32_t build_dropped_sum_first(chain *c)
{
  return build_dropped_sum(c, 0, 0);
}

static int32_t build_dropped_sum_second(chain *c)
{
  return build_dropped_sum(c, 1, 1);
}

/* The dropout reads its operand across. */
static int32_t build_dropped_view(chain *c)
{
  tsr_program *p = c->program;
  const tsr_ref x = temporary(c, c->x), turned = tsr_reshape(p, temporary(c, c->z), TSR_SHAPE(COLUMNS, ROWS));
  const tsr_ref dropped = tsr_dropout(p, tsr_transpose(p, turned, 0, 1), c->seed, 0.1f, -1);
  output(c, tsr_layernorm(p, tsr_add(p, x, dropped), c->column, TSR_NONE, 1e-5f));
  return 2;
}

/* What is read elsewhere stays: the dropout's result here. */
static int32_t build_dropped_kept(chain *c)
{
  tsr_program *p = c->program;
  const tsr_ref x = temporary(c, c->x), dropped = tsr_dropout(p, temporary(c, c->z), c->seed, 0.1f, 1);
  output(c, tsr_layernorm(p, tsr_add(p, x, dropped), c->column, TSR_NONE, 1e-5f));
  output(c, dropped);
  return 1;
}

static int32_t build_activations(chain *c)
{
  tsr_program *p = c->program;
  output(c, tsr_dropout(p, tsr_relu(p, temporary(c, c->x)), c->seed, 0.5f, 2));
  output(c, tsr_dropout(p, tsr_gelu(p, tsr_transpose(p, c->x, 0, 1), TSR_ACTIVATION_GELU_ERF), c->seed, 0.5f, 2));
  output(c, tsr_dropout(p, tsr_silu(p, temporary(c, c->z)), c->seed, 0.1f, 3));
  const tsr_ref kept = tsr_silu(p, temporary(c, c->z));
  output(c, tsr_dropout(p, kept, c->seed, 0.1f, 3));
  output(c, kept);
  return 3;
}

static int32_t build_slopes(chain *c)
{
  tsr_program *p = c->program;
  const tsr_ref dy = tsr_dropout(p, temporary(c, c->z), c->seed, 0.4f, 2);
  output(c, tsr_activation_gradient(p, c->x, dy, TSR_ACTIVATION_RELU));
  const tsr_ref turned = tsr_dropout(p, tsr_transpose(p, c->z, 0, 1), c->seed, 0.4f, 2);
  output(c, tsr_activation_gradient(p, tsr_transpose(p, c->x, 0, 1), turned, TSR_ACTIVATION_GELU_TANH));
  /* The result takes the place of what the dropout reads across. */
  const tsr_ref over = tsr_dropout(p, tsr_transpose(p, temporary(c, c->z), 0, 1), c->seed, 0.4f, 2);
  output(c, tsr_activation_gradient(p, tsr_transpose(p, c->x, 0, 1), over, TSR_ACTIVATION_GELU_TANH));
  /* as x, not as dy */
  output(c,
         tsr_activation_gradient(p, tsr_dropout(p, temporary(c, c->z), c->seed, 0.4f, 2), c->x, TSR_ACTIVATION_SILU));
  return 2;
}

static void gradient_of_norm(chain *c, int32_t is_rms, tsr_ref dy, int32_t drops)
{
  tsr_program *p = c->program;
  tsr_ref dgain, dbias = TSR_NONE;
  const tsr_ref dx = is_rms ? tsr_rmsnorm_gradient(p, c->x, c->column, dy, 1e-5f, &dgain)
                            : tsr_layernorm_gradient(p, c->x, c->column, dy, 1e-5f, &dgain, &dbias);
  const tsr_ref dropped = drops ? tsr_dropout(p, dx, c->seed, 0.2f, 9) : TSR_NONE;
  output(c, dx);
  output(c, dgain);
  if (!is_rms) {
    output(c, dbias);
  }
  if (drops) {
    output(c, dropped);
  }
}

static int32_t build_norm_whole(chain *c)
{
  tsr_program *p = c->program;
  const tsr_ref a = temporary(c, c->x), b = temporary(c, c->z);
  gradient_of_norm(c, 0, tsr_add(p, a, b), 1);
  return 2;
}

static int32_t build_norm_parts(chain *c)
{
  tsr_program *p = c->program;
  const tsr_ref turned = tsr_transpose(p, tsr_reshape(p, temporary(c, c->x), TSR_SHAPE(COLUMNS, ROWS)), 0, 1);
  gradient_of_norm(c, 1, tsr_add(p, turned, c->z), 0);
  gradient_of_norm(c, 0, temporary(c, c->z), 1);
  const tsr_ref kept = tsr_add(p, turned, c->z);
  gradient_of_norm(c, 1, kept, 1);
  output(c, kept);
  return 3;
}

typedef int32_t (*build_fn)(chain *c);

static void write_inputs(const chain *c, tsr_executable *executable)
{
  static const int32_t seed[2] = {12345, -6789};
  const tsr_ref floats[] = {c->x, c->z, c->column};
  for (int32_t i = 0; i < 3; i++) {
    const int64_t n = elements_of(c->program, floats[i]);
    float *values = random_floats(n, 1 + (uint64_t)i);
    check(tsr_executable_write(executable, floats[i], values, n * (int64_t)sizeof *values));
    free(values);
  }
  check(tsr_executable_write(executable, c->seed, seed, sizeof seed));
}

/* The outputs, and in *fused how many lines took no time. */
static void run(tsr_device *device, const chain *c, int32_t keep_all, float *results[MAX_OUTPUTS], int32_t *fused)
{
  const tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .strict = 1, .keep_all = keep_all, .profile = 1};
  const int32_t n_lines = tsr_program_line_count(c->program);
  uint64_t nanoseconds[MAX_LINES];
  tsr_executable *executable;
  assert_in_range(n_lines, 1, MAX_LINES);
  check(tsr_executable_create(device, c->program, &options, &executable));
  write_inputs(c, executable);
  check(tsr_executable_run(executable));
  check(tsr_executable_run(executable)); /* nothing is left over from the first */
  check(tsr_executable_profile(executable, nanoseconds, n_lines));
  *fused = 0;
  for (int32_t i = 0; i < n_lines; i++) {
    *fused += nanoseconds[i] == 0;
  }
  for (int32_t i = 0; i < c->n_outputs; i++) {
    const int64_t n = elements_of(c->program, c->outputs[i]);
    results[i] = random_floats(n, 7);
    check(tsr_executable_read(executable, c->outputs[i], results[i], n * (int64_t)sizeof(float)));
  }
  tsr_executable_destroy(executable);
}

static void compare(tsr_device *device, build_fn build)
{
  chain c = {0};
  float *fused[MAX_OUTPUTS], *one_by_one[MAX_OUTPUTS];
  int32_t lines_fused, lines_kept;
  check(tsr_program_create(&c.program));
  c.x = tsr_input(c.program, "x", TSR_F32, TSR_SHAPE(ROWS, COLUMNS));
  c.z = tsr_input(c.program, "z", TSR_F32, TSR_SHAPE(ROWS, COLUMNS));
  c.column = tsr_input(c.program, "column", TSR_F32, TSR_SHAPE(COLUMNS));
  c.seed = tsr_input(c.program, "seed", TSR_I32, TSR_SHAPE(2));
  const int32_t expected = build(&c);
  check(tsr_program_status(c.program));
  run(device, &c, 0, fused, &lines_fused);
  run(device, &c, 1, one_by_one, &lines_kept);
  assert_int_equal(lines_fused, expected);
  for (int32_t i = 0; i < c.n_outputs; i++) {
    assert_memory_equal(fused[i], one_by_one[i], (size_t)elements_of(c.program, c.outputs[i]) * sizeof(float));
    free(fused[i]);
    free(one_by_one[i]);
  }
  tsr_program_destroy(c.program);
}

static void on_each_level(const build_fn *builders, size_t n)
{
  tsr_runtime *runtime;
  check(tsr_runtime_create(&(tsr_runtime_options){TSR_SIZED(tsr_runtime_options), .path = CPU_FOLDER}, &runtime));
  check(tsr_runtime_option(runtime, "THREADS", "2"));
  check(tsr_runtime_option(runtime, "CPU_LEVEL", "all"));
  for (int32_t level = 0; level < tsr_runtime_device_count(runtime); level++) {
    tsr_device_info info;
    tsr_device *device;
    check(tsr_runtime_device_info(runtime, level, &info));
    check(tsr_device_open(runtime, info.name, &device));
    for (size_t i = 0; i < n; i++) {
      compare(device, builders[i]);
    }
    tsr_device_close(device);
  }
  tsr_runtime_destroy(runtime);
}

static void test_sums(void **state)
{
  (void)state;
  static const build_fn builders[] = {build_dropped_sum_first, build_dropped_sum_second, build_dropped_view,
                                      build_dropped_kept};
  on_each_level(builders, sizeof builders / sizeof builders[0]);
}

static void test_activations(void **state)
{
  (void)state;
  static const build_fn builders[] = {build_activations, build_slopes};
  on_each_level(builders, sizeof builders / sizeof builders[0]);
}

static void test_norms(void **state)
{
  (void)state;
  static const build_fn builders[] = {build_norm_whole, build_norm_parts};
  on_each_level(builders, sizeof builders / sizeof builders[0]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sums),
      cmocka_unit_test(test_activations),
      cmocka_unit_test(test_norms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

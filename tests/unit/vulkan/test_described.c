/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told of a described device is what is recorded on the device itself, for all programs of a model; and a card
 * that is not here can be asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tessera/ops.h"
#include "tessera/plan.h"
#include "tessera/transformer.h"

enum { ALIGNMENT = 256 };

static tsr_runtime *start(void)
{
  const tsr_runtime_options options = {TSR_SIZED(tsr_runtime_options), .path = VULKAN_FOLDER};
  tsr_runtime *runtime;
  assert_int_equal(tsr_runtime_create(&options, &runtime), TSR_OK);
  return runtime;
}

/* Constants of zeros, in buffers of their own. */
static int32_t bind(tsr_device *device, const tsr_program *program, tsr_binding *bindings)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  int32_t n = 0;
  for (int32_t t = 1; t < desc->n_tensors; t++) {
    const char *name = tsr_ref_name(program, t);
    if (tsr_ref_kind(program, t) == TSR_STORAGE_CONSTANT && tsr_program_find(program, name) == t) {
      const int64_t size = tsr_storage_at(desc, tsr_tensor_at(desc, t)->storage)->size;
      tsr_buffer *buffer;
      assert_int_equal(tsr_buffer_create(device, size, TSR_BUFFER_DEVICE, &buffer), TSR_OK);
      bindings[n++] = (tsr_binding){.tensor = t, .buffer = buffer};
    }
  }
  return n;
}

static void compare(tsr_runtime *runtime, tsr_device *device, const tsr_program *program)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  tsr_described_device described = {.struct_size = sizeof described};
  tsr_binding *bindings = calloc((size_t)desc->n_tensors, sizeof *bindings);
  tsr_line_commands *recorded = calloc((size_t)desc->n_lines + 1, sizeof *recorded);
  tsr_line_commands *told = calloc((size_t)desc->n_lines + 1, sizeof *told);
  tsr_compile_options options = {TSR_SIZED(tsr_compile_options), .bindings = bindings};
  tsr_executable *executable;
  tsr_device_plan *plan;
  assert_true(bindings && recorded && told);
  options.n_bindings = bind(device, program, bindings);
  assert_int_equal(tsr_executable_create(device, program, &options, &executable), TSR_OK);
  assert_int_equal(tsr_executable_commands(executable, recorded, desc->n_lines), TSR_OK);

  assert_int_equal(tsr_device_describe(device, &described), TSR_OK);
  assert_int_equal(tsr_device_plan_create(runtime, "vulkan", &described, program, &plan), TSR_OK);
  tsr_executable_info info;
  tsr_executable_report(executable, &info);
  assert_int_equal(tsr_device_plan_arena(plan), info.planned_bytes);
  for (int32_t i = 0; i < tsr_device_plan_count(plan); i++) {
    const tsr_plan_kernel *kernel = tsr_device_plan_kernel(plan, i);
    assert_true(kernel->groups > 0 && kernel->operations >= 0 && kernel->n_accesses > 0);
    assert_true(kernel->waits == 1 || i > 0);
    told[kernel->last_line].dispatches++;
    told[kernel->last_line].barriers += kernel->waits && i > 0; /* the first has none before it */
  }
  assert_null(tsr_device_plan_kernel(plan, tsr_device_plan_count(plan)));
  for (int32_t i = 0; i < desc->n_lines; i++) {
    assert_int_equal(told[i].dispatches, recorded[i].dispatches);
    assert_int_equal(told[i].barriers, recorded[i].barriers);
  }
  tsr_device_plan_destroy(plan);
  tsr_executable_destroy(executable);
  for (int32_t i = 0; i < options.n_bindings; i++) {
    tsr_buffer_destroy((tsr_buffer *)(uintptr_t)bindings[i].buffer);
  }
  free(bindings);
  free(recorded);
  free(told);
}

static void test_same_as_recorded(void **state)
{
  (void)state;
  tsr_runtime *runtime = start();
  tsr_device *device;
  tsr_model *model;
  const tsr_program_size size = {.batch = 2, .source = 7, .target = 9, .beam = 3};
  if (tsr_device_open(runtime, "vulkan:0", &device) != TSR_OK) {
    tsr_runtime_destroy(runtime);
    skip();
  }
  assert_int_equal(tsr_model_open(TESSERA_SOURCE_ROOT "/tests/data/marian-en-fr", &model), TSR_OK);
  for (int32_t kind = TSR_PROGRAM_ENCODE; kind <= TSR_PROGRAM_SCORE; kind++) {
    tsr_program *program;
    assert_int_equal(tsr_model_program(model, TSR_F16, kind, &size, &program), TSR_OK);
    compare(runtime, device, program);
    tsr_program_destroy(program);
  }
  tsr_model_close(model);
  tsr_device_close(device);
  tsr_runtime_destroy(runtime);
}

/* A card with cooperative matrices, whether or not this build's shaders have them. */
static const tsr_described_device card = {
    .struct_size = sizeof card,
    .type = TSR_DEVICE_DISCRETE_GPU,
    .name = "a card",
    .max_binding_size = 1u << 30,
    .buffer_alignment = 16,
    .max_invocations = 1024,
    .max_groups = {65535, 65535, 65535},
    .max_group_size = {1024, 1024, 64},
    .shared_memory = 49152,
    .subgroup_size = 32,
    .subgroup_sizes = {32, 32},
    .max_subgroups = 32,
    .subgroup_arithmetic = 1,
    .subgroup_shuffle = 1,
    .buffer_addresses = 1,
    .i8_dot = 2,
    .f16_storage = 1,
    .n_shapes = 1,
    .shapes = {{TSR_F16, 16, 16, 16}},
};

static void test_cooperative(void **state)
{
  enum { N = 1024 };
  (void)state;
  tsr_runtime *runtime = start();
  tsr_program *p;
  tsr_device_plan *plan = NULL;
  assert_int_equal(tsr_program_create(&p), TSR_OK);
  const tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(N, N)), w = tsr_constant(p, "w", TSR_F16, TSR_SHAPE(N, N));
  tsr_output(p, "y", tsr_matmul_reduced_precision(p, x, w, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE));
  const tsr_status status = tsr_device_plan_create(runtime, "vulkan", &card, p, &plan);
  if (status == TSR_ERR_NO_DEVICE) {
    tsr_program_destroy(p);
    tsr_runtime_destroy(runtime);
    skip();
  }
  assert_int_equal(status, TSR_OK);
  const tsr_plan_kernel *kernel = tsr_device_plan_kernel(plan, 0);
  assert_int_equal(kernel->rate, TSR_RATE_COOPERATIVE_F16);
  assert_true(kernel->operations == 2.0 * N * N * N);
  assert_true(kernel->loads > 2.0 * N * N * 4); /* several tiles read the same rows */
  tsr_device_plan_destroy(plan);

  /* Bad descriptions. */
  tsr_described_device bad = card;
  bad.struct_size = 8;
  assert_int_equal(tsr_device_plan_create(runtime, "vulkan", &bad, p, &plan), TSR_ERR_ARGUMENT);
  bad = card;
  bad.buffer_alignment = 48;
  assert_int_equal(tsr_device_plan_create(runtime, "vulkan", &bad, p, &plan), TSR_ERR_ARGUMENT);
  bad = card;
  bad.n_shapes = TSR_MAX_MATRIX_SHAPES + 1;
  assert_int_equal(tsr_device_plan_create(runtime, "vulkan", &bad, p, &plan), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_device_plan_create(runtime, "none", &card, p, &plan), TSR_ERR_NO_DEVICE);
  assert_null(plan);
  tsr_program_destroy(p);
  tsr_runtime_destroy(runtime);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_as_recorded), cmocka_unit_test(test_cooperative)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Until when the Vulkan backend wants to have what a line reads: the operands of a product until the sum behind it that
 * it computes with the product, those of a sum and a norm until the product with few rows that they are computed with,
 * and no others. / */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "backends/vulkan/kernel.h"
#include "core/program/plan.h"
#include "tessera/ops.h"

enum { R = 24, C = 64, MAX_LINES = 16 };

static tsr_vk_caps caps_of(int32_t fusion)
{
  return (tsr_vk_caps){
      .max_binding = 1u << 27,
      .max_invocations = 256,
      .max_groups = {65535, 65535, 65535},
      .max_size = {256, 256, 64},
      .shared_memory = 32768,
      .subgroup_size = 8,
      .subgroup_arithmetic = 1,
      .subgroup_shuffle = 1,
      .fusion = fusion,
  };
}

/* Operands of the lines. */
typedef struct operands {
  tsr_ref x, w, gain;
} operands;

static tsr_ref product(tsr_program *p, const operands *o, tsr_ref x)
{
  return tsr_matmul(p, x, o->w, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
}

/* Each builds lines; bit i of the answer: line i is computed with the next one. */
typedef int32_t (*build_fn)(tsr_program *p, const operands *o);

static int32_t build_sum(tsr_program *p, const operands *o)
{
  tsr_ref x = tsr_relu(p, o->x);
  tsr_output(p, "y", tsr_relu(p, tsr_add(p, product(p, o, x), o->x)));
  return 1 << 1;
}

/* The sum is computed with the norm that alone reads it. */
static int32_t build_norm(tsr_program *p, const operands *o)
{
  tsr_output(p, "y", tsr_layernorm(p, tsr_add(p, product(p, o, o->x), o->x), o->gain, o->gain, 1e-5f));
  return 0;
}

/* A norm and something else read the sum. */
static int32_t build_residual(tsr_program *p, const operands *o)
{
  tsr_ref sum = tsr_add(p, o->x, product(p, o, o->x));
  tsr_output(p, "y", tsr_layernorm(p, sum, o->gain, o->gain, 1e-5f));
  tsr_output(p, "z", tsr_relu(p, sum));
  return 1 << 0;
}

/* The product is needed later, too. */
static int32_t build_kept(tsr_program *p, const operands *o)
{
  tsr_ref y = product(p, o, o->x);
  tsr_output(p, "sum", tsr_add(p, y, o->x));
  tsr_output(p, "y", y);
  return 0;
}

static const build_fn builds[] = {build_sum, build_norm, build_residual, build_kept};

static int32_t build(tsr_program **program, build_fn how)
{
  assert_int_equal(tsr_program_create(program), TSR_OK);
  const operands o = {tsr_input(*program, "x", TSR_F32, TSR_SHAPE(R, C)),
                      tsr_constant(*program, "w", TSR_F32, TSR_SHAPE(C, C)),
                      tsr_constant(*program, "gain", TSR_F32, TSR_SHAPE(C))};
  int32_t expected = how(*program, &o);
  assert_int_equal(tsr_program_status(*program), TSR_OK);
  return expected;
}

static void test_answers(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof builds / sizeof builds[0]; i++) {
    tsr_program *program;
    const int32_t expected = build(&program, builds[i]);
    const tsr_program_desc *desc = tsr_program_describe(program);
    for (int32_t fusion = 0; fusion < 2; fusion++) {
      const tsr_vk_caps caps = caps_of(fusion);
      for (int32_t line = 0; line < desc->n_lines; line++) {
        const int32_t until = tsr_vk_operands_until(&caps, desc, line);
        if (until != line + (fusion && expected >> line & 1)) {
          fail_msg("program %d, fusion %d: line %d wants its operands until line %d", (int)i, (int)fusion, (int)line,
                   (int)until);
        }
      }
    }
    tsr_program_destroy(program);
  }
}

/* How many lines become one with line `index`, with temporaries as a plan places them in one buffer. */
static int32_t fused(const tsr_vk_caps *caps, const tsr_program_desc *desc, const int32_t *operands_until,
                     int32_t index)
{
  static tsr_vk_plan planned; /* large */
  static tsr_vk_left left;
  tsr_backend_buffer *const arena = (tsr_backend_buffer *)&planned, *const other = (tsr_backend_buffer *)&left;
  tsr_backend_buffer *const buffers[] = {arena, other};
  tsr_storage_desc storages[32];
  tsr_memory_plan plan;
  const tsr_plan_options options = {.alignment = 64, .operands_until = operands_until};
  assert_in_range(desc->n_storages, 1, 32);
  assert_int_equal(tsr_memory_plan_make(desc, &options, &plan), TSR_OK);
  int64_t end = 0;
  for (int32_t i = 0; i < desc->n_storages; i++) {
    storages[i] = *tsr_storage_at(desc, i);
    storages[i].buffer = plan.offset[i] < 0;
    storages[i].offset = plan.offset[i] < 0 ? end : plan.offset[i];
    end += plan.offset[i] < 0 ? storages[i].size : 0;
  }
  tsr_memory_plan_finish(&plan);
  tsr_program_desc placed = *desc;
  placed.storages = storages;
  placed.storage_size = sizeof storages[0];
  memset(&left, 0, sizeof left);
  assert_true(tsr_vk_plan_lines(caps, &placed, buffers, index, &left, &planned));
  return planned.n_lines;
}

/* With the answers the plan lets the device do it; without, the sum takes the bytes of what the product reads. */
static void test_plan(void **state)
{
  (void)state;
  const tsr_vk_caps caps = caps_of(1);
  tsr_program *program;
  int32_t until[MAX_LINES];
  build(&program, build_sum);
  const tsr_program_desc *desc = tsr_program_describe(program);
  assert_in_range(desc->n_lines, 1, MAX_LINES);
  for (int32_t line = 0; line < desc->n_lines; line++) {
    until[line] = tsr_vk_operands_until(&caps, desc, line);
  }
  assert_int_equal(fused(&caps, desc, NULL, 1), 1);
  assert_int_equal(fused(&caps, desc, until, 1), 2);
  tsr_program_destroy(program);
}

/* The lines before a product with few rows: their operands are needed until the product. */
static void test_around(void **state)
{
  (void)state;
  enum { ROWS = 4, FIRST = 1, PRODUCT = 3 }; /* lines: copy, sum, norm, product, square */
  const tsr_vk_caps caps = caps_of(1);
  tsr_program *program;
  int32_t until[MAX_LINES];
  assert_int_equal(tsr_program_create(&program), TSR_OK);
  tsr_ref x = tsr_input(program, "x", TSR_F32, TSR_SHAPE(ROWS, C)),
          gain = tsr_input(program, "g", TSR_F32, TSR_SHAPE(C));
  const tsr_ref w = tsr_constant(program, "w", TSR_F32, TSR_SHAPE(C, C));
  x = tsr_layernorm(program, tsr_add(program, tsr_copy(program, x, TSR_F32), x), gain, gain, 1e-5f);
  x = tsr_matmul(program, x, tsr_transpose(program, w, 0, 1), TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
  tsr_output(program, "y", tsr_mul(program, x, x));
  assert_int_equal(tsr_program_status(program), TSR_OK);
  const tsr_program_desc *desc = tsr_program_describe(program);
  assert_int_equal(desc->n_lines, PRODUCT + 2);
  for (int32_t line = 0; line < desc->n_lines; line++) {
    until[line] = tsr_vk_operands_until(&caps, desc, line);
    assert_int_equal(until[line], line == FIRST || line == FIRST + 1 ? PRODUCT : line);
  }
  /* Without the answers the product's result takes the bytes of the sum's operand. */
  assert_int_equal(fused(&caps, desc, until, FIRST), 3);
  assert_int_equal(fused(&caps, desc, NULL, FIRST), 2);
  tsr_program_destroy(program);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_answers),
      cmocka_unit_test(test_plan),
      cmocka_unit_test(test_around),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that several products with weights of i8 read are quantised for the first of them, and lie in scratch for the
 * others: what the Vulkan backend plans, dispatch by dispatch, and that it plans them again as soon as the rows, or
 * scratch, may be others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "backends/vulkan/kernel.h"
#include "shaders/shaders.h"
#include "tessera/ops.h"

enum { R = 40, C = 64, MAX_STORAGES = 32 }; /* R: more than are quantised by the product's own kernel */

typedef struct counts {
  int32_t quantised;  /* dispatches that quantise */
  int32_t multiplied; /* that multiply what was quantised */
} counts;

static tsr_vk_caps caps_of(int32_t like_cpu, int32_t fusion)
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
      .compute_like_cpu = like_cpu,
  };
}

static int is_quantise(const tsr_vk_dispatch *dispatch)
{
  return dispatch->shader >= TSR_VK_SHADER_QUANTISE && dispatch->shader <= TSR_VK_SHADER_QUANTISE_SUBGROUP_QUADS;
}

static counts plan(const tsr_vk_caps *caps, const tsr_program_desc *program, tsr_backend_buffer *const *buffers)
{
  static tsr_vk_plan lines; /* large */
  tsr_vk_left left = {.dispatch = {.pure = 0}};
  counts found = {0, 0};
  for (int32_t line = 0; line < program->n_lines; line += lines.n_lines) {
    assert_true(tsr_vk_plan_lines(caps, program, buffers, line, &left, &lines));
    for (int32_t i = 0; i < lines.n_dispatches; i++) {
      const tsr_vk_dispatch *dispatch = &lines.dispatch[i];
      const int reads_scratch = dispatch->operand[0].tensor == TSR_VK_SCRATCH && !dispatch->operand[0].write;
      found.quantised += is_quantise(dispatch);
      found.multiplied += reads_scratch;
      if (reads_scratch) { /* as many rows as any product here has */
        assert_true(dispatch->scratch_bytes >= (R - 1) * (C + 16));
      }
    }
  }
  return found;
}

/* The weights of a product, [n, C]. */
typedef struct weights {
  tsr_ref bytes, scales;
} weights;

static weights weights_of(tsr_program *p, const char *name, const char *scales, int64_t n)
{
  return (weights){tsr_constant(p, name, TSR_I8, TSR_SHAPE(n, C)), tsr_constant(p, scales, TSR_F32, TSR_SHAPE(n))};
}

static tsr_ref product(tsr_program *p, tsr_ref x, weights w)
{
  return tsr_matmul_i8(p, x, tsr_transpose(p, w.bytes, 0, 1), w.scales, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
}

/* Each builds a program and returns how often rows must be quantised. */
typedef int32_t (*build_fn)(tsr_program *p, tsr_ref x, tsr_ref kept, weights wide, weights square);

/* Keys and values of several layers from one encoder's output, each kept before the next is made. */
static int32_t build_kept(tsr_program *p, tsr_ref x, tsr_ref kept, weights wide, weights square)
{
  for (int32_t i = 0; i < 3; i++) {
    tsr_update(p, kept, tsr_slice(p, product(p, x, wide), 1, i * C, C));
  }
  tsr_output(p, "y", product(p, x, square));
  return 1;
}

/* The same rows as another view of them has it; other rows and columns of them. */
static int32_t build_views(tsr_program *p, tsr_ref x, tsr_ref kept, weights wide, weights square)
{
  tsr_ref y = product(p, x, wide), z = product(p, tsr_reshape(p, x, TSR_SHAPE(1, R, C)), square); /* once for both */
  tsr_output(p, "a", y);
  tsr_output(p, "b", z);
  tsr_output(p, "c", product(p, tsr_slice(p, x, 0, 1, R - 1), square));
  tsr_output(p, "d", product(p, tsr_slice(p, y, 1, 0, C), square));
  tsr_output(p, "e", product(p, tsr_slice(p, y, 1, C, C), square));
  (void)kept;
  return 4;
}

/* What is read changes in between. */
static int32_t build_updated(tsr_program *p, tsr_ref x, tsr_ref kept, weights wide, weights square)
{
  kept = tsr_update(p, kept, x);
  tsr_ref y = product(p, kept, wide), z = product(p, kept, square); /* once for both */
  kept = tsr_update(p, kept, z);
  tsr_output(p, "y", y);
  tsr_output(p, "z", product(p, kept, square));
  tsr_update(p, tsr_slice(p, kept, 0, 0, 1), tsr_slice(p, x, 0, 0, 1)); /* a part of it */
  tsr_output(p, "last", product(p, kept, wide));
  return 3;
}

/* Something else lies in scratch in between: other rows; what another operator leaves there. */
static int32_t build_scratch(tsr_program *p, tsr_ref x, tsr_ref kept, weights wide, weights square)
{
  tsr_ref y = product(p, x, square), indices;
  tsr_output(p, "z", product(p, y, square));
  y = product(p, x, wide);
  tsr_ref many = tsr_input(p, "many", TSR_F32, TSR_SHAPE(1, 100000));
  tsr_output(p, "values", tsr_topk(p, many, 4, &indices));
  tsr_output(p, "w", product(p, x, wide));
  tsr_output(p, "y", y);
  (void)kept;
  return 4;
}

static const build_fn builds[] = {build_kept, build_views, build_updated, build_scratch};
enum { N_BUILDS = sizeof builds / sizeof builds[0] };

/* Returns how often rows must be quantised; *products: how many products there are. */
static int32_t build(tsr_program **program, build_fn how, int32_t *products)
{
  assert_int_equal(tsr_program_create(program), TSR_OK);
  tsr_program *p = *program;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(R, C));
  tsr_ref kept = tsr_state(p, "kept", TSR_F32, TSR_SHAPE(R, C));
  const int32_t expected =
      how(p, x, kept, weights_of(p, "wide", "wide scales", 3 * C), weights_of(p, "square", "square scales", C));
  assert_int_equal(tsr_program_status(p), TSR_OK);
  *products = 0;
  for (int32_t i = 0; i < tsr_program_line_count(p); i++) {
    *products += tsr_line_at(tsr_program_describe(p), i)->op == TSR_OP_MATMUL;
  }
  return expected;
}

static void test_programs(void **state)
{
  (void)state;
  for (int32_t i = 0; i < N_BUILDS; i++) {
    tsr_program *program;
    int32_t products;
    const int32_t expected = build(&program, builds[i], &products);
    for (int32_t like_cpu = 0; like_cpu < 2; like_cpu++) {
      for (int32_t fusion = 0; fusion < 2; fusion++) {
        const tsr_vk_caps caps = caps_of(like_cpu, fusion);
        const counts found = plan(&caps, tsr_program_describe(program), NULL);
        if (found.quantised != (fusion ? expected : products) || found.multiplied != products) {
          fail_msg("program %d, kernels for a %s, fusion %d: %d times quantised, not %d; %d of %d products", (int)i,
                   like_cpu ? "CPU" : "GPU", (int)fusion, (int)found.quantised, (int)(fusion ? expected : products),
                   (int)found.multiplied, (int)products);
        }
      }
    }
    tsr_program_destroy(program);
  }
}

/* A result that lies where the input lies, though it is another tensor. */
static void test_shared_bytes(void **state)
{
  (void)state;
  tsr_backend_buffer *const one = (tsr_backend_buffer *)&builds; /* only compared */
  tsr_backend_buffer *const other = (tsr_backend_buffer *)&state;
  tsr_backend_buffer *const buffers[] = {one, other};
  tsr_program *program;
  int32_t products;
  assert_int_equal(build(&program, build_kept, &products), 1);
  tsr_program_desc desc = *tsr_program_describe(program);
  tsr_storage_desc storages[MAX_STORAGES];
  assert_in_range(desc.n_storages, 1, MAX_STORAGES);
  const int32_t first_result = tsr_tensor_at(&desc, tsr_line_at(&desc, 0)->out[0])->storage;
  const int32_t input = tsr_tensor_at(&desc, tsr_line_at(&desc, 0)->in[0])->storage;
  const tsr_vk_caps caps = caps_of(1, 1);
  for (int32_t shared = 0; shared < 2; shared++) {
    int64_t end = 0;
    for (int32_t i = 0; i < desc.n_storages; i++) {
      storages[i] = *tsr_storage_at(&desc, i);
      storages[i].buffer = 0;
      storages[i].offset = end;
      end += storages[i].size;
    }
    storages[first_result].offset = storages[input].offset + storages[input].size - (shared ? 4 : 0);
    storages[first_result].buffer = 0;
    storages[input].buffer = 0;
    for (int32_t i = 0; i < desc.n_storages; i++) { /* all others elsewhere */
      storages[i].buffer = i != input && i != first_result;
    }
    tsr_program_desc placed = desc;
    placed.storages = storages;
    placed.storage_size = sizeof storages[0];
    assert_int_equal(plan(&caps, &placed, buffers).quantised, 1 + shared);
  }
  tsr_program_destroy(program);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_programs),
      cmocka_unit_test(test_shared_bytes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Which products the Vulkan backend gives to cooperative matrices, and how it cuts them up for devices of every kind
 * that has them: the planner alone, told what such a device can do.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "backends/vulkan/kernel.h"
#include "shaders/contract/attention_cooperative.h"
#include "shaders/contract/matmul_cooperative.h"
#include "shaders/contract/norm.h"
#include "shaders/contract/product.h"
#include "shaders/shaders.h"

enum {
  SIZE = SPEC_SIZE_X,
  B_TYPE = TSR_VK_SPEC_product_b_type,
  M = TSR_VK_SPEC_matmul_cooperative_shape_m,
  N = TSR_VK_SPEC_matmul_cooperative_shape_n,
  K = TSR_VK_SPEC_matmul_cooperative_shape_k,
  ROWS = TSR_VK_SPEC_matmul_cooperative_tile_rows,
  COLUMNS = TSR_VK_SPEC_matmul_cooperative_tile_columns,
  PART_ROWS = TSR_VK_SPEC_matmul_cooperative_part_rows,
  PART_COLUMNS = TSR_VK_SPEC_matmul_cooperative_part_columns,
  STEP = TSR_VK_SPEC_matmul_cooperative_step_groups,
  LANES = TSR_VK_SPEC_matmul_cooperative_lanes,
  ALONG_DEPTH = TSR_VK_SPEC_matmul_cooperative_b_along_depth,
  SHARED = TSR_VK_SPEC_matmul_cooperative_shared_groups
};

static const struct device {
  uint32_t lanes[2], shared_memory, invocations, subgroups, m, n, k_f16, k_i8;
} devices[] = {
    {{32, 32}, 49152, 1024, 32, 16, 16, 16, 32}, {{32, 32}, 49152, 1024, 32, 16, 8, 8, 32},
    {{32, 64}, 65536, 1024, 32, 16, 16, 16, 16}, {{8, 32}, 65536, 1024, 64, 8, 8, 16, 32},
    {{16, 32}, 65536, 1024, 64, 8, 16, 16, 32},  {{8, 8}, 32768, 1024, 32, 8, 8, 8, 8},
    {{64, 64}, 65536, 1024, 16, 32, 32, 8, 16},  {{32, 32}, 32768, 256, 8, 16, 16, 16, 32},
};
enum { N_DEVICES = sizeof devices / sizeof devices[0] };

static const int32_t variants_f16[] = {TSR_VK_VARIANT_MATMUL_COOP_F16_128_64, TSR_VK_VARIANT_MATMUL_COOP_F16_128,
                                       TSR_VK_VARIANT_MATMUL_COOP_F16_64, TSR_VK_VARIANT_MATMUL_COOP_F16_32};
static const int32_t variants_i8[] = {TSR_VK_VARIANT_MATMUL_COOP_I8_128_64, TSR_VK_VARIANT_MATMUL_COOP_I8_128,
                                      TSR_VK_VARIANT_MATMUL_COOP_I8_64, TSR_VK_VARIANT_MATMUL_COOP_I8_32};
enum { N_VARIANTS = sizeof variants_f16 / sizeof variants_f16[0] };

static tsr_vk_caps caps_of(const struct device *device)
{
  return (tsr_vk_caps){
      .max_binding = 1u << 30,
      .max_invocations = device->invocations,
      .max_groups = {65535, 65535, 65535},
      .max_size = {1024, 1024, 64},
      .shared_memory = device->shared_memory,
      .subgroup_size = device->lanes[1],
      .subgroup_arithmetic = 1,
      .subgroup_shuffle = 1,
      .subgroup_sizes = {device->lanes[0], device->lanes[1]},
      .max_subgroups = device->subgroups,
      .n_shapes = 2,
      .shapes = {{TSR_F16, device->m, device->n, device->k_f16}, {TSR_I8, device->m, device->n, device->k_i8}},
  };
}

/* y [rows, columns] = a [rows, depth] @ b [depth, columns], k of a contiguous or m; k of b or n */
typedef struct product {
  int32_t rows, columns, depth;
  int32_t type, reduced, along_columns;
  int32_t a_along_rows;
} product;

static int64_t bytes_of(int32_t type)
{
  return type == TSR_F32 ? 4 : type == TSR_I8 ? 1 : 2;
}

/* The plan of a program's first line, and of those that become one with it. */
static int plan_lines(const tsr_vk_caps *caps, const tsr_storage_desc *storages, int32_t n_storages,
                      const tsr_tensor_desc *tensors, int32_t n_tensors, const tsr_line_desc *lines, int32_t n_lines,
                      tsr_vk_plan *result)
{
  const tsr_program_desc program = {
      .struct_size = sizeof program,
      .storage_size = sizeof storages[0],
      .tensor_size = sizeof tensors[0],
      .line_size = sizeof *lines,
      .n_storages = n_storages,
      .n_tensors = n_tensors,
      .n_lines = n_lines,
      .storages = storages,
      .tensors = tensors,
      .lines = lines,
  };
  memset(result, 0, sizeof *result);
  tsr_vk_left left;
  memset(&left, 0, sizeof left);
  return tsr_vk_plan_lines(caps, &program, NULL, 0, &left, result);
}

static int plan_one(const tsr_vk_caps *caps, const tsr_storage_desc *storages, int32_t n_storages,
                    const tsr_tensor_desc *tensors, int32_t n_tensors, const tsr_line_desc *line, tsr_vk_plan *result)
{
  return plan_lines(caps, storages, n_storages, tensors, n_tensors, line, 1, result);
}

static int plan(const tsr_vk_caps *caps, const product *p, tsr_vk_plan *result)
{
  const int64_t b_elements = (int64_t)p->depth * p->columns;
  const tsr_storage_desc storages[] = {{0},
                                       {.kind = TSR_STORAGE_INPUT, .size = 4ll * p->rows * p->depth},
                                       {.kind = TSR_STORAGE_CONSTANT, .size = bytes_of(p->type) * b_elements},
                                       {.kind = TSR_STORAGE_OUTPUT, .size = 4ll * p->rows * p->columns},
                                       {.kind = TSR_STORAGE_CONSTANT, .size = 4ll * p->columns}};
  const tsr_tensor_desc tensors[] = {
      {0},
      {.storage = 1,
       .dtype = TSR_F32,
       .rank = 2,
       .extent = {p->rows, p->depth, 1, 1},
       .stride = {p->a_along_rows ? 1 : p->depth, p->a_along_rows ? p->rows : 1}},
      {.storage = 2,
       .dtype = p->type,
       .rank = 2,
       .extent = {p->depth, p->columns, 1, 1},
       .stride = {p->along_columns ? p->columns : 1, p->along_columns ? 1 : p->depth}},
      {.storage = 3, .dtype = TSR_F32, .rank = 2, .extent = {p->rows, p->columns, 1, 1}, .stride = {p->columns, 1}},
      {.storage = 4, .dtype = TSR_F32, .rank = 1, .extent = {p->columns, 1, 1, 1}, .stride = {1}},
  };
  const tsr_line_desc line = {
      .op = TSR_OP_MATMUL,
      .in = {1, 2, 0, p->type == TSR_I8 ? 4 : 0},
      .out = {3},
      .label = "",
      .attributes = {.struct_size = sizeof(tsr_op_attributes), .alpha = 1, .reduced_precision = p->reduced},
  };
  return plan_one(caps, storages, 5, tensors, 5, &line, result);
}

/* y [1, length, 2, depth] = attention of `length` queries, all of f32, of reduced precision */
static int plan_attention_rounded(const tsr_vk_caps *caps, int32_t length, int32_t depth, int32_t reduced,
                                  tsr_vk_plan *result)
{
  enum { HEADS = 2 };
  const int64_t size = (int64_t)4 * length * HEADS * depth;
  const tsr_storage_desc storages[] = {
      {0}, {.kind = TSR_STORAGE_INPUT, .size = size}, {.kind = TSR_STORAGE_OUTPUT, .size = size}};
  const tsr_tensor_desc x = {.storage = 1,
                             .dtype = TSR_F32,
                             .rank = 4,
                             .extent = {1, length, HEADS, depth},
                             .stride = {(int64_t)length * HEADS * depth, HEADS * depth, depth, 1}};
  tsr_tensor_desc tensors[] = {{0}, x, x};
  tensors[2].storage = 2;
  const tsr_line_desc line = {
      .op = TSR_OP_ATTENTION,
      .in = {1, 1, 1},
      .out = {2},
      .label = "",
      .attributes = {.struct_size = sizeof(tsr_op_attributes), .alpha = 0.125f, .reduced_precision = reduced},
  };
  return plan_one(caps, storages, 3, tensors, 3, &line, result);
}

static int plan_attention(const tsr_vk_caps *caps, int32_t length, int32_t depth, tsr_vk_plan *result)
{
  return plan_attention_rounded(caps, length, depth, 1, result);
}

/* dq, dk, dv [1, .., 2, depth] of `queries` and `keys`, all of f32 */
static int plan_gradient(const tsr_vk_caps *caps, int32_t queries, int32_t keys, int32_t depth, int32_t reduced,
                         tsr_vk_plan *result)
{
  enum { HEADS = 2 };
  const int64_t q_size = (int64_t)4 * queries * HEADS * depth, k_size = (int64_t)4 * keys * HEADS * depth;
  const tsr_storage_desc storages[] = {{0},
                                       {.kind = TSR_STORAGE_INPUT, .size = q_size},
                                       {.kind = TSR_STORAGE_INPUT, .size = k_size},
                                       {.kind = TSR_STORAGE_INPUT, .size = (int64_t)4 * HEADS * queries},
                                       {.kind = TSR_STORAGE_OUTPUT, .size = q_size},
                                       {.kind = TSR_STORAGE_OUTPUT, .size = k_size},
                                       {.kind = TSR_STORAGE_OUTPUT, .size = k_size}};
  const tsr_tensor_desc q = {.storage = 1,
                             .dtype = TSR_F32,
                             .rank = 4,
                             .extent = {1, queries, HEADS, depth},
                             .stride = {(int64_t)queries * HEADS * depth, HEADS * depth, depth, 1}};
  tsr_tensor_desc k = q;
  k.storage = 2;
  k.extent[1] = keys;
  k.stride[0] = (int64_t)keys * HEADS * depth;
  const tsr_tensor_desc lse = {.storage = 3,
                               .dtype = TSR_F32,
                               .rank = 3,
                               .extent = {1, HEADS, queries, 1},
                               .stride = {(int64_t)HEADS * queries, queries, 1}};
  tsr_tensor_desc tensors[] = {{0}, q, k, lse, q, k, k};
  for (int32_t i = 4; i <= 6; i++) {
    tensors[i].storage = i;
  }
  const tsr_line_desc line = {
      .op = TSR_OP_ATTENTION_GRADIENT,
      .in = {1, 2, 2, 0, 0, 0, 0, 0, 0, 1, 1, 3},
      .out = {4, 5, 6},
      .label = "",
      .attributes = {.struct_size = sizeof(tsr_op_attributes), .alpha = 0.125f, .reduced_precision = reduced},
  };
  return plan_one(caps, storages, 7, tensors, 7, &line, result);
}

static int is_cooperative(int32_t variant)
{
  for (int i = 0; i < N_VARIANTS; i++) {
    if (variant == variants_f16[i] || variant == variants_i8[i]) {
      return 1;
    }
  }
  return variant >= TSR_VK_VARIANT_MATMUL_COOP_BF16_128_64 && variant <= TSR_VK_VARIANT_MATMUL_COOP_BF16_32;
}

static tsr_vk_plan the_plan; /* large */

static void check_dispatch(const struct device *device, const product *p)
{
  const int of_i8 = p->type == TSR_I8;    /* the first dispatch then quantises a */
  const uint32_t values = of_i8 ? 16 : 8; /* in a group of 16 bytes */
  const tsr_vk_dispatch *dispatch = &the_plan.dispatch[of_i8];
  const uint32_t *spec = dispatch->spec;
  const int32_t factors = p->type == TSR_F32 ? p->reduced : p->type;
  assert_int_equal(dispatch->shader, of_i8                 ? TSR_VK_SHADER_MATMUL_COOPERATIVE_I8
                                     : factors == TSR_BF16 ? TSR_VK_SHADER_MATMUL_COOPERATIVE_BF16
                                                           : TSR_VK_SHADER_MATMUL_COOPERATIVE_F16);
  assert_int_equal(dispatch->n_spec, TSR_VK_SPEC_matmul_cooperative_has_rest + 1);
  assert_int_equal(dispatch->subgroup_size, device->lanes[0]);
  assert_int_equal(spec[LANES], device->lanes[0]);
  assert_int_equal(spec[B_TYPE], p->type);
  assert_int_equal(spec[ALONG_DEPTH], !p->along_columns);
  assert_int_equal(spec[TSR_VK_SPEC_matmul_cooperative_a_along_depth], !p->a_along_rows);
  const uint32_t shape[] = {spec[M], spec[N], spec[K]};
  const uint32_t listed[] = {device->m, device->n, of_i8 ? device->k_i8 : device->k_f16};
  assert_memory_equal(shape, listed, sizeof shape);
  /* Whole matrices in a part, whole parts in a tile, whole matrices in a step */
  assert_int_equal(spec[PART_ROWS] % spec[M], 0);
  assert_int_equal(spec[PART_COLUMNS] % spec[N], 0);
  assert_int_equal(spec[ROWS] % spec[PART_ROWS], 0);
  assert_int_equal(spec[COLUMNS] % spec[PART_COLUMNS], 0);
  assert_int_equal(spec[STEP] * values % spec[K], 0);
  assert_int_equal(spec[TSR_VK_SPEC_matmul_cooperative_has_rest], (uint32_t)p->depth % (spec[STEP] * values) != 0);
  uint32_t subgroups = spec[ROWS] / spec[PART_ROWS] * (spec[COLUMNS] / spec[PART_COLUMNS]);
  assert_in_range(subgroups, 1, device->subgroups);
  assert_int_equal(spec[SIZE], subgroups * device->lanes[0]);
  assert_in_range(spec[SIZE], 1, device->invocations);
  assert_int_equal(spec[SIZE] % spec[STEP], 0); /* each invocation brings one group of each step's row */
  /* A step with a group between the rows; what the subgroups store, without one. */
  uint32_t b_tile =
      p->along_columns ? spec[STEP] * values * (spec[COLUMNS] / values + 1) : spec[COLUMNS] * (spec[STEP] + 1);
  uint32_t a_tile = p->a_along_rows ? spec[STEP] * values * (spec[ROWS] / values + 1) : spec[ROWS] * (spec[STEP] + 1);
  assert_true(spec[SHARED] >= a_tile + b_tile);
  assert_true(spec[SHARED] >= subgroups * spec[M] * spec[PART_COLUMNS] / 4);
  assert_in_range(spec[SHARED] * 16, 1, device->shared_memory);
  uint64_t groups = (uint64_t)dispatch->groups[0] * dispatch->groups[1] * dispatch->groups[2];
  uint64_t tiles =
      (uint64_t)((p->rows + spec[ROWS] - 1) / spec[ROWS]) * ((p->columns + spec[COLUMNS] - 1) / spec[COLUMNS]);
  /* Where tiles are few the depth is cut into parts of whole steps, which another dispatch adds up. */
  tsr_vk_product_push push, adds = {0};
  assert_int_equal(groups % tiles, 0);
  assert_int_equal(the_plan.n_dispatches, of_i8 + 1 + (groups > tiles));
  memcpy(&push, dispatch->push, dispatch->push_bytes);
  assert_int_equal(push.parts, groups / tiles);
  assert_int_equal(push.depth, (uint32_t)p->depth / values);
  assert_in_range(push.depth, (push.parts - 1) * push.part_depth + 1, push.parts * push.part_depth);
  if (push.parts > 1) {
    assert_int_equal(push.part_depth % spec[STEP], 0);
    memcpy(&adds, dispatch[1].push, dispatch[1].push_bytes);
    assert_int_equal(adds.parts, push.parts);
    assert_int_equal(adds.b_offset, push.residual_offset);
    assert_int_equal(adds.depth, push.depth);
    assert_true(the_plan.scratch_bytes >= 4ll * (push.residual_offset + (int64_t)push.parts * p->rows * p->columns));
  }
}

static void test_limits(void **state)
{
  (void)state;
  static const product products[] = {
      {.rows = 1, .columns = 8, .depth = 8, .type = TSR_F16, .reduced = 1},
      {.rows = 300, .columns = 1000, .depth = 520, .type = TSR_F16, .reduced = 1},
      {.rows = 300, .columns = 1000, .depth = 520, .type = TSR_F16, .reduced = 1, .along_columns = 1},
      {.rows = 300, .columns = 1000, .depth = 528, .type = TSR_I8},
      {.rows = 304,
       .columns = 1000,
       .depth = 520,
       .type = TSR_F16,
       .reduced = 1,
       .along_columns = 1,
       .a_along_rows = 1},
      {.rows = 304, .columns = 1000, .depth = 520, .type = TSR_F32, .reduced = TSR_F16, .a_along_rows = 1},
      {.rows = 304, .columns = 1000, .depth = 520, .type = TSR_F32, .reduced = TSR_F16, .along_columns = 1},
  };
  int taken = 0;
  for (int d = 0; d < N_DEVICES; d++) {
    for (int f = 0; f < N_VARIANTS; f++) {
      for (size_t i = 0; i < sizeof products / sizeof products[0]; i++) {
        tsr_vk_caps caps = caps_of(&devices[d]);
        caps.forced = (products[i].type == TSR_I8 ? variants_i8 : variants_f16)[f];
        assert_true(plan(&caps, &products[i], &the_plan));
        if (the_plan.variant == caps.forced) {
          check_dispatch(&devices[d], &products[i]);
          taken++;
        } else {
          /* The last two are made up: one whose matrices are too large for small parts, one with few subgroups. */
          assert_true(d >= 6);
        }
      }
    }
  }
  assert_true(taken >= 6 * N_VARIANTS * 7);
}

static void test_choice(void **state)
{
  (void)state;
  static const struct {
    product product;
    int32_t variant; /* TSR_VK_VARIANT_AUTO: any but these */
  } cases[] = {
      {{4096, 4096, 4096, TSR_F16, 1, 0}, TSR_VK_VARIANT_MATMUL_COOP_F16_128_64},
      {{2048, 2048, 512, TSR_F16, 1, 0}, TSR_VK_VARIANT_MATMUL_COOP_F16_64},
      {{256, 37000, 512, TSR_F16, 1, 0}, TSR_VK_VARIANT_MATMUL_COOP_F16_128_64},
      {{4096, 4096, 4096, TSR_F16, 1, 1}, TSR_VK_VARIANT_MATMUL_COOP_F16_128_64},
      {{512, 512, 512, TSR_F16, 1, 0}, TSR_VK_VARIANT_MATMUL_COOP_F16_64},
      {{32, 37000, 512, TSR_F16, 1, 0}, TSR_VK_VARIANT_MATMUL_COOP_F16_32},
      {{100, 512, 2048, TSR_F16, 1, 0}, TSR_VK_VARIANT_MATMUL_COOP_F16_32},
      {{4096, 4096, 4096, TSR_I8, 0, 0}, TSR_VK_VARIANT_MATMUL_COOP_I8_128_64},
      {{100, 512, 2048, TSR_I8, 0, 0}, TSR_VK_VARIANT_MATMUL_COOP_I8_32},
      {{4, 512, 512, TSR_I8, 0, 0}, TSR_VK_VARIANT_AUTO},
      {{4, 512, 512, TSR_F16, 1, 0}, TSR_VK_VARIANT_AUTO},       /* few rows */
      {{4096, 4096, 4096, TSR_F16, 0, 0}, TSR_VK_VARIANT_AUTO},  /* a must keep its precision */
      {{4096, 4096, 4096, TSR_BF16, 1, 0}, TSR_VK_VARIANT_AUTO}, /* no such matrices */
      {{4096, 4096, 4100, TSR_F16, 1, 0}, TSR_VK_VARIANT_AUTO},  /* no whole groups */
      {{4092, 4096, 4096, TSR_F16, 1, 0, 1}, TSR_VK_VARIANT_AUTO},
      {{4096, 4096, 4096, TSR_F32, TSR_F16, 0, 1}, TSR_VK_VARIANT_MATMUL_COOP_F16_128_64},
      {{4096, 4096, 4096, TSR_F32, TSR_BF16, 0, 1}, TSR_VK_VARIANT_AUTO},
      {{4096, 4092, 4096, TSR_F16, 1, 1}, TSR_VK_VARIANT_AUTO},
  };
  tsr_vk_caps caps = caps_of(&devices[0]);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_true(plan(&caps, &cases[i].product, &the_plan));
    if (cases[i].variant != TSR_VK_VARIANT_AUTO) {
      assert_int_equal(the_plan.variant, cases[i].variant);
    } else {
      assert_false(is_cooperative(the_plan.variant));
    }
  }
  caps.n_shapes = 0;
  assert_true(plan(&caps, &cases[0].product, &the_plan));
  assert_false(is_cooperative(the_plan.variant));
}

/* Where the largest of several shapes fills no tile, or does not fit, the next one is taken. */
static void test_shapes(void **state)
{
  (void)state;
  static const tsr_vk_shape lists[][4] = {
      {{TSR_F16, 64, 64, 16}, {TSR_I8, 64, 64, 32}, {TSR_F16, 16, 16, 16}, {TSR_I8, 16, 16, 32}},
      {{TSR_I8, 16, 16, 256}, {TSR_F16, 16, 16, 128}, {TSR_I8, 16, 16, 32}, {TSR_F16, 16, 16, 16}},
      {{TSR_F16, 8, 128, 16}, {TSR_I8, 8, 128, 32}, {TSR_F16, 16, 16, 16}, {TSR_I8, 16, 16, 32}},
  };
  static const product products[] = {{.rows = 300, .columns = 1000, .depth = 520, .type = TSR_F16, .reduced = 1},
                                     {.rows = 300, .columns = 1000, .depth = 528, .type = TSR_I8}};
  for (size_t l = 0; l < sizeof lists / sizeof lists[0]; l++) {
    tsr_vk_caps caps = caps_of(&devices[0]); /* of 16x16x16 and 16x16x32 */
    caps.n_shapes = 4;
    memcpy(caps.shapes, lists[l], sizeof lists[l]);
    for (int i = 0; i < 2 * N_VARIANTS; i++) {
      caps.forced = (i % 2 == 0 ? variants_f16 : variants_i8)[i / 2];
      assert_true(plan(&caps, &products[i % 2], &the_plan));
      assert_int_equal(the_plan.variant, caps.forced);
      check_dispatch(&devices[0], &products[i % 2]);
    }
    caps.forced = TSR_VK_VARIANT_ATTENTION_COOP;
    assert_true(plan_attention(&caps, 40, 64, &the_plan));
    assert_int_equal(the_plan.variant, caps.forced);
    assert_int_equal(the_plan.dispatch[0].spec[TSR_VK_SPEC_attention_cooperative_shape], THREE_BYTES(16, 16, 16));
  }
}

/* Wide heads: as many subgroups as shared memory has room for, though not so few that keys are fetched too often. */
static void test_heads(void **state)
{
  (void)state;
  static const struct {
    int32_t length, depth;
    uint32_t shared_memory, size; /* 0: another kernel */
  } cases[] = {{40, 64, 49152, 128}, {40, 128, 49152, 128}, {300, 148, 49152, 64}, {300, 148, 65536, 128},
               {300, 256, 49152, 0}, {300, 256, 65536, 64}, {16, 256, 49152, 32},  {300, 256, 102400, 128}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tsr_vk_caps caps = caps_of(&devices[0]);
    caps.shared_memory = cases[i].shared_memory;
    assert_true(plan_attention(&caps, cases[i].length, cases[i].depth, &the_plan));
    if ((the_plan.variant == TSR_VK_VARIANT_ATTENTION_COOP) != (cases[i].size != 0) ||
        (cases[i].size != 0 && the_plan.dispatch[0].spec[SIZE] != cases[i].size)) {
      fail_msg("%d queries, heads of %d, %u bytes: variant %s, %u invocations", (int)cases[i].length,
               (int)cases[i].depth, (unsigned)cases[i].shared_memory, tsr_vk_variant_name(the_plan.variant),
               (unsigned)the_plan.dispatch[0].spec[SIZE]);
    }
  }
}

/* Which attention and which gradient a device takes, by the type of its matrices and that which a line permits. */
static void test_attention_types(void **state)
{
  (void)state;
  static const struct {
    int32_t shapes, reduced, is_taken;
  } cases[] = {{TSR_F16, 1, 1},         {TSR_F16, TSR_F16, 1}, {TSR_F16, TSR_BF16, 0},
               {TSR_BF16, TSR_BF16, 1}, {TSR_BF16, 1, 0},      {TSR_BF16, 0, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const int is_bf16 = cases[i].shapes == TSR_BF16;
    tsr_vk_caps caps = caps_of(&devices[0]);
    caps.shapes[0].dtype = cases[i].shapes;
    assert_true(plan_attention_rounded(&caps, 40, 64, cases[i].reduced, &the_plan));
    assert_int_equal(the_plan.variant == TSR_VK_VARIANT_ATTENTION_COOP, cases[i].is_taken);
    if (cases[i].is_taken) {
      assert_int_equal(the_plan.dispatch[0].shader,
                       is_bf16 ? TSR_VK_SHADER_ATTENTION_COOPERATIVE_BF16 : TSR_VK_SHADER_ATTENTION_COOPERATIVE);
    }
    assert_true(plan_gradient(&caps, 40, 50, 64, cases[i].reduced, &the_plan));
    assert_int_equal(the_plan.variant == TSR_VK_VARIANT_ATTENTION_GRADIENT_COOP, cases[i].is_taken);
    for (int k = 1; k <= 2 && cases[i].is_taken; k++) {
      assert_int_equal(the_plan.dispatch[k].shader, is_bf16 ? TSR_VK_SHADER_ATTENTION_GRADIENT_COOPERATIVE_BF16
                                                            : TSR_VK_SHADER_ATTENTION_GRADIENT_COOPERATIVE);
    }
  }
}

/* A side of the gradient, as attention_gradient_cooperative.comp takes it: whole shapes, invocations that share a row,
 * what it declares of shared memory. */
static void check_side(const struct device *device, const tsr_vk_dispatch *dispatch, int32_t depth, int by_keys,
                       int32_t n_own)
{
  const uint32_t shape = dispatch->spec[TSR_VK_SPEC_attention_cooperative_shape];
  const uint32_t tile = dispatch->spec[TSR_VK_SPEC_attention_cooperative_tile_shape];
  const uint32_t m = FIRST_BYTE(shape), n = SECOND_BYTE(shape), k = THIRD_BYTE(shape);
  const uint32_t rows = FIRST_BYTE(tile), lanes = SECOND_BYTE(tile), others = THIRD_BYTE(tile);
  const uint32_t size = dispatch->spec[SIZE], tile_rows = size / lanes * rows, side = n > k ? n : k;
  const uint32_t whole = ((uint32_t)depth + side - 1) / side * side;
  const uint32_t pitch = whole / 8 | 1, sums = (others > n ? others : n) / 4 | 1;
  const uint32_t wild = ((uint32_t)depth / 4 + 3) / 4 * (by_keys ? 2 : 1);
  assert_int_equal(m, device->m);
  assert_int_equal(rows % m, 0);
  assert_int_equal(others % n, 0);
  assert_int_equal(others % k, 0);
  assert_int_equal(size % lanes, 0);
  assert_in_range(size, lanes, device->invocations);
  assert_in_range(size / lanes, 1, device->subgroups);
  assert_in_range(lanes, device->lanes[0], device->lanes[1]);
  assert_int_equal(dispatch->subgroup_size, lanes);
  assert_int_equal(lanes % rows, 0);
  assert_int_equal(others % (8 * (lanes / rows)), 0);
  assert_in_range(((tile_rows + others) * 2 * pitch + 2 * tile_rows * sums) * 16 + tile_rows * wild * 4 + others * 8 +
                      8,
                  1, device->shared_memory);
  uint64_t groups = (uint64_t)dispatch->groups[0] * dispatch->groups[1] * dispatch->groups[2];
  assert_int_equal(groups, 2 * (((uint32_t)n_own + tile_rows - 1) / tile_rows));
}

static void test_gradient(void **state)
{
  (void)state;
  static const int32_t depths[] = {4, 20, 64, 80, 128};
  int taken[N_DEVICES] = {0};
  for (int d = 0; d < N_DEVICES; d++) {
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
      for (int32_t length = 9; length < 400; length += 65) {
        tsr_vk_caps caps = caps_of(&devices[d]);
        assert_true(plan_gradient(&caps, length, 300, depths[i], 1, &the_plan));
        if (the_plan.variant == TSR_VK_VARIANT_ATTENTION_GRADIENT_COOP) {
          assert_int_equal(the_plan.n_dispatches, 3);
          check_side(&devices[d], &the_plan.dispatch[1], depths[i], 0, length);
          check_side(&devices[d], &the_plan.dispatch[2], depths[i], 1, 300);
          taken[d]++;
        }
      }
    }
  }
  /* Small subgroups and large shapes go without; where shared memory is small, the widest heads do. */
  assert_int_equal(taken[0], 35);
  assert_int_equal(taken[1], 35);
  assert_int_equal(taken[2], 35);
  assert_int_equal(taken[3] + taken[4] + taken[5] + taken[6], 0);
  assert_true(taken[7] > 0);
  tsr_vk_caps caps = caps_of(&devices[0]);
  assert_true(plan_gradient(&caps, 8, 300, 64, 1, &the_plan)); /* few queries */
  assert_int_not_equal(the_plan.variant, TSR_VK_VARIANT_ATTENTION_GRADIENT_COOP);
  assert_true(plan_gradient(&caps, 40, 300, 62, 1, &the_plan)); /* no whole groups */
  assert_int_not_equal(the_plan.variant, TSR_VK_VARIANT_ATTENTION_GRADIENT_COOP);
  assert_true(plan_gradient(&caps, 40, 300, 64, 0, &the_plan)); /* the precision is to be kept */
  assert_int_not_equal(the_plan.variant, TSR_VK_VARIANT_ATTENTION_GRADIENT_COOP);
  caps.n_shapes = 0;
  assert_true(plan_gradient(&caps, 40, 300, 64, 1, &the_plan));
  assert_int_not_equal(the_plan.variant, TSR_VK_VARIANT_ATTENTION_GRADIENT_COOP);
}

/* A device that multiplies bf16 alone takes products with such weights, and no others. */
static void test_bf16(void **state)
{
  (void)state;
  static const int32_t variants[] = {TSR_VK_VARIANT_MATMUL_COOP_BF16_128_64, TSR_VK_VARIANT_MATMUL_COOP_BF16_128,
                                     TSR_VK_VARIANT_MATMUL_COOP_BF16_64, TSR_VK_VARIANT_MATMUL_COOP_BF16_32};
  product p = {.rows = 300, .columns = 1000, .depth = 520, .type = TSR_BF16, .reduced = 1};
  tsr_vk_caps caps = caps_of(&devices[0]);
  caps.n_shapes = 1;
  caps.shapes[0].dtype = TSR_BF16;
  for (int i = 0; i < 2 * N_VARIANTS; i++) {
    p.along_columns = i / N_VARIANTS;
    caps.forced = variants[i % N_VARIANTS];
    assert_true(plan(&caps, &p, &the_plan));
    assert_int_equal(the_plan.variant, caps.forced);
    check_dispatch(&devices[0], &p);
  }
  caps.forced = TSR_VK_VARIANT_AUTO;
  assert_true(plan(&caps, &p, &the_plan));
  assert_in_range(the_plan.variant, variants[0], variants[N_VARIANTS - 1]);
  p.type = TSR_F32;
  p.reduced = TSR_BF16;
  assert_true(plan(&caps, &p, &the_plan));
  assert_in_range(the_plan.variant, variants[0], variants[N_VARIANTS - 1]);
  check_dispatch(&devices[0], &p);
  p.reduced = 0;
  assert_true(plan(&caps, &p, &the_plan));
  assert_false(is_cooperative(the_plan.variant));
  p.type = TSR_F16;
  p.reduced = 1;
  assert_true(plan(&caps, &p, &the_plan));
  assert_false(is_cooperative(the_plan.variant));
}

/* What a norm leaves for a product has the type of the product's weights. */
static void test_norm_before(void **state)
{
  (void)state;
  enum { R = 64, C = 64, BYTES = 4 * R * C };
  const tsr_storage_desc storages[] = {{0},
                                       {.kind = TSR_STORAGE_INPUT, .size = BYTES},
                                       {.kind = TSR_STORAGE_CONSTANT, .size = 4 * C},
                                       {.kind = TSR_STORAGE_TEMPORARY, .size = BYTES},
                                       {.kind = TSR_STORAGE_CONSTANT, .size = 2 * C * C},
                                       {.kind = TSR_STORAGE_OUTPUT, .size = BYTES}};
  const tsr_tensor_desc matrix = {.dtype = TSR_F32, .rank = 2, .extent = {R, C, 1, 1}, .stride = {C, 1}};
  tsr_tensor_desc tensors[] = {{0}, matrix, matrix, matrix, matrix, matrix};
  for (int32_t i = 1; i <= 5; i++) {
    tensors[i].storage = i;
  }
  tensors[2].rank = 1;
  tensors[2].extent[0] = C;
  tensors[2].extent[1] = tensors[2].stride[0] = 1;
  tensors[4].stride[0] = 1;
  tensors[4].stride[1] = C;
  const tsr_line_desc lines[] = {
      {.op = TSR_OP_RMSNORM,
       .in = {1, 2},
       .out = {3},
       .label = "",
       .attributes = {.struct_size = sizeof(tsr_op_attributes), .epsilon = 1e-6f}},
      {.op = TSR_OP_MATMUL,
       .in = {3, 4},
       .out = {5},
       .label = "",
       .attributes = {.struct_size = sizeof(tsr_op_attributes), .alpha = 1, .reduced_precision = 1}}};
  static const int32_t types[] = {TSR_F16, TSR_BF16};
  for (int i = 0; i < 2; i++) {
    tsr_vk_caps caps = caps_of(&devices[0]);
    caps.fusion = 1;
    caps.shapes[0].dtype = types[i];
    tensors[4].dtype = types[i];
    assert_true(plan_lines(&caps, storages, 6, tensors, 6, lines, 2, &the_plan));
    assert_int_equal(the_plan.n_lines, 2);
    const tsr_vk_dispatch *norm = &the_plan.dispatch[0], *multiply = &the_plan.dispatch[1];
    assert_int_equal(norm->shader, TSR_VK_SHADER_NORM_HALVES_SUBGROUP);
    assert_int_equal(norm->spec[TSR_VK_SPEC_norm_to_type], types[i]);
    assert_int_equal(multiply->shader, types[i] == TSR_F16 ? TSR_VK_SHADER_MATMUL_COOPERATIVE_F16
                                                           : TSR_VK_SHADER_MATMUL_COOPERATIVE_BF16);
    assert_int_equal(multiply->spec[TSR_VK_SPEC_matmul_cooperative_halves], HALVES_A);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_limits),          cmocka_unit_test(test_choice),  cmocka_unit_test(test_shapes),
      cmocka_unit_test(test_heads),           cmocka_unit_test(test_bf16),    cmocka_unit_test(test_norm_before),
      cmocka_unit_test(test_attention_types), cmocka_unit_test(test_gradient)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

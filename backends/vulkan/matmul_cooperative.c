/* SPDX-License-Identifier: Apache-2.0
 *
 * shaders/matmul_cooperative.comp: by cooperative matrices, in whatever shape the device multiplies them.
 */
#include "shaders/contract/matmul_cooperative.h"
#include "backends/vulkan/matmul.h"

/* A workgroup's tile, and the part of it that one subgroup makes. */
typedef struct tile {
  uint32_t rows;
  uint32_t columns;
  uint32_t part_rows;
  uint32_t part_columns;
} tile;

/* Those of each type, the largest first: in this order their variants stand. */
static const tile tiles[] = {{128, 128, 32, 64}, {64, 64, 32, 32}, {32, 64, 16, 32}};
enum { N_TILES = sizeof tiles / sizeof tiles[0] };
_Static_assert(TSR_VK_VARIANT_MATMUL_COOP_F16_32 - TSR_VK_VARIANT_MATMUL_COOP_F16_128 == N_TILES - 1,
               "order of variants");
_Static_assert(TSR_VK_VARIANT_MATMUL_COOP_I8_32 - TSR_VK_VARIANT_MATMUL_COOP_I8_128 == N_TILES - 1,
               "order of variants");

/* A register holds a value of each invocation. Where subgroups can be small there are about 128 registers, else 256:
 * a part's sums take a quarter of them. */
enum { FULL_SUBGROUP = 32, SUMS = 64, FEW_SUMS = 32 };

/* Cuts the parts to what a subgroup has registers for, though not into more than a workgroup has subgroups. */
static uint32_t fit(tile *t, const tsr_vk_caps *caps, uint32_t lanes)
{
  uint32_t most =
      caps->max_subgroups < caps->max_invocations / lanes ? caps->max_subgroups : caps->max_invocations / lanes;
  uint32_t sums = (lanes < FULL_SUBGROUP ? FEW_SUMS : SUMS) * lanes;
  uint32_t subgroups = t->rows / t->part_rows * (t->columns / t->part_columns);
  for (; t->part_rows * t->part_columns > sums && subgroups * 2 <= most; subgroups *= 2) {
    if (t->part_columns > t->part_rows) {
      t->part_columns /= 2;
    } else {
      t->part_rows /= 2;
    }
  }
  return subgroups;
}

/* Makes offset and strides of a view count groups of n elements along axis `contiguous`. 0, nothing changed, if they
 * do not divide. */
static int in_groups(tsr_vk_view *view, int32_t contiguous, uint32_t n)
{
  uint32_t low = view->extent[contiguous] | view->offset;
  for (int32_t i = 0; i < 4; ++i) {
    low |= i == contiguous ? 0 : view->stride[i];
  }
  if (view->stride[contiguous] != 1 || low % n != 0) {
    return 0;
  }
  view->offset /= n;
  for (int32_t i = 0; i < 4; ++i) {
    view->stride[i] /= i == contiguous ? 1 : n;
  }
  return 1;
}

enum { GROUP_BYTES = 16, MAX_STEP = 4, MIN_STEP = 2, I8_LEAST_PART = 256 /* of the depth: whole steps */ };

/* Groups of shared memory: two buffers, and later what the subgroups store their sums in. */
static uint32_t shared_groups(const tile *t, const tsr_vk_shape *shape, uint32_t step, uint32_t values, int along_depth)
{
  uint32_t b = along_depth ? t->columns * (step + 1) : step * values * (t->columns / values + 1);
  uint32_t buffers = 2 * (t->rows * (step + 1) + b);
  uint32_t sums = t->rows / t->part_rows * (t->columns / t->part_columns) * shape->m * (t->part_columns / 4);
  return buffers > sums ? buffers : sums;
}

/* The groups of depth at a time; 0: matrices of that shape do not fill the tile's parts, or do not fit. */
static uint32_t step_of(const tsr_vk_caps *caps, const tile *t, const tsr_vk_shape *shape, uint32_t values,
                        int along_depth)
{
  if (t->part_rows % shape->m != 0 || t->part_columns % shape->n != 0) {
    return 0;
  }
  uint32_t step = caps->subgroup_sizes[0] < FULL_SUBGROUP ? MIN_STEP : MAX_STEP; /* the next step waits in registers */
  while (step >= MIN_STEP && (step * values % shape->k != 0 ||
                              shared_groups(t, shape, step, values, along_depth) * GROUP_BYTES > caps->shared_memory)) {
    step /= 2;
  }
  return step >= MIN_STEP ? step : 0;
}

/* By the largest shape of that type that can be had. values: of b in a group. Strides of the product count groups,
 * its depth values. */
static int plan_in_groups(tsr_vk_planner *planner, int32_t shader, tsr_vk_product p, int32_t type, tile t,
                          uint32_t values, int along_depth)
{
  const tsr_vk_caps *caps = planner->caps;
  uint32_t lanes = caps->subgroup_sizes[0];
  uint32_t subgroups = fit(&t, caps, lanes), size = subgroups * lanes;
  if (subgroups > caps->max_subgroups || size > caps->max_invocations || size > caps->max_size[0]) {
    return 0;
  }
  const tsr_vk_shape *shape = NULL;
  uint32_t step = 0;
  while (step == 0 && (shape = tsr_vk_next_shape(caps, type, shape)) != NULL) {
    step = step_of(caps, &t, shape, values, along_depth);
  }
  if (step == 0) {
    return 0;
  }
  tsr_vk_cut_depth(planner, &p, p.batch * tsr_vk_divide_up(p.rows, t.rows) * tsr_vk_divide_up(p.columns, t.columns),
                   p.quantised ? I8_LEAST_PART : step * values);
  tsr_vk_product counted = p; /* in groups, as the shader counts */
  counted.depth = p.depth / values;
  counted.part_depth = (uint32_t)tsr_vk_divide_up(p.part_depth, values);
  tsr_vk_dispatch *dispatch = tsr_vk_add_product(planner, shader, &counted, t.rows, t.columns, size);
  if (dispatch == NULL) {
    return 0;
  }
  dispatch->subgroup_size = lanes;
  dispatch->work *= values;
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_shape_m, shape->m);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_shape_n, shape->n);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_shape_k, shape->k);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_tile_rows, t.rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_tile_columns, t.columns);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_part_rows, t.part_rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_part_columns, t.part_columns);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_step_groups, step);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_lanes, lanes);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_b_along_depth, (uint32_t)along_depth);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_shared_groups,
              shared_groups(&t, shape, step, values, along_depth));
  return tsr_vk_finish_product(planner, &counted);
}

/* b of f16, a rounded to it: what a line of reduced precision permits. */
static int plan_f16(tsr_vk_planner *planner, tsr_vk_product p, tile t)
{
  enum { VALUES = 8, A_VALUES = 4 };
  if (!tsr_vk_has_reduced_precision(planner) || tsr_vk_in(planner, 1)->dtype != TSR_F16 || p.depth == 0 ||
      p.depth % VALUES != 0) {
    return 0;
  }
  int along_depth = in_groups(&p.b, 2, VALUES);
  if (!in_groups(&p.a, 3, A_VALUES) || (!along_depth && !in_groups(&p.b, 3, VALUES))) {
    return 0;
  }
  return plan_in_groups(planner, TSR_VK_SHADER_MATMUL_COOPERATIVE_F16, p, TSR_VK_SHAPE_F16, t, VALUES, along_depth);
}

/* Both of i8: the sums are exact. */
static int plan_i8(tsr_vk_planner *planner, tsr_vk_product p, tile t)
{
  enum { VALUES = 16 };
  return p.depth > 0 && in_groups(&p.b, 2, VALUES) &&
         plan_in_groups(planner, TSR_VK_SHADER_MATMUL_COOPERATIVE_I8, p, TSR_VK_SHAPE_I8, t, VALUES, 1);
}

int tsr_vk_plan_cooperative(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant)
{
  int32_t i = variant - (product->quantised ? TSR_VK_VARIANT_MATMUL_COOP_I8_128 : TSR_VK_VARIANT_MATMUL_COOP_F16_128);
  if (i < 0 || i >= N_TILES) {
    return 0;
  }
  return product->quantised ? plan_i8(planner, *product, tiles[i]) : plan_f16(planner, *product, tiles[i]);
}

/* Of the tiles at least half of whose rows are there, the largest of which there are enough for a large device. */
int32_t tsr_vk_choose_cooperative(const tsr_vk_caps *caps, const tsr_vk_product *p)
{
  enum { MIN_ROWS = 16 };
  static const uint32_t enough[N_TILES] = {TSR_VK_ENOUGH_GROUPS / 2, TSR_VK_ENOUGH_GROUPS / 4, 0};
  if (caps->n_shapes == 0 || caps->compute_like_cpu || p->rows < MIN_ROWS) {
    return TSR_VK_VARIANT_AUTO;
  }
  int32_t i = 0;
  while (i < N_TILES - 1 && (p->rows <= tiles[i].rows / 2 || p->batch * tsr_vk_divide_up(p->rows, tiles[i].rows) *
                                                                     tsr_vk_divide_up(p->columns, tiles[i].columns) <
                                                                 enough[i])) {
    ++i;
  }
  return i + (p->quantised ? TSR_VK_VARIANT_MATMUL_COOP_I8_128 : TSR_VK_VARIANT_MATMUL_COOP_F16_128);
}

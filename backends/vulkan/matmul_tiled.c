/* SPDX-License-Identifier: Apache-2.0
 *
 * shaders/matmul_tiled.comp: products on GPUs. A variant is a tile: the larger it is, the fewer loads for each
 * multiplication; the smaller, the more workgroups. Where tiles leave a device idle the depth is cut into parts, whose
 * sums lie in scratch until shaders/matmul_parts.comp adds them up.
 */
#include "shaders/contract/matmul_tiled.h"
#include "backends/vulkan/matmul.h"

enum { GROUP = 4 }; /* neighbouring rows or columns of one invocation */

typedef struct tile {
  int32_t variant;
  uint32_t rows;
  uint32_t columns;
  uint32_t row_groups; /* of one invocation */
  uint32_t column_groups;
} tile;

static const tile tiles[] = {
    {TSR_VK_VARIANT_MATMUL_TILED_128X128, 128, 128, 2, 2}, {TSR_VK_VARIANT_MATMUL_TILED_64X64, 64, 64, 2, 1},
    {TSR_VK_VARIANT_MATMUL_TILED_32X64, 32, 64, 1, 1},     {TSR_VK_VARIANT_MATMUL_TILED_32X32, 32, 32, 1, 1},
    {TSR_VK_VARIANT_MATMUL_TILED_16X64, 16, 64, 1, 1},
};

static const tile *find(int32_t variant)
{
  const tile *t = tiles;
  while (t->variant != variant) {
    ++t;
  }
  return t;
}

static uint32_t lanes_of(const tile *t)
{
  return t->rows * t->columns / (GROUP * GROUP * t->row_groups * t->column_groups);
}

static int fits(const tsr_vk_caps *caps, const tile *t)
{
  uint32_t shared_bytes = 2 * TILE_DEPTH * (t->rows + t->columns) * 4;
  return tsr_vk_group_size(caps, lanes_of(t)) == lanes_of(t) && shared_bytes <= caps->shared_memory;
}

static uint64_t groups_of(const tile *t, const tsr_vk_product *p)
{
  return p->batch * tsr_vk_divide_up(p->rows, t->rows) * tsr_vk_divide_up(p->columns, t->columns);
}

/* Results of all tiles, those beyond the product's end among them */
static uint64_t results_of(const tile *t, const tsr_vk_product *p)
{
  return groups_of(t, p) * t->rows * t->columns;
}

/* A compiler that may choose subgroups narrower than 32 has few registers for an invocation, even in the narrowest:
 * 8 x 8 sums leave it none for values of k far ahead, nor for the addresses of elements one by one. */
static int has_few_registers(const tsr_vk_caps *caps, const tile *t)
{
  int narrow = caps->subgroup_sizes[0] > 0 && caps->subgroup_sizes[0] < 32;
  return narrow && t->row_groups * t->column_groups > 2;
}

/* How an operand lies, whose axis k is `along` and whose rows or columns are `across` */
static uint32_t layout_of(const tsr_vk_view *view, int32_t along, int32_t across)
{
  uint32_t low = view->offset | view->stride[0] | view->stride[1];
  if (view->stride[along] == 1) {
    return LAYOUT_ALONG_DEPTH | (((low | view->stride[across] | view->extent[along]) % 2 == 0) ? LAYOUT_VECTORS : 0);
  }
  if (view->stride[across] == 1) {
    return ((low | view->stride[along] | view->extent[across]) % 4 == 0) ? LAYOUT_VECTORS : 0;
  }
  return view->stride[along] < view->stride[across] ? LAYOUT_ALONG_DEPTH : 0;
}

int32_t tsr_vk_choose_tiled(const tsr_vk_caps *caps, const tsr_vk_product *p)
{
  enum { SMALL_SHARED_MEMORY = 32768, FEW_GROUPS = TSR_VK_ENOUGH_GROUPS / 2, DEEP = 256 };
  const tile *large = find(TSR_VK_VARIANT_MATMUL_TILED_128X128), *medium = find(TSR_VK_VARIANT_MATMUL_TILED_64X64);
  /* A device with little shared memory that shares the host's memory has small registers, too. */
  int suits_large =
      (!caps->unified || caps->shared_memory > SMALL_SHARED_MEMORY) &&
      (!has_few_registers(caps, large) || (layout_of(&p->a, 3, 2) & layout_of(&p->b, 2, 3) & LAYOUT_VECTORS) != 0);
  const tile *t = find(TSR_VK_VARIANT_MATMUL_TILED_32X32);
  if (p->columns <= 32) {
    ;
  } else if (p->rows <= 16) {
    t = find(TSR_VK_VARIANT_MATMUL_TILED_16X64);
  } else if (p->rows <= 32) {
    t = find(TSR_VK_VARIANT_MATMUL_TILED_32X64);
  } else if (suits_large && groups_of(large, p) >= FEW_GROUPS &&
             results_of(large, p) / 5 <= results_of(medium, p) / 4) {
    t = large;
  } else if (groups_of(medium, p) >= FEW_GROUPS || p->depth >= DEEP) {
    t = medium;
  }
  while (!fits(caps, t)) {
    ++t;
  }
  return t->variant;
}

int tsr_vk_plan_tiled(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant)
{
  const tile *t = find(variant);
  tsr_vk_product p = *product;
  if (p.depth == 0 || !fits(planner->caps, t)) {
    return 0;
  }
  tsr_vk_cut_depth(planner, &p, groups_of(t, &p), TILE_DEPTH);
  tsr_vk_dispatch *dispatch =
      tsr_vk_add_product(planner, TSR_VK_SHADER_MATMUL_TILED, &p, t->rows, t->columns, lanes_of(t));
  uint32_t layout_a = layout_of(&p.a, 3, 2), layout_b = layout_of(&p.b, 2, 3);
  int few_registers = has_few_registers(planner->caps, t);
  if (dispatch == NULL || (few_registers && dispatch->wide && (layout_a & layout_b & LAYOUT_VECTORS) == 0)) {
    return 0;
  }
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_tiled_tile_rows, t->rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_tiled_tile_columns, t->columns);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_tiled_row_groups, t->row_groups);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_tiled_column_groups, t->column_groups);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_tiled_at_once, few_registers ? 1 : 4);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_tiled_layout_a, layout_a);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_tiled_layout_b, layout_b);
  return tsr_vk_finish_product(planner, &p);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * shaders/matmul_tiled.comp: register tiles over shared memory.
 */
#include "backends/vulkan/matmul.h"

enum { SIDE = 16, MAX_TILE = 4, FEW_GROUPS = 64 };

static int plan_tiled(tsr_vk_planner *planner, const tsr_vk_product *p)
{
  if (tsr_vk_group_size(planner->caps, SIDE * SIDE) < SIDE * SIDE)
    return 0;
  uint32_t tile = MAX_TILE;
  while (tile > 1 &&
         p->batch * tsr_vk_divide_up(p->rows, SIDE * tile) * tsr_vk_divide_up(p->columns, SIDE * tile) < FEW_GROUPS)
    tile /= 2;
  tsr_vk_dispatch *dispatch =
      tsr_vk_add_product(planner, TSR_VK_VARIANT_MATMUL_TILED, p, SIDE * tile, SIDE * tile, SIDE * SIDE);
  if (dispatch == NULL)
    return 0;
  tsr_vk_spec(dispatch, tile);
  tsr_vk_spec(dispatch, p->a.stride[2] == 1 && p->a.stride[3] != 1);
  tsr_vk_spec(dispatch, p->b.stride[2] == 1 && p->b.stride[3] != 1);
  return 1;
}

/* A deep product with a small result (the gradient of weights) has too few tiles for a large device: parts of the depth
 * become a batch in scratch, and are summed by a second dispatch. */
static int plan_by_parts(tsr_vk_planner *planner, tsr_vk_product p)
{
  enum { MIN_DEPTH = 256, MAX_PARTS = 16 };
  const tsr_line_desc *line = planner->line;
  uint64_t tiles = tsr_vk_divide_up(p.rows, SIDE * MAX_TILE) * tsr_vk_divide_up(p.columns, SIDE * MAX_TILE);
  uint32_t parts = 1;
  while (parts < MAX_PARTS && tiles * parts < 2 * FEW_GROUPS && p.depth % (parts * 2) == 0 &&
         p.depth / (parts * 2) >= MIN_DEPTH)
    parts *= 2;
  if (parts == 1 || p.batch != 1 || line->in[2] != 0 || line->attributes.activation != TSR_ACTIVATION_NONE)
    return 0;
  p.depth /= parts;
  p.batch = parts;
  p.a.extent[1] = parts;
  p.a.stride[1] = p.depth * p.a.stride[3];
  p.b.stride[1] = p.depth * p.b.stride[2];
  p.y = TSR_VK_SCRATCH;
  uint32_t at = tsr_vk_reserve(planner, (uint64_t)parts * p.rows * p.columns);
  return plan_tiled(planner, &p) && tsr_vk_add_sums_of_parts(planner, at, parts, p.rows * p.columns, line->out[0]);
}

int tsr_vk_plan_tiled(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t form)
{
  (void)form;
  if (plan_by_parts(planner, *product))
    return 1;
  tsr_vk_restart(planner);
  return plan_tiled(planner, product);
}

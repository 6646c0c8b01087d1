/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul: which form of product suits the device and the strides, and its tiles.
 *
 *   rows     matmul_rows.comp     long loops, no shared memory: devices that a CPU executes
 *   tiled    matmul_tiled.comp    register tiles over shared memory: GPUs
 *   vector   matmul_vector.comp   few rows: invocations side by side along k
 *   generic  matmul_generic.comp  any strides
 */
#include "backends/vulkan/kernel_common.h"

#include <string.h>

typedef struct matmul_push {
  uint32_t rows;
  uint32_t columns;
  uint32_t depth;
  uint32_t inner_batch;
  uint32_t a_offset;
  uint32_t a_stride[4];
  uint32_t b_offset;
  uint32_t b_stride[4];
  uint32_t bias_offset;
  uint32_t bias_stride[4];
  float alpha;
  uint32_t row_tiles;
  uint32_t column_tiles;
} matmul_push;
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_GENERIC, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_ROWS, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_ROWS_BY_ROW, "push constants of lib/product.glsl");

enum { ROWS_M = 2, ROWS_K = 3, COLUMNS_K = 2, COLUMNS_N = 3, HAS_BIAS = 8 };

/* Makes offset and strides count groups of four elements, all but the stride of the contiguous axis. 0, nothing changed, if they
 * do not divide. */
static int in_quads(uint32_t *offset, uint32_t *stride, int32_t contiguous)
{
  uint32_t low = *offset;
  for (int32_t i = 0; i < 4; ++i)
    low |= i == contiguous ? 0 : stride[i];
  if (stride[contiguous] != 1 || low % 4 != 0)
    return 0;
  *offset /= 4;
  for (int32_t i = 0; i < 4; ++i)
    stride[i] /= i == contiguous ? 1 : 4;
  return 1;
}

/* Adds the dispatch once the form is chosen: tiles of tile_rows x tile_columns results. */
static tsr_vk_dispatch *add(tsr_vk_planner *planner, int32_t variant, matmul_push push, uint64_t batch,
                            uint32_t tile_rows, uint32_t tile_columns, uint32_t size)
{
  const tsr_line_desc *line = planner->line;
  push.row_tiles = (uint32_t)tsr_vk_divide_up(push.rows, tile_rows);
  push.column_tiles = (uint32_t)tsr_vk_divide_up(push.columns, tile_columns);
  uint64_t groups = batch * push.row_tiles * push.column_tiles;
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, variant, &push, sizeof push);
  if (dispatch == NULL)
    return NULL;
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[1]);
  tsr_vk_read_in(planner, dispatch, 2);
  tsr_vk_write(dispatch, line->out[0]);
  tsr_vk_spec(dispatch, size);
  tsr_vk_spec(dispatch, 1);
  tsr_vk_spec(dispatch, (uint32_t)tsr_vk_in(planner, 1)->dtype);
  tsr_vk_spec(dispatch, (uint32_t)line->attributes.activation | (line->in[2] != 0 ? HAS_BIAS : 0));
  dispatch->work = 2.0 * (double)batch * push.rows * push.columns * push.depth;
  return tsr_vk_finish(planner, dispatch, groups) ? dispatch : NULL;
}

static int plan_rows(tsr_vk_planner *planner, matmul_push push, uint64_t batch)
{
  uint32_t lanes = planner->caps->subgroup_size;
  if (!planner->caps->subgroup_shuffle || lanes < 4 || (lanes & (lanes - 1)) != 0 ||
      lanes > planner->caps->max_size[0] || push.depth % 4 != 0 || push.depth == 0 ||
      !in_quads(&push.a_offset, push.a_stride, ROWS_K))
    return 0;
  int by_row = 0;
  if (!in_quads(&push.b_offset, push.b_stride, COLUMNS_K)) {
    by_row = 1;
    if (push.columns % 4 != 0 || !in_quads(&push.b_offset, push.b_stride, COLUMNS_N))
      return 0;
  }
  uint32_t tile_rows = 1, limit = 8;
  while (tile_rows < lanes && tile_rows < limit && tile_rows < push.rows)
    tile_rows *= 2;
  uint32_t tile_columns = by_row ? 4 : 2;
  tsr_vk_dispatch *dispatch = add(planner, by_row ? TSR_VK_VARIANT_MATMUL_ROWS_BY_ROW : TSR_VK_VARIANT_MATMUL_ROWS,
                                  push, batch, tile_rows, lanes * tile_columns, lanes);
  if (dispatch == NULL)
    return 0;
  tsr_vk_spec(dispatch, tile_rows);
  tsr_vk_spec(dispatch, lanes);
  tsr_vk_spec(dispatch, tile_columns);
  return 1;
}

static int plan_generic(tsr_vk_planner *planner, const matmul_push *push, uint64_t batch)
{
  uint32_t size = tsr_vk_group_size(planner->caps, 64), tile_rows = push->rows < 4 ? push->rows : 4;
  tsr_vk_dispatch *dispatch = add(planner, TSR_VK_VARIANT_MATMUL_GENERIC, *push, batch, tile_rows, size, size);
  if (dispatch == NULL)
    return 0;
  tsr_vk_spec(dispatch, tile_rows);
  return 1;
}

int tsr_vk_plan_matmul(tsr_vk_planner *planner)
{
  tsr_vk_view a = tsr_vk_view_in(planner, 0), b = tsr_vk_view_in(planner, 1), bias = tsr_vk_view_in(planner, 2);
  matmul_push push = {
      .rows = a.extent[2],
      .columns = b.extent[3],
      .depth = a.extent[3],
      .inner_batch = a.extent[1],
      .a_offset = a.offset,
      .b_offset = b.offset,
      .bias_offset = bias.offset,
      .alpha = planner->line->attributes.alpha,
  };
  memcpy(push.a_stride, a.stride, sizeof push.a_stride);
  memcpy(push.b_stride, b.stride, sizeof push.b_stride);
  memcpy(push.bias_stride, bias.stride, sizeof push.bias_stride);
  uint64_t batch = (uint64_t)a.extent[0] * a.extent[1];
  const tsr_vk_caps *caps = planner->caps;
  int32_t form = caps->matmul;
  if (form == TSR_VK_MATMUL_AUTO)
    form = caps->compute_like_cpu ? TSR_VK_MATMUL_ROWS : TSR_VK_MATMUL_GENERIC;
  if (form == TSR_VK_MATMUL_ROWS && plan_rows(planner, push, batch))
    return 1;
  return plan_generic(planner, &push, batch);
}

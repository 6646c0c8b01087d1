/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of layernorm and rmsnorm: shaders/norm_gradient.comp, norm_gradient_columns.comp.
 */
#include "backends/vulkan/kernel_common.h"
#include "shaders/contract/norm_gradient.h"
#include "shaders/contract/norm_gradient_columns.h"
#include "shaders/contract/norm_gradient_rows.h"

#include <string.h>

TSR_VK_ASSERT_ROW_SHADERS(NORM_GRADIENT);

/* dgain and dbias, from what the rows left in scratch: by blocks of rows, then over the blocks. */
static int plan_columns(tsr_vk_planner *planner, tsr_vk_norm_gradient_push push, int quads)
{
  enum { MIN_BLOCK = 32, MAX_BLOCKS = 128, SIZE = 64 };
  const tsr_line_desc *line = planner->line;
  uint32_t n = push.extent[3] * (quads ? 4 : 1);
  push.block = (uint32_t)tsr_vk_divide_up(push.rows, MAX_BLOCKS);
  push.block = push.block < MIN_BLOCK ? MIN_BLOCK : push.block;
  uint32_t blocks = push.rows == 0 ? 1 : (uint32_t)tsr_vk_divide_up(push.rows, push.block);
  int32_t dbias = line->op == TSR_OP_LAYERNORM_GRADIENT ? line->out[2] : 0;
  uint32_t at[2] = {0, 0}; /* words into scratch */
  if (blocks > 1) {
    at[0] = tsr_vk_reserve(planner, (uint64_t)blocks * n);
    at[1] = dbias != 0 ? tsr_vk_reserve(planner, (uint64_t)blocks * n) : at[0];
  }
  push.dgain_at = quads ? at[0] / 4 : at[0];
  push.dbias_at = quads ? at[1] / 4 : at[1];
  int32_t shader = quads ? TSR_VK_SHADER_NORM_GRADIENT_COLUMNS_QUADS : TSR_VK_SHADER_NORM_GRADIENT_COLUMNS;
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, shader, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[2]);
  tsr_vk_read(dispatch, TSR_VK_SCRATCH);
  tsr_vk_write(dispatch, blocks > 1 ? TSR_VK_SCRATCH : line->out[1]);
  tsr_vk_write(dispatch, blocks > 1 ? TSR_VK_SCRATCH : dbias != 0 ? dbias : line->out[1]);
  uint32_t size = tsr_vk_group_size(planner->caps, SIZE);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_norm_gradient_columns_biased, dbias != 0);
  dispatch->after = 1;
  dispatch->work = 4.0 * (double)push.rows * n;
  if (!tsr_vk_finish(planner, dispatch, blocks * tsr_vk_divide_up(push.extent[3], size))) {
    return 0;
  }
  return blocks == 1 || (tsr_vk_add_sums_of_parts(planner, at[0], blocks, n, line->out[1]) &&
                         (dbias == 0 || tsr_vk_add_sums_of_parts(planner, at[1], blocks, n, dbias)));
}

int tsr_vk_plan_norm_gradient(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_view views[3] = {tsr_vk_view_in(planner, 0), tsr_vk_view_in(planner, 1), tsr_vk_view_in(planner, 2)};
  uint64_t n = views[0].extent[3], rows = tsr_vk_elements(tsr_vk_in(planner, 0)) / n;
  int quads = tsr_vk_whole_quads(views, 3);
  const tsr_vk_view *x = &views[0], *gain = &views[1], *dy = &views[2];
  tsr_vk_norm_gradient_push push = {
      .x_offset = x->offset,
      .dy_offset = dy->offset,
      .gain_offset = gain->offset,
      .gain_stride = gain->stride[3],
      .rows = (uint32_t)rows,
      .stats_at = tsr_vk_reserve(planner, 2 * (rows > 0 ? rows : 1)),
      .epsilon = line->attributes.epsilon,
      .length = (float)n,
  };
  memcpy(push.extent, x->extent, sizeof push.extent);
  memcpy(push.x_stride, x->stride, sizeof push.x_stride);
  memcpy(push.dy_stride, dy->stride, sizeof push.dy_stride);
  if (rows > 0) {
    tsr_vk_dispatch *dispatch =
        tsr_vk_add_rows(planner, TSR_VK_SHADER_NORM_GRADIENT, &push, sizeof push, quads, x->extent[3]);
    if (dispatch == NULL) {
      return 0;
    }
    tsr_vk_spec(dispatch, TSR_VK_SPEC_norm_gradient_rows_centred, tsr_vk_norm_kind(line));
    for (int32_t slot = 0; slot < 3; ++slot) {
      tsr_vk_read(dispatch, line->in[slot]);
    }
    tsr_vk_write(dispatch, line->out[0]);
    tsr_vk_write(dispatch, TSR_VK_SCRATCH);
    dispatch->work = 20.0 * (double)rows * (double)n;
    if (!tsr_vk_finish(planner, dispatch, rows)) {
      return 0;
    }
  }
  return plan_columns(planner, push, quads);
}

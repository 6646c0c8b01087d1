/* SPDX-License-Identifier: Apache-2.0
 *
 * layernorm and rmsnorm: shaders/norm.comp.
 */
#include "backends/vulkan/kernel_common.h"

#include <string.h>

typedef struct norm_push {
  uint32_t extent[4];
  uint32_t x_stride[4];
  uint32_t addend_stride[4];
  uint32_t x_offset;
  uint32_t addend_offset;
  uint32_t gain_offset;
  uint32_t gain_stride;
  uint32_t bias_offset;
  uint32_t bias_stride;
  uint32_t rows;
  float epsilon;
  float length;
} norm_push;
_Static_assert(sizeof(norm_push) == TSR_VK_PUSH_NORM, "push constants of norm.comp");

TSR_VK_ASSERT_ROW_VARIANTS(NORM);

int32_t tsr_vk_norm_kind(const tsr_line_desc *line)
{
  int centred = line->op == TSR_OP_LAYERNORM || line->op == TSR_OP_LAYERNORM_GRADIENT;
  return !centred ? 0 : line->attributes.unbiased ? 2 : 1;
}

int tsr_vk_plan_norm(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  int32_t centred = tsr_vk_norm_kind(line), bias_slot = centred ? line->in[2] : 0;
  int32_t addend_tensor = planner->addend != 0 ? planner->addend : line->in[0];
  tsr_vk_view views[4] = {tsr_vk_view_in(planner, 0), tsr_vk_view_in(planner, 1),
                          tsr_vk_view_in(planner, bias_slot != 0 ? 2 : 1),
                          tsr_vk_view_of(tsr_vk_tensor(planner, addend_tensor))};
  uint64_t n = views[0].extent[3], rows = tsr_vk_elements(tsr_vk_out(planner, 0)) / n;
  int quads = tsr_vk_whole_quads(views, 4);
  const tsr_vk_view x = views[0], gain = views[1], bias = views[2], addend = views[3];
  enum { NO_ADDEND, ADDEND, ADDEND_AND_SUM };
  norm_push push = {
      .x_offset = x.offset,
      .addend_offset = addend.offset,
      .gain_offset = gain.offset,
      .gain_stride = gain.stride[3],
      .bias_offset = bias.offset,
      .bias_stride = bias.stride[3],
      .rows = (uint32_t)rows,
      .epsilon = line->attributes.epsilon,
      .length = (float)n,
  };
  memcpy(push.extent, x.extent, sizeof push.extent);
  memcpy(push.x_stride, x.stride, sizeof push.x_stride);
  memcpy(push.addend_stride, addend.stride, sizeof push.addend_stride);
  tsr_vk_dispatch *dispatch =
      tsr_vk_add_rows(planner, TSR_VK_VARIANT_NORM, &push, sizeof push, quads, x.extent[3], centred, bias_slot != 0);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[1]);
  tsr_vk_read(dispatch, bias_slot != 0 ? bias_slot : line->in[1]);
  tsr_vk_write(dispatch, line->out[0]);
  tsr_vk_read(dispatch, addend_tensor);
  planner->is_added = planner->addend != 0;
  tsr_vk_write(dispatch, planner->sum != 0 ? planner->sum : line->out[0]);
  tsr_vk_spec(dispatch, planner->addend == 0 ? NO_ADDEND : planner->sum == 0 ? ADDEND : ADDEND_AND_SUM);
  dispatch->work = 10.0 * (double)rows * (double)n;
  return tsr_vk_finish(planner, dispatch, rows);
}

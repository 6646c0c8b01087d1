/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax and log_softmax (shaders/softmax.comp), their gradients (shaders/softmax_gradient.comp), cross_entropy and
 * its gradient (shaders/cross_entropy.comp, cross_entropy_gradient.comp).
 */
#include "backends/vulkan/kernel_common.h"
#include "shaders/contract/cross_entropy.h"
#include "shaders/contract/cross_entropy_gradient.h"
#include "shaders/contract/softmax.h"
#include "shaders/contract/softmax_gradient.h"

#include <string.h>

TSR_VK_ASSERT_ROW_SHADERS(SOFTMAX);
TSR_VK_ASSERT_ROW_SHADERS(SOFTMAX_GRADIENT);
TSR_VK_ASSERT_ROW_SHADERS(CROSS_ENTROPY);

int tsr_vk_plan_softmax(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  int32_t mask_slot = line->op == TSR_OP_SOFTMAX ? line->in[1] : 0;
  tsr_vk_view views[2] = {tsr_vk_view_in(planner, 0),
                          mask_slot != 0 ? tsr_vk_view_in(planner, 1) : tsr_vk_view_in(planner, 0)};
  uint64_t n = views[0].extent[3], rows = tsr_vk_elements(tsr_vk_out(planner, 0)) / n;
  int quads = tsr_vk_whole_quads(views, 2);
  tsr_vk_softmax_push push = {.x_offset = views[0].offset, .mask_offset = views[1].offset, .rows = (uint32_t)rows};
  memcpy(push.extent, views[0].extent, sizeof push.extent);
  memcpy(push.x_stride, views[0].stride, sizeof push.x_stride);
  memcpy(push.mask_stride, views[1].stride, sizeof push.mask_stride);
  tsr_vk_dispatch *dispatch =
      tsr_vk_add_rows(planner, TSR_VK_SHADER_SOFTMAX, &push, sizeof push, quads, views[0].extent[3]);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_spec(dispatch, TSR_VK_SPEC_softmax_logarithm, line->op == TSR_OP_LOG_SOFTMAX);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_softmax_masked, mask_slot != 0);
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, mask_slot != 0 ? mask_slot : line->in[0]);
  tsr_vk_write(dispatch, line->out[0]);
  dispatch->work = 30.0 * (double)rows * (double)n;
  return tsr_vk_finish(planner, dispatch, rows);
}

int tsr_vk_plan_softmax_gradient(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_view views[2] = {tsr_vk_view_in(planner, 0), tsr_vk_view_in(planner, 1)};
  uint64_t n = views[0].extent[3], rows = tsr_vk_elements(tsr_vk_out(planner, 0)) / n;
  int quads = tsr_vk_whole_quads(views, 2);
  tsr_vk_softmax_gradient_push push = {
      .y_offset = views[0].offset, .dy_offset = views[1].offset, .rows = (uint32_t)rows};
  memcpy(push.extent, views[0].extent, sizeof push.extent);
  memcpy(push.y_stride, views[0].stride, sizeof push.y_stride);
  memcpy(push.dy_stride, views[1].stride, sizeof push.dy_stride);
  tsr_vk_dispatch *dispatch =
      tsr_vk_add_rows(planner, TSR_VK_SHADER_SOFTMAX_GRADIENT, &push, sizeof push, quads, views[0].extent[3]);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_spec(dispatch, TSR_VK_SPEC_softmax_gradient_logarithm, line->op == TSR_OP_LOG_SOFTMAX_GRADIENT);
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[1]);
  tsr_vk_write(dispatch, line->out[0]);
  dispatch->work = 10.0 * (double)rows * (double)n;
  return tsr_vk_finish(planner, dispatch, rows);
}

int tsr_vk_plan_cross_entropy(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_view x = tsr_vk_view_in(planner, 0);
  const tsr_vk_view labels = tsr_vk_view_in(planner, 1);
  const uint32_t rows = x.extent[2], vocabulary = x.extent[3];
  const int quads = tsr_vk_whole_quads(&x, 1);
  const tsr_vk_cross_entropy_push push = {
      .extent = x.extent[3],
      .row_stride = x.stride[2],
      .element_stride = x.stride[3],
      .x_offset = x.offset,
      .labels_offset = labels.offset,
      .labels_stride = labels.stride[3],
      .rows = rows,
      .vocabulary = vocabulary,
      .smoothing = line->attributes.smoothing,
  };
  tsr_vk_dispatch *dispatch =
      tsr_vk_add_rows(planner, TSR_VK_SHADER_CROSS_ENTROPY, &push, sizeof push, quads, push.extent);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[1]);
  tsr_vk_write(dispatch, line->out[0]);
  tsr_vk_write(dispatch, line->out[1]);
  dispatch->work = 20.0 * (double)rows * (double)vocabulary;
  return tsr_vk_finish(planner, dispatch, rows);
}

int tsr_vk_plan_cross_entropy_gradient(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_view x = tsr_vk_view_in(planner, 0);
  const tsr_vk_view labels = tsr_vk_view_in(planner, 1);
  const tsr_vk_view lse = tsr_vk_view_in(planner, 2), dloss = tsr_vk_view_in(planner, 3);
  const uint64_t elements = tsr_vk_elements(tsr_vk_out(planner, 0));
  const uint32_t vocabulary = x.extent[3];
  const int quads = tsr_vk_whole_quads(&x, 1);
  const tsr_vk_cross_entropy_gradient_push push = {
      .extent = x.extent[3],
      .row_stride = x.stride[2],
      .element_stride = x.stride[3],
      .x_offset = x.offset,
      .labels_offset = labels.offset,
      .labels_stride = labels.stride[3],
      .lse_offset = lse.offset,
      .lse_stride = lse.stride[3],
      .dloss_offset = dloss.offset,
      .dloss_stride = dloss.stride[3],
      .count = (uint32_t)(quads ? elements / 4 : elements),
      .vocabulary = vocabulary,
      .smoothing = line->attributes.smoothing,
  };
  int32_t shader = quads ? TSR_VK_SHADER_CROSS_ENTROPY_GRADIENT_QUADS : TSR_VK_SHADER_CROSS_ENTROPY_GRADIENT;
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, shader, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  for (int32_t slot = 0; slot < 4; ++slot) {
    tsr_vk_read(dispatch, line->in[slot]);
  }
  tsr_vk_write(dispatch, line->out[0]);
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_set_size(dispatch, size);
  dispatch->work = 10.0 * (double)elements;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(push.count, size));
}

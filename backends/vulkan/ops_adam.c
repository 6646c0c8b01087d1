/* SPDX-License-Identifier: Apache-2.0
 *
 * adam: shaders/adam.comp.
 */
#include "backends/vulkan/kernel_common.h"
#include "shaders/contract/adam.h"

#include <string.h>

int tsr_vk_plan_adam(tsr_vk_planner *planner)
{
  enum { PARAMETER, M, V, KEPT, STATES };
  const tsr_line_desc *line = planner->line;
  const tsr_op_attributes *attributes = &line->attributes;
  tsr_vk_view gradient = tsr_vk_view_in(planner, 0), control = tsr_vk_view_in(planner, 1);
  tsr_vk_view norm = tsr_vk_view_in(planner, 2);
  uint64_t elements = tsr_vk_elements(tsr_vk_out(planner, 0));
  tsr_vk_view views[1 + STATES] = {gradient};
  for (int32_t i = 0; i < STATES; ++i) {
    views[1 + i] = tsr_vk_view_of(tsr_vk_out(planner, line->out[i] != 0 ? i : PARAMETER));
  }
  tsr_vk_collapse(views, 1 + STATES);
  uint32_t repeat = 0;
  int quads = tsr_vk_quads(views, 1 + STATES, &repeat);
  tsr_vk_adam_push push = {
      .gradient_offset = views[0].offset,
      .parameter_offset = views[1 + PARAMETER].offset,
      .m_offset = views[1 + M].offset,
      .v_offset = views[1 + V].offset,
      .average_offset = views[1 + KEPT].offset,
      .control_offset = control.offset,
      .control_stride = control.stride[3],
      .norm_offset = norm.offset,
      .count = (uint32_t)(quads ? elements / 4 : elements),
      .beta1 = attributes->beta1,
      .beta2 = attributes->beta2,
      .epsilon = attributes->epsilon,
      .decay = attributes->decay,
      .max_norm = attributes->max_norm,
  };
  memcpy(push.extent, views[0].extent, sizeof push.extent);
  memcpy(push.gradient_stride, views[0].stride, sizeof push.gradient_stride);
  tsr_vk_dispatch *dispatch =
      tsr_vk_add(planner, quads ? TSR_VK_SHADER_ADAM_QUADS : TSR_VK_SHADER_ADAM, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[1]);
  tsr_vk_read_in(planner, dispatch, 2);
  for (int32_t i = 0; i < STATES; ++i) {
    tsr_vk_write(dispatch, line->out[line->out[i] != 0 ? i : PARAMETER]);
  }
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_adam_flags,
              (attributes->decoupled ? ADAM_DECOUPLED : 0u) | (line->in[2] != 0 ? ADAM_NORM : 0u) |
                  (line->out[KEPT] != 0 ? ADAM_AVERAGE : 0u));
  tsr_vk_spec(dispatch, TSR_VK_SPEC_adam_repeat, repeat & 1u);
  dispatch->work = 20.0 * (double)elements;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(push.count, size));
}

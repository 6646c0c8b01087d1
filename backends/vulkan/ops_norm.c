/* SPDX-License-Identifier: Apache-2.0
 *
 * layernorm and rmsnorm: shaders/norm.comp.
 */
#include "backends/vulkan/kernel_common.h"
#include "shaders/contract/norm.h"

#include <stddef.h>
#include <string.h>

TSR_VK_ASSERT_ROW_SHADERS(NORM);

uint32_t tsr_vk_norm_kind(const tsr_line_desc *line)
{
  int centred = line->op == TSR_OP_LAYERNORM || line->op == TSR_OP_LAYERNORM_GRADIENT;
  return !centred ? NORM_PLAIN : line->attributes.unbiased ? NORM_UNBIASED : NORM_CENTRED;
}

/* A dispatch for rows of n elements, or groups. */
static tsr_vk_dispatch *add(tsr_vk_planner *planner, const tsr_vk_norm_push *push, int quads, uint32_t n)
{
  const uint32_t push_bytes = offsetof(tsr_vk_norm_push, halves_at);
  if (!planner->leaves_halves) {
    return tsr_vk_add_rows(planner, TSR_VK_SHADER_NORM, push, push_bytes, quads, n);
  }
  int subgroup = 0;
  const uint32_t size = tsr_vk_reduce_size(planner->caps, n, &subgroup);
  const int32_t shader = subgroup ? TSR_VK_SHADER_NORM_HALVES_SUBGROUP : TSR_VK_SHADER_NORM_HALVES;
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, shader, push, sizeof *push);
  if (dispatch != NULL) {
    tsr_vk_set_size(dispatch, size);
  }
  return dispatch;
}

int tsr_vk_plan_norm(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  const uint32_t centred = tsr_vk_norm_kind(line);
  int32_t bias_slot = centred != NORM_PLAIN ? line->in[2] : 0;
  int32_t addend_tensor = planner->addend != 0 ? planner->addend : line->in[0];
  tsr_vk_view views[4] = {tsr_vk_view_in(planner, 0), tsr_vk_view_in(planner, 1),
                          tsr_vk_view_in(planner, bias_slot != 0 ? 2 : 1),
                          tsr_vk_view_of(tsr_vk_tensor(planner, addend_tensor))};
  uint64_t n = views[0].extent[3], rows = tsr_vk_elements(tsr_vk_out(planner, 0)) / n;
  int quads = tsr_vk_whole_quads(views, 4);
  const tsr_vk_view x = views[0], gain = views[1], bias = views[2], addend = views[3];
  tsr_vk_norm_push push = {
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
  const int halves = planner->leaves_halves != 0;
  if (halves) {
    planner->halves_at = tsr_vk_reserve(planner, rows * n / 2);
    planner->are_halves_seen = 1;
    push.halves_at = planner->halves_at / 2;
    push.kept = (uint32_t)planner->keeps_result;
  }
  tsr_vk_dispatch *dispatch = halves && !quads ? NULL : add(planner, &push, quads, x.extent[3]);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[1]);
  tsr_vk_read(dispatch, bias_slot != 0 ? bias_slot : line->in[1]);
  const int32_t unread = halves && !planner->keeps_result ? TSR_VK_SCRATCH : line->out[0];
  tsr_vk_write(dispatch, unread);
  tsr_vk_read(dispatch, addend_tensor);
  planner->is_added = planner->addend != 0;
  tsr_vk_write(dispatch, planner->sum != 0 ? planner->sum : unread);
  if (halves) {
    tsr_vk_write(dispatch, TSR_VK_SCRATCH);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_norm_to_type, (uint32_t)planner->leaves_halves);
  }
  tsr_vk_spec(dispatch, TSR_VK_SPEC_norm_centred, centred);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_norm_biased, bias_slot != 0);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_norm_added,
              planner->addend == 0 ? ADDEND_NONE
              : planner->sum == 0  ? ADDEND_ADDED
                                   : ADDEND_WRITTEN);
  dispatch->work = 10.0 * (double)rows * (double)n;
  return tsr_vk_finish(planner, dispatch, rows);
}

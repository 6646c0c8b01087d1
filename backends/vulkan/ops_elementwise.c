/* SPDX-License-Identifier: Apache-2.0
 *
 * add, mul, relu, gelu, silu, activation_gradient, mask_gradient (shaders/elementwise.comp) and rotate
 * (shaders/rotate.comp).
 */
#include "backends/vulkan/kernel_common.h"
#include "shaders/contract/elementwise.h"
#include "shaders/contract/rotate.h"

#include <string.h>

static uint32_t function_of(const tsr_vk_planner *planner)
{
  int integer = tsr_vk_in(planner, 0)->dtype == TSR_I32;
  switch (planner->line->op) {
  case TSR_OP_ADD:
    return integer ? FUNCTION_ADD_I32 : FUNCTION_ADD;
  case TSR_OP_MUL:
    return integer ? FUNCTION_MUL_I32 : FUNCTION_MUL;
  case TSR_OP_RELU:
    return FUNCTION_UNARY + ACTIVATION_RELU;
  case TSR_OP_SILU:
    return FUNCTION_UNARY + ACTIVATION_SILU;
  case TSR_OP_MASK_GRADIENT:
    return GRADIENT_OF_MASK;
  case TSR_OP_ACTIVATION_GRADIENT:
    return (uint32_t)planner->line->attributes.activation;
  default:
    return FUNCTION_UNARY + (uint32_t)planner->line->attributes.activation;
  }
}

int tsr_vk_plan_elementwise(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  uint32_t function = function_of(planner);
  int gradient = line->op == TSR_OP_MASK_GRADIENT || line->op == TSR_OP_ACTIVATION_GRADIENT;
  int32_t second = gradient || function < FUNCTION_UNARY ? 1 : 0;
  tsr_vk_view views[2] = {tsr_vk_view_in(planner, 0), tsr_vk_view_in(planner, second)};
  tsr_vk_collapse(views, 2);
  uint32_t repeat = 0;
  int quads = tsr_vk_quads(views, 2, &repeat);

  uint64_t count = tsr_vk_elements(tsr_vk_out(planner, 0)) / (quads ? 4 : 1);
  tsr_vk_elementwise_push push = {.a_offset = views[0].offset, .b_offset = views[1].offset, .count = (uint32_t)count};
  memcpy(push.extent, views[0].extent, sizeof push.extent);
  memcpy(push.a_stride, views[0].stride, sizeof push.a_stride);
  memcpy(push.b_stride, views[1].stride, sizeof push.b_stride);
  int32_t shader = gradient ? (quads ? TSR_VK_SHADER_ELEMENTWISE_GRADIENT_QUADS : TSR_VK_SHADER_ELEMENTWISE_GRADIENT)
                            : (quads ? TSR_VK_SHADER_ELEMENTWISE_QUADS : TSR_VK_SHADER_ELEMENTWISE);
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, shader, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[second]);
  tsr_vk_write(dispatch, line->out[0]);
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_elementwise_function, function);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_elementwise_repeat, repeat);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_elementwise_axes, tsr_vk_axes(&views[0]));
  dispatch->work = (double)count * (quads ? 4 : 1);
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(count, size));
}

int tsr_vk_plan_rotate(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  const tsr_vk_view x = tsr_vk_view_in(planner, 0), turns = tsr_vk_view_in(planner, 1);
  const uint64_t count = tsr_vk_elements(tsr_vk_out(planner, 0)) / 2;
  tsr_vk_rotate_push push = {.x_offset = x.offset, .turns_offset = turns.offset, .count = (uint32_t)count};
  memcpy(push.extent, x.extent, sizeof push.extent);
  memcpy(push.x_stride, x.stride, sizeof push.x_stride);
  memcpy(push.turns_stride, turns.stride, sizeof push.turns_stride);
  push.extent[3] /= 2;
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, TSR_VK_SHADER_ROTATE, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[1]);
  tsr_vk_write(dispatch, line->out[0]);
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_rotate_alpha_bits, tsr_vk_bits_of(line->attributes.alpha));
  dispatch->work = 6.0 * (double)count;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(count, size));
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * dropout: shaders/dropout.comp; the bits that attention takes: shaders/dropout_bits.comp.
 */
#include "backends/vulkan/kernel_common.h"
#include "shaders/contract/dropout.h"
#include "shaders/contract/dropout_bits.h"

#include <math.h>
#include <string.h>

static uint32_t threshold_of(float rate)
{
  double nearest = nearbyint(65536.0 * (double)rate);
  return nearest < 65535.0 ? (uint32_t)nearest : 65535;
}

float tsr_vk_dropout_scale(float rate)
{
  return (float)(65536.0 / (double)(65536 - threshold_of(rate)));
}

int tsr_vk_plan_dropout(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_view x = tsr_vk_view_in(planner, 0), seed = tsr_vk_view_in(planner, 1);
  uint64_t elements = tsr_vk_elements(tsr_vk_out(planner, 0));
  tsr_vk_collapse(&x, 1);
  uint32_t repeat = 0;
  int quads = tsr_vk_quads(&x, 1, &repeat);
  tsr_vk_dropout_push push = {
      .x_offset = x.offset,
      .seed_offset = seed.offset,
      .seed_stride = seed.stride[3],
      .stream = (uint32_t)line->attributes.stream,
      .threshold = threshold_of(line->attributes.rate),
      .scale = tsr_vk_dropout_scale(line->attributes.rate),
      .count = (uint32_t)(quads ? elements / 4 : elements),
  };
  memcpy(push.extent, x.extent, sizeof push.extent);
  memcpy(push.x_stride, x.stride, sizeof push.x_stride);
  tsr_vk_dispatch *dispatch =
      tsr_vk_add(planner, quads ? TSR_VK_SHADER_DROPOUT_QUADS : TSR_VK_SHADER_DROPOUT, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[1]);
  tsr_vk_write(dispatch, line->out[0]);
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_dropout_repeat, repeat);
  dispatch->work = 20.0 * (double)elements;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(tsr_vk_divide_up(elements, DROPOUT_GROUP), size));
}

int tsr_vk_plan_dropout_bits(tsr_vk_planner *planner, int32_t slot, uint64_t rows, uint32_t length, uint32_t *bits_at)
{
  const tsr_op_attributes *attributes = &planner->line->attributes;
  tsr_vk_view seed = tsr_vk_view_in(planner, slot);
  uint64_t row_words = tsr_vk_divide_up(length, 32), count = rows * row_words;
  *bits_at = tsr_vk_reserve(planner, count);
  if (count == 0) {
    return 1;
  }
  if (planner->plan->scratch_bytes / 4 > INT32_MAX) {
    return 0;
  }
  tsr_vk_dropout_bits_push push = {
      .seed_offset = seed.offset,
      .seed_stride = seed.stride[3],
      .stream = (uint32_t)attributes->stream,
      .threshold = threshold_of(attributes->rate),
      .length = length,
      .row_words = (uint32_t)row_words,
      .count = (uint32_t)count,
      .bits_at = *bits_at,
  };
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, TSR_VK_SHADER_DROPOUT_BITS, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, planner->line->in[slot]);
  tsr_vk_write(dispatch, TSR_VK_SCRATCH);
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_set_size(dispatch, size);
  dispatch->work = 500.0 * (double)count;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(count, size));
}

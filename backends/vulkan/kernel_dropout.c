/* SPDX-License-Identifier: Apache-2.0
 *
 * dropout: shaders/dropout.comp.
 */
#include "backends/vulkan/kernel_common.h"

#include <math.h>
#include <string.h>

typedef struct dropout_push {
  uint32_t extent[4];
  uint32_t x_stride[4];
  uint32_t x_offset;
  uint32_t seed_offset;
  uint32_t seed_stride;
  uint32_t stream;
  uint32_t threshold;
  float scale;
  uint32_t count;
} dropout_push;
_Static_assert(sizeof(dropout_push) == TSR_VK_PUSH_DROPOUT, "push constants of dropout.comp");
_Static_assert(sizeof(dropout_push) == TSR_VK_PUSH_DROPOUT_QUADS, "push constants of dropout.comp");

uint32_t tsr_vk_dropout_threshold(float rate)
{
  double nearest = nearbyint(65536.0 * (double)rate);
  return nearest < 65535.0 ? (uint32_t)nearest : 65535;
}

float tsr_vk_dropout_scale(float rate)
{
  return (float)(65536.0 / (double)(65536 - tsr_vk_dropout_threshold(rate)));
}

int tsr_vk_plan_dropout(tsr_vk_planner *planner)
{
  enum { ELEMENTS = 8 }; /* of one invocation */
  const tsr_line_desc *line = planner->line;
  tsr_vk_view x = tsr_vk_view_in(planner, 0), seed = tsr_vk_view_in(planner, 1);
  uint64_t elements = tsr_vk_elements(tsr_vk_out(planner, 0));
  tsr_vk_collapse(&x, 1);
  uint32_t repeat = 0;
  int quads = tsr_vk_quads(&x, 1, &repeat);
  dropout_push push = {
      .x_offset = x.offset,
      .seed_offset = seed.offset,
      .seed_stride = seed.stride[3],
      .stream = (uint32_t)line->attributes.stream,
      .threshold = tsr_vk_dropout_threshold(line->attributes.rate),
      .scale = tsr_vk_dropout_scale(line->attributes.rate),
      .count = (uint32_t)(quads ? elements / 4 : elements),
  };
  memcpy(push.extent, x.extent, sizeof push.extent);
  memcpy(push.x_stride, x.stride, sizeof push.x_stride);
  tsr_vk_dispatch *dispatch =
      tsr_vk_add(planner, quads ? TSR_VK_VARIANT_DROPOUT_QUADS : TSR_VK_VARIANT_DROPOUT, &push, sizeof push);
  if (dispatch == NULL)
    return 0;
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[1]);
  tsr_vk_write(dispatch, line->out[0]);
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_spec(dispatch, size);
  tsr_vk_spec(dispatch, 1);
  tsr_vk_spec(dispatch, repeat);
  dispatch->work = 20.0 * (double)elements;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(tsr_vk_divide_up(elements, ELEMENTS), size));
}

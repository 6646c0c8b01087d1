/* SPDX-License-Identifier: Apache-2.0
 *
 * scatter_add: shaders/scatter_add.comp.
 */
#include "backends/vulkan/kernel_common.h"

#include <string.h>

typedef struct scatter_add_push {
  uint32_t extent[4];
  uint32_t x_stride[4];
  uint32_t x_offset;
  uint32_t row_stride;
  uint32_t axis;
  uint32_t index_offset;
  uint32_t index_stride;
  uint32_t places;
  uint32_t rows;
  uint32_t first_at;
  uint32_t next_at;
  uint32_t count;
  float alpha;
} scatter_add_push;
_Static_assert(sizeof(scatter_add_push) == TSR_VK_PUSH_SCATTER_ADD, "push constants of scatter_add.comp");
_Static_assert(sizeof(scatter_add_push) == TSR_VK_PUSH_SCATTER_ADD_QUADS, "push constants of scatter_add.comp");

enum { STEP_CLEAR = 0, STEP_LINK = 1, STEP_SUM = 2 };

static int add_step(tsr_vk_planner *planner, const scatter_add_push *push, uint32_t step, int quads,
                    uint64_t invocations, double work)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_dispatch *dispatch =
      tsr_vk_add(planner, quads ? TSR_VK_VARIANT_SCATTER_ADD_QUADS : TSR_VK_VARIANT_SCATTER_ADD, push, sizeof *push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[1]);
  if (step == STEP_SUM) {
    tsr_vk_read(dispatch, TSR_VK_SCRATCH);
  } else {
    tsr_vk_write(dispatch, TSR_VK_SCRATCH);
  }
  tsr_vk_write(dispatch, line->out[0]);
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_spec(dispatch, size);
  tsr_vk_spec(dispatch, 1);
  tsr_vk_spec(dispatch, step);
  dispatch->after = step != STEP_CLEAR;
  dispatch->work = work;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(invocations, size));
}

int tsr_vk_plan_scatter_add(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  const tsr_tensor_desc *y = tsr_vk_out(planner, 0);
  int32_t axis = line->attributes.axis;
  axis = (axis < 0 ? axis + y->rank : axis) + 4 - y->rank;
  tsr_vk_view x = tsr_vk_view_in(planner, 0), index = tsr_vk_view_in(planner, 1);
  uint64_t places = x.extent[axis], elements = tsr_vk_elements(y);
  uint32_t rows = tsr_vk_view_of(y).extent[axis];
  memcpy(x.extent, tsr_vk_view_of(y).extent, sizeof x.extent);
  int quads = axis != 3 && tsr_vk_whole_quads(&x, 1);
  scatter_add_push push = {
      .x_offset = x.offset,
      .row_stride = x.stride[axis],
      .axis = (uint32_t)axis,
      .index_offset = index.offset,
      .index_stride = index.stride[3],
      .places = (uint32_t)places,
      .rows = rows,
      .first_at = tsr_vk_reserve(planner, rows),
      .next_at = tsr_vk_reserve(planner, places),
      .count = (uint32_t)(quads ? elements / 4 : elements),
      .alpha = line->attributes.alpha,
  };
  memcpy(push.extent, x.extent, sizeof push.extent);
  memcpy(push.x_stride, x.stride, sizeof push.x_stride);
  push.x_stride[axis] = 0;
  double terms = (double)tsr_vk_elements(tsr_vk_in(planner, 0));
  return add_step(planner, &push, STEP_CLEAR, 0, rows, rows) &&
         (places == 0 || add_step(planner, &push, STEP_LINK, 0, places, (double)places * (double)places)) &&
         add_step(planner, &push, STEP_SUM, quads, push.count, (double)elements + terms);
}

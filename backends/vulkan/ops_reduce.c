/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_sum (shaders/reduce.comp) and sum_of_squares (shaders/sum_of_squares.comp).
 */
#include "backends/vulkan/kernel_common.h"
#include "shaders/contract/reduce.h"
#include "shaders/contract/sum_of_squares.h"

#include <string.h>

TSR_VK_ASSERT_ROW_SHADERS(REDUCE);

TSR_VK_ASSERT_ROW_SHADERS(SUM_OF_SQUARES);

/* What is summed: groups of four along the last axis of `along` where strides and offsets allow it. */
static int in_groups(tsr_vk_view *along, tsr_vk_view *other)
{
  uint32_t low = along->extent[3] | other->offset;
  for (int32_t axis = 0; axis < 4; ++axis) {
    low |= other->stride[axis] | (axis < 3 ? along->stride[axis] : 0);
  }
  if (along->stride[3] != 1 || low % 4 != 0 || along->offset % 4 != 0) {
    return 0;
  }
  along->extent[3] /= 4;
  along->offset /= 4;
  other->offset /= 4;
  for (int32_t axis = 0; axis < 4; ++axis) {
    other->stride[axis] /= 4;
    along->stride[axis] /= axis < 3 ? 4 : 1;
  }
  return 1;
}

int tsr_vk_add_sums(tsr_vk_planner *planner, int32_t x, tsr_vk_view kept, tsr_vk_view summed, int32_t y)
{
  enum { SIZE = 64, ENOUGH_GROUPS = 128, MIN_SERIAL_PART = 32, MIN_PART = 1024 };
  uint64_t results = tsr_vk_view_elements(&kept), all_terms = tsr_vk_view_elements(&summed);
  /* Neighbouring invocations want neighbouring elements: those of a sum, or those of neighbouring sums. */
  int serial = all_terms <= 4 || (summed.stride[3] != 1 && kept.stride[3] == 1 && results >= 16);
  int quads = serial ? in_groups(&kept, &summed) : in_groups(&summed, &kept);
  uint64_t count = tsr_vk_view_elements(&kept), terms = tsr_vk_view_elements(&summed);
  int subgroup = 0;
  uint32_t size = tsr_vk_reduce_size(planner->caps, terms, &subgroup);
  if (serial) {
    size = tsr_vk_group_size(planner->caps, SIZE);
  }
  subgroup &= !serial;

  uint64_t groups = serial ? tsr_vk_divide_up(count, size) : count;
  uint64_t parts = terms / (serial ? MIN_SERIAL_PART : MIN_PART), wanted = tsr_vk_divide_up(ENOUGH_GROUPS, groups);
  parts = x == TSR_VK_SCRATCH || parts == 0 ? 1 : parts < wanted ? parts : wanted;
  uint64_t part = tsr_vk_divide_up(terms, parts);
  part = part == 0 ? 1 : part;
  parts = terms == 0 ? 1 : tsr_vk_divide_up(terms, part);
  uint32_t scratch_at = parts > 1 ? tsr_vk_reserve(planner, parts * results) : 0;
  tsr_vk_reduce_push push = {
      .x_offset = kept.offset,
      .count = (uint32_t)count,
      .terms = (uint32_t)terms,
      .part = (uint32_t)part,
      .y_at = serial && quads ? scratch_at / 4 : scratch_at,
  };
  memcpy(push.kept_extent, kept.extent, sizeof push.kept_extent);
  memcpy(push.kept_stride, kept.stride, sizeof push.kept_stride);
  memcpy(push.summed_extent, summed.extent, sizeof push.summed_extent);
  memcpy(push.summed_stride, summed.stride, sizeof push.summed_stride);
  int32_t shader = TSR_VK_SHADER_REDUCE + (quads ? TSR_VK_QUADS : 0) + (subgroup ? TSR_VK_SUBGROUP : 0);
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, shader, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, x);
  tsr_vk_write(dispatch, parts > 1 ? TSR_VK_SCRATCH : y);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_reduce_serial, (uint32_t)serial);
  dispatch->after = x == TSR_VK_SCRATCH;
  dispatch->work = (double)results * (double)all_terms;
  return tsr_vk_finish(planner, dispatch, serial ? tsr_vk_divide_up(count * parts, size) : count * parts) &&
         (parts == 1 || tsr_vk_add_sums_of_parts(planner, scratch_at, (uint32_t)parts, (uint32_t)results, y));
}

int tsr_vk_add_sums_of_parts(tsr_vk_planner *planner, uint32_t at, uint32_t parts, uint32_t count, int32_t y)
{
  tsr_vk_view kept = {.offset = at, .extent = {1, 1, 1, count}, .stride = {0, 0, 0, 1}};
  tsr_vk_view summed = {.extent = {1, 1, 1, parts}, .stride = {0, 0, 0, count}};
  return tsr_vk_add_sums(planner, TSR_VK_SCRATCH, kept, summed, y);
}

int tsr_vk_plan_reduce_sum(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  const tsr_tensor_desc *x = tsr_vk_in(planner, 0);
  tsr_vk_view kept = tsr_vk_view_of(x), summed = kept;
  for (int32_t axis = 0; axis < 4; ++axis) {
    int is_summed = axis >= 4 - x->rank && (line->attributes.axes >> (axis - 4 + x->rank) & 1) != 0;
    tsr_vk_view *without = is_summed ? &kept : &summed;
    without->extent[axis] = 1;
    without->stride[axis] = 0;
  }
  tsr_vk_collapse(&kept, 1);
  tsr_vk_collapse(&summed, 1);
  return tsr_vk_add_sums(planner, line->in[0], kept, summed, line->out[0]);
}

/* One stage: sums of shares of x, a tensor or TSR_VK_SCRATCH. plus is added where it is not 0. */
static int add_squares(tsr_vk_planner *planner, const tsr_vk_sum_of_squares_push *push, int32_t x, int quads,
                       int32_t plus, int32_t y)
{
  tsr_vk_dispatch *dispatch =
      tsr_vk_add_rows(planner, TSR_VK_SHADER_SUM_OF_SQUARES, push, sizeof *push, quads, push->share);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_spec(dispatch, TSR_VK_SPEC_sum_of_squares_squared, x != TSR_VK_SCRATCH);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_sum_of_squares_added, plus != 0);
  tsr_vk_read(dispatch, x);
  tsr_vk_read(dispatch, plus != 0 ? plus : x);
  tsr_vk_write(dispatch, y);
  dispatch->after = x == TSR_VK_SCRATCH;
  dispatch->work = (double)push->count * (quads ? 4 : 1);
  uint64_t groups = push->count == 0 ? 1 : tsr_vk_divide_up(push->count, push->share);
  return tsr_vk_finish(planner, dispatch, groups);
}

int tsr_vk_plan_sum_of_squares(tsr_vk_planner *planner)
{
  enum { MIN_SHARE = 4096, MAX_SHARES = 1024 };
  const tsr_line_desc *line = planner->line;
  tsr_vk_view x = tsr_vk_view_in(planner, 0), plus = tsr_vk_view_in(planner, 1);
  tsr_vk_collapse(&x, 1);
  int quads = tsr_vk_whole_quads(&x, 1);
  tsr_vk_sum_of_squares_push push = {
      .x_offset = x.offset, .plus_offset = plus.offset, .count = (uint32_t)tsr_vk_view_elements(&x)};
  memcpy(push.extent, x.extent, sizeof push.extent);
  memcpy(push.x_stride, x.stride, sizeof push.x_stride);
  uint64_t share = tsr_vk_divide_up(push.count, MAX_SHARES);
  push.share = share < MIN_SHARE ? MIN_SHARE : (uint32_t)share;
  if (push.count <= push.share) {
    return add_squares(planner, &push, line->in[0], quads, line->in[1], line->out[0]);
  }

  uint32_t shares = (uint32_t)tsr_vk_divide_up(push.count, push.share);
  push.y_at = tsr_vk_reserve(planner, shares);
  if (!add_squares(planner, &push, line->in[0], quads, 0, TSR_VK_SCRATCH)) {
    return 0;
  }
  push = (tsr_vk_sum_of_squares_push){
      .extent = {1, 1, 1, shares},
      .x_stride = {0, 0, 0, 1},
      .x_offset = push.y_at,
      .plus_offset = plus.offset,
      .count = shares,
      .share = shares,
  };
  return add_squares(planner, &push, TSR_VK_SCRATCH, 0, line->in[1], line->out[0]);
}

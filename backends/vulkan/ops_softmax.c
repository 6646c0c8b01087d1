/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax and log_softmax (shaders/softmax.comp), layernorm and rmsnorm (shaders/norm.comp), reduce_sum
 * (shaders/reduce.comp).
 */
#include "backends/vulkan/kernel_common.h"

#include <string.h>

typedef struct softmax_push {
  uint32_t extent[4];
  uint32_t x_stride[4];
  uint32_t mask_stride[4];
  uint32_t x_offset;
  uint32_t mask_offset;
  uint32_t rows;
} softmax_push;
_Static_assert(sizeof(softmax_push) == TSR_VK_PUSH_SOFTMAX, "push constants of softmax.comp");

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

typedef struct reduce_push {
  uint32_t kept_extent[4];
  uint32_t kept_stride[4];
  uint32_t summed_extent[4];
  uint32_t summed_stride[4];
  uint32_t x_offset;
  uint32_t count;
  uint32_t terms;
  uint32_t part;
  uint32_t y_at;
} reduce_push;
_Static_assert(sizeof(reduce_push) == TSR_VK_PUSH_REDUCE, "push constants of reduce.comp");

TSR_VK_ASSERT_ROW_VARIANTS(SOFTMAX);
TSR_VK_ASSERT_ROW_VARIANTS(NORM);
TSR_VK_ASSERT_ROW_VARIANTS(REDUCE);

uint32_t tsr_vk_reduce_size(const tsr_vk_caps *caps, uint64_t n, int *subgroup)
{
  /* A CPU's driver may give up on a shader after 65535 rounds of its loops in all (Mesa's llvmpipe does, and tells
   * nobody): rows that take a good part of them, a few times over, get more invocations. On a GPU long rows want more
   * loads in flight than a subgroup has. */
  const uint64_t most_rounds = caps->compute_like_cpu ? 8192 : 16;
  const uint32_t lanes = caps->subgroup_size;
  const int is_known = caps->compute_like_cpu || (caps->subgroup_sizes[0] > 0 && lanes >= caps->subgroup_sizes[0] &&
                                                  lanes <= caps->subgroup_sizes[1]);
  *subgroup = is_known && caps->subgroup_arithmetic && lanes <= caps->max_size[0] && n <= most_rounds * lanes;
  if (*subgroup) {
    return lanes;
  }
  uint32_t size = 32;
  while (size < n && size < 256) {
    size *= 2;
  }
  return tsr_vk_group_size(caps, size);
}

tsr_vk_dispatch *tsr_vk_add_rows(tsr_vk_planner *planner, int32_t variant, const void *push, uint32_t push_bytes,
                                 int quads, uint64_t n, uint32_t first, uint32_t second)
{
  int subgroup = 0;
  uint32_t size = tsr_vk_reduce_size(planner->caps, n, &subgroup);
  tsr_vk_dispatch *dispatch =
      tsr_vk_add(planner, variant + (quads ? TSR_VK_QUADS : 0) + (subgroup ? TSR_VK_SUBGROUP : 0), push, push_bytes);
  if (dispatch == NULL) {
    return NULL;
  }
  tsr_vk_spec(dispatch, size);
  tsr_vk_spec(dispatch, 1);
  tsr_vk_spec(dispatch, first);
  tsr_vk_spec(dispatch, second);
  return dispatch;
}

int tsr_vk_plan_softmax(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  int32_t mask_slot = line->op == TSR_OP_SOFTMAX ? line->in[1] : 0;
  tsr_vk_view views[2] = {tsr_vk_view_in(planner, 0),
                          mask_slot != 0 ? tsr_vk_view_in(planner, 1) : tsr_vk_view_in(planner, 0)};
  uint64_t n = views[0].extent[3], rows = tsr_vk_elements(tsr_vk_out(planner, 0)) / n;
  int quads = tsr_vk_whole_quads(views, 2);
  softmax_push push = {.x_offset = views[0].offset, .mask_offset = views[1].offset, .rows = (uint32_t)rows};
  memcpy(push.extent, views[0].extent, sizeof push.extent);
  memcpy(push.x_stride, views[0].stride, sizeof push.x_stride);
  memcpy(push.mask_stride, views[1].stride, sizeof push.mask_stride);
  tsr_vk_dispatch *dispatch = tsr_vk_add_rows(planner, TSR_VK_VARIANT_SOFTMAX, &push, sizeof push, quads,
                                              views[0].extent[3], line->op == TSR_OP_LOG_SOFTMAX, mask_slot != 0);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, mask_slot != 0 ? mask_slot : line->in[0]);
  tsr_vk_write(dispatch, line->out[0]);
  dispatch->work = 30.0 * (double)rows * (double)n;
  return tsr_vk_finish(planner, dispatch, rows);
}

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
  reduce_push push = {
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
  int32_t variant = TSR_VK_VARIANT_REDUCE + (quads ? TSR_VK_QUADS : 0) + (subgroup ? TSR_VK_SUBGROUP : 0);
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, variant, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, x);
  tsr_vk_write(dispatch, parts > 1 ? TSR_VK_SCRATCH : y);
  tsr_vk_spec(dispatch, size);
  tsr_vk_spec(dispatch, 1);
  tsr_vk_spec(dispatch, (uint32_t)serial);
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * mask (shaders/mask.comp), the masking that it shares with attention, mask_gradient (shaders/elementwise.comp), and
 * relative_gradient (shaders/relative_gradient.comp).
 */
#include "backends/vulkan/kernel_common.h"
#include "shaders/contract/mask.h"
#include "shaders/contract/relative.h"
#include "shaders/contract/relative_gradient.h"

#include <math.h>
#include <string.h>

enum { MAX_REACH = 1 << 20 };

/* The bucket of distance r >= exact, counted from `exact`, before it is cut at the last one: each step in f32. */
static int64_t bucket_beyond(int64_t r, int64_t exact, int64_t n, int32_t max_distance)
{
  float ratio = (float)r / (float)exact, whole = (float)log((double)max_distance / (double)exact);
  float share = (float)log((double)ratio) / whole;
  return (int64_t)(share * (float)(n - exact));
}

/* The smallest distance whose bucket is at least `bucket`. */
static int64_t bucket_begin(int64_t bucket, int64_t exact, int64_t n, int32_t max_distance)
{
  int64_t low = exact, high = max_distance;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    if (bucket_beyond(middle, exact, n, max_distance) >= bucket) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/* Spreads the table over all distances; several dispatches where the buckets do not fit into one. */
static int plan_relative(tsr_vk_planner *planner, int32_t slot, uint32_t heads, tsr_vk_masking *masking)
{
  const tsr_op_attributes *attributes = &planner->line->attributes;
  if (attributes->max_distance > MAX_REACH) {
    return 0;
  }
  tsr_vk_view table = tsr_vk_view_in(planner, slot);
  int64_t n = table.extent[2], upper = 0;
  if (attributes->bidirectional) {
    upper = n /= 2;
  }
  int64_t exact = n / 2;
  if (attributes->clamped) {
    exact = n; /* no bucket begins beyond: one dispatch */
  }
  masking->reach = (uint32_t)attributes->max_distance;
  uint64_t count = (uint64_t)heads * (2 * masking->reach + 1);
  if (count > INT32_MAX) {
    return 0;
  }
  masking->bias_offset = tsr_vk_reserve(planner, count);

  tsr_vk_relative_push push = {
      .table_offset = table.offset,
      .bucket_stride = table.stride[2],
      .head_stride = table.stride[3],
      .bias_offset = masking->bias_offset,
      .count = (uint32_t)count,
      .reach = masking->reach,
      .exact = (uint32_t)exact,
      .upper = (uint32_t)upper,
      .first_bucket = (uint32_t)exact,
  };
  int64_t bucket = 1; /* the next one whose beginning is to be found, counted from `exact` */
  int last = 0;
  while (!last) {
    push.n = 0;
    while (push.n < RELATIVE_MAX_BEGIN && bucket < n - exact) {
      push.begin[push.n++] = (uint32_t)bucket_begin(bucket++, exact, n, attributes->max_distance);
    }
    last = bucket >= n - exact;
    push.to = last ? UINT32_MAX : (uint32_t)bucket_begin(bucket, exact, n, attributes->max_distance);
    tsr_vk_dispatch *dispatch = tsr_vk_add(planner, TSR_VK_SHADER_RELATIVE, &push, sizeof push);
    if (dispatch == NULL) {
      return 0;
    }
    tsr_vk_read(dispatch, planner->line->in[slot]);
    tsr_vk_write(dispatch, TSR_VK_SCRATCH);
    uint32_t size = tsr_vk_group_size(planner->caps, 64);
    tsr_vk_set_size(dispatch, size);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_relative_clamped, attributes->clamped != 0);
    dispatch->work = (double)count;
    if (!tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(count, size))) {
      return 0;
    }
    push.first_bucket = (uint32_t)(exact + bucket - 1);
    push.from = push.to;
  }
  return 1;
}

int tsr_vk_plan_masking(tsr_vk_planner *planner, int32_t slot, uint32_t heads, tsr_vk_masking *masking)
{
  const int32_t *in = &planner->line->in[slot];
  tsr_vk_view lengths = tsr_vk_view_in(planner, slot + 1), position = tsr_vk_view_in(planner, slot + 2);
  *masking = (tsr_vk_masking){
      .lengths_offset = lengths.offset,
      .lengths_stride = lengths.stride[3],
      .position_offset = position.offset,
      .position_stride = position.stride[3],
  };
  masking->present = (planner->line->attributes.causal ? MASK_CAUSAL : 0) | (in[0] != 0 ? MASK_ADDITIVE : 0) |
                     (in[1] != 0 ? MASK_LENGTHS : 0) | (in[2] != 0 ? MASK_POSITION : 0) |
                     (in[3] != 0 ? MASK_RELATIVE : 0);
  return in[3] == 0 || plan_relative(planner, slot + 3, heads, masking);
}

void tsr_vk_read_masking(const tsr_vk_planner *planner, tsr_vk_dispatch *dispatch, int32_t slot,
                         const tsr_vk_masking *masking, int scratch)
{
  tsr_vk_read_in(planner, dispatch, slot + 1);
  tsr_vk_read_in(planner, dispatch, slot + 2);
  scratch |= (masking->present & MASK_RELATIVE) != 0;
  tsr_vk_read(dispatch, scratch ? TSR_VK_SCRATCH : dispatch->operand[0].tensor);
  dispatch->after |= scratch;
}

int tsr_vk_plan_mask(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_view x = tsr_vk_view_in(planner, 0), additive = tsr_vk_view_in(planner, 1);
  tsr_vk_masking masking;
  if (!tsr_vk_plan_masking(planner, 1, x.extent[1], &masking)) {
    return 0;
  }
  uint64_t count = tsr_vk_elements(tsr_vk_out(planner, 0));
  tsr_vk_mask_push push = {
      .x_offset = x.offset,
      .additive_offset = additive.offset,
      .lengths_offset = masking.lengths_offset,
      .lengths_stride = masking.lengths_stride,
      .position_offset = masking.position_offset,
      .position_stride = masking.position_stride,
      .bias_offset = masking.bias_offset,
      .reach = masking.reach,
      .count = (uint32_t)count,
  };
  memcpy(push.extent, x.extent, sizeof push.extent);
  memcpy(push.x_stride, x.stride, sizeof push.x_stride);
  memcpy(push.additive_stride, additive.stride, sizeof push.additive_stride);
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, TSR_VK_SHADER_MASK, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read_in(planner, dispatch, 1);
  tsr_vk_read_masking(planner, dispatch, 1, &masking, 0);
  tsr_vk_write(dispatch, line->out[0]);
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_mask_masking, masking.present);
  dispatch->work = (double)count;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(count, size));
}

int tsr_vk_plan_mask_gradient(tsr_vk_planner *planner)
{
  return tsr_vk_plan_elementwise(planner); /* one more function of two elements */
}

int tsr_vk_plan_relative_gradient(tsr_vk_planner *planner)
{
  enum { BLOCK_ROWS = 256 };
  const tsr_line_desc *line = planner->line;
  const tsr_op_attributes *attributes = &line->attributes;
  tsr_vk_view x = tsr_vk_view_in(planner, 0), position = tsr_vk_view_in(planner, 1);
  int64_t n = attributes->buckets, upper = 0;
  if (attributes->bidirectional) {
    upper = n /= 2;
  }
  int64_t exact = n / 2;
  if (attributes->clamped) { /* on each side a bucket for each distance, the last one open */
    exact = upper = attributes->max_distance;
    n = upper + 1;
  }
  uint32_t heads = x.extent[1], directions = upper != 0 ? 2 : 1;
  tsr_vk_relative_gradient_push push = {
      .x_offset = x.offset,
      .queries = x.extent[2],
      .keys = x.extent[3],
      .heads = heads,
      .position_offset = position.offset,
      .position_stride = position.stride[3],
      .rows = x.extent[0] * x.extent[2],
      .block = BLOCK_ROWS,
      .buckets = (uint32_t)attributes->buckets,
      .exact = (uint32_t)exact,
      .upper = (uint32_t)upper,
  };
  memcpy(push.x_stride, x.stride, sizeof push.x_stride);
  uint32_t parts = push.rows == 0 ? 1 : (uint32_t)tsr_vk_divide_up(push.rows, push.block);
  uint32_t count = push.buckets * heads;
  if (parts > 1) {
    push.y_at = tsr_vk_reserve(planner, (uint64_t)parts * count);
  }

  /* On one side; with an odd row behind the upper half of the buckets, or distance 0 counted on both sides. */
  int64_t last = upper != 0 ? attributes->buckets - upper : n;
  for (int64_t first = 0, end = 0; first < last; first = end) {
    int64_t from = first > exact ? first : exact;
    end = from + RELATIVE_GRADIENT_MAX_BEGIN - 1;
    end = end < last ? end : last;
    push.first = (uint32_t)first;
    push.n = (uint32_t)(end - first);
    for (int64_t i = 0; i < RELATIVE_GRADIENT_MAX_BEGIN; ++i) {
      int64_t bucket = from + i;
      push.begin[i] = bucket == exact ? (uint32_t)exact
                      : bucket < n    ? (uint32_t)bucket_begin(bucket - exact, exact, n, attributes->max_distance)
                                      : INT32_MAX;
    }
    int subgroup = 0;
    uint32_t size = tsr_vk_reduce_size(planner->caps, push.rows * (uint64_t)push.keys, &subgroup);
    tsr_vk_dispatch *dispatch =
        tsr_vk_add(planner, subgroup ? TSR_VK_SHADER_RELATIVE_GRADIENT_SUBGROUP : TSR_VK_SHADER_RELATIVE_GRADIENT,
                   &push, sizeof push);
    if (dispatch == NULL) {
      return 0;
    }
    tsr_vk_read(dispatch, line->in[0]);
    tsr_vk_read_in(planner, dispatch, 1);
    tsr_vk_write(dispatch, parts > 1 ? TSR_VK_SCRATCH : line->out[0]);
    tsr_vk_set_size(dispatch, size);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_relative_gradient_positioned, line->in[1] != 0);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_relative_gradient_clamped, attributes->clamped != 0);
    dispatch->work = 10.0 * (double)tsr_vk_view_elements(&x) / (double)last * push.n;
    if (!tsr_vk_finish(planner, dispatch, (uint64_t)parts * directions * push.n * heads)) {
      return 0;
    }
  }
  return parts == 1 || tsr_vk_add_sums_of_parts(planner, push.y_at, parts, count, line->out[0]);
}

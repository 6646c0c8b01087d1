/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of attention: shaders/attention_delta.comp, attention_gradient.comp.
 */
#include "backends/vulkan/attention.h"
#include "shaders/contract/attention_delta.h"
#include "shaders/contract/attention_gradient.h"

#include <string.h>

TSR_VK_ASSERT_ROW_SHADERS(ATTENTION_GRADIENT);

enum { GRADIENT_TILE_ROWS = 4 }; /* more spill where registers are few, and leave room for few workgroups elsewhere */

/* What each query has: its lse and its delta, two words in scratch. */
static int plan_delta(tsr_vk_planner *planner, uint32_t stats_at)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_view y = tsr_vk_view_in(planner, TSR_VK_SLOT_Y), dy = tsr_vk_view_in(planner, TSR_VK_SLOT_DY);
  tsr_vk_view lse = tsr_vk_view_in(planner, TSR_VK_SLOT_LSE);
  tsr_vk_attention_delta_push push = {
      .queries = y.extent[1],
      .heads = y.extent[2],
      .width = y.extent[3],
      .count = y.extent[0] * y.extent[1] * y.extent[2],
      .y_offset = y.offset,
      .y_stride = {y.stride[0], y.stride[2], y.stride[1], y.stride[3]},
      .dy_offset = dy.offset,
      .dy_stride = {dy.stride[0], dy.stride[2], dy.stride[1], dy.stride[3]},
      .lse_offset = lse.offset,
      .lse_stride = {lse.stride[1], lse.stride[2], lse.stride[3]},
      .stats_at = stats_at,
  };
  if (push.count == 0) {
    return 1;
  }
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, TSR_VK_SHADER_ATTENTION_DELTA, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  for (int32_t slot = TSR_VK_SLOT_Y; slot <= TSR_VK_SLOT_LSE; ++slot) {
    tsr_vk_read(dispatch, line->in[slot]);
  }
  tsr_vk_write(dispatch, TSR_VK_SCRATCH);
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_set_size(dispatch, size);
  dispatch->work = 2.0 * push.count * (double)push.width;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(push.count, size));
}

/* dq and dscores; by_keys: dk and dv. push: all but the sides. views: of q, k, v and dy. */
static int plan_side(tsr_vk_planner *planner, tsr_vk_attention_gradient_push push, const tsr_vk_view *views, int quads,
                     int by_keys, const tsr_vk_masking *masking)
{
  enum { Q, K, V, DY };
  static const int32_t slots[] = {0, 1, 2, TSR_VK_SLOT_DY};
  static const int32_t sides[2][4] = {{Q, DY, K, V}, {K, V, Q, DY}}; /* its own, the others */
  const tsr_line_desc *line = planner->line;
  const int32_t *side = sides[by_keys];
  int32_t result = line->out[by_keys ? 1 : 0], second = line->out[by_keys ? 2 : 3];
  const tsr_vk_view *own = &views[side[0]];
  uint32_t depth = views[Q].extent[3], width = views[V].extent[3];
  tsr_vk_tile t = tsr_vk_tile_of(planner->caps, own->extent[1], by_keys && width > depth ? width : depth);
  t.rows = t.rows < GRADIENT_TILE_ROWS ? t.rows : GRADIENT_TILE_ROWS;
  if (own->extent[1] == 0) {
    return 1;
  }
  const tsr_vk_view *own2 = &views[side[1]], *other = &views[side[2]], *other2 = &views[side[3]];
  push.own_offset = own->offset;
  push.own2_offset = own2->offset;
  push.other_offset = other->offset;
  push.other2_offset = other2->offset;
  memcpy(push.own_stride, own->stride, sizeof push.own_stride);
  memcpy(push.own2_stride, own2->stride, sizeof push.own2_stride);
  memcpy(push.other_stride, other->stride, sizeof push.other_stride);
  memcpy(push.other2_stride, other2->stride, sizeof push.other2_stride);
  tsr_vk_dispatch *dispatch =
      tsr_vk_add(planner, tsr_vk_attention_shader(TSR_VK_SHADER_ATTENTION_GRADIENT, &t, quads), &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  for (int32_t i = 0; i < 4; ++i) {
    tsr_vk_read(dispatch, line->in[slots[side[i]]]);
  }
  tsr_vk_read_in(planner, dispatch, TSR_VK_SLOT_ADDITIVE);
  tsr_vk_read_masking(planner, dispatch, TSR_VK_SLOT_ADDITIVE, masking, 1);
  tsr_vk_write(dispatch, result);
  tsr_vk_write(dispatch, second != 0 ? second : result);
  int drops = line->in[TSR_VK_SLOT_SEED] != 0, dscores = !by_keys && second != 0;
  tsr_vk_set_size(dispatch, t.size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_options,
              masking->present | (drops ? ATTENTION_DROPOUT : 0) | (by_keys ? GRADIENT_BY_KEYS : 0) |
                  (dscores ? GRADIENT_DSCORES : 0));
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_depth, depth);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_width, width);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_tile_rows, t.rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_parts, t.parts);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_alpha_bits, tsr_vk_bits_of(line->attributes.alpha));
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_heads, views[Q].extent[2]);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_scale_bits,
              tsr_vk_bits_of(drops ? tsr_vk_dropout_scale(line->attributes.rate) : 1.0f));
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_own_step, own->stride[3]);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_own2_step, own2->stride[3]);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_other_step, other->stride[3]);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_other2_step, other2->stride[3]);
  uint64_t heads = (uint64_t)push.batch * views[Q].extent[2];
  uint32_t terms = by_keys ? 2 * (depth + width) : 2 * depth + width;
  dispatch->work = 2.0 * (double)(heads * push.queries) * push.keys * terms * (quads ? 4 : 1);
  return tsr_vk_finish(planner, dispatch, heads * t.blocks * tsr_vk_divide_up(own->extent[1], t.rows));
}

int tsr_vk_plan_attention_gradient(tsr_vk_planner *planner)
{
  tsr_vk_view views[4] = {tsr_vk_view_in(planner, 0), tsr_vk_view_in(planner, 1), tsr_vk_view_in(planner, 2),
                          tsr_vk_view_in(planner, TSR_VK_SLOT_DY)};
  tsr_vk_view additive = tsr_vk_view_in(planner, TSR_VK_SLOT_ADDITIVE);
  int quads = tsr_vk_attention_quads(views, 4);
  const tsr_vk_view *q = &views[0];
  uint32_t keys = views[1].extent[1], bits_at = 0;
  uint64_t heads = (uint64_t)q->extent[0] * q->extent[2];
  tsr_vk_masking masking;
  if (heads == 0) {
    return 1;
  }
  if (!tsr_vk_plan_weights(planner, q, keys, &masking, &bits_at)) {
    return 0;
  }
  uint32_t stats_at = tsr_vk_reserve(planner, 2 * heads * q->extent[1]) / 2;
  if (planner->plan->scratch_bytes / 4 > INT32_MAX || !plan_delta(planner, stats_at)) {
    return 0;
  }
  tsr_vk_attention_gradient_push push = {
      .queries = q->extent[1],
      .keys = keys,
      .batch = q->extent[0],
      .additive_offset = additive.offset,
      .lengths_offset = masking.lengths_offset,
      .lengths_stride = masking.lengths_stride,
      .position_offset = masking.position_offset,
      .position_stride = masking.position_stride,
      .reach = masking.reach,
      .stats_at = stats_at,
      .bits_at = bits_at,
  };
  memcpy(push.additive_stride, additive.stride, sizeof push.additive_stride);
  return plan_side(planner, push, views, quads, 0, &masking) && plan_side(planner, push, views, quads, 1, &masking);
}

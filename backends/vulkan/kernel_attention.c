/* SPDX-License-Identifier: Apache-2.0
 *
 * attention: shaders/attention.comp.
 */
#include "backends/vulkan/kernel_common.h"

#include <string.h>

typedef struct attention_push {
  uint32_t queries;
  uint32_t keys;
  uint32_t heads;
  uint32_t q_offset;
  uint32_t q_stride[4];
  uint32_t k_offset;
  uint32_t k_stride[4];
  uint32_t v_offset;
  uint32_t v_stride[4];
  uint32_t additive_offset;
  uint32_t additive_stride[4];
  uint32_t index_offset;
  uint32_t index_stride[2];
  uint32_t k_rows;
  uint32_t lengths_offset;
  uint32_t lengths_stride;
  uint32_t position_offset;
  uint32_t position_stride;
  uint32_t reach;
} attention_push;
_Static_assert(sizeof(attention_push) == TSR_VK_PUSH_ATTENTION, "push constants of attention.comp");
_Static_assert(sizeof(attention_push) <= TSR_VK_MAX_PUSH, "push constants of attention.comp");

enum { SLOT_ADDITIVE = 3, SLOT_ROWS = 7 };
enum { INDEXED = 32, WEIGHTS = 64 }; /* beside the masking's bits */
enum { MAX_TILE_ROWS = 8, MAX_PARTS = 4, MAX_SIZE = 64 };

int tsr_vk_plan_attention(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  const tsr_vk_caps *caps = planner->caps;
  tsr_vk_view q = tsr_vk_view_in(planner, 0), k = tsr_vk_view_in(planner, 1), v = tsr_vk_view_in(planner, 2);
  tsr_vk_view additive = tsr_vk_view_in(planner, SLOT_ADDITIVE), index = tsr_vk_view_in(planner, SLOT_ROWS);
  uint32_t depth = q.extent[3], width = v.extent[3];
  tsr_vk_masking masking;
  if (!tsr_vk_plan_masking(planner, SLOT_ADDITIVE, q.extent[2], &masking) || masking.bias_offset != 0)
    return 0;

  tsr_vk_view quads[3] = {q, k, v};
  int use_quads = depth % 4 == 0 && width % 4 == 0 && depth > 0 && width > 0;
  for (int i = 0; i < 3; ++i)
    use_quads = use_quads && tsr_vk_in_quads(&quads[i], 3);
  if (use_quads) {
    q = quads[0];
    k = quads[1];
    v = quads[2];
    depth /= 4;
    width /= 4;
  }

  int subgroup = 0;
  uint32_t size = tsr_vk_reduce_size(caps, MAX_SIZE, &subgroup);
  if (subgroup && (!caps->subgroup_shuffle || (size & (size - 1)) != 0)) {
    subgroup = 0;
    size = tsr_vk_group_size(caps, 32);
  }
  uint32_t tile_rows = 1, parts = (uint32_t)tsr_vk_divide_up(width, size);
  uint32_t most_rows = caps->compute_like_cpu ? 4 : MAX_TILE_ROWS; /* fewer where compiling is part of every start */
  while (tile_rows < most_rows && tile_rows < q.extent[1] && (!subgroup || tile_rows < size))
    tile_rows *= 2;
  parts = parts == 0 ? 1 : parts > MAX_PARTS ? MAX_PARTS : parts;

  attention_push push = {
      .queries = q.extent[1],
      .keys = k.extent[1],
      .heads = q.extent[2],
      .q_offset = q.offset,
      .k_offset = k.offset,
      .v_offset = v.offset,
      .additive_offset = additive.offset,
      .index_offset = index.offset,
      .index_stride = {index.stride[2], index.stride[3]},
      .k_rows = k.extent[0],
      .lengths_offset = masking.lengths_offset,
      .lengths_stride = masking.lengths_stride,
      .position_offset = masking.position_offset,
      .position_stride = masking.position_stride,
      .reach = masking.reach,
  };
  memcpy(push.q_stride, q.stride, sizeof push.q_stride);
  memcpy(push.k_stride, k.stride, sizeof push.k_stride);
  memcpy(push.v_stride, v.stride, sizeof push.v_stride);
  memcpy(push.additive_stride, additive.stride, sizeof push.additive_stride);

  int32_t variant = subgroup ? (use_quads ? TSR_VK_VARIANT_ATTENTION_SUBGROUP_QUADS : TSR_VK_VARIANT_ATTENTION_SUBGROUP)
                             : (use_quads ? TSR_VK_VARIANT_ATTENTION_QUADS : TSR_VK_VARIANT_ATTENTION);
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, variant, &push, sizeof push);
  if (dispatch == NULL)
    return 0;
  for (int32_t slot = 0; slot < 3; ++slot)
    tsr_vk_read(dispatch, line->in[slot]);
  tsr_vk_read_in(planner, dispatch, SLOT_ADDITIVE);
  tsr_vk_read_in(planner, dispatch, SLOT_ROWS);
  tsr_vk_read_masking(planner, dispatch, SLOT_ADDITIVE, &masking);
  tsr_vk_write(dispatch, line->out[0]);
  tsr_vk_write(dispatch, line->out[1] != 0 ? line->out[1] : line->out[0]);
  uint32_t alpha = 0;
  memcpy(&alpha, &line->attributes.alpha, sizeof alpha);
  tsr_vk_spec(dispatch, size);
  tsr_vk_spec(dispatch, 1);
  tsr_vk_spec(dispatch, masking.present | (line->in[SLOT_ROWS] != 0 ? INDEXED : 0) | (line->out[1] != 0 ? WEIGHTS : 0));
  tsr_vk_spec(dispatch, depth);
  tsr_vk_spec(dispatch, width);
  tsr_vk_spec(dispatch, tile_rows);
  tsr_vk_spec(dispatch, parts);
  tsr_vk_spec(dispatch, alpha);
  uint64_t blocks = width == 0 ? 1 : tsr_vk_divide_up(width, (uint64_t)size * parts);
  uint64_t rows = (uint64_t)q.extent[0] * q.extent[2] * q.extent[1];
  dispatch->work = 2.0 * (double)rows * push.keys * (depth + width) * (use_quads ? 4 : 1);
  return tsr_vk_finish(planner, dispatch,
                       (uint64_t)q.extent[0] * q.extent[2] * blocks * tsr_vk_divide_up(push.queries, tile_rows));
}

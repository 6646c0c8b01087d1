/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/vulkan/attention.h"

#include <string.h>

enum { MAX_TILE_ROWS = 8, MAX_PARTS = 4, MAX_SIZE = 64 };
/* Compiled faster, which with a CPU's driver is part of every start. And what an H200 (driver 580.159) gave for tiles
 * of eight rows whose lanes hand each other what they have was wrong, other rows in each run. */
enum { FEW_TILE_ROWS = 4 };

tsr_vk_tile tsr_vk_tile_of(const tsr_vk_caps *caps, uint32_t rows, uint32_t width)
{
  tsr_vk_tile t = {.rows = 1, .splits = 1};
  t.size = tsr_vk_reduce_size(caps, MAX_SIZE, &t.subgroup);
  /* Where subgroups can be narrow, a thread's registers are divided among its lanes: a tile for each of 32 does not
   * fit. */
  const int is_crowded = !caps->compute_like_cpu && caps->subgroup_sizes[0] < 32;
  if (t.subgroup && (is_crowded || !caps->subgroup_shuffle || (t.size & (t.size - 1)) != 0 || t.size > 32)) {
    t.subgroup = 0;
    t.size = tsr_vk_group_size(caps, caps->compute_like_cpu ? 32 : MAX_SIZE); /* the largest subgroup, at least */
  }
  const uint32_t most_rows = caps->compute_like_cpu || t.subgroup ? FEW_TILE_ROWS : MAX_TILE_ROWS;
  while (t.rows < most_rows && t.rows < rows && (!t.subgroup || t.rows < t.size)) {
    t.rows *= 2;
  }
  t.parts = (uint32_t)tsr_vk_divide_up(width, t.size);
  t.parts = t.parts == 0 ? 1 : t.parts > MAX_PARTS ? MAX_PARTS : t.parts;
  t.blocks = width == 0 ? 1 : (uint32_t)tsr_vk_divide_up(width, (uint64_t)t.size * t.parts);
  return t;
}

/* Makes n views count groups of four along their last axis, if all can. */
int tsr_vk_attention_quads(tsr_vk_view *views, int32_t n)
{
  tsr_vk_view quads[4];
  for (int32_t i = 0; i < n; ++i) {
    quads[i] = views[i];
    if (views[i].extent[3] % 4 != 0 || views[i].extent[3] == 0 || !tsr_vk_in_quads(&quads[i], 3)) {
      return 0;
    }
    quads[i].extent[3] /= 4;
  }
  memcpy(views, quads, (size_t)n * sizeof *views);
  return 1;
}

int32_t tsr_vk_attention_shader(int32_t shader, const tsr_vk_tile *t, int quads)
{
  return shader + (quads ? TSR_VK_QUADS : 0) + (t->subgroup ? TSR_VK_SUBGROUP : 0);
}

/* The masking, at the start of the line's scratch, and behind it the dropout's bits. 0 if the device cannot. */
int tsr_vk_plan_weights(tsr_vk_planner *planner, const tsr_vk_view *q, uint32_t keys, tsr_vk_masking *masking,
                        uint32_t *bits_at)
{
  if (!tsr_vk_plan_masking(planner, TSR_VK_SLOT_ADDITIVE, q->extent[2], masking) || masking->bias_offset != 0) {
    return 0;
  }
  uint64_t rows = (uint64_t)q->extent[0] * q->extent[1] * q->extent[2];
  return planner->line->in[TSR_VK_SLOT_SEED] == 0 ||
         tsr_vk_plan_dropout_bits(planner, TSR_VK_SLOT_SEED, rows, keys, bits_at);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * attention (shaders/attention.comp) and its gradient (shaders/attention_delta.comp, attention_gradient.comp).
 */
#include "backends/vulkan/kernel_common.h"

#include <string.h>

typedef struct attention_push {
  uint32_t queries;
  uint32_t keys;
  uint32_t batch;
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

typedef struct delta_push {
  uint32_t queries;
  uint32_t heads;
  uint32_t width;
  uint32_t count;
  uint32_t y_offset;
  uint32_t y_stride[4];
  uint32_t dy_offset;
  uint32_t dy_stride[4];
  uint32_t lse_offset;
  uint32_t lse_stride[3];
  uint32_t stats_at;
} delta_push;
_Static_assert(sizeof(delta_push) == TSR_VK_PUSH_ATTENTION_DELTA, "push constants of attention_delta.comp");

/* One of the two tensors of a workgroup's own, or of the others. */
typedef struct gradient_side {
  uint32_t offset;
  uint32_t stride[3];
} gradient_side;

typedef struct gradient_push {
  uint32_t queries;
  uint32_t keys;
  uint32_t batch;
  gradient_side side[4];
  uint32_t additive_offset;
  uint32_t additive_stride[4];
  uint32_t lengths_offset;
  uint32_t lengths_stride;
  uint32_t position_offset;
  uint32_t position_stride;
  uint32_t reach;
  uint32_t stats_at;
  uint32_t bits_at;
} gradient_push;
_Static_assert(sizeof(gradient_push) == TSR_VK_PUSH_ATTENTION_GRADIENT, "push constants of attention_gradient.comp");
_Static_assert(sizeof(gradient_push) <= TSR_VK_MAX_PUSH, "push constants of attention_gradient.comp");

TSR_VK_ASSERT_ROW_VARIANTS(ATTENTION);
TSR_VK_ASSERT_ROW_VARIANTS(ATTENTION_GRADIENT);

enum { SLOT_ADDITIVE = 3, SLOT_ROWS = 7, SLOT_SEED = 8, SLOT_Y = 9, SLOT_DY = 10, SLOT_LSE = 11 };
enum { INDEXED = 32, WEIGHTS = 64, DROPOUT = 128, SUMS = 256 }; /* beside the masking's bits */
enum { BY_KEYS = 256, DSCORES = 512 };                          /* likewise, of the gradient */
enum { MAX_TILE_ROWS = 8, MAX_PARTS = 4, MAX_SIZE = 64 };
enum { FEW_TILE_ROWS = 4 }; /* compiled faster, which with a CPU's driver is part of every start */

/* How a workgroup is cut: `rows` queries (or keys), a number of parts of the last axis. */
typedef struct tile {
  int subgroup; /* 1: it is one subgroup */
  uint32_t size;
  uint32_t rows;
  uint32_t parts;
  uint32_t blocks; /* workgroups that share the last axis */
} tile;

static tile tile_of(const tsr_vk_caps *caps, uint32_t rows, uint32_t width)
{
  uint32_t most_rows = caps->compute_like_cpu ? FEW_TILE_ROWS : MAX_TILE_ROWS;
  tile t = {.rows = 1};
  t.size = tsr_vk_reduce_size(caps, MAX_SIZE, &t.subgroup);
  if (t.subgroup && (!caps->subgroup_shuffle || (t.size & (t.size - 1)) != 0 || t.size > 32)) {
    t.subgroup = 0;
    t.size = tsr_vk_group_size(caps, 32);
  }
  while (t.rows < most_rows && t.rows < rows && (!t.subgroup || t.rows < t.size))
    t.rows *= 2;
  t.parts = (uint32_t)tsr_vk_divide_up(width, t.size);
  t.parts = t.parts == 0 ? 1 : t.parts > MAX_PARTS ? MAX_PARTS : t.parts;
  t.blocks = width == 0 ? 1 : (uint32_t)tsr_vk_divide_up(width, (uint64_t)t.size * t.parts);
  return t;
}

/* Makes n views count groups of four along their last axis, if all can. */
static int in_quads(tsr_vk_view *views, int32_t n)
{
  tsr_vk_view quads[4];
  for (int32_t i = 0; i < n; ++i) {
    quads[i] = views[i];
    if (views[i].extent[3] % 4 != 0 || views[i].extent[3] == 0 || !tsr_vk_in_quads(&quads[i], 3))
      return 0;
    quads[i].extent[3] /= 4;
  }
  memcpy(views, quads, (size_t)n * sizeof *views);
  return 1;
}

static uint32_t bits_of(float x)
{
  uint32_t bits = 0;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static int32_t variant_of(int32_t variant, const tile *t, int quads)
{
  return variant + (quads ? TSR_VK_QUADS : 0) + (t->subgroup ? TSR_VK_SUBGROUP : 0);
}

/* The masking, at the start of the line's scratch, and behind it the dropout's bits. 0 if the device cannot. */
static int plan_weights(tsr_vk_planner *planner, const tsr_vk_view *q, uint32_t keys, tsr_vk_masking *masking,
                        uint32_t *bits_at)
{
  if (!tsr_vk_plan_masking(planner, SLOT_ADDITIVE, q->extent[2], masking) || masking->bias_offset != 0)
    return 0;
  uint64_t rows = (uint64_t)q->extent[0] * q->extent[1] * q->extent[2];
  return planner->line->in[SLOT_SEED] == 0 || tsr_vk_plan_dropout_bits(planner, SLOT_SEED, rows, keys, bits_at);
}

int tsr_vk_plan_attention(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_view views[3] = {tsr_vk_view_in(planner, 0), tsr_vk_view_in(planner, 1), tsr_vk_view_in(planner, 2)};
  tsr_vk_view additive = tsr_vk_view_in(planner, SLOT_ADDITIVE), index = tsr_vk_view_in(planner, SLOT_ROWS);
  int quads = in_quads(views, 3);
  const tsr_vk_view *q = &views[0], *k = &views[1], *v = &views[2];
  uint32_t depth = q->extent[3], width = v->extent[3], bits_at = 0;
  tsr_vk_masking masking;
  if (!plan_weights(planner, q, k->extent[1], &masking, &bits_at))
    return 0;
  tile t = tile_of(planner->caps, q->extent[1], width);

  attention_push push = {
      .queries = q->extent[1],
      .keys = k->extent[1],
      .batch = q->extent[0],
      .q_offset = q->offset,
      .k_offset = k->offset,
      .v_offset = v->offset,
      .additive_offset = additive.offset,
      .index_offset = index.offset,
      .index_stride = {index.stride[2], index.stride[3]},
      .k_rows = k->extent[0],
      .lengths_offset = masking.lengths_offset,
      .lengths_stride = masking.lengths_stride,
      .position_offset = masking.position_offset,
      .position_stride = masking.position_stride,
      .reach = masking.reach,
  };
  memcpy(push.q_stride, q->stride, sizeof push.q_stride);
  memcpy(push.k_stride, k->stride, sizeof push.k_stride);
  memcpy(push.v_stride, v->stride, sizeof push.v_stride);
  memcpy(push.additive_stride, additive.stride, sizeof push.additive_stride);

  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, variant_of(TSR_VK_VARIANT_ATTENTION, &t, quads), &push, sizeof push);
  if (dispatch == NULL)
    return 0;
  for (int32_t slot = 0; slot < 3; ++slot)
    tsr_vk_read(dispatch, line->in[slot]);
  tsr_vk_read_in(planner, dispatch, SLOT_ADDITIVE);
  tsr_vk_read_in(planner, dispatch, SLOT_ROWS);
  int drops = line->in[SLOT_SEED] != 0;
  tsr_vk_read_masking(planner, dispatch, SLOT_ADDITIVE, &masking, drops);
  for (int32_t i = 0; i < 3; ++i)
    tsr_vk_write(dispatch, line->out[i] != 0 ? line->out[i] : line->out[0]);
  tsr_vk_spec(dispatch, t.size);
  tsr_vk_spec(dispatch, 1);
  tsr_vk_spec(dispatch, masking.present | (line->in[SLOT_ROWS] != 0 ? INDEXED : 0) | (line->out[1] != 0 ? WEIGHTS : 0) |
                            (drops ? DROPOUT : 0) | (line->out[2] != 0 ? SUMS : 0));
  tsr_vk_spec(dispatch, depth);
  tsr_vk_spec(dispatch, width);
  tsr_vk_spec(dispatch, t.rows);
  tsr_vk_spec(dispatch, t.parts);
  tsr_vk_spec(dispatch, bits_of(line->attributes.alpha));
  tsr_vk_spec(dispatch, q->extent[2]);
  if (drops) {
    tsr_vk_spec(dispatch, bits_of(tsr_vk_dropout_scale(line->attributes.rate)));
    tsr_vk_spec(dispatch, bits_at);
  }
  uint64_t heads = (uint64_t)q->extent[0] * q->extent[2];
  dispatch->work = 2.0 * (double)(heads * push.queries) * push.keys * (depth + width) * (quads ? 4 : 1);
  return tsr_vk_finish(planner, dispatch, heads * t.blocks * tsr_vk_divide_up(push.queries, t.rows));
}

/* What each query has: its lse and its delta, two words in scratch. */
static int plan_delta(tsr_vk_planner *planner, uint32_t stats_at)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_view y = tsr_vk_view_in(planner, SLOT_Y), dy = tsr_vk_view_in(planner, SLOT_DY);
  tsr_vk_view lse = tsr_vk_view_in(planner, SLOT_LSE);
  delta_push push = {
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
  if (push.count == 0)
    return 1;
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, TSR_VK_VARIANT_ATTENTION_DELTA, &push, sizeof push);
  if (dispatch == NULL)
    return 0;
  for (int32_t slot = SLOT_Y; slot <= SLOT_LSE; ++slot)
    tsr_vk_read(dispatch, line->in[slot]);
  tsr_vk_write(dispatch, TSR_VK_SCRATCH);
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_spec(dispatch, size);
  tsr_vk_spec(dispatch, 1);
  dispatch->work = 2.0 * push.count * (double)push.width;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(push.count, size));
}

/* dq and dscores; by_keys: dk and dv. push: all but the sides. views: of q, k, v and dy. */
static int plan_side(tsr_vk_planner *planner, gradient_push push, const tsr_vk_view *views, int quads, int by_keys,
                     const tsr_vk_masking *masking)
{
  enum { Q, K, V, DY };
  static const int32_t slots[] = {0, 1, 2, SLOT_DY};
  static const int32_t sides[2][4] = {{Q, DY, K, V}, {K, V, Q, DY}}; /* its own, the others */
  const tsr_line_desc *line = planner->line;
  const int32_t *side = sides[by_keys];
  int32_t result = line->out[by_keys ? 1 : 0], second = line->out[by_keys ? 2 : 3];
  const tsr_vk_view *own = &views[side[0]];
  uint32_t depth = views[Q].extent[3], width = views[V].extent[3];
  tile t = tile_of(planner->caps, own->extent[1], by_keys && width > depth ? width : depth);
  if (own->extent[1] == 0)
    return 1;
  for (int32_t i = 0; i < 4; ++i) {
    push.side[i].offset = views[side[i]].offset;
    memcpy(push.side[i].stride, views[side[i]].stride, sizeof push.side[i].stride);
  }
  tsr_vk_dispatch *dispatch =
      tsr_vk_add(planner, variant_of(TSR_VK_VARIANT_ATTENTION_GRADIENT, &t, quads), &push, sizeof push);
  if (dispatch == NULL)
    return 0;
  for (int32_t i = 0; i < 4; ++i)
    tsr_vk_read(dispatch, line->in[slots[side[i]]]);
  tsr_vk_read_in(planner, dispatch, SLOT_ADDITIVE);
  tsr_vk_read_masking(planner, dispatch, SLOT_ADDITIVE, masking, 1);
  tsr_vk_write(dispatch, result);
  tsr_vk_write(dispatch, second != 0 ? second : result);
  int drops = line->in[SLOT_SEED] != 0, dscores = !by_keys && second != 0;
  tsr_vk_spec(dispatch, t.size);
  tsr_vk_spec(dispatch, 1);
  tsr_vk_spec(dispatch, masking->present | (drops ? DROPOUT : 0) | (by_keys ? BY_KEYS : 0) | (dscores ? DSCORES : 0));
  tsr_vk_spec(dispatch, depth);
  tsr_vk_spec(dispatch, width);
  tsr_vk_spec(dispatch, t.rows);
  tsr_vk_spec(dispatch, t.parts);
  tsr_vk_spec(dispatch, bits_of(line->attributes.alpha));
  tsr_vk_spec(dispatch, views[Q].extent[2]);
  tsr_vk_spec(dispatch, bits_of(drops ? tsr_vk_dropout_scale(line->attributes.rate) : 1.0f));
  for (int32_t i = 0; i < 4; ++i)
    tsr_vk_spec(dispatch, views[side[i]].stride[3]);
  uint64_t heads = (uint64_t)push.batch * views[Q].extent[2];
  uint32_t terms = by_keys ? 2 * (depth + width) : 2 * depth + width;
  dispatch->work = 2.0 * (double)(heads * push.queries) * push.keys * terms * (quads ? 4 : 1);
  return tsr_vk_finish(planner, dispatch, heads * t.blocks * tsr_vk_divide_up(own->extent[1], t.rows));
}

int tsr_vk_plan_attention_gradient(tsr_vk_planner *planner)
{
  tsr_vk_view views[4] = {tsr_vk_view_in(planner, 0), tsr_vk_view_in(planner, 1), tsr_vk_view_in(planner, 2),
                          tsr_vk_view_in(planner, SLOT_DY)};
  tsr_vk_view additive = tsr_vk_view_in(planner, SLOT_ADDITIVE);
  int quads = in_quads(views, 4);
  const tsr_vk_view *q = &views[0];
  uint32_t keys = views[1].extent[1], bits_at = 0;
  uint64_t heads = (uint64_t)q->extent[0] * q->extent[2];
  tsr_vk_masking masking;
  if (heads == 0)
    return 1;
  if (!plan_weights(planner, q, keys, &masking, &bits_at))
    return 0;
  uint32_t stats_at = tsr_vk_reserve(planner, 2 * heads * q->extent[1]) / 2;
  if (planner->plan->scratch_bytes / 4 > INT32_MAX || !plan_delta(planner, stats_at))
    return 0;
  gradient_push push = {
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

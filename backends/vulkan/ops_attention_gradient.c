/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of attention: attention_delta.comp, then a dispatch for what belongs to queries and another for what
 * belongs to keys. Their variants:
 *
 *   rows   attention_gradient.comp        a subgroup per workgroup; any strides and sizes
 *   tiled  attention_gradient_tiled.comp  many queries and keys: tiles of both in shared memory
 *   coop   attention_gradient_cooperative.comp  the same by cooperative matrices, where reduced precision will do
 */
#include "backends/vulkan/attention.h"
#include "shaders/contract/attention_cooperative.h"
#include "shaders/contract/attention_delta.h"
#include "shaders/contract/attention_gradient.h"
#include "shaders/contract/attention_gradient_rows.h"
#include "shaders/contract/attention_gradient_tiled.h"

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

/* What is read, as the variants take it: with quads depth and width count groups of four. */
typedef struct gradient {
  tsr_vk_view views[4]; /* q, k, v, dy */
  int quads;
  uint32_t queries;
  uint32_t keys;
  uint32_t depth;
  uint32_t width;
  uint64_t heads; /* of all sentences */
} gradient;

/* The tiles of attention_gradient_tiled.comp: a workgroup's own rows and others, largest first. Eight invocations share
 * a row. */
enum { TILE_SIZE = 128, TILE_GROUPS = 8, MAX_SUMS = 80 };
static const struct {
  uint32_t rows;
  uint32_t others;
} tiles[] = {{64, 32}, {32, 32}, {32, 16}, {16, 32}, {16, 16}};
enum { TILE_COUNT = sizeof tiles / sizeof *tiles };
_Static_assert(TSR_VK_VARIANT_ATTENTION_GRADIENT_TILED_16X16 - TSR_VK_VARIANT_ATTENTION_GRADIENT_TILED_64X32 + 1 ==
                   TILE_COUNT,
               "variants of the gradient's tiles");

static uint32_t rows_each(uint32_t i)
{
  return tiles[i].rows * GRADIENT_TILE_SIDE / TILE_SIZE;
}

/* What an invocation has in registers: of its results, and of two products of each of its pairs. */
static uint64_t sums_of(uint32_t i, const gradient *g)
{
  const uint64_t parts =
      tsr_vk_divide_up(g->depth, GRADIENT_TILE_SIDE) + tsr_vk_divide_up(g->width, GRADIENT_TILE_SIDE);
  return rows_each(i) * (4 * parts + 2 * tiles[i].others / GRADIENT_TILE_SIDE);
}

static uint32_t least(uint32_t a, uint32_t b)
{
  return a < b ? a : b;
}

/* Bytes, as attention_gradient_tiled.comp declares them; groups: tile_groups. */
static uint64_t shared_of_tiles(uint32_t i, const gradient *g, uint32_t groups)
{
  const uint32_t depth = (groups > 0 ? least(g->depth, groups) : g->depth) | 1;
  const uint32_t width = (groups > 0 ? least(g->width, groups) : g->width) | 1;
  const uint32_t widest = depth > width ? depth : width;
  const uint64_t rows = tiles[i].rows, others = tiles[i].others;
  return (rows * (groups == 0 ? depth + width : widest) + others * widest + rows * GRADIENT_FACTOR_PITCH) * 16 + 16;
}

/* The last axis at once, where shared memory that every GPU has holds its tiles; else in parts. 0 if it cannot be
 * had. */
static int cut_tiled(const tsr_vk_caps *caps, const gradient *g, uint32_t i, tsr_vk_tile *t)
{
  enum { WHOLE_BYTES = 32 << 10 };
  const uint32_t widest = g->depth > g->width ? g->depth : g->width;
  *t = (tsr_vk_tile){.size = TILE_SIZE, .rows = tiles[i].rows, .blocks = 1, .splits = 1};
  t->tile_shape = GRADIENT_TILE_SHAPE(rows_each(i), tiles[i].others / GRADIENT_TILE_SIDE);
  if (shared_of_tiles(i, g, 0) > least(caps->shared_memory, WHOLE_BYTES)) {
    t->groups = TILE_GROUPS;
  }
  return g->quads && tsr_vk_group_size(caps, TILE_SIZE) >= TILE_SIZE && sums_of(i, g) <= MAX_SUMS &&
         widest <= GRADIENT_TILE_PARTS * TILE_GROUPS && shared_of_tiles(i, g, t->groups) <= caps->shared_memory;
}

/* The largest tile that both queries and keys fill by more than half, or smaller ones where they are few; TILE_COUNT:
 * none can be had. Not in parts: that kernel is so long that a driver may take ten times as long to compile it. */
static uint32_t choose_tiles(const tsr_vk_caps *caps, const gradient *g)
{
  enum { FEW_GROUPS = 128 }; /* below which a device may be idle */
  const uint32_t rows = least(g->queries, g->keys);
  uint32_t chosen = TILE_COUNT;
  tsr_vk_tile t;
  for (uint32_t i = 0; i < TILE_COUNT; ++i) {
    if (!cut_tiled(caps, g, i, &t) || t.groups > 0 || (chosen < TILE_COUNT && tiles[i].rows == tiles[chosen].rows)) {
      continue;
    }
    chosen = i;
    if (2 * rows > t.rows && g->heads * tsr_vk_divide_up(rows, t.rows) >= FEW_GROUPS) {
      break;
    }
  }
  return chosen;
}

/* How attention_gradient_cooperative.comp cuts a tile: subgroups of `lanes` invocations, each with `rows` rows. */
enum { COOP_SUBGROUPS = 4, COOP_OTHERS = 32, MIN_COOP_OTHERS = 16, MAX_COOP_ROWS = 16, FEW_COOP_ROWS = 32 };

static uint32_t whole(uint32_t quads, const tsr_vk_shape *shape)
{
  const uint32_t side = shape->n > shape->k ? shape->n : shape->k;
  return (uint32_t)tsr_vk_divide_up(quads * 4, side) * side;
}

/* Bytes, as attention_gradient_cooperative.comp declares them. */
static uint64_t shared_of_coop(const gradient *g, const tsr_vk_shape *shape, uint32_t rows, uint32_t others)
{
  const uint64_t pitches = (whole(g->depth, shape) / 8 | 1) + (whole(g->width, shape) / 8 | 1);
  const uint64_t sums = (others > shape->n ? others : shape->n) / 4 | 1;
  const uint64_t wild = tsr_vk_divide_up(g->depth, 4) + tsr_vk_divide_up(g->width, 4);
  return ((rows + others) * pitches + 2 * rows * sums) * 16 + rows * wild * 4 + others * 8 + 16;
}

/* One side, by matrices of that shape; an invocation has at most `most` of the results in registers. */
static int cut_in_shape(const tsr_vk_caps *caps, const gradient *g, const tsr_vk_shape *shape, int by_keys,
                        uint32_t most, tsr_vk_tile *t)
{
  const uint32_t n_own = by_keys ? g->keys : g->queries;
  const uint32_t results = whole(g->depth, shape) + (by_keys ? whole(g->width, shape) : 0);
  const uint32_t larger = shape->n > shape->k ? shape->n : shape->k,
                 smaller = shape->n < shape->k ? shape->n : shape->k;
  uint32_t lanes = caps->subgroup_sizes[0], rows = shape->m;
  if (rows > MAX_COOP_ROWS || smaller % 8 != 0 || larger % smaller != 0 || COOP_OTHERS % larger != 0) {
    return 0;
  }
  while (lanes < caps->subgroup_sizes[1] && (rows > lanes || rows * results > most * lanes)) {
    lanes *= 2;
  }
  while (rows * 2 <= lanes && rows * 2 <= MAX_COOP_ROWS && rows * 2 * results <= most * lanes) {
    rows *= 2;
  }
  if (rows > lanes || rows * results > most * lanes) {
    return 0;
  }
  for (uint32_t subgroups = COOP_SUBGROUPS; subgroups > 0; subgroups /= 2) {
    const uint32_t size = subgroups * lanes, tile_rows = subgroups * rows;
    /* Where there is room for few of many rows, the others are fetched too often; on a CPU only tests ask for it. */
    if ((subgroups > 1 && tile_rows / 2 >= n_own) ||
        (!caps->compute_like_cpu && tile_rows < FEW_COOP_ROWS && tile_rows < n_own) ||
        subgroups > caps->max_subgroups || size > caps->max_invocations || size > caps->max_size[0]) {
      continue;
    }
    for (uint32_t others = COOP_OTHERS; others >= MIN_COOP_OTHERS && others >= larger; others /= 2) {
      /* A row's invocations share its others in eights. */
      if (lanes / rows > others / 8 || shared_of_coop(g, shape, tile_rows, others) > caps->shared_memory) {
        continue;
      }
      *t = (tsr_vk_tile){.size = size, .rows = tile_rows, .blocks = 1, .splits = 1, .lanes = lanes, .groups = others};
      t->shape = THREE_BYTES(shape->m, shape->n, shape->k);
      t->tile_shape = THREE_BYTES(rows, lanes, others);
      return 1;
    }
  }
  return 0;
}

/* By the largest shape that can be had. */
static int cut_coop_side(const tsr_vk_planner *planner, const gradient *g, int by_keys, tsr_vk_tile *t)
{
  enum { SUMS = 64, MANY_SUMS = 128, CPU_SUMS = 256, USUAL_WIDTH = 32 /* groups */, MIN_LANES = 32, MAX_LANES = 64 };
  const tsr_vk_caps *caps = planner->caps;
  const uint32_t most = caps->compute_like_cpu ? CPU_SUMS : g->depth + g->width > USUAL_WIDTH ? MANY_SUMS : SUMS;
  const tsr_vk_shape *shape = NULL;
  /* Where subgroups can be small, a subgroup has no more registers in all, and a tile does not fit into them. */
  if (tsr_vk_attention_factors(planner) == 0 || !g->quads ||
      (caps->subgroup_sizes[0] < MIN_LANES && !caps->compute_like_cpu)) {
    return 0;
  }
  while ((shape = tsr_vk_next_shape(caps, tsr_vk_attention_factors(planner), shape)) != NULL) {
    if (cut_in_shape(caps, g, shape, by_keys, most, t) && t->lanes <= MAX_LANES) {
      return 1;
    }
  }
  return 0;
}

static int cut_coop(const tsr_vk_planner *planner, const gradient *g, tsr_vk_tile *t)
{
  return cut_coop_side(planner, g, 0, t) && cut_coop_side(planner, g, 1, t);
}

/* Where the variant cannot be had, or is none of the gradient: 0. */
static int cut_variant(const tsr_vk_planner *planner, const gradient *g, int32_t variant, tsr_vk_tile *t)
{
  const tsr_vk_caps *caps = planner->caps;
  return variant == TSR_VK_VARIANT_ATTENTION_GRADIENT_ROWS ||
         (variant == TSR_VK_VARIANT_ATTENTION_GRADIENT_COOP && cut_coop(planner, g, t)) ||
         (variant >= TSR_VK_VARIANT_ATTENTION_GRADIENT_TILED_64X32 &&
          variant <= TSR_VK_VARIANT_ATTENTION_GRADIENT_TILED_16X16 &&
          cut_tiled(caps, g, (uint32_t)(variant - TSR_VK_VARIANT_ATTENTION_GRADIENT_TILED_64X32), t));
}

/* *t: of a tiled variant, or of the cooperative one. */
static int32_t choose(const tsr_vk_planner *planner, const gradient *g, tsr_vk_tile *t)
{
  enum { FEW_ROWS = 8 };
  const tsr_vk_caps *caps = planner->caps;
  const int32_t tuned = tsr_vk_tuning_find(caps->tuning, &planner->plan->class);
  if (cut_variant(planner, g, caps->forced, t)) {
    return caps->forced;
  }
  if (cut_variant(planner, g, tuned, t)) {
    return tuned;
  }
  if (!caps->compute_like_cpu && least(g->queries, g->keys) > FEW_ROWS && cut_coop(planner, g, t)) {
    return TSR_VK_VARIANT_ATTENTION_GRADIENT_COOP;
  }
  const uint32_t i = choose_tiles(caps, g);
  if (caps->compute_like_cpu || least(g->queries, g->keys) <= FEW_ROWS || i == TILE_COUNT ||
      !cut_tiled(caps, g, i, t)) {
    return TSR_VK_VARIANT_ATTENTION_GRADIENT_ROWS;
  }
  return TSR_VK_VARIANT_ATTENTION_GRADIENT_TILED_64X32 + (int32_t)i;
}

static tsr_vk_class class_of(const tsr_vk_planner *planner, const gradient *g)
{
  enum { MASKED = 1, SCORES = 2, REDUCED_PRECISION = 4 };
  const tsr_line_desc *line = planner->line;
  return (tsr_vk_class){
      .op = TSR_OP_ATTENTION_GRADIENT,
      .field = {tsr_vk_bucket(g->queries), tsr_vk_bucket(g->keys), tsr_vk_bucket(g->heads),
                (int32_t)g->depth * (g->quads ? 4 : 1), (int32_t)g->width * (g->quads ? 4 : 1),
                (line->attributes.causal || line->in[TSR_VK_SLOT_ADDITIVE] != 0 ? MASKED : 0) |
                    (line->out[3] != 0 ? SCORES : 0) |
                    (tsr_vk_attention_factors(planner) != 0 ? REDUCED_PRECISION : 0)},
  };
}

/* The tile of one side, n rows of its own; *t is that of a tiled variant already, which both sides share. */
static void cut_side(const tsr_vk_planner *planner, const gradient *g, uint32_t n, int by_keys, tsr_vk_tile *t)
{
  if (planner->plan->variant == TSR_VK_VARIANT_ATTENTION_GRADIENT_ROWS) {
    *t = tsr_vk_tile_of(planner->caps, n, by_keys && g->width > g->depth ? g->width : g->depth);
    t->rows = least(t->rows, GRADIENT_TILE_ROWS);
  }
  if (planner->plan->variant == TSR_VK_VARIANT_ATTENTION_GRADIENT_COOP) {
    (void)cut_coop_side(planner, g, by_keys, t); /* as when it was chosen */
  }
}

/* The constants that follow from the tile. views: its own two, the others. */
static void spec_tile(const tsr_vk_planner *planner, tsr_vk_dispatch *dispatch, const tsr_vk_tile *t,
                      const tsr_vk_view *const *views)
{
  if (planner->plan->variant == TSR_VK_VARIANT_ATTENTION_GRADIENT_COOP) {
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_cooperative_shape, t->shape);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_cooperative_tile_shape, t->tile_shape);
    return;
  }
  if (planner->plan->variant != TSR_VK_VARIANT_ATTENTION_GRADIENT_ROWS) {
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_tiled_tile_shape, t->tile_shape);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_tiled_tile_groups, t->groups);
    return;
  }
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_rows_tile_rows, t->rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_rows_parts, t->parts);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_rows_own_step, views[0]->stride[3]);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_rows_own2_step, views[1]->stride[3]);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_rows_other_step, views[2]->stride[3]);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_rows_other2_step, views[3]->stride[3]);
}

/* For how many others a row of its own is read once. */
static uint32_t others_at_once(const tsr_vk_planner *planner, const tsr_vk_tile *t, uint32_t n_others)
{
  if (planner->plan->variant == TSR_VK_VARIANT_ATTENTION_GRADIENT_ROWS) {
    return t->size;
  }
  if (planner->plan->variant == TSR_VK_VARIANT_ATTENTION_GRADIENT_COOP) {
    return n_others > 0 ? n_others : 1; /* its own lie in shared memory all the time */
  }
  return t->groups == 0 && n_others > 0 ? n_others : GRADIENT_TILE_OTHERS(t->tile_shape) * GRADIENT_TILE_SIDE;
}

/* dq and dscores; by_keys: dk and dv. push: all but the sides. */
static int plan_side(tsr_vk_planner *planner, tsr_vk_attention_gradient_push push, const gradient *g, tsr_vk_tile t,
                     int by_keys, const tsr_vk_masking *masking)
{
  enum { Q, K, V, DY };
  static const int32_t slots[] = {0, 1, 2, TSR_VK_SLOT_DY};
  static const int32_t sides[2][4] = {{Q, DY, K, V}, {K, V, Q, DY}}; /* its own, the others */
  const tsr_line_desc *line = planner->line;
  const int32_t *side = sides[by_keys];
  const tsr_vk_view *const views[] = {&g->views[side[0]], &g->views[side[1]], &g->views[side[2]], &g->views[side[3]]};
  int32_t result = line->out[by_keys ? 1 : 0], second = line->out[by_keys ? 2 : 3];
  uint32_t n_own = by_keys ? g->keys : g->queries;
  if (n_own == 0) {
    return 1;
  }
  cut_side(planner, g, n_own, by_keys, &t);
  push.own_offset = views[0]->offset;
  push.own2_offset = views[1]->offset;
  push.other_offset = views[2]->offset;
  push.other2_offset = views[3]->offset;
  memcpy(push.own_stride, views[0]->stride, sizeof push.own_stride);
  memcpy(push.own2_stride, views[1]->stride, sizeof push.own2_stride);
  memcpy(push.other_stride, views[2]->stride, sizeof push.other_stride);
  memcpy(push.other2_stride, views[3]->stride, sizeof push.other2_stride);
  int32_t shader = TSR_VK_SHADER_ATTENTION_GRADIENT_TILED;
  if (planner->plan->variant == TSR_VK_VARIANT_ATTENTION_GRADIENT_ROWS) {
    shader = tsr_vk_attention_shader(TSR_VK_SHADER_ATTENTION_GRADIENT, &t, g->quads);
  } else if (planner->plan->variant == TSR_VK_VARIANT_ATTENTION_GRADIENT_COOP) {
    shader = tsr_vk_attention_factors(planner) == TSR_BF16 ? TSR_VK_SHADER_ATTENTION_GRADIENT_COOPERATIVE_BF16
                                                           : TSR_VK_SHADER_ATTENTION_GRADIENT_COOPERATIVE;
  }
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, shader, &push, sizeof push);
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
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_depth, g->depth);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_width, g->width);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_alpha_bits, tsr_vk_bits_of(line->attributes.alpha));
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_softcap_bits, tsr_vk_bits_of(line->attributes.softcap));
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_heads, g->views[Q].extent[2]);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_gradient_scale_bits,
              tsr_vk_bits_of(drops ? tsr_vk_dropout_scale(line->attributes.rate) : 1.0f));
  spec_tile(planner, dispatch, &t, views);
  uint32_t terms = by_keys ? 2 * (g->depth + g->width) : 2 * g->depth + g->width;
  dispatch->subgroup_size = t.lanes;
  dispatch->work = 2.0 * (double)(g->heads * g->queries) * g->keys * terms * (g->quads ? 4 : 1);
  dispatch->tile[0] = t.rows;
  dispatch->tile[1] = others_at_once(planner, &t, by_keys ? g->queries : g->keys);
  return tsr_vk_finish(planner, dispatch, g->heads * t.blocks * tsr_vk_divide_up(n_own, t.rows));
}

int tsr_vk_plan_attention_gradient(tsr_vk_planner *planner)
{
  gradient g = {.views = {tsr_vk_view_in(planner, 0), tsr_vk_view_in(planner, 1), tsr_vk_view_in(planner, 2),
                          tsr_vk_view_in(planner, TSR_VK_SLOT_DY)}};
  tsr_vk_view additive = tsr_vk_view_in(planner, TSR_VK_SLOT_ADDITIVE);
  const tsr_vk_view *q = &g.views[0], *k = &g.views[1], *v = &g.views[2];
  uint32_t bits_at = 0;
  tsr_vk_masking masking;
  tsr_vk_tile t = {0};
  g.quads = tsr_vk_attention_quads(g.views, 4);
  g.queries = q->extent[1];
  g.keys = k->extent[1];
  g.depth = q->extent[3];
  g.width = v->extent[3];
  g.heads = (uint64_t)q->extent[0] * q->extent[2];
  if (g.heads == 0) {
    return 1;
  }
  if (!tsr_vk_plan_weights(planner, q, g.keys, &masking, &bits_at)) {
    return 0;
  }
  uint32_t stats_at = tsr_vk_reserve(planner, 2 * g.heads * g.queries) / 2;
  if (planner->plan->scratch_bytes / 4 > INT32_MAX || !plan_delta(planner, stats_at)) {
    return 0;
  }
  planner->plan->class = class_of(planner, &g);
  planner->plan->variant = choose(planner, &g, &t);
  tsr_vk_attention_gradient_push push = {
      .queries = g.queries,
      .keys = g.keys,
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
  return plan_side(planner, push, &g, t, 0, &masking) && plan_side(planner, push, &g, t, 1, &masking);
}

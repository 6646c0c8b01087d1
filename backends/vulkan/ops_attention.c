/* SPDX-License-Identifier: Apache-2.0
 *
 * attention. Its variants:
 *
 *   rows   attention.comp        a subgroup per workgroup; any strides and sizes, the only one that gives the weights
 *   split  attention.comp        the same for few queries: their keys are shared out among workgroups, and what those
 *                                found is put together by attention_combine.comp
 *   few    attention_few.comp    few queries: a workgroup of more subgroups, for GPUs; splits, too
 *   tiled  attention_tiled.comp  many queries: tiles of queries and keys in shared memory; splits, too, where there
 *                                are too few tiles
 *   coop   attention_cooperative.comp  the same by cooperative matrices of f16 or bf16, where reduced
 *                                precision will do
 */
#include "backends/vulkan/attention.h"
#include "shaders/contract/attention.h"
#include "shaders/contract/attention_combine.h"
#include "shaders/contract/attention_cooperative.h"
#include "shaders/contract/attention_few.h"
#include "shaders/contract/attention_rows.h"
#include "shaders/contract/attention_tiled.h"

#include <string.h>

TSR_VK_ASSERT_ROW_SHADERS(ATTENTION);

/* An attention, as its variants take it: views with quads count groups of four along their last axis. */
typedef struct attention {
  tsr_vk_view q;
  tsr_vk_view k;
  tsr_vk_view v;
  int quads;
  uint64_t heads; /* of all sentences */
} attention;

/* Words of scratch that each split takes. */
static uint64_t split_words(const attention *a)
{
  return a->heads * a->q.extent[1] * (ATTENTION_HEADER_WORDS + (uint64_t)a->v.extent[3] * (a->quads ? 4 : 1));
}

/* Shares the keys out, in whole multiples of step, among at most `wanted` workgroups. */
static void split_keys(tsr_vk_tile *t, const attention *a, uint32_t step, uint64_t wanted)
{
  enum { MAX_SPLITS = 32, MAX_WORDS = 4 << 20 };
  uint32_t keys = a->k.extent[1];
  uint64_t steps = tsr_vk_divide_up(keys, step), room = MAX_WORDS / (split_words(a) + 1);
  wanted = wanted > MAX_SPLITS ? MAX_SPLITS : wanted;
  wanted = wanted > room ? room : wanted;
  if (wanted < 2 || steps < 2) {
    return;
  }
  t->split_keys = (uint32_t)(tsr_vk_divide_up(steps, wanted) * step);
  t->splits = (uint32_t)tsr_vk_divide_up(keys, t->split_keys);
}

/* Workgroups below which a device may be idle, and keys below which one workgroup has as good as nothing to do */
enum { FEW_GROUPS = 128, FEW_KEYS = 128 };

/* As many workgroups for each of `groups` as make the device busy */
static uint64_t wanted_splits(uint64_t groups, uint32_t keys)
{
  uint64_t by_groups = groups < FEW_GROUPS ? 2 * FEW_GROUPS / groups : 1, by_keys = keys / FEW_KEYS;
  return by_groups < by_keys ? by_groups : by_keys;
}

/* `forced`: splits wherever there are keys for two. 0 if it does not split. */
static int cut_split(const tsr_vk_caps *caps, const attention *a, int forced, tsr_vk_tile *t)
{
  *t = tsr_vk_tile_of(caps, a->q.extent[1], a->v.extent[3]);
  uint64_t groups = a->heads * t->blocks * tsr_vk_divide_up(a->q.extent[1], t->rows);
  split_keys(t, a, t->size, forced ? UINT64_MAX : wanted_splits(groups, a->k.extent[1]));
  return t->splits > 1;
}

/* Few enough for a key's or value's groups of four: 8 invocations, or 16. */
static uint32_t lanes_of(uint32_t groups)
{
  return groups <= 8 ? 8 : 16;
}

/* A split has FEW_SIZE keys, however many there are in all: as a cache grows, the kernel stays what it is. `forced`:
 * splits wherever there are keys for two. 0 if it cannot be had. */
static int cut_few(const tsr_vk_caps *caps, const attention *a, int forced, tsr_vk_tile *t)
{
  enum { MAX_TILE_ROWS = 4, SHARED = 16384 };
  const uint32_t depth = a->q.extent[3], width = a->v.extent[3], keys = a->k.extent[1];
  *t = (tsr_vk_tile){.size = FEW_SIZE, .rows = 1, .parts = 1, .blocks = 1, .splits = 1};
  if (!a->quads || tsr_vk_group_size(caps, FEW_SIZE) < FEW_SIZE || depth > FEW_QUADS || width > FEW_QUADS ||
      caps->shared_memory < SHARED) {
    return 0;
  }
  while (t->rows < a->q.extent[1] && t->rows < MAX_TILE_ROWS) {
    t->rows *= 2;
  }
  if (forced || a->heads * tsr_vk_divide_up(a->q.extent[1], t->rows) < FEW_GROUPS) {
    split_keys(t, a, FEW_SIZE, tsr_vk_divide_up(keys, FEW_SIZE));
  }
  return 1;
}

/* The tiles of attention_tiled.comp: a workgroup's queries and keys, largest first. Eight invocations share a query. */
enum { TILE_SIZE = 128, TILE_GROUPS = 8, MAX_RESULTS = 64 };
static const struct {
  uint32_t rows;
  uint32_t keys;
} tiles[] = {{64, 32}, {32, 32}, {32, 16}, {16, 32}, {16, 16}};
enum { TILE_COUNT = sizeof tiles / sizeof *tiles };
_Static_assert(TSR_VK_VARIANT_ATTENTION_TILED_16X16 - TSR_VK_VARIANT_ATTENTION_TILED_64X32 + 1 == TILE_COUNT,
               "variants of attention's tiles");

static uint32_t rows_each(uint32_t i)
{
  return tiles[i].rows * ATTENTION_TILE_SIDE / TILE_SIZE;
}

/* Bytes, as attention_tiled.comp declares them; groups: tile_groups. */
static uint64_t shared_of_tiles(uint32_t i, const attention *a, uint32_t groups)
{
  uint32_t depth = a->q.extent[3], width = a->v.extent[3];
  depth = groups > 0 && depth > groups ? groups : depth;
  width = groups > 0 && width > groups ? groups : width;
  uint64_t rows = tiles[i].rows, keys = tiles[i].keys;
  uint64_t all = rows * (depth | 1) + keys * ((depth > width ? depth : width) | 1) + rows * ATTENTION_WEIGHT_PITCH;
  return (all + rows * 2) * 16 + 16;
}

/* Heads beyond LARGE_HEAD groups pass through shared memory in parts: whole they leave room for small tiles at most.
 * shared_memory: bytes that the tiles may take. 0 if they cannot be had. */
static int cut_tiled(const tsr_vk_caps *caps, const attention *a, uint32_t i, uint32_t shared_memory, tsr_vk_tile *t)
{
  enum { LARGE_HEAD = 32 };
  const uint32_t widest = a->q.extent[3] > a->v.extent[3] ? a->q.extent[3] : a->v.extent[3];
  *t = (tsr_vk_tile){.size = TILE_SIZE, .rows = tiles[i].rows, .blocks = 1, .splits = 1};
  t->parts = (uint32_t)tsr_vk_divide_up(a->v.extent[3], ATTENTION_TILE_SIDE);
  t->groups = widest > LARGE_HEAD ? TILE_GROUPS : 0;
  if (!a->quads || tsr_vk_group_size(caps, TILE_SIZE) < TILE_SIZE || t->parts > ATTENTION_TILE_PARTS ||
      rows_each(i) * t->parts * 4 > MAX_RESULTS || shared_of_tiles(i, a, t->groups) > shared_memory) {
    return 0;
  }
  t->tile_shape = ATTENTION_TILE_SHAPE(rows_each(i), tiles[i].keys / ATTENTION_TILE_SIDE);
  uint64_t groups = a->heads * tsr_vk_divide_up(a->q.extent[1], t->rows);
  split_keys(t, a, tiles[i].keys, wanted_splits(groups, a->k.extent[1]));
  return 1;
}

/* The largest tile that queries fill by more than half, or smaller ones where they are few; TILE_COUNT: none can be
 * had. */
static uint32_t choose_tiles(const tsr_vk_caps *caps, const attention *a, uint32_t shared_memory)
{
  uint32_t chosen = TILE_COUNT;
  tsr_vk_tile t;
  for (uint32_t i = 0; i < TILE_COUNT; ++i) {
    if (!cut_tiled(caps, a, i, shared_memory, &t) || (chosen < TILE_COUNT && tiles[i].rows == tiles[chosen].rows)) {
      continue;
    }
    chosen = i;
    if (2 * a->q.extent[1] > t.rows && a->heads * tsr_vk_divide_up(a->q.extent[1], t.rows) >= FEW_GROUPS) {
      break;
    }
  }
  return chosen;
}

static int choose_tiled(const tsr_vk_caps *caps, const attention *a, tsr_vk_tile *t)
{
  enum { SHARED = 32 << 10 }; /* of which a multiprocessor has room for two workgroups or more */
  uint32_t i = choose_tiles(caps, a, caps->shared_memory < SHARED ? caps->shared_memory : SHARED);
  if (i == TILE_COUNT) {
    i = choose_tiles(caps, a, caps->shared_memory);
  }
  if (i == TILE_COUNT || !cut_tiled(caps, a, i, caps->shared_memory, t)) {
    return TSR_VK_VARIANT_AUTO;
  }
  return TSR_VK_VARIANT_ATTENTION_TILED_64X32 + (int32_t)i;
}

/* How attention_cooperative.comp cuts a tile: subgroups of `lanes` invocations, each with `rows` queries. */
enum {
  COOP_SUBGROUPS = 4,
  COOP_KEYS = 32,
  MAX_COOP_ROWS = 16,
  FEW_COOP_ROWS = 32,
  MAX_COOP_WIDTH = 256,
  MIN_COOP_LANES = 32,
  MAX_COOP_LANES = 64
};

/* Bytes, as attention_cooperative.comp declares them; depth and width: whole shapes. */
static uint64_t shared_of_coop(uint32_t rows, uint32_t depth, uint32_t width)
{
  uint64_t q_and_k = (uint64_t)(rows + COOP_KEYS) * (depth / 8 | 1), v = (uint64_t)COOP_KEYS * (width / 8 | 1);
  uint64_t scores = (uint64_t)rows * (COOP_KEYS / 4 | 1), wild = (uint64_t)rows * (width / 16 + 1);
  return (q_and_k + v + scores) * 16 + wild * 4 + COOP_KEYS * 4 + 16;
}

static int takes_shape(const tsr_vk_shape *shape)
{
  return shape->m <= MAX_COOP_ROWS && shape->n % 8 == 0 && COOP_KEYS % shape->n == 0 && shape->k % 8 == 0 &&
         COOP_KEYS % shape->k == 0 && COOP_KEYS / 8 + shape->n / 4 <= (COOP_KEYS / 4 | 1);
}

static int cut_in_shape(const tsr_vk_caps *caps, const attention *a, const tsr_vk_shape *shape, tsr_vk_tile *t)
{
  enum { USUAL_WIDTH = 128, SUMS = 64, MANY_SUMS = 128, CPU_SUMS = 256 }; /* of an invocation, in registers */
  uint32_t width = a->v.extent[3] * 4;
  const uint32_t most = caps->compute_like_cpu ? CPU_SUMS : width > USUAL_WIDTH ? MANY_SUMS : SUMS;
  if (!takes_shape(shape)) {
    return 0;
  }
  uint32_t lanes = caps->subgroup_sizes[0], rows = shape->m;
  while (lanes < caps->subgroup_sizes[1] && (rows > lanes || rows * width > most * lanes)) {
    lanes *= 2;
  }
  while (rows * 2 <= lanes && rows * 2 <= MAX_COOP_ROWS && rows * 2 * width <= most * lanes) {
    rows *= 2;
  }
  const uint32_t whole_depth = (uint32_t)tsr_vk_divide_up(a->q.extent[3] * 4, shape->k) * shape->k;
  const uint32_t whole_width = (uint32_t)tsr_vk_divide_up(width, shape->n) * shape->n;
  uint32_t subgroups = COOP_SUBGROUPS;
  while (subgroups > 1 && (subgroups / 2 * rows >= a->q.extent[1] || subgroups > caps->max_subgroups ||
                           subgroups * lanes > caps->max_invocations || subgroups * lanes > caps->max_size[0] ||
                           shared_of_coop(subgroups * rows, whole_depth, whole_width) > caps->shared_memory)) {
    subgroups /= 2;
  }
  *t = (tsr_vk_tile){.size = subgroups * lanes, .rows = subgroups * rows, .blocks = 1, .splits = 1, .lanes = lanes};
  /* Where shared memory has room for few of many queries, keys and values are fetched too often. */
  if (t->rows < FEW_COOP_ROWS && t->rows < a->q.extent[1]) {
    return 0;
  }
  /* A query's invocations share its keys in eights. */
  if (rows > lanes || lanes > MAX_COOP_LANES || lanes / rows > COOP_KEYS / 8 || rows * width > most * lanes ||
      shared_of_coop(t->rows, whole_depth, whole_width) > caps->shared_memory) {
    return 0;
  }
  t->shape = THREE_BYTES(shape->m, shape->n, shape->k);
  t->tile_shape = THREE_BYTES(rows, lanes, (uint32_t)COOP_KEYS);
  uint64_t groups = a->heads * tsr_vk_divide_up(a->q.extent[1], t->rows);
  split_keys(t, a, COOP_KEYS, wanted_splits(groups, a->k.extent[1]));
  return 1;
}

/* By the largest shape that can be had. */
static int cut_coop(const tsr_vk_planner *planner, const attention *a, tsr_vk_tile *t)
{
  const tsr_vk_caps *caps = planner->caps;
  /* Where subgroups can be small, a subgroup has no more registers in all, and a tile does not fit into them. */
  if (caps->subgroup_sizes[0] < MIN_COOP_LANES && !caps->compute_like_cpu) {
    return 0;
  }
  if (tsr_vk_attention_factors(planner) == 0 || !a->quads || !caps->subgroup_shuffle ||
      a->v.extent[3] * 4 > MAX_COOP_WIDTH) {
    return 0;
  }
  const tsr_vk_shape *shape = NULL;
  while ((shape = tsr_vk_next_shape(caps, tsr_vk_attention_factors(planner), shape)) != NULL) {
    if (cut_in_shape(caps, a, shape, t)) {
      return 1;
    }
  }
  return 0;
}

static int is_tiled(int32_t variant)
{
  return variant >= TSR_VK_VARIANT_ATTENTION_TILED_64X32 && variant <= TSR_VK_VARIANT_ATTENTION_TILED_16X16;
}

/* Cuts the attention for `variant`. 0 if that cannot be had, or is none of attention. */
static int cut_variant(const tsr_vk_planner *planner, const attention *a, int32_t variant, tsr_vk_tile *t)
{
  const tsr_vk_caps *caps = planner->caps;
  if (variant == TSR_VK_VARIANT_ATTENTION_ROWS) {
    *t = tsr_vk_tile_of(caps, a->q.extent[1], a->v.extent[3]);
    return 1;
  }
  if (planner->line->out[1] != 0) {
    return 0;
  }
  if (is_tiled(variant)) {
    return cut_tiled(caps, a, (uint32_t)(variant - TSR_VK_VARIANT_ATTENTION_TILED_64X32), caps->shared_memory, t);
  }
  return (variant == TSR_VK_VARIANT_ATTENTION_COOP && cut_coop(planner, a, t)) ||
         (variant == TSR_VK_VARIANT_ATTENTION_FEW && cut_few(caps, a, 1, t)) ||
         (variant == TSR_VK_VARIANT_ATTENTION_SPLIT && cut_split(caps, a, 1, t));
}

static tsr_vk_class class_of(const tsr_vk_planner *planner, const attention *a)
{
  enum { REDUCED_PRECISION = 1, MASKED = 2 };
  const tsr_line_desc *line = planner->line;
  return (tsr_vk_class){
      .op = TSR_OP_ATTENTION,
      .field = {tsr_vk_in(planner, 1)->dtype, tsr_vk_bucket(a->q.extent[1]), tsr_vk_bucket(a->k.extent[1]),
                tsr_vk_bucket(a->heads), (int32_t)a->q.extent[3], (int32_t)a->v.extent[3],
                (tsr_vk_has_reduced_precision(planner) ? REDUCED_PRECISION : 0) |
                    (line->attributes.causal || line->in[TSR_VK_SLOT_ADDITIVE] != 0 ? MASKED : 0)},
  };
}

/* A CPU's driver may give up on a shader after 65535 rounds of its loops (tsr_vk_reduce_size): those of a workgroup
 * over the keys, and for each chunk of them over the depth and the chunk. */
static int is_too_long(const tsr_vk_caps *caps, const attention *a)
{
  enum { MOST_ROUNDS = 40000 };
  const tsr_vk_tile t = tsr_vk_tile_of(caps, a->q.extent[1], a->v.extent[3]);
  return tsr_vk_divide_up(a->k.extent[1], t.size) * ((uint64_t)a->q.extent[3] + 2 * t.size) > MOST_ROUNDS;
}

static int32_t choose(const tsr_vk_planner *planner, const attention *a, tsr_vk_tile *t)
{
  enum { FEW_QUERIES = 8 };
  const tsr_vk_caps *caps = planner->caps;
  const int32_t tuned = tsr_vk_tuning_find(caps->tuning, &planner->plan->class);
  if (cut_variant(planner, a, caps->forced, t)) {
    return caps->forced;
  }
  if (cut_variant(planner, a, tuned, t)) {
    return tuned;
  }
  int32_t variant = TSR_VK_VARIANT_AUTO;
  int others = planner->line->out[1] == 0 && !caps->compute_like_cpu;
  if (caps->compute_like_cpu && is_too_long(caps, a) && cut_variant(planner, a, TSR_VK_VARIANT_ATTENTION_SPLIT, t)) {
    return TSR_VK_VARIANT_ATTENTION_SPLIT;
  }
  if (others && a->q.extent[1] > FEW_QUERIES) {
    variant = cut_coop(planner, a, t) ? TSR_VK_VARIANT_ATTENTION_COOP : choose_tiled(caps, a, t);
  }
  if (variant == TSR_VK_VARIANT_AUTO && others && a->q.extent[1] <= FEW_QUERIES && cut_few(caps, a, 0, t)) {
    variant = TSR_VK_VARIANT_ATTENTION_FEW;
  }
  if (variant == TSR_VK_VARIANT_AUTO && others && cut_split(caps, a, 0, t)) {
    variant = TSR_VK_VARIANT_ATTENTION_SPLIT;
  }
  if (variant == TSR_VK_VARIANT_AUTO) {
    *t = tsr_vk_tile_of(caps, a->q.extent[1], a->v.extent[3]);
    variant = TSR_VK_VARIANT_ATTENTION_ROWS;
  }
  return variant;
}

/* 1 if attention_few.comp can multiply the results by the weights of planner->output: a plain product, whose columns
 * lie one behind another. */
static int takes_output(const tsr_vk_planner *planner, const attention *a, const tsr_vk_tile *t)
{
  const tsr_line_desc *line = planner->line, *output = planner->output;
  const tsr_tensor_desc *weights = tsr_vk_tensor(planner, output->in[1]);
  const tsr_vk_view b = tsr_vk_view_of(weights);
  const uint32_t depth = a->q.extent[2] * a->v.extent[3] * 4, width = weights->dtype == TSR_F32 ? 4 : 8;
  int plain = planner->plan->variant == TSR_VK_VARIANT_ATTENTION_FEW && t->splits == 1 && line->out[1] == 0 &&
              line->out[2] == 0 && line->in[TSR_VK_SLOT_SEED] == 0 && output->in[3] == 0 &&
              output->attributes.activation == TSR_ACTIVATION_NONE && output->attributes.alpha == 1.0f;
  plain = plain && (weights->dtype == TSR_F32 || weights->dtype == TSR_F16 || weights->dtype == TSR_BF16) &&
          b.offset == 0 && b.extent[0] * b.extent[1] == 1 && b.extent[2] == depth && b.stride[2] == 1 &&
          b.stride[3] == depth && b.extent[3] % 4 == 0 && b.extent[3] <= OUTPUT_COLUMNS(UINT32_MAX) &&
          a->v.extent[3] * 4 % width == 0;
  if (!plain || output->in[2] == 0) {
    return plain;
  }
  const tsr_vk_view bias = tsr_vk_view_of(tsr_vk_tensor(planner, output->in[2]));
  return bias.offset == 0 && bias.extent[0] * bias.extent[1] == 1 && bias.stride[3] == 1 &&
         (bias.extent[2] == 1 || bias.stride[2] == 0);
}

/* The operands of the output, what the kernel is to know of it, and the workgroups that share its columns. */
static void plan_output(tsr_vk_planner *planner, tsr_vk_dispatch *dispatch, tsr_vk_tile *t)
{
  const tsr_line_desc *output = planner->output;
  tsr_vk_write(dispatch, TSR_VK_SCRATCH);
  tsr_vk_read(dispatch, output->in[2] != 0 ? output->in[2] : planner->line->in[0]);
  tsr_vk_read(dispatch, output->in[1]);
  const tsr_tensor_desc *weights = tsr_vk_tensor(planner, output->in[1]);
  t->blocks = (uint32_t)tsr_vk_divide_up(tsr_vk_view_of(weights).extent[3], FEW_SIZE);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_few_output_shape,
              tsr_vk_view_of(weights).extent[3] | (uint32_t)weights->dtype << 24 |
                  (output->in[2] != 0 ? OUTPUT_BIAS : 0));
}

/* Puts together what the splits left in scratch. */
static int plan_combine(tsr_vk_planner *planner, uint32_t rows, uint32_t splits, uint32_t partial_at)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_view y = tsr_vk_view_of(tsr_vk_out(planner, 0));
  tsr_vk_attention_combine_push push = {
      .queries = y.extent[1],
      .heads = y.extent[2],
      .width = y.extent[3],
      .rows = rows,
      .splits = splits,
      .partial_at = partial_at,
      .sums = line->out[2] != 0,
  };
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, TSR_VK_SHADER_ATTENTION_COMBINE, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, TSR_VK_SCRATCH);
  tsr_vk_write(dispatch, line->out[0]);
  tsr_vk_write(dispatch, line->out[2] != 0 ? line->out[2] : line->out[0]);
  dispatch->after = 1;
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_set_size(dispatch, size);
  uint64_t invocations = (uint64_t)rows * (push.width > 0 ? push.width : 1);
  dispatch->work = 4.0 * (double)invocations * splits;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(invocations, size));
}

/* The constants that follow from the operands' shapes and the tile. */
static void spec_attention(const tsr_vk_planner *planner, tsr_vk_dispatch *dispatch, const attention *a,
                           const tsr_vk_tile *t)
{
  const uint32_t k_type = (uint32_t)tsr_vk_in(planner, 1)->dtype, v_type = (uint32_t)tsr_vk_in(planner, 2)->dtype;
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_depth, a->q.extent[3]);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_width, a->v.extent[3]);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_alpha_bits, tsr_vk_bits_of(planner->line->attributes.alpha));
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_heads, a->q.extent[2]);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_kv_types, ATTENTION_KV_TYPES(k_type, v_type));
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_split_keys, t->split_keys);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_sharing, a->k.extent[2] > 0 ? a->q.extent[2] / a->k.extent[2] : 1);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_softcap_bits, tsr_vk_bits_of(planner->line->attributes.softcap));
  if (planner->plan->variant == TSR_VK_VARIANT_ATTENTION_COOP) {
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_cooperative_shape, t->shape);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_cooperative_tile_shape, t->tile_shape);
  } else if (planner->plan->variant == TSR_VK_VARIANT_ATTENTION_FEW) {
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_few_tile_rows, t->rows);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_few_key_lanes, lanes_of(a->q.extent[3]));
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_few_value_lanes, lanes_of(a->v.extent[3]));
  } else if (is_tiled(planner->plan->variant)) {
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_tiled_tile_shape, t->tile_shape);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_tiled_parts, t->parts);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_tiled_tile_groups, t->groups);
  } else {
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_rows_tile_rows, t->rows);
    tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_rows_parts, t->parts);
  }
}

int tsr_vk_plan_attention(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_view views[3] = {tsr_vk_view_in(planner, 0), tsr_vk_view_in(planner, 1), tsr_vk_view_in(planner, 2)};
  tsr_vk_view additive = tsr_vk_view_in(planner, TSR_VK_SLOT_ADDITIVE),
              index = tsr_vk_view_in(planner, TSR_VK_SLOT_ROWS);
  int quads = tsr_vk_attention_quads(views, 3);
  attention a = {.q = views[0], .k = views[1], .v = views[2], .quads = quads};
  a.heads = (uint64_t)a.q.extent[0] * a.q.extent[2];
  uint32_t depth = a.q.extent[3], width = a.v.extent[3], bits_at = 0;
  tsr_vk_masking masking;
  if (!tsr_vk_plan_weights(planner, &a.q, a.k.extent[1], &masking, &bits_at)) {
    return 0;
  }
  tsr_vk_tile t;
  planner->plan->class = class_of(planner, &a);
  planner->plan->variant = choose(planner, &a, &t);
  uint64_t rows = a.heads * a.q.extent[1];
  uint32_t partial_at = 0;
  if (t.splits > 1) {
    partial_at = tsr_vk_reserve(planner, t.splits * split_words(&a));
  }
  if (planner->output != NULL) {
    if (!takes_output(planner, &a, &t)) {
      return 0;
    }
    const uint64_t columns = tsr_vk_view_of(tsr_vk_tensor(planner, planner->output->in[1])).extent[3];
    partial_at = (tsr_vk_reserve(planner, rows * columns + 3) + 3) / 4 * 4;
    planner->output_at = partial_at;
  }
  if (planner->leaves_halves != 0) {
    if (planner->leaves_halves != tsr_vk_attention_factors(planner) ||
        planner->plan->variant != TSR_VK_VARIANT_ATTENTION_COOP || t.splits > 1 || line->out[2] != 0) {
      return 0;
    }
    partial_at = tsr_vk_reserve(planner, rows * width * 2);
    planner->halves_at = partial_at;
    planner->are_halves_seen = 1;
  }

  tsr_vk_attention_push push = {
      .queries = a.q.extent[1],
      .keys = a.k.extent[1],
      .batch = a.q.extent[0],
      .q_offset = a.q.offset,
      .k_offset = a.k.offset,
      .v_offset = a.v.offset,
      .additive_offset = additive.offset,
      .index_offset = index.offset,
      .index_stride = {index.stride[2], index.stride[3]},
      .k_rows = a.k.extent[0],
      .lengths_offset = masking.lengths_offset,
      .lengths_stride = masking.lengths_stride,
      .position_offset = masking.position_offset,
      .position_stride = masking.position_stride,
      .reach = masking.reach,
  };
  memcpy(push.q_stride, a.q.stride, sizeof push.q_stride);
  memcpy(push.k_stride, a.k.stride, sizeof push.k_stride);
  memcpy(push.v_stride, a.v.stride, sizeof push.v_stride);
  memcpy(push.additive_stride, additive.stride, sizeof push.additive_stride);

  int32_t shader = tsr_vk_attention_shader(TSR_VK_SHADER_ATTENTION, &t, a.quads);
  if (is_tiled(planner->plan->variant)) {
    shader = TSR_VK_SHADER_ATTENTION_TILED;
  }
  if (planner->plan->variant == TSR_VK_VARIANT_ATTENTION_FEW) {
    shader = planner->output != NULL ? TSR_VK_SHADER_ATTENTION_FEW_OUTPUT : TSR_VK_SHADER_ATTENTION_FEW;
  }
  if (planner->plan->variant == TSR_VK_VARIANT_ATTENTION_COOP) {
    shader = tsr_vk_attention_factors(planner) == TSR_BF16 ? TSR_VK_SHADER_ATTENTION_COOPERATIVE_BF16
                                                           : TSR_VK_SHADER_ATTENTION_COOPERATIVE;
  }
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, shader, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  for (int32_t slot = 0; slot < 3; ++slot) {
    tsr_vk_read(dispatch, line->in[slot]);
  }
  tsr_vk_read_in(planner, dispatch, TSR_VK_SLOT_ADDITIVE);
  tsr_vk_read_in(planner, dispatch, TSR_VK_SLOT_ROWS);
  int drops = line->in[TSR_VK_SLOT_SEED] != 0;
  tsr_vk_read_masking(planner, dispatch, TSR_VK_SLOT_ADDITIVE, &masking, drops);
  if (planner->output != NULL) {
    plan_output(planner, dispatch, &t);
  }
  for (int32_t i = 0; planner->output == NULL && i < 3; ++i) {
    const int in_scratch = t.splits > 1 || planner->leaves_halves != 0;
    tsr_vk_write(dispatch, in_scratch ? TSR_VK_SCRATCH : line->out[i] != 0 ? line->out[i] : line->out[0]);
  }
  tsr_vk_set_size(dispatch, t.size);
  spec_attention(planner, dispatch, &a, &t);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_options,
              masking.present | (line->in[TSR_VK_SLOT_ROWS] != 0 ? ATTENTION_INDEXED : 0) |
                  (line->out[1] != 0 ? ATTENTION_WEIGHTS : 0) | (drops ? ATTENTION_DROPOUT : 0) |
                  (line->out[2] != 0 ? ATTENTION_SUMS : 0) | (planner->leaves_halves != 0 ? ATTENTION_HALVES : 0));
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_scale_bits,
              tsr_vk_bits_of(drops ? tsr_vk_dropout_scale(line->attributes.rate) : 1.0f));
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_bits_at, bits_at);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_attention_partial_at, partial_at);
  dispatch->subgroup_size = t.lanes;
  dispatch->work = 2.0 * (double)rows * push.keys * (depth + width) * (a.quads ? 4 : 1);
  if (planner->output != NULL) {
    dispatch->work = dispatch->work * t.blocks + 8.0 * (double)rows * width * t.blocks * FEW_SIZE;
  }
  uint64_t groups = a.heads * t.splits * t.blocks * tsr_vk_divide_up(push.queries, t.rows);
  return tsr_vk_finish(planner, dispatch, groups) &&
         (t.splits == 1 || plan_combine(planner, (uint32_t)rows, t.splits, partial_at));
}

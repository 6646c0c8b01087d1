/* SPDX-License-Identifier: Apache-2.0
 *
 * attention and its gradient (shaders/attention_delta.comp, attention_gradient.comp). Forms of attention:
 *
 *   rows   attention.comp        a subgroup per workgroup; any strides and sizes, and the only one that gives the weights
 *   split  attention.comp        the same for few queries: their keys are shared out among workgroups, and what those
 *                                found is put together by attention_combine.comp
 *   tiled  attention_tiled.comp  many queries: tiles of queries and keys in shared memory; splits, too, where there
 *                                are too few tiles
 *   coop   attention_cooperative.comp  the same by cooperative matrices of f16, where the line is narrow
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
_Static_assert(sizeof(attention_push) == TSR_VK_PUSH_ATTENTION_TILED, "push constants of attention_tiled.comp");
_Static_assert(sizeof(attention_push) == TSR_VK_PUSH_ATTENTION_COOPERATIVE,
               "push constants of attention_cooperative.comp");
_Static_assert(sizeof(attention_push) <= TSR_VK_MAX_PUSH, "push constants of attention.comp");

typedef struct combine_push {
  uint32_t queries;
  uint32_t heads;
  uint32_t width;
  uint32_t rows;
  uint32_t splits;
  uint32_t partial_at;
  uint32_t sums;
} combine_push;
_Static_assert(sizeof(combine_push) == TSR_VK_PUSH_ATTENTION_COMBINE, "push constants of attention_combine.comp");

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
enum { GRADIENT_TILE_ROWS = 4 }; /* more spill where registers are few, and leave room for few workgroups elsewhere */
enum { FEW_TILE_ROWS = 4 };      /* compiled faster, which with a CPU's driver is part of every start */

/* How a workgroup is cut: `rows` queries (or keys), a number of parts of the last axis. */
typedef struct tile {
  int subgroup; /* 1: it is one subgroup */
  uint32_t size;
  uint32_t rows;
  uint32_t parts;
  uint32_t blocks;     /* workgroups that share the last axis */
  uint32_t splits;     /* of attention: workgroups that share the keys */
  uint32_t split_keys; /* keys of each of these; 0 if there is one */
  uint32_t lanes;      /* of a subgroup, where the form asks for that many; else 0 */
  uint32_t spec[2];    /* of attention: constants 5 and 6 of the form's shader */
} tile;

static tile tile_of(const tsr_vk_caps *caps, uint32_t rows, uint32_t width)
{
  uint32_t most_rows = caps->compute_like_cpu ? FEW_TILE_ROWS : MAX_TILE_ROWS;
  tile t = {.rows = 1, .splits = 1};
  t.size = tsr_vk_reduce_size(caps, MAX_SIZE, &t.subgroup);
  /* Where subgroups can be narrow, a thread's registers are divided among its lanes: a tile for each of 32 does not fit. */
  const int is_crowded = !caps->compute_like_cpu && caps->subgroup_sizes[0] < 32;
  if (t.subgroup && (is_crowded || !caps->subgroup_shuffle || (t.size & (t.size - 1)) != 0 || t.size > 32)) {
    t.subgroup = 0;
    t.size = tsr_vk_group_size(caps, caps->compute_like_cpu ? 32 : MAX_SIZE); /* the largest subgroup, at least */
  }
  while (t.rows < most_rows && t.rows < rows && (!t.subgroup || t.rows < t.size)) {
    t.rows *= 2;
  }
  t.parts = (uint32_t)tsr_vk_divide_up(width, t.size);
  t.parts = t.parts == 0 ? 1 : t.parts > MAX_PARTS ? MAX_PARTS : t.parts;
  t.blocks = width == 0 ? 1 : (uint32_t)tsr_vk_divide_up(width, (uint64_t)t.size * t.parts);
  t.spec[0] = t.rows;
  t.spec[1] = t.parts;
  return t;
}

/* Makes n views count groups of four along their last axis, if all can. */
static int in_quads(tsr_vk_view *views, int32_t n)
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
  if (!tsr_vk_plan_masking(planner, SLOT_ADDITIVE, q->extent[2], masking) || masking->bias_offset != 0) {
    return 0;
  }
  uint64_t rows = (uint64_t)q->extent[0] * q->extent[1] * q->extent[2];
  return planner->line->in[SLOT_SEED] == 0 || tsr_vk_plan_dropout_bits(planner, SLOT_SEED, rows, keys, bits_at);
}

/* An attention, as its forms take it: views with quads count groups of four along their last axis. */
typedef struct attention {
  tsr_vk_view q;
  tsr_vk_view k;
  tsr_vk_view v;
  int quads;
  uint64_t heads; /* of all sentences */
} attention;

enum { PARTIAL_WORDS = 4 }; /* in scratch, of a query and a split, beside its part of y */

/* Words of scratch that each split takes. */
static uint64_t split_words(const attention *a)
{
  return a->heads * a->q.extent[1] * (PARTIAL_WORDS + (uint64_t)a->v.extent[3] * (a->quads ? 4 : 1));
}

/* Shares the keys out, in whole multiples of step, among at most `wanted` workgroups. */
static void split_keys(tile *t, const attention *a, uint32_t step, uint64_t wanted)
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
static int cut_split(const tsr_vk_caps *caps, const attention *a, int forced, tile *t)
{
  *t = tile_of(caps, a->q.extent[1], a->v.extent[3]);
  uint64_t groups = a->heads * t->blocks * tsr_vk_divide_up(a->q.extent[1], t->rows);
  split_keys(t, a, t->size, forced ? UINT64_MAX : wanted_splits(groups, a->k.extent[1]));
  return t->splits > 1;
}

/* The tiles of attention_tiled.comp: a workgroup's queries and keys, largest first. Eight invocations share a query. */
enum { TILE_SIDE = 8, TILE_SIZE = 128, MAX_TILE_PARTS = 8, MAX_RESULTS = 64 };
static const struct {
  uint32_t rows;
  uint32_t keys;
} tiles[] = {{64, 32}, {32, 32}, {32, 16}, {16, 32}, {16, 16}};
enum { TILE_COUNT = sizeof tiles / sizeof *tiles };
_Static_assert(TSR_VK_FORM_ATTENTION_TILED_16X16 - TSR_VK_FORM_ATTENTION_TILED_64X32 + 1 == TILE_COUNT,
               "forms of attention's tiles");

static uint32_t rows_each(uint32_t i)
{
  return tiles[i].rows * TILE_SIDE / TILE_SIZE;
}

/* Bytes, as attention_tiled.comp declares them. */
static uint64_t shared_of_tiles(uint32_t i, uint32_t depth, uint32_t width)
{
  enum { WEIGHT_PITCH = 9 };
  uint64_t rows = tiles[i].rows, keys = tiles[i].keys;
  uint64_t groups = rows * (depth | 1) + keys * ((depth > width ? depth : width) | 1) + rows * WEIGHT_PITCH + rows * 2;
  return groups * 16 + 16;
}

/* shared_memory: bytes that the tiles may take. 0 if they cannot be had. */
static int cut_tiled(const tsr_vk_caps *caps, const attention *a, uint32_t i, uint32_t shared_memory, tile *t)
{
  uint32_t depth = a->q.extent[3], width = a->v.extent[3];
  *t = (tile){.size = TILE_SIZE, .rows = tiles[i].rows, .blocks = 1, .splits = 1};
  t->parts = (uint32_t)tsr_vk_divide_up(width, TILE_SIDE);
  if (!a->quads || tsr_vk_group_size(caps, TILE_SIZE) < TILE_SIZE || t->parts > MAX_TILE_PARTS ||
      rows_each(i) * t->parts * 4 > MAX_RESULTS || shared_of_tiles(i, depth, width) > shared_memory) {
    return 0;
  }
  t->spec[0] = rows_each(i) | tiles[i].keys / TILE_SIDE << 4;
  t->spec[1] = t->parts;
  uint64_t groups = a->heads * tsr_vk_divide_up(a->q.extent[1], t->rows);
  split_keys(t, a, tiles[i].keys, wanted_splits(groups, a->k.extent[1]));
  return 1;
}

/* The largest tile that queries fill by more than half, or smaller ones where they are few; TILE_COUNT: none can be had. */
static uint32_t choose_tiles(const tsr_vk_caps *caps, const attention *a, uint32_t shared_memory)
{
  uint32_t chosen = TILE_COUNT;
  tile t;
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

static int choose_tiled(const tsr_vk_caps *caps, const attention *a, tile *t)
{
  enum { SHARED = 32 << 10 }; /* of which a multiprocessor has room for two workgroups or more */
  uint32_t i = choose_tiles(caps, a, caps->shared_memory < SHARED ? caps->shared_memory : SHARED);
  if (i == TILE_COUNT) {
    i = choose_tiles(caps, a, caps->shared_memory);
  }
  if (i == TILE_COUNT || !cut_tiled(caps, a, i, caps->shared_memory, t)) {
    return TSR_VK_FORM_AUTO;
  }
  return TSR_VK_FORM_ATTENTION_TILED_64X32 + (int32_t)i;
}

/* How attention_cooperative.comp cuts a tile: subgroups of `lanes` invocations, each with `rows` queries. */
enum {
  COOP_SUBGROUPS = 4,
  COOP_KEYS = 32,
  MAX_COOP_ROWS = 16,
  MAX_COOP_WIDTH = 128,
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

static int cut_in_shape(const tsr_vk_caps *caps, const attention *a, const tsr_vk_shape *shape, tile *t)
{
  enum { MAX_SUMS = 64 }; /* of an invocation, in registers */
  uint32_t width = a->v.extent[3] * 4;
  if (!takes_shape(shape)) {
    return 0;
  }
  uint32_t lanes = caps->subgroup_sizes[0], rows = shape->m;
  while (lanes < caps->subgroup_sizes[1] && (rows > lanes || rows * width > MAX_SUMS * lanes)) {
    lanes *= 2;
  }
  while (rows * 2 <= lanes && rows * 2 <= MAX_COOP_ROWS && rows * 2 * width <= MAX_SUMS * lanes) {
    rows *= 2;
  }
  uint32_t subgroups = COOP_SUBGROUPS;
  while (subgroups > 1 && (subgroups / 2 * rows >= a->q.extent[1] || subgroups > caps->max_subgroups ||
                           subgroups * lanes > caps->max_invocations || subgroups * lanes > caps->max_size[0])) {
    subgroups /= 2;
  }
  *t = (tile){.size = subgroups * lanes, .rows = subgroups * rows, .blocks = 1, .splits = 1, .lanes = lanes};
  uint64_t whole_depth = tsr_vk_divide_up(a->q.extent[3] * 4, shape->k) * shape->k;
  uint64_t whole_width = tsr_vk_divide_up(width, shape->n) * shape->n;
  /* A query's invocations share its keys in eights. */
  if (rows > lanes || lanes > MAX_COOP_LANES || lanes / rows > COOP_KEYS / 8 || rows * width > MAX_SUMS * lanes ||
      shared_of_coop(t->rows, (uint32_t)whole_depth, (uint32_t)whole_width) > caps->shared_memory) {
    return 0;
  }
  t->spec[0] = shape->m | shape->n << 8 | shape->k << 16;
  t->spec[1] = rows | lanes << 8 | (uint32_t)COOP_KEYS << 16;
  uint64_t groups = a->heads * tsr_vk_divide_up(a->q.extent[1], t->rows);
  split_keys(t, a, COOP_KEYS, wanted_splits(groups, a->k.extent[1]));
  return 1;
}

/* By the largest shape that can be had. */
static int cut_coop(const tsr_vk_planner *planner, const attention *a, tile *t)
{
  const tsr_vk_caps *caps = planner->caps;
  /* Where subgroups can be small, a subgroup has no more registers in all, and a tile does not fit into them. */
  if (caps->subgroup_sizes[0] < MIN_COOP_LANES && !caps->compute_like_cpu) {
    return 0;
  }
  if (!tsr_vk_is_narrow(planner) || !a->quads || !caps->subgroup_shuffle || a->v.extent[3] * 4 > MAX_COOP_WIDTH) {
    return 0;
  }
  const tsr_vk_shape *shape = NULL;
  while ((shape = tsr_vk_next_shape(caps, TSR_VK_SHAPE_F16, shape)) != NULL) {
    if (cut_in_shape(caps, a, shape, t)) {
      return 1;
    }
  }
  return 0;
}

static int is_tiled(int32_t form)
{
  return form >= TSR_VK_FORM_ATTENTION_TILED_64X32 && form <= TSR_VK_FORM_ATTENTION_TILED_16X16;
}

/* Cuts the attention for `form`. 0 if that cannot be had, or is none of attention. */
static int cut_form(const tsr_vk_planner *planner, const attention *a, int32_t form, tile *t)
{
  const tsr_vk_caps *caps = planner->caps;
  if (form == TSR_VK_FORM_ATTENTION_ROWS) {
    *t = tile_of(caps, a->q.extent[1], a->v.extent[3]);
    return 1;
  }
  if (planner->line->out[1] != 0) {
    return 0;
  }
  if (is_tiled(form)) {
    return cut_tiled(caps, a, (uint32_t)(form - TSR_VK_FORM_ATTENTION_TILED_64X32), caps->shared_memory, t);
  }
  return (form == TSR_VK_FORM_ATTENTION_COOP && cut_coop(planner, a, t)) ||
         (form == TSR_VK_FORM_ATTENTION_SPLIT && cut_split(caps, a, 1, t));
}

static tsr_vk_class class_of(const tsr_vk_planner *planner, const attention *a)
{
  enum { NARROW = 1, MASKED = 2 };
  const tsr_line_desc *line = planner->line;
  return (tsr_vk_class){
      .op = TSR_OP_ATTENTION,
      .field = {tsr_vk_in(planner, 1)->dtype, tsr_vk_bucket(a->q.extent[1]), tsr_vk_bucket(a->k.extent[1]),
                tsr_vk_bucket(a->heads), (int32_t)a->q.extent[3], (int32_t)a->v.extent[3],
                (tsr_vk_is_narrow(planner) ? NARROW : 0) |
                    (line->attributes.causal || line->in[SLOT_ADDITIVE] != 0 ? MASKED : 0)},
  };
}

/* A CPU's driver may give up on a shader after 65535 rounds of its loops (kernel_rows.c): those of a workgroup over the keys,
 * and for each chunk of them over the depth and the chunk. */
static int is_too_long(const tsr_vk_caps *caps, const attention *a)
{
  enum { MOST_ROUNDS = 40000 };
  const tile t = tile_of(caps, a->q.extent[1], a->v.extent[3]);
  return tsr_vk_divide_up(a->k.extent[1], t.size) * ((uint64_t)a->q.extent[3] + 2 * t.size) > MOST_ROUNDS;
}

static int32_t choose(const tsr_vk_planner *planner, const attention *a, tile *t)
{
  enum { FEW_QUERIES = 8 };
  const tsr_vk_caps *caps = planner->caps;
  const int32_t tuned = tsr_vk_tuning_find(caps->tuning, &planner->plan->class);
  if (cut_form(planner, a, caps->forced, t)) {
    return caps->forced;
  }
  if (cut_form(planner, a, tuned, t)) {
    return tuned;
  }
  int32_t form = TSR_VK_FORM_AUTO;
  int others = planner->line->out[1] == 0 && !caps->compute_like_cpu;
  if (caps->compute_like_cpu && is_too_long(caps, a) && cut_form(planner, a, TSR_VK_FORM_ATTENTION_SPLIT, t)) {
    return TSR_VK_FORM_ATTENTION_SPLIT;
  }
  if (others && a->q.extent[1] > FEW_QUERIES) {
    form = cut_coop(planner, a, t) ? TSR_VK_FORM_ATTENTION_COOP : choose_tiled(caps, a, t);
  }
  if (form == TSR_VK_FORM_AUTO && others && cut_split(caps, a, 0, t)) {
    form = TSR_VK_FORM_ATTENTION_SPLIT;
  }
  if (form == TSR_VK_FORM_AUTO) {
    *t = tile_of(caps, a->q.extent[1], a->v.extent[3]);
    form = TSR_VK_FORM_ATTENTION_ROWS;
  }
  return form;
}

/* Puts together what the splits left in scratch. */
static int plan_combine(tsr_vk_planner *planner, uint32_t rows, uint32_t splits, uint32_t partial_at)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_view y = tsr_vk_view_of(tsr_vk_out(planner, 0));
  combine_push push = {
      .queries = y.extent[1],
      .heads = y.extent[2],
      .width = y.extent[3],
      .rows = rows,
      .splits = splits,
      .partial_at = partial_at,
      .sums = line->out[2] != 0,
  };
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, TSR_VK_VARIANT_ATTENTION_COMBINE, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, TSR_VK_SCRATCH);
  tsr_vk_write(dispatch, line->out[0]);
  tsr_vk_write(dispatch, line->out[2] != 0 ? line->out[2] : line->out[0]);
  dispatch->after = 1;
  uint32_t size = tsr_vk_group_size(planner->caps, 64);
  tsr_vk_spec(dispatch, size);
  tsr_vk_spec(dispatch, 1);
  uint64_t invocations = (uint64_t)rows * (push.width > 0 ? push.width : 1);
  dispatch->work = 4.0 * (double)invocations * splits;
  return tsr_vk_finish(planner, dispatch, tsr_vk_divide_up(invocations, size));
}

int tsr_vk_plan_attention(tsr_vk_planner *planner)
{
  const tsr_line_desc *line = planner->line;
  tsr_vk_view views[3] = {tsr_vk_view_in(planner, 0), tsr_vk_view_in(planner, 1), tsr_vk_view_in(planner, 2)};
  tsr_vk_view additive = tsr_vk_view_in(planner, SLOT_ADDITIVE), index = tsr_vk_view_in(planner, SLOT_ROWS);
  int quads = in_quads(views, 3);
  attention a = {.q = views[0], .k = views[1], .v = views[2], .quads = quads};
  a.heads = (uint64_t)a.q.extent[0] * a.q.extent[2];
  uint32_t depth = a.q.extent[3], width = a.v.extent[3], bits_at = 0;
  tsr_vk_masking masking;
  if (!plan_weights(planner, &a.q, a.k.extent[1], &masking, &bits_at)) {
    return 0;
  }
  tile t;
  planner->plan->class = class_of(planner, &a);
  planner->plan->form = choose(planner, &a, &t);
  uint64_t rows = a.heads * a.q.extent[1];
  uint32_t partial_at = 0;
  if (t.splits > 1) {
    partial_at = tsr_vk_reserve(planner, t.splits * split_words(&a));
  }

  attention_push push = {
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

  int32_t variant = variant_of(TSR_VK_VARIANT_ATTENTION, &t, a.quads);
  if (is_tiled(planner->plan->form)) {
    variant = TSR_VK_VARIANT_ATTENTION_TILED;
  }
  if (planner->plan->form == TSR_VK_FORM_ATTENTION_COOP) {
    variant = TSR_VK_VARIANT_ATTENTION_COOPERATIVE;
  }
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, variant, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  for (int32_t slot = 0; slot < 3; ++slot) {
    tsr_vk_read(dispatch, line->in[slot]);
  }
  tsr_vk_read_in(planner, dispatch, SLOT_ADDITIVE);
  tsr_vk_read_in(planner, dispatch, SLOT_ROWS);
  int drops = line->in[SLOT_SEED] != 0;
  tsr_vk_read_masking(planner, dispatch, SLOT_ADDITIVE, &masking, drops);
  for (int32_t i = 0; i < 3; ++i) {
    tsr_vk_write(dispatch, t.splits > 1 ? TSR_VK_SCRATCH : line->out[i] != 0 ? line->out[i] : line->out[0]);
  }
  const uint32_t specs[] = {
      t.size,
      1,
      masking.present | (line->in[SLOT_ROWS] != 0 ? INDEXED : 0) | (line->out[1] != 0 ? WEIGHTS : 0) |
          (drops ? DROPOUT : 0) | (line->out[2] != 0 ? SUMS : 0),
      depth,
      width,
      t.spec[0],
      t.spec[1],
      bits_of(line->attributes.alpha),
      a.q.extent[2],
      bits_of(drops ? tsr_vk_dropout_scale(line->attributes.rate) : 1.0f),
      bits_at,
      (uint32_t)tsr_vk_in(planner, 1)->dtype | (uint32_t)tsr_vk_in(planner, 2)->dtype << 4,
      t.split_keys,
      partial_at,
  };
  for (size_t i = 0; i < sizeof specs / sizeof *specs; ++i) {
    tsr_vk_spec(dispatch, specs[i]);
  }
  dispatch->subgroup_size = t.lanes;
  dispatch->work = 2.0 * (double)rows * push.keys * (depth + width) * (a.quads ? 4 : 1);
  uint64_t groups = a.heads * t.splits * t.blocks * tsr_vk_divide_up(push.queries, t.rows);
  return tsr_vk_finish(planner, dispatch, groups) &&
         (t.splits == 1 || plan_combine(planner, (uint32_t)rows, t.splits, partial_at));
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
  if (push.count == 0) {
    return 1;
  }
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, TSR_VK_VARIANT_ATTENTION_DELTA, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  for (int32_t slot = SLOT_Y; slot <= SLOT_LSE; ++slot) {
    tsr_vk_read(dispatch, line->in[slot]);
  }
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
  t.rows = t.rows < GRADIENT_TILE_ROWS ? t.rows : GRADIENT_TILE_ROWS;
  if (own->extent[1] == 0) {
    return 1;
  }
  for (int32_t i = 0; i < 4; ++i) {
    push.side[i].offset = views[side[i]].offset;
    memcpy(push.side[i].stride, views[side[i]].stride, sizeof push.side[i].stride);
  }
  tsr_vk_dispatch *dispatch =
      tsr_vk_add(planner, variant_of(TSR_VK_VARIANT_ATTENTION_GRADIENT, &t, quads), &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  for (int32_t i = 0; i < 4; ++i) {
    tsr_vk_read(dispatch, line->in[slots[side[i]]]);
  }
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
  for (int32_t i = 0; i < 4; ++i) {
    tsr_vk_spec(dispatch, views[side[i]].stride[3]);
  }
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
  if (heads == 0) {
    return 1;
  }
  if (!plan_weights(planner, q, keys, &masking, &bits_at)) {
    return 0;
  }
  uint32_t stats_at = tsr_vk_reserve(planner, 2 * heads * q->extent[1]) / 2;
  if (planner->plan->scratch_bytes / 4 > INT32_MAX || !plan_delta(planner, stats_at)) {
    return 0;
  }
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

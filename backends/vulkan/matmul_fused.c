/* SPDX-License-Identifier: Apache-2.0
 *
 * shaders/matmul_fused.comp: a product with few rows, the norm before it, and the appends behind it. Each stage of a
 * decoding step that need not be one saves a GPU some microseconds, as long as the product itself takes. With weights
 * of i8 the same kernel quantises the rows, of a product that stands alone, too.
 */
#include "shaders/contract/matmul_fused.h"
#include "backends/vulkan/matmul.h"

#include <stddef.h>

enum {
  MAX_COLUMNS = 8192, /* beyond, the rows of the norm are made too many times */
  SIZE = 128,
  LANES = 32, /* that share a column, where subgroups cannot be had */
  MANY_LANES = 16384,
  WIDE_SUBGROUP = 32,
  SHARED = 24 << 10 /* of which a multiprocessor has room for several workgroups */
};

/* A line that appends a slice of the product's columns to a cache, as the kernel takes it. */
typedef struct cache {
  uint32_t from; /* the first column */
  uint32_t columns;
  tsr_vk_view state; /* of its axes row, position, column: strides and extents 0, 1, 3 */
} cache;

/* 1 if the tensor's elements lie one after another, in whole groups of four. */
static int is_whole(const tsr_tensor_desc *tensor)
{
  const tsr_vk_view view = tsr_vk_view_of(tensor);
  return tensor->dtype == TSR_F32 && tsr_vk_contiguous(&view) && tensor->offset % 4 == 0;
}

/* 1 if the tensor is one row of `depth` elements for each of several, alike. */
static int is_one_row(const tsr_tensor_desc *tensor, uint32_t depth)
{
  const tsr_vk_view view = tsr_vk_view_of(tensor);
  int alike = tensor->dtype == TSR_F32 && view.extent[3] == depth && view.stride[3] == 1 && view.offset % 4 == 0;
  for (int32_t i = 0; i < 3; ++i) {
    alike &= view.extent[i] == 1 || view.stride[i] == 0;
  }
  return alike;
}

/* From the addend's row to the next, in groups of four. */
static uint32_t addend_stride(const tsr_vk_planner *planner, const tsr_vk_product *p)
{
  const int32_t addend = planner->around->addend;
  if (addend == TSR_VK_SCRATCH) {
    return planner->around->parts * (p->depth / 4);
  }
  return addend != 0 && is_whole(tsr_vk_tensor(planner, addend)) ? p->depth / 4 : 0;
}

static uint32_t quads_offset(const tsr_vk_planner *planner, int32_t tensor)
{
  return tensor != 0 ? (uint32_t)tsr_vk_tensor(planner, tensor)->offset / 4 : 0;
}

/* Elements of the tensor of weights in 16 bytes. */
static uint32_t elements_of(const tsr_vk_planner *planner)
{
  const int32_t dtype = tsr_vk_in(planner, 1)->dtype;
  return dtype == TSR_I8 ? 16 : dtype == TSR_F32 ? 4 : 8;
}

/* Weights in 16 bytes. */
static uint32_t width_of(const tsr_vk_planner *planner, const tsr_vk_product *p)
{
  return p->four_bits ? 32 : elements_of(planner);
}

/* One position of each row is appended, whose heads lie as in the product's row. */
static int is_cache(const tsr_vk_planner *planner, const tsr_vk_product *p, const tsr_line_desc *line, cache *c)
{
  const tsr_tensor_desc *x = tsr_vk_tensor(planner, line->in[0]), *state = tsr_vk_tensor(planner, line->out[0]);
  const int64_t from = x->offset - tsr_vk_tensor(planner, p->y)->offset;
  int64_t columns = 1, inner = 1;
  if (line->in[1] == 0 || x->dtype != TSR_F32 || x->rank != state->rank || x->rank < 3 || x->extent[1] != 1 ||
      x->extent[0] != p->rows || (p->rows > 1 && x->stride[0] != p->columns)) {
    return 0;
  }
  for (int32_t i = x->rank - 1; i >= 2; --i) {
    if (x->extent[i] > 1 && (x->stride[i] != inner || state->stride[i] != inner)) {
      return 0;
    }
    inner *= x->extent[i];
    columns *= x->extent[i];
  }
  if (from < 0 || from + columns > p->columns || (from | columns) % 2 != 0 ||
      (state->offset | state->stride[0] | state->stride[1]) % 2 != 0) {
    return 0;
  }
  *c = (cache){.from = (uint32_t)from, .columns = (uint32_t)columns};
  c->state.offset = (uint32_t)state->offset;
  c->state.extent[1] = (uint32_t)state->extent[1];
  c->state.stride[0] = (uint32_t)state->stride[0];
  c->state.stride[1] = (uint32_t)state->stride[1];
  return 1;
}

static int same_view(const tsr_tensor_desc *a, const tsr_tensor_desc *b)
{
  return a->storage == b->storage && a->offset == b->offset && a->extent[0] == b->extent[0] &&
         a->stride[0] == b->stride[0];
}

/* The caches of keys and values: alike but for where they begin. *keys has no columns where there are none. */
static int has_caches(const tsr_vk_planner *planner, const tsr_vk_product *p, cache *keys, cache *values)
{
  const tsr_vk_around *around = planner->around;
  *keys = *values = (cache){.columns = 0};
  if (around->keys == NULL) {
    return 1;
  }
  return is_cache(planner, p, around->keys, keys) && is_cache(planner, p, around->values, values) &&
         same_view(tsr_vk_tensor(planner, around->keys->in[1]), tsr_vk_tensor(planner, around->values->in[1])) &&
         keys->columns == values->columns && keys->state.extent[1] == values->state.extent[1] &&
         keys->state.stride[0] == values->state.stride[0] && keys->state.stride[1] == values->state.stride[1] &&
         tsr_vk_tensor(planner, around->keys->out[0])->dtype == tsr_vk_tensor(planner, around->values->out[0])->dtype;
}

static int is_within_kernel(const tsr_vk_planner *planner, const tsr_vk_product *p)
{
  const tsr_vk_around *around = planner->around;
  const int32_t gain = around->norm != NULL ? around->norm->in[1] : 0;
  const int32_t norm_bias = around->norm != NULL && around->norm->op == TSR_OP_LAYERNORM ? around->norm->in[2] : 0;
  const int32_t quads[] = {around->x, around->sum, around->normed, gain, norm_bias};
  for (size_t i = 0; i < sizeof quads / sizeof quads[0]; ++i) {
    if (quads[i] != 0 && !is_whole(tsr_vk_tensor(planner, quads[i]))) {
      return 0;
    }
  }
  if (around->addend > 0 && !is_whole(tsr_vk_tensor(planner, around->addend)) &&
      !is_one_row(tsr_vk_tensor(planner, around->addend), p->depth)) {
    return 0;
  }
  const tsr_tensor_desc *b = tsr_vk_in(planner, 1);
  /* The kernel for weights of i8 has one operand for both of what is kept. */
  const int suits = p->quantised ? around->sum == 0 || around->normed == 0
                                 : (b->dtype == TSR_F32 || b->dtype == TSR_F16 || b->dtype == TSR_BF16) &&
                                       (p->rows == 1 || p->bias.stride[2] == 0);
  return suits && p->batch == 1 && p->rows <= tsr_vk_few_rows(planner->caps) && p->columns <= MAX_COLUMNS &&
         p->depth > 0 && p->b.stride[2] == 1 && p->depth % width_of(planner, p) == 0 &&
         (p->b.offset | p->b.stride[3]) % elements_of(planner) == 0 &&
         tsr_vk_elements(tsr_vk_tensor(planner, around->x)) == (uint64_t)p->rows * p->depth;
}

/* Invocations of a subgroup of which a workgroup can have several, not wider than it need be; 0: it cannot. */
static uint32_t subgroup_of(const tsr_vk_caps *caps)
{
  const uint32_t size = tsr_vk_narrow_subgroup(caps);
  return size > 0 && size <= SIZE && SIZE / size <= caps->max_subgroups ? size : 0;
}

/* Whether the kernel with subgroups suits the device better than the one without. That of the product alone may be
 * forced. */
static int wants_subgroups(const tsr_vk_caps *caps)
{
  enum { WANTED = 16 };
  switch (caps->forced) {
  case TSR_VK_VARIANT_MATMUL_VECTOR:
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR:
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR_DOT:
    return 0;
  case TSR_VK_VARIANT_MATMUL_VECTOR_SUBGROUP:
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR_SUBGROUP:
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR_SUBGROUP_DOT:
    return 1;
  default:
    return subgroup_of(caps) >= WANTED;
  }
}

static int wants_dot(const tsr_vk_caps *caps)
{
  switch (caps->forced) {
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR:
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR_SUBGROUP:
    return 0;
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR_DOT:
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR_SUBGROUP_DOT:
    return caps->dot;
  default:
    return caps->fast_dot;
  }
}

typedef struct tile {
  uint32_t rows;
  uint32_t columns;
  uint32_t loads;
  uint32_t lanes; /* that share a column */
} tile;

/* Bytes, as matmul_fused.comp declares them. */
static uint64_t shared_of(const tsr_vk_planner *planner, const tsr_vk_product *p, const tile *t, int subgroups)
{
  const uint64_t quads = p->depth / 4;
  const uint64_t quantised = p->quantised ? t->rows * (quads * 4 + 4) + SIZE * 4 : 0;
  const uint64_t normed = p->quantised && planner->around->norm == NULL ? 16 : t->rows * quads * 16;
  return normed + quantised + SIZE * 4 + FUSED_MAX_ROWS * 8 + (uint64_t)t->rows * t->columns * 4 +
         (subgroups ? 0 : (uint64_t)t->loads * SIZE * 4);
}

static void spec_around(tsr_vk_planner *planner, tsr_vk_dispatch *dispatch, const cache *keys, const cache *values)
{
  const tsr_vk_around *around = planner->around;
  const tsr_line_desc *norm = around->norm;
  const int has_bias = norm != NULL && norm->op == TSR_OP_LAYERNORM && norm->in[2] != 0;
  const uint32_t parts = (uint32_t)planner->line->attributes.activation | (norm != NULL ? FUSED_NORM : 0) |
                         (has_bias ? FUSED_NORM_BIAS : 0) | (around->addend != 0 ? FUSED_ADDEND : 0) |
                         (around->sum != 0 ? FUSED_KEEPS_SUM : 0) | (around->normed != 0 ? FUSED_KEEPS_NORM : 0) |
                         (planner->line->in[2] != 0 ? FUSED_BIAS : 0) | (planner->addend != 0 ? FUSED_RESIDUAL : 0);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_parts, parts);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_norm_kind, norm != NULL ? tsr_vk_norm_kind(norm) : NORM_PLAIN);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_epsilon_bits,
              tsr_vk_bits_of(norm != NULL ? norm->attributes.epsilon : 0.0f));
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_keys_from, keys->from);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_values_from, values->from);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_cache_columns, keys->columns);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_cache_type,
              around->keys != NULL ? (uint32_t)tsr_vk_tensor(planner, around->keys->out[0])->dtype : TYPE_F32);
}

/* The operands in the kernel's order; one that is absent is stood in for by one that is there. */
static void add_operands(tsr_vk_planner *planner, tsr_vk_dispatch *dispatch)
{
  const tsr_vk_around *around = planner->around;
  const tsr_line_desc *line = planner->line, *norm = around->norm;
  const int32_t x = around->x, y = line->out[0];
  const int32_t gain = norm != NULL ? norm->in[1] : 0;
  const int32_t norm_bias = norm != NULL && norm->op == TSR_OP_LAYERNORM ? norm->in[2] : 0;
  const int32_t position = around->keys != NULL ? around->keys->in[1] : 0;
  tsr_vk_read(dispatch, x);
  tsr_vk_read(dispatch, line->in[1]);
  tsr_vk_read(dispatch, line->in[2] != 0 ? line->in[2] : x);
  tsr_vk_write(dispatch, y);
  tsr_vk_read(dispatch, around->addend != 0 ? around->addend : planner->addend != 0 ? planner->addend : x);
  tsr_vk_read(dispatch, gain != 0 ? gain : x);
  tsr_vk_read(dispatch, norm_bias != 0 ? norm_bias : x);
  if (line->in[3] != 0) {
    tsr_vk_write(dispatch, around->sum != 0 ? around->sum : around->normed != 0 ? around->normed : y);
    tsr_vk_read(dispatch, line->in[3]);
  } else {
    tsr_vk_write(dispatch, around->sum != 0 ? around->sum : y);
    tsr_vk_write(dispatch, around->normed != 0 ? around->normed : y);
  }
  tsr_vk_write(dispatch, around->keys != NULL ? around->keys->out[0] : y);
  tsr_vk_write(dispatch, around->values != NULL ? around->values->out[0] : y);
  tsr_vk_read(dispatch, position != 0 ? position : x);
}

static tsr_vk_matmul_fused_push push_of(const tsr_vk_planner *planner, const tsr_vk_product *p, const cache *keys,
                                        const cache *values)
{
  const tsr_vk_around *around = planner->around;
  const tsr_line_desc *norm = around->norm;
  const uint32_t elements = elements_of(planner);
  tsr_vk_matmul_fused_push push = {
      .rows = p->rows,
      .columns = p->columns,
      .x_offset = quads_offset(planner, around->x),
      .addend_offset = around->addend == TSR_VK_SCRATCH ? around->parts_at / 4 : quads_offset(planner, around->addend),
      .addend_stride = addend_stride(planner, p),
      .addend_parts = around->addend == TSR_VK_SCRATCH ? around->parts : 1,
      .part_stride = p->depth / 4,
      .gain_offset = norm != NULL ? quads_offset(planner, norm->in[1]) : 0,
      .norm_bias_offset = norm != NULL && norm->op == TSR_OP_LAYERNORM ? quads_offset(planner, norm->in[2]) : 0,
      .weight_offset = p->b.offset / elements,
      .weight_stride = p->b.stride[3] / elements,
      .bias_offset = p->bias.offset,
      .bias_stride = p->bias.stride[3],
      .alpha = planner->line->attributes.alpha,
      .keys_offset = keys->state.offset,
      .values_offset = values->state.offset,
      .cache_row_stride = keys->state.stride[0],
      .cache_stride = keys->state.stride[1],
      .cache_positions = keys->state.extent[1],
      .bias_row_stride = p->bias.stride[2],
      .scales_offset = p->scales.offset,
      .scales_stride = p->scales.stride[3],
      .scales_group_stride = p->scales.stride[2],
      .residual_offset = planner->addend != 0 ? (uint32_t)tsr_vk_tensor(planner, planner->addend)->offset : 0,
  };
  if (around->keys != NULL) {
    const tsr_vk_view position = tsr_vk_view_of(tsr_vk_tensor(planner, around->keys->in[1]));
    push.position_offset = position.offset;
    push.position_stride = position.stride[3];
  }
  return push;
}

static int32_t shader_of(const tsr_vk_product *p, int subgroups, int dot)
{
  if (!p->quantised) {
    return subgroups ? TSR_VK_SHADER_MATMUL_FUSED_SUBGROUPS : TSR_VK_SHADER_MATMUL_FUSED;
  }
  if (dot) {
    return subgroups ? TSR_VK_SHADER_MATMUL_FUSED_I8_SUBGROUPS_DOT : TSR_VK_SHADER_MATMUL_FUSED_I8_DOT;
  }
  return subgroups ? TSR_VK_SHADER_MATMUL_FUSED_I8_SUBGROUPS : TSR_VK_SHADER_MATMUL_FUSED_I8;
}

/* The tile for which there is shared memory, of at least `least_rows`; of 0 rows: there is none. */
static tile choose_tile(const tsr_vk_planner *planner, const tsr_vk_product *p, int subgroups, uint32_t least_rows)
{
  const tsr_vk_caps *caps = planner->caps;
  const uint32_t shared = caps->shared_memory < SHARED ? caps->shared_memory : SHARED;
  tile t = {.rows = 1, .loads = 4, .lanes = subgroups ? subgroup_of(caps) : LANES};
  while (t.loads > 1 && (uint64_t)p->columns * t.lanes / t.loads < MANY_LANES) {
    t.loads /= 2;
  }
  t.columns = SIZE / t.lanes * t.loads;
  while (t.rows < p->rows && t.rows < FUSED_MAX_ROWS) {
    t.rows *= 2;
  }
  while (t.rows > 0 && shared_of(planner, p, &t, subgroups) > shared) {
    t.rows /= 2;
  }
  return t.rows >= least_rows ? t : (tile){.rows = 0};
}

static int plan(tsr_vk_planner *planner, const tsr_vk_product *p, int subgroups, int dot, uint32_t least_rows)
{
  const tsr_vk_caps *caps = planner->caps;
  cache keys, values;
  if (caps->compute_like_cpu || tsr_vk_group_size(caps, SIZE) != SIZE || (subgroups && subgroup_of(caps) == 0) ||
      !is_within_kernel(planner, p) || !has_caches(planner, p, &keys, &values)) {
    return 0;
  }
  const tile t = choose_tile(planner, p, subgroups, least_rows);
  if (t.rows == 0) {
    return 0;
  }
  /* Loads on their way: twice as many where subgroups are wide, and registers enough. */
  const uint32_t in_flight = caps->subgroup_sizes[0] >= WIDE_SUBGROUP ? 8 : 4;
  uint32_t steps = 1;
  while (steps * t.loads < in_flight && steps * t.lanes * width_of(planner, p) < p->depth) {
    steps *= 2;
  }
  tsr_vk_matmul_fused_push push = push_of(planner, p, &keys, &values);
  push.row_tiles = (uint32_t)tsr_vk_divide_up(p->rows, t.rows);
  push.groups = push.row_tiles * (uint32_t)tsr_vk_divide_up(p->columns, t.columns);
  const uint32_t push_bytes = p->quantised ? sizeof push : offsetof(tsr_vk_matmul_fused_push, bias_row_stride);
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, shader_of(p, subgroups, dot), &push, push_bytes);
  if (dispatch == NULL) {
    return 0;
  }
  planner->is_added = planner->addend != 0;
  add_operands(planner, dispatch);
  tsr_vk_set_size(dispatch, SIZE);
  dispatch->subgroup_size = subgroups ? t.lanes : 0;
  dispatch->after = planner->around->addend == TSR_VK_SCRATCH;
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_weight_type,
              p->four_bits ? TYPE_I4 : (uint32_t)tsr_vk_in(planner, 1)->dtype);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_tile_rows, t.rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_loads, t.loads);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_size, SIZE);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_depth_lanes, t.lanes);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_quads, p->depth / 4);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_steps, steps);
  spec_around(planner, dispatch, &keys, &values);
  dispatch->work = 2.0 * (double)p->rows * p->columns * p->depth;
  dispatch->tile[0] = t.rows;
  dispatch->tile[1] = t.columns;
  return tsr_vk_finish(planner, dispatch, push.groups);
}

int tsr_vk_plan_fused(tsr_vk_planner *planner, const tsr_vk_product *p)
{
  const tsr_vk_caps *caps = planner->caps;
  const int subgroups = wants_subgroups(caps) && subgroup_of(caps) > 0;
  return plan(planner, p, subgroups, wants_dot(caps), 1);
}

int32_t tsr_vk_choose_i8_fused(const tsr_vk_caps *caps)
{
  if (wants_subgroups(caps)) {
    return caps->fast_dot ? TSR_VK_VARIANT_MATMUL_I8_FUSED_SUBGROUPS_DOT : TSR_VK_VARIANT_MATMUL_I8_FUSED_SUBGROUPS;
  }
  return caps->fast_dot ? TSR_VK_VARIANT_MATMUL_I8_FUSED_DOT : TSR_VK_VARIANT_MATMUL_I8_FUSED;
}

/* Of as many rows as a workgroup takes: those of a second one would read all weights anew. */
int tsr_vk_plan_i8_fused(tsr_vk_planner *planner, const tsr_vk_product *p, int32_t variant)
{
  const int subgroups =
      variant == TSR_VK_VARIANT_MATMUL_I8_FUSED_SUBGROUPS || variant == TSR_VK_VARIANT_MATMUL_I8_FUSED_SUBGROUPS_DOT;
  const int dot =
      variant == TSR_VK_VARIANT_MATMUL_I8_FUSED_DOT || variant == TSR_VK_VARIANT_MATMUL_I8_FUSED_SUBGROUPS_DOT;
  const tsr_vk_around nothing = {.x = planner->line->in[0]};
  if (dot && !planner->caps->dot) {
    return 0;
  }
  planner->around = &nothing;
  const int planned = plan(planner, p, subgroups, dot, p->rows);
  planner->around = NULL;
  return planned;
}

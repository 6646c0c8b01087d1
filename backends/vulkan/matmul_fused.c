/* SPDX-License-Identifier: Apache-2.0
 *
 * shaders/matmul_fused.comp: a product with few rows, the norm before it, and the appends behind it. Each stage of a
 * decoding step that need not be one saves a GPU some microseconds, as long as the product itself takes.
 */
#include "shaders/contract/matmul_fused.h"
#include "backends/vulkan/matmul.h"

enum {
  MAX_COLUMNS = 8192, /* beyond, the rows of the norm are made too many times */
  SIZE = 128,
  LANES = 32, /* that share a column, where subgroups cannot be had */
  MANY_LANES = 16384,
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
  const uint32_t width = b->dtype == TSR_F32 ? 4 : 8;
  return p->batch == 1 && p->rows <= tsr_vk_few_rows(planner->caps) && p->columns <= MAX_COLUMNS && p->depth > 0 &&
         !p->quantised && (b->dtype == TSR_F32 || b->dtype == TSR_F16 || b->dtype == TSR_BF16) && p->b.stride[2] == 1 &&
         (p->depth | p->b.offset | p->b.stride[3]) % width == 0 && (p->rows == 1 || p->bias.stride[2] == 0) &&
         tsr_vk_elements(tsr_vk_tensor(planner, around->x)) == (uint64_t)p->rows * p->depth;
}

/* Invocations of a subgroup of which a workgroup can have several, not wider than it need be; 0: the kernel without
 * subgroups suits the device better. That of the product alone may be forced. */
static uint32_t subgroup_of(const tsr_vk_caps *caps)
{
  enum { WANTED = 16 };
  const uint32_t size = tsr_vk_narrow_subgroup(caps);
  const int suits = caps->forced == TSR_VK_VARIANT_MATMUL_VECTOR_SUBGROUP ||
                    (caps->forced != TSR_VK_VARIANT_MATMUL_VECTOR && size >= WANTED);
  return suits && size > 0 && size <= SIZE && SIZE / size <= caps->max_subgroups ? size : 0;
}

/* Bytes, as matmul_fused.comp declares them. */
static uint64_t shared_of(uint32_t tile_rows, uint32_t quads, uint32_t loads, uint32_t tile_columns, int subgroups)
{
  return (uint64_t)tile_rows * quads * 16 + SIZE * 4 + (uint64_t)tile_rows * tile_columns * 4 +
         (subgroups ? 0 : (uint64_t)loads * SIZE * 4);
}

static void spec_around(tsr_vk_planner *planner, tsr_vk_dispatch *dispatch, const cache *keys, const cache *values)
{
  const tsr_vk_around *around = planner->around;
  const tsr_line_desc *norm = around->norm;
  const int has_bias = norm != NULL && norm->op == TSR_OP_LAYERNORM && norm->in[2] != 0;
  const uint32_t parts = (uint32_t)planner->line->attributes.activation | (norm != NULL ? FUSED_NORM : 0) |
                         (has_bias ? FUSED_NORM_BIAS : 0) | (around->addend != 0 ? FUSED_ADDEND : 0) |
                         (around->sum != 0 ? FUSED_KEEPS_SUM : 0) | (around->normed != 0 ? FUSED_KEEPS_NORM : 0) |
                         (planner->line->in[2] != 0 ? FUSED_BIAS : 0);
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
  tsr_vk_read(dispatch, around->addend != 0 ? around->addend : x);
  tsr_vk_read(dispatch, gain != 0 ? gain : x);
  tsr_vk_read(dispatch, norm_bias != 0 ? norm_bias : x);
  tsr_vk_write(dispatch, around->sum != 0 ? around->sum : y);
  tsr_vk_write(dispatch, around->normed != 0 ? around->normed : y);
  tsr_vk_write(dispatch, around->keys != NULL ? around->keys->out[0] : y);
  tsr_vk_write(dispatch, around->values != NULL ? around->values->out[0] : y);
  tsr_vk_read(dispatch, position != 0 ? position : x);
}

static tsr_vk_matmul_fused_push push_of(const tsr_vk_planner *planner, const tsr_vk_product *p, const cache *keys,
                                        const cache *values)
{
  const tsr_vk_around *around = planner->around;
  const tsr_line_desc *norm = around->norm;
  const uint32_t width = tsr_vk_in(planner, 1)->dtype == TSR_F32 ? 4 : 8;
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
      .weight_offset = p->b.offset / width,
      .weight_stride = p->b.stride[3] / width,
      .bias_offset = p->bias.offset,
      .bias_stride = p->bias.stride[3],
      .alpha = planner->line->attributes.alpha,
      .keys_offset = keys->state.offset,
      .values_offset = values->state.offset,
      .cache_row_stride = keys->state.stride[0],
      .cache_stride = keys->state.stride[1],
      .cache_positions = keys->state.extent[1],
  };
  if (around->keys != NULL) {
    const tsr_vk_view position = tsr_vk_view_of(tsr_vk_tensor(planner, around->keys->in[1]));
    push.position_offset = position.offset;
    push.position_stride = position.stride[3];
  }
  return push;
}

int tsr_vk_plan_fused(tsr_vk_planner *planner, const tsr_vk_product *p)
{
  const tsr_vk_caps *caps = planner->caps;
  cache keys, values;
  if (caps->compute_like_cpu || tsr_vk_group_size(caps, SIZE) != SIZE || !is_within_kernel(planner, p) ||
      !has_caches(planner, p, &keys, &values)) {
    return 0;
  }
  const uint32_t quads = p->depth / 4, width = tsr_vk_in(planner, 1)->dtype == TSR_F32 ? 4 : 8;
  const uint32_t subgroup = subgroup_of(caps), lanes = subgroup != 0 ? subgroup : LANES;
  uint32_t loads = 4, steps = 1, tile_rows = 1;
  while (loads > 1 && (uint64_t)p->columns * lanes / loads < MANY_LANES) {
    loads /= 2;
  }
  while (steps * loads < 4 && steps * lanes * width < p->depth) {
    steps *= 2;
  }
  while (tile_rows < p->rows && tile_rows < FUSED_MAX_ROWS) {
    tile_rows *= 2;
  }
  const uint32_t tile_columns = SIZE / lanes * loads;
  const uint32_t shared = caps->shared_memory < SHARED ? caps->shared_memory : SHARED;
  while (tile_rows > 1 && shared_of(tile_rows, quads, loads, tile_columns, subgroup != 0) > shared) {
    tile_rows /= 2;
  }
  if (shared_of(tile_rows, quads, loads, tile_columns, subgroup != 0) > shared) {
    return 0;
  }
  tsr_vk_matmul_fused_push push = push_of(planner, p, &keys, &values);
  push.row_tiles = (uint32_t)tsr_vk_divide_up(p->rows, tile_rows);
  push.groups = push.row_tiles * (uint32_t)tsr_vk_divide_up(p->columns, tile_columns);
  tsr_vk_dispatch *dispatch = tsr_vk_add(
      planner, subgroup != 0 ? TSR_VK_SHADER_MATMUL_FUSED_SUBGROUPS : TSR_VK_SHADER_MATMUL_FUSED, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  add_operands(planner, dispatch);
  tsr_vk_set_size(dispatch, SIZE);
  dispatch->subgroup_size = subgroup;
  dispatch->after = planner->around->addend == TSR_VK_SCRATCH;
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_weight_type, (uint32_t)tsr_vk_in(planner, 1)->dtype);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_tile_rows, tile_rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_loads, loads);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_size, SIZE);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_depth_lanes, lanes);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_quads, quads);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_fused_steps, steps);
  spec_around(planner, dispatch, &keys, &values);
  dispatch->work = 2.0 * (double)p->rows * p->columns * p->depth;
  dispatch->tile[0] = tile_rows;
  dispatch->tile[1] = tile_columns;
  return tsr_vk_finish(planner, dispatch, push.groups);
}

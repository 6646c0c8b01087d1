/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul: which form of product suits the device and the strides, and its tiles.
 *
 *   plain    matmul_plain.comp    long loops, no shared memory: devices that a CPU executes
 *   tiled    matmul_tiled.comp    register tiles over shared memory: GPUs
 *   vector   matmul_vector.comp   few rows: invocations side by side along k
 *   generic  matmul_generic.comp  any strides
 */
#include "backends/vulkan/kernel_common.h"

#include <string.h>

typedef struct matmul_push {
  uint32_t rows;
  uint32_t columns;
  uint32_t depth;
  uint32_t inner_batch;
  uint32_t a_offset;
  uint32_t a_stride[4];
  uint32_t b_offset;
  uint32_t b_stride[4];
  uint32_t bias_offset;
  uint32_t bias_stride[4];
  float alpha;
  uint32_t row_tiles;
  uint32_t column_tiles;
} matmul_push;
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_GENERIC, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_PLAIN_ANY_STRIDE, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_TILED, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_VECTOR, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_PLAIN, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_PLAIN_BY_ROW, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_PLAIN_BY_COLUMN, "push constants of lib/product.glsl");

enum { HAS_BIAS = 8 };

/* A product, as a form takes it: the last two axes of a are m and k, of b k and n, of bias m and n. */
typedef struct product {
  tsr_vk_view a;
  tsr_vk_view b;
  tsr_vk_view bias;
  uint32_t rows;
  uint32_t columns;
  uint32_t depth;
  uint64_t batch;
  int32_t y; /* the result's tensor, or TSR_VK_SCRATCH */
} product;

/* Adds the dispatch once the form is chosen: tiles of tile_rows x tile_columns results. */
static tsr_vk_dispatch *add(tsr_vk_planner *planner, int32_t variant, const product *p, uint32_t tile_rows,
                            uint32_t tile_columns, uint32_t size)
{
  const tsr_line_desc *line = planner->line;
  matmul_push push = {
      .rows = p->rows,
      .columns = p->columns,
      .depth = p->depth,
      .inner_batch = p->a.extent[1],
      .a_offset = p->a.offset,
      .b_offset = p->b.offset,
      .bias_offset = p->bias.offset,
      .alpha = line->attributes.alpha,
      .row_tiles = (uint32_t)tsr_vk_divide_up(p->rows, tile_rows),
      .column_tiles = (uint32_t)tsr_vk_divide_up(p->columns, tile_columns),
  };
  memcpy(push.a_stride, p->a.stride, sizeof push.a_stride);
  memcpy(push.b_stride, p->b.stride, sizeof push.b_stride);
  memcpy(push.bias_stride, p->bias.stride, sizeof push.bias_stride);
  planner->plan->n_dispatches = 0; /* of a form that could not be had */
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, variant, &push, sizeof push);
  if (dispatch == NULL)
    return NULL;
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[1]);
  tsr_vk_read_in(planner, dispatch, 2);
  tsr_vk_write(dispatch, p->y);
  tsr_vk_spec(dispatch, size);
  tsr_vk_spec(dispatch, 1);
  tsr_vk_spec(dispatch, (uint32_t)tsr_vk_in(planner, 1)->dtype);
  tsr_vk_spec(dispatch, (uint32_t)line->attributes.activation | (line->in[2] != 0 ? HAS_BIAS : 0));
  dispatch->work = 2.0 * (double)p->batch * p->rows * p->columns * p->depth;
  return tsr_vk_finish(planner, dispatch, p->batch * push.row_tiles * push.column_tiles) ? dispatch : NULL;
}

static int plan_plain(tsr_vk_planner *planner, product p)
{
  const tsr_vk_caps *caps = planner->caps;
  uint32_t lanes = caps->subgroup_size;
  if (!caps->subgroup_shuffle || lanes < 4 || (lanes & (lanes - 1)) != 0 || lanes > caps->max_size[0])
    return 0;
  if (p.depth == 0)
    return 0;
  int32_t variant = TSR_VK_VARIANT_MATMUL_PLAIN_ANY_STRIDE;
  uint32_t tile_rows = 1, tile_columns = 2;
  tsr_vk_view a = p.a, b = p.b, a_columns = p.a;
  if (p.depth % 4 == 0 && tsr_vk_in_quads(&a, 3)) {
    if (tsr_vk_in_quads(&b, 2)) {
      variant = TSR_VK_VARIANT_MATMUL_PLAIN;
    } else if (p.columns % 4 == 0 && tsr_vk_in_quads(&b, 3)) {
      variant = TSR_VK_VARIANT_MATMUL_PLAIN_BY_ROW;
      tile_columns = 4;
    }
  } else if (p.rows % 4 == 0 && p.columns % 4 == 0 && tsr_vk_in_quads(&a_columns, 2) && tsr_vk_in_quads(&b, 3)) {
    variant = TSR_VK_VARIANT_MATMUL_PLAIN_BY_COLUMN;
    a = a_columns;
    tile_rows = 4;
    tile_columns = 4;
  }
  if (variant != TSR_VK_VARIANT_MATMUL_PLAIN_ANY_STRIDE) {
    p.a = a;
    p.b = b;
  }
  uint32_t most_rows = variant == TSR_VK_VARIANT_MATMUL_PLAIN_BY_COLUMN ? 4 * lanes : lanes;
  while (tile_rows < most_rows && tile_rows < 8 && tile_rows < p.rows)
    tile_rows *= 2;
  tsr_vk_dispatch *dispatch = add(planner, variant, &p, tile_rows, lanes * tile_columns, lanes);
  if (dispatch == NULL)
    return 0;
  tsr_vk_spec(dispatch, tile_rows);
  tsr_vk_spec(dispatch, lanes);
  tsr_vk_spec(dispatch, tile_columns);
  return 1;
}

enum { SIDE = 16, MAX_TILE = 4, FEW_GROUPS = 64 };

static int plan_tiled(tsr_vk_planner *planner, const product *p)
{
  if (tsr_vk_group_size(planner->caps, SIDE * SIDE) < SIDE * SIDE)
    return 0;
  uint32_t tile = MAX_TILE;
  while (tile > 1 &&
         p->batch * tsr_vk_divide_up(p->rows, SIDE * tile) * tsr_vk_divide_up(p->columns, SIDE * tile) < FEW_GROUPS)
    tile /= 2;
  tsr_vk_dispatch *dispatch = add(planner, TSR_VK_VARIANT_MATMUL_TILED, p, SIDE * tile, SIDE * tile, SIDE * SIDE);
  if (dispatch == NULL)
    return 0;
  tsr_vk_spec(dispatch, tile);
  tsr_vk_spec(dispatch, p->a.stride[2] == 1 && p->a.stride[3] != 1);
  tsr_vk_spec(dispatch, p->b.stride[2] == 1 && p->b.stride[3] != 1);
  return 1;
}

/* A deep product with a small result (the gradient of weights) has too few tiles for a large device: parts of the depth
 * become a batch in scratch, and are summed by a second dispatch. */
static int plan_tiled_by_parts(tsr_vk_planner *planner, product p)
{
  enum { MIN_DEPTH = 256, MAX_PARTS = 16 };
  const tsr_line_desc *line = planner->line;
  uint64_t tiles = tsr_vk_divide_up(p.rows, SIDE * MAX_TILE) * tsr_vk_divide_up(p.columns, SIDE * MAX_TILE);
  uint32_t parts = 1;
  while (parts < MAX_PARTS && tiles * parts < 2 * FEW_GROUPS && p.depth % (parts * 2) == 0 &&
         p.depth / (parts * 2) >= MIN_DEPTH)
    parts *= 2;
  if (parts == 1 || p.batch != 1 || line->in[2] != 0 || line->attributes.activation != TSR_ACTIVATION_NONE)
    return 0;
  p.depth /= parts;
  p.batch = parts;
  p.a.extent[1] = parts;
  p.a.stride[1] = p.depth * p.a.stride[3];
  p.b.stride[1] = p.depth * p.b.stride[2];
  p.y = TSR_VK_SCRATCH;
  uint32_t at = tsr_vk_reserve(planner, (uint64_t)parts * p.rows * p.columns);
  return plan_tiled(planner, &p) && tsr_vk_add_sums_of_parts(planner, at, parts, p.rows * p.columns, line->out[0]);
}

static int plan_vector(tsr_vk_planner *planner, const product *p)
{
  enum { SIZE = 128, MAX_SUMS = 16, MAX_TILE_ROWS = 8 };
  uint32_t size = tsr_vk_group_size(planner->caps, SIZE);
  uint32_t along_depth = p->b.stride[2] == 1 && p->b.stride[3] != 1;
  uint32_t depth_lanes = along_depth ? 32 : 8, tile_rows = p->rows < MAX_TILE_ROWS ? p->rows : MAX_TILE_ROWS;
  uint32_t tile_columns = along_depth && tile_rows * 2 <= MAX_SUMS ? 2 : 1;
  if (size < depth_lanes)
    return 0;
  tsr_vk_dispatch *dispatch =
      add(planner, TSR_VK_VARIANT_MATMUL_VECTOR, p, tile_rows, size / depth_lanes * tile_columns, size);
  if (dispatch == NULL)
    return 0;
  tsr_vk_spec(dispatch, tile_rows);
  tsr_vk_spec(dispatch, tile_columns);
  tsr_vk_spec(dispatch, depth_lanes);
  tsr_vk_spec(dispatch, along_depth);
  return 1;
}

static int plan_generic(tsr_vk_planner *planner, const product *p)
{
  uint32_t size = tsr_vk_group_size(planner->caps, 64), tile_rows = p->rows < 4 ? p->rows : 4;
  tsr_vk_dispatch *dispatch = add(planner, TSR_VK_VARIANT_MATMUL_GENERIC, p, tile_rows, size, size);
  if (dispatch == NULL)
    return 0;
  tsr_vk_spec(dispatch, tile_rows);
  return 1;
}

int tsr_vk_plan_matmul(tsr_vk_planner *planner)
{
  product p = {
      .a = tsr_vk_view_in(planner, 0),
      .b = tsr_vk_view_in(planner, 1),
      .bias = tsr_vk_view_in(planner, 2),
  };
  p.rows = p.a.extent[2];
  p.columns = p.b.extent[3];
  p.depth = p.a.extent[3];
  p.batch = (uint64_t)p.a.extent[0] * p.a.extent[1];
  p.y = planner->line->out[0];
  enum { FEW_ROWS = 8 };
  int32_t form = planner->caps->matmul;
  if (form == TSR_VK_MATMUL_AUTO)
    form = planner->caps->compute_like_cpu ? TSR_VK_MATMUL_PLAIN
           : p.rows <= FEW_ROWS            ? TSR_VK_MATMUL_VECTOR
                                           : TSR_VK_MATMUL_TILED;
  if ((form == TSR_VK_MATMUL_PLAIN && plan_plain(planner, p)) ||
      (form == TSR_VK_MATMUL_TILED && (plan_tiled_by_parts(planner, p) || plan_tiled(planner, &p))) ||
      (form == TSR_VK_MATMUL_VECTOR && plan_vector(planner, &p)))
    return 1;
  return plan_generic(planner, &p);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the variants of the matrix product share: the dispatch of a product (shaders/lib/product.glsl), the sisters that
 * leave candidates instead of results (shaders/lib/product_topk.glsl), and the depth in parts
 * (shaders/matmul_parts.comp).
 */
#include "backends/vulkan/matmul.h"
#include "shaders/contract/held.h"
#include "shaders/contract/matmul_cooperative.h"
#include "shaders/contract/matmul_i8_tiled.h"
#include "shaders/contract/product.h"

#include <stddef.h>
#include <string.h>

static tsr_vk_product_push push_of(const tsr_vk_planner *planner, const tsr_vk_product *p)
{
  tsr_vk_product_push push = {
      .rows = p->rows,
      .columns = p->columns,
      .depth = p->depth,
      .inner_batch = p->a.extent[1],
      .a_offset = p->a.offset,
      .b_offset = p->b.offset,
      .bias_offset = p->bias.offset,
      .residual_offset = planner->addend != 0 ? (uint32_t)tsr_vk_tensor(planner, planner->addend)->offset : 0,
      .alpha = planner->line->attributes.alpha,
      .parts = p->parts,
      .part_depth = p->part_depth,
      .y_at = p->y_at,
      .scales_offset = p->scales.offset,
      .scales_stride = p->scales.stride[3],
      .scales_group_stride = p->scales.stride[2],
  };
  memcpy(push.a_stride, p->a.stride, sizeof push.a_stride);
  memcpy(push.b_stride, p->b.stride, sizeof push.b_stride);
  memcpy(push.bias_stride, p->bias.stride, sizeof push.bias_stride);
  return push;
}

/* A dispatch of one of the kernels of lib/product.glsl, its grid left open. Of a quantised product it takes the scales,
 * and rows in scratch; raw: sums are stored as they are. */
static tsr_vk_dispatch *add(tsr_vk_planner *planner, int32_t shader, const tsr_vk_product_push *push,
                            const tsr_vk_product *p, int32_t a, int32_t b, int32_t y, uint32_t size, int raw)
{
  const tsr_line_desc *line = planner->line;
  int has_residual = planner->addend != 0 && !raw;
  const uint32_t push_bytes = p->quantised ? sizeof *push : offsetof(tsr_vk_product_push, scales_offset);
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, shader, push, push_bytes);
  if (dispatch == NULL) {
    return NULL;
  }
  planner->is_added = has_residual;
  tsr_vk_read(dispatch, a);
  tsr_vk_read(dispatch, b);
  tsr_vk_read_in(planner, dispatch, 2);
  tsr_vk_write(dispatch, y);
  tsr_vk_read(dispatch, has_residual ? planner->addend : a);
  if (p->quantised) {
    tsr_vk_read(dispatch, line->in[3]);
  }
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_product_b_type, p->four_bits ? TYPE_I4 : (uint32_t)tsr_vk_in(planner, 1)->dtype);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_product_finish_with,
              raw ? FINISH_LATER
                  : (uint32_t)line->attributes.activation | (line->in[2] != 0 ? FINISH_BIAS : 0) |
                        (has_residual ? FINISH_RESIDUAL : 0));
  return dispatch;
}

/* On a GPU few, so that the workgroups are many, though several times k; by the columns and k alone, so that a row's
 * sum does not depend on the rows beside it. A CPU's driver may give up on a shader after 65535 rounds of its loops
 * (tsr_vk_reduce_size): those of a product over columns of the depth, in fours at best (of i8: of groups, each in
 * several rounds), and then of all rows. */
static uint32_t wanted_columns(const tsr_vk_planner *planner, const tsr_vk_product *p, uint32_t tile_rows,
                               uint32_t tile_columns)
{
  enum { GPU_COLUMNS = 16, CPU_COLUMNS = 256, MANY_COLUMNS = 8192, GROUP_ROUNDS = 8 };
  if (!planner->caps->compute_like_cpu) {
    return planner->topk.k == 1 ? GPU_COLUMNS : planner->topk.k <= 8 ? 2 * GPU_COLUMNS : 4 * GPU_COLUMNS;
  }
  uint32_t columns = p->columns < MANY_COLUMNS ? CPU_COLUMNS : 2 * CPU_COLUMNS, lanes = planner->caps->subgroup_size;
  uint32_t rounds = p->quantised ? p->depth * GROUP_ROUNDS : p->depth; /* of a tile */
  while (columns > tile_columns &&
         (uint64_t)columns / tile_columns * rounds + (uint64_t)tile_rows * (uint64_t)planner->topk.k * columns / lanes >
             TSR_VK_MOST_ROUNDS) {
    columns /= 2;
  }
  return columns;
}

/* Of the kernels of cooperative matrices the sister that leaves candidates; -1: it is none of them. */
static int32_t cooperative_topk(int32_t shader)
{
  switch (shader) {
  case TSR_VK_SHADER_MATMUL_COOPERATIVE_F16:
    return TSR_VK_SHADER_MATMUL_COOPERATIVE_F16_TOPK;
  case TSR_VK_SHADER_MATMUL_COOPERATIVE_BF16:
    return TSR_VK_SHADER_MATMUL_COOPERATIVE_BF16_TOPK;
  case TSR_VK_SHADER_MATMUL_COOPERATIVE_I8:
    return TSR_VK_SHADER_MATMUL_COOPERATIVE_I8_TOPK;
  default:
    return -1;
  }
}

/* The sister of `shader` that leaves candidates, or -1, and how many columns a workgroup of it goes through in
 * tiles of tile_rows x tile_columns. */
static int32_t topk_shader(const tsr_vk_planner *planner, const tsr_vk_product *p, int32_t shader, uint32_t tile_rows,
                           uint32_t tile_columns, uint32_t *columns)
{
  enum { MOST_OF_TILE = 16 }; /* each takes a subgroup as long as a step of the product does */
  const tsr_vk_caps *caps = planner->caps;
  uint32_t wanted = wanted_columns(planner, p, tile_rows, tile_columns), own_bytes = 0; /* of shared memory */
  int32_t topk = -1;
  if (cooperative_topk(shader) >= 0) {
    *columns = tile_columns;
    return caps->subgroup_arithmetic && planner->topk.k <= MOST_OF_TILE ? cooperative_topk(shader) : -1;
  }
  *columns = wanted > tile_columns ? wanted / tile_columns * tile_columns : tile_columns;
  switch (shader) {
  case TSR_VK_SHADER_MATMUL_PLAIN:
    topk = caps->subgroup_arithmetic ? TSR_VK_SHADER_MATMUL_PLAIN_TOPK : -1;
    break;
  case TSR_VK_SHADER_MATMUL_I8_PLAIN:
    topk = caps->subgroup_arithmetic ? TSR_VK_SHADER_MATMUL_I8_PLAIN_TOPK : -1;
    break;
  case TSR_VK_SHADER_MATMUL_TILED:
    topk = TSR_VK_SHADER_MATMUL_TILED_TOPK;
    own_bytes = 2 * 16 * (tile_rows + tile_columns) * 4;
    break;
  case TSR_VK_SHADER_MATMUL_I8_TILED:
    topk = TSR_VK_SHADER_MATMUL_I8_TILED_TOPK;
    own_bytes = 2 * 4 * I8_STEP * (tile_rows / 4 + 1) * 16;
    break;
  case TSR_VK_SHADER_MATMUL_I8_TILED_DOT:
    topk = TSR_VK_SHADER_MATMUL_I8_TILED_DOT_TOPK;
    own_bytes = 2 * 4 * I8_STEP * (tile_rows / 4 + 1) * 16;
    break;
  case TSR_VK_SHADER_MATMUL_VECTOR:
    topk = TSR_VK_SHADER_MATMUL_VECTOR_TOPK;
    own_bytes = 4096;
    break;
  case TSR_VK_SHADER_MATMUL_VECTOR_SUBGROUP:
    topk = TSR_VK_SHADER_MATMUL_VECTOR_SUBGROUP_TOPK;
    break;
  case TSR_VK_SHADER_MATMUL_I8_VECTOR:
    topk = TSR_VK_SHADER_MATMUL_I8_VECTOR_TOPK;
    own_bytes = 8192;
    break;
  case TSR_VK_SHADER_MATMUL_I8_VECTOR_DOT:
    topk = TSR_VK_SHADER_MATMUL_I8_VECTOR_DOT_TOPK;
    own_bytes = 8192;
    break;
  case TSR_VK_SHADER_MATMUL_I8_VECTOR_SUBGROUP:
    topk = TSR_VK_SHADER_MATMUL_I8_VECTOR_SUBGROUP_TOPK;
    break;
  case TSR_VK_SHADER_MATMUL_I8_VECTOR_SUBGROUP_DOT:
    topk = TSR_VK_SHADER_MATMUL_I8_VECTOR_SUBGROUP_DOT_TOPK;
    break;
  default:
    break;
  }
  return 2 * (uint32_t)planner->topk.k <= *columns && *columns * tile_rows * 4 + own_bytes <= caps->shared_memory ? topk
                                                                                                                  : -1;
}

/* Sets the sister's own specialisation constants; those of the variant are set later. */
static void spec_topk(const tsr_vk_planner *planner, tsr_vk_dispatch *dispatch, uint32_t tile_rows, uint32_t columns)
{
  tsr_vk_spec(dispatch, TSR_VK_SPEC_held_held_columns, columns);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_held_held_words, columns * tile_rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_held_kept, (uint32_t)planner->topk.k);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_held_with_sums, planner->topk.logarithm != 0);
}

tsr_vk_dispatch *tsr_vk_add_product(tsr_vk_planner *planner, int32_t shader, const tsr_vk_product *p,
                                    uint32_t tile_rows, uint32_t tile_columns, uint32_t size)
{
  const tsr_line_desc *line = planner->line;
  int raw = p->parts > 1;
  tsr_vk_product_push push = push_of(planner, p);
  push.row_tiles = (uint32_t)tsr_vk_divide_up(p->rows, tile_rows);
  const int of_tile = cooperative_topk(shader) >= 0;
  uint32_t columns = tile_columns; /* of a workgroup */
  if (planner->topk.k > 0) {
    shader = topk_shader(planner, p, shader, tile_rows, tile_columns, &columns);
    if (shader < 0) {
      return NULL;
    }
    planner->topk.lists = (uint32_t)tsr_vk_divide_up(p->columns, columns);
    planner->topk.candidates_at =
        tsr_vk_reserve(planner, (uint64_t)p->rows * planner->topk.lists * ((uint64_t)planner->topk.k + 1) * 2);
    push.residual_offset = planner->topk.candidates_at;
  }
  push.column_tiles = (uint32_t)tsr_vk_divide_up(p->columns, columns);
  uint64_t groups = p->batch * p->parts * push.row_tiles * push.column_tiles;
  push.groups = (uint32_t)groups;
  if (raw) {
    push.residual_offset = p->parts_at;
  }
  int32_t a = p->quantised || (p->halves & HALVES_A) != 0 ? TSR_VK_SCRATCH : line->in[0];
  tsr_vk_dispatch *dispatch = add(planner, shader, &push, p, a, line->in[1], p->y, size, raw);
  if (dispatch == NULL) {
    return NULL;
  }
  if (planner->topk.k > 0 && of_tile) {
    tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_cooperative_largest,
                (uint32_t)planner->topk.k | (planner->topk.logarithm != 0 ? LARGEST_SUMS : 0));
  } else if (planner->topk.k > 0) {
    spec_topk(planner, dispatch, tile_rows, columns);
  }
  if (raw) {
    dispatch->kept_bytes = (int64_t)p->parts_at * 4;
  }
  dispatch->after = a == TSR_VK_SCRATCH;
  dispatch->work = 2.0 * (double)p->batch * p->rows * p->columns * p->depth;
  dispatch->tile[0] = tile_rows < p->rows ? tile_rows : p->rows;
  dispatch->tile[1] = tile_columns < p->columns ? tile_columns : p->columns;
  return tsr_vk_finish(planner, dispatch, groups) ? dispatch : NULL;
}

uint32_t tsr_vk_narrow_subgroup(const tsr_vk_caps *caps)
{
  enum { WANTED = 16 };
  const uint32_t least = caps->subgroup_sizes[0], most = caps->subgroup_sizes[1];
  const uint32_t size = most < WANTED ? most : least > WANTED ? least : WANTED;
  return caps->subgroup_arithmetic && tsr_vk_group_size(caps, size) == size ? size : 0;
}

uint32_t tsr_vk_few_rows(const tsr_vk_caps *caps)
{
  enum { SMALL_SHARED_MEMORY = 32768, ONE_TILE = 8, SEVERAL_TILES = 32 };
  return caps->unified && caps->shared_memory <= SMALL_SHARED_MEMORY ? ONE_TILE : SEVERAL_TILES;
}

uint64_t tsr_vk_least_parts(const tsr_vk_caps *caps, uint32_t depth)
{
  enum { MOST_DEPTH = 32768, QUADS = 3 };
  return caps->compute_like_cpu ? tsr_vk_divide_up(depth, depth % 4 == 0 ? QUADS * MOST_DEPTH : MOST_DEPTH) : 1;
}

void tsr_vk_cut_depth(tsr_vk_planner *planner, tsr_vk_product *p, uint64_t groups, uint32_t step)
{
  enum { MIN_PART = 64, MAX_PARTS = 16 };
  uint64_t parts = TSR_VK_ENOUGH_GROUPS / groups, most = p->depth / (step > MIN_PART ? step : MIN_PART);
  uint64_t least = tsr_vk_least_parts(planner->caps, p->depth);
  parts = parts < most ? parts : most;
  parts = parts < MAX_PARTS ? parts : MAX_PARTS;
  parts = parts > least ? parts : least;
  if (parts <= 1 || planner->topk.k > 0) {
    return;
  }
  p->part_depth = (uint32_t)tsr_vk_divide_up(p->depth, parts * step) * step;
  p->parts = (uint32_t)tsr_vk_divide_up(p->depth, p->part_depth);
  p->y = TSR_VK_SCRATCH;
  p->halves &= HALVES_A; /* the parts are sums as they are */
  p->parts_at = tsr_vk_reserve(planner, p->batch * p->parts * p->rows * p->columns);
}

int tsr_vk_finish_product(tsr_vk_planner *planner, const tsr_vk_product *p)
{
  enum { SIZE = 64 };
  if (p->parts == 1) {
    return 1;
  }
  const int halves = planner->leaves_halves != 0;
  uint64_t results = (uint64_t)p->rows * p->columns / (halves ? 2 : 1); /* of one product of the batch, or pairs */
  uint32_t size = tsr_vk_group_size(planner->caps, SIZE);
  tsr_vk_product_push push = push_of(planner, p);
  push.row_tiles = 1;
  push.column_tiles = (uint32_t)tsr_vk_divide_up(results, size);
  push.groups = (uint32_t)p->batch * push.column_tiles;
  push.b_offset = p->parts_at;
  push.y_at = halves ? planner->halves_at : 0;
  const int32_t shader = halves         ? TSR_VK_SHADER_MATMUL_PARTS_HALVES
                         : p->quantised ? TSR_VK_SHADER_MATMUL_PARTS_I8
                                        : TSR_VK_SHADER_MATMUL_PARTS;
  const int32_t y = halves ? TSR_VK_SCRATCH : planner->line->out[0];
  tsr_vk_dispatch *dispatch = add(planner, shader, &push, p, TSR_VK_SCRATCH, TSR_VK_SCRATCH, y, size, 0);
  if (dispatch == NULL) {
    return 0;
  }
  dispatch->after = 1;
  dispatch->work = (double)p->batch * p->rows * p->columns * p->parts;
  return tsr_vk_finish(planner, dispatch, push.groups);
}

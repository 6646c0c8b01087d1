/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with weights of i8, or of four bits: one dispatch quantises the rows of a into scratch
 * (shaders/quantise.comp), a second one multiplies (shaders/matmul_i8_*.comp). Where its results are too few for a
 * large device it sums parts of the depth, and a third one adds those up (shaders/matmul_parts.comp).
 */
#include "backends/vulkan/matmul.h"
#include "shaders/contract/matmul_generic.h"
#include "shaders/contract/matmul_i8_tiled.h"
#include "shaders/contract/matmul_i8_vector.h"
#include "shaders/contract/matmul_plain.h"
#include "shaders/contract/quantise.h"
#include "shaders/contract/quantised.h"

#include <string.h>

TSR_VK_ASSERT_ROW_SHADERS(QUANTISE);

/* Adds the dispatch that quantises a's rows, each distinct one once; the product's view of a becomes that of the
 * result. First in the line, so that products of one a quantise it alike, and fusion.c leaves out all but the first
 * of these dispatches. */
static int quantise(tsr_vk_planner *planner, tsr_vk_product *p)
{
  tsr_vk_view x = p->a;
  uint32_t groups = (p->four_bits ? FOUR_BITS_GROUPS(p->depth) : QUANTISED_GROUPS(p->depth)) + 1, stride = groups;
  for (int32_t axis = 2; axis >= 0; --axis) {
    if (x.stride[axis] == 0) {
      x.extent[axis] = 1;
    }
    p->a.stride[axis] = x.extent[axis] > 1 ? stride : 0;
    stride *= x.extent[axis];
  }
  uint64_t count = (uint64_t)x.extent[0] * x.extent[1] * x.extent[2];
  if (count * groups * 4 > INT32_MAX) {
    return 0;
  }
  uint32_t at = tsr_vk_reserve(planner, count * groups * 4);
  p->a.offset = at / 4;
  p->a.stride[3] = 1;
  int quads = p->depth % 4 == 0 && tsr_vk_in_quads(&x, 3);
  tsr_vk_quantise_push push = {
      .rows = x.extent[2],
      .inner_batch = x.extent[1],
      .depth = quads ? p->depth / 4 : p->depth,
      .x_offset = x.offset,
      .y_at = at,
      .count = (uint32_t)count,
  };
  memcpy(push.x_stride, x.stride, sizeof push.x_stride);
  int subgroup = 0;
  uint32_t size = tsr_vk_reduce_size(planner->caps, tsr_vk_divide_up(p->depth, 4), &subgroup);
  int32_t shader = TSR_VK_SHADER_QUANTISE + (quads ? TSR_VK_QUADS : 0) + (subgroup ? TSR_VK_SUBGROUP : 0);
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, shader, &push, sizeof push);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_read(dispatch, planner->line->in[0]);
  tsr_vk_write(dispatch, TSR_VK_SCRATCH);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_quantise_weight_type, p->four_bits ? TYPE_I4 : TYPE_I8);
  dispatch->pure = 1;
  dispatch->work = 4.0 * (double)count * p->depth;
  return tsr_vk_finish(planner, dispatch, count);
}

/* k of b is contiguous, and every column starts, and ends, with whole groups of four words: depth then counts groups of
 * a, and offset and strides of b what meets one, four words of bytes or two of halves. */
static int in_groups(tsr_vk_product *p)
{
  enum { BYTES = 16 };
  const uint32_t low = p->b.offset | p->b.stride[0] | p->b.stride[1] | p->b.stride[3];
  const uint32_t bytes = p->four_bits ? BYTES / 2 : BYTES;
  if (p->depth == 0 || p->b.stride[2] != 1 || (low | (p->four_bits ? 0 : p->depth)) % BYTES != 0) {
    return 0;
  }
  p->depth = p->four_bits ? FOUR_BITS_GROUPS(p->depth) : QUANTISED_GROUPS(p->depth);
  p->part_depth = p->depth;
  p->b.offset /= bytes;
  p->b.stride[0] /= bytes;
  p->b.stride[1] /= bytes;
  p->b.stride[3] /= bytes;
  return 1;
}

static tsr_vk_dispatch *add(tsr_vk_planner *planner, int32_t shader, const tsr_vk_product *p, uint32_t tile_rows,
                            uint32_t tile_columns, uint32_t size)
{
  tsr_vk_dispatch *dispatch = tsr_vk_add_product(planner, shader, p, tile_rows, tile_columns, size);
  if (dispatch != NULL) {
    dispatch->work = 2.0 * (double)p->batch * p->rows * p->columns * p->a.extent[3];
  }
  return dispatch;
}

/* Cuts the depth, which counts groups, as tsr_vk_cut_depth does; least_part: of values. */
static void cut_depth(tsr_vk_planner *planner, tsr_vk_product *p, uint32_t tile_rows, uint32_t tile_columns,
                      uint32_t least_part)
{
  const uint64_t groups = p->batch * tsr_vk_divide_up(p->rows, tile_rows) * tsr_vk_divide_up(p->columns, tile_columns);
  p->depth *= QUANTISED_GROUP;
  p->part_depth *= QUANTISED_GROUP;
  tsr_vk_cut_depth(planner, p, groups, least_part);
  p->depth /= QUANTISED_GROUP;
  p->part_depth /= QUANTISED_GROUP;
}

static int plan_plain(tsr_vk_planner *planner, tsr_vk_product p)
{
  enum { MAX_TILE_ROWS = 8 };
  const tsr_vk_caps *caps = planner->caps;
  uint32_t lanes = caps->subgroup_size, tile_rows = 1;
  /* For CPUs, as in matmul_plain.c. */
  if (!caps->compute_like_cpu || !caps->subgroup_shuffle || lanes < 4 || (lanes & (lanes - 1)) != 0 ||
      lanes > caps->max_size[0] || !in_groups(&p)) {
    return 0;
  }
  while (tile_rows < lanes && tile_rows < MAX_TILE_ROWS && tile_rows < p.rows) {
    tile_rows *= 2;
  }
  uint32_t tile_columns = tile_rows == 1 ? 4 : 2;
  tsr_vk_dispatch *dispatch = add(planner, TSR_VK_SHADER_MATMUL_I8_PLAIN, &p, tile_rows, lanes * tile_columns, lanes);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_plain_tile_rows, tile_rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_plain_lanes, lanes);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_plain_tile_columns, tile_columns);
  return 1;
}

/* Where the dot is no instruction, it takes registers that large tiles leave only to wide subgroups: the largest,
 * and of few rows one whose largest are found. */
static int holds_emulated_dot(const tsr_vk_caps *caps)
{
  return caps->fast_dot || caps->compute_like_cpu || caps->subgroup_sizes[0] >= 32;
}

static int plan_vector(tsr_vk_planner *planner, tsr_vk_product p, int subgroup, int dot)
{
  enum { MIN_SIZE = 32, MAX_SIZE = 128, MAX_TILE_ROWS = 8, MAX_TILE_COLUMNS = 8, LEAST_PART = 8192 };
  const tsr_vk_caps *caps = planner->caps;
  if (!in_groups(&p) || (subgroup && tsr_vk_narrow_subgroup(caps) == 0)) {
    return 0;
  }
  uint32_t size = MIN_SIZE, tile_rows = p.rows < MAX_TILE_ROWS ? p.rows : MAX_TILE_ROWS, tile_columns = 1;
  while (size * 2 <= p.depth && size < MAX_SIZE) {
    size *= 2;
  }
  size = subgroup ? tsr_vk_narrow_subgroup(caps) : tsr_vk_group_size(caps, size);
  /* Results of an invocation, for which its registers suffice: without a dot they hold bytes, too, and a narrow
   * subgroup has fewer. */
  int narrow = subgroup && size < 32, roomy = dot && (planner->topk.k == 0 || holds_emulated_dot(caps));
  uint32_t most = roomy ? 16 : narrow ? 4 : 8, most_columns = narrow ? MAX_TILE_COLUMNS / 2 : MAX_TILE_COLUMNS;
  if (subgroup && tile_rows > size) {
    tile_rows = size;
  }
  if (subgroup && most > size) {
    most = size;
  }
  while (tile_rows * tile_columns * 2 <= most && tile_columns < most_columns) {
    tile_columns *= 2;
  }
  int32_t shader = subgroup
                       ? dot ? TSR_VK_SHADER_MATMUL_I8_VECTOR_SUBGROUP_DOT : TSR_VK_SHADER_MATMUL_I8_VECTOR_SUBGROUP
                   : dot ? TSR_VK_SHADER_MATMUL_I8_VECTOR_DOT
                         : TSR_VK_SHADER_MATMUL_I8_VECTOR;
  /* A decoding step pays for a dispatch more, that adds up parts: only a great depth is cut. */
  cut_depth(planner, &p, tile_rows, tile_columns, LEAST_PART);
  tsr_vk_dispatch *dispatch = add(planner, shader, &p, tile_rows, tile_columns, size);
  if (dispatch == NULL) {
    return 0;
  }
  dispatch->subgroup_size = subgroup ? size : 0;
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_i8_vector_tile_rows, tile_rows);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_i8_vector_tile_columns, tile_columns);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_i8_vector_lanes, size);
  return tsr_vk_finish_product(planner, &p);
}

/* side: of the workgroup; tile: of one invocation, in fours. */
static int plan_tiled(tsr_vk_planner *planner, tsr_vk_product p, uint32_t side, uint32_t tile, int dot)
{
  enum { STEP_WORDS = 4 * I8_STEP, GROUP_BYTES = 16, LEAST_PART = 256 };
  const tsr_vk_caps *caps = planner->caps;
  uint32_t extent = side * tile * 4;
  uint32_t shared = 2 * STEP_WORDS * (side * tile + 1) * GROUP_BYTES + (p.four_bits ? extent * 4 : 4);
  if (tsr_vk_group_size(caps, side * side) < side * side || shared > caps->shared_memory || !in_groups(&p)) {
    return 0;
  }
  int32_t shader = dot ? TSR_VK_SHADER_MATMUL_I8_TILED_DOT : TSR_VK_SHADER_MATMUL_I8_TILED;
  cut_depth(planner, &p, extent, extent, LEAST_PART);
  tsr_vk_dispatch *dispatch = add(planner, shader, &p, extent, extent, side * side);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_i8_tiled_side, side);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_i8_tiled_tile, tile);
  return tsr_vk_finish_product(planner, &p);
}

static int plan_generic(tsr_vk_planner *planner, const tsr_vk_product *p)
{
  uint32_t size = tsr_vk_group_size(planner->caps, 64), tile_rows = p->rows < 4 ? p->rows : 4;
  tsr_vk_dispatch *dispatch = add(planner, TSR_VK_SHADER_MATMUL_I8_GENERIC, p, tile_rows, size, size);
  if (dispatch == NULL) {
    return 0;
  }
  tsr_vk_spec(dispatch, TSR_VK_SPEC_matmul_generic_tile_rows, tile_rows);
  return 1;
}

static int plan_multiply(tsr_vk_planner *planner, const tsr_vk_product *p, int32_t variant)
{
  switch (variant) {
  case TSR_VK_VARIANT_MATMUL_I8_PLAIN:
    return plan_plain(planner, *p);
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR:
    return plan_vector(planner, *p, 0, 0);
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR_DOT:
    return planner->caps->dot && plan_vector(planner, *p, 0, 1);
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR_SUBGROUP:
    return plan_vector(planner, *p, 1, 0);
  case TSR_VK_VARIANT_MATMUL_I8_VECTOR_SUBGROUP_DOT:
    return planner->caps->dot && plan_vector(planner, *p, 1, 1);
  case TSR_VK_VARIANT_MATMUL_I8_TILED_32:
    return plan_tiled(planner, *p, 8, 1, 0);
  case TSR_VK_VARIANT_MATMUL_I8_TILED_32_DOT:
    return planner->caps->dot && plan_tiled(planner, *p, 8, 1, 1);
  case TSR_VK_VARIANT_MATMUL_I8_TILED_64:
    return plan_tiled(planner, *p, 16, 1, 0);
  case TSR_VK_VARIANT_MATMUL_I8_TILED_64_DOT:
    return planner->caps->dot && plan_tiled(planner, *p, 16, 1, 1);
  case TSR_VK_VARIANT_MATMUL_I8_TILED_128_DOT:
    return planner->caps->dot && holds_emulated_dot(planner->caps) && plan_tiled(planner, *p, 16, 2, 1);
  case TSR_VK_VARIANT_MATMUL_COOP_I8_128_64:
  case TSR_VK_VARIANT_MATMUL_COOP_I8_128:
  case TSR_VK_VARIANT_MATMUL_COOP_I8_64:
  case TSR_VK_VARIANT_MATMUL_COOP_I8_32:
    return tsr_vk_plan_cooperative(planner, p, variant);
  case TSR_VK_VARIANT_MATMUL_I8_GENERIC:
    return plan_generic(planner, p);
  default:
    return 0;
  }
}

static int is_fused(int32_t variant)
{
  return variant >= TSR_VK_VARIANT_MATMUL_I8_FUSED && variant <= TSR_VK_VARIANT_MATMUL_I8_FUSED_SUBGROUPS_DOT;
}

static int plan(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t variant)
{
  tsr_vk_product p = *product;
  tsr_vk_restart(planner);
  if (is_fused(variant)) {
    if (planner->topk.k > 0 || !tsr_vk_plan_i8_fused(planner, &p, variant)) {
      return 0;
    }
  } else if (!quantise(planner, &p) || !plan_multiply(planner, &p, variant)) {
    return 0;
  }
  planner->plan->variant = variant;
  return 1;
}

/* Tiles of `extent` rows and columns */
static uint64_t tiles_of(const tsr_vk_product *p, uint32_t extent)
{
  return p->batch * tsr_vk_divide_up(p->rows, extent) * tsr_vk_divide_up(p->columns, extent);
}

static int is_tiled(int32_t variant)
{
  return variant >= TSR_VK_VARIANT_MATMUL_I8_TILED_32 && variant <= TSR_VK_VARIANT_MATMUL_I8_TILED_128_DOT;
}

static int32_t choose(const tsr_vk_caps *caps, const tsr_vk_product *p)
{
  enum { FEW_ROWS = 8, MANY_TILES = 64, SMALL_SHARED_MEMORY = 32768 };
  int dot = caps->fast_dot, few = p->rows <= FEW_ROWS;
  if (caps->compute_like_cpu) {
    return TSR_VK_VARIANT_MATMUL_I8_PLAIN;
  }
  if (few && tsr_vk_narrow_subgroup(caps) > 0) {
    return dot ? TSR_VK_VARIANT_MATMUL_I8_VECTOR_SUBGROUP_DOT : TSR_VK_VARIANT_MATMUL_I8_VECTOR_SUBGROUP;
  }
  if (few) {
    return dot ? TSR_VK_VARIANT_MATMUL_I8_VECTOR_DOT : TSR_VK_VARIANT_MATMUL_I8_VECTOR;
  }
  /* A device with little shared memory that shares the host's memory has small registers, too. */
  int large_device = !caps->unified || caps->shared_memory > SMALL_SHARED_MEMORY;
  if (dot && large_device && !p->four_bits && tiles_of(p, 128) >= MANY_TILES) {
    return TSR_VK_VARIANT_MATMUL_I8_TILED_128_DOT;
  }
  if (tiles_of(p, 64) >= MANY_TILES) {
    return dot ? TSR_VK_VARIANT_MATMUL_I8_TILED_64_DOT : TSR_VK_VARIANT_MATMUL_I8_TILED_64;
  }
  return dot ? TSR_VK_VARIANT_MATMUL_I8_TILED_32_DOT : TSR_VK_VARIANT_MATMUL_I8_TILED_32;
}

int tsr_vk_plan_matmul_i8(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t tuned)
{
  static const int32_t tiled[] = {TSR_VK_VARIANT_MATMUL_I8_TILED_64, TSR_VK_VARIANT_MATMUL_I8_TILED_32,
                                  TSR_VK_VARIANT_AUTO};
  static const int32_t tiled_dot[] = {TSR_VK_VARIANT_MATMUL_I8_TILED_64_DOT, TSR_VK_VARIANT_MATMUL_I8_TILED_32_DOT,
                                      TSR_VK_VARIANT_AUTO};
  const int32_t chosen = choose(planner->caps, product);
  if (planner->topk.k > 0) { /* one of the same kind may leave room for what is held */
    const int32_t *others = is_tiled(chosen) ? (planner->caps->fast_dot ? tiled_dot : tiled) : NULL;
    return tsr_vk_plan_matmul_topk(planner, product, plan, tuned, chosen, others);
  }
  return plan(planner, product, planner->caps->forced) || plan(planner, product, tuned) ||
         plan(planner, product, tsr_vk_choose_cooperative(planner, product)) ||
         plan(planner, product, tsr_vk_choose_i8_fused(planner->caps)) || plan(planner, product, chosen) ||
         plan(planner, product, TSR_VK_VARIANT_MATMUL_I8_GENERIC);
}

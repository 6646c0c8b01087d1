/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul: which form of product suits the device and the strides, and its tiles.
 *
 *   plain    matmul_plain.comp    long loops, no shared memory: devices that a CPU executes
 *   tiled    matmul_tiled.comp    register tiles over shared memory: GPUs
 *   vector   matmul_vector.comp   few rows: invocations side by side along k
 *   generic  matmul_generic.comp  any strides
 *   coop     matmul_cooperative.comp  cooperative matrices, where the line permits them
 *   i8_...   matmul_i8_*.comp     the same with weights of i8: matmul_i8.c
 *
 * A tiled or vector product whose results are too few for a large device cuts the depth into parts, which
 * matmul_parts.comp adds up.
 */
#include "backends/vulkan/matmul.h"
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
      .scales_offset = p->scales.offset,
      .scales_stride = p->scales.stride[3],
  };
  memcpy(push.a_stride, p->a.stride, sizeof push.a_stride);
  memcpy(push.b_stride, p->b.stride, sizeof push.b_stride);
  memcpy(push.bias_stride, p->bias.stride, sizeof push.bias_stride);
  return push;
}

/* A dispatch of one of the kernels of lib/product.glsl, its grid left open. quantised: it takes the scales of
 * weights of i8; raw: sums are stored as they are. */
static tsr_vk_dispatch *add(tsr_vk_planner *planner, int32_t variant, const tsr_vk_product_push *push, int quantised,
                            int32_t a, int32_t b, int32_t y, uint32_t size, int raw)
{
  const tsr_line_desc *line = planner->line;
  int has_residual = planner->addend != 0 && !raw;
  const uint32_t push_bytes = quantised ? sizeof *push : offsetof(tsr_vk_product_push, scales_offset);
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, variant, push, push_bytes);
  if (dispatch == NULL) {
    return NULL;
  }
  planner->is_added = has_residual;
  tsr_vk_read(dispatch, a);
  tsr_vk_read(dispatch, b);
  tsr_vk_read_in(planner, dispatch, 2);
  tsr_vk_write(dispatch, y);
  tsr_vk_read(dispatch, has_residual ? planner->addend : a);
  tsr_vk_set_size(dispatch, size);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_product_b_type, (uint32_t)tsr_vk_in(planner, 1)->dtype);
  tsr_vk_spec(dispatch, TSR_VK_SPEC_product_finish_with,
              raw ? 0
                  : (uint32_t)line->attributes.activation | (line->in[2] != 0 ? FINISH_BIAS : 0) |
                        (has_residual ? FINISH_RESIDUAL : 0));
  return dispatch;
}

tsr_vk_dispatch *tsr_vk_add_product(tsr_vk_planner *planner, int32_t variant, const tsr_vk_product *p,
                                    uint32_t tile_rows, uint32_t tile_columns, uint32_t size)
{
  const tsr_line_desc *line = planner->line;
  int raw = p->parts > 1;
  tsr_vk_product_push push = push_of(planner, p);
  push.row_tiles = (uint32_t)tsr_vk_divide_up(p->rows, tile_rows);
  uint32_t columns = tile_columns; /* of a workgroup */
  if (planner->best.k > 0) {
    variant = tsr_vk_best_variant(planner, p, variant, tile_rows, tile_columns, &columns);
    if (variant < 0) {
      return NULL;
    }
    planner->best.lists = (uint32_t)tsr_vk_divide_up(p->columns, columns);
    planner->best.candidates_at =
        tsr_vk_reserve(planner, (uint64_t)p->rows * planner->best.lists * ((uint64_t)planner->best.k + 1) * 2);
    push.residual_offset = planner->best.candidates_at;
  }
  push.column_tiles = (uint32_t)tsr_vk_divide_up(p->columns, columns);
  uint64_t groups = p->batch * p->parts * push.row_tiles * push.column_tiles;
  push.groups = (uint32_t)groups;
  if (raw) {
    push.alpha = 1.0f;
  }
  int32_t a = p->quantised ? TSR_VK_SCRATCH : line->in[0];
  tsr_vk_dispatch *dispatch = add(planner, variant, &push, p->quantised, a, line->in[1], p->y, size, raw);
  if (dispatch == NULL) {
    return NULL;
  }
  if (planner->best.k > 0) {
    tsr_vk_spec_best(planner, dispatch, tile_rows, columns);
  }
  if (p->quantised) {
    tsr_vk_read(dispatch, line->in[3]);
    dispatch->after = 1;
  }
  dispatch->work = 2.0 * (double)p->batch * p->rows * p->columns * p->depth;
  return tsr_vk_finish(planner, dispatch, groups) ? dispatch : NULL;
}

/* Parts that the depth must have: a CPU's driver may give up on a shader after 65535 rounds of its loops
 * (tsr_vk_reduce_size). */
static uint64_t least_parts(const tsr_vk_caps *caps, uint32_t depth)
{
  enum { MOST_DEPTH = 32768, QUADS = 3 };
  return caps->compute_like_cpu ? tsr_vk_divide_up(depth, depth % 4 == 0 ? QUADS * MOST_DEPTH : MOST_DEPTH) : 1;
}

void tsr_vk_cut_depth(tsr_vk_planner *planner, tsr_vk_product *p, uint64_t groups, uint32_t step)
{
  enum { MIN_PART = 64, MAX_PARTS = 16 };
  uint64_t parts = TSR_VK_ENOUGH_GROUPS / groups, most = p->depth / (step > MIN_PART ? step : MIN_PART);
  uint64_t least = least_parts(planner->caps, p->depth);
  parts = parts < most ? parts : most;
  parts = parts < MAX_PARTS ? parts : MAX_PARTS;
  parts = parts > least ? parts : least;
  if (parts <= 1 || planner->best.k > 0) {
    return;
  }
  p->part_depth = (uint32_t)tsr_vk_divide_up(p->depth, parts * step) * step;
  p->parts = (uint32_t)tsr_vk_divide_up(p->depth, p->part_depth);
  p->y = TSR_VK_SCRATCH;
  tsr_vk_reserve(planner, p->batch * p->parts * p->rows * p->columns);
}

int tsr_vk_finish_product(tsr_vk_planner *planner, const tsr_vk_product *p)
{
  enum { SIZE = 64 };
  if (p->parts == 1) {
    return 1;
  }
  uint64_t results = (uint64_t)p->rows * p->columns; /* of one product of the batch */
  uint32_t size = tsr_vk_group_size(planner->caps, SIZE);
  tsr_vk_product_push push = push_of(planner, p);
  push.row_tiles = 1;
  push.column_tiles = (uint32_t)tsr_vk_divide_up(results, size);
  push.groups = (uint32_t)p->batch * push.column_tiles;
  tsr_vk_dispatch *dispatch = add(planner, TSR_VK_VARIANT_MATMUL_PARTS, &push, 0, TSR_VK_SCRATCH, TSR_VK_SCRATCH,
                                  planner->line->out[0], size, 0);
  if (dispatch == NULL) {
    return 0;
  }
  dispatch->after = 1;
  dispatch->work = (double)p->batch * (double)results * p->parts;
  return tsr_vk_finish(planner, dispatch, push.groups);
}

/* By form; those that one planner makes share it. */
static int (*const plan_form[TSR_VK_FORM_COUNT])(tsr_vk_planner *, const tsr_vk_product *, int32_t) = {
    [TSR_VK_FORM_MATMUL_PLAIN] = tsr_vk_plan_plain,
    [TSR_VK_FORM_MATMUL_TILED_128X128] = tsr_vk_plan_tiled,
    [TSR_VK_FORM_MATMUL_TILED_64X64] = tsr_vk_plan_tiled,
    [TSR_VK_FORM_MATMUL_TILED_32X64] = tsr_vk_plan_tiled,
    [TSR_VK_FORM_MATMUL_TILED_32X32] = tsr_vk_plan_tiled,
    [TSR_VK_FORM_MATMUL_TILED_16X64] = tsr_vk_plan_tiled,
    [TSR_VK_FORM_MATMUL_VECTOR] = tsr_vk_plan_vector,
    [TSR_VK_FORM_MATMUL_VECTOR_SUBGROUP] = tsr_vk_plan_vector,
    [TSR_VK_FORM_MATMUL_GENERIC] = tsr_vk_plan_generic,
    [TSR_VK_FORM_MATMUL_COOP_F16_128] = tsr_vk_plan_cooperative,
    [TSR_VK_FORM_MATMUL_COOP_F16_64] = tsr_vk_plan_cooperative,
    [TSR_VK_FORM_MATMUL_COOP_F16_32] = tsr_vk_plan_cooperative,
};

static int plan(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t form)
{
  const int cuts = form != TSR_VK_FORM_MATMUL_PLAIN && form != TSR_VK_FORM_MATMUL_GENERIC;
  if (!cuts && least_parts(planner->caps, product->depth) > 1) {
    return 0;
  }
  tsr_vk_restart(planner);
  if (plan_form[form] == NULL || !plan_form[form](planner, product, form)) {
    return 0;
  }
  planner->plan->form = form;
  return 1;
}

static int32_t choose(const tsr_vk_caps *caps, const tsr_vk_product *product)
{
  enum { FEW_ROWS = 8, LARGE_SUBGROUP = 16 };
  if (caps->compute_like_cpu) {
    return least_parts(caps, product->depth) > 1 ? TSR_VK_FORM_MATMUL_TILED_32X32 : TSR_VK_FORM_MATMUL_PLAIN;
  }
  if (product->rows > FEW_ROWS) {
    return tsr_vk_choose_tiled(caps, product);
  }
  return caps->subgroup_sizes[1] >= LARGE_SUBGROUP ? TSR_VK_FORM_MATMUL_VECTOR_SUBGROUP : TSR_VK_FORM_MATMUL_VECTOR;
}

static tsr_vk_class class_of(const tsr_vk_planner *planner, const tsr_vk_product *p)
{
  enum { A_ALONG_DEPTH = 1, B_ALONG_DEPTH = 2, NARROW = 4 };
  return (tsr_vk_class){
      .op = TSR_OP_MATMUL,
      .field = {tsr_vk_in(planner, 1)->dtype, tsr_vk_bucket(p->rows), tsr_vk_bucket(p->columns),
                tsr_vk_bucket(p->depth), tsr_vk_bucket(p->batch),
                (p->a.stride[3] == 1 ? A_ALONG_DEPTH : 0) | (p->b.stride[2] == 1 ? B_ALONG_DEPTH : 0) |
                    (tsr_vk_is_narrow(planner) ? NARROW : 0)},
  };
}

/* By the form that it is given or that is chosen, or one of the same kind that leaves room for what is held. */
static int plan_best(tsr_vk_planner *planner, const tsr_vk_product *p, int32_t tuned, int32_t chosen)
{
  static const int32_t by_depth[] = {TSR_VK_FORM_MATMUL_VECTOR, TSR_VK_FORM_AUTO};
  static const int32_t tiled[] = {TSR_VK_FORM_MATMUL_TILED_64X64, TSR_VK_FORM_MATMUL_TILED_32X64,
                                  TSR_VK_FORM_MATMUL_TILED_16X64, TSR_VK_FORM_AUTO};
  const int32_t *others = chosen == TSR_VK_FORM_MATMUL_VECTOR_SUBGROUP ? by_depth
                          : plan_form[chosen] == tsr_vk_plan_tiled     ? tiled
                                                                       : NULL;
  return tsr_vk_plan_best(planner, p, plan, tuned, chosen, others);
}

int tsr_vk_plan_matmul(tsr_vk_planner *planner)
{
  tsr_vk_product p = {
      .a = tsr_vk_view_in(planner, 0),
      .b = tsr_vk_view_in(planner, 1),
      .bias = tsr_vk_view_in(planner, 2),
  };
  p.rows = p.a.extent[2];
  p.columns = p.b.extent[3];
  p.depth = p.a.extent[3];
  p.batch = (uint64_t)p.a.extent[0] * p.a.extent[1];
  p.parts = 1;
  p.part_depth = p.depth;
  p.y = planner->line->out[0];
  planner->plan->class = class_of(planner, &p);
  const int32_t tuned = tsr_vk_tuning_find(planner->caps->tuning, &planner->plan->class);
  if (planner->line->in[3] != 0) {
    p.quantised = 1;
    p.scales = tsr_vk_view_in(planner, 3);
    return tsr_vk_plan_matmul_i8(planner, &p, tuned);
  }
  const int32_t chosen = choose(planner->caps, &p);
  if (planner->best.k > 0) {
    return plan_best(planner, &p, tuned, chosen);
  }
  return plan(planner, &p, planner->caps->forced) || plan(planner, &p, tuned) ||
         plan(planner, &p, tsr_vk_choose_cooperative(planner->caps, &p)) || plan(planner, &p, chosen) ||
         (chosen == TSR_VK_FORM_MATMUL_VECTOR_SUBGROUP && plan(planner, &p, TSR_VK_FORM_MATMUL_VECTOR)) ||
         plan(planner, &p, TSR_VK_FORM_MATMUL_GENERIC);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul: which form of product suits the device and the strides, and its tiles.
 *
 *   plain    matmul_plain.comp    long loops, no shared memory: devices that a CPU executes
 *   tiled    matmul_tiled.comp    register tiles over shared memory: GPUs
 *   vector   matmul_vector.comp   few rows: invocations side by side along k
 *   generic  matmul_generic.comp  any strides
 *   coop     matmul_cooperative.comp  cooperative matrices, where the line permits them
 */
#include "backends/vulkan/matmul.h"

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
  uint32_t residual_offset;
  float alpha;
  uint32_t row_tiles;
  uint32_t column_tiles;
} matmul_push;
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_GENERIC, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_PLAIN_ANY_STRIDE, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_COOPERATIVE_F16, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_TILED, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_VECTOR, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_PLAIN, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_PLAIN_BY_ROW, "push constants of lib/product.glsl");
_Static_assert(sizeof(matmul_push) == TSR_VK_PUSH_MATMUL_PLAIN_BY_COLUMN, "push constants of lib/product.glsl");

enum { HAS_BIAS = 8, HAS_RESIDUAL = 16 };

tsr_vk_dispatch *tsr_vk_add_product(tsr_vk_planner *planner, int32_t variant, const tsr_vk_product *p,
                                    uint32_t tile_rows, uint32_t tile_columns, uint32_t size)
{
  const tsr_line_desc *line = planner->line;
  if (planner->addend != 0 && p->y == TSR_VK_SCRATCH)
    return NULL; /* it is added to the result, not to parts of it */
  matmul_push push = {
      .rows = p->rows,
      .columns = p->columns,
      .depth = p->depth,
      .inner_batch = p->a.extent[1],
      .a_offset = p->a.offset,
      .b_offset = p->b.offset,
      .bias_offset = p->bias.offset,
      .residual_offset = planner->addend != 0 ? (uint32_t)tsr_vk_tensor(planner, planner->addend)->offset : 0,
      .alpha = line->attributes.alpha,
      .row_tiles = (uint32_t)tsr_vk_divide_up(p->rows, tile_rows),
      .column_tiles = (uint32_t)tsr_vk_divide_up(p->columns, tile_columns),
  };
  memcpy(push.a_stride, p->a.stride, sizeof push.a_stride);
  memcpy(push.b_stride, p->b.stride, sizeof push.b_stride);
  memcpy(push.bias_stride, p->bias.stride, sizeof push.bias_stride);
  tsr_vk_dispatch *dispatch = tsr_vk_add(planner, variant, &push, sizeof push);
  if (dispatch == NULL)
    return NULL;
  planner->is_added = planner->addend != 0;
  tsr_vk_read(dispatch, line->in[0]);
  tsr_vk_read(dispatch, line->in[1]);
  tsr_vk_read_in(planner, dispatch, 2);
  tsr_vk_write(dispatch, p->y);
  tsr_vk_read(dispatch, planner->addend != 0 ? planner->addend : line->in[0]);
  tsr_vk_spec(dispatch, size);
  tsr_vk_spec(dispatch, 1);
  tsr_vk_spec(dispatch, (uint32_t)tsr_vk_in(planner, 1)->dtype);
  tsr_vk_spec(dispatch, (uint32_t)line->attributes.activation | (line->in[2] != 0 ? HAS_BIAS : 0) |
                            (planner->addend != 0 ? HAS_RESIDUAL : 0));
  dispatch->work = 2.0 * (double)p->batch * p->rows * p->columns * p->depth;
  return tsr_vk_finish(planner, dispatch, p->batch * push.row_tiles * push.column_tiles) ? dispatch : NULL;
}

/* By form; those that one planner makes share it. */
static int (*const plan_form[TSR_VK_FORM_COUNT])(tsr_vk_planner *, const tsr_vk_product *, int32_t) = {
    [TSR_VK_FORM_MATMUL_PLAIN] = tsr_vk_plan_plain,
    [TSR_VK_FORM_MATMUL_TILED] = tsr_vk_plan_tiled,
    [TSR_VK_FORM_MATMUL_VECTOR] = tsr_vk_plan_vector,
    [TSR_VK_FORM_MATMUL_GENERIC] = tsr_vk_plan_generic,
    [TSR_VK_FORM_MATMUL_COOP_F16_128] = tsr_vk_plan_cooperative,
    [TSR_VK_FORM_MATMUL_COOP_F16_64] = tsr_vk_plan_cooperative,
    [TSR_VK_FORM_MATMUL_COOP_F16_32] = tsr_vk_plan_cooperative,
};

static int plan(tsr_vk_planner *planner, const tsr_vk_product *product, int32_t form)
{
  tsr_vk_restart(planner);
  if (plan_form[form] == NULL || !plan_form[form](planner, product, form))
    return 0;
  planner->plan->form = form;
  return 1;
}

static int32_t choose(const tsr_vk_caps *caps, const tsr_vk_product *product)
{
  enum { FEW_ROWS = 8 };
  if (caps->compute_like_cpu)
    return TSR_VK_FORM_MATMUL_PLAIN;
  return product->rows <= FEW_ROWS ? TSR_VK_FORM_MATMUL_VECTOR : TSR_VK_FORM_MATMUL_TILED;
}

static tsr_vk_class class_of(const tsr_vk_planner *planner, const tsr_vk_product *p)
{
  enum { A_ALONG_DEPTH = 1, B_ALONG_DEPTH = 2, NARROW = 4 };
  return (tsr_vk_class){
      .op = TSR_OP_MATMUL,
      .field = {tsr_vk_in(planner, 1)->dtype, tsr_vk_bucket(p->rows), tsr_vk_bucket(p->columns),
                tsr_vk_bucket(p->depth), tsr_vk_bucket(p->batch),
                (p->a.stride[3] == 1 ? A_ALONG_DEPTH : 0) | (p->b.stride[2] == 1 ? B_ALONG_DEPTH : 0) |
                    (planner->line->attributes.narrow ? NARROW : 0)},
  };
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
  p.y = planner->line->out[0];
  planner->plan->class = class_of(planner, &p);
  const int32_t tuned = tsr_vk_tuning_find(planner->caps->tuning, &planner->plan->class);
  return plan(planner, &p, planner->caps->forced) || plan(planner, &p, tuned) ||
         plan(planner, &p, tsr_vk_choose_cooperative(planner->caps, &p)) ||
         plan(planner, &p, choose(planner->caps, &p)) || plan(planner, &p, TSR_VK_FORM_MATMUL_GENERIC);
}

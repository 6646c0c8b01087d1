/* SPDX-License-Identifier: Apache-2.0
 *
 * What the matrix products share: shaders/lib/product.glsl.
 */
#ifndef SHADERS_CONTRACT_PRODUCT_H
#define SHADERS_CONTRACT_PRODUCT_H

#include "contract.h"
#include "values.h"

CONSTANT(product, 2, b_type, TYPE_F32);
CONSTANT(product, 3, finish_with, 0u); /* FINISH_* */
/* From 4 on they are the shader's own, and behind these those of held.h. */

/* activation(alpha sum + bias) + residual */
#define FINISH_ACTIVATION 7u /* the bits of ACTIVATION_* */
#define FINISH_BIAS       8u
#define FINISH_RESIDUAL   16u
#define FINISH_LATER      32u /* nothing is done: the sums of parts of the depth are for matmul_parts.comp */

/* Axes: two batch axes, then rows m and columns n; k is summed over. Offsets and strides count elements; those of a
 * and b count groups of four where the kernel says so. y is contiguous, and so is the residual. */
PUSH(product)
{
  uint rows;
  uint columns;
  uint depth;
  uint inner_batch; /* extent of batch axis 1 */
  uint a_offset;
  uint a_stride[4]; /* batch 0, batch 1, m, k */
  uint b_offset;
  uint b_stride[4]; /* batch 0, batch 1, k, n */
  uint bias_offset;
  uint bias_stride[4];  /* batch 0, batch 1, m, n */
  uint residual_offset; /* with TOPK: candidates_at, with FINISH_LATER: where the sums go, in words */
  float alpha;
  uint row_tiles;
  uint column_tiles;
  uint parts; /* of the depth, each a batch of y */
  uint part_depth;
  uint groups; /* workgroups that have work: the grid may be larger */
  uint y_at;   /* where y is rounded: words into it, where the result begins */
/* Without QUANTISED it ends here. */
#if defined(CONTRACT_IN_C) || defined(QUANTISED)
  uint scales_offset;
  uint scales_stride;       /* from a column to the next */
  uint scales_group_stride; /* TYPE_I4: from a group along k to the next */
#endif
}
PUSH_END(product);

#endif

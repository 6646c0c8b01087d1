/* SPDX-License-Identifier: Apache-2.0
 *
 * What the matrix products share: parameters, operands, elements of b in any format, and what is done to a
 * sum: activation(alpha sum + bias) + residual.
 */
#ifndef LIB_PRODUCT
#define LIB_PRODUCT

#include "number.glsl"
#include "activation.glsl"

layout(constant_id = 2) const uint b_type = TYPE_F32;
layout(constant_id = 3) const uint finish_with = 0u; /* ACTIVATION_*, 8 if there is a bias, 16 if a residual */

/* Axes: two batch axes, then rows m and columns n; k is summed over. Offsets and strides count elements; those of a
 * and b count groups of four where the kernel says so. y is contiguous, and so is the residual. */
layout(push_constant, std430) uniform parameters
{
  uint rows;
  uint columns;
  uint depth;
  uint inner_batch;      /* extent of batch axis 1 */
  uint a_offset;
  uint a_stride[4];      /* batch 0, batch 1, m, k */
  uint b_offset;
  uint b_stride[4];      /* batch 0, batch 1, k, n */
  uint bias_offset;
  uint bias_stride[4];   /* batch 0, batch 1, m, n */
  uint residual_offset;  /* with BEST: candidates_at, in words */
  float alpha;
  uint row_tiles;
  uint column_tiles;
  uint parts;            /* of the depth, each a batch of y: raw sums, for matmul_parts.comp */
  uint part_depth;
  uint groups;           /* workgroups that have work: the grid may be larger */
#ifdef QUANTISED
  uint scales_offset;
  uint scales_stride;
#endif
};

IN(2, bias)
OUT(3, y)
IN(4, residual)

/* The workgroup's tile: x along m, y along n, z batch. Tiles along m are neighbours: they share b. */
uvec3 tile_of(uint group)
{
  uint rest = group / row_tiles;
  uint batch = rest / column_tiles;
  return uvec3(group - rest * row_tiles, rest - batch * column_tiles, batch);
}

uint batch_offset(uint batch, uint outer_stride, uint inner_stride)
{
  uint outer = batch / inner_batch;
  return outer * outer_stride + (batch - outer * inner_batch) * inner_stride;
}

#ifdef BEST
#define candidates_at residual_offset
#include "best.glsl"
#endif

void store(uint batch, uint m, uint n, float sum)
{
  float z = alpha * sum;
  if ((finish_with & 8u) != 0u)
    z += FLOAT(bias, bias_offset + batch_offset(batch, bias_stride[0], bias_stride[1]) + m * bias_stride[2] +
                       n * bias_stride[3]);
  z = activate(finish_with & 7u, z);
#ifdef BEST
  hold(m, n, z);
#else
  uint at = (batch * rows + m) * columns + n;
  if ((finish_with & 16u) != 0u)
    z += FLOAT(residual, residual_offset + at);
  WORD(y, at) = floatBitsToUint(z);
#endif
}

#ifdef QUANTISED
IN(5, scales)

/* A sum of products of whole numbers, of a row one unit of which is worth that much. */
void store_quantised(uint batch, uint m, uint n, float unit, int sum)
{
  store(batch, m, n, unit * FLOAT(scales, scales_offset + n * scales_stride) * float(sum));
}
#endif

#endif

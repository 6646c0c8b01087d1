/* SPDX-License-Identifier: Apache-2.0
 *
 * What the matrix products share: parameters, operands, elements of b in any format, and what is done to a
 * sum: activation(alpha sum + bias) + residual. What is a part of a sum goes to scratch memory as it is.
 */
#ifndef LIB_PRODUCT
#define LIB_PRODUCT

#include "number.glsl"
#include "activation.glsl"
#include "contract/product.h"

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

/* Of a tile's z: the batch, and where its part of the depth begins and ends. Where the depth is whole, which a
 * constant tells, that takes no registers. */
uvec3 part_of(uint z)
{
  if ((finish_with & FINISH_LATER) == 0u) {
    return uvec3(z, 0u, depth);
  }
  uint batch = z / parts;
  uint begin = (z - batch * parts) * part_depth;
  return uvec3(batch, begin, min(begin + part_depth, depth));
}

#ifdef TOPK
#define candidates_at residual_offset
#ifdef TOPK_OF_TILE
#include "candidate_lists.glsl"
#else
#include "product_topk.glsl"
#endif
#endif

void store_part(uint batch, uint m, uint n, uint bits)
{
  WORD(y, residual_offset + (batch * rows + m) * columns + n) = bits;
}

/* activation(alpha sum + bias) */
float finish(uint batch, uint m, uint n, float sum)
{
  float z = alpha * sum;
  if ((finish_with & FINISH_BIAS) != 0u) {
    z += FLOAT(bias, bias_offset + batch_offset(batch, bias_stride[0], bias_stride[1]) + m * bias_stride[2] +
                       n * bias_stride[3]);
  }
  return activate(finish_with & FINISH_ACTIVATION, z);
}

void store(uint batch, uint m, uint n, float sum)
{
  if ((finish_with & FINISH_LATER) != 0u) {
    store_part(batch, m, n, floatBitsToUint(sum));
    return;
  }
  float z = finish(batch, m, n, sum);
#if defined(TOPK) && !defined(TOPK_OF_TILE)
  hold(m, n, z);
#else
  uint at = (batch * rows + m) * columns + n;
  if ((finish_with & FINISH_RESIDUAL) != 0u) {
    z += FLOAT(residual, residual_offset + at);
  }
  WORD(y, at) = floatBitsToUint(z);
#endif
}

#ifdef QUANTISED
#include "quantised.glsl"

IN(5, scales)

/* Weights of four bits have a scale for each group along k: sums are f32 then, and their bits stand in for an int. */
const bool four_bits = b_type == TYPE_I4;

/* By which the sum of column n over that group of k, with weight_bytes, is multiplied */
float factor_of(uint n, uint group)
{
  uint at = scales_offset + n * scales_stride + group * scales_group_stride;
  return group_factor(WORD(scales, at >> 1), at & 1u);
}

int added(int sum, int other)
{
  return four_bits ? floatBitsToInt(intBitsToFloat(sum) + intBitsToFloat(other)) : sum + other;
}

float scaled(uint n, float unit, int sum)
{
  return four_bits ? unit * intBitsToFloat(sum)
                   : unit * FLOAT(scales, scales_offset + n * scales_stride) * float(sum);
}

/* A sum of products of whole numbers, of a row one unit of which is worth that much. Parts of it stay whole numbers:
 * a result does not depend on how many there are, unless weights have four bits. */
void store_quantised(uint batch, uint m, uint n, float unit, int sum)
{
  if ((finish_with & FINISH_LATER) != 0u) {
    store_part(batch, m, n, uint(sum));
    return;
  }
  store(batch, m, n, scaled(n, unit, sum));
}
#endif

#endif

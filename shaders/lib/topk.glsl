/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two shaders of topk share. See lib/candidates.glsl.
 */
#ifndef LIB_TOPK
#define LIB_TOPK

#include "candidates.glsl"
#include "contract/topk.h"

IN(0, x)
OUT(1, scratch)
OUT(2, values)
OUT(3, indices)

uint row_start(uint row)
{
  return x_offset + element(unravel(row, uvec4(1u, extent.xyz)).yzwx, x_stride);
}

uvec2 element_candidate(uint x_at, uint i)
{
  return uvec2(order_of(FLOAT(x, x_at + i * x_stride.w)), i);
}

uvec2 scratch_candidate(uint i)
{
  return uvec2(WORD(scratch, from_at + 2u * i), WORD(scratch, from_at + 2u * i + 1u));
}

void write_candidate(uint i, uvec2 candidate)
{
  WORD(scratch, to_at + 2u * i) = candidate.x;
  WORD(scratch, to_at + 2u * i + 1u) = candidate.y;
}

void write_result(uint i, uint x_at, uint index)
{
  WORD(values, i) = WORD(x, x_at + index * x_stride.w);
  WORD(indices, i) = index;
}

#endif

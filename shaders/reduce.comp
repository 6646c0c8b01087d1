#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_sum: a workgroup per result, or (serial) an invocation per result; where the terms are many and the results
 * few, each result in parts, which lie one after another in y. With QUADS groups of four: neighbouring results where
 * serial, else neighbouring terms (extents and strides then count groups).
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "row.glsl"
#include "contract/reduce.h"

OPERAND_IN(0, x)
OUT(1, y)
OPERAND_OUT(1, results)

void main()
{
  uint index = serial != 0u ? invocation_index() : group_index();
  uint begin = index / count * part;
  if (begin >= max(terms, 1u)) {
    return;
  }
  uint end = min(terms, begin + part);
  uint x_at = x_offset + element(unravel(index % count, kept_extent), kept_stride);
  uint first = serial != 0u ? 0u : gl_LocalInvocationID.x;
  uint step = serial != 0u ? 1u : gl_WorkGroupSize.x;
  bool one_axis = summed_extent.w == terms;
  VECTOR sum = VECTOR(0.0);
  for (uint block = begin + first; block < end; block += BLOCK * step) {
    VECTOR block_sum = VECTOR(0.0);
    uint block_end = min(end, block + BLOCK * step);
    for (uint i = block; i < block_end; i += step) {
      block_sum += LOAD(x, x_at + (one_axis ? i * summed_stride.w : element(unravel(i, summed_extent), summed_stride)));
    }
    sum += block_sum;
  }
  if (serial != 0u) {
    STORE(results, y_at + index, sum);
    return;
  }
  float total = group_sum(sum_of(sum));
  if (gl_LocalInvocationID.x == 0u) {
    WORD(y, y_at + index) = floatBitsToUint(total);
  }
}

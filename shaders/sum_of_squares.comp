#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * sum_of_squares: y = sum of x^2 (+ plus). A workgroup sums a share of the elements, an invocation every size-th of
 * them; what the workgroups leave is summed by one workgroup more.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "row.glsl"
#include "contract/sum_of_squares.h"

OPERAND_IN(0, x)
IN(1, plus)
OUT(2, y)

void main()
{
  uint group = group_index();
  uint first = group * share;
  if (first >= count && group != 0u) {
    return;
  }
  uint n = min(share, count - first);
  bool one_axis = extent.w == count;
  float sum = 0.0;
  FOR_BLOCKS(block, n) {
    float part = 0.0;
    FOR_BLOCK(i, block, n) {
      uint from = first + i;
      VECTOR z = LOAD(x, x_offset + (one_axis ? from * x_stride.w : element(unravel(from, extent), x_stride)));
      part += sum_of(squared != 0u ? z * z : z);
    }
    sum += part;
  }
  sum = group_sum(sum);
  if (gl_LocalInvocationID.x == 0u) {
    WORD(y, y_at + group) = floatBitsToUint(added != 0u ? sum + FLOAT(plus, plus_offset) : sum);
  }
}

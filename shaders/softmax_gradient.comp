#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax_gradient: dx = y (dy - sum(y dy)), and log_softmax_gradient: dx = dy - e^y sum(dy). A workgroup has a row, an
 * invocation every size-th of its elements, or groups.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "exponential.glsl"
#include "row.glsl"
#include "contract/softmax_gradient.h"

OPERAND_IN(0, y)
OPERAND_IN(1, dy)
OPERAND_OUT(2, dx)

void main()
{
  uint row = group_index();
  if (row >= rows) {
    return;
  }
  uvec4 place = unravel(row, uvec4(1u, extent.xyz)).yzwx;
  uint y_at = y_offset + element(place, y_stride);
  uint dy_at = dy_offset + element(place, dy_stride);

  float sum = 0.0;
  FOR_BLOCKS(block, extent.w) {
    float part = 0.0;
    FOR_BLOCK(i, block, extent.w) {
      VECTOR d = LOAD(dy, dy_at + i * dy_stride.w);
      part += sum_of(logarithm != 0u ? d : LOAD(y, y_at + i * y_stride.w) * d);
    }
    sum += part;
  }
  sum = group_sum(sum);

  for (uint i = gl_LocalInvocationID.x; i < extent.w; i += gl_WorkGroupSize.x) {
    VECTOR z = LOAD(y, y_at + i * y_stride.w);
    VECTOR d = LOAD(dy, dy_at + i * dy_stride.w);
    for (int j = 0; j < WIDTH; ++j) {
      if (logarithm != 0u) {
        COMPONENT(z, j) = COMPONENT(d, j) - exp_accurate(COMPONENT(z, j)) * sum;
      } else {
        COMPONENT(z, j) = COMPONENT(z, j) == 0.0 ? 0.0 : COMPONENT(z, j) * (COMPONENT(d, j) - sum);
      }
    }
    STORE(dx, row * extent.w + i, z);
  }
}

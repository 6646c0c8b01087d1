#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax: y[i] = e^(z[i] - max z) / sum_j e^(z[j] - max z), z = x + mask, and log_softmax. A workgroup has a row, an
 * invocation every size-th of its elements, or groups.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "exponential.glsl"
#include "row.glsl"
#include "contract/softmax.h"

OPERAND_IN(0, x)
OPERAND_IN(1, mask)
OPERAND_OUT(2, y)

/* x + mask, -inf where one of them is */
VECTOR load(uint x_at, uint mask_at, uint i)
{
  VECTOR z = LOAD(x, x_at + i * x_stride.w);
  if (masked != 0u) {
    VECTOR m = LOAD(mask, mask_at + i * mask_stride.w);
    for (int j = 0; j < WIDTH; ++j) {
      bool excluded = is_minus_inf(COMPONENT(z, j)) || is_minus_inf(COMPONENT(m, j));
      COMPONENT(z, j) =
        uintBitsToFloat(excluded ? MINUS_INF_BITS : floatBitsToUint(COMPONENT(z, j) + COMPONENT(m, j)));
    }
  }
  return z;
}

void main()
{
  uint row = group_index();
  if (row >= rows) {
    return;
  }
  uvec4 place = unravel(row, uvec4(1u, extent.xyz)).yzwx;
  uint x_at = x_offset + element(place, x_stride);
  uint mask_at = mask_offset + element(place, mask_stride);
  uint y_at = row * extent.w;

  uint order = 0u;
  FOR_BLOCKS(block, extent.w) {
    FOR_BLOCK(i, block, extent.w) {
      VECTOR z = load(x_at, mask_at, i);
      for (int j = 0; j < WIDTH; ++j) {
        order = max(order, order_of(COMPONENT(z, j)));
      }
    }
  }
  order = group_max(order);
  float largest = finite_of(order);
  bool nothing = order <= ORDER_MINUS_INF;

  float sum = 0.0;
  FOR_BLOCKS(block, extent.w) {
    float part = 0.0;
    FOR_BLOCK(i, block, extent.w) {
      VECTOR z = load(x_at, mask_at, i);
      for (int j = 0; j < WIDTH; ++j) {
        COMPONENT(z, j) = exp_accurate(COMPONENT(z, j) - largest);
      }
      part += sum_of(z);
    }
    sum += part;
  }
  sum = group_sum(sum);

  float shift = logarithm != 0u ? log_accurate(sum) : 0.0;
  for (uint i = gl_LocalInvocationID.x; i < extent.w; i += gl_WorkGroupSize.x) {
    VECTOR z = load(x_at, mask_at, i);
    for (int j = 0; j < WIDTH; ++j) {
      float centred = COMPONENT(z, j) - largest;
      if (logarithm != 0u) {
        COMPONENT(z, j) = uintBitsToFloat(nothing ? MINUS_INF_BITS : floatBitsToUint(centred - shift));
      } else {
        COMPONENT(z, j) = nothing ? 0.0 : exp_accurate(centred) / sum;
      }
    }
    STORE(y, y_at + i, z);
  }
}

#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * cross_entropy: lse = ln sum_v e^x[v], loss = lse - (1 - smoothing) x[label] - smoothing mean(x). A workgroup has a
 * row, an invocation every size-th of its elements, or groups. All sums are over logits less the row's largest.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "exponential.glsl"
#include "row.glsl"
#include "contract/cross_entropy.h"

OPERAND_IN(0, x)
IN(0, x_element)
IN(1, labels)
OUT(2, loss)
OUT(3, lse)

void main()
{
  uint row = group_index();
  if (row >= rows) {
    return;
  }
  uint x_at = x_offset + row * row_stride;

  uint order = 0u;
  FOR_BLOCKS(block, extent) {
    FOR_BLOCK(i, block, extent) {
      VECTOR z = LOAD(x, x_at + i * element_stride);
      for (int j = 0; j < WIDTH; ++j) {
        order = max(order, order_of(COMPONENT(z, j)));
      }
    }
  }
  order = group_max(order);
  float largest = finite_of(order);
  bool nothing = order <= ORDER_MINUS_INF;

  float exponentials = 0.0;
  float linear = 0.0;
  FOR_BLOCKS(block, extent) {
    float part = 0.0;
    float linear_part = 0.0;
    FOR_BLOCK(i, block, extent) {
      VECTOR z = LOAD(x, x_at + i * element_stride) - largest;
      linear_part += sum_of(z);
      for (int j = 0; j < WIDTH; ++j) {
        COMPONENT(z, j) = exp_accurate(COMPONENT(z, j));
      }
      part += sum_of(z);
    }
    exponentials += part;
    linear += linear_part;
  }
  exponentials = group_sum(exponentials);
  linear = group_sum(linear);
  if (gl_LocalInvocationID.x != 0u) {
    return;
  }

  float shift = log_accurate(exponentials);
  WORD(lse, row) = nothing ? MINUS_INF_BITS : floatBitsToUint(largest + shift);
  uint label = WORD(labels, labels_offset + row * labels_stride);
  float result = 0.0;
  if (label < vocabulary) {
    float chosen = FLOAT(x_element, x_at * WIDTH + label * element_stride) - largest;
    result = shift - (1.0 - smoothing) * chosen;
    if (smoothing > 0.0) {
      result -= smoothing / float(vocabulary) * linear;
    }
  }
  WORD(loss, row) = nothing && label < vocabulary ? PLUS_INF_BITS : floatBitsToUint(result);
}

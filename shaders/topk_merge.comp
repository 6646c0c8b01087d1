#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * The k largest of a row, or of the logarithm of its softmax, from the lists of candidates that lib/product_topk.glsl
 * left.
 *
 * A workgroup has a row: it finds the largest candidate and strikes it out, k times. An invocation looks through every
 * size-th candidate.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "exponential.glsl"
#include "candidates.glsl"
#include "reduce.glsl"
#include "contract/topk_merge.h"

OUT(0, scratch)
OUT(1, values)
OUT(2, indices)
OUT(3, state)

/* Of a row whose largest is `top`: the sum of e^(x - top) */
float row_sum(uint row, float top)
{
  uint at = candidates_at + 2u * (rows * lists * k + row * lists);
  float sum = 0.0;
  for (uint i = gl_LocalInvocationID.x; i < lists; i += gl_WorkGroupSize.x) {
    uint largest = WORD(scratch, at + 2u * i);
    if (largest > ORDER_MINUS_INF) {
      sum += FLOAT(scratch, at + 2u * i + 1u) * exp_accurate(number_of(largest) - top);
    }
  }
  return group_sum(sum);
}

void main()
{
  uint row = group_index();
  if (row >= rows) {
    return;
  }
  uint at = candidates_at + 2u * row * lists * k;
  float top = 0.0;
  float shift = 0.0;
  bool strange = false; /* its softmax is NaN */
  for (uint r = 0u; r < k; ++r) {
    uvec2 best = NOBODY;
    uint best_at = 0u;
    for (uint i = gl_LocalInvocationID.x; i < lists * k; i += gl_WorkGroupSize.x) {
      uvec2 candidate = uvec2(WORD(scratch, at + 2u * i), WORD(scratch, at + 2u * i + 1u));
      if (before(candidate, best)) {
        best = candidate;
        best_at = at + 2u * i;
      }
    }
    uint largest = group_max(best.x);
    uint index = ~group_max(best.x == largest ? ~best.y : 0u);
    if (best.x == largest && best.y == index) {
      WORD(scratch, best_at) = NOBODY.x;
    }
    if (logarithm != 0u && r == 0u) {
      strange = largest >= ORDER_PLUS_INF;
      top = number_of(largest);
      shift = log_accurate(row_sum(row, top));
    }
    if (gl_LocalInvocationID.x == 0u) {
      float value = number_of(largest);
      if (logarithm != 0u && largest > ORDER_MINUS_INF) {
        value = value - top - shift;
      }
      WORD(values, row * k + r) = strange ? NAN_BITS : floatBitsToUint(value);
      uint found = strange ? r : index;
      WORD(indices, row * k + r) = found;
      if (feeds != 0u) {
        WORD(state, state_at + row) = found;
      }
    }
  }
}

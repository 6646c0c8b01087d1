#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * What the splits of attention's keys found becomes the result: an invocation makes one element of it.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "exponential.glsl"
#include "contract/attention_combine.h"

IN(0, scratch)
OUT(1, y)
OUT(2, lse)

void main()
{
  uint columns = max(width, 1u); /* the sums are wanted even where y has no element */
  uint row = invocation_index() / columns;
  uint j = invocation_index() - row * columns;
  if (row >= rows) {
    return;
  }
  uint stride = ATTENTION_HEADER_WORDS + width;
  uint begin = partial_at + row * splits * stride;
  uint end = begin + splits * stride;
  uint order = ORDER_MINUS_INF;
  for (uint at = begin; at < end; at += stride) {
    if (FLOAT(scratch, at + 1u) != 0.0) {
      order = max(order, order_of(FLOAT(scratch, at)));
    }
  }
  float largest = number_of(order);
  float total = 0.0;
  float result = 0.0;
  for (uint at = begin; at < end; at += stride) {
    float sum = FLOAT(scratch, at + 1u);
    if (sum != 0.0) { /* else the split saw nothing */
      float shrink = exp_accurate(FLOAT(scratch, at) - largest);
      total += shrink * sum;
      if (width > 0u) {
        result += shrink * FLOAT(scratch, at + ATTENTION_HEADER_WORDS + j);
      }
    }
  }
  uint l = row % queries;
  uint b = row / queries / heads;
  uint h = row / queries % heads;
  if (width > 0u) {
    WORD(y, ((b * queries + l) * heads + h) * width + j) = floatBitsToUint(total == 0.0 ? 0.0 : result / total);
  }
  if (sums != 0u && j == 0u) {
    WORD(lse, row) = total == 0.0 ? MINUS_INF_BITS : floatBitsToUint(largest + log_accurate(total));
  }
}

#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * What the splits of attention's keys found becomes the result: an invocation makes one element of it.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "exponential.glsl"

layout(push_constant, std430) uniform parameters
{
  uint queries;
  uint heads;
  uint width;
  uint rows; /* queries of all sentences and heads */
  uint splits;
  uint partial_at;   /* words into scratch: of each query and split the largest score and the sum */
  uint partial_y_at; /* likewise: its part of y */
  uint sums;         /* 1: lse is wanted */
};

IN(0, scratch)
OUT(1, y)
OUT(2, lse)

void main()
{
  uint columns = max(width, 1u); /* the sums are wanted even where y has no element */
  uint row = invocation_index() / columns;
  uint j = invocation_index() - row * columns;
  if (row >= rows)
    return;
  uint at = partial_at + 2u * row * splits;
  uint order = ORDER_MINUS_INF;
  for (uint i = 0u; i < splits; ++i) {
    if (FLOAT(scratch, at + 2u * i + 1u) != 0.0)
      order = max(order, order_of(FLOAT(scratch, at + 2u * i)));
  }
  float largest = number_of(order);
  float total = 0.0;
  float result = 0.0;
  for (uint i = 0u; i < splits; ++i) {
    float sum = FLOAT(scratch, at + 2u * i + 1u);
    if (sum != 0.0) { /* else the split saw nothing */
      float shrink = exp_accurate(FLOAT(scratch, at + 2u * i) - largest);
      total += shrink * sum;
      if (width > 0u)
        result += shrink * FLOAT(scratch, partial_y_at + (row * splits + i) * width + j);
    }
  }
  uint l = row % queries;
  uint b = row / queries / heads;
  uint h = row / queries % heads;
  if (width > 0u)
    WORD(y, ((b * queries + l) * heads + h) * width + j) = floatBitsToUint(total == 0.0 ? 0.0 : result / total);
  if (sums != 0u && j == 0u)
    WORD(lse, row) = floatBitsToUint(total == 0.0 ? MINUS_INF : largest + log_accurate(total));
}

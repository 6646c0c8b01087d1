#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantises rows to i8 for tsr_matmul_i8. lib/quantised.glsl has the formula, and the layout of the result. A workgroup
 * has a row. An invocation makes one word at a time, of four elements; with QUADS those lie side by side, aligned.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "number.glsl"
#include "reduce.glsl"
#include "contract/quantise.h"
#include "quantised.glsl"

OUT(1, y)

#ifdef QUADS
IN4(0, x4)

vec4 load(uint at, uint word)
{
  return word < depth ? FLOAT4(x4, at + word) : vec4(0.0);
}

#define ELEMENTS(depth) ((depth) * 4u)
#else
IN(0, x)

vec4 load(uint at, uint word)
{
  vec4 value = vec4(0.0);
  uint n = min(depth - min(word * 4u, depth), 4u);
  for (uint j = 0u; j < n; ++j) {
    value[j] = FLOAT(x, at + (word * 4u + j) * x_stride[3]);
  }
  return value;
}

#define ELEMENTS(depth) (depth)
#endif

uint row_groups()
{
  return weight_type == TYPE_I4 ? FOUR_BITS_GROUPS(ELEMENTS(depth)) : QUANTISED_GROUPS(ELEMENTS(depth));
}

void main()
{
  uint row = group_index();
  if (row >= count) {
    return;
  }
  uint matrix = row / rows;
  uint outer = matrix / inner_batch;
  uint x_at = x_offset + outer * x_stride[0] + (matrix - outer * inner_batch) * x_stride[1] +
              (row - matrix * rows) * x_stride[2];
  uint words = row_groups() * 4u;
  uint y_row = y_at + row * (words + 4u);

  uint largest = 0u;
  for (uint i = gl_LocalInvocationID.x; i < words; i += gl_WorkGroupSize.x) {
    largest = max(largest, largest_magnitude(load(x_at, i)));
  }
  largest = group_max(largest);
  float factor = units_of_one(largest);
  for (uint i = gl_LocalInvocationID.x; i < words; i += gl_WorkGroupSize.x) {
    WORD(y, y_row + i) = quantised_word(load(x_at, i), factor);
  }
  if (gl_LocalInvocationID.x == 0u) {
    WORD(y, y_row + words) = bits_of_unit(largest);
  }
}

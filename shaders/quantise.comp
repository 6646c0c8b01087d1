#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantises rows to i8 for tsr_matmul_i8: q[k] = round(127 x[k] / max |x|). lib/quantised.glsl has the layout of the
 * result. A workgroup has a row. An invocation makes one word at a time, of four elements; with QUADS those lie side by
 * side, aligned.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "number.glsl"
#include "reduce.glsl"
#include "contract/quantise.h"
#include "contract/quantised.h"

OUT(1, y)

#ifdef QUADS
IN4(0, x4)

vec4 load(uint at, uint word)
{
  return word < depth ? FLOAT4(x4, at + word) : vec4(0.0);
}

uint row_groups()
{
  return (depth + 3u) / 4u;
}
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

uint row_groups()
{
  return QUANTISED_GROUPS(depth);
}
#endif

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

  /* Of magnitudes as bits, those of infinities and NaN are the largest. */
  uint largest = 0u;
  for (uint i = gl_LocalInvocationID.x; i < words; i += gl_WorkGroupSize.x) {
    uvec4 magnitude = floatBitsToUint(load(x_at, i)) & 0x7fffffffu;
    largest = max(largest, max(max(magnitude.x, magnitude.y), max(magnitude.z, magnitude.w)));
  }
  largest = group_max(largest);
  bool finite = largest < 0x7f800000u;
  bool counts = finite && largest >= 0x0d800000u; /* 2^-100 */
  float amax = counts ? uintBitsToFloat(largest) : 1.0;
  /* Divisions are accurate below 2^126 only. */
  float inverse = counts ? 127.0 / (0.25 * amax) * 0.25 : 0.0;
  for (uint i = gl_LocalInvocationID.x; i < words; i += gl_WorkGroupSize.x) {
    uint word = 0u;
    if (counts) {
      ivec4 q = ivec4(clamp(roundEven(load(x_at, i) * inverse), -127.0, 127.0)) & 0xff;
      word = uint(q.x | q.y << 8 | q.z << 16 | q.w << 24);
    }
    WORD(y, y_row + i) = word;
  }
  if (gl_LocalInvocationID.x == 0u) {
    WORD(y, y_row + words) = finite ? floatBitsToUint(counts ? amax / 127.0 : 0.0) : NAN_BITS;
  }
}

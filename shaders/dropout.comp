#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x where it is kept, scaled, else 0. An invocation has the eight elements that one call of the generator serves;
 * with QUADS two groups of four (extents and strides then count groups).
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "dropout.glsl"
#include "index.glsl"
#include "contract/dropout.h"

IN(0, x)
IN(1, seed)
#ifdef QUADS
#define STEPS (DROPOUT_GROUP / 4u)
IN4(0, x4)
OUT4(2, y)
#else
#define STEPS DROPOUT_GROUP
OUT(2, y)
#endif

void main()
{
  uint group = invocation_index();
  uint first = group * STEPS;
  if (first >= count) {
    return;
  }
  uvec2 key = uvec2(WORD(seed, seed_offset), WORD(seed, seed_offset + seed_stride));
  uvec4 words = dropout_words(uvec2(group, 0u), stream, key);
  uint end = min(STEPS, count - first);
  for (uint i = 0u; i < end; ++i) {
    uint at = x_offset + element(unravel(first + i, extent), x_stride);
#ifdef QUADS
    vec4 z = scale * uintBitsToFloat(repeat != 0u ? uvec4(WORD(x, at)) : QUAD(x4, at));
    for (uint j = 0u; j < 4u; ++j) {
      z[j] = dropout_keeps(words, i * 4u + j, threshold) ? z[j] : 0.0;
    }
    SET_QUAD(y, first + i, floatBitsToUint(z));
#else
    WORD(y, first + i) = dropout_keeps(words, i, threshold) ? floatBitsToUint(scale * FLOAT(x, at)) : 0u;
#endif
  }
}

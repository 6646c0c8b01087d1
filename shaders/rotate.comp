#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * rotate: y[i] = x[i] c - x[h + i] s, y[h + i] = x[h + i] c + x[i] s over any views, h half of a row, c = turns[i] and
 * s = alpha turns[h + i]. An invocation has a pair.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "number.glsl"
#include "index.glsl"
#include "contract/rotate.h"

IN(0, x)
IN(1, turns)
OUT(2, y)

void main()
{
  uint i = invocation_index();
  if (i >= count) {
    return;
  }
  uint half_row = extent.w, row = i / half_row;
  uvec4 place = unravel(i, extent);
  uint x_at = x_offset + element(place, x_stride), at = turns_offset + element(place, turns_stride);
  float first = FLOAT(x, x_at), second = FLOAT(x, x_at + half_row * x_stride.w);
  float cosine = FLOAT(turns, at), sine = times(alpha_bits, FLOAT(turns, at + half_row * turns_stride.w));
  uint y_at = i + row * half_row;
  WORD(y, y_at) = floatBitsToUint(first * cosine - second * sine);
  WORD(y, y_at + half_row) = floatBitsToUint(second * cosine + first * sine);
}

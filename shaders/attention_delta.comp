#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * What attention_gradient.comp takes of each query: lse, and delta = dy . y. An invocation has one query.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "index.glsl"
#include "contract/attention_delta.h"

IN(0, y)
IN(1, dy)
IN(2, lse)
OUT(3, stats)

void main()
{
  uint row = invocation_index();
  if (row >= count) {
    return;
  }
  uvec4 place = unravel(row, uvec4(1u, 0xffffffffu, heads, queries));
  uint y_at = y_offset + place.y * y_stride[0] + place.z * y_stride[1] + place.w * y_stride[2];
  uint dy_at = dy_offset + place.y * dy_stride[0] + place.z * dy_stride[1] + place.w * dy_stride[2];
  float delta = 0.0;
  for (uint j = 0u; j < width; ++j) {
    delta = fma(FLOAT(dy, dy_at + j * dy_stride[3]), FLOAT(y, y_at + j * y_stride[3]), delta);
  }
  uint at = 2u * (stats_at + row);
  WORD(stats, at) = WORD(lse, lse_offset + place.y * lse_stride[0] + place.z * lse_stride[1] + place.w * lse_stride[2]);
  WORD(stats, at + 1u) = floatBitsToUint(delta);
}

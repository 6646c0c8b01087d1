#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of a norm's gain and bias: dgain = sum of dy n over the rows, dbias = sum of dy. An invocation sums one
 * column, or with QUADS four, over a block of rows.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "row.glsl"
#include "contract/norm_gradient_columns.h"
#include "norm_gradient.glsl"

OPERAND_IN(0, x)
OPERAND_IN(1, dy)
IN(2, stats)
OPERAND_OUT(3, dgain)
OPERAND_OUT(4, dbias)

void main()
{
  uint width = (extent.w + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
  uint part = group_index() / width;
  uint column = (group_index() - part * width) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (column >= extent.w || part * block >= max(rows, 1u)) {
    return;
  }
  uint end = min(part * block + block, rows);
  VECTOR gain_sum = VECTOR(0.0);
  VECTOR bias_sum = VECTOR(0.0);
  for (uint first = part * block; first < end; first += BLOCK) {
    VECTOR gain_part = VECTOR(0.0);
    VECTOR bias_part = VECTOR(0.0);
    for (uint row = first; row < min(first + BLOCK, end); ++row) {
      uvec4 place = unravel(row, uvec4(1u, extent.xyz)).yzwx;
      VECTOR d = LOAD(dy, dy_offset + element(place, dy_stride) + column * dy_stride.w);
      VECTOR z = LOAD(x, x_offset + element(place, x_stride) + column * x_stride.w);
      float mean = FLOAT(stats, stats_at + 2u * row);
      float scale = FLOAT(stats, stats_at + 2u * row + 1u);
      gain_part += d * ((z - mean) * scale);
      bias_part += d;
    }
    gain_sum += gain_part;
    bias_sum += bias_part;
  }
  STORE(dgain, dgain_at + part * extent.w + column, gain_sum);
  if (biased != 0u) {
    STORE(dbias, dbias_at + part * extent.w + column, bias_sum);
  }
}

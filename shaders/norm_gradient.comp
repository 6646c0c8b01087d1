#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradient of layernorm and rmsnorm with respect to x: with n = (x - mean) scale and h = dy gain, dx = scale (h -
 * mean(h) - n mean(h n)), without mean(x) and mean(h) for rmsnorm. A workgroup has a row, an invocation every size-th
 * of its elements, or groups. Leaves the row's mean and scale for norm_gradient_columns.comp.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "row.glsl"
#include "contract/norm_gradient_rows.h"
#include "norm_gradient.glsl"

OPERAND_IN(0, x)
OPERAND_IN(1, gain)
OPERAND_IN(2, dy)
OPERAND_OUT(3, dx)
OUT(4, stats)

void main()
{
  uint row = group_index();
  if (row >= rows) {
    return;
  }
  uvec4 place = unravel(row, uvec4(1u, extent.xyz)).yzwx;
  uint x_at = x_offset + element(place, x_stride);
  uint dy_at = dy_offset + element(place, dy_stride);

  float mean = 0.0;
  if (centred != NORM_PLAIN) {
    float sum = 0.0;
    FOR_BLOCKS(block, extent.w) {
      float part = 0.0;
      FOR_BLOCK(i, block, extent.w) {
        part += sum_of(LOAD(x, x_at + i * x_stride.w));
      }
      sum += part;
    }
    mean = group_sum(sum) / length;
  }
  float squares = 0.0; /* with c = x - mean, h = dy * gain: of c */
  float products = 0.0; /* of c and h */
  float linear = 0.0; /* of h */
  FOR_BLOCKS(block, extent.w) {
    float squares_part = 0.0;
    float products_part = 0.0;
    float linear_part = 0.0;
    FOR_BLOCK(i, block, extent.w) {
      VECTOR c = LOAD(x, x_at + i * x_stride.w) - mean;
      VECTOR h = LOAD(dy, dy_at + i * dy_stride.w) * LOAD(gain, gain_offset + i * gain_stride);
      squares_part += sum_of(c * c);
      products_part += sum_of(c * h);
      linear_part += sum_of(h);
    }
    squares += squares_part;
    products += products_part;
    linear += linear_part;
  }
  float total = group_sum(squares);
  float scale = 1.0 / sqrt(total / length + epsilon);
  float along = group_sum(products); /* becomes the mean of h n, or what takes its place */
  if (centred == NORM_UNBIASED) {
    float degrees = max(length - 1.0, 1.0);
    float deviation = sqrt(total / degrees);
    scale = 1.0 / (deviation + epsilon);
    along = total == 0.0 ? 0.0 : along * scale / degrees * ((deviation + epsilon) / deviation);
  } else {
    along = along * scale / length;
  }
  float level = centred != NORM_PLAIN ? group_sum(linear) / length : 0.0;

  for (uint i = gl_LocalInvocationID.x; i < extent.w; i += gl_WorkGroupSize.x) {
    VECTOR n = (LOAD(x, x_at + i * x_stride.w) - mean) * scale;
    VECTOR h = LOAD(dy, dy_at + i * dy_stride.w) * LOAD(gain, gain_offset + i * gain_stride);
    STORE(dx, row * extent.w + i, scale * (h - level - n * along));
  }
  if (gl_LocalInvocationID.x == 0u) {
    WORD(stats, stats_at + 2u * row) = floatBitsToUint(mean);
    WORD(stats, stats_at + 2u * row + 1u) = floatBitsToUint(scale);
  }
}

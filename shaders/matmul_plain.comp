#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product for devices where loads are what costs, and shared memory and barriers cost more (CPUs): a workgroup
 * is one subgroup, whose lanes lie along the columns. Each value of a is loaded by one lane and handed to the others
 * by a shuffle. k of a is contiguous; of b, k is (weights stored [N, K]), or with B_ROWS n. Groups of four
 * throughout.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "operand.glsl"
#include "number.glsl"

layout(constant_id = 4) const uint tile_rows = 8u;    /* at most `lanes`, both powers of two */
layout(constant_id = 5) const uint lanes = 8u;        /* the subgroup's */
layout(constant_id = 6) const uint tile_columns = 4u; /* of one lane; 4 with B_ROWS */

#include "product.glsl"

IN4(0, a)
IN4(1, b)
IN2(1, b_narrow)

vec4 load_b(uint at)
{
  if (b_type == TYPE_F32)
    return FLOAT4(b, at);
  uvec2 words = PAIR(b_narrow, at);
  if (b_type == TYPE_F16)
    return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y));
  return uintBitsToFloat(uvec4(words.x << 16, words.x & 0xffff0000u, words.y << 16, words.y & 0xffff0000u));
}

void main()
{
  const uint steps = lanes / tile_rows; /* groups of k that one load of a brings */
  uvec3 tile = tile_of(group_index());
  uint lane = gl_SubgroupInvocationID;
  uint first_row = tile.x * tile_rows;
  uint a_at = a_offset + batch_offset(tile.z, a_stride[0], a_stride[1]) +
              min(first_row + lane % tile_rows, rows - 1u) * a_stride[2];
  uint b_batch = b_offset + batch_offset(tile.z, b_stride[0], b_stride[1]);
  float sum[tile_rows][tile_columns];
  for (uint m = 0u; m < tile_rows; ++m)
    for (uint c = 0u; c < tile_columns; ++c)
      sum[m][c] = 0.0;
#ifdef B_ROWS
  uint first_column = (tile.y * lanes + lane) * 4u;
  uint b_at = b_batch + min(tile.y * lanes + lane, columns / 4u - 1u);
#else
  uint first_column = tile.y * lanes * tile_columns + lane;
  uint b_at[tile_columns];
  for (uint c = 0u; c < tile_columns; ++c)
    b_at[c] = b_batch + min(first_column + c * lanes, columns - 1u) * b_stride[3];
#endif

  uint quads = depth / 4u;
  for (uint k = 0u; k < quads; k += steps) {
    vec4 a_mine = FLOAT4(a, a_at + min(k + lane / tile_rows, quads - 1u));
    for (uint step = 0u; step < steps; ++step) {
      if (k + step < quads) {
        vec4 b_mine[tile_columns];
        for (uint c = 0u; c < tile_columns; ++c) {
#ifdef B_ROWS
          b_mine[c] = load_b(b_at + ((k + step) * 4u + c) * b_stride[2]);
#else
          b_mine[c] = load_b(b_at[c] + k + step);
#endif
        }
        for (uint m = 0u; m < tile_rows; ++m) {
          vec4 x = subgroupShuffle(a_mine, step * tile_rows + m);
          for (uint c = 0u; c < tile_columns; ++c) {
#ifdef B_ROWS
            sum[m][c] = fma(x[0], b_mine[0][c], sum[m][c]);
            sum[m][c] = fma(x[1], b_mine[1][c], sum[m][c]);
            sum[m][c] = fma(x[2], b_mine[2][c], sum[m][c]);
            sum[m][c] = fma(x[3], b_mine[3][c], sum[m][c]);
#else
            for (uint j = 0u; j < 4u; ++j)
              sum[m][c] = fma(x[j], b_mine[c][j], sum[m][c]);
#endif
          }
        }
      }
    }
  }
  for (uint m = 0u; m < tile_rows; ++m) {
    for (uint c = 0u; c < tile_columns; ++c) {
#ifdef B_ROWS
      uint n = first_column + c;
#else
      uint n = first_column + c * lanes;
#endif
      if (first_row + m < rows && n < columns)
        store(tile.z, first_row + m, n, sum[m][c]);
    }
  }
}

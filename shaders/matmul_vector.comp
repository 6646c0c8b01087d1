#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product with few rows, for GPUs: the invocations of a workgroup divide the depth among them as well, and add
 * up their sums in shared memory, so that loads of b lie side by side whichever of its axes is contiguous.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "number.glsl"

layout(constant_id = 4) const uint tile_rows = 1u;     /* tile_rows * tile_columns is at most 16 */
layout(constant_id = 5) const uint tile_columns = 1u;  /* of one invocation */
layout(constant_id = 6) const uint depth_lanes = 32u;  /* invocations along k: a power of two, at most the workgroup */
layout(constant_id = 7) const uint b_along_depth = 1u; /* 1: k is b's contiguous axis, 0: n */

#include "product.glsl"

IN(0, a)
IN(1, b)

#include "element_of_b.glsl"

shared float part[2048]; /* 16 sums of each of 128 invocations */

void main()
{
  const uint lanes = gl_WorkGroupSize.x;
  const uint column_lanes = lanes / depth_lanes;
  const uint sums = tile_rows * tile_columns;
  uvec3 tile = tile_of(group_index());
  uint lane = gl_LocalInvocationID.x;
  uint k_lane = b_along_depth != 0u ? lane % depth_lanes : lane / column_lanes;
  uint n_lane = b_along_depth != 0u ? lane / depth_lanes : lane % column_lanes;
  uint first_row = tile.x * tile_rows;
  uint first_column = tile.y * column_lanes * tile_columns + n_lane;
  uint a_at = a_offset + batch_offset(tile.z, a_stride[0], a_stride[1]);
  uint b_at = b_offset + batch_offset(tile.z, b_stride[0], b_stride[1]);
  float sum[sums];
  for (uint i = 0u; i < sums; ++i)
    sum[i] = 0.0;
  for (uint k = k_lane; k < depth; k += depth_lanes) {
    float x[tile_rows];
    for (uint m = 0u; m < tile_rows; ++m)
      x[m] = FLOAT(a, a_at + min(first_row + m, rows - 1u) * a_stride[2] + k * a_stride[3]);
    for (uint c = 0u; c < tile_columns; ++c) {
      float z = load_b(b_at + k * b_stride[2] + min(first_column + c * column_lanes, columns - 1u) * b_stride[3]);
      for (uint m = 0u; m < tile_rows; ++m)
        sum[m * tile_columns + c] = fma(x[m], z, sum[m * tile_columns + c]);
    }
  }

  /* part[k lane][sum][column lane] */
  for (uint i = 0u; i < sums; ++i)
    part[(k_lane * sums + i) * column_lanes + n_lane] = sum[i];
  const uint results = sums * column_lanes;
  for (uint half_size = depth_lanes >> 1; half_size > 0u; half_size >>= 1) {
    barrier();
    for (uint i = lane; i < half_size * results; i += lanes)
      part[i] += part[i + half_size * results];
  }
  barrier();
  for (uint i = lane; i < results; i += lanes) {
    uint m = first_row + i / column_lanes / tile_columns;
    uint n = tile.y * column_lanes * tile_columns + i / column_lanes % tile_columns * column_lanes + i % column_lanes;
    if (m < rows && n < columns)
      store(tile.z, m, n, part[i]);
  }
}

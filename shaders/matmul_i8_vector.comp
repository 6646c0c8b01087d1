#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product with weights of i8 and few rows, for GPUs: a workgroup makes a few columns, its invocations lie along
 * k, which is contiguous in b, in groups of 16. Sums are added up by the subgroups, and their sums in shared memory; without
 * SUBGROUP by a tree in shared memory.
 */
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
#define QUANTISED
#include "operand.glsl"
#include "number.glsl"

layout(constant_id = 4) const uint tile_rows = 1u;    /* tile_rows * tile_columns is at most 16 */
layout(constant_id = 5) const uint tile_columns = 4u;

#include "product.glsl"
#include "quantised.glsl"

IN4(0, a)
IN4(1, b)

shared int part[2048]; /* 16 sums of each of 128 invocations */

void main()
{
  const uint lanes = gl_WorkGroupSize.x;
  const uint sums = tile_rows * tile_columns;
  if (group_index() >= groups)
    return;
  uvec3 tile = tile_of(group_index());
  uint lane = gl_LocalInvocationID.x;
  uint first_row = tile.x * tile_rows;
  uint first_column = tile.y * tile_columns;
  uint a_batch = a_offset + batch_offset(tile.z, a_stride[0], a_stride[1]);
  uint b_batch = b_offset + batch_offset(tile.z, b_stride[0], b_stride[1]);
  uint b_at[tile_columns];
  int sum[sums];
  for (uint i = 0u; i < sums; ++i)
    sum[i] = 0;
  for (uint c = 0u; c < tile_columns; ++c)
    b_at[c] = b_batch + min(first_column + c, columns - 1u) * b_stride[3];
  for (uint k = lane; k < depth; k += lanes) {
    uvec4 weights[tile_columns];
    for (uint c = 0u; c < tile_columns; ++c)
      weights[c] = QUAD(b, b_at[c] + k);
    for (uint m = 0u; m < tile_rows; ++m) {
      uvec4 x = QUAD(a, a_batch + min(first_row + m, rows - 1u) * a_stride[2] + k);
      for (uint c = 0u; c < tile_columns; ++c)
        sum[m * tile_columns + c] += dot_bytes(x.x, weights[c].x) + dot_bytes(x.y, weights[c].y) +
                                     dot_bytes(x.z, weights[c].z) + dot_bytes(x.w, weights[c].w);
    }
  }

#ifdef SUBGROUP
  for (uint i = 0u; i < sums; ++i) {
    int all = subgroupAdd(sum[i]);
    if (subgroupElect())
      part[gl_SubgroupID * sums + i] = all;
  }
  barrier();
  for (uint i = lane; i < sums; i += lanes) {
    for (uint j = 1u; j < gl_NumSubgroups; ++j)
      part[i] += part[j * sums + i];
  }
#else
  /* part[lane][sum] */
  for (uint i = 0u; i < sums; ++i)
    part[lane * sums + i] = sum[i];
  for (uint half_size = lanes >> 1; half_size > 0u; half_size >>= 1) {
    barrier();
    for (uint i = lane; i < half_size * sums; i += lanes)
      part[i] += part[i + half_size * sums];
  }
  barrier();
#endif
  for (uint i = lane; i < sums; i += lanes) {
    uint m = first_row + i / tile_columns;
    uint n = first_column + i % tile_columns;
    if (m < rows && n < columns)
      store_quantised(tile.z, m, n, uintBitsToFloat(QUAD(a, a_batch + m * a_stride[2] + depth).x), part[i]);
  }
}

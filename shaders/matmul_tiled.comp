#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix product for GPUs: 256 invocations, 16 x 16, make a tile of 16 register tiles each way; a and b pass through
 * shared memory, 16 values of k at a time. Any strides: invocations load along the axis that is contiguous.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "number.glsl"

layout(constant_id = 4) const uint tile = 4u;          /* rows and columns of one invocation, at most 4 */
layout(constant_id = 5) const uint a_along_rows = 0u;  /* 1: m is a's contiguous axis, 0: k */
layout(constant_id = 6) const uint b_along_depth = 0u; /* 1: k is b's contiguous axis, 0: n */

#include "product.glsl"

IN(0, a)
IN(1, b)

#include "element_of_b.glsl"

#define SIDE  16u
#define STEP  16u
#define PITCH 65u /* one more than the widest tile: neighbours in k fall into different banks */

shared float a_tile[STEP * PITCH];
shared float b_tile[STEP * PITCH];

/* Place i of a tile of STEP x extent as (k, other) */
uvec2 place(uint i, uint extent, bool along_depth)
{
  return along_depth ? uvec2(i % STEP, i / STEP) : uvec2(i / extent, i % extent);
}

void main()
{
  const uint extent = SIDE * tile;
  uvec3 where = tile_of(group_index());
  uint lane = gl_LocalInvocationID.x;
  uint first_row = where.x * extent;
  uint first_column = where.y * extent;
  uint a_at = a_offset + batch_offset(where.z, a_stride[0], a_stride[1]);
  uint b_at = b_offset + batch_offset(where.z, b_stride[0], b_stride[1]);
  uint row = lane / SIDE;
  uint column = lane % SIDE;
  float sum[tile][tile];
  for (uint m = 0u; m < tile; ++m)
    for (uint n = 0u; n < tile; ++n)
      sum[m][n] = 0.0;

  for (uint k = 0u; k < depth; k += STEP) {
    for (uint i = lane; i < STEP * extent; i += SIDE * SIDE) {
      uvec2 at = place(i, extent, a_along_rows == 0u);
      bool inside = k + at.x < depth && first_row + at.y < rows;
      a_tile[at.x * PITCH + at.y] =
        inside ? FLOAT(a, a_at + (first_row + at.y) * a_stride[2] + (k + at.x) * a_stride[3]) : 0.0;
      at = place(i, extent, b_along_depth != 0u);
      inside = k + at.x < depth && first_column + at.y < columns;
      b_tile[at.x * PITCH + at.y] =
        inside ? load_b(b_at + (k + at.x) * b_stride[2] + (first_column + at.y) * b_stride[3]) : 0.0;
    }
    barrier();
    for (uint step = 0u; step < STEP; ++step) {
      float x[tile];
      for (uint m = 0u; m < tile; ++m)
        x[m] = a_tile[step * PITCH + row + m * SIDE];
      for (uint n = 0u; n < tile; ++n) {
        float z = b_tile[step * PITCH + column + n * SIDE];
        for (uint m = 0u; m < tile; ++m)
          sum[m][n] = fma(x[m], z, sum[m][n]);
      }
    }
    barrier();
  }
  for (uint m = 0u; m < tile; ++m) {
    for (uint n = 0u; n < tile; ++n) {
      uvec2 at = uvec2(first_row + row + m * SIDE, first_column + column + n * SIDE);
      if (at.x < rows && at.y < columns)
        store(where.z, at.x, at.y, sum[m][n]);
    }
  }
}

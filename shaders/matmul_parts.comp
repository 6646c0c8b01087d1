#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds up what the parts of a product's depth left in scratch memory, and finishes the sums: an invocation has one
 * result.
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "operand.glsl"
#include "product.glsl"

IN(0, partial)

/* The loads of this many parts are on their way together. */
#define AT_ONCE 4u

void main()
{
  if (group_index() >= groups) {
    return;
  }
  uvec3 tile = tile_of(group_index());
  uint i = tile.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  uint results = rows * columns; /* of one product of the batch */
  if (i >= results) {
    return;
  }
  uint at = tile.z * parts * results + i;
  float sum = 0.0;
  for (uint part = 0u; part < parts; part += AT_ONCE) {
    float x[AT_ONCE];
    [[unroll]] for (uint j = 0u; j < AT_ONCE; ++j) {
      x[j] = FLOAT(partial, at + min(part + j, parts - 1u) * results);
    }
    [[unroll]] for (uint j = 0u; j < AT_ONCE; ++j) {
      sum += part + j < parts ? x[j] : 0.0;
    }
  }
  uint m = i / columns;
  store(tile.z, m, i - m * columns, sum);
}

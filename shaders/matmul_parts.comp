#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds up what the parts of a product's depth left in scratch memory, and finishes the sums: an invocation has one
 * result. With QUANTISED the parts are whole numbers, and a's rows lie quantised in the same memory
 * (lib/quantised.glsl).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "operand.glsl"
#include "product.glsl"

#ifdef QUANTISED
#define SUM int
IN4(0, a)
#else
#define SUM float
#endif
IN(1, partial)
#define partial_offset b_offset

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
  uint at = partial_offset + tile.z * parts * results + i;
  SUM sum = SUM(0);
  for (uint part = 0u; part < parts; part += AT_ONCE) {
    uint x[AT_ONCE];
    [[unroll]] for (uint j = 0u; j < AT_ONCE; ++j) {
      x[j] = WORD(partial, at + min(part + j, parts - 1u) * results);
    }
    [[unroll]] for (uint j = 0u; j < AT_ONCE; ++j) {
#ifdef QUANTISED
      sum += part + j < parts ? int(x[j]) : 0;
#else
      sum += part + j < parts ? uintBitsToFloat(x[j]) : 0.0;
#endif
    }
  }
  uint m = i / columns;
#ifdef QUANTISED
  uint a_row = a_offset + batch_offset(tile.z, a_stride[0], a_stride[1]) + m * a_stride[2];
  store_quantised(tile.z, m, i - m * columns, uintBitsToFloat(QUAD(a, a_row + depth).x), sum);
#else
  store(tile.z, m, i - m * columns, sum);
#endif
}

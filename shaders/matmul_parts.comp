#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds up what the parts of a product's depth left in scratch memory, and finishes the sums: an invocation has one
 * result; with HALVES two neighbours, which it rounds for the product that reads them (lib/narrowed.glsl).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "operand.glsl"
#include "product.glsl"

#ifdef HALVES
#include "narrowed.glsl"
IN2(0, partial)
#define SUMS     vec2
#define RESULTS  2u
#define LOAD(at) uintBitsToFloat(PAIR(partial, at))
#else
IN(0, partial)
#define SUMS     float
#define RESULTS  1u
#define LOAD(at) FLOAT(partial, at)
#endif

/* The loads of this many parts are on their way together. */
#define AT_ONCE 4u

void main()
{
  if (group_index() >= groups) {
    return;
  }
  uvec3 tile = tile_of(group_index());
  uint i = tile.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  uint results = rows * columns / RESULTS; /* of one product of the batch */
  if (i >= results) {
    return;
  }
  uint at = a_offset / RESULTS + tile.z * parts * results + i;
  SUMS sum = SUMS(0.0);
  for (uint part = 0u; part < parts; part += AT_ONCE) {
    SUMS x[AT_ONCE];
    [[unroll]] for (uint j = 0u; j < AT_ONCE; ++j) {
      x[j] = LOAD(at + min(part + j, parts - 1u) * results);
    }
    [[unroll]] for (uint j = 0u; j < AT_ONCE; ++j) {
      sum += part + j < parts ? x[j] : SUMS(0.0);
    }
  }
  uint m = i * RESULTS / columns, n = i * RESULTS - m * columns;
#ifdef HALVES
  vec2 z = vec2(finished(tile.z, m, n, sum.x), finished(tile.z, m, n + 1u, sum.y));
  WORD(y, y_at + tile.z * results + i) = narrowed(floatBitsToUint(z));
#else
  store(tile.z, m, n, sum);
#endif
}

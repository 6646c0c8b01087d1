#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds up what the parts of a product's depth left in scratch memory, and finishes the sums: an invocation has one
 * result; with HALVES two neighbours, which it rounds for the product that reads them (lib/narrowed.glsl). With
 * QUANTISED the parts are whole numbers, of weights of four bits f32, and a's rows lie quantised in the same memory
 * (lib/quantised.glsl).
 */
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "operand.glsl"
#include "product.glsl"

#ifdef QUANTISED
IN4(0, a)
#endif
#ifdef HALVES
#define TO_BF16 (b_type == TYPE_BF16)
#include "narrowed.glsl"
IN2(1, partial)
#define SUM      vec2
#define RESULTS  2u
#define LOAD(at) uintBitsToFloat(PAIR(partial, at))
#elif defined(QUANTISED)
IN(1, partial)
#define SUM       int
#define RESULTS   1u
#define LOAD(at)  int(WORD(partial, at))
#define ADD(a, b) added(a, b)
#else
IN(1, partial)
#define SUM      float
#define RESULTS  1u
#define LOAD(at) FLOAT(partial, at)
#endif
#ifndef ADD
#define ADD(a, b) ((a) + (b))
#endif
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
  uint results = rows * columns / RESULTS; /* of one product of the batch */
  if (i >= results) {
    return;
  }
  uint at = partial_offset / RESULTS + tile.z * parts * results + i;
  SUM sum = SUM(0);
  for (uint part = 0u; part < parts; part += AT_ONCE) {
    SUM x[AT_ONCE];
    [[unroll]] for (uint j = 0u; j < AT_ONCE; ++j) {
      x[j] = LOAD(at + min(part + j, parts - 1u) * results);
    }
    [[unroll]] for (uint j = 0u; j < AT_ONCE; ++j) {
      sum = ADD(sum, part + j < parts ? x[j] : SUM(0));
    }
  }
  uint m = i * RESULTS / columns, n = i * RESULTS - m * columns;
#ifdef HALVES
  vec2 z = vec2(finish(tile.z, m, n, sum.x), finish(tile.z, m, n + 1u, sum.y));
  WORD(y, y_at + tile.z * results + i) = narrowed(floatBitsToUint(z));
#elif defined(QUANTISED)
  uint a_row = a_offset + batch_offset(tile.z, a_stride[0], a_stride[1]) + m * a_stride[2];
  store_quantised(tile.z, m, n, uintBitsToFloat(QUAD(a, a_row + depth).x), sum);
#else
  store(tile.z, m, n, sum);
#endif
}

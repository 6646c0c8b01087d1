#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * append, update: state[b, position[b] + l, ..] = x[b, l, ..]; axes are b, l and two more. An invocation has one
 * element. Both are views of 32-bit elements; with QUADS four at a time (extents and strides then count groups of
 * four). With HALVES the state is f16 or bf16, x that or f32: two elements at a time where a word of the state holds
 * two neighbours (its strides and offset, and extents, then count pairs), else one, and the other half of its word is
 * left as it is.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "index.glsl"

#ifdef HALVES
#include "format.glsl"
#include "number.glsl"
#endif
#include "contract/scatter.h"

IN(1, position)
#ifdef QUADS
IN4(0, x)
OUT4(2, state)
#else
IN(0, x)
OUT(2, state)
#endif

#ifdef HALVES
/* Element `at` of x as the state's type. */
uint fetch(uint at)
{
  if (from_type == to_type) {
    return WORD(x, at >> 1) >> ((at & 1u) * 16u) & 0xffffu;
  }
  return to_type == TYPE_F16 ? bits_to_half(WORD(x, at)) : bits_to_bfloat(WORD(x, at));
}
#endif

void main()
{
  uint i = invocation_index();
  if (i >= count) {
    return;
  }
  uvec4 place = unravel(i, extent);
  uint from = x_offset + element(place, x_stride);
  if (positioned != 0u) {
    place.y += WORD(position, position_offset + place.x * position_stride);
  }
  if (place.y >= rows) {
    return;
  }
  uint to = state_offset + element(place, state_stride);
#if defined(QUADS)
  SET_QUAD(state, to, QUAD(x, from));
#elif defined(HALVES)
  if (paired != 0u) {
    WORD(state, to) = fetch(from) | fetch(from + x_step) << 16;
  } else { /* another invocation may be at the other half */
    uint shift = (to & 1u) * 16u;
    atomicAnd(WORD(state, to >> 1), 0xffff0000u >> shift);
    atomicOr(WORD(state, to >> 1), fetch(from) << shift);
  }
#else
  WORD(state, to) = WORD(x, from);
#endif
}

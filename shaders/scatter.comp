#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * append, update: state[b, position[b] + l, ..] = x[b, l, ..], both views of 32-bit elements; axes are b, l and two
 * more. With QUADS four elements at a time (extents and strides then count groups of four).
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "index.glsl"

layout(constant_id = 2) const uint positioned = 0u; /* 1: position is given */

layout(push_constant, std430) uniform parameters
{
  uvec4 extent; /* of x */
  uvec4 x_stride;
  uvec4 state_stride;
  uint x_offset;
  uint state_offset;
  uint position_offset;
  uint position_stride;
  uint rows; /* of the state */
  uint count;
};

IN(1, position)
#ifdef QUADS
IN4(0, x)
OUT4(2, state)
#else
IN(0, x)
OUT(2, state)
#endif

void main()
{
  uint i = invocation_index();
  if (i >= count)
    return;
  uvec4 place = unravel(i, extent);
  uint from = x_offset + element(place, x_stride);
  if (positioned != 0u)
    place.y += WORD(position, position_offset + place.x * position_stride);
  if (place.y >= rows)
    return;
  uint to = state_offset + element(place, state_stride);
#ifdef QUADS
  QUAD(state, to) = QUAD(x, from);
#else
  WORD(state, to) = WORD(x, from);
#endif
}

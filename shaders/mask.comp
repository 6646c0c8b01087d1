#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x + additive + relative bias, -inf where excluded; axes b, h, l, s.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "number.glsl"
#include "index.glsl"

layout(constant_id = 2) const uint masking = 0u; /* MASK_* */

layout(push_constant, std430) uniform parameters
{
  uvec4 extent;
  uvec4 x_stride;
  uvec4 additive_stride;
  uint x_offset;
  uint additive_offset;
  uint lengths_offset;
  uint lengths_stride;
  uint position_offset;
  uint position_stride;
  uint bias_offset;
  uint reach;
  uint count;
};

IN(0, x)
IN(1, additive)
IN(2, lengths)
IN(3, position)
IN(4, scratch)
OUT(5, y)

#include "masking.glsl"

void main()
{
  uint i = invocation_index();
  if (i >= count)
    return;
  uvec4 place = unravel(i, extent);
  int first = first_position(place.x);
  float z = MINUS_INF;
  if (place.w < visible_keys(place.z, first, present_keys(place.x, extent.w))) {
    float score = FLOAT(x, x_offset + element(place, x_stride));
    float added =
      (masking & MASK_ADDITIVE) != 0u ? FLOAT(additive, additive_offset + element(place, additive_stride)) : 0.0;
    z = biased(score, added, relative_bias(place.y, place.z, place.w, first));
  }
  WORD(y, i) = floatBitsToUint(z);
}

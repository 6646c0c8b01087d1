#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * y = x + additive + relative bias, -inf where excluded; axes b, h, l, s.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "number.glsl"
#include "index.glsl"
#include "contract/mask.h"

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
  if (i >= count) {
    return;
  }
  uvec4 place = unravel(i, extent);
  int first = first_position(place.x);
  uint z = MINUS_INF_BITS;
  if (place.w < visible_keys(place.z, first, present_keys(place.x, extent.w))) {
    float score = FLOAT(x, x_offset + element(place, x_stride));
    float added =
      (masking & MASK_ADDITIVE) != 0u ? FLOAT(additive, additive_offset + element(place, additive_stride)) : 0.0;
    z = biased(score, added, relative_bias(place.y, place.z, place.w, first));
  }
  WORD(y, i) = z;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Strided views: an index over the elements of a contiguous result, taken apart along its axes.
 */
#ifndef LIB_INDEX
#define LIB_INDEX

/* index = ((i0 * e1 + i1) * e2 + i2) * e3 + i3; the loop ends early where the axes in front have extent 1 */
uvec4 unravel(uint index, uvec4 extent)
{
  uvec4 place = uvec4(0u);
  for (int axis = 3; axis > 0 && index != 0u; --axis) {
    uint outer = index / extent[axis];
    place[axis] = index - outer * extent[axis];
    index = outer;
  }
  place.x += index;
  return place;
}

/* The same where, by a specialisation constant, only the last 1, 2 or 4 axes count, the others having extent 1: a
 * division is what costs most on a CPU. */
uvec4 unravel(uint index, uvec4 extent, uint axes)
{
  if (axes == 1u) {
    return uvec4(0u, 0u, 0u, index);
  }
  if (axes == 2u) {
    uint outer = index / extent.w;
    return uvec4(0u, 0u, outer, index - outer * extent.w);
  }
  return unravel(index, extent);
}

uint element(uvec4 place, uvec4 stride)
{
  uvec4 part = place * stride;
  return part.x + part.y + part.z + part.w;
}

#endif

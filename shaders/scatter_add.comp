#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * scatter_add, in a fixed order without atomic sums: the places of x that go to one place of y are linked into a list,
 * smallest first, and each element of y walks its list.
 *   STEP_CLEAR  empties the lists: an invocation per place of y along the axis
 *   STEP_LINK   an invocation per place of x along the axis
 *   STEP_SUM    an invocation per element of y, or with QUADS per group of four
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "row.glsl"

#define NOWHERE    0xffffffffu

#include "contract/scatter_add.h"

OPERAND_IN(0, x)
IN(1, index)
OUT(2, lists)
OPERAND_OUT(3, y)

void link(uint place)
{
  uint row = WORD(index, index_offset + place * index_stride);
  if (row >= rows) {
    return;
  }
  uint next = place + 1u;
  while (next < places && WORD(index, index_offset + next * index_stride) != row) {
    ++next;
  }
  WORD(lists, next_at + place) = next < places ? next : NOWHERE;
  atomicMin(WORD(lists, first_at + row), place);
}

void main()
{
  uint i = invocation_index();
  if (step == STEP_CLEAR) {
    if (i < rows) {
      WORD(lists, first_at + i) = NOWHERE;
    }
    return;
  }
  if (step == STEP_LINK) {
    if (i < places) {
      link(i);
    }
    return;
  }
  if (i >= count) {
    return;
  }
  uvec4 where = unravel(i, extent);
  uint at = x_offset + element(where, x_stride);
  uint place = WORD(lists, first_at + where[axis]);
  VECTOR sum = VECTOR(0.0);
  while (place != NOWHERE) {
    VECTOR part = VECTOR(0.0);
    for (uint j = 0u; j < BLOCK && place != NOWHERE; ++j) {
      part += LOAD(x, at + place * row_stride);
      place = WORD(lists, next_at + place);
    }
    sum += part;
  }
  STORE(y, i, alpha * sum);
}

#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * The first half of scatter_add: sorts the places of x by the row of y that they go to, and those of a row by
 * themselves. A place that goes nowhere has the row NOWHERE, which stands last.
 *   STEP_SORT   a workgroup sorts a list of places (bitonic, in shared memory), an invocation every size-th pair
 *   STEP_MERGE  makes one list of FAN_IN: an invocation has a place, and finds out how many stand before it in each
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"

#define NOWHERE 0xffffffffu

#include "contract/scatter_sort.h"

IN(0, index)
OUT(1, scratch)

shared uint held_row[CHUNK];
shared uint held_place[CHUNK];

void write(uint at, uint row, uint place)
{
  WORD(scratch, to_at + at) = row;
  WORD(scratch, to_at + places + at) = place;
}

/* Sorts each run of `size`, whose halves are sorted: one upwards, the other downwards. */
void merge_halves(uint size)
{
  for (uint stride = size >> 1; stride > 0u; stride >>= 1) {
    barrier();
    for (uint pair = gl_LocalInvocationID.x; pair < list / 2u; pair += gl_WorkGroupSize.x) {
      uint low = 2u * pair - (pair & (stride - 1u));
      uint high = low + stride;
      uvec2 a = uvec2(held_row[low], held_place[low]);
      uvec2 b = uvec2(held_row[high], held_place[high]);
      bool exchanged = b.x < a.x || (b.x == a.x && b.y < a.y);
      if (exchanged == ((low & size) == 0u)) {
        held_row[low] = b.x;
        held_place[low] = b.y;
        held_row[high] = a.x;
        held_place[high] = a.y;
      }
    }
  }
}

void sort_list(uint first)
{
  for (uint i = gl_LocalInvocationID.x; i < list; i += gl_WorkGroupSize.x) {
    uint row = NOWHERE;
    if (first + i < places) {
      row = WORD(index, index_offset + (first + i) * index_stride);
    }
    held_row[i] = row < rows ? row : NOWHERE;
    held_place[i] = first + i;
  }
  for (uint size = 2u; size <= list; size <<= 1) {
    merge_halves(size);
  }
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < list && first + i < places; i += gl_WorkGroupSize.x) {
    write(first + i, held_row[i], held_place[i]);
  }
}

/* How many of the sorted rows at begin .. end - 1 are less than `row`, or with `equal` at most `row` */
uint count_before(uint begin, uint end, uint row, bool equal)
{
  uint low = begin;
  uint high = end;
  while (low < high) {
    uint middle = low + ((high - low) >> 1);
    uint other = WORD(scratch, from_at + middle);
    if (other < row || (equal && other == row)) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  return low - begin;
}

void merge_lists(uint i)
{
  uint own = i / list * list;
  uint begin = own / FAN_IN / list * FAN_IN * list;
  uint row = WORD(scratch, from_at + i);
  uint at = begin + i - own;
  uint other = begin;
  for (uint n = 0u; n < FAN_IN && other < places; ++n) {
    if (other != own) {
      at += count_before(other, min(other + list, places), row, other < own);
    }
    other += list;
  }
  write(at, row, WORD(scratch, from_at + places + i));
}

void main()
{
  if (step == STEP_SORT) {
    uint first = group_index() * list;
    if (first < places) {
      sort_list(first);
    }
    return;
  }
  uint i = invocation_index();
  if (i < places) {
    merge_lists(i);
  }
}

#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * The k largest of a row, k large. A workgroup sorts 1,024 elements (bitonic, in shared memory), an invocation every
 * size-th pair of them, and keeps a list of the best, whose length is a power of two, at least k. Further dispatches
 * merge lists two by two.
 */
#extension GL_GOOGLE_include_directive : require
#define SORT
#include "operand.glsl"
#include "number.glsl"
#include "index.glsl"
#include "topk.glsl"

shared uvec2 held[SORTED];

/* Sorts each run of `size`, which must be bitonic: its best first where `size` divides its place evenly into pairs. */
void merge(uint size, uint count)
{
  for (uint stride = size >> 1; stride > 0u; stride >>= 1) {
    barrier();
    for (uint pair = gl_LocalInvocationID.x; pair < count / 2u; pair += gl_WorkGroupSize.x) {
      uint low = 2u * pair - (pair & (stride - 1u));
      uvec2 a = held[low];
      uvec2 b = held[low + stride];
      if (before(b, a) == ((low & size) == 0u)) {
        held[low] = b;
        held[low + stride] = a;
      }
    }
  }
  barrier();
}

void main()
{
  uint group = group_index();
  if (group >= groups) {
    return;
  }
  uint row = group / shares;
  uint place = group - row * shares;
  uint x_at = row_start(row);
  if (from_scratch != 0u) {
    uint left = (row * n + 2u * place) * list_length;
    bool paired = 2u * place + 1u < n;
    for (uint i = gl_LocalInvocationID.x; i < list_length; i += gl_WorkGroupSize.x) {
      uvec2 a = scratch_candidate(left + i);
      uvec2 b = paired ? scratch_candidate(left + 2u * list_length - 1u - i) : NOBODY;
      held[i] = before(b, a) ? b : a;
    }
    merge(list_length, list_length);
  } else {
    uint first = place * SORTED;
    for (uint i = gl_LocalInvocationID.x; i < SORTED; i += gl_WorkGroupSize.x) {
      held[i] = first + i < n ? element_candidate(x_at, first + i) : NOBODY;
    }
    for (uint size = 2u; size <= SORTED; size <<= 1) {
      merge(size, SORTED);
    }
  }
  for (uint i = gl_LocalInvocationID.x; i < list_length; i += gl_WorkGroupSize.x) {
    if (to_scratch != 0u) {
      write_candidate(group * list_length + i, held[i]);
    } else if (i < k) {
      write_result(row * k + i, x_at, held[i].y);
    }
  }
}

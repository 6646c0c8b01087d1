#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * The k largest of a row, k small. A workgroup has a share of a row, an invocation every size-th element of it, and
 * keeps a sorted list of its own best; then the workgroup takes the best head of the lists, k times. Where a row is
 * shared among workgroups, a second dispatch takes the best of what they leave.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "number.glsl"
#include "index.glsl"
#include "reduce.glsl"
#include "topk.glsl"

void main()
{
  uint group = group_index();
  if (group >= groups) {
    return;
  }
  uint row = group / shares;
  uint first = (group - row * shares) * share;
  uint end = min(first + share, n);
  uint x_at = row_start(row);

  uvec2 list[k];
  for (uint j = 0u; j < k; ++j) {
    list[j] = NOBODY;
  }
  for (uint i = first + gl_LocalInvocationID.x; i < end; i += gl_WorkGroupSize.x) {
    uvec2 candidate = from_scratch != 0u ? scratch_candidate(row * n + i) : element_candidate(x_at, i);
    for (uint j = 0u; j < k; ++j) {
      bool better = before(candidate, list[j]);
      uvec2 worse = better ? list[j] : candidate;
      list[j] = better ? candidate : list[j];
      candidate = worse;
    }
  }

  for (uint r = 0u; r < k; ++r) {
    uint best = group_max(list[0].x);
    uint index = ~group_max(list[0].x == best ? ~list[0].y : 0u);
    bool mine = list[0].y == index;
    for (uint j = 0u; j + 1u < k; ++j) {
      list[j] = mine ? list[j + 1u] : list[j];
    }
    list[k - 1u] = mine ? NOBODY : list[k - 1u];
    if (gl_LocalInvocationID.x == 0u) {
      if (to_scratch != 0u) {
        write_candidate(group * k + r, uvec2(best, index));
      } else {
        write_result(row * k + r, x_at, index);
      }
    }
  }
}

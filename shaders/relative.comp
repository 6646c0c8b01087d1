#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * Spreads a table of relative-position biases [n, H] over distances: bias[h, reach + rel] for rel = -reach .. reach.
 * The distances at which a bucket begins are worked out on the host, because they hang on the last bit of a
 * logarithm. A clamped table has a row for each of these distances.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "contract/relative.h"

IN(0, table)
OUT(1, bias)

void main()
{
  uint i = invocation_index();
  if (i >= count) {
    return;
  }
  uint span = 2u * reach + 1u;
  uint head = i / span;
  int rel = int(i - head * span) - int(reach);
  if (clamped != 0u) {
    WORD(bias, bias_offset + i) =
        WORD(table, table_offset + uint(rel + int(reach)) * bucket_stride + head * head_stride);
    return;
  }
  uint distance = upper != 0u ? uint(abs(rel)) : uint(max(-rel, 0));
  if (distance < from || distance >= to) {
    return;
  }
  uint bucket = distance;
  if (distance >= exact) {
    bucket = first_bucket;
    for (uint j = 0u; j < n; ++j) {
      bucket += distance >= begin[j] ? 1u : 0u;
    }
  }
  if (rel > 0) {
    bucket += upper;
  }
  WORD(bias, bias_offset + i) = WORD(table, table_offset + bucket * bucket_stride + head * head_stride);
}

#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * relative_gradient: drelative[bucket, h] = the sum of dscores[b, h, l, s] over all l and s whose distance is in the
 * bucket. A bucket is a range of distances, so for each query a range of keys. Where the buckets begin is worked out on
 * the host, because it hangs on the last bit of a logarithm. A workgroup sums, for one head and one bucket, over a
 * block of queries; an invocation has every size-th pair of a query and a key.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "row.glsl"
#include "contract/relative_gradient.h"

IN(0, x)
IN(1, position)
OUT(2, y)

uint begin_of(uint bucket)
{
  return bucket < exact ? bucket : begin[bucket - max(first, exact)];
}

void main()
{
  uint directions = upper != 0u ? 2u : 1u;
  uint group = group_index();
  uint rest = group / heads;
  uint head = group - rest * heads;
  uint part = rest / (directions * n);
  rest -= part * directions * n;
  bool after = rest >= n; /* of keys behind the query */
  uint bucket = first + (after ? rest - n : rest);
  uint result = clamped == 0u ? bucket + (after ? upper : 0u) : after ? upper + bucket : upper - bucket;
  uint row = part * block;
  /* An odd row of buckets stands behind the upper half, and nothing belongs to it. Distance 0 counts once. */
  bool odd = clamped == 0u && upper != 0u && bucket >= upper;
  if (row >= max(rows, 1u) || result >= buckets || (!after && odd) || (clamped != 0u && after && bucket == 0u)) {
    return;
  }
  uint from = begin_of(bucket);
  uint to = odd ? from : begin_of(bucket + 1u);
  bool open = upper == 0u && from == 0u; /* keys behind the query, too */
  uint width = open ? keys : min(to - min(from, to), keys);
  uint count = min(block, rows - row) * width;

  float sum = 0.0;
  FOR_BLOCKS(start, count) {
    float partial_sum = 0.0;
    FOR_BLOCK(i, start, count) {
      uint query = i / width;
      uint offset = i - query * width;
      query += row;
      uint b = query / queries;
      query -= b * queries;
      uint at = query;
      if (positioned != 0u) {
        at += min(WORD(position, position_offset + b * position_stride), 0x3fffffffu);
      }
      /* Distances count from `from`, or for keys before the query down from `to`; what lies outside is skipped. */
      uint key = after ? at + max(from, 1u) + offset : offset;
      bool inside = key < keys && (!after || max(from, 1u) + offset < to);
      if (!after) {
        int lowest = max(int(at) - int(to) + 1, 0);
        key = uint(lowest) + offset;
        inside = key < keys && (open || int(key) <= int(at) - int(from));
      }
      if (inside) {
        partial_sum += FLOAT(x, x_offset + element(uvec4(b, head, query, key), x_stride));
      }
    }
    sum += partial_sum;
  }
  sum = group_sum(sum);
  if (gl_LocalInvocationID.x == 0u) {
    WORD(y, y_at + (part * buckets + result) * heads + head) = floatBitsToUint(sum);
  }
}

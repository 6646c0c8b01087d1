#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * reduce_sum: a workgroup per result, or (serial) an invocation per result.
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#include "row.glsl"

layout(constant_id = 2) const uint serial = 0u;

layout(push_constant, std430) uniform parameters
{
  uvec4 kept_extent;
  uvec4 kept_stride;
  uvec4 summed_extent;
  uvec4 summed_stride;
  uint x_offset;
  uint count; /* results */
  uint terms; /* of each */
};

IN(0, x)
OUT(1, y)

void main()
{
  uint result = serial != 0u ? invocation_index() : group_index();
  if (result >= count)
    return;
  uint x_at = x_offset + element(unravel(result, kept_extent), kept_stride);
  uint first = serial != 0u ? 0u : gl_LocalInvocationID.x;
  uint step = serial != 0u ? 1u : gl_WorkGroupSize.x;
  bool one_axis = summed_extent.w == terms;
  float sum = 0.0;
  for (uint block = first; block < terms; block += BLOCK * step) {
    float part = 0.0;
    uint end = min(terms, block + BLOCK * step);
    for (uint i = block; i < end; i += step)
      part += FLOAT(x, x_at + (one_axis ? i * summed_stride.w : element(unravel(i, summed_extent), summed_stride)));
    sum += part;
  }
  if (serial == 0u)
    sum = group_sum(sum);
  if (serial != 0u || gl_LocalInvocationID.x == 0u)
    WORD(y, result) = floatBitsToUint(sum);
}

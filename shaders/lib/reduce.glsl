/* SPDX-License-Identifier: Apache-2.0
 *
 * Reductions over a workgroup, whose size is a power of two, at most 256. With SUBGROUP a workgroup is exactly one
 * subgroup; otherwise by a tree in shared memory. Every invocation takes part and receives the result.
 */
#ifndef LIB_REDUCE
#define LIB_REDUCE

#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require

float group_sum(float x)
{
  return subgroupAdd(x);
}

uint group_max(uint x)
{
  return subgroupMax(x);
}
#else
shared uint partial[256];

float group_sum(float x)
{
  uint lane = gl_LocalInvocationID.x;
  partial[lane] = floatBitsToUint(x);
  for (uint half_size = gl_WorkGroupSize.x >> 1; half_size > 0u; half_size >>= 1) {
    barrier();
    if (lane < half_size) {
      partial[lane] = floatBitsToUint(uintBitsToFloat(partial[lane]) + uintBitsToFloat(partial[lane + half_size]));
    }
  }
  barrier();
  float sum = uintBitsToFloat(partial[0]);
  barrier();
  return sum;
}

uint group_max(uint x)
{
  uint lane = gl_LocalInvocationID.x;
  partial[lane] = x;
  for (uint half_size = gl_WorkGroupSize.x >> 1; half_size > 0u; half_size >>= 1) {
    barrier();
    if (lane < half_size) {
      partial[lane] = max(partial[lane], partial[lane + half_size]);
    }
  }
  barrier();
  uint largest = partial[0];
  barrier();
  return largest;
}
#endif

/* Sums run in blocks of this many terms, so that the error grows with the number of blocks and not of terms. */
#define BLOCK 32u

#endif

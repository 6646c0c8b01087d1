/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that give a workgroup a row of the last axis: its elements one by one, or with QUADS in groups of four
 * (extents, strides and offsets of what is contiguous then count groups).
 */
#ifndef LIB_ROW
#define LIB_ROW

#include "index.glsl"
#include "reduce.glsl"
#include "vector.glsl"

/* Loops over the invocation's part of a row of n elements or groups, in blocks */
#define FOR_BLOCKS(block, n) \
  for (uint block = gl_LocalInvocationID.x; block < n; block += BLOCK * gl_WorkGroupSize.x)
#define FOR_BLOCK(i, block, n) \
  for (uint i = block, i##_end = min(n, block + BLOCK * gl_WorkGroupSize.x); i < i##_end; i += gl_WorkGroupSize.x)

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that give a workgroup a row of the last axis: its elements one by one, or with QUADS in groups of four
 * (extents, strides and offsets of what is contiguous then count groups).
 */
#ifndef LIB_ROW
#define LIB_ROW

#include "index.glsl"
#include "reduce.glsl"

#ifdef QUADS
#define VECTOR          vec4
#define WIDTH           4
#define COMPONENT(v, j) v[j]
#define OPERAND_IN      IN4
#define OPERAND_OUT     OUT4
#define LOAD            FLOAT4
#define STORE(y, i, v)  QUAD(y, i) = floatBitsToUint(v)
#else
#define VECTOR          float
#define WIDTH           1
#define COMPONENT(v, j) v
#define OPERAND_IN      IN
#define OPERAND_OUT     OUT
#define LOAD            FLOAT
#define STORE(y, i, v)  WORD(y, i) = floatBitsToUint(v)
#endif

float sum_of(VECTOR v)
{
#ifdef QUADS
  return (v.x + v.y) + (v.z + v.w);
#else
  return v;
#endif
}

/* Loops over the invocation's part of a row of n elements or groups, in blocks */
#define FOR_BLOCKS(block, n) \
  for (uint block = gl_LocalInvocationID.x; block < n; block += BLOCK * gl_WorkGroupSize.x)
#define FOR_BLOCK(i, block, n) \
  for (uint i = block, i##_end = min(n, block + BLOCK * gl_WorkGroupSize.x); i < i##_end; i += gl_WorkGroupSize.x)

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel moves at once: an element, or with QUADS a group of four.
 */
#ifndef LIB_VECTOR
#define LIB_VECTOR

#ifdef QUADS
#define VECTOR          vec4
#define WIDTH           4
#define COMPONENT(v, j) v[j]
#define OPERAND_IN      IN4
#define OPERAND_OUT     OUT4
#define LOAD            FLOAT4
#define STORE(y, i, v)  SET_QUAD(y, i, floatBitsToUint(v))
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

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What masking means for one sentence, shared by mask and attention. Include after the operands `lengths`, `position`
 * and `scratch` are declared, and the members lengths_offset, lengths_stride, position_offset, position_stride,
 * bias_offset, reach.
 */
#ifndef LIB_MASKING
#define LIB_MASKING

#include "contract/masking.h"

/* Where query 0 of sentence b stands among the keys */
int first_position(uint b)
{
  if ((masking & MASK_POSITION) == 0u) {
    return 0;
  }
  return min(int(WORD(position, position_offset + b * position_stride)), 0x3fffffff);
}

/* How many of n keys sentence b has */
int present_keys(uint b, uint n)
{
  if ((masking & MASK_LENGTHS) == 0u) {
    return int(n);
  }
  return clamp(int(WORD(lengths, lengths_offset + b * lengths_stride)), 0, int(n));
}

/* Query l sees keys 0 .. result - 1 of those present, as far as causality goes; `first` is first_position(b). */
uint visible_keys(uint l, int first, int present)
{
  if ((masking & MASK_CAUSAL) == 0u) {
    return uint(present);
  }
  return uint(min(present, max(min(first, present) + int(l) + 1, 0)));
}

float relative_bias(uint h, uint l, uint s, int first)
{
  if ((masking & MASK_RELATIVE) == 0u) {
    return 0.0;
  }
  int distance = clamp(int(s) - int(l) - first, -int(reach), int(reach));
  return FLOAT(scratch, bias_offset + h * (2u * reach + 1u) + uint(distance + int(reach)));
}

/* The bits of a visible score with what is added to it; -inf in any of them excludes, whatever the others hold. */
uint biased(float score, float additive_part, float relative_part)
{
  bvec3 excluded = equal(floatBitsToUint(vec3(score, additive_part, relative_part)), uvec3(MINUS_INF_BITS));
  return any(excluded) ? MINUS_INF_BITS : floatBitsToUint(score + additive_part + relative_part);
}

#endif

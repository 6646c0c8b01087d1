#version 450
/* SPDX-License-Identifier: Apache-2.0
 *
 * add, mul, relu, gelu, silu, with GRADIENT activation_gradient and mask_gradient: y[i] = f(a[i], b[i]) over any views;
 * with QUADS four elements at a time, where the innermost axis of each operand is contiguous or repeats (extents and
 * strides then count groups of four).
 */
#extension GL_GOOGLE_include_directive : require
#include "operand.glsl"
#ifdef GRADIENT
#include "slope.glsl"
#else
#include "activation.glsl"
#endif
#include "index.glsl"
#include "contract/elementwise.h"

IN(0, a)
IN(1, b)
#ifdef QUADS
IN4(0, a4)
IN4(1, b4)
OUT4(2, y4)
#else
OUT(2, y)
#endif

#ifdef GRADIENT
const bool unary = false;

uint apply(uint a, uint b)
{
  if (function == GRADIENT_OF_MASK) {
    return is_minus_inf(uintBitsToFloat(a)) ? 0u : b;
  }
  float by = slope(function, uintBitsToFloat(a));
  return by == 0.0 ? 0u : floatBitsToUint(by * uintBitsToFloat(b));
}
#else
const bool unary = function >= FUNCTION_UNARY;

uint apply(uint a, uint b)
{
  if (function == FUNCTION_ADD) {
    return floatBitsToUint(uintBitsToFloat(a) + uintBitsToFloat(b));
  }
  if (function == FUNCTION_MUL) {
    return floatBitsToUint(uintBitsToFloat(a) * uintBitsToFloat(b));
  }
  if (function == FUNCTION_ADD_I32) {
    return a + b;
  }
  if (function == FUNCTION_MUL_I32) {
    return a * b;
  }
  return floatBitsToUint(activate(function - FUNCTION_UNARY, uintBitsToFloat(a)));
}
#endif

void main()
{
  uint i = invocation_index();
  if (i >= count) {
    return;
  }
  uvec4 place = unravel(i, extent, axes);
  uint a_at = a_offset + element(place, a_stride);
  uint b_at = b_offset + element(place, b_stride);
#ifdef QUADS
  uvec4 x = (repeat & 1u) != 0u ? uvec4(WORD(a, a_at)) : QUAD(a4, a_at);
  uvec4 z = unary ? x : (repeat & 2u) != 0u ? uvec4(WORD(b, b_at)) : QUAD(b4, b_at);
  uvec4 result;
  for (int j = 0; j < 4; ++j) {
    result[j] = apply(x[j], z[j]);
  }
  SET_QUAD(y4, i, result);
#else
  WORD(y, i) = apply(WORD(a, a_at), unary ? 0u : WORD(b, b_at));
#endif
}

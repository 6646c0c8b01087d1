/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers: tests that no compiler assumes away, and an order that no rounding mode touches. A device that does not
 * offer shaderSignedZeroInfNanPreserveFloat32 may take it that no result is infinite or NaN: so what is not finite is
 * chosen and tested as bits.
 */
#ifndef LIB_NUMBER
#define LIB_NUMBER

#include "contract/values.h"

#define PLUS_INF_BITS  0x7f800000u
#define MINUS_INF_BITS 0xff800000u
#define NAN_BITS       0x7fc00000u

bool is_nan(float x)
{
  return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u;
}

/* factor * x. Where the factor is a specialisation constant and 0, compilers take the product for 0 whatever x is */
float times(uint factor_bits, float x)
{
  if ((factor_bits & 0x7fffffffu) == 0u) {
    return uintBitsToFloat((floatBitsToUint(x) & PLUS_INF_BITS) == PLUS_INF_BITS ? NAN_BITS : 0u);
  }
  return uintBitsToFloat(factor_bits) * x;
}

vec4 times(uint factor_bits, vec4 x)
{
  return vec4(times(factor_bits, x.x), times(factor_bits, x.y), times(factor_bits, x.z), times(factor_bits, x.w));
}

bool is_minus_inf(float x)
{
  return floatBitsToUint(x) == MINUS_INF_BITS;
}

/* NaN where `strange`, else x */
float nan_if(bool strange, float x)
{
  return uintBitsToFloat(strange ? NAN_BITS : floatBitsToUint(x));
}

/* Numbers in the order of their values as unsigned integers: -inf, .., -0 and 0 alike, .., +inf, any NaN */
#define ORDER_MINUS_INF 0x007fffffu
#define ORDER_PLUS_INF  0xff800000u
#define ORDER_NAN       0xffffffffu

uint order_of_bits(uint bits)
{
  uint order = (bits & 0x80000000u) != 0u ? ~bits : bits | 0x80000000u;
  order = bits == 0x80000000u ? bits : order;
  return (bits & 0x7fffffffu) > 0x7f800000u ? ORDER_NAN : order;
}

uint order_of(float x)
{
  return order_of_bits(floatBitsToUint(x));
}

/* The number of an order; of ORDER_NAN: NaN */
float number_of(uint order)
{
  return uintBitsToFloat((order & 0x80000000u) != 0u ? order & 0x7fffffffu : ~order);
}

/* The same; NaN of +inf, too: the largest of a row whose softmax is NaN */
float finite_of(uint order)
{
  return nan_if(order >= ORDER_PLUS_INF, number_of(order));
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a, quantised to i8 (tsr_matmul_i8 of tessera/ops.h), as quantise.comp leaves them in a line's scratch: one
 * behind the other, those of each distinct matrix of a in order, each in whole groups of four words:
 *
 *   groups 0 .. n-1   q[k], 16 to a group, n = ceil(K / 16): byte k % 4 (from the lowest on) of word k / 4; zeros
 *                     behind the last
 *   group n           word 0: the bits of s, an f32 (NaN where the row has a NaN or an infinity, then q = 0); the
 *                     others: nothing
 *
 * Weights of i8 are packed in the same way. For those of four bits (tsr_matmul_i4) n is even: two groups of a meet four
 * words of weights, and a scale. Include after number.glsl.
 */
#ifndef LIB_QUANTISED
#define LIB_QUANTISED

#include "contract/quantised.h"

/* q[k] = round(127 x[k] / max |x|): what follows from a row's largest magnitude. Of magnitudes as bits, those of
 * infinities and NaN are the largest. */
uint largest_magnitude(vec4 x)
{
  uvec4 magnitude = floatBitsToUint(x) & 0x7fffffffu;
  return max(max(magnitude.x, magnitude.y), max(magnitude.z, magnitude.w));
}

/* 0: the row's numbers are 0, too small to count, or there is one that is none. */
bool is_quantised(uint largest)
{
  return largest >= 0x0d800000u && largest < 0x7f800000u; /* 2^-100 */
}

/* Divisions are accurate below 2^126 only. A quarter is taken of the exponent's bits: a product by 0.25 on either side
 * of a division is what a compiler may take away. */
float units_of_one(uint largest)
{
  return is_quantised(largest) ? 31.75 / uintBitsToFloat(largest - (2u << 23)) : 0.0;
}

uint bits_of_unit(uint largest)
{
  return largest >= 0x7f800000u ? NAN_BITS
                                : floatBitsToUint(is_quantised(largest) ? uintBitsToFloat(largest) / 127.0 : 0.0);
}

/* factor: units_of_one; where that is 0, x may be NaN. */
uint quantised_word(vec4 x, float factor)
{
  ivec4 q = ivec4(clamp(roundEven(x * factor), -127.0, 127.0)) & 0xff;
  return factor == 0.0 ? 0u : uint(q.x | q.y << 8 | q.z << 16 | q.w << 24);
}

/* Of weights of four bits four neighbours, which lie in the lower, or upper, halves of a word's bytes with 8 added: in
 * bytes, sixteen times what they are */
uint weight_bytes(uint word, bool upper)
{
  return ((upper ? word : word << 4) & 0xf0f0f0f0u) ^ 0x80808080u;
}

/* The sixteen of two words */
uvec4 weight_group(uvec2 words)
{
  return uvec4(weight_bytes(words.x, false), weight_bytes(words.x, true), weight_bytes(words.y, false),
               weight_bytes(words.y, true));
}

/* What makes a sum of products with such bytes, of an f16 in one half of a word */
float group_factor(uint word, uint upper)
{
  return 0.0625 * unpackHalf2x16(word)[upper];
}

/* Whether a row's sum is made by the device's own packed product of four, or byte by byte */
#ifdef DOT
#extension GL_EXT_spirv_intrinsics : require
/* OpSDot on 4 x 8 bits packed in words; capabilities DotProductInput4x8BitPacked and DotProduct */
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int packed_dot(uint a, uint b, spirv_literal int format);

int dot_bytes(uint a, uint b)
{
  return packed_dot(a, b, 0);
}
#else
int dot_bytes(uint a, uint b)
{
  int sum = (int(a) >> 24) * (int(b) >> 24);
  sum += (int(a << 8) >> 24) * (int(b << 8) >> 24);
  sum += (int(a << 16) >> 24) * (int(b << 16) >> 24);
  sum += (int(a << 24) >> 24) * (int(b << 24) >> 24);
  return sum;
}
#endif

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Factors of cooperative matrices: two values rounded to f16, or to bf16 where TO_BF16 holds, which the kernel defines.
 * A finite value beyond the range becomes the largest finite one; infinities and NaN stay.
 */
#ifndef LIB_NARROWED
#define LIB_NARROWED

#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

/* The upper halves, which bf16 is; ties to even */
uvec2 bits_of_bf16(uvec2 bits)
{
  const uint LARGEST = 0x7f7fu;
  uvec2 size = bits & 0x7fffffffu;
  uvec2 finite = min((size + 0x7fffu + (size >> 16 & 1u)) >> 16, uvec2(LARGEST));
  uvec2 strange = size >> 16 | mix(uvec2(0u), uvec2(0x40u), greaterThan(size, uvec2(0x7f800000u)));
  return mix(finite, strange, greaterThanEqual(size, uvec2(0x7f800000u))) | bits >> 16 & 0x8000u;
}

#ifdef BF16 /* Such a module must not compute with f16 (shaders/bfloat16.h). */
uint narrowed(uvec2 bits)
{
  uvec2 z = bits_of_bf16(bits);
  return z.x | z.y << 16;
}
#else
uint narrowed(uvec2 bits)
{
  if (TO_BF16) {
    uvec2 z = bits_of_bf16(bits);
    return z.x | z.y << 16;
  }
  vec2 x = uintBitsToFloat(bits);
  vec2 z = clamp(x, -65504.0, 65504.0);
  bvec2 stays = greaterThanEqual(bits & 0x7fffffffu, uvec2(0x7f800000u)); /* infinities and NaN */
  return packFloat2x16(f16vec2(stays.x ? x.x : z.x, stays.y ? x.y : z.y));
}
#endif

/* Of two quads the group that holds them. */
uvec4 narrowed(uvec4 low, uvec4 high)
{
  return uvec4(narrowed(low.xy), narrowed(low.zw), narrowed(high.xy), narrowed(high.zw));
}

#endif

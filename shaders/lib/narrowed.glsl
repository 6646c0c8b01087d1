/* SPDX-License-Identifier: Apache-2.0
 *
 * Factors of cooperative matrices: two values rounded to f16. A finite value beyond its range becomes the largest
 * finite one; infinities and NaN stay.
 */
#ifndef LIB_NARROWED
#define LIB_NARROWED

#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require

uint narrowed(uvec2 bits)
{
  vec2 x = uintBitsToFloat(bits);
  vec2 z = clamp(x, -65504.0, 65504.0);
  bvec2 stays = greaterThanEqual(bits & 0x7fffffffu, uvec2(0x7f800000u)); /* infinities and NaN */
  return packFloat2x16(f16vec2(stays.x ? x.x : z.x, stays.y ? x.y : z.y));
}

/* Of two quads the group that holds them. */
uvec4 narrowed(uvec4 low, uvec4 high)
{
  return uvec4(narrowed(low.xy), narrowed(low.zw), narrowed(high.xy), narrowed(high.zw));
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Which elements dropout keeps: Philox 4x32-10 (Salmon et al. 2011) of the element's index, the same as on every other
 * backend. One call of dropout_words serves eight neighbouring elements.
 */
#ifndef LIB_DROPOUT
#define LIB_DROPOUT

/* Numbers of 64 bits are pairs: the low word, then the high one. */

/* a * b + c */
uvec2 dropout_element(uint a, uint b, uint c)
{
  uint high, low;
  umulExtended(a, b, high, low);
  uint carry;
  low = uaddCarry(low, c, carry);
  return uvec2(low, high + carry);
}

/* The eight elements among which `element` is */
uvec2 dropout_group(uvec2 element)
{
  return uvec2((element.x >> 3) | (element.y << 29), element.y >> 3);
}

uvec4 dropout_words(uvec2 group, uint stream, uvec2 key)
{
  uvec4 c = uvec4(group, stream, 0u);
  for (int i = 0; i < 10; ++i) {
    uint high_x, low_x, high_z, low_z;
    umulExtended(0xd2511f53u, c.x, high_x, low_x);
    umulExtended(0xcd9e8d57u, c.z, high_z, low_z);
    c = uvec4(high_z ^ c.y ^ key.x, low_z, high_x ^ c.w ^ key.y, low_x);
    key += uvec2(0x9e3779b9u, 0xbb67ae85u);
  }
  return c;
}

/* Whether element `i` of a group's eight stays; words: dropout_words of the group; an index's low word serves as i */
bool dropout_keeps(uvec4 words, uint i, uint threshold)
{
  return ((words[(i >> 1) & 3u] >> ((i & 1u) * 16u)) & 0xffffu) >= threshold;
}

#endif

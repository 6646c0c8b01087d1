/* SPDX-License-Identifier: Apache-2.0
 *
 * One element of b, in any format. Include after the operand `b`.
 */
#ifndef LIB_ELEMENT_OF_B
#define LIB_ELEMENT_OF_B

float load_b(uint at)
{
  if (b_type == TYPE_F32) {
    return FLOAT(b, at);
  }
  uint bits = (WORD(b, at >> 1) >> ((at & 1u) * 16u)) & 0xffffu;
  return b_type == TYPE_F16 ? unpackHalf2x16(bits).x : uintBitsToFloat(bits << 16);
}

#endif

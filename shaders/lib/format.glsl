/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats of storage: f16 and bf16 lie in 32-bit words, and are taken apart and put together on integers, so that no
 * feature of a device is needed and subnormals survive.
 */
#ifndef LIB_FORMAT
#define LIB_FORMAT

/* f16 to the bits of f32, exact, subnormals too whether or not the device keeps them. */
uint half_to_bits(uint h)
{
  uint magnitude = h & 0x7fffu;
  uint bits = (magnitude << 13) + 0x38000000u;
  if (magnitude >= 0x7c00u) {
    bits += 0x38000000u;
  } else if (magnitude < 0x0400u) {
    bits = magnitude == 0u ? 0u : floatBitsToUint(float(magnitude) * 5.9604644775390625e-8);
  }
  return bits | ((h & 0x8000u) << 16);
}

/* The bits of f32 to f16, to nearest, ties to even. */
uint bits_to_half(uint bits)
{
  uint sign = (bits >> 16) & 0x8000u;
  uint magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return sign | 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  }
  if (magnitude >= 0x477ff000u) {
    return sign | 0x7c00u;
  }
  if (magnitude >= 0x38800000u) {
    return sign | ((magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13);
  }
  if (magnitude < 0x33000000u) {
    return sign;
  }
  uint shift = 126u - (magnitude >> 23);
  uint fraction = (magnitude & 0x7fffffu) | 0x800000u;
  uint result = fraction >> shift;
  uint rest = fraction & ((1u << shift) - 1u);
  uint middle = 1u << (shift - 1u);
  if (rest > middle || (rest == middle && (result & 1u) != 0u)) {
    ++result;
  }
  return sign | result;
}

uint bits_to_bfloat(uint bits)
{
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    return (bits >> 16) | 0x40u;
  }
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

#endif

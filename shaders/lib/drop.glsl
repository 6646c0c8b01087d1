/* SPDX-License-Identifier: Apache-2.0
 *
 * The dropout of attention's weights, as dropout_bits.comp left it. Include after `scratch`, `queries` and `keys` are
 * declared, and bits_at, scale_bits.
 */
#ifndef LIB_DROP
#define LIB_DROP

/* The factor of the weight that query `row` of all sentences and heads gives to key s */
float drop_factor(uint row, uint s)
{
  if ((options & DROPOUT) == 0u)
    return 1.0;
  uint word = WORD(scratch, bits_at + row * ((keys + 31u) / 32u) + s / 32u);
  return (word >> (s & 31u) & 1u) != 0u ? uintBitsToFloat(scale_bits) : 0.0;
}

#endif

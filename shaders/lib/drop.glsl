/* SPDX-License-Identifier: Apache-2.0
 *
 * The dropout of attention's weights, as dropout_bits.comp left it. Include after `scratch` and `keys` are declared,
 * and bits_at, scale_bits.
 */
#ifndef LIB_DROP
#define LIB_DROP

/* Which keys' weights stay, of the 32 among which s is; `row`: the query, among those of all sentences and heads */
uint kept_keys(uint row, uint s)
{
  return (options & ATTENTION_DROPOUT) != 0u ? WORD(scratch, bits_at + row * ((keys + 31u) / 32u) + s / 32u) : 0u;
}

/* The factor of the weight of key s; kept: kept_keys of s */
float drop_factor(uint kept, uint s)
{
  if ((options & ATTENTION_DROPOUT) == 0u) {
    return 1.0;
  }
  return (kept >> (s & 31u) & 1u) != 0u ? uintBitsToFloat(scale_bits) : 0.0;
}

#endif

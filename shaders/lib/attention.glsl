/* SPDX-License-Identifier: Apache-2.0
 *
 * What the variants of attention share: parameters, operands, elements of k and v in any format, and where a result
 * goes. The keys may be split: a workgroup then runs over `split_keys` of them, and leaves what it found in scratch,
 * for attention_combine.comp. Include after operand.glsl and vector.glsl.
 */
#ifndef LIB_ATTENTION
#define LIB_ATTENTION

#include "exponential.glsl"
#include "contract/attention.h"

/* With splits the last three are scratch: w takes the sums, y the parts of y. With OUTPUT the results are multiplied by
 * the output's weights at once: `parts` is scratch, and takes what each head adds to the output. */
OPERAND_IN(0, q)
OPERAND_IN(1, k)
OPERAND_IN(2, v)
IN(3, additive)
IN(4, index)
IN(5, lengths)
IN(6, position)
IN(7, scratch)
#ifdef OUTPUT
OUT(8, parts)
IN(9, output_bias)
IN4(10, output_weight)
#else
OPERAND_OUT(8, y)
OUT(9, w)
OUT(10, lse)
#endif

const uint k_type = ATTENTION_K_TYPE(kv_types);
const uint v_type = ATTENTION_V_TYPE(kv_types);

/* The numbers in a word of f16 or bf16 */
vec2 two_numbers(uint type, uint word)
{
  return type == TYPE_F16 ? unpackHalf2x16(word) : uintBitsToFloat(uvec2(word << 16, word & 0xffff0000u));
}

#ifdef QUADS
IN2(1, k_halves)
IN2(2, v_halves)
#define LOAD_HALVES(name, type, i)                                                                                     \
  vec4(two_numbers(type, PAIR(name##_halves, i).x), two_numbers(type, PAIR(name##_halves, i).y))
#else
#define LOAD_HALVES(name, type, i) two_numbers(type, WORD(name, i >> 1))[i & 1u]
#endif

VECTOR load_k(uint i)
{
  if (k_type == TYPE_F32) {
    return LOAD(k, i);
  }
  return LOAD_HALVES(k, k_type, i);
}

VECTOR load_v(uint i)
{
  if (v_type == TYPE_F32) {
    return LOAD(v, i);
  }
  return LOAD_HALVES(v, v_type, i);
}

const uint masking = options;
const uint bias_offset = 0u;
#include "masking.glsl"
#include "drop.glsl"

/* Where key s of sentence b lies, and whether its row exists */
uint key_row(uint b, uint s, inout bool exists)
{
  if ((options & ATTENTION_INDEXED) == 0u) {
    return b;
  }
  uint row = WORD(index, index_offset + b * index_stride[0] + s * index_stride[1]);
  exists = exists && row < k_rows;
  return min(row, k_rows - 1u);
}

/* Where the key, or the value, s of a row begins that head h of q sees */
uint key_place(uint row, uint s, uint h)
{
  return k_offset + row * k_stride[0] + s * k_stride[1] + h / sharing * k_stride[2];
}

uint value_place(uint row, uint s, uint h)
{
  return v_offset + row * v_stride[0] + s * v_stride[1] + h / sharing * v_stride[2];
}

/* The bits of the score of key s for query l, once it is seen, with what is added to it */
uint masked_score(float score, uint b, uint h, uint l, uint s, int first)
{
  float added = 0.0;
  if ((options & MASK_ADDITIVE) != 0u) {
    added = FLOAT(additive, additive_offset + b * additive_stride[0] + h * additive_stride[1] + l * additive_stride[2] +
                            s * additive_stride[3]);
  }
  float scaled = times(alpha_bits, score);
  if (softcap_bits != 0u) {
    float softcap = uintBitsToFloat(softcap_bits);
    scaled = softcap * tanh_accurate(scaled / softcap);
  }
  return biased(scaled, added, relative_bias(h, l, s, first));
}

uint split_count()
{
  return split_keys > 0u ? (keys + split_keys - 1u) / split_keys : 1u;
}

#ifndef OUTPUT
/* The first element or group of query l's result */
uint result_at(uint b, uint h, uint l, uint split)
{
  const uint header = ATTENTION_HEADER_WORDS / WIDTH;
  if (split_keys > 0u) {
    return partial_at / WIDTH + (((b * heads + h) * queries + l) * split_count() + split) * (header + width) + header;
  }
  return ((b * queries + l) * heads + h) * width;
}

/* What else a query leaves; row: of the query, among those of all sentences and heads; total: 0 if it sees nothing */
void store_sums(uint row, uint split, float largest, float total)
{
  if (split_keys > 0u) {
    uint at = partial_at + (row * split_count() + split) * (ATTENTION_HEADER_WORDS + width * WIDTH);
    WORD(w, at) = floatBitsToUint(largest);
    WORD(w, at + 1u) = floatBitsToUint(total);
  } else if ((options & ATTENTION_SUMS) != 0u) {
    WORD(lse, row) = total == 0.0 ? MINUS_INF_BITS : floatBitsToUint(largest + log_accurate(total));
  }
}
#endif

#endif

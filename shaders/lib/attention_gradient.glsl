/* SPDX-License-Identifier: Apache-2.0
 *
 * What the shaders of attention's gradient share: operands, and the gradient of one score. What a workgroup holds is
 * its own, what it runs over are the others; of both it takes two tensors, those of the score (q, k) first:
 *
 *            own        others     result    second
 *            q, dy      k, v       dq        dscores
 *   BY_KEYS  k, v       q, dy      dk        dv
 */
#ifndef LIB_ATTENTION_GRADIENT
#define LIB_ATTENTION_GRADIENT

#include "exponential.glsl"
#include "vector.glsl"
#include "contract/attention_gradient.h"

OPERAND_IN(0, own)
OPERAND_IN(1, own2)
OPERAND_IN(2, other)
OPERAND_IN(3, other2)
IN(4, additive)
IN(5, lengths)
IN(6, position)
IN(7, scratch)
OPERAND_OUT(8, result)
#ifdef QUADS
OUT4(9, second)
OUT(9, dscores)
#else
OUT(9, second)
#define dscores_operand second_operand
#define dscores_address second_address
#endif

const uint masking = options;
const uint bias_offset = 0u;
#include "masking.glsl"
#include "drop.glsl"

/* lse and delta of a query, among those of all sentences and heads */
vec2 stats_of(uint row)
{
  uint at = 2u * (stats_at + row);
  return vec2(FLOAT(scratch, at), FLOAT(scratch, at + 1u));
}

/* alpha score, capped, and the slope of the cap there */
vec2 capped(float score)
{
  float scaled = times(alpha_bits, score);
  if (softcap_bits == 0u) {
    return vec2(scaled, 1.0);
  }
  float softcap = uintBitsToFloat(softcap_bits);
  float part = tanh_accurate(scaled / softcap);
  return vec2(softcap * part, 1.0 - part * part);
}

/* The bits of the gradient of a score before its cap, from those behind it. */
uint before_cap(uint gradient, float score)
{
  if (softcap_bits == 0u) {
    return gradient;
  }
  float d = uintBitsToFloat(gradient) * capped(score).y;
  return is_nan(d) ? NAN_BITS : floatBitsToUint(d);
}

/* The bits of the gradient of a score, and the weight dropped out; both stay as they are where what is added to the
 * score excludes the key.
 *   score, slope: q . k, dy . v;  query: stats_of the query;  kept: kept_keys of the key, which the query sees */
void pair_gradient(float score, float slope, vec2 query, uint kept, uint b, uint h, uint l, uint s, int first,
                   inout uint gradient, inout float weight)
{
  float added = 0.0;
  if ((options & MASK_ADDITIVE) != 0u) {
    added = FLOAT(additive, additive_offset + b * additive_stride[0] + h * additive_stride[1] + l * additive_stride[2] +
                            s * additive_stride[3]);
  }
  uint z_bits = biased(capped(score).x, added, relative_bias(h, l, s, first));
  if (z_bits != MINUS_INF_BITS) {
    float factor = drop_factor(kept, s);
    float w = exp_accurate(uintBitsToFloat(z_bits) - query.x);
    float d = w * (factor * slope - query.y);
    weight = factor * w;
    gradient = is_nan(d) ? NAN_BITS : floatBitsToUint(d);
  }
}

/* The rows of others that a tile of its own meets: from .x on, up to .y */
uvec2 range_of(bool by_keys, uint first_row, uint last_row, int first, int present)
{
  if (!by_keys) {
    return uvec2(0u, visible_keys(last_row, first, present));
  }
  uint begin = (options & MASK_CAUSAL) != 0u ? uint(max(int(first_row) - first, 0)) : 0u;
  return uvec2(begin, first_row < visible_keys(queries - 1u, first, present) ? queries : 0u);
}

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the shaders of attention's gradient share: attention_gradient.comp, attention_gradient_tiled.comp.
 */
#ifndef SHADERS_CONTRACT_ATTENTION_GRADIENT_H
#define SHADERS_CONTRACT_ATTENTION_GRADIENT_H

#include "attention_options.h"

CONSTANT(attention_gradient, 2, options, 0u); /* MASK_*, ATTENTION_DROPOUT, GRADIENT_* */
CONSTANT(attention_gradient, 3, depth, 1u);   /* of q and k: elements, or groups of four */
CONSTANT(attention_gradient, 4, width, 1u);   /* of v and dy, likewise */
/* 5 and 6 are the shader's own. */
CONSTANT(attention_gradient, 7, alpha_bits, 0x3f800000u);
CONSTANT(attention_gradient, 8, heads, 1u);
CONSTANT(attention_gradient, 9, scale_bits, 0x3f800000u); /* with ATTENTION_DROPOUT: of what stays */
/* 10 to 13 are the shader's own. */
CONSTANT(attention_gradient, 14, softcap_bits, 0u); /* 0: none */

#define GRADIENT_BY_KEYS 256u
#define GRADIENT_DSCORES 512u

/* Strides: b, l or s, h; of additive b, h, l, s. With QUADS those of own and others count groups of four. */
PUSH(attention_gradient)
{
  uint queries;
  uint keys;
  uint batch;
  uint own_offset;
  uint own_stride[3];
  uint own2_offset;
  uint own2_stride[3];
  uint other_offset;
  uint other_stride[3];
  uint other2_offset;
  uint other2_stride[3];
  uint additive_offset;
  uint additive_stride[4];
  uint lengths_offset;
  uint lengths_stride;
  uint position_offset;
  uint position_stride;
  uint reach;
  uint stats_at; /* pairs of words into scratch: lse and delta of each query */
  uint bits_at;  /* words */
}
PUSH_END(attention_gradient);

#endif

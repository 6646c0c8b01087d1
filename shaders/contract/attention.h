/* SPDX-License-Identifier: Apache-2.0
 *
 * What the shaders of attention share: attention.comp, attention_tiled.comp, attention_cooperative.comp.
 */
#ifndef SHADERS_CONTRACT_ATTENTION_H
#define SHADERS_CONTRACT_ATTENTION_H

#include "attention_options.h"

CONSTANT(attention, 2, options, 0u); /* MASK_*, ATTENTION_* */
CONSTANT(attention, 3, depth, 1u);   /* of q and k: elements, or groups of four */
CONSTANT(attention, 4, width, 1u);   /* of v, likewise */
/* 5 and 6 are the shader's own. */
CONSTANT(attention, 7, alpha_bits, 0x3f800000u);
CONSTANT(attention, 8, heads, 1u);
CONSTANT(attention, 9, scale_bits, 0x3f800000u); /* with ATTENTION_DROPOUT: of what stays */
CONSTANT(attention, 10, bits_at, 0u);            /* likewise: words into scratch */
CONSTANT(attention, 11, kv_types, ATTENTION_KV_TYPES(TYPE_F32, TYPE_F32));
CONSTANT(attention, 12, split_keys, 0u); /* keys of a split; 0: there is one */
/* Words into scratch: of each query and split its header, and its part of y; with ATTENTION_HALVES all of y */
CONSTANT(attention, 13, partial_at, 0u);
/* 14 and 15 are the shader's own. */
CONSTANT(attention, 16, sharing, 1u);      /* heads of q that share one of k and v */
CONSTANT(attention, 17, softcap_bits, 0u); /* 0: none */

/* Strides: of q b, l, h, k; of k and v sentence or row, s, h, last. With QUADS all but the last count groups of
 * four. */
PUSH(attention)
{
  uint queries;
  uint keys;
  uint batch;
  uint q_offset;
  uint q_stride[4];
  uint k_offset;
  uint k_stride[4];
  uint v_offset;
  uint v_stride[4];
  uint additive_offset;
  uint additive_stride[4];
  uint index_offset;
  uint index_stride[2];
  uint k_rows;
  uint lengths_offset;
  uint lengths_stride;
  uint position_offset;
  uint position_stride;
  uint reach;
}
PUSH_END(attention);

#endif

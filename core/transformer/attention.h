/* SPDX-License-Identifier: Apache-2.0
 *
 * The two sublayers of attention, and the states in which their keys and values are kept.
 */
#ifndef TESSERA_CORE_TRANSFORMER_ATTENTION_H
#define TESSERA_CORE_TRANSFORMER_ATTENTION_H

#include "core/transformer/parts.h"

/* How the queries of self-attention see the keys. */
typedef struct tsr_self_attention {
  int64_t batch;    /* B; in a step with a cache: its rows R */
  int64_t queries;  /* L; in a step: 1 */
  int32_t causal;   /* 1: decoder */
  int64_t capacity; /* C: positions of the cache; 0: no cache, the queries are the keys */
  tsr_ref lengths;  /* [B] i32, or TSR_NONE */
  tsr_ref position; /* [1] i32: where the queries stand in the cache; without a cache: TSR_NONE */
  tsr_ref rows;     /* [R, C] i32, or TSR_NONE: the cache row that holds each past position */
  int64_t kept;     /* N: without a cache to read, keys and values are kept at the beginning of one that has N rows a
                       sentence and `room` positions; 0: they are not */
  int64_t room;
  int32_t kept_rows; /* in the first so many of a sentence's rows */
} tsr_self_attention;

/* How the queries of cross-attention see the encoder's output. */
typedef struct tsr_cross_attention {
  int64_t batch;        /* B */
  int64_t queries;      /* L; in a step of beam search: N */
  int64_t keys;         /* S */
  tsr_ref lengths;      /* [B] i32 */
  tsr_ref encoded;      /* [B*S, D]: the encoder's output; TSR_NONE: keys and values are in states already */
  int32_t shown;        /* the layer, from 1, whose weights, summed over the heads, become the output "attention",
                      [B, 1, L, S]; 0: none */
  uint32_t shown_heads; /* bits of these heads; 0: all */
  tsr_ref *attention;   /* receives that output */
  tsr_ref aligned;      /* a state [B, L, P, S] that receives the weights of the builder's heads; or TSR_NONE */
} tsr_cross_attention;

/* x [T, D] -> [T, D], before it is added to the stream. prefix: the layer's, such as "encoder.layers.0". */
tsr_ref tsr_build_self_attention(const tsr_builder *b, const tsr_stack *stack, int32_t layer, const char *prefix,
                                 tsr_ref x, const tsr_self_attention *self);
tsr_ref tsr_build_cross_attention(const tsr_builder *b, const tsr_stack *stack, int32_t layer, const char *prefix,
                                  tsr_ref x, const tsr_cross_attention *cross);

/* Where the keys and values of cross-attention go. */
typedef struct tsr_cross_states {
  int64_t batch;  /* B */
  int64_t keys;   /* S */
  int64_t room;   /* positions of a sentence in the states, S or more */
  int64_t joined; /* sentences of the states; 0: B */
  tsr_ref places; /* with joined: [B] i32, where each sentence begins: its number in the states times room */
} tsr_cross_states;

/* Writes the keys and values of each decoder layer's cross-attention, from the encoder's output x [B*S, D], into the
 * first S of the positions that each sentence has. */
void tsr_build_cross_states(const tsr_builder *b, tsr_ref x, const tsr_cross_states *states);

/* States by name: part is "cross_attention" or "self_attention", what "keys" or "values". Writes into name (at least
 * TSR_PART_NAME_ROOM bytes) and returns it. */
char *tsr_state_name(char *name, int32_t layer, const char *part, const char *what);

#endif

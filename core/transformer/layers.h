/* SPDX-License-Identifier: Apache-2.0
 *
 * The layers of a Transformer as lines of a program. One implementation serves every family: the configuration decides.
 *
 * Activations are kept as [T, D], T = B*L rows, so that each product is one large one; only attention looks at B and L.
 */
#ifndef TESSERA_CORE_TRANSFORMER_LAYERS_H
#define TESSERA_CORE_TRANSFORMER_LAYERS_H

#include "core/transformer/attention.h"

/* The constant [1] i32 that counts steps. */
#define TSR_ONE_NAME "one"

/* Embedding of ids [B, L] at positions 0 .. L-1 -> [B*L, D]. */
tsr_ref tsr_build_embedding(const tsr_builder *b, const tsr_stack *stack, tsr_ref ids, int64_t batch, int64_t length);

/* What the encoder of a model of speech makes of features [B, M, 2 S], S of its positions or fewer: two convolutions,
 * then positions -> [B*S, D]. */
tsr_ref tsr_build_speech_embedding(const tsr_builder *b, const tsr_stack *stack, tsr_ref features);

/* Embedding of ids [R] at `position` [1] i32, all, or [R], each at its own -> [R, D]. */
tsr_ref tsr_build_step_embedding(const tsr_builder *b, const tsr_stack *stack, tsr_ref ids, tsr_ref position);

/* All layers of a stack and its final norm: x [T, D] -> [T, D]. cross: NULL for the encoder. */
tsr_ref tsr_build_stack(const tsr_builder *b, const tsr_stack *stack, tsr_ref x, const tsr_self_attention *self,
                        const tsr_cross_attention *cross);

/* What is added to logits [T, V]: zeros and -inf. */
typedef struct tsr_logits_mask {
  tsr_ref values; /* [n, V], or TSR_NONE: nothing */
  tsr_ref rows;   /* i32 [T] or [1]: which row of them; or TSR_NONE: n is 1 or T */
} tsr_logits_mask;

/* Logits: x [T, D] -> [T, V]. mask: or NULL.
 * chosen [K] i32: of these tokens alone, in their order: [T, K], from the rows that tsr_build_shortlist has kept; or
 * TSR_NONE. */
tsr_ref tsr_build_logits(const tsr_builder *b, tsr_ref x, const tsr_logits_mask *mask, tsr_ref chosen);

/* Keeps the rows of the logits' weights that belong to the chosen tokens [K] i32 in a state, [K, D]. */
void tsr_build_shortlist(const tsr_builder *b, tsr_ref chosen);

/* That state's name. */
#define TSR_SHORTLIST_NAME "shortlist"

#endif

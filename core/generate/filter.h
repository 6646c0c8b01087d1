/* SPDX-License-Identifier: Apache-2.0
 *
 * What changes the scores of a step before anything is chosen: tokens that are banned, and tokens that are penalised
 * for being there already. Both hang on what a hypothesis holds and how long it is, so they are worked out for a row at
 * a time, as marks of a few tokens; and they are applied to whatever part of a row's scores is at hand.
 */
#ifndef TESSERA_CORE_GENERATE_FILTER_H
#define TESSERA_CORE_GENERATE_FILTER_H

#include "tessera/generate.h"

typedef struct tsr_filter {
  const tsr_generate_options *options; /* resolved: n_eos is above 0 */
  int32_t vocabulary;
  uint8_t *marks;  /* [V] of the row that was marked last; 0: its score stays */
  int32_t *marked; /* [V] the n_marked tokens whose mark is not 0 */
  int32_t n_marked;
  const int32_t *generated; /* [n_generated] of that row, behind its prompt */
  int32_t n_generated;
} tsr_filter;

/* What a row holds. */
typedef struct tsr_filter_row {
  const int32_t *ids; /* of the hypothesis, with the start token */
  int32_t length;
  int32_t n_given;       /* tokens of its prompt that are given, the start token left out */
  int32_t begin;         /* of them, those behind which it begins: all, or none */
  const int32_t *source; /* of its sentence */
  int32_t source_length;
} tsr_filter_row;

/* Errors: TSR_ERR_OUT_OF_MEMORY (nothing to finish then). */
tsr_status tsr_filter_init(tsr_filter *filter, const tsr_generate_options *options, int32_t vocabulary) TSR_MUST_CHECK;
void tsr_filter_finish(tsr_filter *filter); /* takes a zeroed one */

/* 1 if the marks depend on more than the length. */
int32_t tsr_filter_is_by_row(const tsr_generate_options *options);

/* What the length of a hypothesis changes that begins behind so many tokens of its prompt. Bits; 0: nothing. */
enum { TSR_PHASE_SHORT = 1 /* it may not end yet */, TSR_PHASE_FIRST = 2 /* the tokens suppressed at the beginning */ };
int32_t tsr_filter_phase(const tsr_generate_options *options, int32_t begin, int32_t length);

/* Phases are numbers below this one; 1: marks do not depend on the length. */
int32_t tsr_filter_phases(const tsr_generate_options *options);

/* 1 if a score may rise: the best of the scores before are not the best afterwards, however many are looked at. */
int32_t tsr_filter_may_raise(const tsr_generate_options *options);

/* How many tokens may be marked where nothing depends on the row, whatever the length. */
int32_t tsr_filter_shared(const tsr_generate_options *options);

/* Marks the row's tokens in place of the last row's. */
void tsr_filter_mark(tsr_filter *filter, const tsr_filter_row *row);

/* Changes n scores of the row that was marked last. tokens [n], or NULL for scores of the whole vocabulary; the rules
 * of timestamps need these. */
void tsr_filter_apply(const tsr_filter *filter, float *scores, const int32_t *tokens, int32_t n);

/* What a token's score was before, of the row that was marked last; the token is not banned. */
float tsr_filter_undo(const tsr_filter *filter, float score, int32_t token);

/* What holds in a phase as a mask [V] that is added to scores: -inf for what is banned. Only where nothing depends on
 * the row. */
void tsr_filter_mask(tsr_filter *filter, int32_t phase, float *mask);

#endif

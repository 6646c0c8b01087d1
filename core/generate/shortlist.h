/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokens whose logits a search computes.
 */
#ifndef TESSERA_CORE_GENERATE_SHORTLIST_H
#define TESSERA_CORE_GENERATE_SHORTLIST_H

#include "tessera/shortlist.h"

struct tsr_shortlist {
  int32_t source_vocabulary;
  int32_t target_vocabulary;
  int32_t first;    /* tokens 0 .. first-1 are always there */
  int64_t *begin;   /* [source_vocabulary + 1] where the targets of each source token begin */
  int32_t *targets; /* the best of each, best first */
};

/* A set of tokens that grows. */
typedef struct tsr_token_set {
  uint8_t *has; /* [vocabulary] */
  int32_t vocabulary;
  int32_t n;
} tsr_token_set;

/* Begins with what is always there. Errors: TSR_ERR_OUT_OF_MEMORY (nothing to finish then). */
tsr_status tsr_token_set_init(tsr_token_set *set, const tsr_shortlist *shortlist, int32_t vocabulary) TSR_MUST_CHECK;
void tsr_token_set_finish(tsr_token_set *set); /* takes a zeroed one */

/* Takes no token that is outside the vocabulary. */
void tsr_token_set_add(tsr_token_set *set, int32_t token);

/* The targets of the tokens of a source. */
void tsr_token_set_add_source(tsr_token_set *set, const tsr_shortlist *shortlist, const int32_t *ids, int32_t n);

/* Fills it up to a round number, and lists it in ascending order: *tokens [*n] is allocated, the caller frees it.
 * Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_token_set_list(tsr_token_set *set, int32_t **tokens, int32_t *n) TSR_MUST_CHECK;

#endif

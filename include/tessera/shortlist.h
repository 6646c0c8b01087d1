/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/shortlist.h: which target tokens may come out for which source tokens, so that a search need not compute the
 * logits of all the others.
 */
#ifndef TESSERA_SHORTLIST_H
#define TESSERA_SHORTLIST_H

#include "tessera/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_shortlist tsr_shortlist;

typedef struct tsr_shortlist_entry {
  int32_t source; /* token ids */
  int32_t target;
  float probability; /* of the target given the source, or any other number that is larger for better targets */
} tsr_shortlist_entry;

/* A search computes the logits only of these tokens, for all sentences of a batch together:
 *   the best targets of each token of their sources, at most `best` of each;
 *   the tokens 0 .. first-1: vocabularies have the frequent ones first;
 *   the tokens that end a sentence, that are forced, and <unk>;
 *   and further tokens, the lowest ids first, until the number is round.
 * The shortlist never changes: any number of threads. *shortlist is the caller's until tsr_shortlist_close. Errors:
 * TSR_ERR_ARGUMENT (an id outside its vocabulary, a negative number), TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_shortlist_create(int32_t source_vocabulary, int32_t target_vocabulary,
                                        const tsr_shortlist_entry *entries, int64_t n, int32_t first, int32_t best,
                                        tsr_shortlist **shortlist) TSR_MUST_CHECK;

/* The same from a text file of lines of one of two kinds, which may be mixed:
 *   "target source probability", separated by blanks: tokens as the vocabularies spell them (the lexical tables of
 *       Marian-NMT and fast_align); a line with a token that a vocabulary does not have is skipped
 *   "source<tab>target target ..": words, which are cut into tokens; the targets' tokens belong to the source's first
 * Errors: TSR_ERR_IO; TSR_ERR_FORMAT, naming file and line; also if no line has tokens of these vocabularies. */
TSR_API tsr_status tsr_shortlist_open(const char *path, const tsr_tokenizer *tokenizer, int32_t first, int32_t best,
                                      tsr_shortlist **shortlist) TSR_MUST_CHECK;
TSR_API void tsr_shortlist_close(tsr_shortlist *shortlist); /* takes NULL */

#ifdef __cplusplus
}
#endif
#endif

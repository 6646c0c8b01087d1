/* SPDX-License-Identifier: Apache-2.0
 *
 * How many n-grams two sequences share.
 */
#ifndef TESSERA_CORE_NGRAMS_H
#define TESSERA_CORE_NGRAMS_H

#include "tessera/status.h"

#include <stddef.h>

/* Scratch memory. Zero it; tsr_ngrams_finish ends it. One thread at a time. */
typedef struct tsr_ngrams {
  struct tsr_ngram *table; /* [room], open addressing; `room` is a power of two */
  size_t room;
  uint32_t stamp; /* entries with another one are empty */
  uint32_t *ids;  /* of the n-grams that begin at each position, the reference's and then the hypothesis' */
  size_t ids_room;
} tsr_ngrams;

typedef struct tsr_ngram_counts {
  int64_t hypothesis;
  int64_t reference;
  int64_t matches; /* an n-gram counts as often as it is in both */
} tsr_ngram_counts;

/* Counts the n-grams of 1 .. max_order symbols of two sequences of at most 2^30 symbols each, exactly, in time
 * proportional to their lengths: counts [max_order]. */
tsr_status tsr_ngrams_count(tsr_ngrams *ngrams, const uint32_t *hypothesis, size_t n_hypothesis,
                            const uint32_t *reference, size_t n_reference, int32_t max_order,
                            tsr_ngram_counts *counts) TSR_MUST_CHECK;
void tsr_ngrams_finish(tsr_ngrams *ngrams);

/* Spreads the bits of a key over a hash. */
uint64_t tsr_hash_mix(uint64_t key);

#endif

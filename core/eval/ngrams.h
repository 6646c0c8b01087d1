/* SPDX-License-Identifier: Apache-2.0
 *
 * How many n-grams a sequence shares with others.
 */
#ifndef TESSERA_CORE_NGRAMS_H
#define TESSERA_CORE_NGRAMS_H

#include "core/eval/words.h"

/* Scratch memory. Zero it; tsr_ngrams_finish ends it. One thread at a time. */
typedef struct tsr_ngrams {
  struct tsr_ngram *table; /* [room], open addressing; `room` is a power of two */
  size_t room;
  uint32_t stamp; /* entries with another one are empty */
  uint32_t *ids;  /* of the n-grams that begin at each position, the references' and then the hypothesis' */
  size_t ids_room;
} tsr_ngrams;

typedef struct tsr_ngram_counts {
  int64_t hypothesis;
  int64_t reference; /* of the one whose length is nearest to the hypothesis', the shorter of two as near */
  int64_t
      matches; /* an n-gram counts as often as it is in the hypothesis, and in the reference that has it most often */
  int64_t repeats; /* how often an n-gram of the hypothesis comes again, beyond that reference */
} tsr_ngram_counts;

/* Counts the n-grams of 1 .. max_order symbols of a sequence and of references, at least one, of at most 2^31 symbols
 * in all, exactly, in time proportional to their lengths: counts [max_order]. */
tsr_status tsr_ngrams_count(tsr_ngrams *ngrams, const tsr_symbols *hypothesis, const tsr_symbols *references,
                            int32_t n_references, int32_t max_order, tsr_ngram_counts *counts) TSR_MUST_CHECK;
void tsr_ngrams_finish(tsr_ngrams *ngrams);

/* Spreads the bits of a key over a hash. */
uint64_t tsr_hash_mix(uint64_t key);

#endif

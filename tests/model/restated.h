/* SPDX-License-Identifier: Apache-2.0
 *
 * The searches once more, as plainly as they can be told: every step computes all logits of every hypothesis anew, by
 * teacher forcing, changes whole rows of scores one setting after the other, and sorts all continuations. What
 * core/generate does with caches, candidates and batches must come to the same.
 */
#ifndef TESSERA_TESTS_RESTATED_H
#define TESSERA_TESTS_RESTATED_H

#include "tests/model/generation.h"

enum { MOST_TOKENS = 32, MOST_ROWS = 16 };

typedef struct restated {
  int32_t ids[MOST_TOKENS]; /* with the start token, and the one that ended it */
  int32_t length;
  double score;
} restated;

/* The options->n_best hypotheses of one sentence into found; options as tsr_generate takes them, max_length at most
 * MOST_TOKENS, beams and samples at most MOST_ROWS. number: the sentence's. */
void restate(const setup *s, const tsr_generate_options *options, const int32_t *source, int32_t n_source,
             int32_t number, restated *found);

#endif

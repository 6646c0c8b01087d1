/* SPDX-License-Identifier: Apache-2.0
 *
 * What must be changed in one sequence of words to get another.
 */
#ifndef TESSERA_CORE_WORD_ERRORS_H
#define TESSERA_CORE_WORD_ERRORS_H

#include "core/eval/words.h"

typedef struct tsr_word_errors {
  int64_t substitutions;
  int64_t deletions;  /* words of the reference that the hypothesis lacks */
  int64_t insertions; /* words of the hypothesis that the reference lacks */
} tsr_word_errors;

/* The fewest errors, and among alignments with as few that with the fewest substitutions. Each sequence has fewer than
 * 2^31 words. Takes memory for the words of the hypothesis; the time is proportional to the words of the reference
 * times the errors. */
tsr_status tsr_word_errors_count(const tsr_symbols *hypothesis, const tsr_symbols *reference,
                                 tsr_word_errors *errors) TSR_MUST_CHECK;

#endif

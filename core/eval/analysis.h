/* SPDX-License-Identifier: Apache-2.0
 *
 * What may be wrong with a translation: repetition, text of the source, a length far from the reference's. Words are
 * those of the tokenizer 13a.
 */
#ifndef TESSERA_CORE_ANALYSIS_H
#define TESSERA_CORE_ANALYSIS_H

#include "tessera/eval.h"

enum {
  TSR_FLAW_EMPTY = 0,   /* no word, where the reference has some */
  TSR_FLAW_CUT = 1,     /* the search ended it: the caller knows */
  TSR_FLAW_REPEATS = 2, /* words two times in a row, or three words in a row that come again, beyond the reference's */
  TSR_FLAW_COPIED = 3, /* the source, or from four words on: half of it from the source, where the reference has less */
  TSR_FLAW_SHORT = 4,  /* under half as many words as the reference, which has four or more */
  TSR_FLAW_LONG = 5,   /* over twice as many words as the reference, and four or more */
  TSR_FLAWS = 6
};

typedef struct tsr_facts {
  int64_t words;
  int64_t reference_words;         /* of the reference whose number of words is nearest */
  int64_t source_words;            /* 0 without a source */
  int64_t repeats[TSR_BLEU_ORDER]; /* how often n-grams of 1 to 4 words come again, beyond the references' */
  int64_t doubled;                 /* words after the same word, beyond the references' */
  int32_t flaws;                   /* bit TSR_FLAW_*; never TSR_FLAW_CUT */
} tsr_facts;

typedef struct tsr_analyser tsr_analyser;

/* One thread at a time. *analyser is the caller's until tsr_analyser_destroy. */
tsr_status tsr_analyser_create(tsr_analyser **analyser) TSR_MUST_CHECK;
void tsr_analyser_destroy(tsr_analyser *analyser); /* takes NULL */

/* source: NULL if it is not known. n_references is at least 1. Errors: TSR_ERR_ARGUMENT (texts too long),
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_analyse(tsr_analyser *analyser, tsr_span hypothesis, const tsr_span *references, int32_t n_references,
                       const tsr_span *source, tsr_facts *facts) TSR_MUST_CHECK;

#endif

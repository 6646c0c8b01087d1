/* SPDX-License-Identifier: Apache-2.0
 *
 * What a call finds out about outputs beside a tsr_hypothesis.
 */
#ifndef TESSERA_CORE_GENERATE_DETAILS_H
#define TESSERA_CORE_GENERATE_DETAILS_H

#include "tessera/generate.h"

/* Before a call: what the last one found is dropped. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_details_begin(tsr_details *details, int32_t n_sentences, int32_t n_best) TSR_MUST_CHECK;

/* Log-probabilities of a hypothesis's tokens, which are allocated; they are the details' from then on. Several threads
 * at a time, each for other sentences. */
void tsr_details_put(tsr_details *details, int32_t sentence, int32_t hypothesis, float *log_probabilities);

/* Weights [rows][heads][positions] of a hypothesis's tokens, which are allocated; they are put into the order
 * [heads][rows][positions] and are the details' from then on, also after an error. Likewise. Errors:
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_details_put_alignment(tsr_details *details, int32_t sentence, int32_t hypothesis, float *weights,
                                     int32_t rows, int32_t heads, int32_t positions) TSR_MUST_CHECK;

/* Room for the probabilities of n languages of a sentence, anew; and what is known of its silence. Likewise. Errors:
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_details_make_languages(tsr_details *details, int32_t sentence, int32_t n,
                                      float **probabilities) TSR_MUST_CHECK;
void tsr_details_put_no_speech(tsr_details *details, int32_t sentence, float probability);

#endif

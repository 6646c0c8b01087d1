/* SPDX-License-Identifier: Apache-2.0
 *
 * What tsr_score and those who share its work between devices have in common.
 */
#ifndef TESSERA_CORE_GENERATE_SCORE_H
#define TESSERA_CORE_GENERATE_SCORE_H

#include "tessera/generate.h"

/* Sentences of a batch, at most. */
int32_t tsr_score_batch(const tsr_score_options *options);

/* Whether there is anything wrong with the arguments of tsr_score, those that do not concern a device. `options` is
 * complete. Errors: as tsr_score. */
tsr_status tsr_score_check(const tsr_transformer_config *config, int32_t n_sentences, const int32_t *const *source,
                           const int32_t *source_lengths, const int32_t *const *target, const int32_t *target_lengths,
                           const tsr_score_options *options) TSR_MUST_CHECK;

#endif

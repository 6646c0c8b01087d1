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

/* tsr_score, whose caller is asked before each batch whether it still wants the scores. Errors, beside those of
 * tsr_score: TSR_ERR_CANCELLED (it does not). */
typedef struct tsr_score_watch {
  void *user;
  tsr_progress_fn progress;         /* or NULL */
  int32_t (*is_wanted)(void *user); /* or NULL */
} tsr_score_watch;

tsr_status tsr_score_watched(tsr_transformer *transformer, int32_t n_sentences, const int32_t *const *source,
                             const int32_t *source_lengths, const int32_t *const *target, const int32_t *target_lengths,
                             const tsr_score_options *options, const tsr_score_watch *watch,
                             tsr_scores *scores) TSR_MUST_CHECK;

#endif

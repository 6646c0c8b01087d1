/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs of a model, and what the library knows about them beyond tsr_model_program.
 */
#ifndef TESSERA_CORE_TRANSFORMER_PROGRAMS_H
#define TESSERA_CORE_TRANSFORMER_PROGRAMS_H

#include "core/transformer/layers.h"

/* What tells one program of a model from another. */
typedef struct tsr_program_key {
  int32_t kind; /* TSR_PROGRAM_* */
  tsr_program_size size;
  int32_t source_room;   /* ENCODE: positions that the states of cross-attention have room for; 0: size.source */
  int32_t suppress_rows; /* GREEDY: 1: `suppress` has a row per sentence; 0: one row for all. BEAM: 1: `suppress` has a
                            row per hypothesis; 0: there is none */
  int32_t renormalize;   /* BEAM: 1: `suppress` is there in any case and is added to the logits, so that what it leaves
                            has a sum of probabilities of 1; 0: it is added to the log-probabilities */
  int32_t taps;          /* bits TSR_INSPECT_*: outputs beside the results */
  int32_t
      banned; /* BEAM without `suppress`: tokens that the host bans, for which that many more candidates come back */
} tsr_program_key;

/* Builds into an empty program. Errors: TSR_ERR_ARGUMENT, TSR_ERR_UNSUPPORTED, the program's. */
tsr_status tsr_build_program(const tsr_builder *builder, const tsr_program_key *key) TSR_MUST_CHECK;

/* Candidates per row of a BEAM program: 2N that are not banned, or the whole of a smaller vocabulary. */
int32_t tsr_beam_candidates(const tsr_transformer_config *config, int32_t beam, int32_t banned);

#endif

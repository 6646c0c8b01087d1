/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of positions that is computed rather than read.
 */
#ifndef TESSERA_CORE_TRANSFORMER_POSITIONS_H
#define TESSERA_CORE_TRANSFORMER_POSITIONS_H

#include "tessera/train.h"

/* Columns of that table: of rotary positions the cosines of a head's pairs, then their sines (tsr_rotate); else
 * d_model. */
int32_t tsr_positions_width(const tsr_transformer_config *config);

/* 1 if the configuration's positions are such a table. */
int tsr_positions_are_computed(const tsr_transformer_config *config);

/* The table of positions of Whisper's encoder, a parameter that its original never trains: rows first ..
 * first+count-1 of the sinusoids of TSR_POSITION_SINUSOID_TENSOR2TENSOR, [count, D], D at least 4. Errors:
 * TSR_ERR_OUT_OF_MEMORY. */
#define TSR_ENCODER_POSITIONS "encoder.positions.weight"
tsr_status tsr_positions_of_sound(int32_t d_model, int64_t first, int64_t count, float *rows) TSR_MUST_CHECK;

#endif

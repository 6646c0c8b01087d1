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

#endif

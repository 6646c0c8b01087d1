/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of positions that is computed rather than read.
 */
#ifndef TESSERA_CORE_TRANSFORMER_POSITIONS_H
#define TESSERA_CORE_TRANSFORMER_POSITIONS_H

#include "tessera/transformer.h"

/* 1 if the configuration's positions are such a table. */
int tsr_positions_are_computed(const tsr_transformer_config *config);

/* Makes and fills a buffer [max_positions, D] f32, whose first row is that of the first token, which is then the
 * caller's, after an error too; NULL where the configuration has no such table. */
tsr_status tsr_positions_upload(const tsr_transformer_config *config, tsr_device *device,
                                tsr_buffer **positions) TSR_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run asks of its stream of batches beside what the public header has.
 */
#ifndef TESSERA_CORE_TRAIN_DATA_H
#define TESSERA_CORE_TRAIN_DATA_H

#include "tessera/training_data.h"

/* Passes over n batches without copying their ids. *is_over: 1: the stream ended before. Errors: as
 * tsr_training_data_next. */
tsr_status tsr_training_data_skip(tsr_training_data *data, int32_t n, int32_t *is_over) TSR_MUST_CHECK;

#endif

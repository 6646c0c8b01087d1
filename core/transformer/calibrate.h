/* SPDX-License-Identifier: Apache-2.0
 *
 * What the matrices of a model are multiplied with, gathered from sentences (tsr_calibration of tessera/transformer.h),
 * and what follows from it for rounding them.
 */
#ifndef TESSERA_CORE_CALIBRATE_H
#define TESSERA_CORE_CALIBRATE_H

#include "core/transformer/model.h"

/* Of the matrix that is parameter number `parameter`: how errors are handed on, as of tsr_four_bits. *factors is
 * zeroed, or of an earlier call, and is kept if it is of that parameter already. calibration: NULL: nothing is
 * known. */
tsr_status tsr_calibration_factors(const tsr_calibration *calibration, int32_t parameter,
                                   tsr_factors *factors) TSR_MUST_CHECK;
void tsr_factors_finish(tsr_factors *factors);

#endif

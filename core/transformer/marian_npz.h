/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of Marian-NMT itself: the configuration lies within the .npz, beside the parameters.
 */
#ifndef TESSERA_CORE_TRANSFORMER_MARIAN_NPZ_H
#define TESSERA_CORE_TRANSFORMER_MARIAN_NPZ_H

#include "core/transformer/model.h"

/* Fills the model's configuration, family and checkpoint; its folder is set. Errors: TSR_ERR_IO, TSR_ERR_FORMAT,
 * TSR_ERR_UNSUPPORTED, naming file and key. */
tsr_status tsr_marian_npz_open(tsr_model *model) TSR_MUST_CHECK;

#endif

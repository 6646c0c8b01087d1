/* SPDX-License-Identifier: Apache-2.0
 *
 * Models of CTranslate2: a configuration out of model.bin's scalars and shapes, config.json and the vocabularies.
 */
#ifndef TESSERA_CORE_TRANSFORMER_CTRANSLATE2_H
#define TESSERA_CORE_TRANSFORMER_CTRANSLATE2_H

#include "core/transformer/model.h"

/* The same family for decoders that start from a row of zeros, which the file does not hold: one more row of the
 * target's tables, whose logit is -inf. */
extern const tsr_family tsr_family_ctranslate2_from_zero;

/* Fills the model's configuration, sides, family and checkpoint; its folder is set, and is a package (package.h).
 * Errors: TSR_ERR_IO, TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED, naming file and tensor or key. */
tsr_status tsr_ctranslate2_open(tsr_model *model) TSR_MUST_CHECK;

#endif

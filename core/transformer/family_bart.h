/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kin of BART have in common, Marian among them: the keys of config.json and the names of tensors.
 */
#ifndef TESSERA_CORE_TRANSFORMER_FAMILY_BART_H
#define TESSERA_CORE_TRANSFORMER_FAMILY_BART_H

#include "core/transformer/model.h"

#define TSR_BART_INIT_STD 0.02

extern const tsr_name_table tsr_bart_names;

/* Reads the sizes, the vocabulary of both stacks, the activation, the factor of the embedding and whether the logits
 * are tied. config->source_vocabulary and config->activation hold the family's defaults. */
tsr_status tsr_bart_read(tsr_config *file, tsr_transformer_config *config) TSR_MUST_CHECK;

/* Puts the same keys into a file, and others that the original writes: dropouts, init_std, the forced end. */
tsr_status tsr_bart_describe(const tsr_transformer_config *config, const tsr_save_options *options,
                             const char *architecture, json_t *file) TSR_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of Marian-NMT itself: decoder.yml, which says how to search, and names the model (.npz) and the vocabularies
 * beside it.
 */
#ifndef TESSERA_CORE_DECODER_YML_H
#define TESSERA_CORE_DECODER_YML_H

#include "core/checkpoint/checkpoint.h"

/* 1 if the folder is one: it has a decoder.yml, and no config.json. */
int tsr_marian_npz_is(const char *folder);

/* Reads decoder.yml (tsr_config_finish), and checks that it asks for one model and two vocabularies, all of them files
 * in the folder. Errors: TSR_ERR_IO, TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED. */
tsr_status tsr_marian_npz_settings(const char *folder, tsr_config *settings) TSR_MUST_CHECK;

/* FOLDER/name of such a file; allocated. key: "models"; "vocabs": 0 the source's, 1 the target's. Errors:
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_marian_npz_file(const char *folder, const tsr_config *settings, const char *key, int32_t index,
                               char **path) TSR_MUST_CHECK;

#endif

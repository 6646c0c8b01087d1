/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer of Marian folders: SentencePiece cuts a text into pieces, and the vocabulary, not SentencePiece,
 * numbers them. Results equal those of Hugging Face's MarianTokenizer.
 */
#ifndef TESSERA_CORE_MARIAN_H
#define TESSERA_CORE_MARIAN_H

#include "tessera/text.h"

/* The sides of a translation, as tsr_tokenizer_token counts them. */
enum { TSR_SIDE_SOURCE = 0, TSR_SIDE_TARGET = 1, TSR_SIDES = 2 };

/* tsr_tokenizer_open for a folder and the configuration of its model; NULL: the vocabularies are as large as their
 * files, whose ids then leave none out. */
tsr_status tsr_marian_open(const char *folder, const tsr_transformer_config *config,
                           tsr_tokenizer **tokenizer) TSR_MUST_CHECK;

/* tsr_tokenizer_encode for texts of either side. */
tsr_status tsr_marian_encode(const tsr_tokenizer *tokenizer, int32_t side, const char *text, size_t size, int32_t **ids,
                             int32_t *n_ids) TSR_MUST_CHECK;

#endif

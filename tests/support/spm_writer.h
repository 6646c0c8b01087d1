/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes small SentencePiece models: Protocol Buffers messages, good ones and such as no trainer would make.
 */
#ifndef TESSERA_TESTS_SPM_WRITER_H
#define TESSERA_TESTS_SPM_WRITER_H

#include "core/text/message.h"

enum {
  SPM_NORMAL = TSR_PIECE_NORMAL,
  SPM_UNKNOWN = TSR_PIECE_UNKNOWN,
  SPM_CONTROL = TSR_PIECE_CONTROL,
  SPM_USER_DEFINED = TSR_PIECE_USER_DEFINED,
  SPM_UNUSED = TSR_PIECE_UNUSED,
  SPM_BYTE = TSR_PIECE_BYTE
};

/* Begin with a zeroed one; finish frees it. */
typedef tsr_message spm_writer;

void spm_add_piece(spm_writer *model, const char *text, size_t size, float score, int type);

/* A normaliser with a compiled table: what it claims as the size of its index, the index, the replacements. */
void spm_add_table(spm_writer *model, uint32_t claimed_size, const uint32_t *units, size_t n_units,
                   const char *replacements, size_t replacements_size);

/* <unk>, then each text as a normal piece, the first ones likelier. */
void spm_add_pieces(spm_writer *model, const char *const *texts, size_t n_texts);

void spm_finish(spm_writer *model);

#endif

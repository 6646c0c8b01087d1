/* SPDX-License-Identifier: Apache-2.0
 *
 * The SentencePiece library behind a C interface. No exception passes it; what the library reports becomes a status
 * whose message names the model's file.
 */
#ifndef TESSERA_CORE_SENTENCEPIECE_H
#define TESSERA_CORE_SENTENCEPIECE_H

#include "core/text/segmenter.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_sentencepiece tsr_sentencepiece;

/* Reads a model from memory, which may go afterwards. `name` stands for the file in messages. Immutable: any number of
 * threads. *model is the caller's until tsr_sentencepiece_close. Errors: TSR_ERR_FORMAT, TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_sentencepiece_parse(const char *name, const void *bytes, size_t size,
                                   tsr_sentencepiece **model) TSR_MUST_CHECK;
void tsr_sentencepiece_close(tsr_sentencepiece *model); /* takes NULL */

/* Calls `receive` for each piece of the text, in order. The text may be any bytes: what is not UTF-8 is read as U+FFFD.
 */
tsr_status tsr_sentencepiece_encode(const tsr_sentencepiece *model, const char *text, size_t size, tsr_piece_fn receive,
                                    void *user) TSR_MUST_CHECK;

/* The text of pieces, each NUL-terminated; one that the model does not know stands for itself. *text is allocated and
 * NUL-terminated; the caller frees it. */
tsr_status tsr_sentencepiece_decode(const tsr_sentencepiece *model, const char *const *pieces, size_t n_pieces,
                                    char **text) TSR_MUST_CHECK;

/* The model's pieces: how many, and the one of an id of the model's own, which lives as long as the model. */
int32_t tsr_sentencepiece_count(const tsr_sentencepiece *model);
const char *tsr_sentencepiece_piece(const tsr_sentencepiece *model, int32_t id);

/* A model as a segmenter, from memory as tsr_sentencepiece_parse reads it. */
tsr_status tsr_sentencepiece_segmenter(const char *name, const void *bytes, size_t size,
                                       tsr_segmenter *segmenter) TSR_MUST_CHECK;

/* Refuses what the library would trust blindly: it reads the compiled normalisation table of a model without any check
 * of bounds. Errors: TSR_ERR_FORMAT, TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_sentencepiece_check(const char *name, const void *bytes, size_t size) TSR_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif

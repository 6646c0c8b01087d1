/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes Protocol Buffers messages, and SentencePiece models, which are such. Needs nothing else of the library.
 */
#ifndef TESSERA_CORE_MESSAGE_H
#define TESSERA_CORE_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

/* Zero it; tsr_message_finish frees it. Without memory `failed` is 1, and what is added is lost. */
typedef struct tsr_message {
  unsigned char *bytes;
  size_t size;
  size_t room;
  int failed;
} tsr_message;

void tsr_message_finish(tsr_message *message);

/* A field's number and value. */
void tsr_message_varint(tsr_message *message, uint32_t number, uint64_t value);
void tsr_message_float(tsr_message *message, uint32_t number, float value);
void tsr_message_bytes(tsr_message *message, uint32_t number, const void *bytes, size_t size);

/* What bytes hold that are no field. */
void tsr_message_raw(tsr_message *message, const void *bytes, size_t size);

/* Fields of a SentencePiece model, and values of theirs. */
enum {
  TSR_MODEL_PIECE = 1,
  TSR_MODEL_TRAINER = 2,
  TSR_MODEL_NORMALIZER = 3,
  TSR_TRAINER_TYPE = 3, /* TSR_TYPE_* */
  TSR_TRAINER_BYTE_FALLBACK = 35,
  TSR_TYPE_UNIGRAM = 1,
  TSR_TYPE_BPE = 2,
  TSR_NORMALIZER_TABLE = 2,
  TSR_NORMALIZER_DUMMY_PREFIX = 3, /* 1 by default, likewise the next */
  TSR_NORMALIZER_REMOVE_BLANKS = 4
};

/* Kinds of pieces. */
enum {
  TSR_PIECE_NORMAL = 1,
  TSR_PIECE_UNKNOWN = 2,
  TSR_PIECE_CONTROL = 3,
  TSR_PIECE_USER_DEFINED = 4,
  TSR_PIECE_UNUSED = 5,
  TSR_PIECE_BYTE = 6
};

/* Adds a piece to a model; its id is the number of those before. */
void tsr_message_piece(tsr_message *model, const char *text, size_t size, float score, int type);

#endif

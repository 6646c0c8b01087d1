/* SPDX-License-Identifier: Apache-2.0
 *
 * Training of a SentencePiece model behind a C interface.
 */
#ifndef TESSERA_TOOLS_VOCAB_TRAIN_H
#define TESSERA_TOOLS_VOCAB_TRAIN_H

#include "tessera/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_vocab_options {
  const char *model;  /* "unigram", "bpe" */
  int32_t size;       /* pieces, </s> and <unk> included */
  double coverage;    /* of the text's characters, by their number, that get a piece of their own */
  int byte_fallback;  /* 1: other characters become pieces for their bytes, not <unk> */
  int64_t input_size; /* sentences that are looked at, a sample of all; 0: all */
  int verbose;        /* 1: SentencePiece tells on stderr what it does */
} tsr_vocab_options;

/* Gives the next sentence, which stays valid until the next call; *end is 1 if there is none. */
typedef tsr_status (*tsr_vocab_sentence_fn)(void *user, const char **text, size_t *size, int32_t *end);

/* Trains on all sentences: </s> is piece 0, <unk> piece 1, and there are no other special ones. `name` stands for the
 * text in messages. Depends on sentences and options alone. *bytes is allocated; the caller frees it. Errors: those of
 * `next`; TSR_ERR_FORMAT (too little text for so many pieces, and how many it suffices for). */
tsr_status tsr_vocab_train(const char *name, const tsr_vocab_options *options, tsr_vocab_sentence_fn next, void *user,
                           char **bytes, size_t *size) TSR_MUST_CHECK;

/* Calls `receive` for each piece of such a model, in the order of their ids. */
typedef tsr_status (*tsr_vocab_piece_fn)(void *user, int32_t id, const char *piece);
tsr_status tsr_vocab_list(const char *name, const char *bytes, size_t size, tsr_vocab_piece_fn receive,
                          void *user) TSR_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A Marian model folder small enough to be written by a test: random weights, a vocabulary of a few pieces. It can also
 * be written with one thing wrong.
 */
#ifndef TESSERA_TESTS_TINY_MODEL_H
#define TESSERA_TESTS_TINY_MODEL_H

#include <stdint.h>

enum {
  TINY_D_MODEL = 8,
  TINY_D_FF = 12,
  TINY_HEADS = 2,
  TINY_LAYERS = 2, /* of each stack */
  TINY_VOCABULARY = 16,
  TINY_POSITIONS = 32,
  TINY_EOS = 0,
  TINY_UNK = 1,
  TINY_PAD = 15
};

/* What is changed; what is NULL stays as it should be. */
typedef struct tiny_change {
  const char *config_key;   /* in config.json */
  const char *config_value; /* as JSON; NULL: the key is left out */
  const char *tensor;       /* by its name in the checkpoint */
  const char *tensor_shape; /* as JSON, "[3, 4]"; the data follow it */
  const char *tensor_type;  /* "F16": the data follow it. With neither shape nor type, the tensor is left out */
  const char *token;        /* in vocab.json */
  const char *token_value;  /* as JSON; NULL: the token is left out */
  const char *without_file; /* a file that is not written */
  const char *file;         /* a file written with this content instead */
  const char *file_text;
  int64_t checkpoint_size; /* model.safetensors is cut to this many bytes, or by so many if negative; 0: whole */
} tiny_change;

/* Writes config.json, model.safetensors, source.spm, target.spm, vocab.json and tokenizer_config.json into a folder
 * that exists, over what is there. The same weights each time. `change` may be NULL. */
void write_tiny_model(const char *folder, const tiny_change *change);

#endif

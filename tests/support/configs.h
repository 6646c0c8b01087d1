/* SPDX-License-Identifier: Apache-2.0
 *
 * Small configurations that are right in every field, for tests to change one.
 */
#ifndef TESSERA_TESTS_CONFIGS_H
#define TESSERA_TESTS_CONFIGS_H

#include "tessera/transformer.h"

/* 2+1 layers, one table for both languages; heads and d_ff differ between the stacks. */
tsr_transformer_config marian_config(void);

/* 2+1 layers, post-norm; vocabularies of two sizes. */
tsr_transformer_config nn_config(void);

/* A model of speech: 7 mels, windows of 10 frames. */
tsr_transformer_config whisper_config(void);

/* T5Gemma: heads that share keys, a window, bounded scores and logits. */
tsr_transformer_config gemma_config(void);

#endif

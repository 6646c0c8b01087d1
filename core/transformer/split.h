/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of a model lies on which of several devices.
 */
#ifndef TESSERA_CORE_TRANSFORMER_SPLIT_H
#define TESSERA_CORE_TRANSFORMER_SPLIT_H

#include "core/transformer/model.h"

enum { TSR_MOST_DEVICES = 16 /* of one model */ };

/* The blocks of a model, in the order in which a sentence passes them: the layers of the encoder, the tables, the
 * layers of the decoder, the logits. The tables are embeddings and positions of the decoder, and what encoder and
 * decoder share; logits whose weights are an embedding have no block of their own. */
typedef struct tsr_split {
  int32_t n_blocks;
  uint8_t *device;                 /* [n_blocks] rising */
  int64_t *bytes;                  /* [n_blocks] of weights */
  int64_t total[TSR_MOST_DEVICES]; /* of each device */
} tsr_split;

/* Splits a model over devices of so much memory [n], in bytes (0: not known), so that the fullest is as empty as can
 * be. A single device takes all. *split is to be finished, also after an error. Errors: TSR_ERR_DEVICE_MEMORY (the
 * weights are larger than the memory of all, with two devices or more). */
tsr_status tsr_split_make(const tsr_model *model, tsr_dtype weights, const uint64_t *memory, int32_t n,
                          tsr_split *split) TSR_MUST_CHECK;
void tsr_split_finish(tsr_split *split); /* takes a zeroed one */

/* The devices of a parameter, of the logits' weights, of the tables, of a decoder's layer from 0. */
int32_t tsr_split_parameter(const tsr_split *split, const tsr_model *model, int32_t parameter);
int32_t tsr_split_logits(const tsr_split *split, const tsr_model *model);
int32_t tsr_split_tables(const tsr_split *split, const tsr_model *model);
int32_t tsr_split_decoder_layer(const tsr_split *split, const tsr_model *model, int32_t layer);

#endif

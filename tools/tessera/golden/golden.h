/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of `tessera golden` share.
 */
#ifndef TESSERA_TOOLS_GOLDEN_H
#define TESSERA_TOOLS_GOLDEN_H

#include "tessera/checkpoint.h"
#include "tessera/train.h"
#include "tessera/transformer.h"
#include "tools/tessera/common/json.h"

/* What training of the recorded batch gave. */
typedef struct tsr_golden_training {
  int recorded;           /* 0: nothing is recorded; the rest is zero */
  double loss_error;      /* of the loss before the first step, relative */
  double gradient_error;  /* the largest of a tensor: largest error / largest magnitude */
  const char *gradient;   /* of that tensor; lives as long as the model's checkpoint */
  int32_t gradients;      /* tensors compared */
  int32_t steps;          /* Adam's, recorded; 0: none */
  double step_error;      /* the largest relative error of the losses of these steps */
  double parameter_error; /* the largest error of a parameter after them, in units of the learning rate */
  const char *parameter;
  int passed;
} tsr_golden_training;

/* Replays FOLDER/train.safetensors: the loss and every parameter's gradient; and, where `train` of golden.json tells of
 * Adam's steps, the losses on the way and the parameters after. */
tsr_status tsr_golden_train(const char *folder, const tsr_model *model, tsr_device *device, const json_t *golden,
                            const tsr_examples *examples, tsr_golden_training *training);

enum { TSR_GOLDEN_NAME = 64 };

/* One recorded search, or a list of scores. */
typedef struct tsr_golden_search {
  char name[TSR_GOLDEN_NAME];
  int32_t sequences;
  int32_t different;  /* whose ids differ */
  double score_error; /* largest; NaN where no scores are recorded */
  int passed;
  char detail[256]; /* of the first difference */
} tsr_golden_search;

/* Tensors of one sort, and the largest error of them. */
typedef struct tsr_golden_values {
  int32_t n;    /* compared; 0: none is recorded */
  double error; /* hidden states: divided by the largest magnitude recorded; attention weights: as it is */
  char name[TSR_GOLDEN_NAME]; /* of that tensor, as recorded */
  int passed;
} tsr_golden_values;

typedef struct tsr_golden_layers {
  tsr_golden_values hidden;    /* encoder_hidden.i, decoder_hidden.i */
  tsr_golden_values attention; /* encoder_attn.i, decoder_attn.i, cross_attn.i */
} tsr_golden_layers;

/* The recorded batch. */
typedef struct tsr_golden_batch {
  const tsr_checkpoint *tensors;
  int32_t n_batch, n_source, n_target;
  const int32_t *source; /* [B, S], likewise its mask; NULL with features */
  const int32_t *source_mask;
  const int32_t *source_lengths; /* [B]; NULL with features */
  const float *features;         /* [B, mels, 2 S], of a model of speech; else NULL */
  const int32_t *target;         /* [B, L], likewise its mask */
  const int32_t *target_mask;
} tsr_golden_batch;

/* Compares hidden states and attention weights after each layer, as far as they are recorded. */
tsr_status tsr_golden_compare_layers(tsr_transformer *transformer, const tsr_golden_batch *batch, double tolerance,
                                     double attention_tolerance, tsr_golden_layers *layers);

/* 1 for recordings of marian-scorer and marian-decoder, which hold no tensors. */
int tsr_golden_is_marian(const json_t *golden);

/* 1 for recordings of a model of speech. */
int tsr_golden_is_speech(const json_t *golden);

/* Replays them. *searches is allocated, after an error, too. */
tsr_status tsr_golden_marian(tsr_transformer *transformer, const json_t *golden, double tolerance,
                             tsr_golden_search **searches, int32_t *n_searches);

#endif

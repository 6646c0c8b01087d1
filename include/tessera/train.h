/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/train.h: training: the programs of a training step, and a trainer that holds a model's parameters on a device
 * and runs them.
 */
#ifndef TESSERA_TRAIN_H
#define TESSERA_TRAIN_H

#include "tessera/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the programs of a model's training depend on. */
typedef struct tsr_training_options {
  uint32_t struct_size;
  float dropout;            /* of the embeddings and of what each sublayer adds; 0 <= rate < 1 */
  float attention_dropout;  /* of the attention's weights */
  float activation_dropout; /* after the activation of the feed-forward blocks */
  float label_smoothing;    /* 0 <= smoothing < 1 */
  float beta1, beta2;       /* of Adam; both 0: 0.9, 0.98 */
  float epsilon;            /* of Adam; 0: 1e-9 */
  float weight_decay;       /* of the matrices; 0: none */
  int32_t decoupled;        /* 1: AdamW; 0: the decay is part of the gradient */
  float max_norm;           /* the norm of all gradients is clipped to this; 0: not at all */
  int32_t average;          /* 1: an exponential average of the parameters is kept */
  int32_t recompute;        /* 1: what is within a layer is computed again for the gradients instead of kept */
  int32_t statistics;       /* 1: outputs with statistics of each layer, see below */
  tsr_dtype products;       /* type in which products read the matrices: 0 or TSR_F32; TSR_F16, TSR_BF16: mixed
                               precision, the parameters themselves stay f32; with TSR_BF16 all factors of products and
                               of attention, of the gradients' too, may be rounded to it (of reduced precision,
                               tessera/ops.h) */
} tsr_training_options;
TSR_SIZED_PIN(tsr_training_options, products, 56);

/* The programs. Parameters are states named as the model's parameters; so are Adam's moments (NAME.m, NAME.v), the
 * average (NAME.average) and, where gradients are added up, their sums (NAME.sum).
 *   inputs   source [B, S], source_lengths [B], target [B, L], labels [B*L] i32 (outside the vocabulary: ignored); of a
 *            model of speech features [B, M, 2 S] f32 in the place of source and its lengths, S of its positions or
 *            fewer: nothing of a window is masked;
 *            seed [2] i32 of the dropout; scale [1] f32, the factor of the loss in what is differentiated;
 *            control [5] f32 of tsr_adam
 *   outputs  loss [1], the sum over all labels; norm [1], the sum of the squares of all gradients
 *   with statistics: for each layer LAYER ("encoder.layers.0"), LAYER.sum and LAYER.squares [1]: the sums of what
 *            leaves the layer, and of its squares, [T, D] in all; LAYER.norm [1]: as norm, of the layer's parameters */
enum {
  TSR_STEP_UPDATE = 1,    /* forward, backward, update of the parameters */
  TSR_STEP_FIRST = 2,     /* forward, backward; the gradients become the sums */
  TSR_STEP_MORE = 3,      /* forward, backward; the gradients are added to the sums */
  TSR_STEP_LAST = 4,      /* forward, backward, update with the gradients and the sums */
  TSR_STEP_EVALUATE = 5,  /* forward, without dropout and label smoothing: loss alone */
  TSR_STEP_GRADIENTS = 6, /* forward, backward; outputs NAME.gradient, and norm */
  TSR_STEP_APPLY = 7,     /* update with the sums alone; loss is an input, and where it is not finite nothing is
                             updated. Of the other inputs it has control, and its size says nothing */
  TSR_STEP_SHARE = 8      /* as TSR_STEP_FIRST, but each gradient becomes its sum as soon as it is whole, so that it can
                             leave the device while the others are computed */
};

/* A model with sinusoids has their table as a constant of this name, [max_positions, D] f32, which a program's compile
 * options bind to a buffer. */
#define TSR_POSITIONS_NAME "positions"

/* Makes and fills that buffer, whose first row is that of the first token. It is then the caller's, after an error too;
 * NULL where the model has no such table. Errors: the device's. */
TSR_API tsr_status tsr_positions_upload(const tsr_transformer_config *config, tsr_device *device,
                                        tsr_buffer **positions) TSR_MUST_CHECK;

/* Builds one. size: batch, source, target. *program is the caller's. Errors: TSR_ERR_ARGUMENT, TSR_ERR_UNSUPPORTED, the
 * program's. */
TSR_API tsr_status tsr_training_program(const tsr_model *model, const tsr_training_options *options, int32_t kind,
                                        const tsr_program_size *size, tsr_program **program) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * A trainer: the states of all parameters on a device, and the programs compiled for it, one for each extents of a
 * batch, which share one arena. One thread at a time.
 */
typedef struct tsr_trainer tsr_trainer;

/* `model` and `device` outlive *trainer, which is the caller's until tsr_trainer_destroy. The parameters are those of
 * the model's folder, if it has weights, else zeros until they are written. fallback: as in tsr_compile_options, or
 * NULL. Errors: TSR_ERR_UNSUPPORTED (an encoder or a decoder alone), TSR_ERR_ARGUMENT, the runtime's. */
TSR_API tsr_status tsr_trainer_create(const tsr_model *model, tsr_device *device, const tsr_training_options *options,
                                      tsr_device *fallback, tsr_trainer **trainer) TSR_MUST_CHECK;
TSR_API void tsr_trainer_destroy(tsr_trainer *trainer); /* takes NULL */

/* What the trainer keeps of each parameter, f32, of its shape. */
enum {
  TSR_TRAINED_PARAMETER = 0,
  TSR_TRAINED_M = 1,
  TSR_TRAINED_V = 2,
  TSR_TRAINED_AVERAGE = 3,
  TSR_TRAINED_COUNT = 4
};

/* Copies one of these out or in. index: of the parameter, as tsr_model_parameter counts; n: its elements. Writing one
 * leaves the others alone. Errors: TSR_ERR_ARGUMENT (TSR_TRAINED_AVERAGE without `average`), the device's. */
TSR_API tsr_status tsr_trainer_read(tsr_trainer *trainer, int32_t what, int32_t index, float *values,
                                    int64_t n) TSR_MUST_CHECK;
TSR_API tsr_status tsr_trainer_write(tsr_trainer *trainer, int32_t what, int32_t index, const float *values,
                                     int64_t n) TSR_MUST_CHECK;

/* A batch as the trainer reads it; nothing is kept. */
typedef struct tsr_examples {
  int32_t rows, source_width, target_width; /* B, S, L */
  const int32_t *source;                    /* [B, S] ids; NULL with features (tsr_trainer_set_features) */
  const int32_t *source_lengths;            /* [B]; likewise */
  const int32_t *target;                    /* [B, L] ids of the decoder's input */
  const int32_t *labels;                    /* [B, L] ids, or -1 */
  int64_t target_tokens;                    /* labels that count */
} tsr_examples;

/* Of a model of speech, what the encoder reads of the batches that follow: features [B, M, 2 S] of sounds, finite
 * numbers, for their B and S. Borrowed until the next call, and read by each function that takes examples. Errors:
 * TSR_ERR_ARGUMENT, TSR_ERR_UNSUPPORTED (the model reads text). */
TSR_API tsr_status tsr_trainer_set_features(tsr_trainer *trainer, const float *features) TSR_MUST_CHECK;

/* How an update is made. */
typedef struct tsr_step_control {
  int64_t step; /* t of the bias correction, from 1 */
  double learning_rate;
  double average_decay; /* of the exponential average, at this step */
  double loss_scale;    /* factor of the loss in f16 arithmetic, taken out again before the update; 0: 1 */
  uint64_t seed;        /* of the dropout; another one for each batch */
} tsr_step_control;

typedef struct tsr_step_result {
  double loss;          /* summed over the tokens of this batch, label smoothing included */
  int64_t tokens;       /* of this batch */
  double gradient_norm; /* after the last batch of an update: of the mean gradient, before clipping */
  int32_t is_finite;    /* 0: the norm, or the loss of a batch of the update, is not finite; then nothing was updated */
} tsr_step_result;

/* One batch of an update: forward and backward. The gradients of the batches since the last update are added up, and
 * after `last` the parameters are updated with their mean per token. One submit. Errors: TSR_ERR_ARGUMENT (extents, an
 * id outside the vocabulary, no token at all), the device's. */
TSR_API tsr_status tsr_trainer_step(tsr_trainer *trainer, const tsr_examples *examples, const tsr_step_control *control,
                                    int32_t last, tsr_step_result *result) TSR_MUST_CHECK;

/* The loss alone, without dropout and label smoothing: the negative log-likelihood. averaged: of the averages. */
TSR_API tsr_status tsr_trainer_evaluate(tsr_trainer *trainer, const tsr_examples *examples, int32_t averaged,
                                        tsr_step_result *result) TSR_MUST_CHECK;

/* Takes the gradient of parameter `index`: n values, valid during the call. */
typedef void (*tsr_gradient_fn)(void *context, int32_t index, const float *values, int64_t n);

/* Computes the gradients of the mean loss per token, with dropout and label smoothing, and hands out those of the
 * parameters that the loss depends on. Nothing is updated. result->gradient_norm is left 0. */
TSR_API tsr_status tsr_trainer_gradients(tsr_trainer *trainer, const tsr_examples *examples,
                                         const tsr_step_control *control, tsr_gradient_fn receive, void *context,
                                         tsr_step_result *result) TSR_MUST_CHECK;

/* After a result that is not finite: runs the step's program again on the same examples, looks for the first line that
 * makes a number that is not finite from finite ones, and writes the line (label, operator, operands) into text. "" if
 * there is none. A masked score of -inf is not a fault. */
TSR_API tsr_status tsr_trainer_find_fault(tsr_trainer *trainer, const tsr_examples *examples,
                                          const tsr_step_control *control, char *text, size_t size) TSR_MUST_CHECK;

/* With `statistics`: a layer's statistics of the last step. index: 0 .. count - 1. */
typedef struct tsr_layer_statistics {
  char name[96];        /* "encoder.layers.0" */
  double mean;          /* of the activations that leave the layer */
  double deviation;     /* their standard deviation */
  double gradient_norm; /* of the layer's parameters, of the batch's mean gradient */
} tsr_layer_statistics;
TSR_API int32_t tsr_trainer_layer_count(const tsr_trainer *trainer);
TSR_API tsr_status tsr_trainer_layer_sized(const tsr_trainer *trainer, int32_t index, tsr_layer_statistics *statistics,
                                           size_t size) TSR_MUST_CHECK;
static inline TSR_MUST_CHECK tsr_status tsr_trainer_layer(const tsr_trainer *trainer, int32_t index,
                                                          tsr_layer_statistics *statistics)
{
  return tsr_trainer_layer_sized(trainer, index, statistics, sizeof *statistics);
}

/* The memory that a step takes on the device. */
typedef struct tsr_trainer_memory {
  int64_t state_bytes;     /* parameters, moments, averages, sums */
  int64_t temporary_bytes; /* that one buffer per temporary would take, in the largest program */
  int64_t planned_bytes;   /* of the arena that all programs share */
  int32_t programs;        /* compiled */
} tsr_trainer_memory;
TSR_API void tsr_trainer_get_memory_sized(const tsr_trainer *trainer, tsr_trainer_memory *memory, size_t size);
static inline void tsr_trainer_get_memory(const tsr_trainer *trainer, tsr_trainer_memory *memory)
{
  tsr_trainer_get_memory_sized(trainer, memory, sizeof *memory);
}

#ifdef __cplusplus
}
#endif
#endif

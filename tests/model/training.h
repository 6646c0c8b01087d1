/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of training share: small models of many kinds, trainers with random parameters, batches.
 */
#ifndef TESSERA_TESTS_TRAINING_H
#define TESSERA_TESTS_TRAINING_H

#include "tessera/train.h"

/* A model of two layers to a stack. Zero stands for: Marian, post-norm, relu, one table. */
typedef struct training_shape {
  const char *name;
  int32_t nn;         /* 1: nn.Transformer */
  int32_t pre;        /* 1: pre-norm */
  int32_t activation; /* 0: relu */
  int32_t separate;   /* 1: two vocabularies; with Marian the logits' weights stay the decoder's table */
  int32_t gated;
  int32_t rms;
  int32_t position; /* TSR_POSITION_*; 0: the family's */
  int32_t mels;     /* Whisper, with so many; none of the others counts */
  int32_t gemma;    /* 1: T5Gemma, likewise */
} training_shape;

extern const training_shape training_shapes[];
extern const int32_t n_training_shapes;

/* Fails the test with the thread's message. */
void require_ok(tsr_status status, const char *what);

/* A model of that kind, of families' models too that their files cannot express. */
tsr_model *training_model(const training_shape *shape);

/* For cmocka's group: the runtime, as TESSERA_BACKEND_PATH finds it. */
int training_setup(void **state);
int training_teardown(void **state);

/* The name of a device, which lies in *info; NULL where there are no more. */
const char *training_device(tsr_runtime *runtime, int32_t index, tsr_device_info *info);

/* A trainer, its device and its model. */
typedef struct training {
  tsr_model *model;
  tsr_device *device;
  tsr_trainer *trainer;
  int32_t n;        /* parameters */
  int64_t elements; /* of them all */
  int64_t *first;   /* [n + 1]: where each begins among them all */
} training;

/* The parameters are random, the same each time. */
void training_open(tsr_runtime *runtime, const char *device, const training_shape *shape,
                   const tsr_training_options *options, training *t);
void training_close(training *t);

/* Parameter by its name. */
int32_t training_find(const training *t, const char *name);

/* Sets one element of a parameter; -1: all of them. */
void training_set(const training *t, const char *name, int64_t element, float value);

/* All of TSR_TRAINED_*, one parameter after the other; to be freed. */
float *training_read(const training *t, int32_t what);

/* The mean gradient; to be freed. */
float *training_gradients(const training *t, const tsr_examples *examples, const tsr_step_control *control,
                          tsr_step_result *result);

/* Random sentences; in each row the last labels do not count, and the last source tokens are beyond its length. Of a
 * model of speech, random features in the place of source tokens, and the first label does not count, either. */
typedef struct training_batch {
  tsr_examples examples;
  int32_t *ids;    /* of all its arrays */
  float *features; /* [B, M, 2 S], or NULL */
} training_batch;
void training_batch_make(const tsr_model *model, int32_t rows, int32_t source_width, int32_t target_width,
                         uint64_t seed, training_batch *batch);

/* One batch of all rows of several, as wide as the widest; features are of one width. */
void training_batch_join(const training_batch *parts, int32_t n, int32_t mels, training_batch *batch);
void training_batch_free(training_batch *batch);

tsr_step_control training_control(int64_t step, uint64_t seed);

/* The largest difference within a parameter, relative to the largest magnitude there; least: magnitudes below that
 * count
 * as it. *where: the parameter it is in, or NULL. */
double training_difference(const training *t, const float *a, const float *b, double least, const char **where);

#endif

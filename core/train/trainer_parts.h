/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the trainer share: its states and its programs.
 */
#ifndef TESSERA_CORE_TRAIN_TRAINER_PARTS_H
#define TESSERA_CORE_TRAIN_TRAINER_PARTS_H

#include "core/transformer/model.h"
#include "tessera/train.h"

enum {
  TSR_TRAINER_PROGRAMS = 256,          /* kept compiled */
  TSR_TRAINED_SUM = TSR_TRAINED_COUNT, /* of gradients: one more kind of what is kept */
  TSR_LAYER_OUTPUTS = 3                /* sum, squares, norm */
};

/* A compiled program. Refs that its kind does not have are TSR_NONE. */
typedef struct tsr_compiled {
  int32_t kind;
  int32_t averaged; /* 1: its parameters are the averages */
  tsr_program_size size;
  tsr_executable *executable;
  uint64_t used; /* when it was asked for last, in calls */
  tsr_ref source, source_lengths, features, target, labels, seed, scale, control;
  tsr_ref loss, norm;
  tsr_ref *layers; /* [layers][TSR_LAYER_OUTPUTS]; NULL without statistics */
  int32_t *whole;  /* [n_buckets] of TSR_STEP_SHARE: the part of the executable after which a bucket is whole */
  int32_t *cuts;   /* [n_cuts] lines */
  int32_t n_cuts;
} tsr_compiled;

/* Sums of gradients in the order in which the gradients become whole, each bucket in a buffer of its own, so that it
 * can be read while the next ones are computed. */
typedef struct tsr_buckets {
  int32_t n;
  int64_t *ends;     /* [n] elements of all buckets until its end */
  int32_t *of;       /* [parameters] the bucket; -1: the loss does not depend on the parameter */
  int64_t *offset;   /* [parameters] bytes in the bucket's buffer */
  tsr_buffer **sums; /* [n] */
} tsr_buckets;

struct tsr_trainer {
  const tsr_model *model;
  tsr_device *device;
  tsr_device *fallback; /* or NULL */
  tsr_training_options options;
  int32_t n;                              /* parameters */
  int32_t rank, size;                     /* this trainer has the optimizer's states of share `rank` of `size` */
  int64_t *offset;                        /* [n + 1]: bytes, of each in the buffers below; the last: their size */
  tsr_buffer *state[TSR_TRAINED_SUM + 1]; /* by TSR_TRAINED_*; NULL: not kept (yet) */
  tsr_buckets buckets;                    /* of the sums, if they leave the device; else none */
  tsr_buffer *positions;                  /* the computed table, or NULL */
  const float *features;                  /* borrowed: of the next batches, of a model of speech; else NULL */
  tsr_buffer **arena;                     /* [n_pieces], all of one size but for the last */
  int32_t n_pieces;
  int64_t alignment;
  tsr_compiled programs[TSR_TRAINER_PROGRAMS];
  int32_t n_programs;
  uint64_t calls;
  int64_t temporary_bytes, planned_bytes; /* of the largest program so far */
  int64_t summed_tokens;                  /* of the batches whose gradients are in the sums */
  int32_t n_summed;
  int32_t is_spoiled; /* 1: the loss of one of these batches was not finite, which their gradients need not tell */
  int32_t n_layers;
  tsr_layer_statistics *layers; /* [n_layers] */
};

int64_t tsr_trainer_elements(const tsr_trainer *trainer, int32_t index);

/* Room for the largest parameter. *values is the caller's. */
tsr_status tsr_trainer_room(const tsr_trainer *trainer, float **values) TSR_MUST_CHECK;

/* Where the optimizer's states of a rank's share begin: a parameter; for rank `size`, behind the last. */
int32_t tsr_trainer_share(const tsr_trainer *trainer, int32_t rank);

/* buckets.c: divides the sums into buckets of at least so many elements, but for the last, and makes their buffers. */
tsr_status tsr_trainer_make_buckets(tsr_trainer *trainer, int64_t elements) TSR_MUST_CHECK;
void tsr_trainer_finish_buckets(tsr_trainer *trainer);

/* buckets.c: where a program of TSR_STEP_SHARE is cut, and when its buckets are whole: entry->whole and cuts. */
tsr_status tsr_trainer_find_cuts(const tsr_trainer *trainer, const tsr_program *program,
                                 tsr_compiled *entry) TSR_MUST_CHECK;

/* Makes the buffer of a kind of state, if it is not there. */
tsr_status tsr_trainer_make_state(tsr_trainer *trainer, int32_t what) TSR_MUST_CHECK;

/* Compiles a program, with room for its temporaries. *entry is to be finished, after an error too. */
tsr_status tsr_trainer_compile(tsr_trainer *trainer, tsr_compiled *entry, const tsr_program *program,
                               int32_t keep_all) TSR_MUST_CHECK;
void tsr_compiled_finish(tsr_compiled *program);

/* The compiled program of that kind and size, the trainer's. */
tsr_status tsr_trainer_program(tsr_trainer *trainer, int32_t kind, int32_t averaged, const tsr_program_size *size,
                               tsr_compiled **found) TSR_MUST_CHECK;

#endif

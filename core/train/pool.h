/* SPDX-License-Identifier: Apache-2.0
 *
 * Pools: the part of a stream of batches that is read at once. What a stream's thread does.
 */
#ifndef TESSERA_CORE_TRAIN_POOL_H
#define TESSERA_CORE_TRAIN_POOL_H

#include <stdatomic.h>

#include "core/train/pairs.h"
#include "core/train/plan.h"
#include "core/train/sounds.h"
#include "tessera/training_data.h"

typedef struct tsr_pool {
  tsr_pairs own;          /* empty where the reader keeps the pairs */
  const tsr_pairs *pairs; /* its own, or the reader's */
  tsr_batch_plan plan;    /* at least one batch */
  tsr_training_data_position start;
  tsr_training_data_position next; /* of the pool that follows; `index` is not set */
  tsr_training_data_counts counts;
} tsr_pool;

void tsr_pool_destroy(tsr_pool *pool); /* takes NULL */

/* Zero-initialise, open, finish. One thread at a time. */
typedef struct tsr_pool_reader {
  tsr_training_data_options options; /* without zeros that stand for defaults; of its pointers only the tokenizer is
                                        used, and whether there are sounds */
  tsr_toy_task task;                 /* kind 0: there is none */
  char *name;                        /* of the corpus, for messages */
  tsr_corpus *corpus;                /* NULL with a task */
  tsr_pairs whole;                   /* the corpus, once it was seen to fit into one pool */
  tsr_training_data_counts whole_counts;
  int32_t *example[2];     /* a task's source and target */
  tsr_sound_reader sounds; /* if options.sounds; else zero */
  _Atomic int stop;        /* set by another thread: tsr_pool_read ends soon, with no pool */
} tsr_pool_reader;

/* Checks the options, takes copies and opens the files. Finish it also after an error. */
tsr_status tsr_pool_reader_open(tsr_pool_reader *reader, const tsr_training_data_options *options) TSR_MUST_CHECK;
void tsr_pool_reader_finish(tsr_pool_reader *reader); /* no pool is left */

/* The pool that begins at a position, or, where nothing is left of the epoch, the next epoch's first. NULL after the
 * last epoch, and if `stop` was set. */
tsr_status tsr_pool_read(tsr_pool_reader *reader, const tsr_training_data_position *start,
                         tsr_pool **pool) TSR_MUST_CHECK;

#endif

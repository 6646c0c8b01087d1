/* SPDX-License-Identifier: Apache-2.0
 *
 * A training from its beginning, or from where it was stopped, to its end: batches, learning rates, validation,
 * checkpoints, logs, and the folder of the model that comes out.
 *
 * OUT/ becomes the model's folder. OUT/train/ holds last.safetensors, best.safetensors and step-N.safetensors
 * (checkpoint.h), log.csv, log.jsonl and, with statistics, layers.csv.
 *
 * What a run computes follows from the options and the files: one that was stopped at any moment, by SIGKILL too, and
 * resumed gives the same numbers as one that was not, on one device. Only what depends on the clock by its nature does
 * not: where `minutes` end it, and learning rates that fall over minutes.
 */
#ifndef TESSERA_CORE_TRAIN_RUN_H
#define TESSERA_CORE_TRAIN_RUN_H

#include "core/train/data.h"
#include "core/train/schedule.h"
#include "tessera/train.h"

/* By what validations are compared. BLEU needs text; of a task, the share of sequences that came out exactly. */
enum { TSR_CRITERION_LOSS = 1, TSR_CRITERION_BLEU = 2, TSR_CRITERION_EXACT = 3 };

/* What is known after a step, and what a row of the log has. */
typedef struct tsr_run_step {
  int64_t step; /* updates so far */
  int64_t epoch;
  double seconds;           /* since the training began, pauses between runs left out */
  double loss;              /* per target token, mean of the steps since the last row */
  double rate;              /* learning rate of this step */
  double gradient_norm;     /* of this step, before clipping */
  double tokens_per_second; /* target tokens since the last row, without the time of validations */
  double scale;             /* of the loss; 1 without mixed precision */
  int64_t skipped;          /* updates that were left out as their gradients were beyond f16 */
  double done;              /* share of the training that is over, 0 to 1; -1: not known */
} tsr_run_step;

typedef struct tsr_run_validation {
  int64_t step;
  int64_t epoch;
  double seconds;
  double loss;       /* negative log-likelihood per target token */
  double perplexity; /* exp(loss) */
  double bleu;       /* NaN where it was not computed; likewise the next */
  double exact;      /* share of a task's sequences, 0 to 1 */
  int32_t is_best;   /* so far */
  int32_t averaged;  /* steps whose mean this is (average_last); 0: it is the training's current state */
} tsr_run_validation;

/* Called from the thread that runs the training. Each may be NULL. */
typedef struct tsr_run_events {
  void *user;
  void (*step)(void *user, const tsr_run_step *step, int32_t is_row); /* after each; is_row: it is in the log, too */
  void (*validation)(void *user, const tsr_run_validation *validation);
  /* Once, before the first step, when the folder is this run's alone. step: of the checkpoint that it goes on from, or
   * 0. An error ends the run. */
  tsr_status (*opened)(void *user, int64_t step);
  int32_t (*is_stopping)(void *user); /* asked after each step: 1 saves and ends the run */
} tsr_run_events;

/* Zero-initialise. Pointers are borrowed. */
typedef struct tsr_run_options {
  const char *folder; /* OUT */
  int32_t resume;     /* 1: go on from OUT/train/last.safetensors, if it is there */

  /* The training data. Of `data`, these are set from the model: decoder_start_id and the pads; shuffle is 1. */
  tsr_data_options data;
  const char *tokenizer_folder; /* its files are copied to OUT; NULL: there are none */

  tsr_training_options training;
  int32_t initial;    /* TSR_INITIAL_*; a model with weights begins with them */
  uint64_t seed;      /* of the parameters and the dropout */
  int32_t accumulate; /* batches of an update; 0: 1 */
  tsr_schedule schedule;
  double average_decay; /* of the exponential average (training.average): at step t min(this, (1 + t) / (10 + t)) */
  int32_t average_last; /* in the end, the mean of so many saved states competes with the best; 0: none */
  double loss_scale;    /* the first one, where products are f16; 0: 65536 */
  int32_t scale_window; /* updates without an overflow after which it doubles; 0: 1000 */

  /* The run ends at whichever comes first; data.epochs, too. */
  int64_t steps;    /* 0: none; likewise the next three */
  double minutes;   /* without those between runs */
  int32_t patience; /* validations in a row that are not better than the best */
  double until;     /* a BLEU or a share of exact sequences that is enough */

  int64_t log_every;      /* steps; 0: 50 */
  int64_t save_every;     /* 0: 500 */
  int64_t validate_every; /* 0: 500 */
  int32_t keep;           /* step-N.safetensors that stay; at least average_last */

  /* Validation: on files, or on what the task holds out. */
  tsr_corpus_files valid; /* source NULL and no task: there is none */
  int32_t criterion;      /* 0: by the first there is of exact sequences, BLEU and loss */
  int32_t beam;           /* of the search; 0: 1 */
  int32_t sentences;      /* that are translated, from the beginning; 0: none */

  tsr_dtype storage;  /* of the model that is written; 0: f32 */
  int32_t saved_beam; /* that its generation_config.json asks for; 0: 1 */

  tsr_run_events events;
} tsr_run_options;

/* Why a run ended. */
enum {
  TSR_RUN_STEPS = 1,
  TSR_RUN_EPOCHS = 2,
  TSR_RUN_MINUTES = 3,
  TSR_RUN_PATIENCE = 4,
  TSR_RUN_UNTIL = 5,
  TSR_RUN_STOPPED = 6 /* events.is_stopping */
};

typedef struct tsr_run_result {
  int32_t reason;
  int64_t step;
  int64_t epoch;
  int64_t skipped;
  double seconds;
  double loss;                   /* of the last row, or of what there was */
  int32_t has_validation;        /* 1: the next is set */
  tsr_run_validation validation; /* of the model that was written */
  tsr_trainer_memory memory;
  tsr_data_counts counts; /* of the last pass over the data, as far as it went in this run */
} tsr_run_result;

/* Checks the options, that nothing would be overwritten, and makes the folders. tsr_run_train does so itself. Errors:
 * as there. */
tsr_status tsr_run_check(const tsr_run_options *options) TSR_MUST_CHECK;

/* Trains, and writes the model's folder. `model` and `device` as for tsr_trainer_create. Without `resume` OUT must hold
 * no training and no model. Errors: TSR_ERR_ARGUMENT; TSR_ERR_IO; TSR_ERR_FORMAT (also a loss that is no longer finite:
 * the message names step, pairs and the first line of the program that produced it; the last checkpoint stands); those
 * of the data and of the device. */
tsr_status tsr_run_train(const tsr_model *model, tsr_device *device, tsr_device *fallback,
                         const tsr_run_options *options, tsr_run_result *result) TSR_MUST_CHECK;

#endif

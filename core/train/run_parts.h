/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of a run share: its state, its log, its validation.
 */
#ifndef TESSERA_CORE_TRAIN_RUN_PARTS_H
#define TESSERA_CORE_TRAIN_RUN_PARTS_H

#include <stdio.h>

#include "core/comm/stream.h"
#include "tessera/training_run.h"

enum { TSR_RUN_LOGS = 3 }; /* log.csv, log.jsonl, layers.csv */

/* All that a run has to know to go on, beside the tensors. */
typedef struct tsr_run_progress {
  int64_t step;
  int64_t skipped;
  int64_t epoch;
  double seconds;
  double scale;        /* of the loss */
  int64_t good;        /* updates since the scale was changed */
  double warm_seconds; /* when the warm-up was over; 0: it is not */
  double loss;         /* summed over the tokens since the last row */
  int64_t tokens;      /* since the last row */
  double row_loss;     /* of the last row, per token; NaN: there was none */
  int32_t has_best;
  double best; /* score, more is better */
  int64_t best_step;
  int32_t waiting;                     /* validations since the best */
  int64_t validated_step;              /* of the last validation; -1: none */
  tsr_training_data_position position; /* of the batches after the last update */
  int64_t log_sizes[TSR_RUN_LOGS];     /* bytes of the logs that belong to the steps so far */
} tsr_run_progress;

/* ---- logs -------------------------------------------------------------------------------------------------------- */

typedef struct tsr_run_log {
  FILE *files[TSR_RUN_LOGS]; /* the third NULL without statistics */
} tsr_run_log;

/* Opens the logs in a folder, and holds a lock on them until they are finished, so that no two runs write to one
 * folder: to be done before anything else there is touched. Finish it after an error, too. */
tsr_status tsr_run_log_open(tsr_run_log *log, const char *folder, int32_t statistics) TSR_MUST_CHECK;

/* Cuts the logs to these sizes; NULL: to nothing. An empty one gets its head. */
tsr_status tsr_run_log_begin(tsr_run_log *log, const int64_t sizes[TSR_RUN_LOGS]) TSR_MUST_CHECK;
void tsr_run_log_finish(tsr_run_log *log);

tsr_status tsr_run_log_step(tsr_run_log *log, const tsr_training_run_step *row,
                            const tsr_trainer *trainer) TSR_MUST_CHECK;
tsr_status tsr_run_log_validation(tsr_run_log *log, const tsr_training_run_validation *row) TSR_MUST_CHECK;

/* Brings what was written to the disk, and tells the sizes. */
tsr_status tsr_run_log_sync(tsr_run_log *log, int64_t sizes[TSR_RUN_LOGS]) TSR_MUST_CHECK;

/* ---- what is translated at validations --------------------------------------------------------------------------- */

typedef struct tsr_run_sample {
  int32_t n;
  int32_t room;
  int32_t **sources; /* [n] ids */
  int32_t *lengths;  /* [n] */
  int32_t **targets; /* [n] of a task: the ids that are right */
  int32_t *target_lengths;
  char **references; /* [n] of texts */
  size_t *sizes;     /* [n] of the references, in bytes */
} tsr_run_sample;

/* ---- the run ----------------------------------------------------------------------------------------------------- */

typedef struct tsr_run {
  const tsr_model *model;
  tsr_device *device;
  tsr_device *fallback;
  const tsr_training_run_options *options;
  int32_t accumulate, scale_window, criterion, beam; /* with the defaults in place */
  int64_t log_every, save_every, validate_every;
  char *folder;    /* OUT/train */
  int32_t n;       /* parameters */
  int64_t *offset; /* [n + 1]: elements, of each in `weights`; the last: of all */
  float *weights;  /* of a candidate: a model that is validated or written */
  tsr_trainer *trainer;
  tsr_training_data *data;
  tsr_training_data *valid; /* NULL: there is no validation, or another rank's */
  tsr_run_sample sample;
  tsr_run_log log;
  tsr_run_progress progress;
  int32_t rank;       /* 0: the one that validates, writes and tells */
  int32_t is_shared;  /* 1: gradients are added outside the device, by `stream` */
  int32_t is_sharded; /* 1: each rank has a share of the optimizer's states */
  tsr_sum_stream stream;
  int64_t saved_step;  /* of the last checkpoint that has all; -1: none */
  int32_t is_locked;   /* 1: the folder is this run's */
  int32_t can_go_on;   /* 0: the data or the options ended it */
  double start;        /* of this process' part, on the clock, less the seconds before it */
  double window_start; /* of the speed that is measured */
  int64_t window_tokens;
} tsr_run;

/* The batch that a stream gave last as the trainer reads it, which gets the features of sounds. Borrows from both. */
tsr_status tsr_run_examples(tsr_run *run, const tsr_training_data *data, const tsr_training_batch *batch,
                            tsr_examples *examples) TSR_MUST_CHECK;

/* The seed of a batch's dropout. */
uint64_t tsr_run_dropout_seed(const tsr_run *run, const tsr_training_batch *batch);

/* 1 if an update whose numbers are not finite is left out, and the next ones are made with a smaller scale of the loss:
 * gradients were beyond f16. */
int tsr_run_can_skip(const tsr_run *run, const tsr_step_result *result);

/* An error that says where the numbers of a batch ceased to be finite. */
tsr_status tsr_run_fail_at_fault(tsr_run *run, const tsr_examples *examples, const tsr_training_batch *batch,
                                 const tsr_step_control *control, const tsr_step_result *result) TSR_MUST_CHECK;

/* Puts the parameters as they are in the trainer into run->weights: averages where they are kept. */
tsr_status tsr_run_take_weights(tsr_run *run) TSR_MUST_CHECK;

/* Writes last.safetensors; and step-N.safetensors, where such are kept. */
tsr_status tsr_run_save(tsr_run *run) TSR_MUST_CHECK;

/* Writes run->weights to best.safetensors. */
tsr_status tsr_run_save_best(tsr_run *run, const tsr_training_run_validation *validation) TSR_MUST_CHECK;

/* Reads last.safetensors; *found is 0 if there is none. Removes what later steps left. */
tsr_status tsr_run_load(tsr_run *run, int32_t *found) TSR_MUST_CHECK;

/* Puts best.safetensors into run->weights, and what it was worth into *validation. */
tsr_status tsr_run_load_best(tsr_run *run, tsr_training_run_validation *validation) TSR_MUST_CHECK;

/* Puts the mean of the last step-N.safetensors into run->weights; *n_states of them, 0: there is none. */
tsr_status tsr_run_load_mean(tsr_run *run, int32_t *n_states) TSR_MUST_CHECK;

/* Opens what validation needs, if there is any. */
tsr_status tsr_run_open_validation(tsr_run *run) TSR_MUST_CHECK;
void tsr_run_finish_validation(tsr_run *run);

/* Validates run->weights, which have to be the trainer's averages (averaged: 1) or parameters. Fills everything but
 * is_best. */
tsr_status tsr_run_validate(tsr_run *run, int32_t averaged, tsr_training_run_validation *validation) TSR_MUST_CHECK;

/* Of a model of speech: the share of the sample's words that `model`, the candidate's folder, gets right: 1 less the
 * word error rate, of texts as Whisper's basic normaliser leaves them. */
tsr_status tsr_run_share_of_words(tsr_run *run, const tsr_model *model, double *share) TSR_MUST_CHECK;

/* Writes generation_config.json and preprocessor_config.json of a model of speech into a folder that has the rest. */
tsr_status tsr_run_write_speech(const tsr_run *run, const char *folder, int32_t beam) TSR_MUST_CHECK;

/* What is compared: more is better. */
double tsr_run_score(const tsr_run *run, const tsr_training_run_validation *validation);

/* Writes run->weights as a model's folder. */
tsr_status tsr_run_write_model(tsr_run *run, const char *folder, tsr_dtype storage, int32_t beam) TSR_MUST_CHECK;

/* ---- several ranks ----------------------------------------------------------------------------------------------- */

/* What the batches of an update gave. Zero it. */
typedef struct tsr_run_made {
  double loss; /* summed over the tokens, likewise: */
  int64_t tokens;
  int64_t epoch; /* of the last batch */
  double gradient_norm;
  int32_t is_over;   /* 1: the data ended before there were enough batches; the rest is then not set */
  int32_t is_finite; /* 0: nothing was updated, which may be passed over (tsr_run_can_skip) */
} tsr_run_made;

/* Makes the trainer, and room for the gradients that leave the device, if they do; finish it after an error, too.
 * Errors: TSR_ERR_ARGUMENT (the ranks' options differ), the transport's, the device's. */
tsr_status tsr_run_open_ranks(tsr_run *run) TSR_MUST_CHECK;
void tsr_run_finish_ranks(tsr_run *run);

/* All ranks begin with the parameters and the progress of rank 0, which *found a checkpoint or did not. */
tsr_status tsr_run_share_state(tsr_run *run, int32_t *found) TSR_MUST_CHECK;

/* The batches of one update, by all ranks, and the update. */
tsr_status tsr_run_compute_shared(tsr_run *run, tsr_step_control *control, tsr_run_made *made) TSR_MUST_CHECK;

/* Gives all ranks the statistics of the layers in the update's last batch. */
tsr_status tsr_run_share_layers(tsr_run *run) TSR_MUST_CHECK;

/* What comes next. */
typedef struct tsr_run_plan {
  double decayed;      /* share of the fall of the learning rate that is over */
  int32_t reason;      /* to end, or 0 */
  int32_t is_stopping; /* this rank was asked to */
} tsr_run_plan;

/* Every rank has a plan; all get that of rank 0, and stop if one is to. */
tsr_status tsr_run_agree(tsr_run *run, tsr_run_plan *plan) TSR_MUST_CHECK;

/* Errors: TSR_ERR_UNSUPPORTED: a rank has other parameters than rank 0. */
tsr_status tsr_run_compare_parameters(tsr_run *run) TSR_MUST_CHECK;

/* ---- states that are with other ranks ---------------------------------------------------------------------------- */

/* Rank 0 reads and writes what the trainers keep, whichever rank has it. The other ranks meanwhile serve, until rank 0
 * says that it needs no more. Without shares of the optimizer's states nobody serves, and these two do nothing. */
tsr_status tsr_run_serve(tsr_run *run) TSR_MUST_CHECK;
tsr_status tsr_run_end_service(tsr_run *run) TSR_MUST_CHECK;

tsr_status tsr_run_read_kept(tsr_run *run, int32_t what, int32_t index, float *values, int64_t n) TSR_MUST_CHECK;
tsr_status tsr_run_write_kept(tsr_run *run, int32_t what, int32_t index, const float *values, int64_t n) TSR_MUST_CHECK;

#endif

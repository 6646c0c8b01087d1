/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of tessera train: from a recipe to a model and the options of a run, and the line that tells how it goes.
 */
#ifndef TESSERA_TOOLS_TRAIN_H
#define TESSERA_TOOLS_TRAIN_H

#include "tessera/training_run.h"
#include "tools/tessera/train/recipe.h"

/* Zero-initialise; finish it after a failure, too. */
typedef struct training {
  tsr_tokenizer *tokenizer; /* NULL with a task */
  const char *tokenizer_folder;
  tsr_comm *comm; /* NULL: this process is alone */
  tsr_model *model;
  tsr_runtime *runtime;
  tsr_device *device; /* NULL in a dry run */
  tsr_toy_task task;  /* kind 0: none */
  tsr_training_data_options data;
  tsr_training_sounds sounds; /* of a model of speech */
  tsr_training_options step;
} training;

/* Joins the other ranks, if there are any, and opens what the recipe names. said: which keys somebody wrote. What a
 * model to train on has is written to the recipe. */
int training_open(training *t, recipe *r, const recipe_assignments *said, int dry_run);
void training_finish(training *t);

/* The recipe as the library takes it; the options borrow from both. */
int training_options(training *t, const recipe *r, tsr_training_run_options *options);

/* Prints, after `label`, how many pairs were left out and why; nothing if none was. */
void training_print_left_out(const char *label, const tsr_training_data_counts *counts);

/* What would be trained: parameters, batches, memory. */
int training_print(const training *t, const recipe *r, int json);

/* One line on stderr: on a terminal it is drawn anew, elsewhere a line is printed for each row of the log. */
typedef struct progress_line {
  int hears; /* validations tell of words, not of sequences */
  int is_terminal;
  int drawn;
  double last; /* when it was drawn, in seconds */
  double start;
  double done_at_start; /* share of the training */
} progress_line;
void progress_line_start(progress_line *line);
void progress_line_step(progress_line *line, const tsr_training_run_step *step);
void progress_line_validation(progress_line *line, const tsr_training_run_validation *validation);
void progress_line_clear(progress_line *line);

#endif

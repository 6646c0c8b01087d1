/* SPDX-License-Identifier: Apache-2.0
 *
 * The CSV files that a training writes.
 */
#ifndef TESSERA_TOOLS_TRAINING_LOG_H
#define TESSERA_TOOLS_TRAINING_LOG_H

#include <stdint.h>

enum { TRAINING_LOG_COLUMNS = 64 };

/* A CSV file of numbers; an empty cell is NaN. */
typedef struct training_log {
  const char *name; /* of the training: borrowed from the command line */
  char *path;
  char *columns[TRAINING_LOG_COLUMNS];
  int32_t n_columns;
  double *cells; /* [n_rows][n_columns] */
  char **labels; /* [n_rows] the second cell as text, in the file of the layers; else NULL */
  int64_t n_rows;
} training_log;

/* Reads a file. path: allocated, and taken over; NULL: it could not be. labelled: its second column is text. Returns an
 * exit code; finish the log after a failure, too. */
int training_log_read(training_log *t, const char *name, char *path, int labelled);
void training_log_finish(training_log *t);

/* The number of a column; -1: there is none of that name. */
int32_t training_log_column(const training_log *t, const char *name);

#endif

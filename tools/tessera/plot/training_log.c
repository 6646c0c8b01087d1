/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/plot/training_log.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"

void training_log_finish(training_log *t)
{
  for (int32_t i = 0; i < t->n_columns; i++) {
    free(t->columns[i]);
  }
  for (int64_t i = 0; t->labels && i < t->n_rows; i++) {
    free(t->labels[i]);
  }
  free(t->labels);
  free(t->cells);
  free(t->path);
  *t = (training_log){0};
}

int32_t training_log_column(const training_log *t, const char *name)
{
  for (int32_t i = 0; i < t->n_columns; i++) {
    if (strcmp(t->columns[i], name) == 0) {
      return i;
    }
  }
  return -1;
}

/* The next cell of a line, which is cut there; NULL behind the last. */
static char *next_cell(char **rest)
{
  char *cell = *rest;
  if (!cell) {
    return NULL;
  }
  char *comma = strchr(cell, ',');
  *rest = comma ? comma + 1 : NULL;
  if (comma) {
    *comma = '\0';
  }
  return cell;
}

static int read_head(training_log *t, char *line)
{
  char *rest = line;
  for (char *cell; (cell = next_cell(&rest)) != NULL && t->n_columns < TRAINING_LOG_COLUMNS;) {
    t->columns[t->n_columns] = strdup(cell);
    if (!t->columns[t->n_columns]) {
      return tsr_cli_no_memory();
    }
    t->n_columns++;
  }
  if (t->n_columns == 0 || strcmp(t->columns[0], "step") != 0) {
    tsr_cli_error("plot: %s:1: the first column should be 'step'", t->path);
    return TSR_EXIT_INPUT;
  }
  return TSR_EXIT_OK;
}

/* labelled: the second cell is a text. */
static int read_row(training_log *t, char *line, int64_t number, int labelled, double *cells, char **label)
{
  char *rest = line;
  int32_t column = 0;
  for (char *cell; (cell = next_cell(&rest)) != NULL; column++) {
    if (column == t->n_columns) {
      tsr_cli_error("plot: %s:%lld: more cells than the %d that the head names", t->path, (long long)number,
                    (int)t->n_columns);
      return TSR_EXIT_INPUT;
    }
    char *end = cell;
    cells[column] = cell[0] ? strtod(cell, &end) : NAN;
    if (labelled && column == 1) {
      *label = strdup(cell);
      if (!*label) {
        return tsr_cli_no_memory();
      }
    } else if (*end != '\0') {
      tsr_cli_error("plot: %s:%lld: '%s' in column '%s' is no number", t->path, (long long)number, cell,
                    t->columns[column]);
      return TSR_EXIT_INPUT;
    }
  }
  if (column != t->n_columns) {
    tsr_cli_error("plot: %s:%lld: %d cells, where the head names %d", t->path, (long long)number, (int)column,
                  (int)t->n_columns);
    return TSR_EXIT_INPUT;
  }
  return TSR_EXIT_OK;
}

static int read_rows(training_log *t, tsr_cli_lines *lines, int labelled)
{
  int64_t room = 0;
  for (int got = 1, code; (code = tsr_cli_lines_next(lines, &got)) != TSR_EXIT_OK || got;) {
    if (code != TSR_EXIT_OK) {
      return code;
    }
    if (lines->number == 1) {
      code = read_head(t, lines->text);
      if (code != TSR_EXIT_OK) {
        return code;
      }
      continue;
    }
    if (t->n_rows == room) {
      room = room ? 2 * room : 256;
      double *cells = realloc(t->cells, (size_t)room * (size_t)t->n_columns * sizeof *cells);
      if (!cells) {
        return tsr_cli_no_memory();
      }
      t->cells = cells;
      char **labels = realloc(t->labels, (size_t)room * sizeof *labels);
      if (!labels) {
        return tsr_cli_no_memory();
      }
      t->labels = labels;
    }
    t->labels[t->n_rows] = NULL;
    code =
        read_row(t, lines->text, lines->number, labelled, t->cells + t->n_rows * t->n_columns, &t->labels[t->n_rows]);
    if (code != TSR_EXIT_OK) {
      free(t->labels[t->n_rows]);
      return code;
    }
    t->n_rows++;
  }
  if (t->n_columns == 0) {
    tsr_cli_error("plot: %s: the file is empty", t->path);
    return TSR_EXIT_INPUT;
  }
  return TSR_EXIT_OK;
}

/* Takes `path`, NULL being a failed allocation. */
int training_log_read(training_log *t, const char *name, char *path, int labelled)
{
  tsr_cli_lines lines;
  *t = (training_log){.name = name, .path = path};
  if (!path) {
    return tsr_cli_no_memory();
  }
  int code = tsr_cli_lines_open(&lines, path);
  if (code == TSR_EXIT_OK) {
    code = read_rows(t, &lines, labelled);
    tsr_cli_lines_finish(&lines);
  }
  return code;
}

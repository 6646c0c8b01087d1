/* SPDX-License-Identifier: Apache-2.0
 *
 * This program as a process of its own, with a limit of time.
 */
#ifndef TESSERA_TOOLS_REPORT_PROCESS_H
#define TESSERA_TOOLS_REPORT_PROCESS_H

#include <stddef.h>

enum { REPORT_WORDS = 40, REPORT_MESSAGE = 1024 };

/* Arguments of the program. */
typedef struct report_words {
  const char *words[REPORT_WORDS]; /* borrowed; NULL at the end */
  int n;
} report_words;

/* NULL ends them; more than there is room for are left out. */
void report_words_add(report_words *words, ...);

typedef struct report_outcome {
  int code;      /* exit code; -1: a signal, or the limit, ended it */
  int signal;    /* 0: none */
  int timed_out; /* 1: it was ended because its time was over */
  double seconds;
  char *out; /* what it printed, NUL-terminated */
  size_t size;
  char message[REPORT_MESSAGE]; /* the end of what it wrote on stderr, as one line */
} report_outcome;

/* Runs it for at most `seconds`; folder: for temporary files. Returns an exit code if it could not be started. Finish
 * the outcome in any case. */
int report_process_run(const report_words *words, double seconds, const char *folder, report_outcome *outcome);
void report_outcome_finish(report_outcome *outcome);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * How far long work has come, and the clock.
 */
#ifndef TESSERA_TOOLS_PROGRESS_H
#define TESSERA_TOOLS_PROGRESS_H

#include <stdint.h>

/* A bar on stderr for long work, drawn only if stderr is a terminal, at most ten times a second. */
typedef struct tsr_cli_progress {
  const char *what; /* "translating"; borrowed */
  int shown;        /* stderr is a terminal */
  int drawn;        /* a bar stands on the line */
  double start;     /* seconds */
  double last;
} tsr_cli_progress;
void tsr_cli_progress_start(tsr_cli_progress *progress, const char *what);

/* done of total; total 0: unknown, then only the count is shown. */
void tsr_cli_progress_update(tsr_cli_progress *progress, int64_t done, int64_t total);

/* Wipes the bar; call it before anything else is printed, too. */
void tsr_cli_progress_clear(tsr_cli_progress *progress);

/* Monotonic seconds. */
double tsr_cli_seconds(void);

enum { TSR_DATE_ROOM = 32 };

/* Now, "2026-11-20T09:30:00Z"; writes into text [TSR_DATE_ROOM], and returns it. */
char *tsr_cli_date(char *text);

#endif

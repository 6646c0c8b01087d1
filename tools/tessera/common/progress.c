/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/common/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void tsr_cli_progress_start(tsr_cli_progress *progress, const char *what)
{
  memset(progress, 0, sizeof *progress);
  progress->what = what;
  progress->shown = isatty(STDERR_FILENO);
  progress->start = tsr_cli_seconds();
  progress->last = progress->start;
}

void tsr_cli_progress_update(tsr_cli_progress *progress, int64_t done, int64_t total)
{
  double now = tsr_cli_seconds();
  if (!progress->shown || now - progress->last < 0.1) {
    return;
  }
  progress->last = now;
  progress->drawn = 1;
  double elapsed = now - progress->start;
  if (total <= 0) {
    fprintf(stderr, "\r\033[K%s  %lld  %.0f s", progress->what, (long long)done, elapsed);
    return;
  }
  enum { BAR = 30 };
  char bar[BAR + 1];
  int filled = (int)(BAR * (double)done / (double)total);
  for (int i = 0; i < BAR; i++) {
    bar[i] = i < filled ? '#' : '.';
  }
  bar[BAR] = '\0';
  fprintf(stderr, "\r\033[K%s  [%s]  %lld of %lld  %.0f s", progress->what, bar, (long long)done, (long long)total,
          elapsed);
  if (done > 0 && done < total) {
    fprintf(stderr, ", about %.0f s more", elapsed * (double)(total - done) / (double)done);
  }
}

void tsr_cli_progress_clear(tsr_cli_progress *progress)
{
  if (progress->drawn) {
    fputs("\r\033[K", stderr);
    progress->drawn = 0;
  }
}

double tsr_cli_seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

char *tsr_cli_date(char *text)
{
  time_t now = time(NULL);
  struct tm utc;
  if (!gmtime_r(&now, &utc) || strftime(text, TSR_DATE_ROOM, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0) {
    text[0] = '\0';
  }
  return text;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tessera/common/progress.h"
#include "tools/tessera/train/train.h"

static const double seconds_between = 0.2; /* two drawings */

void progress_line_start(progress_line *line)
{
  *line = (progress_line){.is_terminal = isatty(STDERR_FILENO), .start = tsr_cli_seconds(), .done_at_start = -1.0};
}

void progress_line_clear(progress_line *line)
{
  if (line->drawn) {
    fputs("\r\033[K", stderr);
    line->drawn = 0;
  }
}

/* "1:02:03". Writes into text and returns it. */
static const char *clock_text(char *text, size_t size, double seconds)
{
  long whole = (long)fmin(seconds, 1e8);
  snprintf(text, size, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  return text;
}

void progress_line_step(progress_line *line, const tsr_training_run_step *s)
{
  double now = tsr_cli_seconds();
  if (line->done_at_start < 0.0) {
    line->done_at_start = s->done;
  }
  if (line->is_terminal ? !s->is_row && now - line->last < seconds_between : !s->is_row) {
    return;
  }
  char left[48] = "", scale[48] = "";
  double gained = s->done - line->done_at_start;
  if (s->done >= 0.0 && gained > 0.0) {
    char text[32];
    double seconds = (now - line->start) * (1.0 - s->done) / gained;
    snprintf(left, sizeof left, "  left %s", clock_text(text, sizeof text, seconds));
  }
  if (s->scale != 1.0) {
    snprintf(scale, sizeof scale, "  scale %g, %lld skipped", s->scale, (long long)s->skipped);
  }
  progress_line_clear(line);
  fprintf(stderr, "step %lld  epoch %lld  loss %.4f  %.0f tokens/s  rate %.3g  norm %.3g%s%s%s", (long long)s->step,
          (long long)s->epoch, s->loss, s->tokens_per_second, s->rate, s->gradient_norm, scale, left,
          line->is_terminal ? "" : "\n");
  fflush(stderr);
  line->drawn = line->is_terminal;
  line->last = now;
}

void progress_line_validation(progress_line *line, const tsr_training_run_validation *v)
{
  progress_line_clear(line);
  fprintf(stderr, "step %lld  validation: loss %.4f  perplexity %.3f", (long long)v->step, v->loss, v->perplexity);
  if (!isnan(v->bleu)) {
    fprintf(stderr, "  BLEU %.2f", v->bleu);
  }
  if (!isnan(v->exact)) {
    fprintf(stderr, line->hears ? "  WER %.2f" : "  %.2f %% exact",
            line->hears ? 100.0 * (1.0 - v->exact) : 100.0 * v->exact);
  }
  if (v->averaged > 0) {
    fprintf(stderr, "  mean of %d states", (int)v->averaged);
  }
  fputs(v->is_best ? "  (best)\n" : "\n", stderr);
}

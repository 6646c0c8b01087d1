/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

void tsr_trace_init(tsr_trace *trace, int32_t beam, int32_t source)
{
  *trace = (tsr_trace){.beam = beam, .source = source};
}

void tsr_trace_finish(tsr_trace *trace)
{
  free(trace->attention);
  free(trace->parents);
  *trace = (tsr_trace){0};
}

static tsr_status grow(tsr_trace *trace)
{
  enum { FIRST_ROOM = 32 };
  int32_t room = trace->room > 0 ? 2 * trace->room : FIRST_ROOM;
  size_t rows = (size_t)room * (size_t)trace->beam;
  float *attention = realloc(trace->attention, rows * (size_t)trace->source * sizeof *attention + 1);
  trace->attention = attention ? attention : trace->attention;
  int32_t *parents = realloc(trace->parents, rows * sizeof *parents);
  trace->parents = parents ? parents : trace->parents;
  if (!attention || !parents) {
    return tsr_fail_memory(rows * (size_t)trace->source * sizeof *attention);
  }
  trace->room = room;
  return TSR_OK;
}

tsr_status tsr_trace_add(tsr_trace *trace, const float *attention, int32_t stride, float factor)
{
  size_t source = (size_t)trace->source;
  if (trace->steps == trace->room) {
    TSR_TRY(grow(trace));
  }
  for (int32_t n = 0; n < trace->beam; n++) {
    size_t row = (size_t)trace->steps * (size_t)trace->beam + (size_t)n;
    for (size_t s = 0; s < source; s++) {
      trace->attention[row * source + s] = factor * attention[(size_t)n * (size_t)stride + s];
    }
    trace->parents[row] = n;
  }
  trace->steps++;
  return TSR_OK;
}

void tsr_trace_follow(tsr_trace *trace, const int32_t *parents)
{
  memcpy(trace->parents + (size_t)(trace->steps - 1) * (size_t)trace->beam, parents,
         (size_t)trace->beam * sizeof *parents);
}

tsr_status tsr_trace_read(const tsr_trace *trace, int32_t hypothesis, int32_t is_before, float **attention)
{
  size_t source = (size_t)trace->source;
  size_t size = (size_t)trace->steps * source * sizeof **attention;
  *attention = malloc(size + 1);
  if (!*attention) {
    return tsr_fail_memory(size);
  }
  for (int32_t step = trace->steps - 1; step >= 0; step--) {
    size_t first = (size_t)step * (size_t)trace->beam;
    if (!is_before || step < trace->steps - 1) {
      hypothesis = trace->parents[first + (size_t)hypothesis];
    }
    memcpy(*attention + (size_t)step * source, trace->attention + (first + (size_t)hypothesis) * source,
           source * sizeof **attention);
  }
  return TSR_OK;
}

double tsr_trace_penalty(const tsr_trace *trace, const float *attention, float beta)
{
  double penalty = 0.0;
  for (int32_t s = 0; beta > 0.0f && s < trace->source; s++) {
    double sum = 0.0;
    for (int32_t step = 0; step < trace->steps; step++) {
      sum += (double)attention[(size_t)step * (size_t)trace->source + (size_t)s];
    }
    penalty += log(fmin(sum, 1.0));
  }
  return beta > 0.0f ? (double)beta * penalty : 0.0;
}

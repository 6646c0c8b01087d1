/* SPDX-License-Identifier: Apache-2.0
 *
 * What the steps of one sentence attended to, and which hypothesis followed which: enough to tell of any hypothesis how
 * much each of its tokens attended to each token of the source.
 */
#ifndef TESSERA_CORE_GENERATE_TRACE_H
#define TESSERA_CORE_GENERATE_TRACE_H

#include "tessera/status.h"

typedef struct tsr_trace {
  int32_t beam;     /* N */
  int32_t source;   /* S: tokens of the source */
  int32_t steps;    /* one for each token after the start */
  int32_t room;     /* steps */
  float *attention; /* [steps][N][S] */
  int32_t *parents; /* [steps][N] the hypothesis before the step that hypothesis n after it continues */
} tsr_trace;

void tsr_trace_init(tsr_trace *trace, int32_t beam, int32_t source);
void tsr_trace_finish(tsr_trace *trace); /* takes a zeroed one */

/* Adds a step: attention holds N rows of S weights, `stride` apart, each multiplied by factor. Each hypothesis
 * continues itself unless tsr_trace_follow says otherwise. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_trace_add(tsr_trace *trace, const float *attention, int32_t stride, float factor) TSR_MUST_CHECK;

/* parents [N] of the last step. */
void tsr_trace_follow(tsr_trace *trace, const int32_t *parents);

/* The attention of every token of a hypothesis, [steps][S]; is_before: its number is the one before the last step, for
 * one that ended with it. *attention is allocated; the caller frees it. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_trace_read(const tsr_trace *trace, int32_t hypothesis, int32_t is_before,
                          float **attention) TSR_MUST_CHECK;

/* What a hypothesis leaves out of the source (Wu et al. 2016): beta times the sum over the source's tokens of ln(min(1,
 * sum over the steps of their attention)); at most 0. */
double tsr_trace_penalty(const tsr_trace *trace, const float *attention, float beta);

#endif

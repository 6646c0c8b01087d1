/* SPDX-License-Identifier: Apache-2.0
 *
 * Which pairs make a batch.
 *
 * Widths are rounded up to multiples of a step, so that few shapes occur, and the rows of a batch follow from its
 * widths: as many as keep the larger side, padding included, within the tokens of a batch. Pairs of the same widths are
 * batched together; what is then left over, less than a batch, fills up a batch of larger widths if that takes no more
 * batches, for a program with empty rows costs as much as one with full ones.
 */
#ifndef TESSERA_CORE_TRAIN_PLAN_H
#define TESSERA_CORE_TRAIN_PLAN_H

#include "core/train/pairs.h"

typedef struct tsr_planned_batch {
  int32_t first;        /* its sentences are order[first] .. order[first + sentences - 1] */
  int32_t sentences;    /* at least 1, at most tsr_batch_plan_rows */
  int32_t source_width; /* S */
  int32_t target_width; /* L */
} tsr_planned_batch;

typedef struct tsr_batch_plan {
  int32_t n_batches;
  int32_t *order; /* [pairs] each pair once */
  tsr_planned_batch *batches;
} tsr_batch_plan;

typedef struct tsr_batch_plan_options {
  int32_t batch_tokens;
  int32_t step;
  int32_t shuffle; /* 1: pairs and batches in an order drawn from the rest; 0: batches by their widths, in each the
                      pairs as they came */
  uint64_t seed;
  uint32_t epoch;
  uint32_t pool;
  int32_t widest_source; /* no source's width is above; 0: any may be */
  double whole;          /* share of the pairs whose sources are that wide, drawn from the rest */
} tsr_batch_plan_options;

/* B for widths S and L: max(1, batch_tokens / max(S, L)). */
int32_t tsr_batch_plan_rows(int32_t batch_tokens, int32_t source_width, int32_t target_width);

/* A pure function of its arguments. Finish *plan after success. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_batch_plan_make(const tsr_pairs *pairs, const tsr_batch_plan_options *options,
                               tsr_batch_plan *plan) TSR_MUST_CHECK;
void tsr_batch_plan_finish(tsr_batch_plan *plan); /* takes a zeroed one */

#endif

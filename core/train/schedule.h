/* SPDX-License-Identifier: Apache-2.0
 *
 * Learning rates. All of them rise linearly from 0 to a peak, during the warm-up; then
 *
 *   constant   stay
 *   noam       fall as the inverse square root of the step: peak * sqrt(warmup / step) (Vaswani et al. 2017)
 *   linear     fall to a floor in a straight line
 *   cosine     fall to a floor along half a cosine
 */
#ifndef TESSERA_CORE_TRAIN_SCHEDULE_H
#define TESSERA_CORE_TRAIN_SCHEDULE_H

#include "tessera/status.h"

enum { TSR_SCHEDULE_CONSTANT = 1, TSR_SCHEDULE_NOAM = 2, TSR_SCHEDULE_LINEAR = 3, TSR_SCHEDULE_COSINE = 4 };

typedef struct tsr_schedule {
  int32_t kind;   /* TSR_SCHEDULE_* */
  double peak;    /* reached at the end of the warm-up */
  double floor;   /* no rate after the warm-up is below */
  int64_t warmup; /* steps; 0: none */
} tsr_schedule;

/* "constant", "noam", "linear", "cosine". Errors: TSR_ERR_ARGUMENT. */
tsr_status tsr_schedule_find(const char *name, int32_t *kind) TSR_MUST_CHECK;

/* Errors: TSR_ERR_ARGUMENT, naming the field. */
tsr_status tsr_schedule_check(const tsr_schedule *schedule) TSR_MUST_CHECK;

/* 1 if the kind falls to its floor at the end of the training, and so has to know how much of it is over. */
int tsr_schedule_has_end(const tsr_schedule *schedule);

/* The paper's peak: factor * d_model^-0.5 * warmup^-0.5. */
double tsr_schedule_paper_peak(double factor, int32_t d_model, int64_t warmup);

/* The share, 0 to 1, of what follows the warm-up that is over at a step of `steps`. */
double tsr_schedule_decayed(const tsr_schedule *schedule, int64_t step, int64_t steps);

/* The rate of a step, counted from 1. decayed: as above; of linear and cosine alone. */
double tsr_schedule_rate(const tsr_schedule *schedule, int64_t step, double decayed);

#endif

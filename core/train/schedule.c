/* SPDX-License-Identifier: Apache-2.0 */
#include "tessera/training_run.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

tsr_status tsr_schedule_find(const char *name, int32_t *kind)
{
  static const struct {
    const char *name;
    int32_t kind;
  } kinds[] = {{"constant", TSR_SCHEDULE_CONSTANT},
               {"noam", TSR_SCHEDULE_NOAM},
               {"linear", TSR_SCHEDULE_LINEAR},
               {"cosine", TSR_SCHEDULE_COSINE}};
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    if (strcmp(name, kinds[i].name) == 0) {
      *kind = kinds[i].kind;
      return TSR_OK;
    }
  }
  return tsr_fail(TSR_ERR_ARGUMENT, "there is no schedule '%s': expected constant, noam, linear or cosine", name);
}

tsr_status tsr_schedule_check(const tsr_schedule *schedule)
{
  if (schedule->kind < TSR_SCHEDULE_CONSTANT || schedule->kind > TSR_SCHEDULE_COSINE) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a schedule of kind %d: there is none", (int)schedule->kind);
  }
  if (!isfinite(schedule->peak) || schedule->peak < 0.0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a learning rate of %g: expected a number that is not negative", schedule->peak);
  }
  if (!(schedule->floor >= 0.0 && schedule->floor <= schedule->peak)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a learning rate that falls to %g: expected 0 to its peak, %g", schedule->floor,
                    schedule->peak);
  }
  if (schedule->warmup < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a warm-up of %lld steps: expected 0 or more", (long long)schedule->warmup);
  }
  return TSR_OK;
}

int tsr_schedule_has_end(const tsr_schedule *schedule)
{
  return schedule->kind == TSR_SCHEDULE_LINEAR || schedule->kind == TSR_SCHEDULE_COSINE;
}

double tsr_schedule_paper_peak(double factor, int32_t d_model, int64_t warmup)
{
  return factor / sqrt((double)d_model * (double)(warmup > 0 ? warmup : 1));
}

double tsr_schedule_decayed(const tsr_schedule *schedule, int64_t step, int64_t steps)
{
  if (step <= schedule->warmup) {
    return 0.0;
  }
  return step >= steps ? 1.0 : (double)(step - schedule->warmup) / (double)(steps - schedule->warmup);
}

/* The share of the way from the floor to the peak. */
static double fall(const tsr_schedule *schedule, double decayed)
{
  double share = fmin(fmax(decayed, 0.0), 1.0);
  return schedule->kind == TSR_SCHEDULE_LINEAR ? 1.0 - share : 0.5 * (1.0 + cos(pi * share));
}

double tsr_schedule_rate(const tsr_schedule *schedule, int64_t step, double decayed)
{
  double warmup = (double)(schedule->warmup > 0 ? schedule->warmup : 1);
  if (step < schedule->warmup) {
    return schedule->peak * (double)step / warmup;
  }
  switch (schedule->kind) {
  case TSR_SCHEDULE_NOAM:
    return fmax(schedule->peak * sqrt(warmup / (double)step), schedule->floor);
  case TSR_SCHEDULE_LINEAR:
  case TSR_SCHEDULE_COSINE:
    return schedule->floor + (schedule->peak - schedule->floor) * fall(schedule, decayed);
  default:
    return schedule->peak;
  }
}

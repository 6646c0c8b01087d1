/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device wrote against what the reference wrote: NaN and infinities first, then each element against its bound,
 * then all of them together.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tools/conformance/conformance.h"

static void describe_element(const check_storage *expected, int64_t index, char *text, size_t size)
{
  int64_t coordinate[TSR_MAX_RANK], rest = index;

  for (int32_t axis = expected->shape.rank - 1; axis >= 0; axis--) {
    coordinate[axis] = expected->shape.extent[axis] ? rest % expected->shape.extent[axis] : 0;
    rest = expected->shape.extent[axis] ? rest / expected->shape.extent[axis] : 0;
  }
  size_t used = (size_t)snprintf(text, size, "[");
  for (int32_t axis = 0; axis < expected->shape.rank && used < size; axis++) {
    used += (size_t)snprintf(text + used, size - used, "%s%lld", axis ? ", " : "",
                             (long long)coordinate[axis] + expected->first[axis]);
  }
  if (used < size) {
    snprintf(text + used, size - used, "]");
  }
}

static int compare_integers(const check_storage *expected, const void *found, const char *name,
                            check_difference *difference)
{
  const int32_t wide = expected->dtype == TSR_I32;
  char where[128];

  for (int64_t i = 0; i < expected->count; i++) {
    int64_t a = wide ? ((const int32_t *)expected->bytes)[i] : ((const int8_t *)expected->bytes)[i];
    int64_t b = wide ? ((const int32_t *)found)[i] : ((const int8_t *)found)[i];
    if (expected->error && expected->error[i] > 0.0) {
      difference->free++;
    } else if (a != b) {
      describe_element(expected, i, where, sizeof(where));
      snprintf(difference->message, sizeof(difference->message), "%s%s: reference %lld, found %lld", name, where,
               (long long)a, (long long)b);
      return 0;
    }
  }
  return 1;
}

static float element(int32_t dtype, const void *bytes, int64_t index)
{
  switch (dtype) {
  case TSR_F16:
    return tsr_f16_to_f32(((const uint16_t *)bytes)[index]);
  case TSR_BF16:
    return tsr_bf16_to_f32(((const uint16_t *)bytes)[index]);
  default:
    return ((const float *)bytes)[index];
  }
}

/* The same NaN or infinity on both sides, or finite on both; a device may pass the end of the range where the bound
 * does. */
static int same_kind(float expected, float found, double bound)
{
  if (isnan(expected) || isnan(found)) {
    return isnan(expected) && isnan(found);
  }
  if (isinf(expected) && isinf(found)) {
    return expected == found;
  }
  if (isinf(found)) {
    return bound > 0.0 && fabs((double)expected) + bound > FLT_MAX && (expected > 0.0f) == (found > 0.0f);
  }
  if (isinf(expected)) {
    return bound > 0.0 && fabs((double)found) + bound > FLT_MAX && (expected > 0.0f) == (found > 0.0f);
  }
  return 1;
}

/* Roundings of random operands are independent and average out: a sum of n terms errs by more than 8 sqrt(n) u times
 * its size with a probability below 1e-13 (Higham, Mary 2019), where the bound per element allows n u. So all elements
 * together must stay below 8 / sqrt(n) of their bounds in the mean square. This finds what the bound of a long sum
 * hides: one term left out. */
static int compare_aggregate(const check_storage *expected, const char *name, double squares, double bounds,
                             check_difference *difference)
{
  double share = 64.0 / (double)expected->terms;

  if (expected->terms <= 64 || expected->biased || squares <= share * bounds) {
    return 1;
  }
  snprintf(difference->message, sizeof(difference->message),
           "%s: no element is beyond its bound, but together they are: error %.3g of the bounds in the mean square, "
           "%.3g expected at most for sums of %lld terms",
           name, sqrt(squares / bounds), sqrt(share), (long long)expected->terms);
  return 0;
}

int check_compare(const check_storage *expected, const void *found, const char *name, double nmse,
                  check_difference *difference)
{
  double squares = 0.0, bounds = 0.0, values = 0.0, all_squares = 0.0;
  int64_t beyond = -1; /* the first element that is beyond its bound */
  char where[128];

  *difference = (check_difference){0};
  if (expected->dtype == TSR_I32 || expected->dtype == TSR_I8) {
    return compare_integers(expected, found, name, difference);
  }
  for (int64_t i = 0; i < expected->count; i++) {
    double bound = expected->error ? expected->error[i] : 0.0;
    float a = element(expected->dtype, expected->bytes, i);
    float b = element(expected->dtype, found, i);
    if (bound == INFINITY) {
      difference->free++;
      if (nmse == 0.0) {
        continue;
      }
    }
    if (!same_kind(a, b, bound)) {
      describe_element(expected, i, where, sizeof(where));
      snprintf(difference->message, sizeof(difference->message), "%s%s: reference %.9g, found %.9g", name, where,
               (double)a, (double)b);
      return 0;
    }
    if (!isfinite(a) || !isfinite(b)) {
      continue;
    }
    double distance = fabs((double)a - (double)b);
    values += (double)a * (double)a;
    all_squares += distance * distance;
    if (bound == INFINITY) {
      continue;
    }
    squares += distance * distance;
    bounds += bound * bound;
    if (!(distance <= bound)) {
      beyond = beyond < 0 ? i : beyond;
    } else if (distance > difference->worst * bound) { /* which needs no division each time */
      difference->worst = distance / bound;
    }
  }
  if (beyond >= 0) {
    double bound = expected->error ? expected->error[beyond] : 0.0;
    float a = element(expected->dtype, expected->bytes, beyond);
    float b = element(expected->dtype, found, beyond);
    describe_element(expected, beyond, where, sizeof(where));
    snprintf(difference->message, sizeof(difference->message),
             "%s%s: reference %.9g, found %.9g, off by %.3g where the bound is %.3g", name, where, (double)a, (double)b,
             fabs((double)a - (double)b), bound);
    return 0;
  }
  /* results that are subnormal may all be flushed, which tells nothing */
  difference->nmse = values > (double)expected->count * FLT_MIN * FLT_MIN ? all_squares / values : 0.0;
  if (nmse > 0.0 && !(difference->nmse <= nmse)) {
    snprintf(difference->message, sizeof(difference->message), "%s: nmse %.3g, beyond %.3g", name, difference->nmse,
             nmse);
    return 0;
  }
  return compare_aggregate(expected, name, squares, bounds, difference);
}

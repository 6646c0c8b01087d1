/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax and log_softmax along the last axis.
 */
#include "kernel.h"

int64_t ref_softmax_scratch(const ref_line *line)
{
  return ref_row_length(&line->in[0]);
}

/* The largest of z; -inf of nothing; NaN if the row holds NaN or +inf, which no softmax has a value for. */
static double largest(const double *z, int64_t n)
{
  double max = -INFINITY;
  for (int64_t i = 0; i < n; i++) {
    if (isnan(z[i]) || z[i] == INFINITY) {
      return NAN;
    }
    max = fmax(max, z[i]);
  }
  return max;
}

static double sum_of_exponentials(const double *z, int64_t n, double max)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    sum += exp(z[i] - max);
  }
  return sum;
}

double ref_softmax_row(double *z, int64_t n)
{
  const double max = largest(z, n);
  if (max == -INFINITY) {
    memset(z, 0, (size_t)n * sizeof(*z));
    return -INFINITY;
  }
  const double sum = sum_of_exponentials(z, n, max);
  for (int64_t i = 0; i < n; i++) {
    z[i] = exp(z[i] - max) / sum;
  }
  return max + log(sum);
}

void ref_softmax(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *mask = &line->in[1], *y = &line->out[0];
  const int64_t N = ref_row_length(x);
  double *z = line->scratch;

  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && ref_same_extents(x, y));
  assert(!ref_present(mask) || (mask->dtype == TSR_F32 && ref_same_extents(mask, x)));

  for (int64_t row = 0; row < ref_rows(y); row++) {
    const int64_t x_at = ref_row(x, row), mask_at = ref_row(mask, row), y_at = ref_row(y, row);
    for (int64_t i = 0; i < N; i++) {
      const float xi = ref_f32(x, x_at + i * ref_row_stride(x));
      const float mi = ref_present(mask) ? ref_f32(mask, mask_at + i * ref_row_stride(mask)) : 0.0f;
      z[i] = xi == -INFINITY || mi == -INFINITY ? -INFINITY : xi + mi;
    }
    ref_softmax_row(z, N);
    for (int64_t i = 0; i < N; i++) {
      ref_set_f32(y, y_at + i * ref_row_stride(y), z[i]);
    }
  }
}

void ref_log_softmax(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *y = &line->out[0];
  const int64_t N = ref_row_length(x);
  double *z = line->scratch;

  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && ref_same_extents(x, y));

  for (int64_t row = 0; row < ref_rows(y); row++) {
    const int64_t y_at = ref_row(y, row);
    ref_widen_row(x, ref_row(x, row), ref_row_stride(x), N, z);
    const double max = largest(z, N), log_sum = log(sum_of_exponentials(z, N, max));
    for (int64_t i = 0; i < N; i++) {
      ref_set_f32(y, y_at + i * ref_row_stride(y), max == -INFINITY ? -INFINITY : z[i] - max - log_sum);
    }
  }
}

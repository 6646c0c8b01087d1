/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax, log_softmax, their gradients, and cross-entropy, along the last axis.
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

void ref_softmax_gradient(const ref_line *line)
{
  const ref_tensor *y = &line->in[0], *dy = &line->in[1], *dx = &line->out[0];
  const int64_t N = ref_row_length(y);

  assert(y->dtype == TSR_F32 && dx->dtype == TSR_F32 && ref_same_extents(y, dy) && ref_same_extents(y, dx));

  for (int64_t row = 0; row < ref_rows(dx); row++) {
    const int64_t y_at = ref_row(y, row), dy_at = ref_row(dy, row), dx_at = ref_row(dx, row);
    double sum = 0;
    for (int64_t i = 0; i < N; i++) {
      sum += (double)ref_f32(y, y_at + i * ref_row_stride(y)) * ref_f32(dy, dy_at + i * ref_row_stride(dy));
    }
    for (int64_t i = 0; i < N; i++) {
      const double yi = ref_f32(y, y_at + i * ref_row_stride(y)), dyi = ref_f32(dy, dy_at + i * ref_row_stride(dy));
      ref_set_f32(dx, dx_at + i * ref_row_stride(dx), yi == 0 ? 0.0 : yi * (dyi - sum));
    }
  }
}

void ref_log_softmax_gradient(const ref_line *line)
{
  const ref_tensor *y = &line->in[0], *dy = &line->in[1], *dx = &line->out[0];
  const int64_t N = ref_row_length(y);

  assert(y->dtype == TSR_F32 && dx->dtype == TSR_F32 && ref_same_extents(y, dy) && ref_same_extents(y, dx));

  for (int64_t row = 0; row < ref_rows(dx); row++) {
    const int64_t y_at = ref_row(y, row), dy_at = ref_row(dy, row), dx_at = ref_row(dx, row);
    double sum = 0;
    for (int64_t i = 0; i < N; i++) {
      sum += ref_f32(dy, dy_at + i * ref_row_stride(dy));
    }
    for (int64_t i = 0; i < N; i++) {
      const double yi = ref_f32(y, y_at + i * ref_row_stride(y)), dyi = ref_f32(dy, dy_at + i * ref_row_stride(dy));
      ref_set_f32(dx, dx_at + i * ref_row_stride(dx), dyi - exp(yi) * sum);
    }
  }
}

/* The part of row t's probability that the target gives to v. */
static double target(const ref_line *line, int64_t label, int64_t v)
{
  const double smoothing = line->attributes.smoothing, V = (double)line->in[0].extent[1];
  return (v == label ? 1 - smoothing : 0) + smoothing / V;
}

void ref_cross_entropy(const ref_line *line)
{
  const ref_tensor *logits = &line->in[0], *labels = &line->in[1], *loss = &line->out[0], *lse = &line->out[1];
  const int64_t T = logits->extent[0], V = logits->extent[1];
  double *z = line->scratch;

  assert(logits->dtype == TSR_F32 && logits->rank == 2 && V >= 1);
  assert(labels->dtype == TSR_I32 && labels->rank == 1 && labels->extent[0] == T);
  assert(loss->rank == 1 && loss->extent[0] == T && ref_same_extents(lse, loss));

  for (int64_t t = 0; t < T; t++) {
    const int64_t label = ref_i32(labels, t * labels->stride[0]);
    double sum = 0;
    ref_widen_row(logits, t * logits->stride[0], logits->stride[1], V, z);
    const double log_sum = ref_softmax_row(z, V);
    for (int64_t v = 0; v < V && label >= 0 && label < V; v++) {
      const double share = target(line, label, v),
                   logit = ref_f32(logits, t * logits->stride[0] + v * logits->stride[1]);
      const double log_probability = log_sum == -INFINITY ? -INFINITY : logit - log_sum;
      if (share > 0) {
        sum += share * log_probability;
      }
    }
    ref_set_f32(loss, t * loss->stride[0], 0.0 - sum);
    ref_set_f32(lse, t * lse->stride[0], log_sum);
  }
}

void ref_cross_entropy_gradient(const ref_line *line)
{
  const ref_tensor *logits = &line->in[0], *labels = &line->in[1], *lse = &line->in[2], *dloss = &line->in[3];
  const ref_tensor *dlogits = &line->out[0];
  const int64_t T = logits->extent[0], V = logits->extent[1];

  assert(logits->dtype == TSR_F32 && logits->rank == 2 && ref_same_extents(logits, dlogits));
  assert(labels->dtype == TSR_I32 && labels->rank == 1 && labels->extent[0] == T);
  assert(ref_same_extents(lse, labels) && ref_same_extents(dloss, labels));

  for (int64_t t = 0; t < T; t++) {
    const int64_t label = ref_i32(labels, t * labels->stride[0]);
    const double log_sum = ref_f32(lse, t * lse->stride[0]), dy = ref_f32(dloss, t * dloss->stride[0]);
    for (int64_t v = 0; v < V; v++) {
      const double logit = ref_f32(logits, t * logits->stride[0] + v * logits->stride[1]);
      const double value = label < 0 || label >= V ? 0.0 : dy * (exp(logit - log_sum) - target(line, label, v));
      ref_set_f32(dlogits, t * dlogits->stride[0] + v * dlogits->stride[1], value);
    }
  }
}

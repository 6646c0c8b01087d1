/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of softmax, log_softmax, layernorm, rmsnorm, the activations, mask and the relative bias.
 */
#include "kernel.h"

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

/* The sums over rows that become dgain and dbias. */
int64_t ref_norm_gradient_scratch(const ref_line *line)
{
  return 2 * ref_row_length(&line->in[0]);
}

static void store_row(const ref_tensor *t, const double *sums)
{
  for (int64_t i = 0; ref_present(t) && i < t->extent[0]; i++) {
    ref_set_f32(t, i * t->stride[0], sums[i]);
  }
}

/* The mean of one row, and r = 1 / sqrt(mean of squares + epsilon); rmsnorm is layernorm without the mean. Unbiased: r =
 * 1 / (s + epsilon). slope: what mean(h n) is multiplied with, 1 but for unbiased: N / (N - 1) (s + epsilon) / s. */
typedef struct row_scale {
  double mean, r, slope;
} row_scale;

static row_scale scale_of(const ref_tensor *x, int64_t at, const tsr_op_attributes *attributes, int centred)
{
  const int64_t N = ref_row_length(x), step = ref_row_stride(x);
  row_scale scale = {0, 0, 1};
  double squares = 0;
  for (int64_t i = 0; centred && i < N; i++) {
    scale.mean += ref_f32(x, at + i * step);
  }
  scale.mean /= (double)N;
  for (int64_t i = 0; i < N; i++) {
    const double xi = ref_f32(x, at + i * step) - scale.mean;
    squares += xi * xi;
  }
  if (centred && attributes->unbiased) {
    const double degrees = (double)(N > 1 ? N - 1 : 1), s = sqrt(squares / degrees);
    scale.r = 1 / (s + attributes->epsilon);
    scale.slope = s > 0 ? (double)N / degrees * (s + attributes->epsilon) / s : 0;
  } else {
    scale.r = 1 / sqrt(squares / (double)N + attributes->epsilon);
  }
  return scale;
}

/* With n = (x - mean) r and h = dy gain: dx = r (h - mean(h) - n mean(h n) slope), mean(h) left out where x was not
 * centred. */
static void norm_gradient(const ref_line *line, int centred)
{
  const ref_tensor *x = &line->in[0], *gain = &line->in[1], *dy = &line->in[2];
  const ref_tensor *dx = &line->out[0], *dgain = &line->out[1], *dbias = &line->out[2];
  const int64_t N = ref_row_length(x);
  double *gain_sums = line->scratch, *bias_sums = gain_sums + N;

  assert(x->dtype == TSR_F32 && ref_same_extents(x, dy) && ref_same_extents(x, dx));
  assert(gain->rank == 1 && gain->extent[0] == N && ref_same_extents(gain, dgain));
  assert(!ref_present(dbias) || ref_same_extents(gain, dbias));
  assert(line->attributes.epsilon > 0);

  memset(line->scratch, 0, (size_t)(2 * N) * sizeof(double));
  for (int64_t row = 0; row < ref_rows(x); row++) {
    const int64_t x_at = ref_row(x, row), dy_at = ref_row(dy, row), dx_at = ref_row(dx, row);
    const row_scale scale = scale_of(x, x_at, &line->attributes, centred);
    double mean_h = 0, mean_hn = 0;
    for (int64_t i = 0; i < N; i++) {
      const double n = (ref_f32(x, x_at + i * ref_row_stride(x)) - scale.mean) * scale.r;
      const double dyi = ref_f32(dy, dy_at + i * ref_row_stride(dy)), h = dyi * ref_f32(gain, i * gain->stride[0]);
      gain_sums[i] += dyi * n;
      bias_sums[i] += dyi;
      mean_h += centred ? h / (double)N : 0.0;
      mean_hn += h * n / (double)N;
    }
    for (int64_t i = 0; i < N; i++) {
      const double n = (ref_f32(x, x_at + i * ref_row_stride(x)) - scale.mean) * scale.r;
      const double dyi = ref_f32(dy, dy_at + i * ref_row_stride(dy)), h = dyi * ref_f32(gain, i * gain->stride[0]);
      ref_set_f32(dx, dx_at + i * ref_row_stride(dx), scale.r * (h - mean_h - n * mean_hn * scale.slope));
    }
  }
  store_row(dgain, gain_sums);
  store_row(dbias, bias_sums);
}

void ref_layernorm_gradient(const ref_line *line)
{
  norm_gradient(line, 1);
}

void ref_rmsnorm_gradient(const ref_line *line)
{
  norm_gradient(line, 0);
}

/* Phi(x) + x phi(x), Phi and phi the normal distribution and its density. */
static double gelu_erf_slope(double x)
{
  return erfc(-x * M_SQRT1_2) / 2 + x * exp(-x * x / 2) * M_SQRT1_2 * M_2_SQRTPI / 2;
}

/* Of x s(2 z), s the logistic function: s + x s (1 - s) 2 z'; 1 - s(t) = s(-t). */
static double gelu_tanh_slope(double x)
{
  const double root = sqrt(2 * M_1_PI), z = root * (x + 0.044715 * x * x * x);
  const double s = 1 / (1 + exp(-2 * z)), rest = 1 / (1 + exp(2 * z));
  return s + x * s * rest * 2 * root * (1 + 3 * 0.044715 * x * x);
}

static double silu_slope(double x)
{
  const double s = 1 / (1 + exp(-x)), rest = 1 / (1 + exp(x));
  return s + x * s * rest;
}

static double slope(int32_t activation, double x)
{
  if (isnan(x) || isinf(x)) {
    return isnan(x) ? x : x > 0;
  }
  switch (activation) {
  case TSR_ACTIVATION_RELU:
    return x > 0;
  case TSR_ACTIVATION_GELU_ERF:
    return gelu_erf_slope(x);
  case TSR_ACTIVATION_GELU_TANH:
    return gelu_tanh_slope(x);
  default:
    return silu_slope(x);
  }
}

void ref_activation_gradient(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *dy = &line->in[1], *dx = &line->out[0];

  assert(x->dtype == TSR_F32 && ref_same_extents(x, dy) && ref_same_extents(x, dx));
  assert(line->attributes.activation > TSR_ACTIVATION_NONE && line->attributes.activation <= TSR_ACTIVATION_SILU);

  for (int64_t e = 0; e < ref_count(dx, dx->rank); e++) {
    const double dye = ref_f32(dy, ref_at(dy, dy->rank, e));
    const double by = slope(line->attributes.activation, ref_f32(x, ref_at(x, x->rank, e)));
    ref_set_f32(dx, ref_at(dx, dx->rank, e), by == 0 ? 0.0 : dye * by);
  }
}

void ref_mask_gradient(const ref_line *line)
{
  const ref_tensor *y = &line->in[0], *dy = &line->in[1], *dx = &line->out[0];

  assert(y->dtype == TSR_F32 && ref_same_extents(y, dy) && ref_same_extents(y, dx));

  for (int64_t e = 0; e < ref_count(dx, dx->rank); e++) {
    const float ye = ref_f32(y, ref_at(y, y->rank, e)), dye = ref_f32(dy, ref_at(dy, dy->rank, e));
    ref_set_f32(dx, ref_at(dx, dx->rank, e), ye == -INFINITY ? 0.0f : dye);
  }
}

int64_t ref_relative_gradient_scratch(const ref_line *line)
{
  return ref_count(&line->out[0], 2);
}

void ref_relative_gradient(const ref_line *line)
{
  const ref_tensor *dscores = &line->in[0], *drelative = &line->out[0];
  const ref_masking masking = {.position = &line->in[1], .attributes = &line->attributes};
  const int64_t B = dscores->extent[0], H = dscores->extent[1], L = dscores->extent[2], S = dscores->extent[3];
  const int64_t n = drelative->extent[0];
  double *sums = line->scratch; /* [n, H] */

  assert(dscores->dtype == TSR_F32 && dscores->rank == 4);
  assert(drelative->rank == 2 && n == line->attributes.k && drelative->extent[1] == H);

  memset(sums, 0, (size_t)(n * H) * sizeof(*sums));
  for (int64_t b = 0; b < B; b++) {
    for (int64_t h = 0; h < H; h++) {
      for (int64_t l = 0; l < L; l++) {
        for (int64_t s = 0; s < S; s++) {
          sums[ref_bucket(&masking, n, b, l, s) * H + h] +=
              ref_f32(dscores, ref_element(dscores, (int64_t[]){b, h, l, s}));
        }
      }
    }
  }
  for (int64_t e = 0; e < n * H; e++) {
    ref_set_f32(drelative, ref_at(drelative, 2, e), sums[e]);
  }
}

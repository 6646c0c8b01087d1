/* SPDX-License-Identifier: Apache-2.0
 *
 * The gradients of layernorm and rmsnorm.
 */
#include "kernel.h"

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

/* The mean of one row, and r = 1 / sqrt(mean of squares + epsilon); rmsnorm is layernorm without the mean. Unbiased:
 * r = 1 / (s + epsilon). slope: what mean(h n) is multiplied with, 1 but for unbiased: N / (N - 1) (s + epsilon) /
 * s. */
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

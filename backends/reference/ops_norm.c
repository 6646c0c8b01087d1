/* SPDX-License-Identifier: Apache-2.0
 *
 * layernorm and rmsnorm along the last axis.
 */
#include "kernel.h"

void ref_layernorm(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *gain = &line->in[1], *bias = &line->in[2], *y = &line->out[0];
  const int64_t N = ref_row_length(x), step = ref_row_stride(x);
  const double epsilon = line->attributes.epsilon;
  const int unbiased = line->attributes.unbiased;

  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && ref_same_extents(x, y));
  assert(gain->dtype == TSR_F32 && gain->rank == 1 && gain->extent[0] == N);
  assert(!ref_present(bias) || (bias->dtype == TSR_F32 && bias->rank == 1 && bias->extent[0] == N));
  assert(line->attributes.epsilon > 0);

  for (int64_t row = 0; row < ref_rows(y); row++) {
    const int64_t x_at = ref_row(x, row), y_at = ref_row(y, row);
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < N; i++) {
      mean += ref_f32(x, x_at + i * step);
    }
    mean /= (double)N;
    for (int64_t i = 0; i < N; i++) {
      const double centred = ref_f32(x, x_at + i * step) - mean;
      variance += centred * centred;
    }
    variance /= unbiased ? (double)(N > 1 ? N - 1 : 1) : (double)N;
    const double deviation = unbiased ? sqrt(variance) + epsilon : sqrt(variance + epsilon);
    for (int64_t i = 0; i < N; i++) {
      double value = ref_f32(gain, i * gain->stride[0]) * (ref_f32(x, x_at + i * step) - mean) / deviation;
      if (ref_present(bias)) {
        value += ref_f32(bias, i * bias->stride[0]);
      }
      ref_set_f32(y, y_at + i * ref_row_stride(y), value);
    }
  }
}

void ref_rmsnorm(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *gain = &line->in[1], *y = &line->out[0];
  const int64_t N = ref_row_length(x), step = ref_row_stride(x);

  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && ref_same_extents(x, y));
  assert(gain->dtype == TSR_F32 && gain->rank == 1 && gain->extent[0] == N);
  assert(line->attributes.epsilon > 0);

  for (int64_t row = 0; row < ref_rows(y); row++) {
    const int64_t x_at = ref_row(x, row), y_at = ref_row(y, row);
    double mean_square = 0;
    for (int64_t i = 0; i < N; i++) {
      const double xi = ref_f32(x, x_at + i * step);
      mean_square += xi * xi;
    }
    mean_square /= (double)N;
    const double root = sqrt(mean_square + line->attributes.epsilon);
    for (int64_t i = 0; i < N; i++) {
      const double xi = ref_f32(x, x_at + i * step);
      ref_set_f32(y, y_at + i * ref_row_stride(y), ref_f32(gain, i * gain->stride[0]) * xi / root);
    }
  }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * y[b, t, o] = sum_{k, i} x[b, stride t + k, i] weight[o, k, i] + bias[o]
 */
#include "kernel.h"

void ref_conv1d(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *weight = &line->in[1], *bias = &line->in[2], *y = &line->out[0];
  const int64_t stride = line->attributes.stride;
  const int64_t B = y->extent[0], T = y->extent[1], O = y->extent[2];
  const int64_t K = weight->extent[1], I = weight->extent[2];

  assert(x->rank == 3 && weight->rank == 3 && y->rank == 3 && stride >= 1 && K >= 1);
  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32);
  assert(x->extent[0] == B && x->extent[2] == I && weight->extent[0] == O && x->extent[1] >= (T - 1) * stride + K);
  assert(!ref_present(bias) || (bias->dtype == TSR_F32 && ref_same_extents(bias, y)));

  for (int64_t b = 0; b < B; b++) {
    for (int64_t t = 0; t < T; t++) {
      for (int64_t o = 0; o < O; o++) {
        double sum = 0.0;
        for (int64_t k = 0; k < K; k++) {
          const int64_t x_at = b * x->stride[0] + (t * stride + k) * x->stride[1];
          const int64_t weight_at = o * weight->stride[0] + k * weight->stride[1];
          for (int64_t i = 0; i < I; i++) {
            sum += (double)ref_f32(x, x_at + i * x->stride[2]) * ref_widened(weight, weight_at + i * weight->stride[2]);
          }
        }
        if (ref_present(bias)) {
          sum += ref_f32(bias, b * bias->stride[0] + t * bias->stride[1] + o * bias->stride[2]);
        }
        ref_set_f32(y, b * y->stride[0] + t * y->stride[1] + o * y->stride[2], sum);
      }
    }
  }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The k largest along the last axis.
 */
#include "kernel.h"

/* 1 if element i of value a stands before element j of value b: larger first, NaN larger than all, then the lower
 * index. */
static int before(float a, int64_t i, float b, int64_t j)
{
  if (isnan(a) || isnan(b)) {
    return isnan(a) && (!isnan(b) || i < j);
  }
  return a > b || (a == b && i < j);
}

void ref_topk(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *values = &line->out[0], *indices = &line->out[1];
  const int64_t N = ref_row_length(x), k = line->attributes.k, step = ref_row_stride(x);

  assert(x->dtype == TSR_F32 && values->dtype == TSR_F32 && indices->dtype == TSR_I32);
  assert(k >= 1 && k <= N && ref_row_length(values) == k && ref_same_extents(values, indices));

  for (int64_t row = 0; row < ref_rows(values); row++) {
    const int64_t x_at = ref_row(x, row), values_at = ref_row(values, row), indices_at = ref_row(indices, row);
    int64_t last = -1; /* the element chosen before; the next is the first in order of those that stand after it */
    for (int64_t j = 0; j < k; j++) {
      int64_t best = -1;
      for (int64_t i = 0; i < N; i++) {
        const float xi = ref_f32(x, x_at + i * step);
        const int after_last = last < 0 || before(ref_f32(x, x_at + last * step), last, xi, i);
        if (after_last && (best < 0 || before(xi, i, ref_f32(x, x_at + best * step), best))) {
          best = i;
        }
      }
      ref_set_f32(values, values_at + j * ref_row_stride(values), ref_f32(x, x_at + best * step));
      ref_set_i32(indices, indices_at + j * ref_row_stride(indices), (int32_t)best);
      last = best;
    }
  }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * y[m, n] = activation(alpha * sum_k a[m, k] b[k, n] + bias[m, n]), for each matrix of the leading axes; with b of i8:
 * y[m, n] = activation(alpha * s[m] * scales[n] * sum_k q[m, k] b[k, n] + bias[m, n]), q and s as quantise_row makes
 * them; with weights of four bits scales[k / 32, n] is a factor of the column.
 *
 * Rows of a are taken ROWS at a time, widened once, so that their sums advance side by side; each sum still runs over k
 * in order.
 */
#include "kernel.h"

enum { ROWS = 4 };

int64_t ref_matmul_scratch(const ref_line *line)
{
  return ref_row_length(&line->in[0]) * (ROWS + 1);
}

/* rows[k][i] = a[first + i, k]; rows beyond the last are zeros. */
static void widen_rows(const ref_tensor *a, int64_t at, int64_t first, double *rows)
{
  const int32_t axis = a->rank - 2;
  const int64_t M = a->extent[axis], K = a->extent[axis + 1];
  for (int64_t k = 0; k < K; k++) {
    for (int64_t i = 0; i < ROWS; i++) {
      int64_t m = first + i;
      rows[k * ROWS + i] = m < M ? ref_f32(a, at + m * a->stride[axis] + k * a->stride[axis + 1]) : 0.0;
    }
  }
}

/* n elements `stride` apart, each an f32, become the integers that stand for them; returns what one unit is worth. */
static float quantise_row(double *row, int64_t stride, int64_t n)
{
  float largest = 0.0f;
  int finite = 1;
  for (int64_t k = 0; k < n; k++) {
    largest = fmaxf(largest, fabsf((float)row[k * stride]));
    finite = finite && isfinite(row[k * stride]);
  }
  const int counts = finite && largest >= 0x1p-100f;
  const float inverse = counts ? 127.0f / largest : 0.0f;
  for (int64_t k = 0; k < n; k++) {
    const float quotient = counts ? (float)row[k * stride] * inverse : 0.0f;
    row[k * stride] = fmin(fmax(nearbyintf(quotient), -127.0), 127.0);
  }
  return !finite ? NAN : counts ? largest / 127.0f : 0.0f;
}

/* sum[i] = the product of a column and row i of four, which lie as widen_rows leaves them. Here the backend spends its
 * time: sanitizers leave the function out, as their checks make tests three times as long. It reads what was widened,
 * whose ends they watch while it is written. */
__attribute__((no_sanitize("undefined", "address"))) static void
multiply_column(const double *rows, const double *column, int64_t depth, double sum[ROWS])
{
  _Static_assert(ROWS == 4, "a sum for each row");
  double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
  for (int64_t k = 0; k < depth; k++, rows += ROWS) {
    const double x = column[k];
    a += rows[0] * x;
    b += rows[1] * x;
    c += rows[2] * x;
    d += rows[3] * x;
  }
  sum[0] = a;
  sum[1] = b;
  sum[2] = c;
  sum[3] = d;
}

/* A column of b as it is multiplied: numbers as they are, or four bits times the scales of their groups. */
static void widen_column(const ref_tensor *b, int64_t at, int64_t stride, const ref_tensor *scales, int64_t n,
                         int64_t depth, double *column)
{
  if (scales->dtype != TSR_F16) {
    ref_widen_row(b, at, stride, depth, column);
    return;
  }
  for (int64_t k = 0; k < depth; k++) {
    const int64_t group = k / TSR_I4_GROUP;
    column[k] =
        ref_widened(scales, group * scales->stride[0] + n * scales->stride[1]) * ref_four_bits(b, at, stride, k);
  }
}

void ref_matmul(const ref_line *line)
{
  const ref_tensor *a = &line->in[0], *b = &line->in[1], *bias = &line->in[2], *scales = &line->in[3];
  const ref_tensor *y = &line->out[0];
  const tsr_op_attributes *attributes = &line->attributes;
  const int32_t axis = y->rank - 2; /* of m in a and y, of k in b */
  const int64_t M = y->extent[axis], N = y->extent[axis + 1], K = a->extent[axis + 1];
  double *rows = line->scratch, *column = rows + K * ROWS;

  assert(y->rank >= 2 && a->rank == y->rank && b->rank == y->rank);
  const int four_bits = scales->dtype == TSR_F16;

  assert(a->extent[axis] == M &&
         b->extent[axis] == (four_bits ? (K + TSR_I4_GROUP - 1) / TSR_I4_GROUP * TSR_I4_BYTES : K) &&
         b->extent[axis + 1] == N);
  assert(a->dtype == TSR_F32 && y->dtype == TSR_F32);
  assert((b->dtype == TSR_I8) == ref_present(scales));
  assert(!ref_present(scales) || (scales->rank == 1 + four_bits && scales->extent[four_bits] == N));
  assert(!ref_present(bias) || (bias->dtype == TSR_F32 && ref_same_extents(bias, y)));

  for (int64_t matrix = 0; matrix < ref_count(y, axis); matrix++) {
    const int64_t a_at = ref_at(a, axis, matrix), b_at = ref_at(b, axis, matrix);
    const int64_t bias_at = ref_at(bias, axis, matrix), y_at = ref_at(y, axis, matrix);
    for (int64_t first = 0; first < M; first += ROWS) {
      double unit[ROWS] = {0};
      widen_rows(a, a_at, first, rows);
      for (int64_t i = 0; i < ROWS; i++) {
        unit[i] = ref_present(scales) ? quantise_row(rows + i, ROWS, K) : 1.0;
      }
      for (int64_t n = 0; n < N; n++) {
        double sum[ROWS];
        widen_column(b, b_at + n * b->stride[axis + 1], b->stride[axis], scales, n, K, column);
        multiply_column(rows, column, K, sum);
        for (int64_t i = 0; i < ROWS && first + i < M; i++) {
          const int64_t m = first + i;
          double z = attributes->alpha * unit[i] * sum[i];
          if (ref_present(scales) && !four_bits) {
            z *= ref_f32(scales, n * scales->stride[0]);
          }
          if (ref_present(bias)) {
            z += ref_f32(bias, bias_at + m * bias->stride[axis] + n * bias->stride[axis + 1]);
          }
          ref_set_f32(y, y_at + m * y->stride[axis] + n * y->stride[axis + 1], ref_activate(attributes->activation, z));
        }
      }
    }
  }
}

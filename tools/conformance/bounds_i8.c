/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds of the operators with weights of i8 and of four bits: matmul and embedding.
 */
#include <stdlib.h>

#include "tools/conformance/bounds.h"

static double byte_value(const check_tensor *t, int64_t place)
{
  return (double)((const int8_t *)t->storage->bytes)[place];
}

/* How far the product of these magnitudes may be from the exact one, where they are multiplied in any order and each
 * product is rounded to f32: n roundings and the reference's. A part of the product that is subnormal may be flushed,
 * and rounds by as much as itself. INFINITY where a part may overflow. */
static double product_error(const double *factor, int32_t n)
{
  double all = 1.0, smallest = INFINITY, largest = 0.0;

  for (int32_t subset = 1; subset < 1 << n; subset++) {
    double part = 1.0;
    for (int32_t i = 0; i < n; i++) {
      part *= subset >> i & 1 ? factor[i] : 1.0;
    }
    smallest = part > 0.0 ? fmin(smallest, part) : smallest;
    largest = fmax(largest, part);
    all = part; /* the last subset is the whole */
  }
  if (!(largest <= FLT_MAX)) {
    return INFINITY;
  }
  return check_gamma((double)n + 1.0) * all + (smallest < FLT_MIN ? 2.0 * all + FLT_MIN : 0.0);
}

/* A row of a as the reference quantises it. */
typedef struct quantised_row {
  int special;       /* an element is NaN or infinite */
  double unit;       /* what 1 is worth */
  double unit_error; /* the bound on a device's distance from it */
  double *q;         /* [K] */
  double *spread;    /* [K]: by how many units a device may differ */
} quantised_row;

/* The real number t = 127 a / amax lies between two integers. The device has it to 8u of its size (127 / amax to 2.5
 * units in the last place, as Vulkan divides, and the product), and to what a carries; every integer to which such a
 * number rounds is allowed. Where a carries so much that the row may or may not be small enough to count as zero,
 * everything is. */
static void quantise(const check_tensor *a, int64_t place, int64_t n, quantised_row *row)
{
  double largest = 0.0, carried = 0.0;
  int64_t k, at;

  row->special = 0;
  for (k = 0, at = place; k < n; k++, at += a->stride[3]) {
    row->special |= !isfinite(check_value(a, at));
    largest = fmax(largest, fabs(check_value(a, at)));
    carried = fmax(carried, check_error(a, at));
  }
  double low = largest - carried;
  row->unit = row->unit_error = 0.0;
  for (k = 0; k < n; k++) {
    row->q[k] = row->spread[k] = 0.0;
  }
  if (row->special || largest + carried < 0x1p-100) {
    return;
  }
  row->unit = largest / 127.0;
  if (!(low >= 0x1p-100)) {
    row->unit_error = row->unit + carried / 127.0;
    for (k = 0; k < n; k++) {
      row->spread[k] = 127.0;
    }
    return;
  }
  row->unit_error = 4.0 * CHECK_U * row->unit + carried / 127.0;
  float inverse = 127.0f / (float)largest;
  for (k = 0, at = place; k < n; k++, at += a->stride[3]) {
    double value = check_value(a, at);
    double t = 127.0 * value / largest;
    double reach = 8.0 * CHECK_U * fabs(t) + (127.0 * check_error(a, at) + fabs(t) * carried) / low;
    row->q[k] = fmin(fmax((double)nearbyintf((float)value * inverse), -127.0), 127.0);
    row->spread[k] =
        fmax(fmin(floor(t + reach + 0.5), 127.0) - row->q[k], row->q[k] - fmax(ceil(t - reach - 0.5), -127.0));
  }
}

/* y = f(alpha s scale I + offset), I = sum q b exact, but for the q that may differ: by sum spread |b| at most. */
static double element_error(const quantised_row *row, const tsr_op_attributes *attributes, double sum, double reach,
                            double scale, double scale_error, double offset, double offset_error)
{
  const double alpha = fabs((double)attributes->alpha);
  const double factor[] = {alpha, row->unit + row->unit_error, fabs(scale) + scale_error, fabs(sum) + reach};
  const double size = factor[0] * factor[1] * factor[2] * factor[3];
  const double nominal = alpha * row->unit * fabs(scale) * fabs(sum);

  if (!isfinite(scale) || !isfinite(offset)) {
    return reach > 0.0 ? INFINITY
                       : 0.0; /* NaN and infinities are held against the reference where their sign is sure */
  }
  double error = (size - nominal) + product_error(factor, 4) + offset_error;
  error += check_gamma(3.0) * (size + fabs(offset) + offset_error) + 2.0 * FLT_MIN;
  if (!(size + fabs(offset) <= FLT_MAX)) {
    return INFINITY;
  }
  return check_activation_error(attributes->activation, attributes->alpha * row->unit * scale * sum + offset, error);
}

tsr_status check_bound_matmul_i8(check_values *values, const tsr_line_desc *line)
{
  check_tensor a = check_tensor_of(values, line->in[0]);
  check_tensor b = check_tensor_of(values, line->in[1]);
  check_tensor bias = check_tensor_of(values, line->in[2]);
  check_tensor scales = check_tensor_of(values, line->in[3]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  const int64_t n_sum = a.extent[3];
  quantised_row row = {.q = malloc((size_t)n_sum * 2 * sizeof(double) + 1)};
  tsr_status status = check_errors_init(&y);
  double sum, reach;

  if (!status && !row.q) {
    status = tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for a row of %lld elements", (long long)n_sum);
  }
  row.spread = row.q + n_sum;
  for (int64_t i0 = 0; i0 < y.extent[0] && !status; i0++) {
    for (int64_t i1 = 0; i1 < y.extent[1]; i1++) {
      for (int64_t m = 0; m < y.extent[2]; m++) {
        quantise(&a, check_place(&a, i0, i1, m, 0), n_sum, &row);
        for (int64_t n = 0; n < y.extent[3]; n++) {
          sum = reach = 0.0;
          int64_t at_b = check_place(&b, i0, i1, 0, n);
          for (int64_t k = 0; k < n_sum; k++, at_b += b.stride[2]) {
            double byte = byte_value(&b, at_b);
            sum += row.q[k] * byte;
            reach += row.spread[k] * fabs(byte);
          }
          int64_t at_bias = bias.storage ? check_place(&bias, i0, i1, m, n) : 0;
          double offset = bias.storage ? check_value(&bias, at_bias) : 0.0;
          double offset_error = bias.storage ? check_error(&bias, at_bias) : 0.0;
          int64_t at_scale = check_place(&scales, 0, 0, 0, n);
          double error = element_error(&row, &line->attributes, sum, reach, check_value(&scales, at_scale),
                                       check_error(&scales, at_scale), offset, offset_error);
          y.storage->error[check_place(&y, i0, i1, m, n)] = row.special ? 0.0 : error;
        }
      }
    }
  }
  free(row.q);
  return status;
}

/* Weight k of a column of weights of four bits whose first byte is at `place`. */
static double half_value(const check_tensor *t, int64_t place, int64_t stride, int64_t k)
{
  const int32_t byte = ((const uint8_t *)t->storage->bytes)[place + (k / 8 * 4 + k % 4) * stride];
  return (double)((k % 8 < 4 ? byte % 16 : byte / 16) - 8);
}

/* y = f(alpha s S + offset), S = sum scale q w, of which each part of four products may be rounded to f32, and each sum
 * of such parts. */
tsr_status check_bound_matmul_i4(check_values *values, const tsr_line_desc *line)
{
  check_tensor a = check_tensor_of(values, line->in[0]);
  check_tensor b = check_tensor_of(values, line->in[1]);
  check_tensor bias = check_tensor_of(values, line->in[2]);
  check_tensor scales = check_tensor_of(values, line->in[3]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  const int64_t n_sum = a.extent[3];
  const double rounding = check_gamma((double)(n_sum + 3) / 4.0 + 2.0);
  quantised_row row = {.q = malloc((size_t)n_sum * 2 * sizeof(double) + 1)};
  tsr_status status = check_errors_init(&y);

  if (!status && !row.q) {
    status = tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for a row of %lld elements", (long long)n_sum);
  }
  row.spread = row.q + n_sum;
  for (int64_t i0 = 0; i0 < y.extent[0] && !status; i0++) {
    for (int64_t i1 = 0; i1 < y.extent[1]; i1++) {
      for (int64_t m = 0; m < y.extent[2]; m++) {
        quantise(&a, check_place(&a, i0, i1, m, 0), n_sum, &row);
        for (int64_t n = 0; n < y.extent[3]; n++) {
          const int64_t at_b = check_place(&b, i0, i1, 0, n);
          double sum = 0.0, size = 0.0, reach = 0.0, known = 0.0; /* known: NaN where a scale is */
          for (int64_t k = 0; k < n_sum; k++) {
            const double scale = check_value(&scales, check_place(&scales, 0, 0, k / TSR_I4_GROUP, n));
            const double weight = scale * half_value(&b, at_b, b.stride[2], k);
            known += 0.0 * scale;
            sum += row.q[k] * weight;
            size += (fabs(row.q[k]) + row.spread[k]) * fabs(weight);
            reach += row.spread[k] * fabs(weight);
          }
          int64_t at_bias = bias.storage ? check_place(&bias, i0, i1, m, n) : 0;
          double offset = bias.storage ? check_value(&bias, at_bias) : 0.0;
          double offset_error = bias.storage ? check_error(&bias, at_bias) : 0.0;
          double error = isnan(known) ? 0.0
                                      : element_error(&row, &line->attributes, sum, reach + rounding * size, 1.0, 0.0,
                                                      offset, offset_error);
          y.storage->error[check_place(&y, i0, i1, m, n)] = row.special ? 0.0 : error;
        }
      }
    }
  }
  free(row.q);
  return status;
}

/* y = alpha scale table[id], of each element of the row. */
static tsr_status bound_embedding(check_values *values, const tsr_line_desc *line, int four_bits)
{
  check_tensor table = check_tensor_of(values, line->in[0]);
  check_tensor ids = check_tensor_of(values, line->in[1]);
  check_tensor scales = check_tensor_of(values, line->in[2]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  const double alpha = fabs((double)line->attributes.alpha);
  tsr_status status = check_errors_init(&y);
  int64_t i[4];

  for (i[0] = 0; i[0] < y.extent[0] && !status; i[0]++) {
    for (i[1] = 0; i[1] < y.extent[1]; i[1]++) {
      for (i[2] = 0; i[2] < y.extent[2]; i[2]++) {
        int64_t id = check_integer(&ids, check_place(&ids, 0, i[0], i[1], i[2]));
        for (i[3] = 0; i[3] < y.extent[3] && id >= 0 && id < table.extent[2]; i[3]++) {
          const int64_t at_scale =
              four_bits ? check_place(&scales, 0, 0, id, i[3] / TSR_I4_GROUP) : check_place(&scales, 0, 0, 0, id);
          const double carried = check_error(&scales, at_scale);
          const double weight =
              fabs(four_bits ? half_value(&table, check_place(&table, 0, 0, id, 0), table.stride[3], i[3])
                             : byte_value(&table, check_place(&table, 0, 0, id, i[3])));
          const double factor[] = {alpha, fabs(check_value(&scales, at_scale)) + carried, weight};
          int64_t at = check_place(&y, i[0], i[1], i[2], i[3]);
          y.storage->error[at] = isfinite(factor[1]) ? alpha * carried * weight + product_error(factor, 3) : 0.0;
        }
      }
    }
  }
  return status;
}

tsr_status check_bound_embedding_i8(check_values *values, const tsr_line_desc *line)
{
  return bound_embedding(values, line, 0);
}

tsr_status check_bound_embedding_i4(check_values *values, const tsr_line_desc *line)
{
  return bound_embedding(values, line, 1);
}

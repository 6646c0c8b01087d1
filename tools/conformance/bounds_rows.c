/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds of the operators that sum: matmul, reduce_sum, and those that normalise rows.
 */
#include "tools/conformance/bounds.h"

/* y = f(alpha * sum a b + bias).
 *
 * A sum of K products in any order: gamma(K) * sum |a||b|. Then alpha, bias and the reference's rounding, one each, and
 * an activation. Where every operand is a whole number, alpha a power of two, and the sum of magnitudes stays below
 * 2^24, every partial sum is exact in every order: the bound is zero.
 *
 * Where the sum of magnitudes passes the largest f32, a partial sum may overflow in one order and not in another: free.
 *
 * Reduced precision: each factor carries its rounding to the type of factors, so that the sum errs by sum |b| r(a) +
 * |a| r(b), r as check_narrowing has it (where b is of that type already, only a subnormal of it may be lost); and a
 * sum that is cut off errs by 2u a step. Where a factor vanishes beside an infinity, the product is NaN instead: free.
 * Cut-off roundings are all of one sign: no statistics. */
tsr_status check_bound_matmul(check_values *values, const tsr_line_desc *line)
{
  check_tensor a = check_tensor_of(values, line->in[0]);
  check_tensor b = check_tensor_of(values, line->in[1]);
  check_tensor bias = check_tensor_of(values, line->in[2]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  const double alpha = (double)line->attributes.alpha;
  const int32_t activation = line->attributes.activation;
  const int64_t n_sum = a.extent[3];
  tsr_status status = check_errors_init(&y);
  int64_t at;
  const int reduced = line->attributes.reduced_precision;
  const tsr_dtype factors = reduced > 1 ? (tsr_dtype)reduced : b.dtype;
  const double roundings = check_gamma((double)n_sum + 3.0) * (reduced ? 2.0 : 1.0);
  double sum, size, carried, flush, offset;
  int exponent, special, open;

  if (status) {
    return status;
  }
  y.storage->biased |= reduced != 0;
  int binary = fabs(frexp(alpha, &exponent)) == 0.5 && fabs(alpha) >= 0x1p-10 && fabs(alpha) <= 1.0;
  y.storage->terms = n_sum;
  for (int64_t i0 = 0; i0 < y.extent[0]; i0++) {
    for (int64_t i1 = 0; i1 < y.extent[1]; i1++) {
      for (int64_t m = 0; m < y.extent[2]; m++) {
        for (int64_t n = 0; n < y.extent[3]; n++) {
          sum = size = carried = flush = offset = 0.0;
          int exact = binary;
          special = open = 0;
          int64_t at_a = check_place(&a, i0, i1, m, 0);
          int64_t at_b = check_place(&b, i0, i1, 0, n);
          for (int64_t k = 0; k < n_sum; k++, at_a += a.stride[3], at_b += b.stride[2]) {
            double av = check_value(&a, at_a);
            double bv = check_value(&b, at_b);
            double ea = check_error(&a, at_a);
            double eb = check_error(&b, at_b);
            if (reduced) {
              open |= (isinf(av) && check_narrowing_vanishes(factors, bv, eb)) ||
                      (isinf(bv) && check_narrowing_vanishes(factors, av, ea));
              ea += check_narrowing(factors, av, ea);
              eb += check_narrowing(factors, bv, eb);
            }
            special |= !isfinite(av) || !isfinite(bv);
            exact &= check_whole(av) && check_whole(bv) && ea + eb == 0.0;
            sum += av * bv;
            if (isfinite(av) && isfinite(bv)) {
              size += (fabs(av) + ea) * (fabs(bv) + eb);
            }
            carried += ea * fabs(bv) + eb * fabs(av) + ea * eb;
            flush += 1.0 + fabs(av) + fabs(bv);
          }
          if (bias.storage) {
            at = check_place(&bias, i0, i1, m, n);
            offset = check_value(&bias, at);
            special |= !isfinite(offset);
            exact &= check_whole(offset) && check_error(&bias, at) == 0.0;
            carried = fabs(alpha) * carried + check_error(&bias, at);
          } else {
            carried *= fabs(alpha);
          }
          at = check_place(&y, i0, i1, m, n);
          if (special) {
            /* What is infinite or NaN is held against the reference; a finite result beside it (relu of -inf) is 0. Not
             * where the finite products may overflow to an infinity of the other sign. */
            y.storage->error[at] = open || size > FLT_MAX ? INFINITY : 0.0;
            continue;
          }
          exact &= (size + fabs(offset)) / fmin(1.0, fabs(alpha)) < 0x1p24;
          double error = carried;
          if (!exact) {
            error += roundings * (fabs(alpha) * size + fabs(offset));
            error += FLT_MIN * (fabs(alpha) * flush + 3.0);
          }
          error = check_activation_error(activation, alpha * sum + offset, error);
          y.storage->error[at] = fmax(size, fabs(alpha) * size + fabs(offset)) > FLT_MAX ? INFINITY : error;
        }
      }
    }
  }
  return TSR_OK;
}

/* As a product with ones. */
tsr_status check_bound_reduce_sum(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  int32_t rank = tsr_tensor_at(values->program, line->in[0])->rank;
  tsr_status status = check_errors_init(&y);
  int64_t i[4], j[4], n[4], at, terms = 1;
  double size, carried;

  if (status) {
    return status;
  }
  for (int32_t axis = 0; axis < 4; axis++) {
    n[axis] = axis >= 4 - rank && (line->attributes.axes >> (axis - (4 - rank)) & 1) ? x.extent[axis] : 1;
    terms *= n[axis];
  }
  y.storage->terms = terms;
  y.storage->biased |= check_is_repeated(&x, n);
  for (i[0] = 0; i[0] < y.extent[0]; i[0]++) {
    for (i[1] = 0; i[1] < y.extent[1]; i[1]++) {
      for (i[2] = 0; i[2] < y.extent[2]; i[2]++) {
        for (i[3] = 0; i[3] < y.extent[3]; i[3]++) {
          size = carried = 0.0;
          int exact = 1;
          int special = 0;
          for (j[0] = 0; j[0] < n[0]; j[0]++) {
            for (j[1] = 0; j[1] < n[1]; j[1]++) {
              for (j[2] = 0; j[2] < n[2]; j[2]++) {
                for (j[3] = 0; j[3] < n[3]; j[3]++) {
                  at = check_place(&x, i[0] + j[0], i[1] + j[1], i[2] + j[2], i[3] + j[3]);
                  double value = check_value(&x, at);
                  special |= !isfinite(value);
                  exact &= check_whole(value) && check_error(&x, at) == 0.0;
                  size += isfinite(value) ? fabs(value) + check_error(&x, at) : 0.0;
                  carried += check_error(&x, at);
                }
              }
            }
          }
          at = check_place(&y, i[0], i[1], i[2], i[3]);
          if (special || (exact && size < 0x1p24)) {
            y.storage->error[at] = 0.0;
          } else {
            y.storage->error[at] = carried + check_gamma((double)terms + 1.0) * size + FLT_MIN * (double)terms;
          }
          if (size > FLT_MAX) {
            y.storage->error[at] = INFINITY; /* as in a product */
          }
        }
      }
    }
  }
  return TSR_OK;
}

/* y_i = exp(z_i - max) / sum exp(z_j - max), z = x + mask.
 *
 * Let d_i = max - z_i. z_i is x + mask rounded to f32 on both sides, so delta_i, its error, is what x and mask carry,
 * and u|z_i| where they carry something. The subtraction rounds d_i by
 * u d_i, exp errs by 3 + 2 d_i units (2u each); so the numerator errs, relatively, by
 *     r_i = expm1(delta_i + u d_i) + 2u (3 + 2 d_i),
 * the denominator by sum y_j r_j plus gamma(N), the division by 2.5 units, the reference by u. An error in the maximum
 * itself cancels. Numerators below FLT_MIN may be flushed. No result can be off by more than 1. */
tsr_status check_bound_softmax(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor mask = check_tensor_of(values, line->in[1]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  tsr_status status = check_errors_init(&y);
  int64_t n = y.extent[3];
  double *error = y.storage->error;
  double sum, spread, d;

  if (status) {
    return status;
  }
  y.storage->terms = n;
  for (int64_t i0 = 0; i0 < y.extent[0]; i0++) {
    for (int64_t i1 = 0; i1 < y.extent[1]; i1++) {
      for (int64_t i2 = 0; i2 < y.extent[2]; i2++) {
        double max = -INFINITY;
        int special = 0;
        for (int64_t i = 0; i < n; i++) {
          double z = mask.storage ? check_value(&mask, check_place(&mask, i0, i1, i2, i)) : 0.0;
          if (z != -INFINITY && check_value(&x, check_place(&x, i0, i1, i2, i)) != -INFINITY) {
            z = (double)(float)(z + check_value(&x, check_place(&x, i0, i1, i2, i)));
            special |= z != z || z == INFINITY;
            max = fmax(max, z);
          }
        }
        sum = spread = 0.0;
        for (int64_t i = 0; i < n && !special && max > -INFINITY; i++) {
          int64_t at = check_place(&y, i0, i1, i2, i);
          double z = check_value(&x, check_place(&x, i0, i1, i2, i));
          double delta = check_error(&x, check_place(&x, i0, i1, i2, i));
          if (mask.storage) {
            d = check_value(&mask, check_place(&mask, i0, i1, i2, i));
            z = d == -INFINITY || z == -INFINITY ? -INFINITY : (double)(float)(z + d);
            delta += check_error(&mask, check_place(&mask, i0, i1, i2, i));
            delta += delta > 0.0 ? CHECK_U * fabs(z) : 0.0;
          }
          error[at] = 0.0;
          if (z == -INFINITY) {
            continue;
          }
          d = max - z;
          sum += exp(-d);
          delta += CHECK_U * d;
          /* exp(-d) * r, without the product of a vanishing and a huge number */
          error[at] = (exp(fmin(delta - d, 700.0)) - exp(-d)) + exp(-d) * 2.0 * CHECK_U * (3.0 + 2.0 * d) + FLT_MIN;
          spread += error[at];
        }
        for (int64_t i = 0; i < n && !special && max > -INFINITY; i++) {
          int64_t at = check_place(&y, i0, i1, i2, i);
          double z = check_value(&y, at);
          if (error[at] > 0.0) {
            error[at] = error[at] / sum + z * (spread / sum + check_gamma((double)n) + 6.0 * CHECK_U) + FLT_MIN;
            error[at] = fmin(error[at], 1.0);
          }
        }
      }
    }
  }
  return TSR_OK;
}

check_log_sum check_log_sum_of(const check_tensor *x, int64_t i0, int64_t i1, int64_t i2)
{
  check_log_sum row = {.max = -INFINITY};
  double sum = 0.0, spread = 0.0;
  int64_t n = x->extent[3];

  for (int64_t i = 0; i < n; i++) {
    double z = check_value(x, check_place(x, i0, i1, i2, i));
    row.special |= z != z || z == INFINITY;
    row.max = fmax(row.max, z);
  }
  if (row.special || row.max == -INFINITY) {
    row.special = 1;
    return row;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t at = check_place(x, i0, i1, i2, i);
    double d = row.max - check_value(x, at);
    if (d < INFINITY) {
      double delta = check_error(x, at) + CHECK_U * d;
      row.worst = fmax(row.worst, check_error(x, at));
      sum += exp(-d);
      spread += exp(fmin(delta - d, 700.0)) - exp(-d) + exp(-d) * 2.0 * CHECK_U * (3.0 + 2.0 * d) + FLT_MIN;
    }
  }
  row.logarithm = log(sum);
  spread = spread / sum + check_gamma((double)n);
  row.error = -log1p(-fmin(spread, 0.999)) + fmax(6.0 * CHECK_U * row.logarithm, 0x1p-21);
  return row;
}

/* y_i = (x_i - max) - ln sum: the sum as in softmax, its logarithm to 3 units or 2^-21, and one rounding each of the
 * maximum's subtraction and the logarithm's, in either order (hence |x| + |max| + ln sum, as ops.h has it). */
tsr_status check_bound_log_softmax(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  tsr_status status = check_errors_init(&y);
  int64_t n = y.extent[3];

  if (status) {
    return status;
  }
  y.storage->terms = n;
  for (int64_t i0 = 0; i0 < y.extent[0]; i0++) {
    for (int64_t i1 = 0; i1 < y.extent[1]; i1++) {
      for (int64_t i2 = 0; i2 < y.extent[2]; i2++) {
        check_log_sum row = check_log_sum_of(&x, i0, i1, i2);
        for (int64_t i = 0; i < n && !row.special; i++) {
          double z = check_value(&x, check_place(&x, i0, i1, i2, i));
          int64_t at = check_place(&y, i0, i1, i2, i);
          if (z == -INFINITY) {
            continue;
          }
          y.storage->error[at] = check_error(&x, check_place(&x, i0, i1, i2, i)) + row.worst + row.error +
                                 CHECK_U * (fabs(z) + fabs(row.max) + row.logarithm) +
                                 2.0 * CHECK_U * fabs(check_value(&y, at)) + FLT_MIN;
        }
      }
    }
  }
  return TSR_OK;
}

/* The mean errs by m = gamma(N + 1) mean|x|, so c_i by delta_i = m + u|c_i|: this is where a row that its mean dwarfs
 * loses. v moves by the mean of 2|c| (own part of delta) + delta^2 (a common shift has no linear part, since sum c =
 * 0), and by gamma(N + 2) of itself; 1 / sqrt(v + epsilon) by that, at worst as if v were 0, and by 2 units of
 * inversesqrt. Squares below FLT_MIN may be flushed; where squares may overflow the row is free. With the unbiased
 * deviation s, 1 / (s + epsilon) errs as s does: the root moves by less than delta's, its rounding, inversesqrt's, two
 * divisions' and a sum's add 16 units. */
check_norm_row check_norm_row_of(const check_tensor *x, int64_t i0, int64_t i1, int64_t i2, const tsr_line_desc *line)
{
  const int centred = line->op == TSR_OP_LAYERNORM || line->op == TSR_OP_LAYERNORM_GRADIENT;
  const int unbiased = centred && line->attributes.unbiased;
  const double epsilon = (double)line->attributes.epsilon;
  check_norm_row row = {.slope = 1.0};
  double size = 0.0, variance = 0.0, linear = 0.0, square = 0.0, worst = 0.0;
  int64_t n = x->extent[3];

  row.centred = centred;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = check_place(x, i0, i1, i2, i);
    double z = check_value(x, at);
    row.special |= !isfinite(z);
    worst = fmax(worst, fabs(z));
    row.mean += z / (double)n;
    size += (fabs(z) + check_error(x, at)) / (double)n;
    row.carried += check_error(x, at) / (double)n;
  }
  if (row.special) {
    return row;
  }
  if (!centred) {
    row.mean = row.carried = 0.0;
  }
  row.overflows = 4.0 * worst * worst * (double)n > FLT_MAX;
  row.shift = centred ? check_gamma((double)n + 1.0) * size + FLT_MIN : 0.0;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = check_place(x, i0, i1, i2, i);
    double z = fabs(check_value(x, at) - row.mean);
    double e = check_error(x, at) + (centred ? row.carried + CHECK_U * z : 0.0);
    variance += z * z / (double)n;
    linear += 2.0 * z * e / (double)n;
    square += (e + row.shift) * (e + row.shift) / (double)n;
  }
  double delta = linear + square + check_gamma((double)n + 2.0) * (variance + linear + square) + FLT_MIN;
  if (unbiased) {
    double degrees = (double)(n > 1 ? n - 1 : 1) / (double)n;
    double deviation = sqrt(variance / degrees);
    double least = sqrt(fmax(variance - delta, 0.0) / degrees);
    row.root = 1.0 / (deviation + epsilon);
    row.relative = (deviation + epsilon) / (least + epsilon) - 1.0 + 16.0 * CHECK_U;
    row.slope = deviation > 0.0 ? (deviation + epsilon) / deviation / degrees : 0.0;
    row.steepness = least > 0.0 ? deviation / least - 1.0 + 16.0 * CHECK_U : INFINITY;
    return row;
  }
  delta += 2.0 * CHECK_U * (variance + epsilon);
  row.root = 1.0 / sqrt(variance + epsilon);
  row.relative = sqrt((variance + epsilon) / epsilon); /* v computed as 0 */
  if (delta < variance + epsilon) {
    row.relative = fmin(row.relative, 1.0 / sqrt(1.0 - delta / (variance + epsilon)));
  }
  row.relative += -1.0 + 5.0 * CHECK_U;
  return row;
}

double check_norm_error(const check_norm_row *row, double centred, double carried)
{
  const double delta = carried + row->shift + (row->centred ? row->carried + CHECK_U * fabs(centred) : 0.0) + FLT_MIN;

  return row->root * ((1.0 + row->relative) * delta + fabs(centred) * row->relative);
}

/* layernorm: y_i = gain c_i / sqrt(v + epsilon) + bias, c = x - mean, v = mean c^2; rmsnorm: the same with mean 0. The
 * normalised element as above; three products and the sum with the bias follow. */
tsr_status check_bound_norm(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor gain = check_tensor_of(values, line->in[1]);
  check_tensor bias = check_tensor_of(values, line->op == TSR_OP_LAYERNORM ? line->in[2] : 0);
  check_tensor y = check_tensor_of(values, line->out[0]);
  tsr_status status = check_errors_init(&y);
  int64_t n = y.extent[3];

  if (status) {
    return status;
  }
  y.storage->terms = n;
  for (int64_t i0 = 0; i0 < y.extent[0]; i0++) {
    for (int64_t i1 = 0; i1 < y.extent[1]; i1++) {
      for (int64_t i2 = 0; i2 < y.extent[2]; i2++) {
        check_norm_row row = check_norm_row_of(&x, i0, i1, i2, line);
        for (int64_t i = 0; i < n && !row.special; i++) {
          int64_t at = check_place(&x, i0, i1, i2, i);
          double z = check_value(&x, at) - row.mean;
          double e = check_norm_error(&row, z, check_error(&x, at));
          at = check_place(&gain, i0, i1, i2, i);
          double g = fabs(check_value(&gain, at));
          e = g * e + check_error(&gain, at) * (row.root * fabs(z) + e) + 3.0 * CHECK_U * g * (row.root * fabs(z) + e);
          double offset = 0.0;
          if (bias.storage) {
            at = check_place(&bias, i0, i1, i2, i);
            offset = check_value(&bias, at);
            e += check_error(&bias, at);
          }
          at = check_place(&y, i0, i1, i2, i);
          e += 2.0 * CHECK_U * (fabs(check_value(&y, at)) + e) + FLT_MIN * (2.0 + g);
          if (!isfinite(g) || !isfinite(offset)) {
            e = 0.0;
          }
          y.storage->error[at] = row.overflows ? INFINITY : e;
        }
      }
    }
  }
  return TSR_OK;
}

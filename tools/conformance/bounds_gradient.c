/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds of the gradient operators, attention's left out (bounds_attention.c), and of what only sums or moves elements
 * on their behalf: scatter_add, concat.
 */
#include <stdlib.h>

#include "tools/conformance/bounds.h"

/* dx = y (dy - sum y dy), or dx = dy - exp(y) sum dy.
 *
 * The sum as any product; the difference, the product and the reference's rounding, one each; exp(y) errs by what y
 * carries and 3 + 2|y| units. Where y is 0 the first is 0 exactly. Whole numbers are exact in the first, as in a
 * product. */
tsr_status check_bound_softmax_gradient(check_values *values, const tsr_line_desc *line)
{
  const int logarithmic = line->op == TSR_OP_LOG_SOFTMAX_GRADIENT;
  check_tensor y = check_tensor_of(values, line->in[0]);
  check_tensor dy = check_tensor_of(values, line->in[1]);
  check_tensor dx = check_tensor_of(values, line->out[0]);
  tsr_status status = check_errors_clear(&dx);
  const int64_t n = dx.extent[3], rows = n ? check_count(&dx) / n : 0;
  double error;
  int64_t i[4];
  check_sum sum;

  if (status) {
    return status;
  }
  dx.storage->terms = n;
  for (int64_t row = 0; row < rows; row++) {
    check_index(&dx, row * n, i);
    sum = (check_sum){0};
    double total = 0.0;
    for (i[3] = 0; i[3] < n; i[3]++) {
      double a = logarithmic ? 1.0 : check_value(&y, check_at(&y, i));
      double ea = logarithmic ? 0.0 : check_error(&y, check_at(&y, i));
      double b = check_value(&dy, check_at(&dy, i));
      double eb = check_error(&dy, check_at(&dy, i));
      check_sum_add(&sum, a * b, ea * fabs(b) + eb * fabs(a) + ea * eb);
      sum.carried += FLT_MIN * (fabs(a) + fabs(b)); /* a factor that counts as zero */
      total += a * b;
    }
    double sum_error = check_sum_error(&sum, 1.0);
    for (i[3] = 0; i[3] < n; i[3]++) {
      double a = check_value(&y, check_at(&y, i));
      double ea = check_error(&y, check_at(&y, i));
      double b = check_value(&dy, check_at(&dy, i));
      double eb = check_error(&dy, check_at(&dy, i));
      if (logarithmic) {
        double factor = exp(a);
        double factor_error = exp(a + ea) - factor + factor * 2.0 * CHECK_U * (3.0 + 2.0 * fabs(a)) + FLT_MIN;
        error = eb + factor_error * (fabs(total) + sum_error) + factor * sum_error +
                2.0 * CHECK_U * (fabs(b) + factor * fabs(total));
        if (a == -INFINITY) {
          error = eb + 2.0 * CHECK_U * fabs(b);
        }
      } else if (sum_error == 0.0 && ea + eb == 0.0 && check_whole(a) && check_whole(b) &&
                 fabs(a) * (fabs(b) + fabs(total)) < 0x1p24) {
        error = 0.0;
      } else {
        error = fabs(a) * (eb + sum_error + CHECK_U * (fabs(b) + fabs(total))) +
                ea * (fabs(b) + fabs(total) + eb + sum_error) + FLT_MIN * (fabs(b) + fabs(total));
        error = a == 0.0 && ea == 0.0 ? 0.0 : error + FLT_MIN;
      }
      if (error > 0.0) {
        error += 2.0 * CHECK_U * (fabs(check_value(&dx, check_at(&dx, i))) + error) + FLT_MIN;
      }
      dx.storage->error[check_at(&dx, i)] = sum_error == INFINITY || !(error < 1e300) ? INFINITY : error;
      if (!isfinite(check_value(&dx, check_at(&dx, i))) && sum_error < INFINITY) {
        dx.storage->error[check_at(&dx, i)] = 0.0;
      }
    }
  }
  return TSR_OK;
}

/* The sums over rows behind an element of dgain and dbias. */
typedef struct column_sums {
  check_tensor *dgain, *dbias;
  int64_t rows;
} column_sums;

/* Adds one row's part: a product and its error, gamma of the rows and two roundings more. */
static void add_to_column(const check_tensor *t, int64_t column, int64_t rows, double size, double error)
{
  if (t->storage) {
    double *sum = &t->storage->error[check_place(t, 0, 0, 0, column)];
    *sum += error + check_gamma((double)rows + 2.0) * (size + error) + FLT_MIN * (2.0 + size);
    *sum = *sum < 1e300 ? *sum : INFINITY;
  }
}

/* One row of dx = r (h - mean(h) - n mean(h n)), h = dy gain, n and r as bounds_rows.c has them: n_i errs by nu_i, h_i
 * by two factors and a rounding, each mean by gamma(N + 2); three sums and two products follow. rmsnorm has no mean(h),
 * and may write n mean(h n) as x r^2 mean(h x): four roundings more. With the unbiased deviation mean(h n) is
 * multiplied by the slope; what then stands there is never beyond the root of sum h^2 / (N - 1), by Cauchy and Schwarz,
 * which bounds it where the deviation drowns in its error. */
static void bound_norm_row(const check_tensor *x, const check_tensor *gain, const check_tensor *dy,
                           const check_tensor *dx, const column_sums *sums, const check_norm_row *scale, int64_t *i)
{
  const int64_t n = dx->extent[3];
  double mean_h = 0.0, size_h = 0.0, error_h = 0.0, mean_hn = 0.0, size_hn = 0.0, error_hn = 0.0;
  double most = 0.0;

  for (int pass = 0; pass < 2; pass++) {
    for (i[3] = 0; i[3] < n; i[3]++) {
      double g = check_value(gain, check_place(gain, 0, 0, 0, i[3]));
      double eg = check_error(gain, check_place(gain, 0, 0, 0, i[3]));
      double d = check_value(dy, check_at(dy, i));
      double ed = check_error(dy, check_at(dy, i));
      double h = d * g;
      double eh = ed * fabs(g) + eg * fabs(d) + ed * eg + CHECK_U * fabs(h) + FLT_MIN * (1.0 + fabs(g) + fabs(d));
      double z = check_value(x, check_at(x, i)) - scale->mean;
      double nu = check_norm_error(scale, z, check_error(x, check_at(x, i)));
      z *= scale->root;
      nu += 5.0 * CHECK_U * (fabs(z) + nu) + FLT_MIN;
      if (pass == 0) {
        mean_h += scale->centred ? h / (double)n : 0.0;
        size_h += scale->centred ? (fabs(h) + eh) / (double)n : 0.0;
        error_h += scale->centred ? eh / (double)n : 0.0;
        mean_hn += h * z / (double)n;
        size_hn += (fabs(h) + eh) * (fabs(z) + nu) / (double)n;
        error_hn += (fabs(h) * nu + eh * (fabs(z) + nu)) / (double)n;
        most += (fabs(h) + eh) * (fabs(h) + eh) / (double)(n > 1 ? n - 1 : 1);
        add_to_column(sums->dgain, i[3], sums->rows, fabs(d * z), fabs(d) * nu + ed * (fabs(z) + nu));
        add_to_column(sums->dbias, i[3], sums->rows, fabs(d), ed);
        continue;
      }
      double inner = fabs(h - mean_h - z * mean_hn);
      double error = eh + error_h + fabs(z) * error_hn + nu * (fabs(mean_hn) + error_hn) +
                     4.0 * CHECK_U * (fabs(h) + fabs(mean_h) + fabs(z * mean_hn));
      error = scale->root * ((1.0 + scale->relative) * error + scale->relative * inner);
      error += 2.0 * CHECK_U * (fabs(check_value(dx, check_at(dx, i))) + error) + FLT_MIN * (1.0 + scale->root);
      error = scale->overflows || size_hn > 1e38 ? INFINITY : error;
      dx->storage->error[check_at(dx, i)] = isfinite(check_value(dx, check_at(dx, i))) ? error : 0.0;
    }
    error_h += check_gamma((double)n + 2.0) * size_h + FLT_MIN;
    error_hn += check_gamma((double)n + 4.0) * size_hn + FLT_MIN;
    if (pass == 0 && scale->slope != 1.0) {
      error_hn = error_hn * scale->slope * (1.0 + scale->steepness) + fabs(mean_hn) * scale->slope * scale->steepness;
      error_hn = isnan(error_hn) ? INFINITY : error_hn;
      mean_hn *= scale->slope;
      error_hn = fmin(error_hn, 2.01 * sqrt(most) + FLT_MIN);
    }
  }
}

/* One row of dy alone, where x has something that is not finite: dbias does not depend on x. */
static void bound_bias_row(const check_tensor *dy, const column_sums *sums, int64_t n, int64_t *i)
{
  for (i[3] = 0; i[3] < n; i[3]++) {
    const int64_t at = check_at(dy, i);
    add_to_column(sums->dbias, i[3], sums->rows, fabs(check_value(dy, at)), check_error(dy, at));
  }
}

tsr_status check_bound_norm_gradient(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor gain = check_tensor_of(values, line->in[1]);
  check_tensor dy = check_tensor_of(values, line->in[2]);
  check_tensor dx = check_tensor_of(values, line->out[0]);
  check_tensor dgain = check_tensor_of(values, line->out[1]);
  check_tensor dbias = check_tensor_of(values, line->op == TSR_OP_LAYERNORM_GRADIENT ? line->out[2] : 0);
  const int64_t n = dx.extent[3], rows = n ? check_count(&dx) / n : 0;
  column_sums sums = {&dgain, &dbias, rows};
  tsr_status status = check_errors_clear(&dx);
  int64_t i[4];

  if (!status) {
    status = check_errors_clear(&dgain);
  }
  if (!status) {
    status = check_errors_clear(&dbias);
  }
  if (status) {
    return status;
  }
  dx.storage->terms = n;
  dgain.storage->terms = rows;
  if (dbias.storage) {
    dbias.storage->terms = rows;
  }
  for (int64_t row = 0; row < rows; row++) {
    check_index(&dx, row * n, i);
    check_norm_row scale = check_norm_row_of(&x, i[0], i[1], i[2], line);
    if (scale.special) {
      bound_bias_row(&dy, &sums, n, i);
    } else {
      bound_norm_row(&x, &gain, &dy, &dx, &sums, &scale, i);
    }
    for (i[3] = 0; i[3] < n && scale.overflows; i[3]++) {
      dgain.storage->error[check_place(&dgain, 0, 0, 0, i[3])] = INFINITY;
    }
  }
  for (int64_t row = 0; row < n; row++) { /* what is NaN or infinite is held against the reference */
    check_tensor *both[] = {&dgain, &dbias};
    for (int32_t k = 0; k < 2; k++) {
      int64_t at = both[k]->storage ? check_place(both[k], 0, 0, 0, row) : 0;
      if (both[k]->storage && !isfinite(check_value(both[k], at)) && both[k]->storage->error[at] < INFINITY) {
        both[k]->storage->error[at] = 0.0;
      }
    }
  }
  return TSR_OK;
}

/* The slope, and the most that it changes by where x changes by `error`: the second derivatives are below 0.8 and 0.5.
 * */
static double slope_of(int32_t activation, double x, double error, double *change)
{
  const double root = 0.7978845608028654; /* sqrt(2 / pi) */
  double s, rest, z;

  *change = 0.8 * error;
  if (!isfinite(x)) {
    return x > 0.0;
  }
  switch (activation) {
  case TSR_ACTIVATION_RELU:
    *change = fabs(x) <= error && error > 0.0 ? 1.0 : 0.0;
    return x > 0.0;
  case TSR_ACTIVATION_GELU_ERF:
    return 0.5 * erfc(-x * 0.7071067811865476) + x * exp(-0.5 * x * x) * 0.3989422804014327;
  case TSR_ACTIVATION_GELU_TANH:
    z = root * (x + 0.044715 * x * x * x);
    s = 1.0 / (1.0 + exp(-2.0 * z));
    rest = 1.0 / (1.0 + exp(2.0 * z));
    return s + x * s * rest * 2.0 * root * (1.0 + 3.0 * 0.044715 * x * x);
  default:
    s = 1.0 / (1.0 + exp(-x));
    rest = 1.0 / (1.0 + exp(x));
    return s + x * s * rest;
  }
}

/* dx = dy activation'(x). relu: exact, but for a subnormal that counts as zero. The others' slopes are a factor between
 * 0 and 1, known to 8u as in bounds.c, and x times a density: exp good to 3 + x^2 units there, and x^3 exp(-x^2 / 2)
 * below 1.2, so 4u; the two sums and products, 4u; by tanh or silu the density is s (1 - s), by the same reckoning.
 * ops.h scales the class by 1 + |x|: 16u + 8u |x|. */
tsr_status check_bound_activation_gradient(check_values *values, const tsr_line_desc *line)
{
  const int32_t activation = line->attributes.activation;
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor dy = check_tensor_of(values, line->in[1]);
  check_tensor dx = check_tensor_of(values, line->out[0]);
  tsr_status status = check_errors_clear(&dx);
  double change, error;
  int64_t i[4];

  for (int64_t e = 0; e < check_count(&dx) && !status; e++) {
    check_index(&dx, e, i);
    double a = check_value(&x, check_at(&x, i));
    double d = check_value(&dy, check_at(&dy, i));
    int64_t at = check_at(&dx, i);
    double slope = slope_of(activation, a, check_error(&x, check_at(&x, i)), &change);
    if (activation == TSR_ACTIVATION_RELU) {
      change += a > 0.0 && a < FLT_MIN ? 1.0 : 0.0;
    } else if (isfinite(a)) {
      change += CHECK_U * (16.0 + 8.0 * fabs(a));
    }
    if (!isfinite(d)) { /* the sign of an infinity is that of the slope, where that is sure */
      error = d == d && fabs(slope) <= change ? INFINITY : 0.0;
    } else {
      error = change * fabs(d) + check_error(&dy, check_at(&dy, i)) * (fabs(slope) + change);
      error += fabs(d) < FLT_MIN || activation != TSR_ACTIVATION_RELU ? FLT_MIN * (1.0 + fabs(d)) : 0.0;
      error = isfinite(check_value(&dx, at)) ? error : 0.0;
    }
    dx.storage->error[at] = error;
  }
  return status;
}

/* Exact. */
tsr_status check_bound_mask_gradient(check_values *values, const tsr_line_desc *line)
{
  check_tensor y = check_tensor_of(values, line->in[0]);
  check_tensor dy = check_tensor_of(values, line->in[1]);
  check_tensor dx = check_tensor_of(values, line->out[0]);
  tsr_status status = check_errors_clear(&dx);
  int64_t i[4];

  for (int64_t e = 0; e < check_count(&dx) && !status; e++) {
    check_index(&dx, e, i);
    if (check_value(&y, check_at(&y, i)) != -INFINITY) {
      dx.storage->error[check_at(&dx, i)] = check_error(&dy, check_at(&dy, i));
    }
  }
  return status;
}

tsr_status check_bound_relative_gradient(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor position = check_tensor_of(values, line->in[1]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  tsr_status status = check_errors_clear(&y);
  const int64_t n = y.extent[2];
  check_sum sum;

  if (status) {
    return status;
  }
  y.storage->terms = x.extent[0] * x.extent[2];
  for (int64_t bucket = 0; bucket < n; bucket++) {
    for (int64_t h = 0; h < x.extent[1]; h++) {
      sum = (check_sum){0};
      for (int64_t b = 0; b < x.extent[0]; b++) {
        for (int64_t l = 0; l < x.extent[2]; l++) {
          for (int64_t s = 0; s < x.extent[3]; s++) {
            int64_t distance = s - l;
            distance -= position.storage ? check_integer(&position, check_place(&position, 0, 0, 0, b)) : 0;
            if (check_relative_row(distance, n, &line->attributes) == bucket) {
              check_sum_add(&sum, check_value(&x, check_place(&x, b, h, l, s)),
                            check_error(&x, check_place(&x, b, h, l, s)));
            }
          }
        }
      }
      y.storage->error[check_place(&y, 0, 0, bucket, h)] = check_sum_error(&sum, 1.0);
    }
  }
  return TSR_OK;
}

/* The axis among the four right-aligned ones. */
static int32_t axis_of(const check_values *values, const tsr_line_desc *line)
{
  const int32_t rank = tsr_tensor_at(values->program, line->in[0])->rank;

  return 4 - rank + (line->attributes.axis < 0 ? line->attributes.axis + rank : line->attributes.axis);
}

tsr_status check_bound_scatter_add(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor index = check_tensor_of(values, line->in[1]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  const int32_t axis = axis_of(values, line);
  check_sum *sums = calloc((size_t)check_count(&y) + 1, sizeof(*sums)); /* of y's elements */
  tsr_status status = sums ? check_errors_clear(&y)
                           : tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for the bounds of %lld elements",
                                      (long long)check_count(&y));
  int64_t i[4];

  for (int64_t e = 0; e < check_count(&x) && !status; e++) {
    check_index(&x, e, i);
    const int64_t from = check_at(&x, i);
    i[axis] = check_integer(&index, check_place(&index, 0, 0, 0, i[axis]));
    if (i[axis] >= 0 && i[axis] < y.extent[axis]) {
      const int64_t to = ((i[0] * y.extent[1] + i[1]) * y.extent[2] + i[2]) * y.extent[3] + i[3];
      check_sum_add(&sums[to], check_value(&x, from), check_error(&x, from));
    }
  }
  for (int64_t e = 0; e < check_count(&y) && !status; e++) {
    if (sums[e].terms) {
      check_index(&y, e, i);
      y.storage->error[check_at(&y, i)] = check_sum_error(&sums[e], (double)line->attributes.alpha);
    }
  }
  free(sums);
  return status;
}

/* Elements keep what they carry. */
tsr_status check_bound_concat(check_values *values, const tsr_line_desc *line)
{
  check_tensor y = check_tensor_of(values, line->out[0]);
  const int32_t axis = axis_of(values, line);
  tsr_status status = check_errors_clear(&y);
  int64_t i[4], first = 0;

  for (int32_t slot = 0; slot < TSR_MAX_INPUTS && line->in[slot] && !status; slot++) {
    check_tensor x = check_tensor_of(values, line->in[slot]);
    for (int64_t e = 0; e < check_count(&x); e++) {
      check_index(&x, e, i);
      int64_t at = check_at(&x, i);
      i[axis] += first;
      y.storage->error[check_at(&y, i)] = check_error(&x, at);
    }
    first += x.extent[axis];
  }
  return status;
}

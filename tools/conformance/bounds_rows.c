/* SPDX-License-Identifier: Apache-2.0
 *
 * Bounds of the operators that sum: matmul, conv1d, reduce_sum, and those that normalise rows.
 */
#include "tools/conformance/bounds.h"

#include <stdlib.h>

/* Columns of b whose sums are taken side by side. */
enum { LANES = 8 };

/* Factors along the depth of a product, of `width` sums side by side: of a row of a, or of columns of b. */
typedef struct factors {
  int64_t depth, width;
  double *value, *carried; /* [depth][width] */
  double flush[LANES];     /* the sum of magnitudes */
  int whole[LANES];        /* 1: each is a whole number, and exact */
  int special[LANES];      /* 1: one is NaN or infinite */
  int carries;             /* 1: one carries something */
} factors;

/* The bound's operands, and the type to which factors are rounded; 0: they are not. */
typedef struct product {
  check_tensor a, b, bias, y;
  const tsr_op_attributes *attributes;
  int32_t narrow;
  int binary; /* 1: alpha is a power of two that keeps whole sums exact */
} product;

/* Takes up the factors that lie at `place` and every `stride` from there, as the sum `lane`. */
static void take_factors(factors *f, int64_t lane, const check_tensor *t, int64_t place, int64_t stride, int32_t narrow)
{
  f->flush[lane] = 0.0;
  f->whole[lane] = 1;
  f->special[lane] = 0;
  for (int64_t k = 0; k < f->depth; k++, place += stride) {
    const double value = check_value(t, place);
    double carried = check_error(t, place);
    carried += narrow ? check_narrowing(narrow, value, carried) : 0.0;
    f->value[k * f->width + lane] = value;
    f->carried[k * f->width + lane] = carried;
    f->flush[lane] += fabs(value);
    f->whole[lane] &= check_whole(value) && carried == 0.0;
    f->special[lane] |= !isfinite(value);
    f->carries |= carried != 0.0;
  }
}

/* The sums of products of a row and of columns, and of what they may err by. */
typedef struct sums {
  double sum[LANES], size[LANES], carried[LANES];
} sums;

static void sum_products(const factors *row, const factors *columns, sums *result)
{
  sums s = {{0}};

  for (int64_t k = 0; k < row->depth; k++) {
    const double a = row->value[k];
    const double *b = &columns->value[k * LANES];
    for (int lane = 0; lane < LANES; lane++) {
      s.sum[lane] += a * b[lane];
    }
  }
  if (!row->carries && !columns->carries) {
    for (int64_t k = 0; k < row->depth; k++) {
      const double a = fabs(row->value[k]);
      const double *b = &columns->value[k * LANES];
      for (int lane = 0; lane < LANES; lane++) {
        s.size[lane] += a * fabs(b[lane]);
      }
    }
    *result = s;
    return;
  }
  for (int64_t k = 0; k < row->depth; k++) {
    const double a = fabs(row->value[k]), ea = row->carried[k];
    const double *b = &columns->value[k * LANES], *eb = &columns->carried[k * LANES];
    for (int lane = 0; lane < LANES; lane++) {
      s.size[lane] += (a + ea) * (fabs(b[lane]) + eb[lane]);
      s.carried[lane] += ea * fabs(b[lane]) + eb[lane] * a + ea * eb[lane];
    }
  }
  *result = s;
}

/* Of a sum with NaN or infinities, which is held against the reference. A finite result beside it (relu of -inf) is 0.
 * Not where a factor beside an infinity may vanish, nor where the finite products may overflow to an infinity of the
 * other sign. */
static double special_error(const product *p, int64_t at_a, int64_t at_b, int64_t depth)
{
  double size = 0.0;
  int open = 0;

  for (int64_t k = 0; k < depth; k++, at_a += p->a.stride[3], at_b += p->b.stride[2]) {
    const double a = check_value(&p->a, at_a), b = check_value(&p->b, at_b);
    double ea = check_error(&p->a, at_a), eb = check_error(&p->b, at_b);
    if (p->narrow) {
      open |= (isinf(a) && check_narrowing_vanishes(p->narrow, b, eb)) ||
              (isinf(b) && check_narrowing_vanishes(p->narrow, a, ea));
      ea += check_narrowing(p->narrow, a, ea);
      eb += check_narrowing(p->narrow, b, eb);
    }
    size += isfinite(a) && isfinite(b) ? (fabs(a) + ea) * (fabs(b) + eb) : 0.0;
  }
  return open || size > FLT_MAX ? INFINITY : 0.0;
}

/* The bound on the result at i, which is lane `lane` of the columns. */
static double element_error(const product *p, const factors *row, const factors *columns, const sums *s, int lane,
                            const int64_t i[4])
{
  const double alpha = (double)p->attributes->alpha, size = s->size[lane];
  const double roundings = check_gamma((double)row->depth + 3.0) * (p->narrow ? 2.0 : 1.0);
  const double flush = (double)row->depth + row->flush[0] + columns->flush[lane];
  double offset = 0.0, error = fabs(alpha) * s->carried[lane];
  int exact = p->binary && row->whole[0] && columns->whole[lane];
  int special = row->special[0] || columns->special[lane];

  if (p->bias.storage) {
    const int64_t at = check_at(&p->bias, i);
    offset = check_value(&p->bias, at);
    error += check_error(&p->bias, at);
    special |= !isfinite(offset);
    exact &= check_whole(offset) && check_error(&p->bias, at) == 0.0;
  }
  if (special) {
    return special_error(p, check_place(&p->a, i[0], i[1], i[2], 0), check_place(&p->b, i[0], i[1], 0, i[3]),
                         row->depth);
  }
  if (!exact || !((size + fabs(offset)) / fmin(1.0, fabs(alpha)) < 0x1p24)) {
    error += roundings * (fabs(alpha) * size + fabs(offset));
    error += FLT_MIN * (fabs(alpha) * flush + 3.0);
  }
  error = check_activation_error(p->attributes->activation, alpha * s->sum[lane] + offset, error);
  return fmax(size, fabs(alpha) * size + fabs(offset)) > FLT_MAX ? INFINITY : error;
}

/* Some columns of a matrix: [3] of `i` is the first. */
static void bound_columns(const product *p, factors *row, factors *columns, int64_t i[4])
{
  const int64_t first = i[3];
  const int lanes = p->y.extent[3] - first < LANES ? (int)(p->y.extent[3] - first) : LANES;
  sums s;

  columns->carries = 0;
  for (int lane = 0; lane < LANES; lane++) { /* the last column again in place of those that are not there */
    const int64_t column = first + (lane < lanes ? lane : lanes - 1);
    take_factors(columns, lane, &p->b, check_place(&p->b, i[0], i[1], 0, column), p->b.stride[2], p->narrow);
  }
  for (i[2] = 0; i[2] < p->y.extent[2]; i[2]++) {
    row->carries = 0;
    take_factors(row, 0, &p->a, check_place(&p->a, i[0], i[1], i[2], 0), p->a.stride[3], p->narrow);
    sum_products(row, columns, &s);
    for (int lane = 0; lane < lanes; lane++) {
      i[3] = first + lane;
      p->y.storage->error[check_at(&p->y, i)] = element_error(p, row, columns, &s, lane, i);
    }
  }
}

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
static tsr_status bound_product(product *p)
{
  const double alpha = (double)p->attributes->alpha;
  factors row = {.depth = p->a.extent[3], .width = 1}, columns = {.depth = p->a.extent[3], .width = LANES};
  tsr_status status = check_errors_init(&p->y);
  int exponent;
  int64_t i[4];

  if (status) {
    return status;
  }
  double *room = calloc((size_t)(row.depth * (2 + 2 * LANES)) + 1, sizeof(double));
  if (!room) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for the bounds of sums of %lld products",
                    (long long)row.depth);
  }
  row.value = room;
  row.carried = row.value + row.depth;
  columns.value = row.carried + row.depth;
  columns.carried = columns.value + row.depth * LANES;
  p->binary = fabs(frexp(alpha, &exponent)) == 0.5 && fabs(alpha) >= 0x1p-10 && fabs(alpha) <= 1.0;
  p->y.storage->biased |= p->narrow != 0;
  p->y.storage->terms = row.depth;
  for (i[0] = 0; i[0] < p->y.extent[0]; i[0]++) {
    for (i[1] = 0; i[1] < p->y.extent[1]; i[1]++) {
      for (int64_t column = 0; column < p->y.extent[3]; column += LANES) {
        i[3] = column;
        bound_columns(p, &row, &columns, i);
      }
    }
  }
  free(room);
  return TSR_OK;
}

tsr_status check_bound_matmul(check_values *values, const tsr_line_desc *line)
{
  const int32_t reduced = line->attributes.reduced_precision;
  product p = {.a = check_tensor_of(values, line->in[0]),
               .b = check_tensor_of(values, line->in[1]),
               .bias = check_tensor_of(values, line->in[2]),
               .y = check_tensor_of(values, line->out[0]),
               .attributes = &line->attributes};

  p.narrow = reduced > 1 ? reduced : reduced ? (int32_t)p.b.dtype : 0;
  return bound_product(&p);
}

/* The product of x's windows, whose rows overlap, with the weight as a matrix of a row for each column. */
tsr_status check_bound_conv1d(check_values *values, const tsr_line_desc *line)
{
  const tsr_op_attributes attributes = {.alpha = 1.0f};
  product p = {.a = check_tensor_of(values, line->in[0]),
               .b = check_tensor_of(values, line->in[1]),
               .bias = check_tensor_of(values, line->in[2]),
               .y = check_tensor_of(values, line->out[0]),
               .attributes = &attributes};
  const int64_t width = p.a.extent[3], depth = p.b.extent[2] * width, columns = p.b.extent[1];

  p.a.extent[2] = p.y.extent[2];
  p.a.extent[3] = depth;
  p.a.stride[2] = line->attributes.stride * width;
  p.a.stride[3] = 1;
  p.b.stride[3] = p.b.stride[1];
  p.b.extent[3] = columns;
  p.b.extent[1] = 1;
  p.b.stride[1] = 0;
  p.b.extent[2] = depth;
  p.b.stride[2] = 1;
  return bound_product(&p);
}

/* A sum of two products, one of them of three factors. */
tsr_status check_bound_rotate(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]), turns = check_tensor_of(values, line->in[1]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  const int64_t half = y.extent[3] / 2;
  const double alpha = (double)line->attributes.alpha;
  tsr_status status = check_errors_init(&y);

  if (status) {
    return status;
  }
  for (int64_t i0 = 0; i0 < y.extent[0]; i0++) {
    for (int64_t i1 = 0; i1 < y.extent[1]; i1++) {
      for (int64_t i2 = 0; i2 < y.extent[2]; i2++) {
        for (int64_t i3 = 0; i3 < y.extent[3]; i3++) {
          const int64_t own[] = {check_place(&x, i0, i1, i2, i3), check_place(&turns, i0, i1, i2, i3 % half)};
          const int64_t other[] = {check_place(&x, i0, i1, i2, (i3 + half) % (2 * half)),
                                   check_place(&turns, i0, i1, i2, half + i3 % half)};
          const double a = fabs(check_value(&x, own[0])), b = fabs(check_value(&turns, own[1]));
          const double c = fabs(check_value(&x, other[0])), d = fabs(alpha * check_value(&turns, other[1]));
          const double ea = check_error(&x, own[0]), eb = check_error(&turns, own[1]);
          const double ec = check_error(&x, other[0]), ed = fabs(alpha) * check_error(&turns, other[1]);
          const double size = (a + ea) * (b + eb) + (c + ec) * (d + ed);
          const double error = size - a * b - c * d + check_gamma(4.0) * size + FLT_MIN * (4.0 + a + b + c + d);
          const int64_t at = check_place(&y, i0, i1, i2, i3);
          const int is_finite = isfinite(a) && isfinite(b) && isfinite(c) && isfinite(d);
          y.storage->error[at] = !is_finite ? 0.0 : size > FLT_MAX ? INFINITY : error;
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

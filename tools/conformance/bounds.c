/* SPDX-License-Identifier: Apache-2.0
 *
 * How far a correct device may be from the reference: what all operators share, and the operators that work element by
 * element or only move elements.
 *
 * The reference accumulates in double, so that its own error is the rounding of the result to f32. A device rounds
 * every step to f32 (unit roundoff u), in an order of its own. Each bound is the first-order sum of what each step may
 * contribute, with the accuracies that Vulkan guarantees where a function is not exactly rounded: exp 3 + 2|x| units in
 * the last place (a unit is at most 2u of the result), log 3 units or 2^-21 absolute, division 2.5 units, inversesqrt
 * 2. No factor is fitted to what a device was seen to do.
 *
 * Operands may carry bounds of their own (a program of several lines): each bound adds what those become.
 *
 * Subnormal f32 numbers may be flushed to zero by arithmetic, as Vulkan allows: every arithmetic operator has FLT_MIN
 * times the size of what it is multiplied by added. Operators that only move elements keep every bit.
 */
#include "tools/conformance/bounds.h"

#include <stdlib.h>
#include <string.h>

check_tensor check_tensor_of(const check_values *values, int32_t tensor)
{
  const tsr_tensor_desc *desc;
  check_tensor t = {0};

  for (int32_t axis = 0; axis < 4; axis++) {
    t.extent[axis] = 1;
  }
  if (tensor <= 0) {
    return t;
  }
  desc = tsr_tensor_at(values->program, tensor);
  t.storage = &values->storage[desc->storage];
  t.dtype = desc->dtype;
  t.offset = desc->offset;
  for (int32_t axis = 0; axis < desc->rank; axis++) {
    int32_t at = 4 - desc->rank + axis;
    t.extent[at] = desc->extent[axis];
    t.stride[at] = desc->extent[axis] == 1 ? 0 : desc->stride[axis];
  }
  return t;
}

tsr_status check_errors_init(check_tensor *t)
{
  if (!t->storage->error) {
    t->storage->error = calloc((size_t)(t->storage->count ? t->storage->count : 1), sizeof(double));
    if (!t->storage->error) {
      return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for the bounds of %lld elements",
                      (long long)t->storage->count);
    }
  }
  return TSR_OK;
}

tsr_status check_errors_clear(check_tensor *t)
{
  if (t->storage && t->storage->error) {
    memset(t->storage->error, 0, (size_t)t->storage->count * sizeof(double));
  }
  return t->storage ? check_errors_init(t) : TSR_OK;
}

void check_sum_add(check_sum *sum, double value, double error)
{
  sum->terms++;
  sum->special |= !isfinite(value);
  sum->fraction |= !check_whole(value) || error != 0.0;
  sum->size += isfinite(value) ? fabs(value) + error : 0.0;
  sum->carried += error;
}

double check_sum_error(const check_sum *sum, double alpha)
{
  int exponent;
  const int binary = fabs(frexp(alpha, &exponent)) == 0.5 && fabs(alpha) <= 0x1p20 && fabs(alpha) >= 0x1p-20;

  if (sum->size * fmax(1.0, fabs(alpha)) > FLT_MAX) {
    return INFINITY;
  }
  if (sum->special || (binary && !sum->fraction && sum->size < 0x1p24)) {
    return 0.0;
  }
  return fabs(alpha) * (sum->carried + check_gamma((double)sum->terms + 2.0) * sum->size) +
         FLT_MIN * (double)sum->terms * (1.0 + fabs(alpha));
}

/* gelu and silu are x times a factor between 0 and 1, which a device computes to a few units of 1: gelu from an erf or
 * tanh good to 2.5u (Abramowitz, Stegun 7.1.26) to 4u, silu from exp and a division. ops.h scales their class by |x|.
 * Their slopes are at most 1.13 and 1.10. */
double check_activation_error(int32_t activation, double z, double error)
{
  switch (activation) {
  case TSR_ACTIVATION_GELU_ERF:
  case TSR_ACTIVATION_GELU_TANH:
    return 1.13 * error + 8.0 * CHECK_U * (fabs(z) + error) + FLT_MIN;
  case TSR_ACTIVATION_SILU:
    return 1.10 * error + 8.0 * CHECK_U * (fabs(z) + error) + FLT_MIN;
  default:
    return error;
  }
}

/* 1 if a finite value is a number of f16 or of bf16, and no subnormal one: if it is one of f32 whose last bits, which
 * the narrower type has not, are zero. */
static int is_normal(int half, double value)
{
  const float narrowed = (float)value;
  const double size = fabs(value);
  uint32_t bits;

  memcpy(&bits, &narrowed, sizeof(bits));
  return (double)narrowed == value && !(bits & (half ? 0x1fffu : 0xffffu)) && size >= (half ? 0x1p-14 : FLT_MIN) &&
         (!half || size <= 65504.0);
}

/* Toward zero a rounding errs by less than a unit in the last place, which is the worse case of the two that ops.h
 * allows: at most 2^-10 of an f16 (10 bits after the first), 2^-7 of a bf16. Beyond 65504 an f16 errs by what is
 * beyond; a bf16 reaches as far as an f32, and its largest number is within 2^-7 of what would pass it. A subnormal f16
 * (below 2^-14) may count as zero, which is worse than its rounding: then a factor errs by itself; that of a bf16 is
 * one of f32, whose flush the bounds have anyway.
 *
 * With x in value +- error: the first two grow with |x|; the third is at most 2^-14 wherever part of the interval is
 * below. */
double check_narrowing(int32_t dtype, double value, double error)
{
  const int half = dtype == TSR_F16;
  const double largest = fabs(value) + error, least = fabs(value) - error;

  if (!isfinite(value) || (error == 0.0 && (value == 0.0 || is_normal(half, value)))) {
    return 0.0;
  }
  double result = largest * (half ? 0x1p-10 : 0x1p-7);
  if (half && largest > 65504.0) {
    result = fmax(result, largest - 65504.0);
  }
  if (half && least < 0x1p-14) {
    result = fmax(result, fmin(largest, 0x1p-14));
  }
  return result;
}

int check_narrowing_vanishes(int32_t dtype, double value, double error)
{
  const double least = dtype == TSR_F16 ? 0x1p-14 : (double)FLT_MIN;

  return (value != 0.0 || error > 0.0) && fabs(value) - error < least;
}

/* y = f(a) or f(a, b), f32. */
static tsr_status bound_elementwise(check_values *values, const tsr_line_desc *line)
{
  check_tensor a = check_tensor_of(values, line->in[0]);
  check_tensor b = check_tensor_of(values, line->op == TSR_OP_ADD || line->op == TSR_OP_MUL ? line->in[1] : 0);
  check_tensor y = check_tensor_of(values, line->out[0]);
  double z, ez, error;

  if (y.dtype != TSR_F32) {
    return TSR_OK; /* integers: exact */
  }
  tsr_status status = check_errors_init(&y);
  if (status) {
    return status;
  }
  for (int64_t i0 = 0; i0 < y.extent[0]; i0++) {
    for (int64_t i1 = 0; i1 < y.extent[1]; i1++) {
      for (int64_t i2 = 0; i2 < y.extent[2]; i2++) {
        for (int64_t i3 = 0; i3 < y.extent[3]; i3++) {
          int64_t at = check_place(&a, i0, i1, i2, i3);
          double x = check_value(&a, at);
          double ex = check_error(&a, at);
          z = ez = 0.0;
          if (b.storage) {
            at = check_place(&b, i0, i1, i2, i3);
            z = check_value(&b, at);
            ez = check_error(&b, at);
          }
          at = check_place(&y, i0, i1, i2, i3);
          double result = check_value(&y, at);
          switch (line->op) {
          case TSR_OP_ADD: /* one rounding on each side; a sum of whole numbers is exact while it fits */
            error = ex + ez + 2.0 * CHECK_U * (fabs(result) + ex + ez) + 2.0 * FLT_MIN;
            if (ex + ez == 0.0 && x == floor(x) && z == floor(z) && fabs(x) + fabs(z) < 0x1p24) {
              error = 0.0;
            }
            break;
          case TSR_OP_MUL: /* a subnormal factor may count as zero, whatever the other is */
            error = fabs(x) * ez + fabs(z) * ex + ex * ez;
            error += 2.0 * CHECK_U * (fabs(result) + error) + FLT_MIN;
            if ((x != 0.0 && fabs(x) < FLT_MIN) || (z != 0.0 && fabs(z) < FLT_MIN)) {
              error += fabs(result);
            }
            if (ex + ez == 0.0 && x == floor(x) && z == floor(z) && fabs(result) < 0x1p24) {
              error = 0.0;
            }
            break;
          case TSR_OP_RELU: /* exact, but for a subnormal that is flushed */
            error = ex + (x > 0.0 && x < FLT_MIN ? FLT_MIN : 0.0);
            break;
          default:
            error = check_activation_error(line->op == TSR_OP_SILU ? TSR_ACTIVATION_SILU : line->attributes.activation,
                                           isfinite(x) ? x : 0.0, ex);
          }
          y.storage->error[at] = isfinite(result) ? error : 0.0;
        }
      }
    }
  }
  return TSR_OK;
}

/* Narrowing rounds what the operand carries once more; the step of the type at its size is added then. */
static double narrowing(int32_t dtype, double value)
{
  double ulp = dtype == TSR_F16 ? 0x1p-10 : dtype == TSR_BF16 ? 0x1p-7 : 0.0;

  return fabs(value) * ulp + (dtype == TSR_F16 ? 0x1p-24 : 0.0);
}

/* copy, gather, append, update, embedding: elements keep what they carry. */
static tsr_status bound_moves(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor index = check_tensor_of(values, line->op == TSR_OP_UPDATE || line->op == TSR_OP_COPY ? 0 : line->in[1]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  int32_t axis = 4 - tsr_tensor_at(values->program, line->in[0])->rank + line->attributes.axis;
  int32_t scaled = line->op == TSR_OP_EMBEDDING && line->attributes.alpha != 1.0f;
  int64_t i[4], from[4], to;

  if (!x.storage->error && !(y.storage->error) && line->op != TSR_OP_EMBEDDING) {
    return TSR_OK;
  }
  tsr_status status = check_errors_init(&y);
  if (status) {
    return status;
  }
  for (i[0] = 0; i[0] < (line->op == TSR_OP_APPEND ? x : y).extent[0]; i[0]++) {
    for (i[1] = 0; i[1] < (line->op == TSR_OP_APPEND ? x : y).extent[1]; i[1]++) {
      for (i[2] = 0; i[2] < (line->op == TSR_OP_APPEND ? x : y).extent[2]; i[2]++) {
        for (i[3] = 0; i[3] < (line->op == TSR_OP_APPEND ? x : y).extent[3]; i[3]++) {
          int64_t target[4] = {i[0], i[1], i[2], i[3]};
          from[0] = i[0], from[1] = i[1], from[2] = i[2], from[3] = i[3];
          double error = 0.0;
          if (line->op == TSR_OP_EMBEDDING) {
            to = check_place(&y, i[0], i[1], i[2], i[3]);
            /* one rounding on each side where alpha is not 1; subnormal products may be flushed */
            error = scaled ? 2.0 * CHECK_U * fabs(check_value(&y, to)) : 0.0;
            if (scaled || (check_value(&y, to) != 0.0 && fabs(check_value(&y, to)) < FLT_MIN)) {
              error += FLT_MIN * (1.0 + fabs((double)line->attributes.alpha));
            }
            y.storage->error[to] = isfinite(check_value(&y, to)) ? error : 0.0;
            continue;
          }
          if (line->op == TSR_OP_GATHER) {
            int64_t row = check_integer(&index, check_place(&index, 0, 0, 0, i[axis]));
            from[axis] = row;
            if (row < 0 || row >= x.extent[axis]) {
              y.storage->error[check_place(&y, i[0], i[1], i[2], i[3])] = 0.0;
              continue;
            }
          }
          if (line->op == TSR_OP_APPEND) {
            axis = 4 - tsr_tensor_at(values->program, line->in[0])->rank + 1;
            int64_t row = index.storage ? check_integer(&index, check_place(&index, 0, 0, 0, i[axis - 1])) : 0;
            target[axis] += row;
            if (target[axis] < 0 || target[axis] >= y.extent[axis]) {
              continue;
            }
          }
          to = check_place(&y, target[0], target[1], target[2], target[3]);
          error = check_error(&x, check_place(&x, from[0], from[1], from[2], from[3]));
          if (error > 0.0 && y.dtype != TSR_F32 && x.dtype == TSR_F32) {
            error += narrowing(y.dtype, check_value(&y, to));
          }
          y.storage->error[to] = error;
        }
      }
    }
  }
  return TSR_OK;
}

/* Between which values an element may lie on a device; NaN counts as +inf, since both are ranked by the same rule. */
typedef struct range {
  double low, high;
  int exact; /* among themselves such elements are ranked as the reference ranked them */
} range;

static range range_of(const check_tensor *x, int64_t at)
{
  const double value = check_value(x, at), error = check_error(x, at);
  range r = {.low = -INFINITY, .high = INFINITY, .exact = error == 0.0};

  if (r.exact) {
    r.low = r.high = isnan(value) ? INFINITY : value;
  } else if (isfinite(value) && error < INFINITY) {
    r.low = value - error < -FLT_MAX ? -INFINITY : value - error;
    r.high = value + error > FLT_MAX ? INFINITY : value + error;
  }
  return r;
}

/* What stands before or behind a place in the ranking: [0] of those that are not exact, [1] of those that are. */
typedef struct rivals {
  int64_t count[2];
  double nearest[2];
} rivals;

/* 1 if `r` is ahead of all of them on every device. */
static int is_ahead(const range *r, const rivals *behind)
{
  return (!behind->count[0] || r->low > behind->nearest[0]) &&
         (!behind->count[1] || r->exact || r->low > behind->nearest[1]);
}

static int is_behind(const range *r, const rivals *ahead)
{
  return (!ahead->count[0] || r->high < ahead->nearest[0]) &&
         (!ahead->count[1] || r->exact || r->high < ahead->nearest[1]);
}

static void add_behind(rivals *behind, const range *r)
{
  behind->nearest[r->exact] = behind->count[r->exact]++ ? fmax(behind->nearest[r->exact], r->high) : r->high;
}

static void add_ahead(rivals *ahead, const range *r)
{
  ahead->nearest[r->exact] = ahead->count[r->exact]++ ? fmin(ahead->nearest[r->exact], r->low) : r->low;
}

/* One row. chosen: [n], zeros, which are left zeros. */
static void bound_topk_row(const check_tensor *x, const check_tensor *y, const check_tensor *indices,
                           const int64_t i[3], char *chosen)
{
  rivals behind = {{0}}, ahead = {{0}};
  const int64_t row = check_place(x, i[0], i[1], i[2], 0);
  double worst = 0.0;

  for (int64_t place = 0; place < y->extent[3]; place++) {
    chosen[check_integer(indices, check_place(indices, i[0], i[1], i[2], place))] = 1;
  }
  for (int64_t at = 0; at < x->extent[3]; at++) {
    range r = range_of(x, row + at * x->stride[3]);
    worst = fmax(worst, check_error(x, row + at * x->stride[3]));
    if (!chosen[at]) {
      add_behind(&behind, &r);
    }
  }
  for (int64_t place = y->extent[3] - 1; place >= 0; place--) {
    int64_t value_at = check_place(indices, i[0], i[1], i[2], place);
    int64_t at = check_integer(indices, value_at);
    chosen[at] = 0;
    range r = range_of(x, row + at * x->stride[3]);
    indices->storage->error[value_at] = is_ahead(&r, &behind) ? 0.0 : INFINITY;
    add_behind(&behind, &r);
  }
  for (int64_t place = 0; place < y->extent[3]; place++) {
    int64_t value_at = check_place(indices, i[0], i[1], i[2], place);
    int64_t at = row + check_integer(indices, value_at) * x->stride[3];
    range r = range_of(x, at);
    if (!is_behind(&r, &ahead)) {
      indices->storage->error[value_at] = INFINITY;
    }
    add_ahead(&ahead, &r);
    y->storage->error[check_place(y, i[0], i[1], i[2], place)] =
        indices->storage->error[value_at] > 0.0 ? worst : check_error(x, at);
  }
}

/* Exact on exact operands. Of others: where no other element's range reaches that of the one at a place, its index is
 * certain, and the value carries what the element does. Elsewhere the index is open, and the k-th largest moves by no
 * more than the element of the row that moves most. */
static tsr_status bound_topk(check_values *values, const tsr_line_desc *line)
{
  check_tensor x = check_tensor_of(values, line->in[0]);
  check_tensor y = check_tensor_of(values, line->out[0]);
  check_tensor indices = check_tensor_of(values, line->out[1]);
  int64_t i[3];

  if (!x.storage->error || x.extent[3] == 0) {
    return TSR_OK;
  }
  tsr_status status = check_errors_clear(&y);
  if (!status) {
    status = check_errors_clear(&indices);
  }
  if (status) {
    return status;
  }
  char *chosen = calloc((size_t)x.extent[3], 1);
  if (!chosen) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "conformance: no memory for the bounds of %lld elements",
                    (long long)x.extent[3]);
  }
  for (i[0] = 0; i[0] < x.extent[0]; i[0]++) {
    for (i[1] = 0; i[1] < x.extent[1]; i[1]++) {
      for (i[2] = 0; i[2] < x.extent[2]; i[2]++) {
        bound_topk_row(&x, &y, &indices, i, chosen);
      }
    }
  }
  free(chosen);
  return TSR_OK;
}

static tsr_status bound_line(check_values *values, const tsr_line_desc *desc)
{
  switch (desc->op) {
  case TSR_OP_MATMUL:
    return !desc->in[3]                                                     ? check_bound_matmul(values, desc)
           : check_tensor_of(values, desc->in[3]).storage->dtype == TSR_F16 ? check_bound_matmul_i4(values, desc)
                                                                            : check_bound_matmul_i8(values, desc);
  case TSR_OP_CONV1D:
    return check_bound_conv1d(values, desc);
  case TSR_OP_ROTATE:
    return check_bound_rotate(values, desc);
  case TSR_OP_REDUCE_SUM:
    return check_bound_reduce_sum(values, desc);
  case TSR_OP_SOFTMAX:
    return check_bound_softmax(values, desc);
  case TSR_OP_LOG_SOFTMAX:
    return check_bound_log_softmax(values, desc);
  case TSR_OP_LAYERNORM:
  case TSR_OP_RMSNORM:
    return check_bound_norm(values, desc);
  case TSR_OP_MASK:
    return check_bound_mask(values, desc);
  case TSR_OP_ATTENTION:
    return check_bound_attention(values, desc);
  case TSR_OP_ATTENTION_GRADIENT:
    return check_bound_attention_gradient(values, desc);
  case TSR_OP_SCATTER_ADD:
    return check_bound_scatter_add(values, desc);
  case TSR_OP_CONCAT:
    return check_bound_concat(values, desc);
  case TSR_OP_SOFTMAX_GRADIENT:
  case TSR_OP_LOG_SOFTMAX_GRADIENT:
    return check_bound_softmax_gradient(values, desc);
  case TSR_OP_LAYERNORM_GRADIENT:
  case TSR_OP_RMSNORM_GRADIENT:
    return check_bound_norm_gradient(values, desc);
  case TSR_OP_ACTIVATION_GRADIENT:
    return check_bound_activation_gradient(values, desc);
  case TSR_OP_MASK_GRADIENT:
    return check_bound_mask_gradient(values, desc);
  case TSR_OP_RELATIVE_GRADIENT:
    return check_bound_relative_gradient(values, desc);
  case TSR_OP_DROPOUT:
    return check_bound_dropout(values, desc);
  case TSR_OP_CROSS_ENTROPY:
    return check_bound_cross_entropy(values, desc);
  case TSR_OP_CROSS_ENTROPY_GRADIENT:
    return check_bound_cross_entropy_gradient(values, desc);
  case TSR_OP_SUM_OF_SQUARES:
    return check_bound_sum_of_squares(values, desc);
  case TSR_OP_ADAM:
    return check_bound_adam(values, desc);
  case TSR_OP_ADD:
  case TSR_OP_MUL:
  case TSR_OP_RELU:
  case TSR_OP_GELU:
  case TSR_OP_SILU:
    return bound_elementwise(values, desc);
  case TSR_OP_EMBEDDING:
    return !desc->in[2]                                                     ? bound_moves(values, desc)
           : check_tensor_of(values, desc->in[2]).storage->dtype == TSR_F16 ? check_bound_embedding_i4(values, desc)
                                                                            : check_bound_embedding_i8(values, desc);
  case TSR_OP_COPY:
  case TSR_OP_APPEND:
  case TSR_OP_UPDATE:
  case TSR_OP_GATHER:
    return bound_moves(values, desc);
  case TSR_OP_TOPK:
    return bound_topk(values, desc);
  default:
    return tsr_fail(TSR_ERR_INTERNAL, "conformance: operator %d has no bound; add one to tools/conformance/bounds.c",
                    (int)desc->op);
  }
}

/* 1 if there is no bound on an element of an operand. */
static int has_open_operand(const check_values *values, const tsr_line_desc *line)
{
  for (int32_t i = 0; i < TSR_MAX_INPUTS; i++) {
    const check_tensor t = check_tensor_of(values, line->in[i]);
    for (int64_t at = 0; t.storage && t.storage->error && at < t.storage->count; at++) {
      if (t.storage->error[at] == INFINITY) {
        return 1;
      }
    }
  }
  return 0;
}

/* What an operand without a bound leads to has none: the formulas multiply its infinity with what others carry, and
 * infinity times zero is NaN. */
tsr_status check_bound_line(check_values *values, int32_t line)
{
  const tsr_line_desc *desc = tsr_line_at(values->program, line);
  const tsr_status status = bound_line(values, desc);

  if (status || !has_open_operand(values, desc)) {
    return status;
  }
  for (int32_t i = 0; i < TSR_MAX_OUTPUTS; i++) {
    const check_tensor t = check_tensor_of(values, desc->out[i]);
    for (int64_t at = 0; t.storage && t.storage->error && at < t.storage->count; at++) {
      if (isnan(t.storage->error[at])) {
        t.storage->error[at] = INFINITY;
      }
    }
  }
  return TSR_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the bounds of different operators share (bounds*.c).
 */
#ifndef TESSERA_CONFORMANCE_BOUNDS_H
#define TESSERA_CONFORMANCE_BOUNDS_H

#include <float.h>
#include <math.h>

#include "tools/conformance/conformance.h"

/* Unit roundoff of f32: one operation errs by at most u times its result. */
#define CHECK_U 0x1p-24

/* The error of n roundings in a row, relative (Higham, Accuracy and Stability, lemma 3.1). */
static inline double check_gamma(double n)
{
  return n * CHECK_U / (1.0 - n * CHECK_U);
}

/* An operand or result, its four axes right-aligned; an axis of extent 1 has stride 0. */
typedef struct check_tensor {
  check_storage *storage; /* NULL: absent */
  int32_t dtype;
  int64_t extent[4];
  int64_t stride[4];
  int64_t offset;
} check_tensor;

check_tensor check_tensor_of(const check_values *values, int32_t tensor);

static inline int64_t check_place(const check_tensor *t, int64_t i0, int64_t i1, int64_t i2, int64_t i3)
{
  return t->offset + i0 * t->stride[0] + i1 * t->stride[1] + i2 * t->stride[2] + i3 * t->stride[3];
}

/* The reference's value and the bound on the device's distance from it, at a place. */
static inline double check_value(const check_tensor *t, int64_t place)
{
  return (double)t->storage->value[place];
}

static inline int32_t check_integer(const check_tensor *t, int64_t place)
{
  return ((const int32_t *)t->storage->bytes)[place];
}

static inline double check_error(const check_tensor *t, int64_t place)
{
  return t->storage->error ? t->storage->error[place] : 0.0;
}

static inline int check_whole(double value)
{
  return value == floor(value);
}

/* Gives the storage of a result an error per element, zero at first. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status check_errors_init(check_tensor *t) TSR_MUST_CHECK;

/* The same, and every error zero again after a run before. An absent result is none. */
tsr_status check_errors_clear(check_tensor *t) TSR_MUST_CHECK;

static inline int64_t check_count(const check_tensor *t)
{
  return t->extent[0] * t->extent[1] * t->extent[2] * t->extent[3];
}

/* 1 if a sum over n[axis] elements of each axis adds the same element several times: then roundings need not average
 * out, for adding one number again and again errs in one direction as long as the sum's exponent is the same. */
static inline int check_is_repeated(const check_tensor *t, const int64_t n[4])
{
  int is_repeated = 0;
  for (int32_t axis = 0; axis < 4; axis++) {
    is_repeated |= n[axis] > 1 && t->stride[axis] == 0;
  }
  return is_repeated;
}

/* The element-th index in row-major order. */
static inline void check_index(const check_tensor *t, int64_t element, int64_t i[4])
{
  for (int32_t axis = 3; axis >= 0; axis--) {
    i[axis] = element % t->extent[axis];
    element /= t->extent[axis];
  }
}

static inline int64_t check_at(const check_tensor *t, const int64_t i[4])
{
  return check_place(t, i[0], i[1], i[2], i[3]);
}

/* A sum of values in any order. */
typedef struct check_sum {
  double size;    /* of magnitudes, with what they carry */
  double carried; /* by the values */
  int64_t terms;
  int fraction; /* 1: some value is no whole number, or carries something */
  int special;  /* 1: some value is NaN or infinite */
} check_sum;

void check_sum_add(check_sum *sum, double value, double error);

/* The bound on alpha * sum: gamma of the terms and two roundings more; 0 where every partial sum is exact, or where the
 * result is held against an infinity or NaN; INFINITY where a partial sum may overflow in one order and not in another.
 * */
double check_sum_error(const check_sum *sum, double alpha);

/* The bound on activation(z + e) where |e| <= error. */
double check_activation_error(int32_t activation, double z, double error);

/* Of a line of reduced precision: what the rounding of a factor to dtype (f16 or bf16) may change. value and error: the
 * factor, and what it carries. 0 where it is a number of that type, and exact. */
double check_narrowing(int32_t dtype, double value, double error);

/* 1 if narrowing may make a zero of a factor that is none, or of one that is 0 a number. */
int check_narrowing_vanishes(int32_t dtype, double value, double error);

/* Score of a query and a key as masking changes it. */
typedef struct check_masking {
  check_tensor additive, lengths, position, relative;
  const tsr_op_attributes *attributes;
} check_masking;

/* What masking adds to a score, the bounds on it, and how many of the two there are; 0 where absent. */
typedef struct check_addend {
  double additive, relative;
  double additive_error, relative_error;
  int32_t terms;
} check_addend;

/* Returns 0 if the key is excluded. */
int check_masking_at(const check_masking *m, int64_t b, int64_t h, int64_t l, int64_t s, check_addend *addend);

/* The row of a table of relative biases for a distance, rounded as ops.h prescribes: every device takes the same. */
int64_t check_relative_row(int64_t distance, int64_t rows, const tsr_op_attributes *attributes);

/* ln sum exp of a row, max + logarithm, and the bounds on it. */
typedef struct check_log_sum {
  double max, logarithm;
  double error; /* of the logarithm */
  double worst; /* what the elements carry at most, that of the maximum too */
  int special;  /* 1: the row holds NaN or +inf, or nothing but -inf */
} check_log_sum;

check_log_sum check_log_sum_of(const check_tensor *x, int64_t i0, int64_t i1, int64_t i2);

/* The scale of a row of layernorm (centred) or rmsnorm, and the bounds on it. */
typedef struct check_norm_row {
  double mean, root; /* root: 1 / sqrt(variance + epsilon), or 1 / (deviation + epsilon) */
  double relative;   /* error of root, relative */
  double shift;      /* error of the mean, by rounding */
  double carried;    /* error of the mean, by what the elements carry */
  double slope;      /* of the gradient: what mean(h n) is multiplied with: 1, but for the unbiased deviation */
  double steepness;  /* error of slope, relative; infinite where the deviation drowns in its own error */
  int centred, special, overflows;
} check_norm_row;

/* line: of a norm, or of its gradient. */
check_norm_row check_norm_row_of(const check_tensor *x, int64_t i0, int64_t i1, int64_t i2, const tsr_line_desc *line);

/* The bound on a normalised element, root * centred, that carries `carried`. */
double check_norm_error(const check_norm_row *row, double centred, double carried);

/* Dropout: what the element-th element is multiplied with; 1 where there is no seed. */
double check_drop_factor(const check_values *values, int32_t seed, const tsr_op_attributes *attributes,
                         int64_t element);

tsr_status check_bound_matmul(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_rotate(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_conv1d(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_matmul_i8(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_embedding_i8(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_matmul_i4(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_embedding_i4(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_reduce_sum(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_softmax(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_log_softmax(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_norm(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_mask(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_attention(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_attention_gradient(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_scatter_add(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_concat(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_softmax_gradient(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_norm_gradient(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_activation_gradient(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_mask_gradient(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_relative_gradient(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_dropout(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_cross_entropy(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_cross_entropy_gradient(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_sum_of_squares(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_adam(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What the bounds of different operators share (bounds*.c).
 */
#ifndef TESSERA_CONFORMANCE_BOUNDS_H
#define TESSERA_CONFORMANCE_BOUNDS_H

#include <float.h>
#include <math.h>

#include "tests/conformance/conformance.h"

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

/* Gives the storage of a result an error per element, zero at first. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status check_errors_init(check_tensor *t) TSR_MUST_CHECK;

/* The bound on activation(z + e) where |e| <= error. */
double check_activation_error(int32_t activation, double z, double error);

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

tsr_status check_bound_matmul(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_matmul_i8(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_embedding_i8(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_reduce_sum(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_softmax(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_log_softmax(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_norm(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_mask(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;
tsr_status check_bound_attention(check_values *values, const tsr_line_desc *line) TSR_MUST_CHECK;

#endif

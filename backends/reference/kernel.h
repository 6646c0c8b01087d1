/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kernels of the reference share: tensors resolved to memory, the walk over rows, element access.
 *
 * A kernel computes one line. It relies on the rules of ops.h, which the host has checked, and asserts those that it
 * builds on. Positions (`at`) are counted in elements from the view's first one; memory is touched only when an
 * element is, so that empty tensors need no special cases.
 */
#ifndef REFERENCE_KERNEL_H
#define REFERENCE_KERNEL_H

#include <assert.h>
#include <math.h>
#include <string.h>

#include "tessera/backend.h"

typedef struct ref_tensor {
  void *data;    /* the view's first element; NULL if it has none */
  int32_t dtype; /* TSR_F32 ..; 0: absent */
  int32_t rank;
  int64_t extent[TSR_MAX_RANK]; /* beyond rank: 1 */
  int64_t stride[TSR_MAX_RANK]; /* elements; 0 where the extent is 1 */
} ref_tensor;

typedef struct ref_line {
  ref_tensor in[TSR_MAX_INPUTS];
  ref_tensor out[TSR_MAX_OUTPUTS];
  tsr_op_attributes attributes;
  double *scratch; /* what the operator's scratch function asked for */
} ref_line;

static inline int ref_present(const ref_tensor *t)
{
  return t->dtype != 0;
}

/* The last axis; a scalar has one of extent 1. */
static inline int32_t ref_last(const ref_tensor *t)
{
  return t->rank > 0 ? t->rank - 1 : 0;
}

static inline int64_t ref_row_length(const ref_tensor *t)
{
  return t->extent[ref_last(t)];
}

static inline int64_t ref_row_stride(const ref_tensor *t)
{
  return t->stride[ref_last(t)];
}

/* How many indices the first `axes` axes have. */
static inline int64_t ref_count(const ref_tensor *t, int32_t axes)
{
  int64_t count = 1;
  for (int32_t axis = 0; axis < axes; axis++) {
    count *= t->extent[axis];
  }
  return count;
}

/* Where the index-th (in row-major order) of these indices lies. */
static inline int64_t ref_at(const ref_tensor *t, int32_t axes, int64_t index)
{
  int64_t at = 0;
  for (int32_t axis = axes - 1; axis >= 0; axis--) {
    at += index % t->extent[axis] * t->stride[axis];
    index /= t->extent[axis];
  }
  return at;
}

/* Rows along the last axis: how many, and where each begins. */
static inline int64_t ref_rows(const ref_tensor *t)
{
  return ref_count(t, ref_last(t));
}

static inline int64_t ref_row(const ref_tensor *t, int64_t row)
{
  return ref_at(t, ref_last(t), row);
}

/* The index (i0, i1, ..) of the element-th element in row-major order; beyond rank: 0. */
static inline void ref_index(const ref_tensor *t, int64_t element, int64_t index[TSR_MAX_RANK])
{
  for (int32_t axis = TSR_MAX_RANK - 1; axis >= 0; axis--) {
    index[axis] = element % t->extent[axis];
    element /= t->extent[axis];
  }
}

static inline int64_t ref_element(const ref_tensor *t, const int64_t index[TSR_MAX_RANK])
{
  return index[0] * t->stride[0] + index[1] * t->stride[1] + index[2] * t->stride[2] + index[3] * t->stride[3];
}

static inline int ref_same_extents(const ref_tensor *a, const ref_tensor *b)
{
  return a->rank == b->rank && memcmp(a->extent, b->extent, sizeof(a->extent)) == 0;
}

/* Elements */

/* Bytes. */
static inline int64_t ref_element_size(int32_t dtype)
{
  switch (dtype) {
  case TSR_F16:
  case TSR_BF16:
    return 2;
  case TSR_I8:
    return 1;
  default:
    return 4;
  }
}

static inline float ref_f32(const ref_tensor *t, int64_t at)
{
  return ((const float *)t->data)[at];
}

static inline void ref_set_f32(const ref_tensor *t, int64_t at, double value)
{
  ((float *)t->data)[at] = (float)value;
}

static inline int32_t ref_i32(const ref_tensor *t, int64_t at)
{
  return ((const int32_t *)t->data)[at];
}

static inline void ref_set_i32(const ref_tensor *t, int64_t at, int32_t value)
{
  ((int32_t *)t->data)[at] = value;
}

static inline uint32_t ref_bits(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static inline float ref_from_bits(uint32_t bits)
{
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/* sign 1, exponent 5 (bias 15), fraction 10. The fields are moved to where a binary32 has them; the product with
 * 2^(127-15) repairs the exponent's bias, and turns subnormals into normal numbers. */
static inline float ref_widen_f16(uint16_t half)
{
  uint32_t sign = (uint32_t)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  float value =
      magnitude >= 0x7c00u ? ref_from_bits(magnitude << 13 | 0x7f800000u) : ref_from_bits(magnitude << 13) * 0x1p112f;
  return ref_from_bits(sign | ref_bits(value));
}

static inline float ref_widen_bf16(uint16_t upper_half)
{
  return ref_from_bits((uint32_t)upper_half << 16);
}

/* An f32, f16, bf16 or i8 element. */
static inline float ref_widened(const ref_tensor *t, int64_t at)
{
  switch (t->dtype) {
  case TSR_F16:
    return ref_widen_f16(((const uint16_t *)t->data)[at]);
  case TSR_BF16:
    return ref_widen_bf16(((const uint16_t *)t->data)[at]);
  case TSR_I8:
    return ((const int8_t *)t->data)[at];
  default:
    return ref_f32(t, at);
  }
}

/* n elements `stride` apart, as double. UndefinedBehaviorSanitizer leaves it out, as it does multiply_column in
 * ops_matmul.c, for the same reason; AddressSanitizer watches what is read and written. */
__attribute__((no_sanitize("undefined"))) static inline void ref_widen_row(const ref_tensor *t, int64_t at,
                                                                           int64_t stride, int64_t n, double *row)
{
  switch (t->dtype) {
  case TSR_F16:
    for (int64_t i = 0; i < n; i++) {
      row[i] = ref_widen_f16(((const uint16_t *)t->data)[at + i * stride]);
    }
    break;
  case TSR_BF16:
    for (int64_t i = 0; i < n; i++) {
      row[i] = ref_widen_bf16(((const uint16_t *)t->data)[at + i * stride]);
    }
    break;
  case TSR_I8:
    for (int64_t i = 0; i < n; i++) {
      row[i] = ((const int8_t *)t->data)[at + i * stride];
    }
    break;
  default:
    for (int64_t i = 0; i < n; i++) {
      row[i] = ref_f32(t, at + i * stride);
    }
  }
}

/* Weight k of a column of weights of four bits, whose bytes are `stride` apart. */
static inline double ref_four_bits(const ref_tensor *t, int64_t at, int64_t stride, int64_t k)
{
  const uint8_t byte = ((const uint8_t *)t->data)[at + (k / 8 * 4 + k % 4) * stride];
  return (k / 4 % 2 ? byte >> 4 : byte & 15) - 8;
}

/* Shared formulas */

/* TSR_ACTIVATION_* of x. */
double ref_activate(int32_t activation, double x);

/* Scores z to weights in place: exp(z - max z) / sum exp(z - max z); -inf is excluded, a row wholly excluded gives
 * zeros, one that holds +inf or NaN is NaN. Returns ln sum exp z: -inf of a row wholly excluded, NaN of one that is
 * NaN. */
double ref_softmax_row(double *z, int64_t n);

/* The product of two rows along the last axis of tensors of rank 4, as long as those of q. */
double ref_dot(const ref_tensor *q, const int64_t q_index[], const ref_tensor *k, const int64_t k_index[]);

/* A score behind its cap; without one where softcap is 0. */
double ref_capped(double softcap, double score);

/* The masking of a line whose operands begin at in[first]: additive, lengths, position, relative. */
typedef struct ref_masking {
  const ref_tensor *additive, *lengths, *position, *relative;
  const tsr_op_attributes *attributes;
} ref_masking;

ref_masking ref_masking_of(const ref_line *line, int32_t first);

/* 1 if query l of sentence b may not see key s. */
int ref_excluded(const ref_masking *masking, int64_t b, int64_t h, int64_t l, int64_t s);

/* The score of a key that may be seen, with the biases on it. */
float ref_biased(const ref_masking *masking, int64_t b, int64_t h, int64_t l, int64_t s, float score);

/* The row, one of n, of the relative biases of key s for query l of sentence b. */
int64_t ref_relative_row(const ref_masking *masking, int64_t n, int64_t b, int64_t l, int64_t s);

/* The dropout of a line whose seed is in[slot]; absent: all is kept, with the factor 1. */
typedef struct ref_drop {
  uint32_t key[2], stream, threshold;
  float scale;
} ref_drop;

ref_drop ref_drop_of(const ref_line *line, int32_t slot);

/* What the element-th element is multiplied with: the scale, or 0. */
float ref_drop_factor(const ref_drop *dropout, int64_t element);

/* The operators, and how many doubles of scratch those that need some take. */
void ref_matmul(const ref_line *line);
void ref_conv1d(const ref_line *line);
void ref_rotate(const ref_line *line);
void ref_softmax(const ref_line *line);
void ref_log_softmax(const ref_line *line);
void ref_layernorm(const ref_line *line);
void ref_rmsnorm(const ref_line *line);
void ref_mask(const ref_line *line);
void ref_add(const ref_line *line);
void ref_mul(const ref_line *line);
void ref_relu(const ref_line *line);
void ref_gelu(const ref_line *line);
void ref_silu(const ref_line *line);
void ref_embedding(const ref_line *line);
void ref_copy(const ref_line *line);
void ref_append(const ref_line *line);
void ref_update(const ref_line *line);
void ref_gather(const ref_line *line);
void ref_topk(const ref_line *line);
void ref_reduce_sum(const ref_line *line);
void ref_attention(const ref_line *line);
void ref_dropout(const ref_line *line);
void ref_cross_entropy(const ref_line *line);
void ref_cross_entropy_gradient(const ref_line *line);
void ref_softmax_gradient(const ref_line *line);
void ref_log_softmax_gradient(const ref_line *line);
void ref_layernorm_gradient(const ref_line *line);
void ref_rmsnorm_gradient(const ref_line *line);
void ref_activation_gradient(const ref_line *line);
void ref_mask_gradient(const ref_line *line);
void ref_relative_gradient(const ref_line *line);
void ref_attention_gradient(const ref_line *line);
void ref_scatter_add(const ref_line *line);
void ref_concat(const ref_line *line);
void ref_sum_of_squares(const ref_line *line);
void ref_adam(const ref_line *line);

int64_t ref_matmul_scratch(const ref_line *line);
int64_t ref_softmax_scratch(const ref_line *line);
int64_t ref_attention_scratch(const ref_line *line);
int64_t ref_norm_gradient_scratch(const ref_line *line);
int64_t ref_relative_gradient_scratch(const ref_line *line);
int64_t ref_attention_gradient_scratch(const ref_line *line);
int64_t ref_scatter_add_scratch(const ref_line *line);

#endif

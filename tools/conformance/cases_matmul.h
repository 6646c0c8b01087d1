/* SPDX-License-Identifier: Apache-2.0
 *
 * tools/conformance/cases_matmul.h: what the cases of matmul, of weights of i8 and four bits and of reduced precision
 * share.
 */
#ifndef TESSERA_CONFORMANCE_CASES_MATMUL_H
#define TESSERA_CONFORMANCE_CASES_MATMUL_H

#include "tools/conformance/cases.h"

/* Leading extents of a and b. */
enum {
  BATCH_NONE,
  BATCH_ONE,
  BATCH_3,
  BATCH_2X3,
  BATCH_B_SHARED,
  BATCH_A_SHARED,
  BATCH_CROSS,
  BATCH_RANKS,
  BATCH_0,
  BATCH_DRAWN
};

enum { BIAS_NONE, BIAS_ROW, BIAS_COLUMN, BIAS_FULL, BIAS_ONE, BIAS_COUNT };

/* What b of i8 holds, or each half of its bytes: any of its numbers; few small ones; the ends of the range; the lowest,
 * of which the largest sums come. */
enum { BYTES_ANY, BYTES_SMALL, BYTES_ENDS, BYTES_LOWEST };

typedef struct matmul_params {
  int64_t m, n, k;
  int32_t batch, dtype, bias, activation, view_a, view_b, data_a, data_b;
  int32_t view_scales, data_scales; /* of i8, whose data_b is one of BYTES_ */
  int32_t four_bits;                /* 1: weights of four bits, of dtype TSR_I8 */
  int32_t varies;                   /* 1: b is an input, as a batch of it always is; 0: constant */
  int32_t reduced;                  /* 1: a is rounded to b's type; TSR_F16, TSR_BF16: a and b of f32 are, to that */
  int32_t leading[2];               /* of BATCH_DRAWN */
  float alpha;
} matmul_params;

#define PARAMS(...)    ((matmul_params){.alpha = 1.0f, .dtype = TSR_F32, __VA_ARGS__})
#define PARAMS_I8(...) PARAMS(.dtype = TSR_I8, .view_b = CHECK_TRANSPOSED, __VA_ARGS__)

#define PARAMS_I4(...)                                                                                                 \
  PARAMS_I8(.four_bits = 1, .view_scales = CHECK_TRANSPOSED, .data_scales = CHECK_NORMAL, __VA_ARGS__)

/* Adds the case. */
void check_matmul_add(check_table *table, matmul_params p);

/* The same product of reduced precision with b of f16, and of bf16. */
void check_matmul_add_reduced(check_table *table, matmul_params p);

/* Weights of i8. */
void check_cases_matmul_i8(check_table *table);
void check_perf_matmul_i8(check_table *table);

/* Weights of four bits. */
void check_cases_matmul_i4(check_table *table);
void check_perf_matmul_i4(check_table *table);

/* Products whose factors are rounded to 16 bits. */
void check_cases_matmul_reduced(check_table *table);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of matmul: weights of four bits.
 */
#include "tools/conformance/cases_matmul.h"

/* Depths of parts of a group, of whole ones, and of as many as a device may take at a time and some; few and many rows;
 * each way in which bytes, scales and rows may lie; rows and scales that are quantised apart, as with weights of i8. An
 * infinite scale is no case: what it gives is left open. */
void check_cases_matmul_i4(check_table *table)
{
  static const int32_t m[] = {1, 2, 3, 4, 5, 7, 8, 9, 17, 33, 64, 100, 129};
  static const int32_t n[] = {1, 3, 5, 7, 15, 16, 17, 31, 33, 47, 64, 100, 257, 1031};
  static const int32_t k[] = {1,  4,   5,   8,   9,   31,  32,  33,  36,  63,  64,  65,   95,  96,
                              97, 127, 128, 129, 160, 161, 224, 255, 256, 512, 544, 1031, 2048};
  /* So few results of so great a depth that a device may sum it in parts */
  static const int32_t parts[][3] = {{8, 96, 16400}, {1, 40, 32768}, {17, 128, 512},
                                     {33, 65, 784},  {65, 31, 2048}, {40, 100, 8192}};
  static const int32_t views_a[] = {CHECK_DENSE, CHECK_TRANSPOSED, CHECK_PADDED, CHECK_STRIDED, CHECK_OFFSET};
  static const int32_t views_b[] = {CHECK_DENSE,  CHECK_TRANSPOSED, CHECK_PADDED,
                                    CHECK_OFFSET, CHECK_STRIDED,    CHECK_PADDED_T};
  static const int32_t views_scales[] = {CHECK_DENSE,    CHECK_TRANSPOSED, CHECK_STRIDED,       CHECK_OFFSET,
                                         CHECK_PADDED_T, CHECK_BROADCAST,  CHECK_BROADCAST_LAST};
  static const int32_t data[] = {CHECK_INTEGER, CHECK_LARGE, CHECK_TINY,     CHECK_MIXED,      CHECK_CANCEL,
                                 CHECK_ZERO,    CHECK_INF,   CHECK_NAN,      CHECK_EXTREME,    CHECK_SPECIAL,
                                 CHECK_SPIKE,   CHECK_TIES,  CHECK_CONSTANT, CHECK_NEGINF_ROW, CHECK_BIG};
  static const int32_t scales[] = {CHECK_UNIFORM, CHECK_TINY, CHECK_ZERO, CHECK_NAN, CHECK_SPIKE};

  for (int32_t i = 0; i < COUNT_OF(m); i++) {
    check_matmul_add(table, PARAMS_I4(.m = m[i], .n = 37, .k = 70, .bias = BIAS_ROW));
    check_matmul_add(table, PARAMS_I4(.m = m[i], .n = 64, .k = 128, .view_b = CHECK_DENSE, .view_scales = CHECK_DENSE));
    check_matmul_add(table, PARAMS_I4(.m = m[i], .n = 39, .k = 160, .bias = BIAS_ROW));
  }
  for (int32_t i = 0; i < COUNT_OF(n); i++) {
    check_matmul_add(table, PARAMS_I4(.m = 1 + 4 * (i % 3), .n = n[i], .k = 35));
    check_matmul_add(table, PARAMS_I4(.m = 1, .n = n[i], .k = 64, .bias = BIAS_ROW));
    check_matmul_add(table, PARAMS_I4(.m = 2 + 3 * (i % 3), .n = n[i], .k = 32));
  }
  for (int32_t i = 0; i < COUNT_OF(k); i++) {
    check_matmul_add(table, PARAMS_I4(.m = 6, .n = 19, .k = k[i]));
    check_matmul_add(table, PARAMS_I4(.m = 1, .n = 33, .k = k[i], .view_b = i % 2 ? CHECK_DENSE : CHECK_TRANSPOSED));
    check_matmul_add(table, PARAMS_I4(.m = 5, .n = 8, .k = k[i], .data_a = CHECK_CONSTANT, .data_b = BYTES_ENDS));
  }
  check_matmul_add(table, PARAMS_I4(.m = 64, .n = 512, .k = 512, .bias = BIAS_ROW, .activation = TSR_ACTIVATION_RELU));
  check_matmul_add(table, PARAMS_I4(.m = 200, .n = 150, .k = 288, .bias = BIAS_FULL, .activation = 2));
  for (int32_t i = 0; i < COUNT_OF(parts); i++) {
    check_matmul_add(table, PARAMS_I4(.m = parts[i][0], .n = parts[i][1], .k = parts[i][2], .bias = i % BIAS_COUNT,
                                      .activation = i % 5));
  }
  check_matmul_add(table, PARAMS_I4(.m = 35, .n = 130, .k = 2080));
  check_matmul_add(table,
                   PARAMS_I4(.m = 8, .n = 3, .k = TSR_MAX_I8_DEPTH, .data_a = CHECK_CONSTANT, .data_b = BYTES_LOWEST));
  check_matmul_add(table, PARAMS_I4(.m = 2, .n = 5, .k = 20011, .view_b = CHECK_DENSE));
  check_matmul_add(table, PARAMS_I4(.m = 1, .n = 5001, .k = 31));
  check_matmul_add(table, PARAMS_I4(.m = 1, .n = 32003, .k = 64));
  for (int32_t i = 0; i < 5; i++) {
    for (int32_t j = 0; j < BIAS_COUNT; j++) {
      check_matmul_add(table, PARAMS_I4(.m = 17, .n = 33, .k = 51, .activation = i, .bias = j,
                                        .batch = (i + j) % 2 ? BATCH_NONE : BATCH_3));
    }
  }
  for (int32_t i = 0; i < COUNT_OF(views_a); i++) {
    for (int32_t j = 0; j < COUNT_OF(views_b); j++) {
      check_matmul_add(table, PARAMS_I4(.m = 13, .n = 21, .k = 66, .view_a = views_a[i], .view_b = views_b[j],
                                        .view_scales = views_scales[(i + j) % COUNT_OF(views_scales)],
                                        .batch = i == j ? BATCH_3 : BATCH_NONE));
    }
  }
  for (int32_t i = 0; i <= BATCH_0; i++) {
    check_matmul_add(table, PARAMS_I4(.m = 9, .n = 18, .k = 43, .batch = i, .bias = BIAS_FULL));
    check_matmul_add(table, PARAMS_I4(.m = 4, .n = 7, .k = 40, .batch = i, .view_a = CHECK_HEADS));
    check_matmul_add(table, PARAMS_I4(.m = 9, .n = 18, .k = 96, .batch = i, .view_a = views_a[i % COUNT_OF(views_a)]));
  }
  check_matmul_add(table,
                   PARAMS_I4(.m = 5, .n = 66, .k = 39, .view_a = CHECK_BROADCAST, .view_b = CHECK_BROADCAST_LAST));
  for (int32_t i = 0; i < 3; i++) {
    check_matmul_add(table, PARAMS_I4(.m = i == 0 ? 0 : 5, .n = i == 1 ? 0 : 7, .k = i == 2 ? 0 : 3, .bias = BIAS_ROW));
  }
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    for (int32_t bytes = BYTES_ANY; bytes <= BYTES_ENDS; bytes++) {
      check_matmul_add(table, PARAMS_I4(.m = 35, .n = 18, .k = 53, .data_a = data[i], .data_b = bytes));
      check_matmul_add(table, PARAMS_I4(.m = 1, .n = 70, .k = 65, .data_a = data[i], .data_b = bytes, .bias = BIAS_ROW,
                                        .activation = 1 + i % 4));
    }
  }
  for (int32_t i = 0; i < COUNT_OF(scales); i++) {
    check_matmul_add(table, PARAMS_I4(.m = 7, .n = 40, .k = 53, .data_scales = scales[i]));
    check_matmul_add(table, PARAMS_I4(.m = 1, .n = 40, .k = 160, .data_scales = scales[i], .alpha = 0.5f));
    check_matmul_add(table, PARAMS_I4(.m = 7, .n = 40, .k = 53, .data_a = CHECK_ZERO, .data_scales = scales[i]));
  }
}

void check_perf_matmul_i4(check_table *table)
{
  static const int32_t rows[] = {1, 8, 32, 64, 256}, sizes[][2] = {{512, 512}, {2048, 512}, {512, 2048}, {37000, 512}};

  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    for (int32_t j = 0; j < COUNT_OF(rows); j++) {
      check_matmul_add(table, PARAMS_I4(.m = rows[j], .n = sizes[i][0], .k = sizes[i][1], .bias = BIAS_ROW));
    }
  }
}

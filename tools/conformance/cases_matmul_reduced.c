/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of matmul: reduced precision.
 */
#include "tools/conformance/cases_matmul.h"

/* a and b of f32, both rounded. */
static void add_rounded_pair(check_table *table, matmul_params p)
{
  p.dtype = TSR_F32;
  p.reduced = TSR_F16;
  check_matmul_add(table, p);
  p.reduced = TSR_BF16;
  check_matmul_add(table, p);
}

/* Products whose factors are both rounded, each axis contiguous in turn: of a gradient a has its rows side by side. */
static void add_rounded(check_table *table)
{
  static const int32_t sizes[][3] = {{40, 24, 56},  {64, 64, 32},    {136, 264, 72}, {16, 128, 1032},
                                     {33, 40, 24},  {40, 33, 24},    {40, 40, 25},   {8, 8, 8},
                                     {24, 512, 40}, {264, 16, 2056}, {1, 40, 16},    {128, 128, 200}};
  static const int32_t data[][2] = {{CHECK_LARGE, CHECK_NORMAL}, {CHECK_BIG, CHECK_BIG},
                                    {CHECK_NORMAL, CHECK_TINY},  {CHECK_INF, CHECK_NORMAL},
                                    {CHECK_NORMAL, CHECK_NAN},   {CHECK_SPECIAL, CHECK_ZERO},
                                    {CHECK_NORMAL, CHECK_BIG},   {CHECK_POSITIVE, CHECK_MIXED}};
  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    matmul_params p = PARAMS(.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2], .varies = i % 2);
    p.bias = i % 2 ? BIAS_ROW : BIAS_NONE;
    for (int32_t j = 0; j < 4; j++) {
      p.view_a = j % 2 ? CHECK_TRANSPOSED : CHECK_DENSE;
      p.view_b = j / 2 ? CHECK_TRANSPOSED : CHECK_DENSE;
      p.data_a = p.data_b = (i + j) % 3 ? CHECK_INTEGER : CHECK_NORMAL;
      add_rounded_pair(table, p);
    }
  }
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    add_rounded_pair(table, PARAMS(.m = 32, .n = 24, .k = 40, .data_a = data[i][0], .data_b = data[i][1],
                                   .view_a = i % 2 ? CHECK_TRANSPOSED : CHECK_DENSE,
                                   .view_b = i / 2 % 2 ? CHECK_TRANSPOSED : CHECK_DENSE));
  }
  for (int32_t i = 0; i <= BATCH_0; i++) {
    add_rounded_pair(table, PARAMS(.m = 24, .n = 40, .k = 16, .batch = i, .bias = BIAS_FULL,
                                   .view_a = i % 2 ? CHECK_TRANSPOSED : CHECK_PADDED_T));
  }
  add_rounded_pair(table, PARAMS(.m = 1048, .n = 296, .k = 80, .data_a = CHECK_INTEGER, .data_b = CHECK_INTEGER,
                                 .view_a = CHECK_TRANSPOSED));
}

void check_matmul_add_reduced(check_table *table, matmul_params p)
{
  p.reduced = 1;
  p.dtype = TSR_F16;
  check_matmul_add(table, p);
  p.dtype = TSR_BF16;
  check_matmul_add(table, p);
}

/* Products of reduced precision. Small whole numbers are exact in both types, so that every element that is missed or
 * met twice shows; of other numbers the bound tells best where few are summed. */
static void add_reduced(check_table *table)
{
  static const int32_t sizes[][3] = {{1, 64, 64},    {2, 33, 70},     {4, 512, 512},  {5, 16, 16},   {8, 8, 8},
                                     {16, 16, 16},   {17, 16, 15},    {16, 17, 33},   {15, 31, 16},  {32, 32, 32},
                                     {33, 65, 48},   {64, 64, 64},    {64, 129, 96},  {65, 63, 130}, {100, 257, 31},
                                     {128, 128, 32}, {129, 128, 64},  {127, 260, 80}, {257, 96, 36}, {20, 1031, 24},
                                     {64, 48, 1031}, {200, 200, 200}, {70, 290, 1100}};
  static const int32_t views[] = {CHECK_DENSE,   CHECK_TRANSPOSED, CHECK_PADDED,
                                  CHECK_STRIDED, CHECK_PADDED_T,   CHECK_OFFSET};
  static const int32_t data[][2] = {
      {CHECK_LARGE, CHECK_NORMAL},     {CHECK_BIG, CHECK_BIG},      {CHECK_TINY, CHECK_NORMAL},
      {CHECK_MIXED, CHECK_MIXED},      {CHECK_INF, CHECK_NORMAL},   {CHECK_NAN, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_INF},       {CHECK_NORMAL, CHECK_NAN},   {CHECK_NORMAL, CHECK_TINY},
      {CHECK_EXTREME, CHECK_UNIFORM},  {CHECK_SPECIAL, CHECK_ZERO}, {CHECK_POSITIVE, CHECK_POSITIVE},
      {CHECK_POSITIVE, CHECK_EXTREME}, {CHECK_INF, CHECK_ZERO},     {CHECK_TINY, CHECK_INF},
  };

  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    matmul_params p = PARAMS(.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2], .view_b = CHECK_TRANSPOSED);
    p.bias = i % 2 ? BIAS_ROW : BIAS_NONE;
    p.activation = i % 3 == 1 ? TSR_ACTIVATION_RELU : TSR_ACTIVATION_NONE;
    p.data_a = p.data_b = CHECK_INTEGER;
    check_matmul_add_reduced(table, p);
    p.data_a = p.data_b = CHECK_NORMAL;
    p.view_b = i % 4 == 3 ? CHECK_DENSE : CHECK_TRANSPOSED;
    check_matmul_add_reduced(table, p);
    p.varies = 1;
    p.data_a = p.data_b = CHECK_INTEGER;
    p.view_b = CHECK_DENSE;
    check_matmul_add_reduced(table, p);
  }
  for (int32_t i = 1; i <= 8; i++) { /* short sums, whose bound is sharp */
    check_matmul_add_reduced(table, PARAMS(.m = 70, .n = 35, .k = i));
    check_matmul_add_reduced(table, PARAMS(.m = 3, .n = 64, .k = i, .view_b = CHECK_TRANSPOSED));
  }
  for (int32_t i = 0; i < COUNT_OF(views); i++) {
    for (int32_t j = 0; j < COUNT_OF(views); j++) {
      check_matmul_add_reduced(table, PARAMS(.m = 37, .n = 34, .k = 50, .view_a = views[i], .view_b = views[j],
                                             .batch = i == j ? BATCH_3 : BATCH_NONE, .bias = (i + j) % BIAS_COUNT,
                                             .activation = (i + 2 * j) % 5));
    }
  }
  for (int32_t i = 0; i <= BATCH_0; i++) {
    check_matmul_add_reduced(table, PARAMS(.m = 20, .n = 40, .k = 24, .batch = i, .bias = BIAS_FULL));
    check_matmul_add_reduced(table, PARAMS(.m = 1, .n = 40, .k = 24, .batch = i, .view_b = CHECK_TRANSPOSED));
  }
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    check_matmul_add_reduced(table, PARAMS(.m = 35, .n = 18, .k = 21, .data_a = data[i][0], .data_b = data[i][1]));
    check_matmul_add_reduced(table,
                             PARAMS(.m = 64, .n = 32, .k = 1 + i % 3, .data_a = data[i][0], .data_b = data[i][1]));
    check_matmul_add_reduced(table, PARAMS(.m = 1, .n = 70, .k = 33, .data_a = data[i][0], .data_b = data[i][1],
                                           .view_b = CHECK_TRANSPOSED, .bias = BIAS_ROW));
  }
  for (int32_t i = 0; i < COUNT_OF(data);
       i++) { /* whole groups of eight: what instructions that multiply small matrices take */
    check_matmul_add_reduced(table, PARAMS(.m = 35, .n = 24, .k = 40, .data_a = data[i][0], .data_b = data[i][1],
                                           .view_b = i % 2 ? CHECK_TRANSPOSED : CHECK_DENSE));
  }
  for (int32_t i = 0; i < COUNT_OF(views); i++) {
    for (int32_t j = 0; j < COUNT_OF(views); j++) {
      check_matmul_add_reduced(table, PARAMS(.m = 37, .n = 40, .k = 56, .view_a = views[i], .view_b = views[j],
                                             .batch = (i + j) % 2 ? BATCH_3 : BATCH_NONE, .bias = (i + j) % BIAS_COUNT,
                                             .activation = (i + 2 * j) % 5));
    }
  }
  check_matmul_add_reduced(table,
                           PARAMS(.m = 1050, .n = 296, .k = 72, .data_a = CHECK_INTEGER, .data_b = CHECK_INTEGER));
  check_matmul_add_reduced(table,
                           PARAMS(.m = 64, .n = 64, .k = 32, .alpha = 0.125f, .bias = BIAS_ROW, .activation = 4));
  check_matmul_add_reduced(table,
                           PARAMS(.m = 16, .n = 20, .k = 20011, .data_a = CHECK_INTEGER, .data_b = CHECK_INTEGER));
  check_matmul_add_reduced(table,
                           PARAMS(.m = 2053, .n = 16, .k = 16, .data_a = CHECK_INTEGER, .data_b = CHECK_INTEGER));
  for (int32_t i = 0; i < 3; i++) {
    check_matmul_add_reduced(table,
                             PARAMS(.m = i == 0 ? 0 : 5, .n = i == 1 ? 0 : 7, .k = i == 2 ? 0 : 3, .bias = BIAS_ROW));
  }
}

void check_cases_matmul_reduced(check_table *table)
{
  add_reduced(table);
  add_rounded(table);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of matmul.
 */
#include <stdio.h>

#include "tools/conformance/cases_matmul.h"

/* Leading extents of a and b. */
typedef struct batch {
  const char *name;
  int32_t rank_a, rank_b;
  int64_t a[2], b[2];
} batch;

static const batch batches[] = {
    [BATCH_NONE] = {"none", 0, 0, {0}, {0}},
    [BATCH_ONE] = {"1", 1, 1, {1}, {1}},
    [BATCH_3] = {"3", 1, 1, {3}, {3}},
    [BATCH_2X3] = {"2x3", 2, 2, {2, 3}, {2, 3}},
    [BATCH_B_SHARED] = {"2x3,", 2, 0, {2, 3}, {0}},
    [BATCH_A_SHARED] = {",2x3", 0, 2, {0}, {2, 3}},
    [BATCH_CROSS] = {"2x1,1x3", 2, 2, {2, 1}, {1, 3}},
    [BATCH_RANKS] = {"3,2x3", 1, 2, {3}, {2, 3}},
    [BATCH_0] = {"0", 1, 1, {0}, {0}},
    [BATCH_DRAWN] = {"", 2, 2, {0}, {0}}, /* of the parameters' extents */
};

static const char *const bias_names[] = {"none", "row", "column", "full", "one"};
static const char *const activation_names[] = {"none", "relu", "gelu_erf", "gelu_tanh", "silu"};

static const char *const bytes_names[] = {"any", "small", "ends", "lowest"};

static batch batch_of(const matmul_params *p)
{
  batch lead = batches[p->batch];

  for (int32_t i = 0; i < 2 && p->batch == BATCH_DRAWN; i++) {
    lead.a[i] = lead.b[i] = p->leading[i];
  }
  return lead;
}

static tsr_shape with_batch(int32_t rank, const int64_t *leading, int64_t rows, int64_t columns)
{
  tsr_shape shape = tsr_shape_make(rank, leading);

  shape.rank = rank + 2;
  shape.extent[rank] = rows;
  shape.extent[rank + 1] = columns;
  return shape;
}

static check_fill fill_b(const matmul_params *p)
{
  enum { FOUR_BITS = BYTES_LOWEST + 1 };
  static const int32_t ends[] = {-128, 127, -128, -128, 127, -128, -128};
  static const int32_t half_ends[] = {0, -1, 0, -16, 15, 0, 0},
                       small_halves[] = {-120, -119, -103, -121, -104, -137 + 256};

  if (p->dtype != TSR_I8) {
    return CHECK_FILL(.data = (check_data)p->data_b);
  }
  switch (p->data_b + (p->four_bits ? FOUR_BITS : 0)) {
  case BYTES_SMALL + FOUR_BITS: /* halves of 7, 8 and 9, which stand for -1 .. 1 */
    return CHECK_FILL(.list = small_halves, .n_list = COUNT_OF(small_halves));
  case BYTES_ENDS + FOUR_BITS:
    return CHECK_FILL(.list = half_ends, .n_list = COUNT_OF(half_ends));
  case BYTES_LOWEST + FOUR_BITS:
    return CHECK_FILL(.low = 0, .high = 0);
  case BYTES_SMALL:
    return CHECK_FILL(.low = -2, .high = 2);
  case BYTES_ENDS:
    return CHECK_FILL(.list = ends, .n_list = COUNT_OF(ends));
  case BYTES_LOWEST:
    return CHECK_FILL(.low = -128, .high = -128);
  default:
    return CHECK_FILL(.low = -128, .high = 127);
  }
}

static void build_matmul(check_build *build, const void *data)
{
  const matmul_params *p = data;
  const batch lead = batch_of(p);
  tsr_shape shape_a = with_batch(lead.rank_a, lead.a, p->m, p->k);
  const int64_t groups = (p->k + TSR_I4_GROUP - 1) / TSR_I4_GROUP;
  tsr_shape shape_b = with_batch(lead.rank_b, lead.b, p->four_bits ? groups * TSR_I4_BYTES : p->k, p->n);
  tsr_ref bias = TSR_NONE, y;
  check_fill fill = CHECK_FILL(.data = p->data_a == CHECK_INTEGER ? CHECK_INTEGER : CHECK_NORMAL);
  int32_t kind = lead.rank_b == 0 && !p->varies ? TSR_STORAGE_CONSTANT : TSR_STORAGE_INPUT;
  /* rows and columns can be cut */
  const int32_t column[TSR_MAX_RANK] = {CHECK_DIMENSION_2}, row[TSR_MAX_RANK] = {CHECK_DIMENSION_1};
  int32_t rows[TSR_MAX_RANK] = {CHECK_UNCUT}, columns[TSR_MAX_RANK] = {CHECK_UNCUT}, both[TSR_MAX_RANK] = {CHECK_UNCUT};

  rows[lead.rank_a] = CHECK_DIMENSION_1;
  columns[lead.rank_b + 1] = CHECK_DIMENSION_2;
  tsr_ref a = check_operand_cut(build, TSR_STORAGE_INPUT, TSR_F32, shape_a, (check_view)p->view_a,
                                CHECK_FILL(.data = (check_data)p->data_a), rows);
  tsr_ref b = check_operand_cut(build, kind, p->dtype, shape_b, (check_view)p->view_b, fill_b(p), columns);
  tsr_shape full = with_batch(lead.rank_a > lead.rank_b ? lead.rank_a : lead.rank_b,
                              lead.rank_a > lead.rank_b ? lead.a : lead.b, p->m, p->n);
  if (p->batch == BATCH_CROSS) {
    full.extent[0] = lead.a[0];
  }
  both[full.rank - 2] = CHECK_DIMENSION_1;
  both[full.rank - 1] = CHECK_DIMENSION_2;
  if (p->bias == BIAS_ROW) {
    bias = check_operand_cut(build, TSR_STORAGE_CONSTANT, TSR_F32, TSR_SHAPE(p->n), CHECK_DENSE, fill, column);
  } else if (p->bias == BIAS_COLUMN) {
    bias = check_operand_cut(build, TSR_STORAGE_INPUT, TSR_F32, TSR_SHAPE(p->m, 1), CHECK_DENSE, fill, row);
  } else if (p->bias == BIAS_FULL) {
    bias = check_operand_cut(build, TSR_STORAGE_INPUT, TSR_F32, full, CHECK_PADDED, fill, both);
  } else if (p->bias == BIAS_ONE) {
    bias = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, TSR_SHAPE(1), CHECK_DENSE, fill);
  }
  if (p->four_bits) {
    const int32_t columns_of_scales[TSR_MAX_RANK] = {CHECK_UNCUT, CHECK_DIMENSION_2};
    tsr_ref scales = check_operand_cut(build, kind, TSR_F16, TSR_SHAPE(groups, p->n), (check_view)p->view_scales,
                                       CHECK_FILL(.data = (check_data)p->data_scales), columns_of_scales);
    y = tsr_matmul_i4(build->program, a, b, scales, bias, p->alpha, p->activation);
  } else if (p->dtype == TSR_I8) {
    tsr_ref scales = check_operand_cut(build, kind, TSR_F32, TSR_SHAPE(p->n), (check_view)p->view_scales,
                                       CHECK_FILL(.data = (check_data)p->data_scales), column);
    y = tsr_matmul_i8(build->program, a, b, scales, bias, p->alpha, p->activation);
  } else {
    y = p->reduced > 1 ? tsr_matmul_rounded(build->program, a, b, bias, p->alpha, p->activation, p->reduced)
                       : (p->reduced ? tsr_matmul_reduced_precision : tsr_matmul)(build->program, a, b, bias, p->alpha,
                                                                                  p->activation);
  }
  check_output_cut(build, "y", y, both);
}

/* Blocks of a product at whose depth the reference takes long for all of it. */
static void cut(check_case *test, const matmul_params *p)
{
  if ((double)p->m * (double)p->n * (double)p->k > 1e7) {
    check_case_cut(test, 8, p->m, 8, p->n, 64);
  }
}

void check_matmul_add(check_table *table, matmul_params p)
{
  const int quantised = p.dtype == TSR_I8;
  const char *data_b = quantised ? bytes_names[p.data_b] : check_data_name((check_data)p.data_b);
  const char *dtype = p.four_bits ? "i4" : tsr_dtype_name(p.dtype);
  char view_scales[32] = "", data_scales[32] = "", leading[32], rounded[32] = "";

  if (p.reduced) {
    snprintf(rounded, sizeof(rounded), ",narrow%s%s", p.reduced > 1 ? " " : "",
             p.reduced > 1 ? tsr_dtype_name(p.reduced) : "");
  }
  snprintf(leading, sizeof(leading), "%s", batches[p.batch].name);
  if (p.batch == BATCH_DRAWN) {
    snprintf(leading, sizeof(leading), "%dx%d", (int)p.leading[0], (int)p.leading[1]);
  }
  if (quantised) {
    snprintf(view_scales, sizeof(view_scales), "/%s", check_view_name((check_view)p.view_scales));
    snprintf(data_scales, sizeof(data_scales), "/%s", check_data_name((check_data)p.data_scales));
  }
  check_case *test = check_table_add(
      table, TSR_OP_MATMUL, build_matmul, &p, sizeof(p),
      "matmul(M=%d,N=%d,K=%d,batch=%s,b=%s%s,bias=%s,act=%s,view=%s/%s%s,alpha=%g,data=%s/%s%s%s)", (int)p.m, (int)p.n,
      (int)p.k, leading, dtype, p.varies ? " input" : "", bias_names[p.bias], activation_names[p.activation],
      check_view_name((check_view)p.view_a), check_view_name((check_view)p.view_b), view_scales, (double)p.alpha,
      check_data_name((check_data)p.data_a), data_b, data_scales, rounded);
  if (table->large) {
    cut(test, &p);
  }
}

/* Every size in every place, the other two around a tile of 16; the rest drawn. Whole numbers every other time: exact.
 * */
static void add_sizes(check_table *table)
{
  static const int32_t others[][2] = {{17, 31}, {16, 64}, {5, 13}, {33, 8}};

  for (int32_t i = 0; i < COUNT_OF(check_sizes); i++) {
    for (int32_t place = 0; place < 4; place++) {
      uint64_t at = 4 * (uint64_t)i + (uint64_t)place;
      const int32_t *other = others[check_choose(11, at, 4)];
      matmul_params p = PARAMS(.m = other[0], .n = other[1], .k = other[0] + 2);
      if (place == 0) {
        p.m = check_sizes[i];
      } else if (place == 1) {
        p.n = check_sizes[i];
      } else if (place == 2) {
        p.k = check_sizes[i];
      } else {
        p.m = p.n = p.k = check_sizes[i];
      }
      p.dtype = check_float_dtypes[check_choose(12, at, 3)];
      p.bias = check_choose(13, at, BIAS_COUNT);
      p.view_b = check_choose(14, at, 2) ? CHECK_TRANSPOSED : CHECK_DENSE;
      p.data_a = p.data_b = check_choose(15, at, 2) ? CHECK_INTEGER : CHECK_NORMAL;
      check_matmul_add(table, p);
    }
  }
  for (int32_t i = 0; i < 48; i++) {
    uint64_t at = (uint64_t)i;
    check_matmul_add(
        table, PARAMS(.m = 1 + check_choose(21, at, 70), .n = 1 + check_choose(22, at, 140),
                      .k = 1 + check_choose(23, at, 140), .batch = check_choose(24, at, BATCH_RANKS + 1),
                      .dtype = check_float_dtypes[check_choose(25, at, 3)], .bias = check_choose(26, at, BIAS_COUNT),
                      .activation = check_choose(27, at, 5), .view_a = check_choose(28, at, CHECK_REVERSED),
                      .view_b = check_choose(29, at, CHECK_REVERSED), .data_a = CHECK_NORMAL, .data_b = CHECK_NORMAL));
  }
}

/* One row: what a decoding step multiplies; and few rows by long ones. */
static void add_vectors(check_table *table)
{
  static const int32_t n[] = {1, 7, 64, 255, 256, 1031, 5001}, k[] = {1, 31, 64, 256, 1031};

  for (int32_t i = 0; i < COUNT_OF(n); i++) {
    for (int32_t j = 0; j < COUNT_OF(k); j++) {
      int32_t d = check_choose(31, 8 * (uint64_t)i + (uint64_t)j, 3);
      check_matmul_add(table, PARAMS(.m = 1 + j % 2, .n = n[i], .k = k[j], .dtype = check_float_dtypes[d],
                                     .bias = BIAS_ROW, .view_b = i % 2 ? CHECK_TRANSPOSED : CHECK_DENSE,
                                     .data_a = j % 2 ? CHECK_INTEGER : CHECK_NORMAL,
                                     .data_b = j % 2 ? CHECK_INTEGER : CHECK_NORMAL));
    }
  }
  for (int32_t d = 0; d < 3; d++) {
    tsr_dtype dtype = check_float_dtypes[d];
    check_matmul_add(table, PARAMS(.m = 4, .n = 3, .k = 5001, .dtype = dtype));
    check_matmul_add(table, PARAMS(.m = 1, .n = 2, .k = 20011, .dtype = dtype, .view_b = CHECK_TRANSPOSED));
    check_matmul_add(table, PARAMS(.m = 300, .n = 129, .k = 67, .dtype = dtype, .bias = BIAS_ROW));
    check_matmul_add(table, PARAMS(.m = 129, .n = 512, .k = 128, .dtype = dtype, .view_b = CHECK_TRANSPOSED,
                                   .data_a = CHECK_INTEGER, .data_b = CHECK_INTEGER));
    check_matmul_add(table, PARAMS(.m = 128, .n = 128, .k = 128, .dtype = dtype, .activation = TSR_ACTIVATION_RELU,
                                   .bias = BIAS_ROW));
    check_matmul_add(
        table, PARAMS(.m = 2053, .n = 3, .k = 5, .dtype = dtype, .data_a = CHECK_INTEGER, .data_b = CHECK_INTEGER));
  }
  /* more workgroups than many devices take along one axis, and not a multiple: 65,535 tiles of 8 rows and some */
  /* more rounds of a loop than a driver may grant */
  check_matmul_add(table, PARAMS(.m = 9, .n = 3, .k = 70001));
  check_matmul_add(table, PARAMS(.m = 530001, .n = 1, .k = 1, .data_a = CHECK_INTEGER, .data_b = CHECK_INTEGER));
  /* beyond what many drivers let one binding reach: 131,073 * 256 * 4 bytes */
  check_matmul_add(table, PARAMS(.m = 33, .n = 18, .k = 7, .view_b = CHECK_FAR, .dtype = TSR_F16));
  check_matmul_add(table, PARAMS(.m = 1, .n = 131073, .k = 256, .view_b = CHECK_TRANSPOSED, .data_a = CHECK_INTEGER,
                                 .data_b = CHECK_INTEGER));
}

static void add_forms(check_table *table)
{
  static const int32_t views[] = {CHECK_DENSE,   CHECK_TRANSPOSED, CHECK_PADDED,
                                  CHECK_STRIDED, CHECK_PADDED_T,   CHECK_OFFSET};
  static const float alphas[] = {0.0f, -1.0f, 0.125f, 1e-3f, 3.0f};

  for (int32_t d = 0; d < 3; d++) {
    for (int32_t i = 0; i < 5; i++) {
      for (int32_t j = 0; j < BIAS_COUNT; j++) {
        check_matmul_add(table, PARAMS(.m = 17, .n = 33, .k = 19, .dtype = check_float_dtypes[d], .activation = i,
                                       .bias = j, .batch = (i + j) % 2 ? BATCH_NONE : BATCH_3));
      }
    }
    for (int32_t i = 0; i < COUNT_OF(views); i++) {
      for (int32_t j = 0; j < COUNT_OF(views); j++) {
        check_matmul_add(table, PARAMS(.m = 13, .n = 21, .k = 18, .dtype = check_float_dtypes[d], .view_a = views[i],
                                       .view_b = views[j], .batch = i == j ? BATCH_3 : BATCH_NONE));
      }
    }
    for (int32_t i = 0; i < BATCH_0; i++) {
      check_matmul_add(table,
                       PARAMS(.m = 9, .n = 18, .k = 11, .dtype = check_float_dtypes[d], .batch = i, .bias = BIAS_FULL));
      check_matmul_add(table, PARAMS(.m = 1, .n = 33, .k = 16, .dtype = check_float_dtypes[d], .batch = i,
                                     .bias = BIAS_ROW, .view_b = CHECK_TRANSPOSED));
      check_matmul_add(table, PARAMS(.m = 4, .n = 7, .k = 8, .dtype = check_float_dtypes[d], .batch = i,
                                     .view_a = CHECK_HEADS, .view_b = CHECK_REVERSED));
    }
    check_matmul_add(table, PARAMS(.m = 5, .n = 6, .k = 7, .dtype = check_float_dtypes[d], .view_a = CHECK_BROADCAST));
    check_matmul_add(table, PARAMS(.m = 5, .n = 6, .k = 7, .dtype = check_float_dtypes[d], .view_b = CHECK_BROADCAST));
    check_matmul_add(table,
                     PARAMS(.m = 5, .n = 66, .k = 7, .dtype = check_float_dtypes[d], .view_b = CHECK_BROADCAST_LAST));
    check_matmul_add(table,
                     PARAMS(.m = 5, .n = 6, .k = 70, .dtype = check_float_dtypes[d], .view_a = CHECK_BROADCAST_LAST));
    check_matmul_add(table, PARAMS(.m = 20, .n = 20, .k = 20, .dtype = check_float_dtypes[d], .view_a = CHECK_SCALAR,
                                   .view_b = CHECK_SCALAR));
  }
  for (int32_t i = 0; i < COUNT_OF(alphas); i++) {
    check_matmul_add(table, PARAMS(.m = 6, .n = 20, .k = 9, .alpha = alphas[i], .bias = BIAS_ROW));
    check_matmul_add(table,
                     PARAMS(.m = 1, .n = 67, .k = 65, .alpha = alphas[i], .dtype = TSR_BF16, .activation = 1 + i % 4));
  }
}

/* What training multiplies: b changes from run to run, a or b may be transposed. Extents around those at which a device
 * may cut the matrices. Whole numbers every other time: exact. */
static void add_varying(check_table *table)
{
  static const int32_t m[] = {191, 193, 385, 260}, n[] = {129, 64, 63, 257}, k[] = {257, 255, 300, 96};
  static const int32_t views[] = {CHECK_DENSE, CHECK_TRANSPOSED, CHECK_PADDED, CHECK_PADDED_T, CHECK_STRIDED};
  static const int32_t by_fours[][3] = {{4, 4, 1},      {8, 12, 7},     {12, 68, 33},   {36, 100, 67},
                                        {132, 64, 130}, {20, 24, 2050}, {64, 80, 3072}, {100, 4, 512}};
  static const int32_t batches_of_large[] = {BATCH_3, BATCH_B_SHARED, BATCH_CROSS};

  for (int32_t i = 0; i < COUNT_OF(views); i++) {
    for (int32_t j = 0; j < COUNT_OF(views); j++) {
      uint64_t at = (uint64_t)(COUNT_OF(views) * i + j);
      check_matmul_add(table,
                       PARAMS(.varies = 1, .m = m[at % 4], .n = n[(at + at / 4) % 4], .k = k[check_choose(41, at, 4)],
                              .dtype = check_float_dtypes[check_choose(42, at, 3)], .bias = (i + j) % BIAS_COUNT,
                              .activation = check_choose(43, at, 5), .view_a = views[i], .view_b = views[j],
                              .data_a = at % 2 ? CHECK_INTEGER : CHECK_NORMAL,
                              .data_b = at % 2 ? CHECK_INTEGER : CHECK_NORMAL));
    }
  }
  for (int32_t i = 0; i < BATCH_0; i++) {
    check_matmul_add(table, PARAMS(.varies = 1, .m = 100, .n = 33, .k = 70, .batch = i, .bias = BIAS_ROW,
                                   .view_a = CHECK_TRANSPOSED, .activation = TSR_ACTIVATION_RELU));
  }
  for (int32_t i = 0; i < COUNT_OF(by_fours); i++) {
    check_matmul_add(table, PARAMS(.varies = 1, .m = by_fours[i][0], .n = by_fours[i][1], .k = by_fours[i][2],
                                   .batch = i % BATCH_0, .dtype = check_float_dtypes[i % 3], .bias = i % BIAS_COUNT,
                                   .view_a = CHECK_TRANSPOSED));
    check_matmul_add(table, PARAMS(.varies = 1, .m = by_fours[i][0], .n = by_fours[i][1], .k = by_fours[i][2],
                                   .view_a = CHECK_TRANSPOSED, .data_a = CHECK_INTEGER, .data_b = CHECK_INTEGER));
  }
  for (int32_t i = 0; i < COUNT_OF(batches_of_large); i++) {
    check_matmul_add(table, PARAMS(.varies = 1, .m = 210, .n = 90, .k = 240, .batch = batches_of_large[i],
                                   .bias = BIAS_ROW + i, .view_b = i % 2 ? CHECK_TRANSPOSED : CHECK_DENSE,
                                   .data_a = CHECK_INTEGER, .data_b = CHECK_INTEGER));
  }
  check_matmul_add(
      table, PARAMS(.varies = 1, .m = 300, .n = 129, .k = 110, .view_a = CHECK_BROADCAST, .view_b = CHECK_TRANSPOSED));
  check_matmul_add(table, PARAMS(.varies = 1, .m = 300, .n = 129, .k = 110, .view_a = CHECK_TRANSPOSED,
                                 .view_b = CHECK_BROADCAST_LAST));
  check_matmul_add(table, PARAMS(.varies = 1, .m = 300, .n = 129, .k = 110, .view_a = CHECK_BROADCAST_LAST));
  check_matmul_add(table, PARAMS(.varies = 1, .m = 300, .n = 129, .k = 110, .view_a = CHECK_TRANSPOSED,
                                 .data_a = CHECK_NAN, .data_b = CHECK_INF));
  check_matmul_add(table, PARAMS(.varies = 1, .m = 5, .n = 7, .k = 0, .bias = BIAS_ROW));
}

/* Matrices that change and are larger than what a device may lay out at a time: in depth, in columns, in rows. */
static void add_varying_large(check_table *table)
{
  static const int32_t views[][2] = {{CHECK_TRANSPOSED, CHECK_DENSE},
                                     {CHECK_TRANSPOSED, CHECK_DENSE},
                                     {CHECK_TRANSPOSED, CHECK_TRANSPOSED},
                                     {CHECK_TRANSPOSED, CHECK_DENSE},
                                     {CHECK_DENSE, CHECK_DENSE}};
  static const int32_t sizes[][3] = {
      {13, 520, 2100}, {20, 40, 16500}, {8, 4100, 260}, {1100, 70, 1030}, {193, 66, 8300}};

  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    check_matmul_add(
        table, PARAMS(.varies = 1, .m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2], .view_a = views[i][0],
                      .view_b = views[i][1], .bias = BIAS_ROW, .activation = i % 2 ? TSR_ACTIVATION_RELU : 0,
                      .data_a = i % 2 ? CHECK_INTEGER : CHECK_NORMAL, .data_b = i % 2 ? CHECK_INTEGER : CHECK_NORMAL));
  }
}

/* Products of real models: many rows, a vocabulary's columns, a long sum. Whole numbers: exact, so that each counts. */
static void add_large(check_table *table)
{
  static const int32_t sizes[][3] = {{2003, 260, 64}, {9, 32003, 64}, {1, 32003, 64}, {9, 20, 32003}};
  static const tsr_dtype dtypes[] = {TSR_F32, TSR_F16, TSR_BF16, TSR_I8};

  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    for (int32_t j = 0; j < COUNT_OF(dtypes); j++) {
      matmul_params p =
          PARAMS(.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2], .dtype = dtypes[j], .bias = BIAS_ROW);
      p.data_a = dtypes[j] != TSR_I8 ? CHECK_INTEGER : p.k > 1000 ? CHECK_SPIKE : CHECK_CONSTANT;
      p.data_b = dtypes[j] == TSR_I8 ? 0 : CHECK_INTEGER; /* bytes: any */
      p.view_b = CHECK_TRANSPOSED;
      check_matmul_add(table, p);
      if (dtypes[j] == TSR_F16 || dtypes[j] == TSR_BF16) {
        p.reduced = 1;
        p.n = (p.n + 7) / 8 * 8;
        p.k = (p.k + 7) / 8 * 8;
        check_matmul_add(table, p);
      } else if (dtypes[j] == TSR_F32) { /* as in training */
        p.varies = 1;
        p.view_b = CHECK_DENSE;
        p.view_a = CHECK_TRANSPOSED;
        check_matmul_add(table, p);
      } else { /* the same of four bits, and four sixteens */
        check_matmul_add(table, PARAMS_I4(.m = p.m, .n = p.n, .k = p.k, .bias = BIAS_ROW));
        p.n = (p.n + 15) / 16 * 16;
        p.k = (p.k + 15) / 16 * 16;
        check_matmul_add(table, p);
      }
    }
  }
  check_matmul_add(table, PARAMS(.m = 1, .n = 250112, .k = 16, .view_b = CHECK_TRANSPOSED, .data_a = CHECK_INTEGER,
                                 .data_b = CHECK_INTEGER));
}

static void add_empty(check_table *table)
{
  for (int32_t i = 0; i < 4; i++) {
    for (int32_t bias = BIAS_NONE; bias <= BIAS_ROW; bias++) {
      check_matmul_add(table, PARAMS(.m = i == 0 ? 0 : 5, .n = i == 1 ? 0 : 7, .k = i == 2 ? 0 : 3, .bias = bias,
                                     .batch = i == 3 ? BATCH_0 : BATCH_NONE));
    }
  }
  check_matmul_add(table, PARAMS(.m = 17, .n = 65, .k = 0, .bias = BIAS_FULL, .activation = TSR_ACTIVATION_GELU_ERF));
  check_matmul_add(table, PARAMS(.m = 1, .n = 65, .k = 0, .bias = BIAS_ROW, .activation = TSR_ACTIVATION_SILU));
  check_matmul_add(table, PARAMS(.m = 3, .n = 4, .k = 0, .batch = BATCH_2X3, .dtype = TSR_F16));
}

static void add_values(check_table *table)
{
  static const int32_t data[][2] = {
      {CHECK_LARGE, CHECK_NORMAL}, {CHECK_BIG, CHECK_BIG},          {CHECK_TINY, CHECK_NORMAL},
      {CHECK_MIXED, CHECK_MIXED},  {CHECK_CANCEL, CHECK_ASCENDING}, {CHECK_ZERO, CHECK_NORMAL},
      {CHECK_INF, CHECK_NORMAL},   {CHECK_NAN, CHECK_NORMAL},       {CHECK_NORMAL, CHECK_EXTREME},
      {CHECK_NORMAL, CHECK_TINY},  {CHECK_NORMAL, CHECK_SPECIAL},   {CHECK_INF, CHECK_ZERO},
      {CHECK_NORMAL, CHECK_INF},   {CHECK_NORMAL, CHECK_NAN},       {CHECK_INTEGER, CHECK_INTEGER},
  };

  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    for (int32_t d = 0; d < 3; d++) {
      check_matmul_add(table, PARAMS(.m = 35, .n = 18, .k = 21, .dtype = check_float_dtypes[d], .data_a = data[i][0],
                                     .data_b = data[i][1]));
      check_matmul_add(table, PARAMS(.m = 1, .n = 70, .k = 33, .dtype = check_float_dtypes[d], .data_a = data[i][0],
                                     .data_b = data[i][1], .view_b = CHECK_TRANSPOSED));
    }
  }
  for (int32_t i = 0; i < 5; i++) {
    check_matmul_add(table,
                     PARAMS(.m = 7, .n = 18, .k = 5, .activation = i, .data_a = CHECK_INF, .data_b = CHECK_POSITIVE));
    check_matmul_add(table,
                     PARAMS(.m = 7, .n = 18, .k = 5, .activation = i, .data_a = CHECK_LARGE, .data_b = CHECK_NORMAL));
    check_matmul_add(table,
                     PARAMS(.m = 7, .n = 18, .k = 1, .activation = i, .data_a = CHECK_WIDE, .data_b = CHECK_UNIFORM));
  }
}

static void add_perf(check_table *table)
{
  static const int32_t sizes[][3] = {{1, 256, 256},   {1, 1024, 256},  {1, 256, 1024},  {1, 16000, 256},
                                     {4, 16000, 256}, {16, 256, 256},  {64, 256, 256},  {64, 1024, 256},
                                     {64, 256, 1024}, {256, 256, 256}, {256, 512, 512}, {512, 512, 512},
                                     {512, 2048, 512}};
  static const int32_t narrow[][3] = {{64, 512, 512}, {256, 512, 512}, {512, 512, 512}, {512, 2048, 512}};

  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    for (int32_t d = 0; d < 3; d++) {
      check_matmul_add(table, PARAMS(.m = sizes[i][0], .n = sizes[i][1], .k = sizes[i][2],
                                     .dtype = check_float_dtypes[d], .bias = BIAS_ROW, .view_b = CHECK_TRANSPOSED));
    }
  }
  check_matmul_add(table, PARAMS(.m = 64, .n = 64, .k = 32, .batch = BATCH_2X3));
  for (int32_t i = 0; i < COUNT_OF(narrow); i++) {
    check_matmul_add_reduced(table, PARAMS(.m = narrow[i][0], .n = narrow[i][1], .k = narrow[i][2], .bias = BIAS_ROW,
                                           .view_b = CHECK_TRANSPOSED));
  }
  check_perf_matmul_i8(table);
  check_perf_matmul_i4(table);
}

/* How many matrices a batch has. */
static int64_t matrices(const batch *lead)
{
  int64_t n = 1;

  for (int32_t i = 0; i < lead->rank_a; i++) {
    n *= lead->a[i];
  }
  for (int32_t i = 0; i < lead->rank_b; i++) {
    n *= i < lead->rank_a && lead->a[i] == lead->b[i] ? 1 : lead->b[i];
  }
  return n;
}

/* Extents up to some hundreds: square, of few rows, or much longer one way than the others; of small types mostly in
 * whole groups, as their kernels take them. At most some 2e7 multiply-adds. */
static void draw_extents(check_draw *draw, matmul_params *p, int32_t what)
{
  const batch lead = batch_of(p);
  const int64_t n_matrices = matrices(&lead);
  int64_t *extent[] = {&p->m, &p->n, &p->k};
  int64_t group = 1;
  int32_t i, longest;

  p->m = check_draw_size(draw, 300);
  p->n = check_draw_size(draw, 400);
  p->k = check_draw_size(draw, 400);
  switch (check_draw_below(draw, 8)) {
  case 0:
  case 1:
    p->m = 1 + check_draw_below(draw, 9);
    break;
  case 2:
    p->k = check_draw_size(draw, 20000);
    break;
  case 3:
    p->n = check_draw_size(draw, 20000);
    break;
  case 4:
    p->m = check_draw_size(draw, 20000);
    break;
  case 5:
    p->m = 1 + check_draw_below(draw, 9);
    p->n = 1 + check_draw_below(draw, 260000);
    p->k = check_draw_size(draw, 40);
    break;
  default:
    break;
  }
  while ((double)(p->m + 8) * (double)(p->n + 8) * (double)(p->k + 8) * (double)n_matrices > 2e7) {
    for (longest = 0, i = 1; i < COUNT_OF(extent); i++) {
      longest = *extent[i] > *extent[longest] ? i : longest;
    }
    *extent[longest] = (*extent[longest] + 1) / 2;
  }
  if (check_draw_below(draw, 4) < (what == CHECK_MATMUL_FLOAT ? 1 : 3)) {
    group = (what == CHECK_MATMUL_I4        ? 32
             : what == CHECK_MATMUL_I8      ? 16
             : what == CHECK_MATMUL_REDUCED ? 8
                                            : 4)
            << check_draw_below(draw, 3);
    p->n = (p->n + group - 1) / group * group;
    p->k = (p->k + group - 1) / group * group;
    p->m = what == CHECK_MATMUL_REDUCED ? (p->m + group - 1) / group * group : p->m;
  }
  if (check_draw_once_in(draw, 50)) {
    *CHECK_DRAW(draw, extent) = 0;
  }
}

void check_random_matmul(check_table *table, check_draw *draw, int32_t what)
{
  static const int32_t kinds[] = {CHECK_UNIFORM,  CHECK_WIDE,   CHECK_TIES,    CHECK_LARGE,   CHECK_BIG,
                                  CHECK_TINY,     CHECK_MIXED,  CHECK_CANCEL,  CHECK_SPIKE,   CHECK_ZERO,
                                  CHECK_CONSTANT, CHECK_NEGINF, CHECK_INF,     CHECK_NAN,     CHECK_SPECIAL,
                                  CHECK_EXTREME,  CHECK_POSINF, CHECK_SHIFTED, CHECK_POSITIVE};
  static const int32_t finite[] = {CHECK_UNIFORM, CHECK_WIDE, CHECK_TINY, CHECK_ZERO, CHECK_NAN, CHECK_SPIKE};
  static const float alphas[] = {1.0f, 1.0f, 1.0f, 1.0f, -1.0f, 0.125f, 0.0f, 3.0f};
  const int is_quantised = what == CHECK_MATMUL_I8 || what == CHECK_MATMUL_I4;
  matmul_params p = PARAMS(.dtype = TSR_I8);

  if (check_draw_once_in(draw, 6)) {
    p.batch = BATCH_DRAWN;
    p.leading[0] = check_draw_size(draw, 60);
    p.leading[1] = check_draw_size(draw, 12);
  } else if (check_draw_once_in(draw, 2)) {
    p.batch = check_draw_once_in(draw, 40) ? BATCH_0 : check_draw_below(draw, BATCH_0);
  }
  draw_extents(draw, &p, what);
  p.bias = check_draw_below(draw, BIAS_COUNT);
  p.activation = check_draw_once_in(draw, 2) ? TSR_ACTIVATION_NONE : check_draw_below(draw, 5);
  p.alpha = CHECK_DRAW(draw, alphas);
  p.varies = check_draw_once_in(draw, 3);
  p.view_a = check_draw_view(draw);
  p.view_b = check_draw_below(draw, 4) < (is_quantised ? 3 : 1) ? CHECK_TRANSPOSED : check_draw_view(draw);
  p.data_a = check_draw_data(draw, kinds, COUNT_OF(kinds));
  if (is_quantised) {
    p.four_bits = what == CHECK_MATMUL_I4;
    p.view_scales = check_draw_below(draw, 4) < 3 * p.four_bits ? CHECK_TRANSPOSED : check_draw_view(draw);
    p.data_b = check_draw_below(draw, BYTES_LOWEST + 1);
    p.data_scales =
        check_draw_once_in(draw, 8) ? p.four_bits ? CHECK_DRAW(draw, finite) : CHECK_DRAW(draw, kinds) : CHECK_NORMAL;
  } else {
    p.reduced = what == CHECK_MATMUL_REDUCED;
    p.dtype = check_float_dtypes[p.reduced ? 1 + check_draw_once_in(draw, 3) : check_draw_below(draw, 3)];
    p.data_b = p.data_a == CHECK_INTEGER ? CHECK_INTEGER : check_draw_data(draw, kinds, COUNT_OF(kinds));
  }
  if (p.reduced && check_draw_once_in(draw, 3)) {
    p.reduced = p.dtype;
    p.dtype = TSR_F32;
  }
  check_matmul_add(table, p);
}

void check_cases_matmul(check_table *table)
{
  if (table->perf) {
    add_perf(table);
    return;
  }
  add_sizes(table);
  add_vectors(table);
  add_forms(table);
  add_varying(table);
  add_varying_large(table);
  add_empty(table);
  add_values(table);
  check_cases_matmul_i8(table);
  check_cases_matmul_i4(table);
  check_cases_matmul_reduced(table);
  table->large = 1;
  add_large(table);
  table->large = 0;
}

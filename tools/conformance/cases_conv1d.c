/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of conv1d.
 */
#include "tools/conformance/cases.h"

typedef struct conv1d_params {
  int64_t batch, time, in, out, kernel;
  int32_t stride, padding, bias, dtype, view_x, view_weight, data_x, data_weight;
  int32_t varies; /* 1: the weight is an input; 0: constant */
} conv1d_params;

#define PARAMS(...)                                                                                                    \
  ((conv1d_params){.batch = 1, .time = 9, .in = 5, .out = 7, .kernel = 3, .stride = 1, .dtype = TSR_F32, __VA_ARGS__})

static void build_conv1d(check_build *build, const void *data)
{
  const conv1d_params *p = data;
  const int32_t columns[TSR_MAX_RANK] = {CHECK_DIMENSION_2};
  const int32_t results[TSR_MAX_RANK] = {CHECK_UNCUT, CHECK_UNCUT, CHECK_DIMENSION_2};
  const int32_t kind = p->varies ? TSR_STORAGE_INPUT : TSR_STORAGE_CONSTANT;
  tsr_ref bias = TSR_NONE;
  tsr_ref x = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, TSR_SHAPE(p->batch, p->time, p->in),
                            (check_view)p->view_x, CHECK_FILL(.data = (check_data)p->data_x));
  tsr_ref weight =
      check_operand_cut(build, kind, p->dtype, TSR_SHAPE(p->out, p->kernel, p->in), (check_view)p->view_weight,
                        CHECK_FILL(.data = (check_data)p->data_weight), columns);

  if (p->bias) {
    bias = check_operand_cut(build, TSR_STORAGE_CONSTANT, TSR_F32, TSR_SHAPE(p->out), CHECK_DENSE,
                             CHECK_FILL(.data = p->data_x == CHECK_INTEGER ? CHECK_INTEGER : CHECK_NORMAL), columns);
  }
  check_output_cut(build, "y", tsr_conv1d(build->program, x, weight, bias, p->stride, p->padding), results);
}

static void add(check_table *table, conv1d_params p)
{
  enum { COLUMNS = 16, PARTS = 4 };
  check_case *test =
      check_table_add(table, TSR_OP_CONV1D, build_conv1d, &p, sizeof(p),
                      "conv1d(B=%d,T=%d,I=%d,O=%d,K=%d,stride=%d,padding=%d,weight=%s%s,bias=%d,view=%s/%s,data=%s/%s)",
                      (int)p.batch, (int)p.time, (int)p.in, (int)p.out, (int)p.kernel, (int)p.stride, (int)p.padding,
                      tsr_dtype_name(p.dtype), p.varies ? " input" : "", (int)p.bias,
                      check_view_name((check_view)p.view_x), check_view_name((check_view)p.view_weight),
                      check_data_name((check_data)p.data_x), check_data_name((check_data)p.data_weight));

  if (table->large) {
    check_case_cut(test, PARTS, 1, 1, p.out, COLUMNS);
  }
}

/* Each kernel, stride and padding, of some rows and of more than a tile has. Whole numbers every other time: exact. */
static void add_sizes(check_table *table)
{
  static const int32_t kernels[] = {1, 2, 3, 5}, times[] = {5, 9, 33, 70, 200};
  static const int32_t widths[][2] = {{1, 1}, {3, 5}, {4, 8}, {16, 33}, {80, 17}, {7, 130}};

  for (int32_t i = 0; i < 4 * 3 * 3 * COUNT_OF(times); i++) {
    const uint64_t at = (uint64_t)i;
    const int32_t *width = widths[check_choose(71, at, COUNT_OF(widths))];
    const int32_t data = i % 2 ? CHECK_INTEGER : CHECK_NORMAL;
    add(table,
        PARAMS(.kernel = kernels[i % 4], .stride = 1 + i / 4 % 3, .padding = i / 12 % 3,
               .time = times[i / 36] + check_choose(72, at, 4), .batch = 1 + check_choose(73, at, 3), .in = width[0],
               .out = width[1], .dtype = check_float_dtypes[check_choose(74, at, 3)], .bias = check_choose(75, at, 2),
               .varies = check_choose(76, at, 2), .data_x = data, .data_weight = data));
  }
}

static void add_forms(check_table *table)
{
  static const int32_t data[][2] = {
      {CHECK_LARGE, CHECK_NORMAL}, {CHECK_TINY, CHECK_NORMAL}, {CHECK_CANCEL, CHECK_NORMAL}, {CHECK_INF, CHECK_NORMAL},
      {CHECK_NAN, CHECK_NORMAL},   {CHECK_NORMAL, CHECK_INF},  {CHECK_NORMAL, CHECK_NAN},    {CHECK_ZERO, CHECK_NORMAL},
  };

  for (int32_t view = CHECK_DENSE; view < CHECK_FAR; view++) {
    add(table, PARAMS(.batch = 2, .view_x = view, .stride = 2, .bias = 1));
    add(table, PARAMS(.batch = 2, .view_x = view, .padding = 1, .dtype = TSR_F16));
    add(table, PARAMS(.batch = 2, .view_weight = view, .padding = 1, .bias = 1));
    add(table, PARAMS(.batch = 3, .view_weight = view, .dtype = TSR_BF16, .varies = 1, .stride = 3));
  }
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    add(table, PARAMS(.batch = 2, .time = 21, .data_x = data[i][0], .data_weight = data[i][1], .padding = i % 3,
                      .stride = 1 + i % 2, .dtype = check_float_dtypes[i % 3]));
  }
  add(table, PARAMS(.time = 3));                             /* a single window */
  add(table, PARAMS(.time = 1, .padding = 2, .kernel = 5));  /* most of it padding */
  add(table, PARAMS(.time = 2, .padding = 40, .kernel = 4)); /* windows of padding alone */
  add(table, PARAMS(.time = 40, .kernel = 19, .stride = 7, .padding = 9));
  add(table, PARAMS(.time = 50, .kernel = 2, .stride = 11)); /* rows that no window has */
  add(table, PARAMS(.in = 0, .bias = 1));
  add(table, PARAMS(.batch = 0));
  add(table, PARAMS(.out = 0));
  add(table, PARAMS(.time = 0, .padding = 2, .bias = 1));
  /* more workgroups than many devices take along one axis; windows beyond what many drivers let one binding reach */
  add(table, PARAMS(.time = 530001, .in = 1, .out = 1, .data_x = CHECK_INTEGER, .data_weight = CHECK_INTEGER));
  add(table, PARAMS(.view_x = CHECK_FAR, .padding = 1, .bias = 1));
}

/* The first layers of Whisper's encoder, some with fewer columns, for drivers on a CPU that are slow. Whole numbers:
 * exact, so that each counts. */
static void add_large(check_table *table)
{
  static const int32_t sizes[][3] = {{80, 128, 1}, {128, 64, 1}, {512, 64, 2}, {80, 512, 2}}; /* in, out, stride */

  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    add(table, PARAMS(.time = 3000, .in = sizes[i][0], .out = sizes[i][1], .padding = 1, .stride = sizes[i][2],
                      .bias = 1, .dtype = check_float_dtypes[i % 3], .varies = i == 3, .data_x = CHECK_INTEGER,
                      .data_weight = CHECK_INTEGER));
  }
}

void check_random_conv1d(check_table *table, check_draw *draw, int32_t what)
{
  static const int32_t kinds[] = {CHECK_UNIFORM, CHECK_WIDE, CHECK_LARGE, CHECK_TINY, CHECK_MIXED,
                                  CHECK_CANCEL,  CHECK_ZERO, CHECK_INF,   CHECK_NAN,  CHECK_SPECIAL};
  conv1d_params p = {.batch = 1};

  (void)what;
  p.batch = check_draw_size(draw, 5);
  p.kernel = check_draw_size(draw, 12);
  p.stride = check_draw_size(draw, 9);
  p.padding = check_draw_below(draw, 4);
  p.time = p.kernel + check_draw_below(draw, 300);
  p.in = check_draw_size(draw, 130);
  p.out = check_draw_size(draw, 200);
  while (p.batch * p.time * p.in * p.out * p.kernel > 20000000) {
    p.out = (p.out + 1) / 2;
    p.in = (p.in + 1) / 2;
  }
  p.bias = check_draw_below(draw, 2);
  p.dtype = check_float_dtypes[check_draw_below(draw, 3)];
  p.varies = check_draw_below(draw, 2);
  p.view_x = check_draw_view(draw);
  p.view_weight = check_draw_view(draw);
  p.data_x = check_draw_data(draw, kinds, COUNT_OF(kinds));
  p.data_weight = p.data_x == CHECK_INTEGER ? CHECK_INTEGER : check_draw_data(draw, kinds, COUNT_OF(kinds));
  add(table, p);
}

void check_cases_conv1d(check_table *table)
{
  if (table->perf) {
    add(table, PARAMS(.time = 3000, .in = 80, .out = 512, .padding = 1, .bias = 1));
    add(table, PARAMS(.time = 3000, .in = 512, .out = 512, .padding = 1, .stride = 2, .bias = 1));
    return;
  }
  add_sizes(table);
  add_forms(table);
  table->large = 1;
  add_large(table);
  table->large = 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of the gradients of softmax, log_softmax, layernorm, rmsnorm, the activations, mask and the relative bias.
 */
#include "tools/conformance/cases_masking.h"

typedef struct params {
  tsr_shape shape;
  int32_t op, view, view_dy, data, data_dy, activation, bias, unbiased; /* data: of x or y; bias: dbias is wanted */
  int32_t brink; /* 1: exp(y) is near the largest f32, and dy small enough for dx to be finite */
  float epsilon;
} params;

/* From 127.5 ln 2 = 88.376 on exp(y) is no whole power of two and a factor that f32 both has. */
static const float brink[] = {88.7f, 88.0f, 88.3f, 88.37f, 88.38f, 88.4f, 88.5f, 88.6f, 88.72f, 1.0f, -3.0f};
static const float small[] = {1e-3f, -2e-3f, 1.5e-3f};

static const char *const activation_names[] = {"none", "relu", "gelu_erf", "gelu_tanh", "silu"};

static void build_rows(check_build *build, const void *data)
{
  const params *p = data;
  tsr_program *program = build->program;
  check_fill fill_x = CHECK_FILL(.data = (check_data)p->data), fill_dy = CHECK_FILL(.data = (check_data)p->data_dy);
  if (p->brink) {
    fill_x = CHECK_FILL(.reals = brink, .n_list = COUNT_OF(brink));
    fill_dy = CHECK_FILL(.reals = small, .n_list = COUNT_OF(small));
  }
  tsr_ref x = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, p->shape, (check_view)p->view, fill_x);
  tsr_ref dy = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, p->shape, (check_view)p->view_dy, fill_dy);
  tsr_ref gain, dx, dgain = TSR_NONE, dbias = TSR_NONE;

  switch (p->op) {
  case TSR_OP_SOFTMAX_GRADIENT:
    dx = tsr_softmax_gradient(program, x, dy);
    break;
  case TSR_OP_LOG_SOFTMAX_GRADIENT:
    dx = tsr_log_softmax_gradient(program, x, dy);
    break;
  case TSR_OP_ACTIVATION_GRADIENT:
    dx = tsr_activation_gradient(program, x, dy, p->activation);
    break;
  case TSR_OP_MASK_GRADIENT:
    dx = tsr_mask_gradient(program, x, dy);
    break;
  default:
    gain = check_operand(build, TSR_STORAGE_CONSTANT, TSR_F32, TSR_SHAPE(p->shape.extent[p->shape.rank - 1]),
                         p->view ? CHECK_STRIDED : CHECK_DENSE, CHECK_FILL(.data = CHECK_NORMAL));
    dx = p->op == TSR_OP_RMSNORM_GRADIENT ? tsr_rmsnorm_gradient(program, x, gain, dy, p->epsilon, &dgain)
         : p->unbiased ? tsr_layernorm_std_gradient(program, x, gain, dy, p->epsilon, &dgain, p->bias ? &dbias : NULL)
                       : tsr_layernorm_gradient(program, x, gain, dy, p->epsilon, &dgain, p->bias ? &dbias : NULL);
    tsr_output(program, "dgain", dgain);
    if (dbias != TSR_NONE) {
      tsr_output(program, "dbias", dbias);
    }
  }
  tsr_output(program, "dx", dx);
}

static void add(check_table *table, params p)
{
  const char *op = tsr_op_describe(p.op)->name, *view = check_view_name((check_view)p.view);
  const char *view_dy = check_view_name((check_view)p.view_dy);
  const char *data = p.brink ? "brink" : check_data_name((check_data)p.data);
  const char *data_dy = p.brink ? "small" : check_data_name((check_data)p.data_dy);
  char shape[64];

  check_shape_text(p.shape, shape);
  if (p.op == TSR_OP_ACTIVATION_GRADIENT) {
    check_table_add(table, p.op, build_rows, &p, sizeof(p), "%s(x=%s,view=%s/%s,data=%s/%s,activation=%s)", op, shape,
                    view, view_dy, data, data_dy, activation_names[p.activation]);
  } else if (p.op == TSR_OP_LAYERNORM_GRADIENT || p.op == TSR_OP_RMSNORM_GRADIENT) {
    p.bias = p.op == TSR_OP_RMSNORM_GRADIENT ? 0 : p.bias;
    check_table_add(table, p.op, build_rows, &p, sizeof(p), "%s(x=%s,view=%s/%s,data=%s/%s,dbias=%d,epsilon=%g%s)", op,
                    shape, view, view_dy, data, data_dy, (int)p.bias, (double)p.epsilon, p.unbiased ? ",unbiased" : "");
  } else {
    check_table_add(table, p.op, build_rows, &p, sizeof(p), "%s(y=%s,view=%s/%s,data=%s/%s)", op, shape, view, view_dy,
                    data, data_dy);
  }
}

static const int32_t all_views[] = {CHECK_OFFSET,   CHECK_PADDED, CHECK_STRIDED,   CHECK_TRANSPOSED,     CHECK_PADDED_T,
                                    CHECK_REVERSED, CHECK_HEADS,  CHECK_BROADCAST, CHECK_BROADCAST_LAST, CHECK_SCALAR};

/* Sizes, ranks, views and empty tensors of an operator along rows. */
static void add_shapes(check_table *table, params p)
{
  static const int32_t columns[] = {1, 2, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 128, 255, 256, 257, 1000, 5001};
  static const int32_t rows[] = {1, 2, 7, 8, 9, 17, 31, 33, 64, 65, 129, 1000};
  int32_t n = COUNT_OF(all_views);

  for (int32_t i = 0; i < COUNT_OF(columns); i++) {
    p.shape = TSR_SHAPE(columns[i] > 600 ? 3 : 5, columns[i]);
    p.bias = i % 2;
    add(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(rows); i++) {
    p.shape = TSR_SHAPE(rows[i], 37);
    p.bias = (i + 1) % 2;
    add(table, p);
  }
  p.shape = TSR_SHAPE(1031);
  add(table, p);
  p.shape = TSR_SHAPE(3, 5, 37);
  add(table, p);
  p.shape = TSR_SHAPE(2, 3, 5, 18);
  add(table, p);
  for (int32_t i = 0; i < n; i++) {
    p.view = all_views[i];
    p.view_dy = all_views[n - 1 - i];
    p.shape = TSR_SHAPE(3, 4, 70);
    add(table, p);
    p.view_dy = CHECK_DENSE;
    p.shape = TSR_SHAPE(4, 21);
    add(table, p);
    p.view = CHECK_DENSE;
    p.view_dy = all_views[i];
    p.shape = TSR_SHAPE(2, 3, 5, 18);
    add(table, p);
  }
  p.view_dy = CHECK_DENSE;
  p.shape = TSR_SHAPE(0, 5);
  add(table, p);
  p.shape = TSR_SHAPE(3, 0);
  add(table, p);
  p.shape = TSR_SHAPE(2, 0, 5);
  add(table, p);
}

static void add_values(check_table *table, params p, const int32_t (*data)[2], int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    p.data = data[i][0];
    p.data_dy = data[i][1];
    p.bias = i % 2;
    p.shape = TSR_SHAPE(6, 29);
    add(table, p);
    p.shape = TSR_SHAPE(4, 517);
    add(table, p);
  }
}

/* Of x or y, and dy. */
static const int32_t softmax_data[][2] = {
    {CHECK_INTEGER, CHECK_INTEGER}, {CHECK_ZERO, CHECK_NAN},        {CHECK_ZERO, CHECK_INF},
    {CHECK_UNIFORM, CHECK_NAN},     {CHECK_POSITIVE, CHECK_INF},    {CHECK_NAN, CHECK_NORMAL},
    {CHECK_UNIFORM, CHECK_TINY},    {CHECK_TINY, CHECK_NORMAL},     {CHECK_POSITIVE, CHECK_CANCEL},
    {CHECK_POSITIVE, CHECK_BIG},    {CHECK_CONSTANT, CHECK_NORMAL}, {CHECK_SPIKE, CHECK_SHIFTED},
};
static const int32_t log_data[][2] = {
    {CHECK_WIDE, CHECK_INTEGER}, {CHECK_NEGINF, CHECK_NORMAL},     {CHECK_NEGINF_ROW, CHECK_NORMAL},
    {CHECK_NORMAL, CHECK_NAN},   {CHECK_NORMAL, CHECK_INF},        {CHECK_NAN, CHECK_NORMAL},
    {CHECK_NORMAL, CHECK_TINY},  {CHECK_MINUS_ONE, CHECK_CANCEL},  {CHECK_NORMAL, CHECK_BIG},
    {CHECK_SPIKE, CHECK_ZERO},   {CHECK_DESCENDING, CHECK_NORMAL}, {CHECK_ZERO, CHECK_SHIFTED},
};

static void add_softmax(check_table *table)
{
  params p = {.op = TSR_OP_SOFTMAX_GRADIENT, .data = CHECK_POSITIVE};

  add_shapes(table, p);
  add_values(table, p, softmax_data, COUNT_OF(softmax_data));
  p = (params){.op = TSR_OP_LOG_SOFTMAX_GRADIENT, .data = CHECK_NORMAL};
  add_shapes(table, p);
  add_values(table, p, log_data, COUNT_OF(log_data));
  p.brink = 1;
  for (int32_t columns = 1; columns <= 517; columns = 4 * columns + 1) {
    p.shape = TSR_SHAPE(3, columns);
    add(table, p);
  }
}

static const int32_t norm_data[][2] = {
    {CHECK_INTEGER, CHECK_INTEGER}, {CHECK_WIDE, CHECK_NORMAL},     {CHECK_BIG, CHECK_NORMAL},
    {CHECK_TINY, CHECK_NORMAL},     {CHECK_CONSTANT, CHECK_NORMAL}, {CHECK_SPIKE, CHECK_NORMAL},
    {CHECK_SHIFTED, CHECK_NORMAL},  {CHECK_CANCEL, CHECK_CANCEL},   {CHECK_ZERO, CHECK_NORMAL},
    {CHECK_NORMAL, CHECK_ZERO},     {CHECK_NAN, CHECK_NORMAL},      {CHECK_NORMAL, CHECK_NAN},
    {CHECK_NORMAL, CHECK_BIG},      {CHECK_NORMAL, CHECK_TINY},     {CHECK_NORMAL, CHECK_MIXED},
};
static const float norm_epsilons[] = {1e-12f, 1e-6f, 1e-3f, 1.0f};

static void add_norms(check_table *table)
{
  static const struct {
    int32_t op, unbiased;
  } kinds[] = {{TSR_OP_LAYERNORM_GRADIENT, 0}, {TSR_OP_LAYERNORM_GRADIENT, 1}, {TSR_OP_RMSNORM_GRADIENT, 0}};

  for (int32_t kind = 0; kind < COUNT_OF(kinds); kind++) {
    params p = {.op = kinds[kind].op, .unbiased = kinds[kind].unbiased, .epsilon = 1e-5f};
    add_shapes(table, p);
    add_values(table, p, norm_data, COUNT_OF(norm_data));
    for (int32_t i = 0; i < COUNT_OF(norm_epsilons); i++) {
      p.epsilon = norm_epsilons[i];
      p.shape = TSR_SHAPE(5, 100);
      p.bias = i % 2;
      p.data = p.data_dy = CHECK_NORMAL;
      add(table, p);
      p.data = CHECK_SPIKE;
      add(table, p);
    }
    p.shape = TSR_SHAPE(80, 357); /* none of the rows is finite, and dbias is */
    p.data = CHECK_NAN;
    p.bias = 1;
    add(table, p);
  }
}

static const int32_t activation_data[][2] = {
    {CHECK_NORMAL, CHECK_NORMAL}, {CHECK_LARGE, CHECK_NORMAL}, {CHECK_TINY, CHECK_NORMAL}, {CHECK_INF, CHECK_NORMAL},
    {CHECK_NEGINF, CHECK_NAN},    {CHECK_NAN, CHECK_NORMAL},   {CHECK_ZERO, CHECK_NORMAL}, {CHECK_MIXED, CHECK_NORMAL},
    {CHECK_NORMAL, CHECK_INF},    {CHECK_NORMAL, CHECK_NAN},   {CHECK_WIDE, CHECK_LARGE},  {CHECK_WIDE, CHECK_TINY},
    {CHECK_WIDE, CHECK_INTEGER},  {CHECK_ZERO, CHECK_NAN},
};

static void add_activations(check_table *table)
{
  static const int32_t sizes[] = {1, 3, 4, 5, 63, 64, 65, 255, 256, 257, 1025, 65537};
  params p;

  for (int32_t activation = TSR_ACTIVATION_RELU; activation <= TSR_ACTIVATION_SILU; activation++) {
    p = (params){.op = TSR_OP_ACTIVATION_GRADIENT, .activation = activation, .data = CHECK_WIDE};
    for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
      p.shape = TSR_SHAPE(sizes[i]);
      add(table, p);
    }
    p.shape = tsr_shape_make(0, NULL);
    add(table, p);
    p.shape = TSR_SHAPE(3, 0, 5);
    add(table, p);
    for (int32_t i = 0; i < COUNT_OF(all_views); i++) {
      p.view = all_views[i];
      p.view_dy = all_views[COUNT_OF(all_views) - 1 - i];
      p.shape = TSR_SHAPE(2, 3, 5, 7);
      add(table, p);
      p.view_dy = CHECK_DENSE;
      p.shape = TSR_SHAPE(6, 33);
      add(table, p);
    }
    p.view = CHECK_DENSE;
    for (int32_t i = 0; i < COUNT_OF(activation_data); i++) {
      /* what does not depend on the element: dy NaN where the slope of x = 0 is 0 */
      if (activation_data[i][0] == CHECK_ZERO && activation_data[i][1] == CHECK_NAN &&
          activation != TSR_ACTIVATION_RELU) {
        continue;
      }
      p.data = activation_data[i][0];
      p.data_dy = activation_data[i][1];
      p.shape = TSR_SHAPE(7, 61);
      add(table, p);
    }
  }
}

static const int32_t mask_data[][2] = {{CHECK_NEGINF, CHECK_NAN},     {CHECK_NEGINF_ROW, CHECK_INF},
                                       {CHECK_NORMAL, CHECK_SPECIAL}, {CHECK_NAN, CHECK_NORMAL},
                                       {CHECK_INF, CHECK_TINY},       {CHECK_LARGE, CHECK_ZERO}};

static void add_masks(check_table *table)
{
  static const int64_t shapes[][4] = {{3, 2, 7, 19}, {1, 1, 1, 1}, {2, 4, 33, 65}, {1, 1, 256, 257}, {1, 8, 64, 64},
                                      {0, 2, 3, 4},  {2, 3, 0, 4}, {2, 3, 4, 0},   {5, 1, 1, 1031}};
  params p = {.op = TSR_OP_MASK_GRADIENT, .data = CHECK_NEGINF};

  for (int32_t i = 0; i < COUNT_OF(shapes); i++) {
    p.shape = tsr_shape_make(4, shapes[i]);
    add(table, p);
  }
  p.shape = TSR_SHAPE(2, 3, 5, 18);
  for (int32_t i = 0; i < COUNT_OF(all_views); i++) {
    p.view = all_views[i];
    p.view_dy = all_views[COUNT_OF(all_views) - 1 - i];
    add(table, p);
  }
  p.view = p.view_dy = CHECK_DENSE;
  for (int32_t i = 0; i < COUNT_OF(mask_data); i++) {
    p.data = mask_data[i][0];
    p.data_dy = mask_data[i][1];
    add(table, p);
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * relative_gradient
 */
static const int32_t positions_each[] = {4, 0, 11};
static const int32_t positions_shared[] = {2};
static const int32_t positions_beyond[] = {1000, 63, 1 << 30};

static const struct {
  const char *name;
  const int32_t *list;
  int32_t n; /* 1: shared by all sentences */
} positions[] = {
    {"none", NULL, 0}, {"each", positions_each, 3}, {"shared", positions_shared, 1}, {"beyond", positions_beyond, 3}};

typedef struct relative_params {
  tsr_shape shape; /* of the scores */
  int32_t view, data, position, buckets, bidirectional, max_distance, clamped;
} relative_params;

static void build_relative(check_build *build, const void *data)
{
  const relative_params *p = data;
  tsr_masking masking = {.bidirectional = p->bidirectional, .max_distance = p->max_distance, .clamped = p->clamped};
  tsr_ref scores = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, p->shape, (check_view)p->view,
                                 CHECK_FILL(.data = (check_data)p->data));
  int32_t n = positions[p->position].n;

  if (n) {
    masking.position = check_operand(build, TSR_STORAGE_INPUT, TSR_I32, TSR_SHAPE(n > 1 ? p->shape.extent[0] : 1),
                                     n > 1 ? CHECK_STRIDED : CHECK_DENSE,
                                     CHECK_FILL(.list = positions[p->position].list, .n_list = n));
  }
  tsr_output(build->program, "drelative", tsr_relative_gradient(build->program, scores, &masking, p->buckets));
}

static void add_relative(check_table *table, relative_params p)
{
  char shape[64], relative[48];

  check_table_add(
      table, TSR_OP_RELATIVE_GRADIENT, build_relative, &p, sizeof(p),
      "relative_gradient(dscores=%s,view=%s,data=%s,position=%s,buckets=%s)", check_shape_text(p.shape, shape),
      check_view_name((check_view)p.view), check_data_name((check_data)p.data), positions[p.position].name,
      check_relative_text(p.buckets, p.bidirectional, p.max_distance, p.clamped, relative, sizeof(relative)));
}

static void add_relatives(check_table *table)
{
  static const int32_t buckets[][3] = {{8, 1, 20}, {8, 0, 20}, {32, 1, 128}, {32, 0, 128}, {4, 1, 3},
                                       {2, 0, 2},  {7, 0, 11}, {9, 1, 13},   {16, 1, 64}};
  static const int32_t reaches[] = {1, 2, 5, 14, 16, 128, 400}; /* of clamped tables; the last goes beyond all keys */
  static const int64_t shapes[][4] = {{1, 1, 1, 1},   {2, 3, 1, 65}, {3, 2, 33, 17}, {1, 1, 300, 301}, {4, 8, 9, 31},
                                      {17, 2, 7, 64}, {0, 2, 3, 4},  {2, 0, 3, 4},   {2, 3, 0, 4},     {2, 3, 4, 0}};
  static const int32_t data[] = {CHECK_INTEGER, CHECK_LARGE, CHECK_TINY, CHECK_MIXED,
                                 CHECK_CANCEL,  CHECK_INF,   CHECK_NAN};
  static const int32_t views[] = {CHECK_OFFSET,   CHECK_PADDED, CHECK_TRANSPOSED, CHECK_PADDED_T,
                                  CHECK_REVERSED, CHECK_HEADS,  CHECK_BROADCAST,  CHECK_SCALAR};
  relative_params p;

  for (int32_t i = 0; i < COUNT_OF(buckets); i++) {
    p = (relative_params){.shape = TSR_SHAPE(3, 2, 7, 19), .position = i % 4};
    p.buckets = buckets[i][0], p.bidirectional = buckets[i][1], p.max_distance = buckets[i][2];
    add_relative(table, p);
    p.data = CHECK_INTEGER;
    p.position = (i + 1) % 4;
    add_relative(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(reaches); i++) {
    p = (relative_params){.position = i % 4, .clamped = 1, .max_distance = reaches[i], .buckets = 2 * reaches[i] + 1};
    p.shape = TSR_SHAPE(3, 2, 7, 19);
    add_relative(table, p);
    p.shape = i % 2 ? TSR_SHAPE(1, 3, 300, 301) : TSR_SHAPE(3, 2, 40, 33);
    p.data = CHECK_INTEGER;
    add_relative(table, p);
  }
  p = (relative_params){.buckets = 32, .bidirectional = 1, .max_distance = 128};
  for (int32_t i = 0; i < COUNT_OF(shapes); i++) {
    p.shape = tsr_shape_make(4, shapes[i]);
    p.bidirectional = i % 2;
    add_relative(table, p);
  }
  p.shape = TSR_SHAPE(3, 2, 5, 18);
  for (int32_t i = 0; i < COUNT_OF(views); i++) {
    p.view = views[i];
    add_relative(table, p);
  }
  p.view = CHECK_DENSE;
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    p.data = data[i];
    add_relative(table, p);
  }
}

/* what: the operator. */
void check_random_gradient(check_table *table, check_draw *draw, int32_t what)
{
  params p = {.op = what, .epsilon = 1e-5f};
  const int32_t *data;

  const int32_t least = what == TSR_OP_MASK_GRADIENT ? 4 : 1;
  if (check_draw_is_large(draw)) {
    p.shape = check_draw_large(draw, least, 4, 300000);
  } else {
    p.shape = check_draw_shape(draw, least, 4, least == 4 ? 1000 : 1500, 40000);
  }
  p.view = check_draw_view(draw);
  p.view_dy = check_draw_view(draw);
  switch (what) {
  case TSR_OP_SOFTMAX_GRADIENT:
    p.data = CHECK_POSITIVE;
    data = CHECK_DRAW(draw, softmax_data);
    break;
  case TSR_OP_LOG_SOFTMAX_GRADIENT:
    data = CHECK_DRAW(draw, log_data);
    p.brink = check_draw_once_in(draw, 8);
    break;
  case TSR_OP_ACTIVATION_GRADIENT:
    p.data = CHECK_WIDE;
    p.activation = TSR_ACTIVATION_RELU + check_draw_below(draw, TSR_ACTIVATION_SILU);
    data = CHECK_DRAW(draw, activation_data);
    data = data[0] == CHECK_ZERO && data[1] == CHECK_NAN ? activation_data[0] : data; /* add_activations says why */
    break;
  case TSR_OP_MASK_GRADIENT:
    p.data = CHECK_NEGINF;
    data = CHECK_DRAW(draw, mask_data);
    break;
  default:
    p.bias = check_draw_below(draw, 2);
    p.unbiased = what == TSR_OP_LAYERNORM_GRADIENT && check_draw_once_in(draw, 3);
    p.epsilon = CHECK_DRAW(draw, norm_epsilons);
    data = CHECK_DRAW(draw, norm_data);
  }
  if (check_draw_once_in(draw, 3)) {
    p.data = data[0];
    p.data_dy = data[1];
  }
  add(table, p);
}

void check_random_relative(check_table *table, check_draw *draw, int32_t what)
{
  static const int32_t data[] = {CHECK_LARGE, CHECK_TINY, CHECK_MIXED, CHECK_CANCEL, CHECK_INF, CHECK_NAN};
  relative_params p = {.shape = check_draw_shape(draw, 4, 4, 400, 40000)};

  (void)what;
  p.view = check_draw_view(draw);
  p.data = check_draw_data(draw, data, COUNT_OF(data));
  p.position = check_draw_below(draw, COUNT_OF(positions));
  p.bidirectional = check_draw_below(draw, 2);
  p.buckets = (p.bidirectional ? 4 : 2) + check_draw_below(draw, 40);
  p.max_distance = (p.bidirectional ? p.buckets / 2 : p.buckets) / 2 + check_draw_size(draw, 200);
  if (check_draw_once_in(draw, 3)) {
    p.clamped = 1;
    p.bidirectional = 0;
    p.buckets = 2 * p.max_distance + 1;
  }
  add_relative(table, p);
}

static void add_large(check_table *table)
{
  static const struct {
    int32_t op, unbiased;
  } kinds[] = {{TSR_OP_SOFTMAX_GRADIENT, 0},
               {TSR_OP_LOG_SOFTMAX_GRADIENT, 0},
               {TSR_OP_LAYERNORM_GRADIENT, 0},
               {TSR_OP_LAYERNORM_GRADIENT, 1},
               {TSR_OP_RMSNORM_GRADIENT, 0}};
  params p;

  for (int32_t kind = 0; kind < COUNT_OF(kinds); kind++) {
    const int norm = kind > 1;
    p = (params){.op = kinds[kind].op, .unbiased = kinds[kind].unbiased, .bias = 1, .epsilon = norm ? 1e-5f : 0.0f};
    for (int32_t i = 1; i < COUNT_OF(check_large_rows); i++) {
      p.shape = tsr_shape_make(2, check_large_rows[i]);
      p.data = kind == 0 ? CHECK_POSITIVE : CHECK_NORMAL;
      p.data_dy = CHECK_NORMAL;
      if (p.shape.extent[0] < 10) { /* of whole numbers the sums are exact */
        p.data = kind == 0 ? CHECK_TIES : p.data;
        p.data_dy = CHECK_INTEGER;
      }
      if (!norm || p.shape.extent[1] < 100000) {
        add(table, p);
      }
    }
  }
  for (int32_t activation = TSR_ACTIVATION_RELU; activation <= TSR_ACTIVATION_SILU; activation++) {
    p = (params){
        .op = TSR_OP_ACTIVATION_GRADIENT, .activation = activation, .data = CHECK_WIDE, .shape = TSR_SHAPE(CHECK_MANY)};
    add(table, p);
  }
  p = (params){.op = TSR_OP_MASK_GRADIENT, .data = CHECK_EDGES, .shape = TSR_SHAPE(1, 2, 300, 2003)};
  add(table, p);
  add_relative(table, (relative_params){.shape = TSR_SHAPE(1, 2, 300, 2003),
                                        .data = CHECK_INTEGER,
                                        .position = 2,
                                        .buckets = 32,
                                        .bidirectional = 1,
                                        .max_distance = 128});
}

void check_cases_gradient(check_table *table)
{
  static const int32_t ops[] = {TSR_OP_SOFTMAX_GRADIENT, TSR_OP_LOG_SOFTMAX_GRADIENT, TSR_OP_LAYERNORM_GRADIENT,
                                TSR_OP_RMSNORM_GRADIENT, TSR_OP_ACTIVATION_GRADIENT};

  if (table->perf) {
    for (int32_t i = 0; i < COUNT_OF(ops); i++) {
      add(table, (params){.op = ops[i],
                          .shape = TSR_SHAPE(2500, 256),
                          .epsilon = 1e-5f,
                          .bias = 1,
                          .activation = TSR_ACTIVATION_GELU_ERF});
    }
    add_relative(table, (relative_params){.shape = TSR_SHAPE(8, 8, 64, 64), .buckets = 32, .max_distance = 128});
    return;
  }
  add_softmax(table);
  add_norms(table);
  add_activations(table);
  add_masks(table);
  add_relatives(table);
  table->large = 1;
  add_large(table);
  table->large = 0;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of the operators that work element by element: add, mul, relu, gelu, silu, copy.
 */
#include "tools/conformance/cases.h"

typedef struct params {
  int32_t op, dtype, to; /* to: copy's */
  tsr_shape a, b;        /* b: of add and mul */
  int32_t view_a, view_b, data_a, data_b, activation;
} params;

static check_fill fill_of(int32_t data)
{
  static const int32_t wrapping[] = {0,     1, -1,       INT32_MAX, INT32_MIN, 65536, -65537,
                                     46341, 7, -1000003, 1 << 30,   12345,     -7,    INT32_MAX - 1};

  if (data == CHECK_SPECIAL) {
    return CHECK_FILL(.data = (check_data)data, .list = wrapping, .n_list = COUNT_OF(wrapping));
  }
  return CHECK_FILL(.data = (check_data)data, .low = -100, .high = 100);
}

static void build_elementwise(check_build *build, const void *data)
{
  const params *p = data;
  tsr_program *program = build->program;
  tsr_ref a = check_operand(build, TSR_STORAGE_INPUT, p->dtype, p->a, (check_view)p->view_a, fill_of(p->data_a)), b;

  switch (p->op) {
  case TSR_OP_RELU:
    tsr_output(program, "y", tsr_relu(program, a));
    break;
  case TSR_OP_GELU:
    tsr_output(program, "y", tsr_gelu(program, a, p->activation));
    break;
  case TSR_OP_SILU:
    tsr_output(program, "y", tsr_silu(program, a));
    break;
  case TSR_OP_COPY:
    tsr_output(program, "y", tsr_copy(program, a, p->to));
    break;
  default:
    b = check_operand(build, TSR_STORAGE_INPUT, p->dtype, p->b, (check_view)p->view_b, fill_of(p->data_b));
    tsr_output(program, "y", p->op == TSR_OP_ADD ? tsr_add(program, a, b) : tsr_mul(program, a, b));
  }
}

static void add(check_table *table, params p)
{
  const char *op = tsr_op_describe(p.op)->name, *dtype = tsr_dtype_name(p.dtype);
  const char *data = check_data_name((check_data)p.data_a), *view = check_view_name((check_view)p.view_a);
  char a[64], b[64];

  check_shape_text(p.a, a);
  check_shape_text(p.b, b);
  if (p.op == TSR_OP_ADD || p.op == TSR_OP_MUL) {
    check_table_add(table, p.op, build_elementwise, &p, sizeof(p), "%s(a=%s,b=%s,type=%s,view=%s/%s,data=%s/%s)", op, a,
                    b, dtype, view, check_view_name((check_view)p.view_b), data, check_data_name((check_data)p.data_b));
  } else if (p.op == TSR_OP_COPY) {
    check_table_add(table, p.op, build_elementwise, &p, sizeof(p), "%s(x=%s,from=%s,to=%s,view=%s,data=%s)", op, a,
                    dtype, tsr_dtype_name(p.to), view, data);
  } else if (p.op == TSR_OP_GELU) {
    check_table_add(table, p.op, build_elementwise, &p, sizeof(p), "%s(x=%s,form=%s,view=%s,data=%s)", op, a,
                    p.activation == TSR_ACTIVATION_GELU_ERF ? "erf" : "tanh", view, data);
  } else {
    check_table_add(table, p.op, build_elementwise, &p, sizeof(p), "%s(x=%s,view=%s,data=%s)", op, a, view, data);
  }
}

static const int32_t all_views[] = {CHECK_DENSE,      CHECK_OFFSET,         CHECK_PADDED,   CHECK_STRIDED,
                                    CHECK_TRANSPOSED, CHECK_PADDED_T,       CHECK_REVERSED, CHECK_HEADS,
                                    CHECK_BROADCAST,  CHECK_BROADCAST_LAST, CHECK_SCALAR};

static void add_unary(check_table *table, params p)
{
  static const int32_t data[] = {CHECK_WIDE, CHECK_LARGE, CHECK_TINY,    CHECK_INF,
                                 CHECK_NAN,  CHECK_ZERO,  CHECK_SPECIAL, CHECK_MIXED};
  static const int32_t sizes[] = {1, 3, 4, 5, 63, 64, 65, 255, 256, 257, 1023, 1025, 65537};

  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    p.a = TSR_SHAPE(sizes[i]);
    p.data_a = CHECK_WIDE;
    add(table, p);
  }
  p.a = tsr_shape_make(0, NULL);
  add(table, p);
  p.a = TSR_SHAPE(3, 0, 5);
  add(table, p);
  p.a = TSR_SHAPE(0);
  add(table, p);
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    p.data_a = data[i];
    p.a = TSR_SHAPE(7, 61);
    add(table, p);
  }
  p.data_a = CHECK_WIDE;
  for (int32_t i = 0; i < COUNT_OF(all_views); i++) {
    p.view_a = all_views[i];
    p.a = TSR_SHAPE(2, 3, 5, 7);
    add(table, p);
    p.a = TSR_SHAPE(6, 33);
    add(table, p);
  }
}

static void add_binary(check_table *table, int32_t op, int32_t dtype)
{
  /* the extents of a and b; right-aligned, 1 or a missing axis repeats */
  static const struct {
    int32_t rank_a, rank_b;
    int64_t a[4], b[4];
  } shapes[] = {
      {0, 0, {0}, {0}},
      {1, 1, {1}, {1}},
      {1, 0, {17}, {0}},
      {0, 2, {0}, {5, 33}},
      {1, 1, {257}, {257}},
      {1, 1, {257}, {1}},
      {2, 2, {5, 64}, {5, 64}},
      {2, 1, {5, 64}, {64}},
      {1, 2, {65}, {7, 65}},
      {2, 2, {5, 1}, {1, 9}},
      {2, 2, {5, 9}, {5, 1}},
      {3, 1, {2, 3, 31}, {31}},
      {3, 2, {2, 3, 31}, {3, 1}},
      {3, 3, {2, 1, 31}, {1, 3, 31}},
      {4, 4, {2, 3, 4, 5}, {2, 3, 4, 5}},
      {4, 2, {2, 3, 4, 5}, {4, 5}},
      {4, 4, {2, 3, 4, 5}, {2, 1, 4, 1}},
      {4, 4, {1, 3, 1, 5}, {2, 1, 4, 1}},
      {4, 3, {2, 3, 4, 5}, {3, 1, 5}},
      {2, 2, {129, 263}, {129, 263}},
      {2, 1, {1, 65537}, {65537}},
      {2, 2, {0, 5}, {1, 5}},
      {2, 1, {3, 0}, {1}},
      {3, 3, {2, 0, 3}, {1, 1, 3}},
  };
  static const int32_t data[][2] = {
      {CHECK_LARGE, CHECK_LARGE}, {CHECK_TINY, CHECK_NORMAL},   {CHECK_INF, CHECK_NORMAL},
      {CHECK_NAN, CHECK_INF},     {CHECK_ZERO, CHECK_ZERO},     {CHECK_SPECIAL, CHECK_NORMAL},
      {CHECK_MIXED, CHECK_MIXED}, {CHECK_CANCEL, CHECK_CANCEL}, {CHECK_INTEGER, CHECK_INTEGER},
  };
  params p = {.op = op, .dtype = dtype};
  int32_t last = COUNT_OF(all_views) - 1;

  for (int32_t i = 0; i < COUNT_OF(shapes); i++) {
    p.a = tsr_shape_make(shapes[i].rank_a, shapes[i].a);
    p.b = tsr_shape_make(shapes[i].rank_b, shapes[i].b);
    p.data_a = p.data_b = dtype == TSR_I32 && i % 2 ? CHECK_SPECIAL : CHECK_NORMAL;
    add(table, p);
  }
  p.data_a = p.data_b = CHECK_NORMAL;
  for (int32_t i = 0; i <= last; i++) {
    p.a = p.b = TSR_SHAPE(4, 3, 9);
    p.view_a = all_views[i];
    p.view_b = CHECK_DENSE;
    add(table, p);
    p.view_b = all_views[last - i];
    add(table, p);
    p.a = p.b = TSR_SHAPE(2, 3, 5, 6);
    p.view_a = CHECK_DENSE;
    add(table, p);
  }
  p.view_a = p.view_b = CHECK_DENSE;
  for (int32_t i = 0; i < COUNT_OF(data) && dtype == TSR_F32; i++) {
    p.a = p.b = TSR_SHAPE(5, 77);
    p.data_a = data[i][0];
    p.data_b = data[i][1];
    add(table, p);
  }
}

void check_cases_elementwise(check_table *table)
{
  if (table->perf) {
    for (int32_t op = TSR_OP_ADD; op <= TSR_OP_SILU; op++) {
      add(table, (params){.op = op,
                          .dtype = TSR_F32,
                          .a = TSR_SHAPE(512, 2048),
                          .b = TSR_SHAPE(512, 2048),
                          .activation = TSR_ACTIVATION_GELU_ERF});
    }
    return;
  }
  for (int32_t op = TSR_OP_ADD; op <= TSR_OP_MUL; op++) {
    add_binary(table, op, TSR_F32);
    add_binary(table, op, TSR_I32);
  }
  /* a result beyond what many drivers let one binding reach */
  add(table, (params){.op = TSR_OP_ADD, .dtype = TSR_I32, .a = TSR_SHAPE(131073, 1), .b = TSR_SHAPE(256)});
  add_unary(table, (params){.op = TSR_OP_RELU, .dtype = TSR_F32});
  add_unary(table, (params){.op = TSR_OP_GELU, .dtype = TSR_F32, .activation = TSR_ACTIVATION_GELU_ERF});
  add_unary(table, (params){.op = TSR_OP_GELU, .dtype = TSR_F32, .activation = TSR_ACTIVATION_GELU_TANH});
  add_unary(table, (params){.op = TSR_OP_SILU, .dtype = TSR_F32});
  table->large = 1;
  for (int32_t op = TSR_OP_ADD; op <= TSR_OP_SILU; op++) {
    params p = {.op = op, .dtype = TSR_F32, .a = TSR_SHAPE(CHECK_MANY), .b = TSR_SHAPE(CHECK_MANY)};
    p.data_a = op == TSR_OP_ADD || op == TSR_OP_MUL ? CHECK_NORMAL : CHECK_WIDE;
    p.activation = op == TSR_OP_GELU ? TSR_ACTIVATION_GELU_ERF : 0;
    add(table, p);
    if (op == TSR_OP_ADD || op == TSR_OP_MUL) {
      p.a = tsr_shape_make(2, check_many);
      p.b = TSR_SHAPE(check_many[1]);
      add(table, p);
      p.dtype = TSR_I32;
      p.view_a = CHECK_TRANSPOSED;
      add(table, p);
    }
  }
  add(table, (params){.op = TSR_OP_GELU,
                      .dtype = TSR_F32,
                      .a = tsr_shape_make(2, check_many),
                      .view_a = CHECK_TRANSPOSED,
                      .activation = TSR_ACTIVATION_GELU_TANH,
                      .data_a = CHECK_WIDE});
  table->large = 0;
}

static void add_large_copies(check_table *table)
{
  static const int32_t types[][2] = {{TSR_F32, TSR_F32},  {TSR_F32, TSR_F16}, {TSR_F32, TSR_BF16}, {TSR_F16, TSR_F32},
                                     {TSR_BF16, TSR_F32}, {TSR_I32, TSR_I32}, {TSR_I8, TSR_I8}};

  table->large = 1;
  for (int32_t i = 0; i < COUNT_OF(types); i++) {
    params p = {.op = TSR_OP_COPY, .dtype = types[i][0], .to = types[i][1], .data_a = CHECK_UNIFORM};
    p.a = i % 2 ? tsr_shape_make(2, check_many) : TSR_SHAPE(CHECK_MANY);
    p.view_a = i % 4 == 1 ? CHECK_PADDED : i % 4 == 3 ? CHECK_TRANSPOSED : CHECK_DENSE;
    add(table, p);
  }
  add(table, (params){.op = TSR_OP_COPY,
                      .dtype = TSR_F32,
                      .to = TSR_F32,
                      .data_a = CHECK_UNIFORM,
                      .a = TSR_SHAPE(4, 300, 8, 110),
                      .view_a = CHECK_HEADS});
  table->large = 0;
}

void check_cases_copy(check_table *table)
{
  static const int32_t same[] = {TSR_F32, TSR_F16, TSR_BF16, TSR_I8, TSR_I32};
  static const int32_t sizes[] = {1, 2, 3, 4, 5, 7, 63, 65, 257, 1027};
  params p = {.op = TSR_OP_COPY};

  if (table->perf) {
    add(table, (params){.op = TSR_OP_COPY, .dtype = TSR_F32, .to = TSR_F32, .a = TSR_SHAPE(512, 2048)});
    add(table,
        (params){
            .op = TSR_OP_COPY, .dtype = TSR_F32, .to = TSR_F32, .a = TSR_SHAPE(512, 2048), .view_a = CHECK_TRANSPOSED});
    return;
  }
  for (int32_t i = 0; i < 3; i++) {
    for (int32_t j = 0; j < 3; j++) {
      p.dtype = check_float_dtypes[i];
      p.to = check_float_dtypes[j];
      p.view_a = CHECK_DENSE;
      p.a = TSR_SHAPE(7, 61);
      for (int32_t k = 0; k < 4; k++) {
        static const int32_t data[] = {CHECK_SPECIAL, CHECK_NORMAL, CHECK_TINY, CHECK_MIXED};
        p.data_a = data[k];
        add(table, p);
      }
      p.data_a = CHECK_NORMAL;
      p.view_a = CHECK_PADDED_T;
      add(table, p);
    }
  }
  for (int32_t i = 0; i < COUNT_OF(same); i++) {
    p = (params){.op = TSR_OP_COPY, .dtype = same[i], .to = same[i]};
    for (int32_t k = 0; k < COUNT_OF(sizes); k++) {
      p.a = TSR_SHAPE(sizes[k]);
      add(table, p);
    }
    p.a = tsr_shape_make(0, NULL);
    add(table, p);
    p.a = TSR_SHAPE(4, 0);
    add(table, p);
    for (int32_t k = 0; k < COUNT_OF(all_views); k++) {
      p.view_a = all_views[k];
      p.a = TSR_SHAPE(2, 3, 5, 7);
      add(table, p);
      p.a = TSR_SHAPE(33, 18);
      add(table, p);
    }
  }
  /* narrow results of odd lengths: two elements share a word */
  for (int32_t i = 1; i < 3; i++) {
    for (int32_t k = 0; k < COUNT_OF(sizes); k++) {
      p = (params){.op = TSR_OP_COPY, .dtype = TSR_F32, .to = check_float_dtypes[i], .a = TSR_SHAPE(sizes[k])};
      add(table, p);
      p = (params){.op = TSR_OP_COPY,
                   .dtype = check_float_dtypes[i],
                   .to = TSR_F32,
                   .a = TSR_SHAPE(3, sizes[k]),
                   .view_a = CHECK_PADDED};
      add(table, p);
    }
  }
  add_large_copies(table);
}

/* Leaves out or repeats some of the axes. */
static tsr_shape draw_part(check_draw *draw, tsr_shape whole)
{
  const int32_t dropped = check_draw_once_in(draw, 3) ? check_draw_below(draw, whole.rank + 1) : 0;
  tsr_shape part = tsr_shape_make(whole.rank - dropped, whole.extent + dropped);

  for (int32_t axis = 0; axis < part.rank; axis++) {
    part.extent[axis] = check_draw_once_in(draw, 5) ? 1 : part.extent[axis];
  }
  return part;
}

/* what: the operator. */
void check_random_elementwise(check_table *table, check_draw *draw, int32_t what)
{
  static const int32_t data[] = {CHECK_WIDE, CHECK_LARGE,   CHECK_TINY,  CHECK_INF,    CHECK_NAN,
                                 CHECK_ZERO, CHECK_SPECIAL, CHECK_MIXED, CHECK_CANCEL, CHECK_EXTREME};
  static const int32_t types[] = {TSR_F32, TSR_F16, TSR_BF16, TSR_I8, TSR_I32};
  params p = {.op = what, .dtype = TSR_F32};

  if (check_draw_is_large(draw)) {
    p.a = check_draw_large(draw, 1, 4, 1 << 22);
  } else {
    p.a = check_draw_shape(draw, 0, 4, check_draw_once_in(draw, 4) ? 60000 : 500, 60000);
  }
  p.view_a = check_draw_view(draw);
  p.data_a = check_draw_data(draw, data, COUNT_OF(data));
  if (what == TSR_OP_ADD || what == TSR_OP_MUL) {
    p.dtype = check_draw_once_in(draw, 4) ? TSR_I32 : TSR_F32;
    p.b = draw_part(draw, p.a);
    if (check_draw_once_in(draw, 3)) {
      p.a = draw_part(draw, p.a);
    }
    p.view_b = check_draw_view(draw);
    p.data_b = check_draw_data(draw, data, COUNT_OF(data));
  } else if (what == TSR_OP_GELU) {
    p.activation = check_draw_once_in(draw, 2) ? TSR_ACTIVATION_GELU_ERF : TSR_ACTIVATION_GELU_TANH;
  } else if (what == TSR_OP_COPY) {
    p.dtype = p.to = CHECK_DRAW(draw, types);
    if (check_draw_once_in(draw, 2)) {
      p.dtype = CHECK_DRAW(draw, check_float_dtypes);
      p.to = CHECK_DRAW(draw, check_float_dtypes);
    }
  }
  add(table, p);
}

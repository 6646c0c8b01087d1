/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of the operators that work along rows: softmax, log_softmax, layernorm, rmsnorm, topk, reduce_sum.
 */
#include "tools/conformance/cases.h"

/* The second operand: softmax's mask, layernorm's bias. */
enum { EXTRA_NONE, EXTRA_FULL, EXTRA_ROW, EXTRA_COLUMN, EXTRA_ONE, EXTRA_COUNT };

static const char *const extra_names[] = {"none", "full", "row", "column", "one"};

typedef struct params {
  tsr_shape shape;
  int32_t op, view, data, extra, extra_data, k, axes, constant, unbiased;
  float epsilon;
} params;

static tsr_ref extra_operand(check_build *build, const params *p)
{
  int64_t columns = p->shape.extent[p->shape.rank - 1];
  check_fill fill = CHECK_FILL(.data = (check_data)p->extra_data);
  tsr_shape shape = p->shape;

  switch (p->extra) {
  case EXTRA_FULL:
    return check_operand(build, TSR_STORAGE_INPUT, TSR_F32, shape, CHECK_DENSE, fill);
  case EXTRA_ROW:
    return check_operand(build, TSR_STORAGE_CONSTANT, TSR_F32, TSR_SHAPE(columns), CHECK_DENSE, fill);
  case EXTRA_COLUMN:
    shape.extent[shape.rank - 1] = 1;
    return check_operand(build, TSR_STORAGE_INPUT, TSR_F32, shape, CHECK_DENSE, fill);
  case EXTRA_ONE:
    return check_operand(build, TSR_STORAGE_INPUT, TSR_F32, TSR_SHAPE(1), CHECK_DENSE, fill);
  default:
    return TSR_NONE;
  }
}

static void build_rows(check_build *build, const void *data)
{
  const params *p = data;
  tsr_program *program = build->program;
  int64_t columns = p->shape.extent[p->shape.rank - 1];
  tsr_ref x = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, p->shape, (check_view)p->view,
                            CHECK_FILL(.data = (check_data)p->data));
  tsr_ref extra = extra_operand(build, p), gain = TSR_NONE, indices;

  if (p->op == TSR_OP_LAYERNORM || p->op == TSR_OP_RMSNORM) {
    gain = check_operand(build, TSR_STORAGE_CONSTANT, TSR_F32, TSR_SHAPE(columns),
                         p->view ? CHECK_STRIDED : CHECK_DENSE, CHECK_FILL(.data = CHECK_NORMAL));
  }
  switch (p->op) {
  case TSR_OP_SOFTMAX:
    tsr_output(program, "y", tsr_softmax(program, x, extra));
    break;
  case TSR_OP_LOG_SOFTMAX:
    tsr_output(program, "y", tsr_log_softmax(program, x));
    break;
  case TSR_OP_LAYERNORM:
    tsr_output(program, "y",
               p->unbiased ? tsr_layernorm_std(program, x, gain, extra, p->epsilon)
                           : tsr_layernorm(program, x, gain, extra, p->epsilon));
    break;
  case TSR_OP_RMSNORM:
    tsr_output(program, "y", tsr_rmsnorm(program, x, gain, p->epsilon));
    break;
  case TSR_OP_TOPK:
    tsr_output(program, "values", tsr_topk(program, x, p->k, &indices));
    tsr_output(program, "indices", indices);
    break;
  default:
    tsr_output(program, "y", tsr_reduce_sum(program, x, p->axes));
  }
}

static void add(check_table *table, params p)
{
  char shape[64];
  const char *op = tsr_op_describe(p.op)->name, *view = check_view_name((check_view)p.view);
  const char *data = check_data_name((check_data)p.data), *extra_data = check_data_name((check_data)p.extra_data);

  check_shape_text(p.shape, shape);
  switch (p.op) {
  case TSR_OP_SOFTMAX:
    check_table_add(table, p.op, build_rows, &p, sizeof(p), "%s(x=%s,view=%s,data=%s,mask=%s:%s)", op, shape, view,
                    data, extra_names[p.extra], extra_data);
    break;
  case TSR_OP_LAYERNORM:
    check_table_add(table, p.op, build_rows, &p, sizeof(p), "%s(x=%s,view=%s,data=%s,bias=%s,epsilon=%g%s)", op, shape,
                    view, data, extra_names[p.extra], (double)p.epsilon, p.unbiased ? ",unbiased" : "");
    break;
  case TSR_OP_RMSNORM:
    check_table_add(table, p.op, build_rows, &p, sizeof(p), "%s(x=%s,view=%s,data=%s,epsilon=%g)", op, shape, view,
                    data, (double)p.epsilon);
    break;
  case TSR_OP_TOPK:
    check_table_add(table, p.op, build_rows, &p, sizeof(p), "%s(x=%s,view=%s,data=%s,k=%d)", op, shape, view, data,
                    (int)p.k);
    break;
  case TSR_OP_REDUCE_SUM:
    check_table_add(table, p.op, build_rows, &p, sizeof(p), "%s(x=%s,view=%s,data=%s,axes=%d)", op, shape, view, data,
                    (int)p.axes);
    break;
  default:
    check_table_add(table, p.op, build_rows, &p, sizeof(p), "%s(x=%s,view=%s,data=%s)", op, shape, view, data);
  }
}

static const int32_t all_views[] = {CHECK_OFFSET,   CHECK_PADDED, CHECK_STRIDED,   CHECK_TRANSPOSED,     CHECK_PADDED_T,
                                    CHECK_REVERSED, CHECK_HEADS,  CHECK_BROADCAST, CHECK_BROADCAST_LAST, CHECK_SCALAR};

/* Sizes, ranks, views, empty tensors and values, of any of the operators; `p` holds what they share. */
static void add_shapes(check_table *table, params p)
{
  static const int32_t rows[] = {1, 2, 3, 5, 17, 64, 129};

  p.data = CHECK_NORMAL;
  for (int32_t i = 0; i < COUNT_OF(check_row_sizes); i++) {
    p.shape = TSR_SHAPE(check_row_sizes[i] > 600 ? 3 : 5, check_row_sizes[i]);
    add(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(rows); i++) {
    p.shape = TSR_SHAPE(rows[i], 37);
    add(table, p);
  }
  p.shape = TSR_SHAPE(1031);
  add(table, p);
  p.shape = TSR_SHAPE(3, 5, 37);
  add(table, p);
  p.shape = TSR_SHAPE(2, 3, 5, 37);
  add(table, p);
  p.shape = TSR_SHAPE(2, 4, 33, 65);
  add(table, p);
  p.shape = TSR_SHAPE(2049, 3);
  add(table, p);
  for (int32_t i = 0; i < COUNT_OF(all_views); i++) {
    p.view = all_views[i];
    p.shape = TSR_SHAPE(4, 21);
    add(table, p);
    p.shape = TSR_SHAPE(3, 4, 70);
    add(table, p);
    p.shape = TSR_SHAPE(2, 3, 5, 18);
    add(table, p);
    p.shape = TSR_SHAPE(300);
    add(table, p);
  }
}

static void add_empty(check_table *table, params p)
{
  p.data = CHECK_NORMAL;
  p.shape = TSR_SHAPE(0, 5);
  add(table, p);
  p.shape = TSR_SHAPE(2, 0, 5);
  add(table, p);
  if (p.op != TSR_OP_TOPK) {
    p.shape = TSR_SHAPE(3, 0);
    add(table, p);
    p.shape = TSR_SHAPE(0);
    add(table, p);
    p.shape = TSR_SHAPE(2, 3, 0, 4);
    add(table, p);
  }
}

static void add_values(check_table *table, params p, const int32_t *data, int32_t n_data)
{
  for (int32_t i = 0; i < n_data; i++) {
    p.data = data[i];
    p.shape = TSR_SHAPE(6, 29);
    add(table, p);
    p.shape = TSR_SHAPE(4, 517);
    add(table, p);
  }
  p.data = CHECK_INTEGER;
  p.shape = TSR_SHAPE(7, 1);
  add(table, p);
}

static const int32_t softmax_data[] = {
    CHECK_WIDE,       CHECK_INTEGER, CHECK_TIES, CHECK_LARGE, CHECK_TINY,    CHECK_CONSTANT, CHECK_SPIKE, CHECK_NEGINF,
    CHECK_NEGINF_ROW, CHECK_POSINF,  CHECK_NAN,  CHECK_INF,   CHECK_SPECIAL, CHECK_SHIFTED,  CHECK_ZERO,  CHECK_EDGES};
static const int32_t masks[] = {CHECK_NORMAL, CHECK_NEGINF, CHECK_NEGINF_ROW, CHECK_POSINF, CHECK_LARGE, CHECK_NAN};

static void add_softmax(check_table *table)
{
  params p = {.op = TSR_OP_SOFTMAX};

  add_shapes(table, p);
  add_empty(table, p);
  add_values(table, p, softmax_data, COUNT_OF(softmax_data));
  for (int32_t i = EXTRA_FULL; i < EXTRA_COUNT; i++) {
    for (int32_t j = 0; j < COUNT_OF(masks); j++) {
      p = (params){.op = TSR_OP_SOFTMAX, .extra = i, .extra_data = masks[j], .shape = TSR_SHAPE(2, 3, 5, 33)};
      add(table, p);
      p.shape = TSR_SHAPE(7, 300);
      p.data = CHECK_WIDE;
      add(table, p);
    }
  }
  /* an excluded element may hold anything */
  for (int32_t i = 0; i < 3; i++) {
    static const int32_t hidden[] = {CHECK_NAN, CHECK_POSINF, CHECK_NEGINF};
    add(table, (params){.op = TSR_OP_SOFTMAX,
                        .shape = TSR_SHAPE(40, 11),
                        .data = hidden[i],
                        .extra = EXTRA_FULL,
                        .extra_data = CHECK_NEGINF});
  }
  /* the vocabulary of NLLB: more rounds than some drivers' loops take */
  add(table, (params){.op = TSR_OP_LOG_SOFTMAX, .shape = TSR_SHAPE(2, 256206)});
  p = (params){.op = TSR_OP_LOG_SOFTMAX};
  add_shapes(table, p);
  add_empty(table, p);
  add_values(table, p, softmax_data, COUNT_OF(softmax_data));
}

static const int32_t norm_data[] = {CHECK_WIDE,    CHECK_INTEGER, CHECK_BIG,  CHECK_TINY,  CHECK_CONSTANT, CHECK_SPIKE,
                                    CHECK_SHIFTED, CHECK_CANCEL,  CHECK_ZERO, CHECK_MIXED, CHECK_NAN,      CHECK_INF};
static const float norm_epsilons[] = {1e-12f, 1e-6f, 1e-3f, 1.0f};

static void add_norms(check_table *table)
{
  params p = {.op = TSR_OP_LAYERNORM, .epsilon = 1e-5f, .extra = EXTRA_ROW};

  add_shapes(table, p);
  add_empty(table, p);
  add_values(table, p, norm_data, COUNT_OF(norm_data));
  for (int32_t i = 0; i < COUNT_OF(norm_epsilons); i++) {
    p = (params){.op = TSR_OP_LAYERNORM, .epsilon = norm_epsilons[i], .shape = TSR_SHAPE(5, 100)};
    add(table, p);
    p.op = TSR_OP_RMSNORM;
    add(table, p);
    p.data = CHECK_CONSTANT;
    add(table, p);
    p.op = TSR_OP_LAYERNORM;
    add(table, p);
    p.unbiased = 1;
    add(table, p);
    p.data = CHECK_NORMAL;
    add(table, p);
  }
  p = (params){.op = TSR_OP_LAYERNORM, .epsilon = 1e-6f, .extra = EXTRA_ROW, .unbiased = 1};
  add_shapes(table, p);
  add_empty(table, p);
  add_values(table, p, norm_data, COUNT_OF(norm_data));
  p = (params){.op = TSR_OP_RMSNORM, .epsilon = 1e-5f};
  add_shapes(table, p);
  add_empty(table, p);
  add_values(table, p, norm_data, COUNT_OF(norm_data));
}

static const int32_t reduce_data[] = {CHECK_INTEGER, CHECK_LARGE, CHECK_TINY, CHECK_MIXED,   CHECK_CANCEL,
                                      CHECK_INF,     CHECK_NAN,   CHECK_ZERO, CHECK_CONSTANT};

static void add_reduce(check_table *table)
{
  params p = {.op = TSR_OP_REDUCE_SUM, .axes = 1};

  add_values(table, p, reduce_data, COUNT_OF(reduce_data));
  p.axes = 2;
  add_values(table, p, reduce_data, COUNT_OF(reduce_data));
  for (int32_t rank = 1; rank <= 4; rank++) {
    for (int32_t axes = 0; axes < 1 << rank; axes++) {
      p.axes = axes;
      p.view = rank > 1 && axes % 3 == 1 ? CHECK_TRANSPOSED : axes % 3 == 2 ? CHECK_PADDED : CHECK_DENSE;
      p.data = axes % 2 ? CHECK_INTEGER : CHECK_NORMAL;
      p.shape = tsr_shape_make(rank, (const int64_t[]){5, 7, 9, 13});
      add(table, p);
      p.shape = tsr_shape_make(rank, (const int64_t[]){2, 1, 3, 65});
      add(table, p);
    }
  }
  p = (params){.op = TSR_OP_REDUCE_SUM};
  for (int32_t axes = 1; axes <= 3; axes++) {
    static const int64_t extents[][2] = {{1, 5001}, {5001, 1}, {3, 1031}, {1031, 3}, {257, 255}, {64, 64}};
    for (int32_t rank = 0; rank < COUNT_OF(extents); rank++) {
      p.axes = axes;
      p.shape = tsr_shape_make(2, extents[rank]);
      p.data = CHECK_NORMAL;
      add(table, p);
      p.data = CHECK_INTEGER;
      add(table, p);
    }
  }
  for (int32_t axes = 0; axes < COUNT_OF(all_views); axes++) {
    p = (params){.op = TSR_OP_REDUCE_SUM, .axes = 2, .view = all_views[axes], .shape = TSR_SHAPE(4, 37)};
    add(table, p);
    p.axes = 5;
    p.shape = TSR_SHAPE(3, 4, 37);
    add(table, p);
  }
  for (int32_t axes = 0; axes < 4; axes++) {
    p = (params){.op = TSR_OP_REDUCE_SUM, .axes = axes, .shape = TSR_SHAPE(0, 5)};
    add(table, p);
    p.shape = TSR_SHAPE(3, 0);
    add(table, p);
  }
}

/* Rows of real models, with something at their ends and at the edges of tiles. Whole numbers where sums are exact. */
static void add_large(check_table *table)
{
  static const struct {
    int32_t op, unbiased;
  } kinds[] = {
      {TSR_OP_SOFTMAX, 0}, {TSR_OP_LOG_SOFTMAX, 0}, {TSR_OP_LAYERNORM, 0}, {TSR_OP_LAYERNORM, 1}, {TSR_OP_RMSNORM, 0}};

  for (int32_t kind = 0; kind < COUNT_OF(kinds); kind++) {
    const int norm = kinds[kind].op != TSR_OP_SOFTMAX && kinds[kind].op != TSR_OP_LOG_SOFTMAX;
    params p = {.op = kinds[kind].op, .unbiased = kinds[kind].unbiased, .epsilon = norm ? 1e-5f : 0.0f};
    for (int32_t i = 0; i < COUNT_OF(check_large_rows); i++) {
      if (norm && check_large_rows[i][1] > 100000) {
        continue;
      }
      p.shape = tsr_shape_make(2, check_large_rows[i]);
      p.data = p.shape.extent[0] > 100 ? CHECK_NORMAL : CHECK_EDGES;
      p.extra = kinds[kind].op == TSR_OP_LAYERNORM ? EXTRA_ROW : EXTRA_NONE;
      add(table, p);
    }
  }
  add(table,
      (params){
          .op = TSR_OP_SOFTMAX, .shape = TSR_SHAPE(2, 2, 100, 2003), .extra = EXTRA_FULL, .extra_data = CHECK_EDGES});
}

static void add_large_sums(check_table *table)
{
  static const struct {
    int32_t axes;
    int64_t extent[2];
  } sums[] = {{2, {4, 250112}}, {1, {250112, 4}}, {3, {1031, 1033}}, {1, {2049, 512}}};

  for (int32_t i = 0; i < COUNT_OF(sums); i++) {
    add(table, (params){.op = TSR_OP_REDUCE_SUM,
                        .axes = sums[i].axes,
                        .data = CHECK_INTEGER,
                        .shape = tsr_shape_make(2, sums[i].extent)});
  }
}

static const int32_t topk_data[] = {CHECK_TINY,       CHECK_TIES,     CHECK_INTEGER,   CHECK_NAN,        CHECK_INF,
                                    CHECK_ZERO,       CHECK_CONSTANT, CHECK_ASCENDING, CHECK_DESCENDING, CHECK_NEGINF,
                                    CHECK_NEGINF_ROW, CHECK_LARGE,    CHECK_SPIKE,     CHECK_MIXED};

void check_cases_topk(check_table *table)
{
  static const int32_t n[] = {1, 2, 5, 16, 31, 33, 64, 65, 129, 257, 1000, 1024, 1031, 5001};
  static const int32_t k[] = {1, 2, 4, 8, 12, 31, 32, 33, 64, 129, 500, 1000, 1024};
  params p = {.op = TSR_OP_TOPK};

  if (table->perf) {
    p.shape = TSR_SHAPE(4, 16000);
    p.k = 8;
    add(table, p);
    return;
  }
  for (int32_t i = 0; i < COUNT_OF(n); i++) {
    for (int32_t j = 0; j < COUNT_OF(k); j++) {
      if (k[j] > n[i] || (k[j] > 16 && (i + j) % 3 != 0 && k[j] != n[i])) {
        continue; /* of the larger ones a third, and all that take the whole row */
      }
      p.shape = TSR_SHAPE(n[i] > 600 ? 2 : 4, n[i]);
      p.k = k[j];
      p.data = (i + j) % 2 ? CHECK_TIES : CHECK_NORMAL;
      add(table, p);
    }
  }
  for (int32_t i = 0; i < COUNT_OF(topk_data); i++) {
    p.data = topk_data[i];
    p.shape = TSR_SHAPE(6, 29);
    p.k = 29;
    add(table, p);
    p.k = 4;
    add(table, p);
    p.shape = TSR_SHAPE(3, 1500);
    p.k = 9;
    add(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(all_views); i++) {
    p = (params){.op = TSR_OP_TOPK, .k = 6, .view = all_views[i], .shape = TSR_SHAPE(3, 4, 50)};
    add(table, p);
    p.shape = TSR_SHAPE(2, 2, 3, 18);
    add(table, p);
  }
  p = (params){.op = TSR_OP_TOPK, .k = 1, .shape = TSR_SHAPE(129, 16001)};
  add(table, p);
  p.k = 5;
  p.shape = TSR_SHAPE(700);
  add(table, p);
  add_empty(table, p);
  table->large = 1;
  for (int32_t i = 0; i < COUNT_OF(check_large_rows); i++) {
    p = (params){
        .op = TSR_OP_TOPK, .k = i % 2 ? 8 : 1, .data = CHECK_EDGES, .shape = tsr_shape_make(2, check_large_rows[i])};
    add(table, p);
  }
  add(table, (params){.op = TSR_OP_TOPK, .k = 50, .data = CHECK_ASCENDING, .shape = TSR_SHAPE(2, 32003)});
  table->large = 0;
}

void check_cases_reduce(check_table *table)
{
  if (table->perf) {
    add(table, (params){.op = TSR_OP_REDUCE_SUM, .axes = 2, .shape = TSR_SHAPE(512, 512)});
    add(table, (params){.op = TSR_OP_REDUCE_SUM, .axes = 1, .shape = TSR_SHAPE(512, 512)});
    return;
  }
  add_reduce(table);
  table->large = 1;
  add_large_sums(table);
  table->large = 0;
}

void check_cases_rows(check_table *table)
{
  if (table->perf) {
    add(table, (params){.op = TSR_OP_SOFTMAX, .shape = TSR_SHAPE(8, 8, 64, 64)});
    add(table, (params){.op = TSR_OP_LOG_SOFTMAX, .shape = TSR_SHAPE(4, 16000)});
    add(table, (params){.op = TSR_OP_LAYERNORM, .extra = EXTRA_ROW, .epsilon = 1e-5f, .shape = TSR_SHAPE(512, 512)});
    add(table, (params){.op = TSR_OP_RMSNORM, .epsilon = 1e-5f, .shape = TSR_SHAPE(512, 512)});
    return;
  }
  add_softmax(table);
  add_norms(table);
  add(table, (params){.op = TSR_OP_SOFTMAX, .shape = TSR_SHAPE(9, 37), .view = CHECK_FAR});
  table->large = 1;
  add_large(table);
  table->large = 0;
}

static void draw_norm(check_draw *draw, params *p)
{
  p->data = check_draw_data(draw, norm_data, COUNT_OF(norm_data));
  p->epsilon = CHECK_DRAW(draw, norm_epsilons);
  if (p->op == TSR_OP_LAYERNORM) {
    p->extra = check_draw_once_in(draw, 2) ? EXTRA_ROW : EXTRA_NONE;
    p->unbiased = check_draw_once_in(draw, 3);
  }
}

/* what: the operator. */
void check_random_rows(check_table *table, check_draw *draw, int32_t what)
{
  params p = {.op = what};

  if (check_draw_is_large(draw)) {
    p.shape = check_draw_large(draw, 1, 4, 300000);
  } else {
    p.shape = check_draw_shape(draw, 1, 4, check_draw_once_in(draw, 8) ? 20000 : 1500, 60000);
  }
  const int64_t columns = p.shape.extent[p.shape.rank - 1];
  p.view = check_draw_view(draw);
  switch (what) {
  case TSR_OP_SOFTMAX:
    p.extra = check_draw_below(draw, EXTRA_COUNT);
    p.extra_data = p.extra ? CHECK_DRAW(draw, masks) : CHECK_NORMAL;
    p.data = check_draw_data(draw, softmax_data, COUNT_OF(softmax_data));
    break;
  case TSR_OP_LOG_SOFTMAX:
    p.data = check_draw_data(draw, softmax_data, COUNT_OF(softmax_data));
    break;
  case TSR_OP_TOPK:
    p.k = check_draw_size(draw, (int32_t)(columns < 1024 ? columns : 1024));
    p.data = check_draw_data(draw, topk_data, COUNT_OF(topk_data));
    break;
  case TSR_OP_REDUCE_SUM:
    p.axes = check_draw_below(draw, 1 << p.shape.rank);
    p.data = check_draw_data(draw, reduce_data, COUNT_OF(reduce_data));
    break;
  default:
    draw_norm(draw, &p);
  }
  add(table, p);
}

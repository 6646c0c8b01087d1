/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of dropout, the loss and its gradient, the sum of squares, the optimiser.
 */
#include <math.h>

#include "tools/conformance/cases.h"

static const int32_t all_views[] = {CHECK_DENSE,      CHECK_OFFSET,         CHECK_PADDED,   CHECK_STRIDED,
                                    CHECK_TRANSPOSED, CHECK_PADDED_T,       CHECK_REVERSED, CHECK_HEADS,
                                    CHECK_BROADCAST,  CHECK_BROADCAST_LAST, CHECK_SCALAR};

/* ------------------------------------------------------------------------------------------------------------------
 * dropout
 */
typedef struct dropout_params {
  tsr_shape x;
  int32_t view, view_seed, data, stream, runs, seed; /* seed: 0 random, or one of the lists */
  float rate;
} dropout_params;

static const int32_t seed_zero[] = {0, 0};
static const int32_t seed_one[] = {1, 0};
static const int32_t seed_high[] = {INT32_MIN, -1};

static void build_dropout(check_build *build, const void *data)
{
  static const int32_t *const seeds[] = {NULL, seed_zero, seed_one, seed_high};
  const dropout_params *p = data;
  tsr_ref x = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, p->x, (check_view)p->view,
                            CHECK_FILL(.data = (check_data)p->data));
  tsr_ref seed = p->seed ? check_integers(build, seeds[p->seed], 2, 0) : check_seed(build, (check_view)p->view_seed);

  tsr_output(build->program, "y", tsr_dropout(build->program, x, seed, p->rate, p->stream));
}

static void add_dropout(check_table *table, dropout_params p)
{
  static const char *const seeds[] = {"random", "zero", "one", "high"};
  char x[64];
  check_case *test =
      check_table_add(table, TSR_OP_DROPOUT, build_dropout, &p, sizeof(p),
                      "dropout(x=%s,view=%s/%s,data=%s,seed=%s,rate=%g,stream=%d,runs=%d)", check_shape_text(p.x, x),
                      check_view_name((check_view)p.view), check_view_name((check_view)p.view_seed),
                      check_data_name((check_data)p.data), seeds[p.seed], (double)p.rate, (int)p.stream, (int)p.runs);

  if (test && p.runs) {
    test->runs = p.runs;
  }
}

void check_cases_dropout(check_table *table)
{
  static const int32_t sizes[] = {1,  7,  8,   9,   15,  16,  17,  31,   32,   33,   63,
                                  64, 65, 127, 128, 255, 256, 257, 1000, 1031, 5001, 65537};
  static const float rates[] = {0.0f, 0.1f, 0.3f, 0.5f, 0.99f, 0x1p-17f, 0x1.8p-16f, 0x1.fffffep-1f};
  static const int32_t streams[] = {0, 1, 2, 77, -1, INT32_MIN, INT32_MAX};
  static const int32_t data[] = {CHECK_LARGE, CHECK_TINY,    CHECK_INF,    CHECK_NAN,
                                 CHECK_ZERO,  CHECK_SPECIAL, CHECK_INTEGER};
  dropout_params p;

  if (table->perf) {
    add_dropout(table, (dropout_params){.x = TSR_SHAPE(2500, 1024), .rate = 0.1f});
    return;
  }
  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    add_dropout(table, (dropout_params){.x = TSR_SHAPE(sizes[i]), .rate = i % 2 ? 0.5f : 0.1f, .stream = i});
    add_dropout(table, (dropout_params){.x = TSR_SHAPE(3, sizes[i]), .rate = i % 2 ? 0.1f : 0.5f, .runs = 1 + i % 3});
  }
  for (int32_t i = 0; i < COUNT_OF(rates); i++) {
    add_dropout(table, (dropout_params){.x = TSR_SHAPE(7, 61), .rate = rates[i], .runs = 2});
    add_dropout(table, (dropout_params){.x = TSR_SHAPE(2, 3, 33, 65), .rate = rates[i], .seed = i % 4});
  }
  for (int32_t i = 0; i < COUNT_OF(streams); i++) {
    add_dropout(table, (dropout_params){.x = TSR_SHAPE(5, 77), .rate = 0.5f, .stream = streams[i], .seed = i % 4});
    add_dropout(table, (dropout_params){.x = TSR_SHAPE(5, 77), .rate = 0.1f, .stream = streams[i]});
  }
  for (int32_t i = 0; i < COUNT_OF(all_views); i++) {
    p = (dropout_params){.x = TSR_SHAPE(2, 3, 5, 7), .view = all_views[i], .rate = 0.5f, .view_seed = CHECK_STRIDED};
    add_dropout(table, p);
    p.x = TSR_SHAPE(6, 33);
    p.view_seed = i % 2 ? CHECK_BROADCAST : CHECK_PADDED;
    add_dropout(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    add_dropout(table, (dropout_params){.x = TSR_SHAPE(7, 61), .data = data[i], .rate = 0.3f});
  }
  add_dropout(table, (dropout_params){.x = tsr_shape_make(0, NULL), .rate = 0.5f});
  add_dropout(table, (dropout_params){.x = TSR_SHAPE(3, 0, 5), .rate = 0.5f});
  table->large = 1; /* the second half drops other elements than the first */
  add_dropout(table,
              (dropout_params){.x = TSR_SHAPE(2 * CHECK_MANY), .rate = 0.1f, .stream = 3, .data = CHECK_POSITIVE});
  add_dropout(table, (dropout_params){
                         .x = TSR_SHAPE(2049, 513), .rate = 0.5f, .view = CHECK_TRANSPOSED, .data = CHECK_POSITIVE});
  table->large = 0;
}

void check_random_dropout(check_table *table, check_draw *draw, int32_t what)
{
  static const int32_t data[] = {CHECK_LARGE, CHECK_TINY, CHECK_INF, CHECK_NAN, CHECK_ZERO, CHECK_SPECIAL};
  static const float rates[] = {0.0f, 0.1f, 0.3f, 0.5f, 0.99f, 0x1p-17f};
  dropout_params p = {.stream = 0};

  (void)what;
  if (check_draw_is_large(draw)) {
    p.x = check_draw_large(draw, 1, 4, 1 << 22);
  } else {
    p.x = check_draw_shape(draw, 0, 4, check_draw_once_in(draw, 4) ? 60000 : 500, 60000);
  }
  p.view = check_draw_view(draw);
  p.view_seed = check_draw_view(draw);
  p.data = check_draw_data(draw, data, COUNT_OF(data));
  p.stream = check_draw_below(draw, 1000) - 500;
  p.runs = 1 + check_draw_below(draw, 3);
  p.seed = check_draw_once_in(draw, 2) ? 0 : check_draw_below(draw, 4);
  p.rate = CHECK_DRAW(draw, rates);
  add_dropout(table, p);
}

/* ------------------------------------------------------------------------------------------------------------------
 * cross_entropy and its gradient
 */
typedef struct loss_params {
  int32_t op, rows, columns, view, view_labels, data, labels, chain, data_dloss;
  float smoothing;
} loss_params;

/* Labels within; some one beyond; far beyond; all ignored; the first; the last. */
enum { LABELS_INSIDE, LABELS_NEAR, LABELS_FAR, LABELS_NONE, LABELS_FIRST, LABELS_LAST };
static const char *const label_names[] = {"inside", "near", "far", "none", "first", "last"};

static tsr_ref make_labels(check_build *build, const loss_params *p)
{
  static const int32_t far[] = {0, -1, INT32_MAX, 0, INT32_MIN, -100, 0};
  check_fill fill = CHECK_FILL(.low = 0, .high = p->columns - 1);

  switch (p->labels) {
  case LABELS_NEAR:
    fill = CHECK_FILL(.low = -1, .high = p->columns);
    break;
  case LABELS_FAR:
    fill = CHECK_FILL(.list = far, .n_list = COUNT_OF(far));
    break;
  case LABELS_NONE:
    fill = CHECK_FILL(.low = -7, .high = -1);
    break;
  case LABELS_FIRST:
    fill = CHECK_FILL(.low = 0, .high = 0);
    break;
  case LABELS_LAST:
    fill = CHECK_FILL(.low = p->columns - 1, .high = p->columns - 1);
    break;
  default:
    break;
  }
  return check_operand(build, TSR_STORAGE_INPUT, TSR_I32, TSR_SHAPE(p->rows), (check_view)p->view_labels, fill);
}

static void build_loss(check_build *build, const void *data)
{
  const loss_params *p = data;
  tsr_program *program = build->program;
  tsr_ref logits = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, TSR_SHAPE(p->rows, p->columns), (check_view)p->view,
                                 CHECK_FILL(.data = (check_data)p->data));
  tsr_ref labels = make_labels(build, p), loss = TSR_NONE, lse;

  if (p->op == TSR_OP_CROSS_ENTROPY || p->chain) {
    loss = tsr_cross_entropy(program, logits, labels, p->smoothing, &lse);
  }
  if (p->op == TSR_OP_CROSS_ENTROPY) {
    tsr_output(program, "loss", loss);
    tsr_output(program, "lse", lse);
    return;
  }
  if (!p->chain) {
    lse = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, TSR_SHAPE(p->rows), (check_view)p->view_labels,
                        CHECK_FILL(.data = CHECK_POSITIVE));
  }
  tsr_ref dloss = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, TSR_SHAPE(p->rows), (check_view)p->view_labels,
                                CHECK_FILL(.data = (check_data)p->data_dloss));
  tsr_output(program, "dlogits", tsr_cross_entropy_gradient(program, logits, labels, lse, dloss, p->smoothing));
}

static void add_loss(check_table *table, loss_params p)
{
  const char *op = tsr_op_describe(p.op)->name;

  check_table_add(table, p.op, build_loss, &p, sizeof(p),
                  "%s(T=%d,V=%d,view=%s/%s,data=%s/%s,labels=%s,smoothing=%g,chain=%d)", op, (int)p.rows,
                  (int)p.columns, check_view_name((check_view)p.view), check_view_name((check_view)p.view_labels),
                  check_data_name((check_data)p.data), check_data_name((check_data)p.data_dloss), label_names[p.labels],
                  (double)p.smoothing, (int)p.chain);
}

static const int32_t loss_data[] = {CHECK_WIDE,       CHECK_INTEGER, CHECK_LARGE,   CHECK_TINY,
                                    CHECK_CONSTANT,   CHECK_SPIKE,   CHECK_SHIFTED, CHECK_NEGINF,
                                    CHECK_NEGINF_ROW, CHECK_POSINF,  CHECK_NAN,     CHECK_ZERO};

static void add_losses(check_table *table, int32_t op)
{
  static const int32_t columns[] = {1, 2, 7, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 128, 255, 256, 257, 1000, 5001};
  static const int32_t rows[] = {1, 2, 7, 8, 9, 17, 33, 64, 65, 257};
  const int32_t gradient = op == TSR_OP_CROSS_ENTROPY_GRADIENT;
  loss_params p;
  int32_t n = COUNT_OF(all_views);

  for (int32_t i = 0; i < COUNT_OF(columns); i++) {
    p = (loss_params){.op = op, .rows = 5, .columns = columns[i], .smoothing = i % 2 ? 0.1f : 0.0f};
    add_loss(table, p);
    p.smoothing = i % 2 ? 0.0f : 0.1f;
    p.labels = 1 + i % 5;
    p.chain = gradient;
    add_loss(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(rows); i++) {
    add_loss(table, (loss_params){.op = op, .rows = rows[i], .columns = 37, .smoothing = 0.1f, .labels = i % 6});
  }
  for (int32_t i = 0; i < n; i++) {
    p = (loss_params){
        .op = op, .rows = 6, .columns = 33, .view = all_views[i], .smoothing = 0.1f, .labels = LABELS_NEAR};
    p.view_labels = i % 4 == 1 ? CHECK_STRIDED : i % 4 == 2 ? CHECK_BROADCAST : i % 4 == 3 ? CHECK_PADDED : CHECK_DENSE;
    add_loss(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(loss_data); i++) {
    /* the gradient's sums are its own where the logits are wild; a row without a finite logit has no gradient */
    p = (loss_params){.op = op, .rows = 6, .columns = 29, .data = loss_data[i], .chain = gradient};
    if (gradient && loss_data[i] == CHECK_NEGINF_ROW) {
      continue;
    }
    add_loss(table, p);
    p.smoothing = 0.2f;
    p.labels = LABELS_NEAR;
    p.columns = 300;
    add_loss(table, p);
    p.labels = LABELS_NONE; /* an ignored label: whatever the row holds */
    add_loss(table, p);
  }
  add_loss(table, (loss_params){.op = op, .rows = 9, .columns = 50, .smoothing = 0.9f});
  add_loss(table, (loss_params){.op = op, .rows = 0, .columns = 50, .smoothing = 0.1f});
}

void check_cases_loss(check_table *table)
{
  static const int32_t data[] = {CHECK_ZERO, CHECK_LARGE, CHECK_TINY, CHECK_NAN, CHECK_INTEGER, CHECK_CONSTANT};

  if (table->perf) {
    add_loss(table, (loss_params){.op = TSR_OP_CROSS_ENTROPY, .rows = 2500, .columns = 8000, .smoothing = 0.1f});
    add_loss(table,
             (loss_params){.op = TSR_OP_CROSS_ENTROPY_GRADIENT, .rows = 2500, .columns = 8000, .smoothing = 0.1f});
    return;
  }
  add_losses(table, TSR_OP_CROSS_ENTROPY);
  add_losses(table, TSR_OP_CROSS_ENTROPY_GRADIENT);
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    add_loss(table, (loss_params){.op = TSR_OP_CROSS_ENTROPY_GRADIENT,
                                  .rows = 7,
                                  .columns = 40,
                                  .labels = LABELS_NEAR,
                                  .data_dloss = data[i],
                                  .smoothing = 0.1f});
  }
  table->large = 1;
  for (int32_t op = TSR_OP_CROSS_ENTROPY; op <= TSR_OP_CROSS_ENTROPY_GRADIENT; op++) {
    for (int32_t i = 0; i < 2; i++) {
      loss_params p = {.op = op, .rows = i ? 4 : 33, .columns = i ? 250112 : 32003, .smoothing = 0.1f};
      p.chain = op == TSR_OP_CROSS_ENTROPY_GRADIENT;
      p.labels = i ? LABELS_LAST : LABELS_NEAR;
      p.data = i ? CHECK_EDGES : CHECK_NORMAL;
      add_loss(table, p);
    }
  }
  add_loss(table, (loss_params){.op = TSR_OP_CROSS_ENTROPY, .rows = 8, .columns = 32003, .data = CHECK_EDGES});
  add_loss(table, (loss_params){.op = TSR_OP_CROSS_ENTROPY, .rows = 2049, .columns = 512, .smoothing = 0.1f});
  table->large = 0;
}

/* what: the operator. The gradient is as add_losses has it. */
void check_random_loss(check_table *table, check_draw *draw, int32_t what)
{
  static const float smoothings[] = {0.0f, 0.1f, 0.2f, 0.9f};
  static const int32_t data[] = {CHECK_ZERO, CHECK_LARGE, CHECK_TINY, CHECK_NAN, CHECK_CONSTANT};
  loss_params p = {.op = what, .rows = check_draw_size(draw, 300), .columns = 1};

  p.columns = check_draw_size(draw, 60000 / p.rows < 5000 ? 60000 / p.rows : 5000);
  if (check_draw_is_large(draw)) {
    const tsr_shape large = check_draw_large(draw, 2, 2, 300000);
    p.rows = (int32_t)large.extent[0];
    p.columns = (int32_t)large.extent[1];
  }
  p.view = check_draw_view(draw);
  p.view_labels = check_draw_view(draw);
  p.labels = check_draw_below(draw, COUNT_OF(label_names));
  p.smoothing = CHECK_DRAW(draw, smoothings);
  p.data = check_draw_data(draw, loss_data, COUNT_OF(loss_data));
  if (what == TSR_OP_CROSS_ENTROPY_GRADIENT) {
    p.data = p.data == CHECK_NEGINF_ROW ? CHECK_NEGINF : p.data;
    p.chain = p.data == CHECK_NORMAL || p.data == CHECK_INTEGER ? check_draw_below(draw, 2) : 1;
    p.data_dloss = check_draw_data(draw, data, COUNT_OF(data));
  }
  add_loss(table, p);
}

/* ------------------------------------------------------------------------------------------------------------------
 * sum_of_squares and adam
 */
typedef struct squares_params {
  tsr_shape x;
  int32_t view, data, plus;
} squares_params;

static void build_squares(check_build *build, const void *data)
{
  const squares_params *p = data;
  tsr_ref x = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, p->x, (check_view)p->view,
                            CHECK_FILL(.data = (check_data)p->data));
  tsr_ref plus =
      p->plus ? check_input(build, TSR_SHAPE(1), p->data == CHECK_INTEGER ? CHECK_TIES : CHECK_POSITIVE) : TSR_NONE;

  tsr_output(build->program, "y", tsr_sum_of_squares(build->program, x, plus));
}

static void add_squares(check_table *table, squares_params p)
{
  char x[64];

  check_table_add(table, TSR_OP_SUM_OF_SQUARES, build_squares, &p, sizeof(p),
                  "sum_of_squares(x=%s,view=%s,data=%s,plus=%d)", check_shape_text(p.x, x),
                  check_view_name((check_view)p.view), check_data_name((check_data)p.data), (int)p.plus);
}

static void add_sums_of_squares(check_table *table)
{
  static const int32_t sizes[] = {1, 7, 8, 9, 31, 33, 64, 65, 255, 256, 257, 1000, 5001, 65537};
  static const int32_t data[] = {CHECK_LARGE, CHECK_BIG, CHECK_TINY, CHECK_INF, CHECK_NAN, CHECK_ZERO, CHECK_MIXED};

  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    add_squares(table, (squares_params){.x = TSR_SHAPE(sizes[i]), .plus = i % 2});
    add_squares(table, (squares_params){.x = TSR_SHAPE(sizes[i]), .plus = (i + 1) % 2, .data = CHECK_INTEGER});
  }
  for (int32_t i = 0; i < COUNT_OF(all_views); i++) {
    add_squares(table, (squares_params){.x = TSR_SHAPE(2, 3, 5, 7), .view = all_views[i], .plus = 1});
    add_squares(table, (squares_params){.x = TSR_SHAPE(33, 65), .view = all_views[i], .data = CHECK_INTEGER});
  }
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    add_squares(table, (squares_params){.x = TSR_SHAPE(7, 61), .data = data[i], .plus = i % 2});
  }
  add_squares(table, (squares_params){.x = tsr_shape_make(0, NULL), .plus = 1});
  add_squares(table, (squares_params){.x = TSR_SHAPE(3, 0, 5), .plus = 1});
  add_squares(table, (squares_params){.x = TSR_SHAPE(0)});
  table->large = 1; /* whole numbers: exact, so that each element counts */
  add_squares(table, (squares_params){.x = TSR_SHAPE(CHECK_MANY), .data = CHECK_INTEGER, .plus = 1});
  add_squares(table,
              (squares_params){.x = tsr_shape_make(2, check_many), .data = CHECK_INTEGER, .view = CHECK_TRANSPOSED});
  table->large = 0;
}

typedef struct adam_params {
  tsr_shape shape;
  int32_t view, view_state, data, average, norm, decoupled, runs;
  float beta1, beta2, epsilon, decay, max_norm;
} adam_params;

/* The norm: absent; below what clips; above; NaN in the second of three runs; infinite in the second; 0. */
enum { NORM_NONE, NORM_SMALL, NORM_LARGE, NORM_NAN, NORM_INF, NORM_ZERO };
static const char *const norm_names[] = {"none", "small", "large", "nan", "inf", "zero"};
static const float norms[][3] = {{0, 0, 0},         {0.01f, 0.2f, 0.5f},    {100.0f, 2.0f, 1e6f},
                                 {4.0f, NAN, 9.0f}, {4.0f, INFINITY, 9.0f}, {0, 0, 0}};

/* Learning rate, the corrections of the first three steps with decays of 0.9 and 0.98, the gradient's factor, 1 - the
 * average's decay. */
static const float controls[] = {1e-3f, 10.0f, 50.0f, 0.5f,      0.1f,      2e-3f, 5.263158f, 25.252525f,
                                 0.25f, 0.01f, 3e-2f, 3.690037f, 17.00449f, -1.0f, 1.0f};

static void build_adam(check_build *build, const void *data)
{
  const adam_params *p = data;
  const check_fill normal = CHECK_FILL(.data = CHECK_NORMAL), positive = CHECK_FILL(.data = CHECK_POSITIVE);
  const check_view view = (check_view)p->view_state;
  tsr_adam_args args = {.beta1 = p->beta1,
                        .beta2 = p->beta2,
                        .epsilon = p->epsilon,
                        .decay = p->decay,
                        .decoupled = p->decoupled,
                        .max_norm = p->max_norm};

  args.parameter = check_operand(build, TSR_STORAGE_STATE, TSR_F32, p->shape, view, normal);
  args.m = check_operand(build, TSR_STORAGE_STATE, TSR_F32, p->shape, view, normal);
  args.v = check_operand(build, TSR_STORAGE_STATE, TSR_F32, p->shape, view, positive);
  if (p->average) {
    args.average = check_operand(build, TSR_STORAGE_STATE, TSR_F32, p->shape, view, normal);
  }
  args.gradient = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, p->shape, (check_view)p->view,
                                CHECK_FILL(.data = (check_data)p->data));
  args.control = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, TSR_SHAPE(5), p->view ? CHECK_STRIDED : CHECK_DENSE,
                               CHECK_FILL(.reals = controls, .n_list = COUNT_OF(controls), .step = 5));
  if (p->norm) {
    args.norm = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, TSR_SHAPE(1), CHECK_DENSE,
                              CHECK_FILL(.reals = norms[p->norm], .n_list = 3, .step = 1));
  }
  tsr_adam(build->program, &args);
}

static void add_adam(check_table *table, adam_params p)
{
  char shape[64];

  p.epsilon = p.epsilon > 0.0f ? p.epsilon : 1e-8f;
  p.beta1 = p.beta1 > 0.0f ? p.beta1 : 0.9f;
  p.beta2 = p.beta2 > 0.0f ? p.beta2 : 0.98f;
  check_case *test = check_table_add(
      table, TSR_OP_ADAM, build_adam, &p, sizeof(p),
      "adam(parameter=%s,view=%s/%s,data=%s,average=%d,norm=%s,max_norm=%g,decay=%g:%d,beta=%g/%g,epsilon=%g,runs=%d)",
      check_shape_text(p.shape, shape), check_view_name((check_view)p.view_state), check_view_name((check_view)p.view),
      check_data_name((check_data)p.data), (int)p.average, norm_names[p.norm], (double)p.max_norm, (double)p.decay,
      (int)p.decoupled, (double)p.beta1, (double)p.beta2, (double)p.epsilon, (int)p.runs);
  if (test) {
    test->runs = p.runs > 0 ? p.runs : 1;
  }
}

void check_random_squares(check_table *table, check_draw *draw, int32_t what)
{
  static const int32_t data[] = {CHECK_LARGE, CHECK_BIG, CHECK_TINY, CHECK_INF, CHECK_NAN, CHECK_ZERO, CHECK_MIXED};
  squares_params p = {.plus = 0};

  (void)what;
  if (check_draw_is_large(draw)) {
    p.x = check_draw_large(draw, 1, 4, 1 << 22);
  } else {
    p.x = check_draw_shape(draw, 0, 4, check_draw_once_in(draw, 4) ? 60000 : 500, 60000);
  }
  p.view = check_draw_view(draw);
  p.data = check_draw_data(draw, data, COUNT_OF(data));
  p.plus = check_draw_below(draw, 2);
  add_squares(table, p);
}

void check_random_adam(check_table *table, check_draw *draw, int32_t what)
{
  static const int32_t data[] = {CHECK_TINY, CHECK_ZERO, CHECK_NAN, CHECK_MIXED, CHECK_BIG, CHECK_CONSTANT};
  static const float decays[] = {0.0f, 0.01f, 0.1f}, epsilons[] = {1e-8f, 1e-6f, 1e-3f};
  static const float max_norms[] = {0.0f, 1.0f, 0.3f};
  adam_params p = {.runs = 1};

  (void)what;
  if (check_draw_is_large(draw)) {
    p.shape = check_draw_large(draw, 1, 4, 1 << 22);
  } else {
    p.shape = check_draw_shape(draw, 0, 4, 1000, 20000);
  }
  p.view = check_draw_view(draw);
  p.view_state = check_draw_once_in(draw, 3) ? CHECK_OFFSET : CHECK_DENSE;
  p.data = check_draw_data(draw, data, COUNT_OF(data));
  p.average = check_draw_below(draw, 2);
  p.norm = check_draw_below(draw, COUNT_OF(norms));
  p.decoupled = check_draw_below(draw, 2);
  p.runs = 1 + check_draw_below(draw, 3);
  p.epsilon = CHECK_DRAW(draw, epsilons);
  p.decay = CHECK_DRAW(draw, decays);
  p.max_norm = p.norm ? CHECK_DRAW(draw, max_norms) : 0.0f;
  add_adam(table, p);
}

void check_cases_optimiser(check_table *table)
{
  static const int32_t sizes[] = {1, 7, 8, 9, 16, 17, 31, 33, 64, 65, 255, 256, 257, 1000, 5001};
  static const int32_t views[] = {CHECK_STRIDED,   CHECK_TRANSPOSED, CHECK_PADDED_T,       CHECK_REVERSED,
                                  CHECK_BROADCAST, CHECK_SCALAR,     CHECK_BROADCAST_LAST, CHECK_PADDED};
  static const int32_t data[] = {CHECK_TINY, CHECK_ZERO,    CHECK_NAN,     CHECK_MIXED,
                                 CHECK_BIG,  CHECK_INTEGER, CHECK_CONSTANT};
  adam_params p;

  if (table->perf) {
    add_squares(table, (squares_params){.x = TSR_SHAPE(8000, 256)});
    add_adam(table, (adam_params){
                        .shape = TSR_SHAPE(8000, 256), .norm = NORM_LARGE, .max_norm = 1.0f, .average = 1, .runs = 1});
    return;
  }
  add_sums_of_squares(table);
  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    p = (adam_params){.shape = TSR_SHAPE(sizes[i]), .runs = 3, .average = i % 2};
    add_adam(table, p);
    p.norm = NORM_LARGE;
    p.max_norm = 1.0f;
    p.decoupled = (i + 1) % 2;
    p.decay = 0.01f;
    add_adam(table, p);
  }
  for (int32_t i = NORM_NONE; i <= NORM_ZERO; i++) {
    for (int32_t j = 0; j < 4; j++) {
      p = (adam_params){.shape = TSR_SHAPE(5, 37), .runs = 3, .norm = i, .average = j % 2, .decoupled = j / 2};
      p.decay = j == 0 ? 0.0f : 0.1f;
      p.max_norm = i && j != 1 ? 1.0f : 0.0f;
      add_adam(table, p);
    }
  }
  for (int32_t i = 0; i < COUNT_OF(views); i++) {
    p = (adam_params){.shape = TSR_SHAPE(4, 21), .runs = 2, .view = views[i], .average = i % 2};
    p.view_state = i % 2 ? CHECK_OFFSET : CHECK_DENSE;
    add_adam(table, p);
    p.shape = TSR_SHAPE(2, 3, 5, 6);
    p.norm = NORM_SMALL;
    p.max_norm = 0.3f;
    add_adam(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    p = (adam_params){.shape = TSR_SHAPE(7, 61), .data = data[i], .average = 1, .runs = 1, .decay = 0.01f};
    add_adam(table, p);
    p.epsilon = 1e-3f;
    p.decoupled = 1;
    add_adam(table, p);
  }
  add_adam(table, (adam_params){.shape = TSR_SHAPE(300), .runs = 3, .beta1 = 0.3f, .beta2 = 0.999f, .epsilon = 1e-6f});
  add_adam(table, (adam_params){.shape = TSR_SHAPE(300), .runs = 3, .beta1 = 0x1p-30f, .beta2 = 0x1p-30f});
  add_adam(table, (adam_params){.shape = tsr_shape_make(0, NULL), .runs = 2, .average = 1});
  add_adam(table, (adam_params){.shape = TSR_SHAPE(3, 0), .runs = 2, .average = 1});
  add_adam(table, (adam_params){.shape = TSR_SHAPE(33, 18), .view = CHECK_FAR, .runs = 2, .norm = NORM_LARGE});
  table->large = 1;
  p = (adam_params){.shape = TSR_SHAPE(CHECK_MANY), .runs = 1, .norm = NORM_LARGE, .max_norm = 1.0f, .average = 1};
  p.decoupled = 1;
  p.decay = 0.01f;
  add_adam(table, p);
  add_adam(table, (adam_params){.shape = TSR_SHAPE(513, 2049), .runs = 1, .view = CHECK_TRANSPOSED});
  table->large = 0;
}

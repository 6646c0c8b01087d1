/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of the operators that follow indices: embedding, gather; and of those that write states: append, update.
 */
#include "tools/conformance/cases.h"

/* ------------------------------------------------------------------------------------------------------------------
 * embedding and gather
 */
typedef struct index_params {
  int32_t op, dtype, view, data, axis, outside, view_index; /* of i8 the data are those of the scales */
  int32_t four_bits;                                        /* 1: a table of four bits, of dtype TSR_I8 */
  tsr_shape x;                                              /* the table */
  tsr_shape index;                                          /* the ids */
  float alpha;
} index_params;

static void build_index(check_build *build, const void *data)
{
  /* beyond both ends, and where an offset of 32 bits would wrap */
  static const int32_t outside[] = {0, -1, 2, INT32_MAX, 1, INT32_MIN, 0, 1 << 30, -1000, 1};
  const index_params *p = data;
  tsr_program *program = build->program;
  int32_t axis = p->axis < 0 ? p->axis + p->x.rank : p->axis;
  int32_t last = (int32_t)p->x.extent[p->op == TSR_OP_EMBEDDING ? 0 : axis] - 1;
  check_fill ids = CHECK_FILL(.low = 0, .high = last < 0 ? 0 : last);
  tsr_ref y;

  if (p->outside == 1) {
    ids = CHECK_FILL(.list = outside, .n_list = COUNT_OF(outside));
  } else if (p->outside == 2) {
    ids = CHECK_FILL(.low = -2, .high = last + 2); /* one and two beyond */
  }
  tsr_ref x = check_operand(build, p->op == TSR_OP_EMBEDDING ? TSR_STORAGE_CONSTANT : TSR_STORAGE_INPUT, p->dtype, p->x,
                            (check_view)p->view,
                            CHECK_FILL(.data = (check_data)p->data, .low = p->dtype == TSR_I8 ? -128 : -1000,
                                       .high = p->dtype == TSR_I8 ? 127 : 1000));
  tsr_ref index = check_operand(build, TSR_STORAGE_INPUT, TSR_I32, p->index, (check_view)p->view_index, ids);
  if (p->op == TSR_OP_GATHER) {
    y = tsr_gather(program, x, index, p->axis);
  } else if (p->four_bits) {
    const tsr_shape groups = TSR_SHAPE(p->x.extent[0], p->x.extent[1] / TSR_I4_BYTES);
    tsr_ref scales = check_operand(build, TSR_STORAGE_CONSTANT, TSR_F16, groups, (check_view)p->view,
                                   CHECK_FILL(.data = (check_data)p->data));
    y = tsr_embedding_i4(program, x, scales, index, p->alpha);
  } else if (p->dtype == TSR_I8) {
    tsr_ref scales = check_operand(build, TSR_STORAGE_CONSTANT, TSR_F32, TSR_SHAPE(p->x.extent[0]), (check_view)p->view,
                                   CHECK_FILL(.data = (check_data)p->data));
    y = tsr_embedding_i8(program, x, scales, index, p->alpha);
  } else {
    y = tsr_embedding(program, x, index, p->alpha);
  }
  tsr_output(program, "y", y);
}

static void add_index(check_table *table, index_params p)
{
  static const char *const outside[] = {"inside", "far", "near"};
  char x[64], index[64];

  check_shape_text(p.x, x);
  check_shape_text(p.index, index);
  if (p.op == TSR_OP_EMBEDDING) {
    check_table_add(table, p.op, build_index, &p, sizeof(p),
                    "embedding(table=%s,type=%s,ids=%s,range=%s,view=%s/%s,alpha=%g,data=%s)", x,
                    p.four_bits ? "i4" : tsr_dtype_name(p.dtype), index, outside[p.outside],
                    check_view_name((check_view)p.view), check_view_name((check_view)p.view_index), (double)p.alpha,
                    check_data_name((check_data)p.data));
  } else {
    check_table_add(table, p.op, build_index, &p, sizeof(p),
                    "gather(x=%s,type=%s,index=%s,range=%s,axis=%d,view=%s/%s,data=%s)", x, tsr_dtype_name(p.dtype),
                    index, outside[p.outside], (int)p.axis, check_view_name((check_view)p.view),
                    check_view_name((check_view)p.view_index), check_data_name((check_data)p.data));
  }
}

static void add_embedding(check_table *table)
{
  static const tsr_dtype dtypes[] = {TSR_F32, TSR_F16, TSR_BF16, TSR_I8};
  static const int32_t widths[] = {1, 2, 3, 7, 16, 31, 33, 64, 65, 255, 256, 257};
  static const int32_t views[] = {CHECK_OFFSET,     CHECK_PADDED,   CHECK_STRIDED,
                                  CHECK_TRANSPOSED, CHECK_PADDED_T, CHECK_BROADCAST};
  static const int32_t data[] = {CHECK_EXTREME, CHECK_SPECIAL, CHECK_TINY, CHECK_LARGE, CHECK_NAN};
  index_params p;

  for (int32_t d = 0; d < COUNT_OF(dtypes); d++) {
    p = (index_params){.op = TSR_OP_EMBEDDING, .dtype = dtypes[d], .alpha = 1.0f, .index = TSR_SHAPE(11)};
    for (int32_t i = 0; i < COUNT_OF(widths); i++) {
      p.x = TSR_SHAPE(19, widths[i]);
      p.alpha = i % 2 ? 1.0f : 16.0f;
      p.outside = i % 3;
      add_index(table, p);
    }
    p.x = TSR_SHAPE(13, 21);
    p.outside = 2;
    for (int32_t i = 0; i < COUNT_OF(views); i++) {
      p.view = views[i];
      p.view_index = i % 2 ? CHECK_DENSE : CHECK_STRIDED;
      p.index = TSR_SHAPE(4, 5);
      p.alpha = i % 2 ? 22.627417f : 1.0f;
      add_index(table, p);
    }
    p.view = p.view_index = CHECK_DENSE;
    for (int32_t i = 0; i < COUNT_OF(data); i++) {
      p.data = data[i];
      p.alpha = 1.0f;
      add_index(table, p);
    }
    p.data = CHECK_NORMAL;
    p.index = tsr_shape_make(0, NULL);
    add_index(table, p);
    p.index = TSR_SHAPE(2, 3, 5);
    add_index(table, p);
    p.index = TSR_SHAPE(2, 0);
    add_index(table, p);
    p.index = TSR_SHAPE(5);
    p.x = TSR_SHAPE(0, 8);
    p.outside = 1;
    add_index(table, p);
    p.x = TSR_SHAPE(8, 0);
    add_index(table, p);
    p.x = TSR_SHAPE(5001, 33);
    p.outside = 0;
    p.index = TSR_SHAPE(129);
    add_index(table, p);
    p.view_index = CHECK_BROADCAST;
    add_index(table, p);
  }
  /* beyond what many drivers let one binding reach */
  add_index(table, (index_params){.op = TSR_OP_EMBEDDING,
                                  .dtype = TSR_F32,
                                  .x = TSR_SHAPE(131073, 256),
                                  .index = TSR_SHAPE(300),
                                  .data = CHECK_INTEGER,
                                  .outside = 2,
                                  .alpha = 1.0f});
}

static void add_gather(check_table *table)
{
  static const int32_t dtypes[] = {TSR_F32, TSR_F16, TSR_BF16, TSR_I32};
  static const int32_t views[] = {CHECK_OFFSET,   CHECK_PADDED, CHECK_TRANSPOSED, CHECK_PADDED_T,
                                  CHECK_REVERSED, CHECK_HEADS,  CHECK_BROADCAST,  CHECK_BROADCAST_LAST};
  index_params p;

  for (int32_t d = 0; d < COUNT_OF(dtypes); d++) {
    p = (index_params){.op = TSR_OP_GATHER, .dtype = dtypes[d]};
    for (int32_t rank = 1; rank <= 4; rank++) {
      p.x = tsr_shape_make(rank, (const int64_t[]){5, 7, 3, 9});
      for (int32_t axis = -1; axis < rank; axis++) {
        p.axis = axis;
        p.outside = (rank + axis) % 3 < 0 ? 0 : (rank + axis) % 3;
        p.index = TSR_SHAPE(1 + (rank * 5 + axis) % 7);
        add_index(table, p);
      }
    }
    for (int32_t i = 0; i < COUNT_OF(views); i++) {
      p = (index_params){.op = TSR_OP_GATHER,
                         .dtype = dtypes[d],
                         .view = views[i],
                         .axis = i % 3,
                         .outside = 2,
                         .x = TSR_SHAPE(4, 6, 5),
                         .index = TSR_SHAPE(9),
                         .view_index = i % 2 ? CHECK_STRIDED : 0};
      add_index(table, p);
    }
    p = (index_params){.op = TSR_OP_GATHER,
                       .dtype = dtypes[d],
                       .x = TSR_SHAPE(6, 9),
                       .index = TSR_SHAPE(13),
                       .data = CHECK_SPECIAL,
                       .outside = 1};
    add_index(table, p);
    p.data = CHECK_NORMAL;
    p.index = TSR_SHAPE(0);
    add_index(table, p);
    p.index = TSR_SHAPE(4);
    p.x = TSR_SHAPE(0, 9);
    add_index(table, p);
    p.x = TSR_SHAPE(6, 0);
    add_index(table, p);
    p.outside = 0;
    p.x = TSR_SHAPE(300, 65);
    p.index = TSR_SHAPE(129);
    add_index(table, p);
    p.axis = 1;
    add_index(table, p);
  }
}

/* Tables of four bits: x has the bytes of whole groups. */
static void add_four_bits(check_table *table)
{
  static const int32_t groups[] = {1, 2, 3, 8, 17};
  static const int32_t views[] = {CHECK_DENSE,      CHECK_OFFSET,   CHECK_PADDED,   CHECK_STRIDED,
                                  CHECK_TRANSPOSED, CHECK_PADDED_T, CHECK_BROADCAST};
  static const int32_t data[] = {CHECK_UNIFORM, CHECK_TINY, CHECK_NAN, CHECK_INF};
  index_params p = {.op = TSR_OP_EMBEDDING, .dtype = TSR_I8, .four_bits = 1, .index = TSR_SHAPE(11)};

  for (int32_t i = 0; i < COUNT_OF(groups); i++) {
    p.x = TSR_SHAPE(19, groups[i] * TSR_I4_BYTES);
    p.alpha = i % 2 ? 1.0f : 16.0f;
    p.outside = i % 3;
    add_index(table, p);
  }
  p.index = TSR_SHAPE(4, 5);
  p.x = TSR_SHAPE(13, 3 * TSR_I4_BYTES);
  for (int32_t i = 0; i < COUNT_OF(views); i++) {
    p.view = views[i];
    p.view_index = i % 2 ? CHECK_DENSE : CHECK_STRIDED;
    p.alpha = i % 2 ? 22.627417f : 1.0f;
    add_index(table, p);
  }
  p.view = p.view_index = CHECK_DENSE;
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    p.data = data[i];
    add_index(table, p);
  }
  p.data = CHECK_UNIFORM;
  p.x = TSR_SHAPE(0, TSR_I4_BYTES);
  add_index(table, p);
  p.x = TSR_SHAPE(32003, 2 * TSR_I4_BYTES);
  p.index = TSR_SHAPE(3, 300);
  add_index(table, p);
}

/* Vocabularies, and more than 2^20 elements of the result. */
static void add_large_indices(check_table *table)
{
  static const tsr_dtype tables[] = {TSR_F32, TSR_F16, TSR_BF16, TSR_I8};
  index_params p;

  for (int32_t i = 0; i < COUNT_OF(tables); i++) {
    p = (index_params){.op = TSR_OP_EMBEDDING, .dtype = tables[i], .alpha = i % 2 ? 22.627417f : 1.0f, .outside = 2};
    p.data = CHECK_UNIFORM;
    p.x = i % 2 ? TSR_SHAPE(250112, 4) : TSR_SHAPE(32003, 33);
    p.index = TSR_SHAPE(3, 300);
    add_index(table, p);
  }
  p = (index_params){
      .op = TSR_OP_EMBEDDING, .dtype = TSR_F32, .alpha = 1.0f, .x = TSR_SHAPE(5001, 513), .index = TSR_SHAPE(2049)};
  p.data = CHECK_UNIFORM;
  add_index(table, p);
  p = (index_params){
      .op = TSR_OP_GATHER, .dtype = TSR_F32, .x = TSR_SHAPE(32003, 33), .index = TSR_SHAPE(32003), .outside = 2};
  p.data = CHECK_UNIFORM;
  add_index(table, p);
  p.dtype = TSR_F16;
  p.x = TSR_SHAPE(36, 32003);
  p.axis = 1;
  add_index(table, p);
}

void check_cases_index(check_table *table)
{
  if (table->perf) {
    add_index(table, (index_params){.op = TSR_OP_EMBEDDING,
                                    .dtype = TSR_F32,
                                    .x = TSR_SHAPE(16000, 256),
                                    .index = TSR_SHAPE(16, 32),
                                    .alpha = 16.0f});
    add_index(table, (index_params){
                         .op = TSR_OP_GATHER, .dtype = TSR_F32, .x = TSR_SHAPE(512, 2048), .index = TSR_SHAPE(512)});
    return;
  }
  add_embedding(table);
  add_four_bits(table);
  add_gather(table);
  add_index(
      table,
      (index_params){
          .op = TSR_OP_GATHER, .dtype = TSR_I32, .x = TSR_SHAPE(131073, 256), .index = TSR_SHAPE(300), .outside = 2});
  table->large = 1;
  add_large_indices(table);
  table->large = 0;
}

/* what: TSR_OP_EMBEDDING or TSR_OP_GATHER. */
void check_random_index(check_table *table, check_draw *draw, int32_t what)
{
  static const int32_t tables[] = {TSR_F32, TSR_F16, TSR_BF16, TSR_I8}, types[] = {TSR_F32, TSR_F16, TSR_BF16, TSR_I32};
  static const int32_t data[] = {CHECK_EXTREME, CHECK_SPECIAL, CHECK_TINY, CHECK_LARGE, CHECK_NAN};
  static const float alphas[] = {1.0f, 1.0f, 16.0f, 22.627417f, -0.5f};
  index_params p = {.op = what, .outside = check_draw_below(draw, 3)};

  if (what == TSR_OP_EMBEDDING) {
    p.dtype = CHECK_DRAW(draw, tables);
    p.x = check_draw_is_large(draw) ? check_draw_large(draw, 2, 2, 2000) : check_draw_shape(draw, 2, 2, 600, 100000);
    p.index = check_draw_shape(draw, 0, 3, 60, 100);
    p.alpha = CHECK_DRAW(draw, alphas);
    if (p.dtype == TSR_I8 && check_draw_once_in(draw, 2)) {
      p.four_bits = 1;
      p.x.extent[1] = (p.x.extent[1] + TSR_I4_BYTES - 1) / TSR_I4_BYTES * TSR_I4_BYTES;
    }
  } else {
    p.dtype = CHECK_DRAW(draw, types);
    p.x = check_draw_shape(draw, 1, 4, 600, 20000);
    p.index = check_draw_shape(draw, 1, 1, 100, 100);
    p.axis = check_draw_below(draw, 2 * p.x.rank) - p.x.rank;
  }
  p.view = check_draw_view(draw);
  p.view_index = check_draw_view(draw);
  p.data = check_draw_data(draw, data, COUNT_OF(data));
  add_index(table, p);
}

/* ------------------------------------------------------------------------------------------------------------------
 * append and update
 */
static const int32_t positions_first[] = {0};
static const int32_t positions_one[] = {3};
static const int32_t positions_each[] = {2, 0, 5};
static const int32_t positions_last[] = {6, 5, 7};
static const int32_t positions_beyond[] = {INT32_MAX, 8, 100};

static const struct {
  const char *name;
  const int32_t *list;
  int32_t n; /* 1: shared by all sentences; 3: each of them has its own, these in turn */
} positions[] = {{"none", NULL, 0},
                 {"first", positions_first, 1},
                 {"shared", positions_one, 1},
                 {"each", positions_each, 3},
                 {"last", positions_last, 3},
                 {"beyond", positions_beyond, 3},
                 {"any", NULL, 3}};

enum { POSITIONS_ANY = COUNT_OF(positions) - 1 }; /* without a list: up to behind the end */

typedef struct state_params {
  int32_t op, dtype, from; /* from: x's type where it is not the state's, else 0 */
  int32_t position, runs, step, view, view_state, view_position, data;
  tsr_shape state, x;
} state_params;

static void build_state(check_build *build, const void *data)
{
  const state_params *p = data;
  check_fill fill = CHECK_FILL(.data = CHECK_NORMAL, .low = -1000, .high = 1000);
  tsr_ref state = check_operand(build, TSR_STORAGE_STATE, p->dtype, p->state, (check_view)p->view_state, fill);
  tsr_ref position = TSR_NONE;
  const int32_t n = positions[p->position].n;

  fill.data = (check_data)p->data;
  tsr_ref x = check_operand(build, TSR_STORAGE_INPUT, p->from ? p->from : p->dtype, p->x, (check_view)p->view, fill);
  if (p->op == TSR_OP_UPDATE) {
    tsr_update(build->program, state, x);
    return;
  }
  if (n) {
    position = check_operand(build, TSR_STORAGE_INPUT, TSR_I32, TSR_SHAPE(n == 1 ? 1 : p->state.extent[0]),
                             (check_view)p->view_position,
                             CHECK_FILL(.list = positions[p->position].list, .n_list = n, .step = p->step,
                                        .high = (int32_t)p->state.extent[1] + 1));
  }
  tsr_append(build->program, state, x, position);
}

static void add_state(check_table *table, state_params p)
{
  char state[64], x[64], type[32];
  check_case *test;

  snprintf(type, sizeof(type), "%s%s%s", p.from ? tsr_dtype_name(p.from) : "", p.from ? ">" : "",
           tsr_dtype_name(p.dtype));

  check_shape_text(p.state, state);
  check_shape_text(p.x, x);
  if (p.op == TSR_OP_APPEND) {
    test = check_table_add(table, p.op, build_state, &p, sizeof(p),
                           "append(state=%s,x=%s,type=%s,position=%s:%s,view=%s/%s,data=%s,runs=%d)", state, x, type,
                           positions[p.position].name, check_view_name((check_view)p.view_position),
                           check_view_name((check_view)p.view_state), check_view_name((check_view)p.view),
                           check_data_name((check_data)p.data), (int)p.runs);
  } else {
    test = check_table_add(table, p.op, build_state, &p, sizeof(p),
                           "update(state=%s,x=%s,type=%s,view=%s/%s,data=%s,runs=%d)", state, x, type,
                           check_view_name((check_view)p.view_state), check_view_name((check_view)p.view),
                           check_data_name((check_data)p.data), (int)p.runs);
  }
  if (test) {
    test->runs = p.runs;
  }
}

static const int32_t state_views[] = {CHECK_OFFSET,   CHECK_PADDED,   CHECK_TRANSPOSED,
                                      CHECK_PADDED_T, CHECK_REVERSED, CHECK_HEADS};

static void add_append(check_table *table, int32_t dtype, int32_t from)
{
  state_params p;

  for (int32_t i = 0; i < POSITIONS_ANY; i++) {
    for (int32_t rank = 2; rank <= 4; rank++) {
      p = (state_params){.op = TSR_OP_APPEND, .dtype = dtype, .from = from, .position = i, .runs = 1};
      p.state = tsr_shape_make(rank, (const int64_t[]){3, 8, 5, 4});
      p.x = tsr_shape_make(rank, (const int64_t[]){3, 1 + (rank + i) % 3, 5, 4});
      add_state(table, p);
      p.runs = 5;
      p.step = i == 5 ? 0 : 1;
      p.x.extent[1] = 1;
      add_state(table, p);
    }
  }
  for (int32_t i = 0; i < COUNT_OF(state_views); i++) {
    p = (state_params){.op = TSR_OP_APPEND,
                       .dtype = dtype,
                       .from = from,
                       .position = 3,
                       .runs = 3,
                       .step = 2,
                       .view_state = state_views[i],
                       .state = TSR_SHAPE(3, 8, 5, 4),
                       .x = TSR_SHAPE(3, 2, 5, 4)};
    add_state(table, p);
    p.view_state = CHECK_DENSE;
    p.view = state_views[i];
    add_state(table, p);
    p.view_state = state_views[i];
    p.view_position = CHECK_STRIDED;
    p.state = TSR_SHAPE(3, 8, 33);
    p.x = TSR_SHAPE(3, 2, 33);
    add_state(table, p);
  }
  p = (state_params){.op = TSR_OP_APPEND, .dtype = dtype, .from = from, .position = 2, .runs = 1};
  p.state = TSR_SHAPE(2, 9, 7);
  p.x = TSR_SHAPE(2, 9, 7); /* runs over the end */
  add_state(table, p);
  p.x = TSR_SHAPE(2, 20, 7);
  add_state(table, p);
  p.x = TSR_SHAPE(2, 0, 7);
  add_state(table, p);
  p.view = CHECK_BROADCAST;
  p.x = TSR_SHAPE(2, 3, 7);
  add_state(table, p);
  p.data = CHECK_SPECIAL;
  p.view = CHECK_DENSE;
  add_state(table, p);
  p.data = CHECK_NORMAL;
  p.state = TSR_SHAPE(2, 0, 7);
  add_state(table, p);
  p.position = 0;
  p.state = TSR_SHAPE(1, 64, 257);
  p.x = TSR_SHAPE(1, 31, 257);
  add_state(table, p);
}

static void add_update(check_table *table, int32_t dtype, int32_t from)
{
  static const int32_t sizes[] = {1, 3, 64, 65, 257, 1031};
  state_params p = {.op = TSR_OP_UPDATE, .dtype = dtype, .from = from, .runs = 2};

  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    p.state = p.x = TSR_SHAPE(sizes[i]);
    add_state(table, p);
    p.state = p.x = TSR_SHAPE(3, sizes[i]);
    add_state(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(state_views); i++) {
    p.state = p.x = TSR_SHAPE(2, 3, 5, 6);
    p.view_state = state_views[i];
    p.view = CHECK_DENSE;
    add_state(table, p);
    p.view = state_views[COUNT_OF(state_views) - 1 - i];
    add_state(table, p);
    p.view_state = CHECK_DENSE;
    add_state(table, p);
  }
  p.view = CHECK_DENSE;
  p.state = TSR_SHAPE(4, 3, 9);
  p.x = TSR_SHAPE(9);
  add_state(table, p);
  p.x = TSR_SHAPE(3, 1);
  add_state(table, p);
  p.x = tsr_shape_make(0, NULL);
  add_state(table, p);
  p.data = CHECK_SPECIAL;
  p.x = TSR_SHAPE(4, 3, 9);
  add_state(table, p);
  p.data = CHECK_NORMAL;
  p.state = p.x = TSR_SHAPE(3, 0);
  add_state(table, p);
}

/* Of the state, and of x where it is another one. */
static const int32_t state_types[][2] = {{TSR_F32, 0}, {TSR_I32, 0},        {TSR_F16, TSR_F32},
                                         {TSR_F16, 0}, {TSR_BF16, TSR_F32}, {TSR_BF16, 0}};

void check_cases_state(check_table *table)
{
  if (table->perf) {
    state_params p = {.op = TSR_OP_APPEND, .dtype = TSR_F32, .position = 2, .runs = 1};
    p.state = TSR_SHAPE(16, 128, 8, 32);
    p.x = TSR_SHAPE(16, 1, 8, 32);
    add_state(table, p);
    p.from = TSR_F32;
    p.dtype = TSR_F16;
    add_state(table, p);
    return;
  }
  for (int32_t i = 0; i < COUNT_OF(state_types); i++) {
    add_append(table, state_types[i][0], state_types[i][1]);
    add_update(table, state_types[i][0], state_types[i][1]);
  }
  add_state(table, (state_params){.op = TSR_OP_APPEND,
                                  .dtype = TSR_F32,
                                  .state = TSR_SHAPE(3, 8, 33),
                                  .x = TSR_SHAPE(3, 2, 33),
                                  .position = 3,
                                  .runs = 1,
                                  .view_state = CHECK_FAR});
  table->large = 1; /* caches of 2,000 positions: a step of decoding, and the keys of a source */
  for (int32_t i = 0; i < COUNT_OF(state_types); i++) {
    state_params p = {.op = TSR_OP_APPEND, .dtype = state_types[i][0], .from = state_types[i][1], .runs = 1};
    p.position = POSITIONS_ANY;
    p.data = CHECK_UNIFORM;
    p.state = TSR_SHAPE(i % 2 ? 5 : 3, 2003, i % 2 ? 2 : 3, i % 2 ? 33 : 64);
    p.x = p.state;
    p.x.extent[1] = i % 2 ? 1 : 1999;
    add_state(table, p);
    p.op = TSR_OP_UPDATE;
    p.position = 0;
    p.state = p.x = tsr_shape_make(2, check_many);
    p.view = i % 2 ? CHECK_TRANSPOSED : CHECK_DENSE;
    add_state(table, p);
  }
  table->large = 0;
}

/* what: TSR_OP_APPEND or TSR_OP_UPDATE. */
void check_random_state(check_table *table, check_draw *draw, int32_t what)
{
  const int32_t *types = CHECK_DRAW(draw, state_types);
  state_params p = {.op = what, .dtype = types[0], .from = types[1], .runs = 1 + check_draw_below(draw, 3)};

  p.state = p.x = check_draw_shape(draw, what == TSR_OP_APPEND ? 2 : 1, 4, 400, 30000);
  p.view = check_draw_view(draw);
  p.view_state = check_draw_once_in(draw, 2) ? CHECK_DENSE : CHECK_DRAW(draw, state_views);
  p.data = check_draw_once_in(draw, 4) ? CHECK_SPECIAL : CHECK_NORMAL;
  if (what == TSR_OP_APPEND) {
    p.x.extent[1] = check_draw_size(draw, (int32_t)p.state.extent[1] + 2);
    p.position = check_draw_once_in(draw, 2) ? POSITIONS_ANY : check_draw_below(draw, POSITIONS_ANY);
    p.step = check_draw_below(draw, 2);
    p.step = p.position && positions[p.position].list == positions_beyond ? 0 : p.step; /* none beyond INT32_MAX */
    p.view_position = check_draw_view(draw);
  } else {
    for (int32_t axis = 0; axis < p.x.rank; axis++) {
      p.x.extent[axis] = check_draw_once_in(draw, 6) ? 1 : p.x.extent[axis];
    }
  }
  add_state(table, p);
}

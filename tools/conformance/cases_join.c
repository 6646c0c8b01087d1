/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of concat and scatter_add: what undoes slices and gathers.
 */
#include "tools/conformance/cases.h"

/* ------------------------------------------------------------------------------------------------------------------
 * concat
 */
typedef struct concat_params {
  tsr_shape shape; /* of the operands, but for their axis */
  int32_t n, axis, dtype, data, views,
      length; /* views: 1: every operand another. length: of the operands; 0: each another */
} concat_params;

static const int32_t all_views[] = {CHECK_DENSE,      CHECK_OFFSET,         CHECK_PADDED,
                                    CHECK_TRANSPOSED, CHECK_PADDED_T,       CHECK_REVERSED,
                                    CHECK_BROADCAST,  CHECK_BROADCAST_LAST, CHECK_SCALAR};

static void build_concat(check_build *build, const void *data)
{
  /* one of them empty */
  static const int32_t lengths[TSR_MAX_INPUTS] = {3, 1, 5, 0, 8, 2, 1, 7, 4, 9, 1, 6};
  const concat_params *p = data;
  tsr_ref x[TSR_MAX_INPUTS];
  int32_t axis = p->axis < 0 ? p->axis + p->shape.rank : p->axis;

  for (int32_t i = 0; i < p->n; i++) {
    tsr_shape shape = p->shape;
    shape.extent[axis] = p->length ? p->length : lengths[i];
    x[i] = check_operand(build, i % 3 == 1 ? TSR_STORAGE_CONSTANT : TSR_STORAGE_INPUT, p->dtype, shape,
                         (check_view)(p->views ? all_views[(i + p->views) % COUNT_OF(all_views)] : CHECK_DENSE),
                         CHECK_FILL(.data = (check_data)p->data, .low = -1000000, .high = 1000000));
  }
  tsr_output(build->program, "y", tsr_concat(build->program, x, p->n, p->axis));
}

static void add_concat(check_table *table, concat_params p)
{
  char shape[64];

  check_table_add(table, TSR_OP_CONCAT, build_concat, &p, sizeof(p),
                  "concat(n=%d,x=%s,length=%d,type=%s,axis=%d,views=%d,data=%s)", (int)p.n,
                  check_shape_text(p.shape, shape), (int)p.length, tsr_dtype_name(p.dtype), (int)p.axis, (int)p.views,
                  check_data_name((check_data)p.data));
}

void check_cases_concat(check_table *table)
{
  static const int32_t widths[] = {1, 3, 16, 31, 33, 64, 65, 257};
  concat_params p;

  if (table->perf) {
    add_concat(table,
               (concat_params){.shape = TSR_SHAPE(2500, 256), .n = 3, .axis = 1, .length = 256, .dtype = TSR_F32});
    return;
  }
  for (int32_t n = 1; n <= TSR_MAX_INPUTS; n++) {
    p = (concat_params){.shape = TSR_SHAPE(2, 5, 7), .n = n, .axis = n % 3, .dtype = TSR_F32};
    add_concat(table, p);
    p.views = n;
    add_concat(table, p);
    p.dtype = n % 2 ? TSR_I32 : TSR_F32;
    p.axis = (n + 1) % 3;
    add_concat(table, p);
  }
  for (int32_t rank = 1; rank <= 4; rank++) {
    for (int32_t axis = -1; axis < rank; axis++) {
      p = (concat_params){.shape = tsr_shape_make(rank, (const int64_t[]){3, 4, 2, 5}), .n = 4, .axis = axis};
      p.dtype = axis % 2 ? TSR_I32 : TSR_F32;
      p.views = axis + 1;
      add_concat(table, p);
    }
  }
  for (int32_t i = 0; i < COUNT_OF(widths); i++) {
    add_concat(table, (concat_params){
                          .shape = TSR_SHAPE(9, widths[i]), .n = 3, .axis = i % 2, .length = 33, .dtype = TSR_F32});
  }
  add_concat(table, (concat_params){.shape = TSR_SHAPE(7, 61), .n = 4, .dtype = TSR_F32, .data = CHECK_SPECIAL});
  add_concat(table, (concat_params){.shape = TSR_SHAPE(7, 0), .n = 3, .dtype = TSR_F32});
  add_concat(table, (concat_params){.shape = TSR_SHAPE(0, 3), .n = 3, .axis = 1, .dtype = TSR_I32});
  for (int32_t n = 2; n <= TSR_MAX_INPUTS; n += 10) {
    add_concat(table, (concat_params){.shape = TSR_SHAPE(3, 5), .n = n, .axis = 1, .dtype = TSR_I32});
  }
  table->large = 1;
  p = (concat_params){.n = 3, .dtype = TSR_F32, .length = 700, .data = CHECK_UNIFORM};
  for (int32_t i = 0; i < 2; i++) {
    p.axis = i;
    p.shape = i ? TSR_SHAPE(513, 1) : TSR_SHAPE(1, 513);
    add_concat(table, p);
  }
  table->large = 0;
}

/* ------------------------------------------------------------------------------------------------------------------
 * scatter_add
 */
typedef struct scatter_params {
  tsr_shape x;
  int32_t axis, extent, view, view_index, data, range;
  float alpha;
} scatter_params;

/* inside: all within, most of them several times; one: all the same; far, near: some outside, by far or by one or two;
 * none: all outside; each: seven in turn; rows: 171 in a row are the same; padded: as a batch has it, of each 64 the
 * second half are 0 */
enum { RANGE_INSIDE, RANGE_ONE, RANGE_FAR, RANGE_NEAR, RANGE_NONE, RANGE_EACH, RANGE_ROWS, RANGE_PADDED };
static const char *const range_names[] = {"inside", "one", "far", "near", "none", "each", "rows", "padded"};

static void build_scatter(check_build *build, const void *data)
{
  /* beyond both ends, and where an offset of 32 bits would wrap */
  static const int32_t far[] = {0, -1, 2, INT32_MAX, 1, INT32_MIN, 0, 1 << 30, -1000, 1};
  static const int32_t one[] = {1}, each[] = {4, 0, 2, 6, 5, 1, 3};
  const scatter_params *p = data;
  int32_t axis = p->axis < 0 ? p->axis + p->x.rank : p->axis;
  check_fill ids = CHECK_FILL(.low = 0, .high = p->extent > 0 ? p->extent - 1 : 0);
  tsr_ref x = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, p->x, (check_view)p->view,
                            CHECK_FILL(.data = (check_data)p->data)),
          index;

  if (p->range == RANGE_ONE) {
    ids = CHECK_FILL(.list = one, .n_list = 1);
  } else if (p->range == RANGE_FAR) {
    ids = CHECK_FILL(.list = far, .n_list = COUNT_OF(far));
  } else if (p->range == RANGE_NEAR) {
    ids = CHECK_FILL(.low = -2, .high = p->extent + 1);
  } else if (p->range == RANGE_NONE) {
    ids = CHECK_FILL(.low = -9, .high = -1);
  } else if (p->range == RANGE_EACH) {
    ids = CHECK_FILL(.list = each, .n_list = COUNT_OF(each));
  } else if (p->range == RANGE_ROWS) {
    ids.repeat = 171;
  } else if (p->range == RANGE_PADDED) {
    ids.padded = 64;
  }
  index =
      check_operand(build, TSR_STORAGE_INPUT, TSR_I32, TSR_SHAPE(p->x.extent[axis]), (check_view)p->view_index, ids);
  tsr_output(build->program, "y", tsr_scatter_add(build->program, x, index, p->axis, p->extent, p->alpha));
}

static void add_scatter(check_table *table, scatter_params p)
{
  char x[64];

  p.alpha = p.alpha == 0.0f ? 1.0f : p.alpha;
  check_table_add(table, TSR_OP_SCATTER_ADD, build_scatter, &p, sizeof(p),
                  "scatter_add(x=%s,axis=%d,extent=%d,range=%s,view=%s/%s,data=%s,alpha=%g)", check_shape_text(p.x, x),
                  (int)p.axis, (int)p.extent, range_names[p.range], check_view_name((check_view)p.view),
                  check_view_name((check_view)p.view_index), check_data_name((check_data)p.data), (double)p.alpha);
}

void check_cases_scatter(check_table *table)
{
  static const int32_t widths[] = {1, 2, 3, 7, 8, 16, 31, 33, 64, 65, 255, 257};
  static const int32_t counts[] = {1, 7, 8, 9, 31, 32, 33, 64, 65, 129, 256, 257, 1000, 5001};
  static const int32_t views[] = {CHECK_OFFSET,     CHECK_PADDED,         CHECK_STRIDED,
                                  CHECK_TRANSPOSED, CHECK_PADDED_T,       CHECK_REVERSED,
                                  CHECK_BROADCAST,  CHECK_BROADCAST_LAST, CHECK_SCALAR};
  static const int32_t data[] = {CHECK_INTEGER, CHECK_LARGE, CHECK_TINY, CHECK_MIXED,
                                 CHECK_CANCEL,  CHECK_INF,   CHECK_NAN};
  static const int32_t ranges[] = {RANGE_INSIDE, RANGE_ONE, RANGE_NEAR, RANGE_ROWS, RANGE_PADDED};
  static const int32_t sevens[] = {7 * 31, 7 * 32, 7 * 33, 7 * 64, 7 * 512};
  scatter_params p;

  if (table->perf) {
    p = (scatter_params){.x = TSR_SHAPE(2500, 256), .extent = 8000, .alpha = 16.0f};
    add_scatter(table, p);
    p.range = RANGE_ONE;
    add_scatter(table, p);
    p = (scatter_params){.x = TSR_SHAPE(16384, 512), .extent = 32000, .range = RANGE_PADDED, .alpha = 16.0f};
    add_scatter(table, p);
    return;
  }
  for (int32_t i = 0; i < COUNT_OF(widths); i++) {
    p = (scatter_params){.x = TSR_SHAPE(19, widths[i]), .extent = 7, .range = i % 6, .alpha = i % 2 ? 16.0f : 1.0f};
    add_scatter(table, p);
    p.data = CHECK_INTEGER;
    p.range = RANGE_INSIDE;
    add_scatter(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(counts); i++) {
    p = (scatter_params){.x = TSR_SHAPE(counts[i], 5), .extent = 33, .range = i % 2 ? RANGE_INSIDE : RANGE_ONE};
    add_scatter(table, p);
    p = (scatter_params){.x = TSR_SHAPE(counts[i]), .extent = 1 + counts[i] / 4, .data = CHECK_INTEGER};
    add_scatter(table, p);
    p = (scatter_params){.x = TSR_SHAPE(9, 3), .extent = counts[i], .range = RANGE_NEAR};
    add_scatter(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(sevens); i++) { /* each row as long as a run of places, or near it */
    p = (scatter_params){.x = TSR_SHAPE(sevens[i], 4 + i % 2), .extent = 7, .range = RANGE_EACH};
    add_scatter(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(ranges); i++) {
    p = (scatter_params){.x = TSR_SHAPE(4, 700, 3), .axis = 1, .extent = 33, .range = ranges[i], .view = views[i]};
    add_scatter(table, p);
    p = (scatter_params){.x = TSR_SHAPE(700, 12), .extent = 33, .range = ranges[i], .view_index = views[i]};
    add_scatter(table, p);
    p.data = CHECK_NAN;
    add_scatter(table, p);
  }
  for (int32_t rank = 1; rank <= 4; rank++) {
    for (int32_t axis = -1; axis < rank; axis++) {
      p = (scatter_params){.x = tsr_shape_make(rank, (const int64_t[]){5, 7, 3, 9}), .axis = axis, .extent = 7};
      p.range = (rank + axis) % 6;
      add_scatter(table, p);
      p.data = CHECK_INTEGER;
      p.range = RANGE_INSIDE;
      p.alpha = -0.5f;
      p.view_index = CHECK_STRIDED;
      add_scatter(table, p);
    }
  }
  for (int32_t i = 0; i < COUNT_OF(views); i++) {
    p = (scatter_params){.x = TSR_SHAPE(6, 5), .extent = 4, .view = views[i], .axis = i % 2};
    p.view_index = i % 3 == 1 ? CHECK_BROADCAST : i % 3 == 2 ? CHECK_STRIDED : CHECK_DENSE;
    add_scatter(table, p);
    p.x = TSR_SHAPE(4, 6, 33);
    p.axis = i % 3;
    add_scatter(table, p);
    p.x = TSR_SHAPE(4, 6, 32);
    p.axis = i % 2;
    add_scatter(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    p = (scatter_params){.x = TSR_SHAPE(40, 11), .extent = 9, .data = data[i], .alpha = 22.627417f};
    add_scatter(table, p);
    p.alpha = 1.0f;
    add_scatter(table, p);
  }
  add_scatter(table, (scatter_params){.x = TSR_SHAPE(0, 5), .extent = 4});
  add_scatter(table, (scatter_params){.x = TSR_SHAPE(5, 0), .extent = 4});
  add_scatter(table, (scatter_params){.x = TSR_SHAPE(5, 3), .extent = 0, .range = RANGE_FAR});
  add_scatter(table, (scatter_params){.x = TSR_SHAPE(1000, 33), .extent = 5001});
  table->large = 1; /* the gradient of a vocabulary, of whole numbers: exact */
  add_scatter(
      table, (scatter_params){
                 .x = TSR_SHAPE(513, 33), .extent = 32003, .range = RANGE_NEAR, .data = CHECK_INTEGER, .alpha = 16.0f});
  add_scatter(table,
              (scatter_params){.x = TSR_SHAPE(300, 4), .extent = 250112, .range = RANGE_NEAR, .data = CHECK_INTEGER});
  add_scatter(table, (scatter_params){.x = TSR_SHAPE(1031, 1033), .extent = 300, .data = CHECK_INTEGER});
  /* many places, narrow: what sorts them and puts the parts of a row together */
  for (int32_t i = 0; i < COUNT_OF(ranges); i++) {
    p = (scatter_params){.x = TSR_SHAPE(3001, 8), .extent = 40, .range = ranges[i], .data = CHECK_INTEGER};
    add_scatter(table, p);
    p = (scatter_params){.x = TSR_SHAPE(20011, 1 + i % 2), .extent = 601, .range = ranges[i], .data = CHECK_INTEGER};
    add_scatter(table, p);
  }
  p = (scatter_params){.x = TSR_SHAPE(40009), .extent = 5, .range = RANGE_NEAR, .data = CHECK_INTEGER};
  add_scatter(table, p);
  table->large = 0;
}

void check_random_concat(check_table *table, check_draw *draw, int32_t what)
{
  concat_params p = {.shape = check_draw_shape(draw, 1, 4, 400, 5000)};

  (void)what;
  p.n = 1 + check_draw_below(draw, TSR_MAX_INPUTS);
  p.axis = check_draw_below(draw, p.shape.rank);
  p.length = check_draw_once_in(draw, 2) ? 0 : check_draw_size(draw, 20);
  p.shape.extent[p.axis] = 1; /* each operand has its own length */
  p.dtype = check_draw_once_in(draw, 3) ? TSR_I32 : TSR_F32;
  p.views = check_draw_below(draw, COUNT_OF(all_views));
  p.data = check_draw_once_in(draw, 4) ? CHECK_SPECIAL : CHECK_NORMAL;
  add_concat(table, p);
}

void check_random_scatter(check_table *table, check_draw *draw, int32_t what)
{
  static const int32_t data[] = {CHECK_LARGE, CHECK_TINY, CHECK_MIXED, CHECK_CANCEL, CHECK_INF, CHECK_NAN};
  static const float alphas[] = {1.0f, 1.0f, 16.0f, -0.5f};
  scatter_params p = {.x = check_draw_shape(draw, 1, 4, 600, 40000)};

  (void)what;
  p.axis = check_draw_below(draw, 2 * p.x.rank) - p.x.rank;
  p.range = check_draw_below(draw, COUNT_OF(range_names));
  /* the lists of numbers that are not drawn want some room */
  p.extent = check_draw_size(draw, 400) + (p.range == RANGE_ONE || p.range == RANGE_EACH ? 6 : 0);
  p.view = check_draw_view(draw);
  p.view_index = check_draw_view(draw);
  p.data = check_draw_data(draw, data, COUNT_OF(data));
  p.alpha = CHECK_DRAW(draw, alphas);
  add_scatter(table, p);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of rotate.
 */
#include "tools/conformance/cases.h"

typedef struct rotate_params {
  tsr_shape x, turns;
  int32_t view_x, view_turns, data_x, data_turns;
  float alpha;
} rotate_params;

#define SHAPED(shape_x, shape_turns, ...)                                                                              \
  ((rotate_params){.x = (shape_x), .turns = (shape_turns), .alpha = 1.0f, __VA_ARGS__})
#define PARAMS(...) SHAPED(TSR_SHAPE(2, 5, 3, 16), TSR_SHAPE(5, 1, 16), __VA_ARGS__)

static void build_rotate(check_build *build, const void *data)
{
  const rotate_params *p = data;
  tsr_ref x = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, p->x, (check_view)p->view_x,
                            CHECK_FILL(.data = (check_data)p->data_x));
  tsr_ref turns = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, p->turns, (check_view)p->view_turns,
                                CHECK_FILL(.data = (check_data)p->data_turns));

  tsr_output(build->program, "y", tsr_rotate(build->program, x, turns, p->alpha));
}

static void add(check_table *table, rotate_params p)
{
  char x[64], turns[64];

  check_table_add(table, TSR_OP_ROTATE, build_rotate, &p, sizeof(p),
                  "rotate(x=%s,turns=%s,alpha=%g,view=%s/%s,data=%s/%s)", check_shape_text(p.x, x),
                  check_shape_text(p.turns, turns), (double)p.alpha, check_view_name((check_view)p.view_x),
                  check_view_name((check_view)p.view_turns), check_data_name((check_data)p.data_x),
                  check_data_name((check_data)p.data_turns));
}

void check_cases_rotate(check_table *table)
{
  static const int32_t sizes[] = {2, 4, 6, 14, 16, 18, 30, 34, 62, 66, 128, 254, 256, 258, 2050};
  static const int32_t views[] = {CHECK_OFFSET, CHECK_PADDED,   CHECK_STRIDED,   CHECK_TRANSPOSED,    CHECK_PADDED_T,
                                  CHECK_HEADS,  CHECK_REVERSED, CHECK_BROADCAST, CHECK_BROADCAST_LAST};
  static const int32_t data[][2] = {{CHECK_LARGE, CHECK_NORMAL},    {CHECK_TINY, CHECK_NORMAL},
                                    {CHECK_INF, CHECK_NORMAL},      {CHECK_NORMAL, CHECK_NAN},
                                    {CHECK_INTEGER, CHECK_INTEGER}, {CHECK_ZERO, CHECK_INF},
                                    {CHECK_CANCEL, CHECK_CANCEL}};
  static const float alphas[] = {-1.0f, 0.0f, 0.5f};

  if (table->perf) {
    add(table, SHAPED(TSR_SHAPE(4, 128, 8, 64), TSR_SHAPE(128, 1, 64), .data_x = CHECK_NORMAL));
    return;
  }
  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    add(table, SHAPED(TSR_SHAPE(3, 2, sizes[i]), TSR_SHAPE(2, sizes[i]), .data_x = CHECK_NORMAL));
    add(table, SHAPED(TSR_SHAPE(sizes[i]), TSR_SHAPE(sizes[i]), .alpha = -1.0f));
    add(table, SHAPED(TSR_SHAPE(4, 1, 6, sizes[i]), TSR_SHAPE(4, 1, 1, sizes[i]), .data_x = CHECK_NORMAL));
  }
  for (int32_t i = 0; i < COUNT_OF(views); i++) {
    add(table, PARAMS(.view_x = views[i]));
    add(table, PARAMS(.view_turns = views[i]));
    add(table, SHAPED(TSR_SHAPE(7, 34), TSR_SHAPE(34), .view_x = views[i], .alpha = -1.0f));
  }
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    add(table, PARAMS(.data_x = data[i][0], .data_turns = data[i][1]));
  }
  for (int32_t i = 0; i < COUNT_OF(alphas); i++) {
    add(table, PARAMS(.alpha = alphas[i]));
    add(table, PARAMS(.alpha = alphas[i], .data_x = CHECK_NAN));
  }
  add(table, SHAPED(TSR_SHAPE(2, 0, 8), TSR_SHAPE(8), .data_x = CHECK_NORMAL));
  add(table, SHAPED(TSR_SHAPE(3, 0), TSR_SHAPE(0), .data_x = CHECK_NORMAL));
  table->large = 1;
  add(table, SHAPED(TSR_SHAPE(2, 300, 8, 256), TSR_SHAPE(300, 1, 256), .data_x = CHECK_NORMAL));
  table->large = 0;
}

void check_random_rotate(check_table *table, check_draw *draw, int32_t what)
{
  static const int32_t data[] = {CHECK_WIDE, CHECK_LARGE, CHECK_TINY, CHECK_INF, CHECK_NAN, CHECK_ZERO, CHECK_CANCEL};
  rotate_params p = {.alpha = check_draw_once_in(draw, 2) ? 1.0f : -1.0f};

  (void)what;
  p.x = check_draw_is_large(draw) ? check_draw_large(draw, 1, 4, 1 << 12) : check_draw_shape(draw, 1, 4, 500, 60000);
  p.x.extent[p.x.rank - 1] = (p.x.extent[p.x.rank - 1] + 1) / 2 * 2;
  p.turns = p.x;
  for (int32_t axis = 0; axis + 1 < p.turns.rank; axis++) {
    p.turns.extent[axis] = check_draw_once_in(draw, 2) ? 1 : p.turns.extent[axis];
  }
  p.view_x = check_draw_view(draw);
  p.view_turns = check_draw_view(draw);
  p.data_x = check_draw_data(draw, data, COUNT_OF(data));
  p.data_turns = check_draw_data(draw, data, COUNT_OF(data));
  add(table, p);
}

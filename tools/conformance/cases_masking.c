/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of mask, and the maskings that attention and its gradient have, too.
 */
#include <stdio.h>

#include "tools/conformance/cases_masking.h"

static const char *const additive_names[] = {"none", "full", "keys", "heads", "queries"};

/* Three sentences each; lengths below 0 and beyond S count as 0 and S. */
static const int32_t lengths_each[] = {5, 0, 1000};
static const int32_t lengths_odd[] = {1, 17, 3};
static const int32_t lengths_shared[] = {4};
static const int32_t lengths_zero[] = {0, -3, INT32_MIN};
static const int32_t lengths_whole[] = {INT32_MAX, 64, 33};
static const int32_t lengths_long[] = {101, 250, 128};
static const int32_t positions_each[] = {4, 0, 11};
static const int32_t positions_shared[] = {2};
static const int32_t positions_beyond[] = {1000, 63, 1 << 30};
static const int32_t positions_zero[] = {0};
static const int32_t positions_late[] = {235}; /* of 300 keys the last of 65 queries sees all */

/* Every length and position, one a sentence: n .. n + 65. */
#define RUN_OF_6(n) (n), (n) + 1, (n) + 2, (n) + 3, (n) + 4, (n) + 5
#define RUN_OF_66(n)                                                                                                   \
  RUN_OF_6(n), RUN_OF_6((n) + 6), RUN_OF_6((n) + 12), RUN_OF_6((n) + 18), RUN_OF_6((n) + 24), RUN_OF_6((n) + 30),      \
      RUN_OF_6((n) + 36), RUN_OF_6((n) + 42), RUN_OF_6((n) + 48), RUN_OF_6((n) + 54), RUN_OF_6((n) + 60)
static const int32_t low_run[] = {RUN_OF_66(0)};
static const int32_t high_run[] = {RUN_OF_66(64)};

typedef struct integers {
  const char *name;
  const int32_t *list;
  int32_t n; /* 1: shared by all sentences */
} integers;  /* without a list: any that make sense for the keys there are */

static const integers lengths[] = {{"none", NULL, 0},         {"each", lengths_each, 3},
                                   {"odd", lengths_odd, 3},   {"shared", lengths_shared, 1},
                                   {"zero", lengths_zero, 3}, {"whole", lengths_whole, 3},
                                   {"low", low_run, 66},      {"high", high_run, 66},
                                   {"long", lengths_long, 3}, {"any", NULL, 3}};
static const integers positions[] = {{"none", NULL, 0},
                                     {"each", positions_each, 3},
                                     {"shared", positions_shared, 1},
                                     {"beyond", positions_beyond, 3},
                                     {"zero", positions_zero, 1},
                                     {"low", low_run, 66},
                                     {"high", high_run, 66},
                                     {"late", positions_late, 1},
                                     {"any", NULL, 3}};

enum { LENGTHS_ANY = COUNT_OF(lengths) - 1, POSITIONS_ANY = COUNT_OF(positions) - 1 };

tsr_masking check_masking_make(check_build *build, const masking_params *p, int64_t n_batch, int64_t n_heads,
                               int64_t n_queries, int64_t n_keys)
{
  tsr_masking masking = {
      .causal = p->causal, .bidirectional = p->bidirectional, .max_distance = p->max_distance, .clamped = p->clamped};
  const integers *length = &lengths[p->lengths], *position = &positions[p->position];
  tsr_shape shape = TSR_SHAPE(n_batch, n_heads, n_queries, n_keys);

  if (p->additive) {
    int32_t dimension[TSR_MAX_RANK] = {CHECK_UNCUT};
    if (p->additive == ADDITIVE_KEYS) {
      shape = TSR_SHAPE(n_batch, 1, 1, n_keys);
    } else if (p->additive == ADDITIVE_HEADS) {
      shape = TSR_SHAPE(n_heads, n_queries, n_keys);
    } else if (p->additive == ADDITIVE_QUERIES) {
      shape = TSR_SHAPE(n_queries, n_keys);
    }
    if (p->additive != ADDITIVE_KEYS) {
      dimension[shape.rank - 2] = CHECK_DIMENSION_1;
    }
    masking.additive = check_operand_cut(build, TSR_STORAGE_INPUT, TSR_F32, shape,
                                         p->additive == ADDITIVE_HEADS ? CHECK_PADDED : CHECK_DENSE,
                                         CHECK_FILL(.data = (check_data)p->additive_data), dimension);
  }
  if (length->n) {
    int32_t n = length->n == 1 ? 1 : (int32_t)n_batch;
    masking.lengths =
        check_operand(build, TSR_STORAGE_INPUT, TSR_I32, TSR_SHAPE(n), CHECK_DENSE,
                      CHECK_FILL(.list = length->list, .n_list = length->n, .low = -1, .high = (int32_t)n_keys + 1));
  }
  if (position->n) {
    int32_t n = position->n == 1 ? 1 : (int32_t)n_batch;
    masking.position =
        check_operand(build, TSR_STORAGE_INPUT, TSR_I32, TSR_SHAPE(n), n > 1 ? CHECK_STRIDED : CHECK_DENSE,
                      CHECK_FILL(.list = position->list, .n_list = position->n, .high = (int32_t)n_keys + 1,
                                 .plus = (int32_t)check_first(build, CHECK_DIMENSION_1)));
  } else if (check_first(build, CHECK_DIMENSION_1) > 0 && (p->causal || p->buckets)) {
    masking.position = TSR_INVALID; /* only a position tells where the queries of a part stand */
  }
  if (p->buckets) {
    masking.relative = check_operand(build, TSR_STORAGE_CONSTANT, TSR_F32, TSR_SHAPE(p->buckets, n_heads), CHECK_DENSE,
                                     CHECK_FILL(.data = CHECK_NORMAL));
  }
  return masking;
}

char *check_relative_text(int32_t buckets, int32_t bidirectional, int32_t max_distance, int32_t clamped, char *text,
                          size_t size)
{
  if (clamped) {
    snprintf(text, size, "clamped:%d", (int)max_distance);
  } else {
    snprintf(text, size, "%d:%d:%d", (int)buckets, (int)bidirectional, (int)max_distance);
  }
  return text;
}

char *check_masking_text(const masking_params *p, char *text, size_t size)
{
  char relative[48];

  snprintf(text, size, "additive=%s:%s,lengths=%s,position=%s,causal=%d,relative=%s", additive_names[p->additive],
           check_data_name((check_data)p->additive_data), lengths[p->lengths].name, positions[p->position].name,
           (int)p->causal,
           check_relative_text(p->buckets, p->bidirectional, p->max_distance, p->clamped, relative, sizeof(relative)));
  return text;
}

const masking_params check_maskings[CHECK_MASKINGS] = {
    {.causal = 0},
    {.causal = 1},
    {.lengths = 1},
    {.lengths = 2},
    {.lengths = 3},
    {.lengths = 4},
    {.lengths = 5},
    {.causal = 1, .position = 1},
    {.causal = 1, .position = 2},
    {.causal = 1, .position = 3},
    {.causal = 1, .position = 4},
    {.causal = 1, .lengths = 1, .position = 1},
    {.causal = 1, .lengths = 2, .position = 2},
    {.additive = ADDITIVE_FULL},
    {.additive = ADDITIVE_KEYS},
    {.additive = ADDITIVE_HEADS},
    {.additive = ADDITIVE_QUERIES},
    {.additive = ADDITIVE_FULL, .additive_data = CHECK_NEGINF},
    {.additive = ADDITIVE_KEYS, .additive_data = CHECK_NEGINF},
    {.additive = ADDITIVE_QUERIES, .additive_data = CHECK_NEGINF_ROW},
    {.additive = ADDITIVE_FULL, .additive_data = CHECK_NAN},
    {.additive = ADDITIVE_FULL, .additive_data = CHECK_POSINF},
    {.additive = ADDITIVE_HEADS, .additive_data = CHECK_LARGE},
    {.additive = ADDITIVE_QUERIES, .causal = 1, .lengths = 2},
    {.buckets = 8, .bidirectional = 1, .max_distance = 20},
    {.buckets = 8, .bidirectional = 0, .max_distance = 20},
    {.buckets = 32, .bidirectional = 1, .max_distance = 128},
    {.buckets = 32, .bidirectional = 0, .max_distance = 128},
    {.buckets = 4, .bidirectional = 1, .max_distance = 3},
    {.buckets = 2, .bidirectional = 0, .max_distance = 2},
    {.buckets = 7, .bidirectional = 0, .max_distance = 11},
    {.buckets = 9, .bidirectional = 1, .max_distance = 13},
    {.buckets = 32, .bidirectional = 0, .max_distance = 128, .causal = 1, .position = 1},
    {.buckets = 32, .bidirectional = 1, .max_distance = 128, .lengths = 2, .position = 2},
    {.buckets = 16, .bidirectional = 1, .max_distance = 64, .additive = ADDITIVE_FULL},
    {.buckets = 16,
     .max_distance = 64,
     .additive = ADDITIVE_KEYS,
     .additive_data = CHECK_NEGINF,
     .lengths = 1,
     .position = 1,
     .causal = 1},
    {.clamped = 1, .buckets = 3, .max_distance = 1},
    {.clamped = 1, .buckets = 9, .max_distance = 4, .lengths = 1},
    {.clamped = 1, .buckets = 33, .max_distance = 16, .lengths = 2, .position = 2},
    {.clamped = 1, .buckets = 11, .max_distance = 5, .causal = 1, .position = 1},
    {.clamped = 1, .buckets = 129, .max_distance = 64, .additive = ADDITIVE_KEYS, .additive_data = CHECK_NEGINF},
};

const masking_params check_masking_runs[CHECK_MASKING_RUNS] = {
    {.lengths = 6},
    {.lengths = 7},
    {.causal = 1, .position = 5},
    {.causal = 1, .position = 6},
    {.causal = 1, .lengths = 6, .position = 5},
    {.position = 5, .buckets = 32, .bidirectional = 1, .max_distance = 128},
    {.position = 5, .clamped = 1, .buckets = 21, .max_distance = 10}};

/* The check_maskings that there are, of other parts. */
masking_params check_masking_draw(check_draw *draw)
{
  static const int32_t data[] = {CHECK_NEGINF, CHECK_NEGINF, CHECK_NEGINF_ROW, CHECK_NAN,
                                 CHECK_POSINF, CHECK_LARGE,  CHECK_INF,        CHECK_SPECIAL};
  masking_params p = {0};

  if (check_draw_once_in(draw, 3)) {
    p.additive = 1 + check_draw_below(draw, ADDITIVE_COUNT - 1);
    p.additive_data = check_draw_data(draw, data, COUNT_OF(data));
  }
  if (check_draw_once_in(draw, 2)) {
    p.lengths = check_draw_once_in(draw, 2) ? LENGTHS_ANY : check_draw_below(draw, LENGTHS_ANY);
  }
  if (check_draw_once_in(draw, 2)) {
    p.position = check_draw_once_in(draw, 2) ? POSITIONS_ANY : check_draw_below(draw, POSITIONS_ANY);
  }
  p.causal = check_draw_below(draw, 2);
  if (check_draw_once_in(draw, 4)) {
    p.bidirectional = check_draw_below(draw, 2);
    p.buckets = (p.bidirectional ? 4 : 2) + check_draw_below(draw, 40);
    p.max_distance = (p.bidirectional ? p.buckets / 2 : p.buckets) / 2 + check_draw_size(draw, 200);
    if (check_draw_once_in(draw, 3)) {
      p.clamped = 1;
      p.bidirectional = 0;
      p.buckets = 2 * p.max_distance + 1;
    }
  }
  return p;
}

/* ------------------------------------------------------------------------------------------------------------------
 * mask
 */
typedef struct mask_params {
  tsr_shape x;
  int32_t view, data;
  masking_params masking;
} mask_params;

static void build_mask(check_build *build, const void *data)
{
  const mask_params *p = data;
  tsr_ref x = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, p->x, (check_view)p->view,
                            CHECK_FILL(.data = (check_data)p->data));
  tsr_masking masking =
      check_masking_make(build, &p->masking, p->x.extent[0], p->x.extent[1], p->x.extent[2], p->x.extent[3]);

  tsr_output(build->program, "y", tsr_mask(build->program, x, &masking));
}

static void add_mask(check_table *table, mask_params p)
{
  char x[64], masking[192];

  check_table_add(table, TSR_OP_MASK, build_mask, &p, sizeof(p), "mask(x=%s,view=%s,data=%s,%s)",
                  check_shape_text(p.x, x), check_view_name((check_view)p.view), check_data_name((check_data)p.data),
                  check_masking_text(&p.masking, masking, sizeof(masking)));
}

void check_cases_mask(check_table *table)
{
  static const int32_t views[] = {CHECK_OFFSET,   CHECK_PADDED, CHECK_TRANSPOSED,     CHECK_PADDED_T,
                                  CHECK_REVERSED, CHECK_HEADS,  CHECK_BROADCAST_LAST, CHECK_SCALAR};
  static const int32_t data[] = {CHECK_NAN, CHECK_INF, CHECK_LARGE, CHECK_TINY, CHECK_NEGINF, CHECK_ZERO};

  if (table->perf) {
    add_mask(table, (mask_params){.x = TSR_SHAPE(8, 8, 64, 64), .masking = {.causal = 1, .lengths = 3}});
    return;
  }
  for (int32_t i = 0; i < CHECK_MASKINGS; i++) {
    add_mask(table, (mask_params){.x = TSR_SHAPE(3, 2, 7, 19), .masking = check_maskings[i]});
    add_mask(table, (mask_params){.x = TSR_SHAPE(3, 4, 1, 65), .masking = check_maskings[i]});
    add_mask(table, (mask_params){.x = TSR_SHAPE(1, 1, 33, 40), .masking = check_maskings[i]});
  }
  for (int32_t i = 0; i < COUNT_OF(views); i++) {
    add_mask(table, (mask_params){.x = TSR_SHAPE(3, 2, 5, 18), .view = views[i], .masking = check_maskings[12]});
    add_mask(table, (mask_params){.x = TSR_SHAPE(3, 2, 5, 18), .view = views[i], .masking = check_maskings[34]});
  }
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    add_mask(table, (mask_params){.x = TSR_SHAPE(3, 2, 5, 18), .data = data[i], .masking = check_maskings[12]});
    add_mask(table, (mask_params){.x = TSR_SHAPE(3, 2, 5, 18), .data = data[i], .masking = check_maskings[17]});
  }
  add_mask(table, (mask_params){.x = TSR_SHAPE(0, 2, 5, 18), .masking = check_maskings[1]});
  add_mask(table, (mask_params){.x = TSR_SHAPE(3, 0, 5, 18), .masking = check_maskings[2]});
  add_mask(table, (mask_params){.x = TSR_SHAPE(3, 2, 0, 18), .masking = check_maskings[13]});
  add_mask(table, (mask_params){.x = TSR_SHAPE(3, 2, 5, 0), .masking = check_maskings[11]});
  for (int32_t i = 0; i < CHECK_MASKING_RUNS; i++) {
    add_mask(table, (mask_params){.x = TSR_SHAPE(66, 1, 3, 65), .masking = check_masking_runs[i]});
    add_mask(table, (mask_params){.x = TSR_SHAPE(66, 2, 1, 131), .masking = check_masking_runs[i]});
  }
  /* far enough for every bucket, both directions */
  add_mask(table, (mask_params){.x = TSR_SHAPE(1, 2, 300, 301), .masking = check_maskings[26]});
  add_mask(table, (mask_params){.x = TSR_SHAPE(1, 2, 300, 301), .masking = check_maskings[27]});
  add_mask(table, (mask_params){.x = TSR_SHAPE(1, 2, 300, 301), .masking = check_maskings[40]});
  add_mask(table, (mask_params){.x = TSR_SHAPE(3, 8, 129, 67), .masking = check_maskings[11]});
  table->large = 1;
  add_mask(table, (mask_params){.x = TSR_SHAPE(1, 2, 300, 2003), .masking = check_maskings[10]});
  add_mask(table, (mask_params){.x = TSR_SHAPE(1, 1, 2003, 600), .masking = check_maskings[32]});
  add_mask(table, (mask_params){.x = TSR_SHAPE(3, 2, 300, 300), .masking = {.causal = 1, .lengths = LENGTHS_ANY}});
  table->large = 0;
}

void check_random_mask(check_table *table, check_draw *draw, int32_t what)
{
  static const int32_t data[] = {CHECK_NAN,    CHECK_INF,  CHECK_LARGE,  CHECK_TINY,
                                 CHECK_NEGINF, CHECK_ZERO, CHECK_SPECIAL};
  mask_params p = {.view = CHECK_DENSE};

  (void)what;
  p.x = check_draw_is_large(draw) ? check_draw_large(draw, 4, 4, 3000) : check_draw_shape(draw, 4, 4, 1000, 50000);
  p.view = check_draw_view(draw);
  p.data = check_draw_data(draw, data, COUNT_OF(data));
  p.masking = check_masking_draw(draw);
  add_mask(table, p);
}

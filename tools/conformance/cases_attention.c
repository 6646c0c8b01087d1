/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of attention, and what those of its gradient share with them.
 */
#include "tools/conformance/cases_attention.h"

#include <stdio.h>
#include <string.h>

/* rows: 0 none, 1 its own, 2 any of R, 3 some outside */
static const char *const rows_names[] = {"none", "own", "any", "outside"};

const char *const check_layout_names[CHECK_LAYOUTS] = {"dense", "cache", "heads", "packed"};

static tsr_ref packed(check_build *build, tsr_dtype dtype, tsr_shape shape, check_fill fill)
{
  int64_t width = shape.extent[2] * shape.extent[3];
  tsr_shape wide = TSR_SHAPE(shape.extent[0], shape.extent[1], 3 * width);
  tsr_ref x = check_operand(build, TSR_STORAGE_INPUT, dtype, wide, CHECK_DENSE, fill);

  return tsr_reshape(build->program, tsr_slice(build->program, x, 2, width, width), shape);
}

tsr_ref check_attention_operand(check_build *build, const attention_params *p, tsr_dtype dtype, int32_t queries,
                                int64_t n_batch, int64_t n_positions, int64_t width, check_fill fill)
{
  /* queries are those that can be cut */
  const int32_t dimension[TSR_MAX_RANK] = {CHECK_UNCUT, queries ? CHECK_DIMENSION_1 : CHECK_UNCUT};
  const int64_t n_heads = queries || p->groups == 0 ? p->n_heads : p->groups;
  tsr_shape shape = TSR_SHAPE(n_batch, n_positions, n_heads, width), cache = shape;

  if (p->layout == 1) {
    cache.extent[1] += 3;
    return tsr_slice(build->program, check_operand(build, TSR_STORAGE_STATE, dtype, cache, CHECK_DENSE, fill), 1, 0,
                     n_positions);
  }
  if (p->layout == 2) {
    return check_operand(build, TSR_STORAGE_INPUT, dtype, shape, CHECK_HEADS, fill);
  }
  if (p->layout == 3) {
    return packed(build, dtype, shape, fill);
  }
  return check_operand_cut(build, TSR_STORAGE_INPUT, dtype, shape, (check_view)p->view, fill, dimension);
}

check_fill check_attention_k(const attention_params *p)
{
  return CHECK_FILL(.data = (check_data)p->data_k, .hidden = p->hidden_k);
}

check_fill check_attention_v(const attention_params *p)
{
  return CHECK_FILL(.data = (check_data)p->data_v, .hidden = p->hidden, .slope = p->spread);
}

void check_attention_dropout(check_build *build, const attention_params *p, tsr_attention_args *args)
{
  if (p->seed) {
    args->seed = check_seed(build, p->view ? CHECK_STRIDED : CHECK_DENSE);
    args->rate = p->rate;
    args->stream = p->stream;
  }
}

static void build_attention(check_build *build, const void *data)
{
  const attention_params *p = data;
  int64_t n_rows = p->rows ? p->n_batch + 2 : p->n_batch;
  tsr_dtype dtype = p->dtype ? p->dtype : TSR_F32;
  tsr_attention_args args = {.alpha = p->alpha, .softcap = p->softcap};
  check_fill rows = CHECK_FILL(.low = 0, .high = (int32_t)n_rows - 1);
  tsr_ref weights = TSR_NONE, lse = TSR_NONE;

  args.q = check_attention_operand(build, p, TSR_F32, 1, p->n_batch, p->n_queries, p->k,
                                   CHECK_FILL(.data = (check_data)p->data_q));
  args.k = check_attention_operand(build, p, dtype, 0, n_rows, p->n_keys, p->k, check_attention_k(p));
  args.v = check_attention_operand(build, p, dtype, 0, n_rows, p->n_keys, p->j, check_attention_v(p));
  if (p->rows == 1) {
    args.rows = tsr_expand(
        build->program, check_operand(build, TSR_STORAGE_INPUT, TSR_I32, TSR_SHAPE(p->n_batch, 1), CHECK_DENSE, rows),
        TSR_SHAPE(p->n_batch, p->n_keys));
  } else if (p->rows) {
    if (p->rows == 3) {
      rows.low = -1;
      rows.high++;
    }
    args.rows = check_operand(build, TSR_STORAGE_INPUT, TSR_I32, TSR_SHAPE(p->n_batch, p->n_keys), CHECK_DENSE, rows);
  }
  args.masking = check_masking_make(build, &p->masking, p->n_batch, p->n_heads, p->n_queries, p->n_keys);
  args.weights = p->weights ? &weights : NULL;
  args.lse = p->lse ? &lse : NULL;
  args.reduced_precision = p->reduced;
  check_attention_dropout(build, p, &args);
  check_output_cut(build, "y", tsr_attention(build->program, &args),
                   (const int32_t[TSR_MAX_RANK]){CHECK_UNCUT, CHECK_DIMENSION_1});
  if (p->weights) {
    check_output_cut(build, "weights", weights,
                     (const int32_t[TSR_MAX_RANK]){CHECK_UNCUT, CHECK_UNCUT, CHECK_DIMENSION_1});
  }
  if (p->lse) {
    check_output_cut(build, "lse", lse, (const int32_t[TSR_MAX_RANK]){CHECK_UNCUT, CHECK_UNCUT, CHECK_DIMENSION_1});
  }
}

/* What a case has beside what every case has: "" or ",seed=..". */
char *check_attention_text(const attention_params *p, char *text, size_t size)
{
  text[0] = 0;
  if (p->seed) {
    snprintf(text, size, ",seed=%g:%d", (double)p->rate, (int)p->stream);
  }
  if (p->lse && strlen(text) < size) {
    snprintf(text + strlen(text), size - strlen(text), ",lse=1");
  }
  if (p->dtype && strlen(text) < size) {
    snprintf(text + strlen(text), size - strlen(text), ",type=%s", tsr_dtype_name(p->dtype));
  }
  if (p->reduced && strlen(text) < size) {
    snprintf(text + strlen(text), size - strlen(text), ",narrow%s%s", p->reduced > 1 ? " " : "",
             p->reduced > 1 ? tsr_dtype_name(p->reduced) : "");
  }
  if ((p->groups || p->softcap != 0.0f) && strlen(text) < size) {
    snprintf(text + strlen(text), size - strlen(text), ",groups=%d,softcap=%g", (int)p->groups, (double)p->softcap);
  }
  if ((p->hidden || p->hidden_k) && strlen(text) < size) {
    snprintf(text + strlen(text), size - strlen(text), ",hidden=%d+%d:%d", (int)p->hidden, (int)p->spread,
             (int)p->hidden_k);
  }
  if ((p->hidden_q || p->hidden_dy) && strlen(text) < size) {
    snprintf(text + strlen(text), size - strlen(text), ",before=%d:%d-%d", (int)p->hidden_q, (int)p->hidden_dy,
             (int)p->spread);
  }
  if (p->runs && strlen(text) < size) {
    snprintf(text + strlen(text), size - strlen(text), ",runs=%d", (int)p->runs);
  }
  return text;
}

static void add(check_table *table, attention_params p)
{
  char masking[192], training[96];
  check_case *test = check_table_add(
      table, TSR_OP_ATTENTION, build_attention, &p, sizeof(p),
      "attention(B=%d,L=%d,S=%d,H=%d,K=%d,J=%d,rows=%s,layout=%s,view=%s,data=%s/%s/%s,weights=%d,alpha=%g,%s%s)",
      (int)p.n_batch, (int)p.n_queries, (int)p.n_keys, (int)p.n_heads, (int)p.k, (int)p.j, rows_names[p.rows],
      check_layout_names[p.layout], check_view_name((check_view)p.view), check_data_name((check_data)p.data_q),
      check_data_name((check_data)p.data_k), check_data_name((check_data)p.data_v), (int)p.weights, (double)p.alpha,
      check_masking_text(&p.masking, masking, sizeof(masking)), check_attention_text(&p, training, sizeof(training)));

  if (test && p.runs) {
    test->runs = p.runs;
  }
  if (test && table->large && (double)p.n_batch * p.n_heads * p.n_queries * p.n_keys * (p.k + p.j) > 2e7 && !p.seed &&
      p.layout == 0) {
    check_case_cut(test, 6, p.n_queries, 4, 0, 0);
  }
}

/* On both sides of every size that a block may have. */
const int32_t check_head_sizes[CHECK_HEAD_SIZES] = {1,  2,  3,  4,  7,  8,  16,  17,  31,  32,  33,
                                                    48, 63, 64, 65, 80, 96, 127, 128, 148, 236, 256};
const int32_t check_key_sizes[CHECK_KEY_SIZES] = {1,  2,  3,  4,  7,   8,   15,  16,  17,  31,  32,
                                                  33, 63, 64, 65, 127, 128, 129, 255, 257, 511, 1031};
const int32_t check_query_sizes[CHECK_QUERY_SIZES] = {1, 2, 3, 4, 8, 15, 16, 17, 33, 64, 65, 129};
const int32_t check_operand_views[CHECK_OPERAND_VIEWS] = {
    CHECK_OFFSET, CHECK_PADDED, CHECK_TRANSPOSED, CHECK_PADDED_T, CHECK_REVERSED, CHECK_HEADS, CHECK_BROADCAST_LAST};
const float check_rates[CHECK_RATES] = {0.0f, 0.1f, 0.5f, 0.99f};
const int32_t check_streams[CHECK_STREAMS] = {1, -1, INT32_MIN};

static void add_sizes(check_table *table)
{
  for (int32_t i = 0; i < COUNT_OF(check_head_sizes); i++) {
    const int one = i % 2;
    add(table, PARAMS(.k = check_head_sizes[i], .j = check_head_sizes[i], .n_queries = one ? 1 : 5,
                      .n_keys = one ? 40 : 19, .masking = check_maskings[one ? 2 : 0]));
    add(table, PARAMS(.k = check_head_sizes[i], .j = check_head_sizes[(i + 7) % COUNT_OF(check_head_sizes)],
                      .masking = check_maskings[11]));
  }
  for (int32_t i = 0; i < COUNT_OF(check_key_sizes); i++) {
    add(table, PARAMS(.n_keys = check_key_sizes[i], .weights = i % 2));
    add(table, PARAMS(.n_keys = check_key_sizes[i], .n_queries = 1, .n_heads = 3, .masking = check_maskings[7], .k = 32,
                      .j = 32));
    add(table, PARAMS(.n_keys = check_key_sizes[i], .n_queries = 3, .masking = check_maskings[2], .layout = 1, .k = 8,
                      .j = 8));
  }
  for (int32_t i = 0; i < COUNT_OF(check_query_sizes); i++) {
    add(table, PARAMS(.n_queries = check_query_sizes[i], .n_keys = check_query_sizes[i], .masking = check_maskings[1],
                      .weights = i % 2));
    add(table, PARAMS(.n_queries = check_query_sizes[i], .n_keys = 33, .n_heads = 1, .masking = check_maskings[12]));
  }
  add(table, PARAMS(.n_batch = 1, .n_heads = 8, .n_queries = 64, .n_keys = 64, .k = 32, .j = 32));
  add(table, PARAMS(.n_batch = 17, .n_heads = 7, .n_queries = 1, .n_keys = 50, .k = 32, .j = 32,
                    .masking = check_maskings[3]));
  add(table, PARAMS(.n_batch = 1, .n_heads = 1, .n_queries = 1, .n_keys = 5001, .k = 16, .j = 16));
  /* more rounds of a loop than a driver may grant */
  add(table, PARAMS(.n_batch = 1, .n_heads = 1, .n_queries = 2, .n_keys = 14001, .k = 33, .j = 33));
  /* more heads of all sentences than one axis of many a device's grid takes */
  add(table, PARAMS(.n_batch = 32801, .n_heads = 2, .n_queries = 1, .n_keys = 2, .k = 4, .j = 4));
}

static void add_forms(check_table *table)
{
  for (int32_t i = 0; i < CHECK_MASKINGS; i++) {
    add(table, PARAMS(.masking = check_maskings[i], .weights = 1, .lse = i % 2));
    add(table, PARAMS(.masking = check_maskings[i], .n_queries = 1, .n_keys = 40, .layout = 1 + i % 3));
    if (i % 2) {
      add(table,
          PARAMS(.masking = check_maskings[i], .n_queries = 9, .n_keys = 70, .k = 20, .j = 12, .rows = i / 2 % 4));
    }
  }
  for (int32_t i = 0; i < CHECK_MASKING_RUNS; i++) {
    add(table, PARAMS(.n_batch = 66, .n_keys = 65, .n_queries = 1, .masking = check_masking_runs[i], .k = 8, .j = 8));
    add(table, PARAMS(.n_batch = 66, .n_keys = 65, .n_queries = 3, .masking = check_masking_runs[i], .k = 8, .j = 8,
                      .weights = 1));
    add(table,
        PARAMS(.n_batch = 66, .n_keys = 131, .n_queries = 1 + i % 2, .masking = check_masking_runs[i], .k = 4, .j = 4));
  }
  for (int32_t rows = 1; rows < 4; rows++) {
    for (int32_t i = 0; i < 4; i++) {
      add(table, PARAMS(.rows = rows, .layout = i, .n_queries = 1, .masking = check_maskings[7]));
      add(table,
          PARAMS(.rows = rows, .layout = i, .n_queries = 4, .n_keys = 37, .weights = 1, .masking = check_maskings[2]));
    }
  }
  for (int32_t i = 0; i < COUNT_OF(check_operand_views); i++) {
    add(table, PARAMS(.view = check_operand_views[i], .weights = 1));
    add(table, PARAMS(.view = check_operand_views[i], .n_queries = 1, .k = 33, .j = 17, .masking = check_maskings[2]));
  }
  add(table, PARAMS(.view = CHECK_FAR, .masking = check_maskings[11]));
  add(table, PARAMS(.n_batch = 0));
  add(table, PARAMS(.n_queries = 0, .weights = 1));
  add(table, PARAMS(.n_keys = 0, .weights = 1));
  add(table, PARAMS(.n_keys = 0, .n_queries = 1));
  add(table, PARAMS(.n_heads = 0));
  add(table, PARAMS(.k = 0, .weights = 1));
  add(table, PARAMS(.j = 0, .weights = 1));
  add(table, PARAMS(.alpha = 0.0f));
  add(table, PARAMS(.alpha = -1.0f));
  add(table, PARAMS(.alpha = 8.0f, .weights = 1));
}

/* Of q, k and v. */
static const int32_t operand_data[][3] = {
    {CHECK_INTEGER, CHECK_INTEGER, CHECK_INTEGER}, {CHECK_ZERO, CHECK_NORMAL, CHECK_NORMAL},
    {CHECK_NORMAL, CHECK_NORMAL, CHECK_LARGE},     {CHECK_WIDE, CHECK_WIDE, CHECK_NORMAL},
    {CHECK_TINY, CHECK_NORMAL, CHECK_NORMAL},      {CHECK_NORMAL, CHECK_NORMAL, CHECK_TINY},
    {CHECK_NAN, CHECK_NORMAL, CHECK_NORMAL},       {CHECK_NORMAL, CHECK_NAN, CHECK_NORMAL},
    {CHECK_NORMAL, CHECK_NORMAL, CHECK_NAN},       {CHECK_NORMAL, CHECK_NORMAL, CHECK_INF},
    {CHECK_POSITIVE, CHECK_NEGINF, CHECK_NORMAL},  {CHECK_CONSTANT, CHECK_CONSTANT, CHECK_NORMAL},
    {CHECK_SHIFTED, CHECK_NORMAL, CHECK_NORMAL},   {CHECK_NORMAL, CHECK_NORMAL, CHECK_MIXED},
    {CHECK_SPIKE, CHECK_SPIKE, CHECK_NORMAL},      {CHECK_LARGE, CHECK_LARGE, CHECK_NORMAL},
};

/* What is excluded may be NaN: by length, causally, by the additive mask, by rows outside. */
static const int32_t hiding[] = {1, 4, 11, 17, 1};

static void add_values(check_table *table)
{
  for (int32_t i = 0; i < COUNT_OF(operand_data); i++) {
    for (int32_t j = 0; j < 2; j++) {
      add(table, PARAMS(.data_q = operand_data[i][0], .data_k = operand_data[i][1], .data_v = operand_data[i][2],
                        .weights = 1, .n_queries = j ? 1 : 6));
    }
    add(table, PARAMS(.data_q = operand_data[i][0], .data_k = operand_data[i][1], .data_v = operand_data[i][2],
                      .masking = check_maskings[11], .n_keys = 70, .n_batch = 2));
  }
  for (int32_t i = 0; i < COUNT_OF(hiding); i++) {
    for (int32_t j = 0; j < 4; j++) {
      add(table, PARAMS(.masking = check_maskings[hiding[i]], .data_k = j & 1 ? CHECK_NAN : CHECK_NORMAL,
                        .data_v = j & 1 ? CHECK_NORMAL : CHECK_NAN, .n_queries = j & 2 ? 1 : 6, .weights = 1,
                        .rows = i == 4 ? 3 : 0, .n_keys = 23));
    }
  }
  /* weights that vanish beside infinite values */
  add(table, PARAMS(.alpha = 8.0f, .k = 182, .j = 33, .n_queries = 9, .n_keys = 99, .data_v = CHECK_INF));
  /* 0 * NaN */
  add(table, PARAMS(.alpha = 0.0f, .data_q = CHECK_NAN, .n_queries = 33));
  add(table, PARAMS(.alpha = 0.0f, .data_k = CHECK_NAN, .n_queries = 1));
}

/* The dropout of the weights, and the logarithms of their sums. One rate but where rates are swept over: each is a
 * pipeline of its own, which a driver on a CPU takes long to make. */
static void add_training(check_table *table)
{
  int32_t n = COUNT_OF(check_head_sizes);

  for (int32_t i = 0; i < CHECK_MASKINGS; i++) {
    add(table, PARAMS(.masking = check_maskings[i], .lse = 1, .n_queries = 1 + i % 2, .n_keys = 40, .layout = 1 + i % 3,
                      .seed = 1, .rate = 0.5f, .stream = i));
  }
  for (int32_t i = 0; i < COUNT_OF(check_key_sizes); i++) {
    add(table, PARAMS(.n_keys = check_key_sizes[i], .seed = 1, .rate = 0.5f, .lse = 1));
  }
  for (int32_t i = 0; i < COUNT_OF(check_query_sizes); i++) {
    add(table, PARAMS(.n_queries = check_query_sizes[i], .n_keys = 33, .seed = 1, .rate = 0.5f, .lse = 1));
  }
  for (int32_t i = 0; i < n; i += 6) {
    add(table, PARAMS(.k = check_head_sizes[i], .j = check_head_sizes[(i + 5) % n], .seed = 1, .rate = 0.5f,
                      .masking = check_maskings[1]));
  }
  for (int32_t i = 0; i < COUNT_OF(check_rates); i++) {
    add(table, PARAMS(.seed = 1, .rate = check_rates[i], .weights = 1, .runs = 2));
    add(table, PARAMS(.seed = 1, .rate = 0.5f, .rows = i, .n_queries = 1, .n_keys = 64, .lse = 1));
    add(table, PARAMS(.seed = 1, .rate = 0.5f, .view = check_operand_views[i], .lse = 1));
  }
  for (int32_t i = 0; i < COUNT_OF(check_streams); i++) {
    add(table, PARAMS(.seed = 1, .rate = 0.5f, .stream = check_streams[i]));
  }
  for (int32_t i = 0; i < COUNT_OF(operand_data); i++) {
    add(table, PARAMS(.data_q = operand_data[i][0], .data_k = operand_data[i][1], .data_v = operand_data[i][2],
                      .lse = 1, .masking = check_maskings[i % 2 ? 11 : 0]));
  }
  for (int32_t i = 0; i < COUNT_OF(hiding); i++) {
    add(table, PARAMS(.masking = check_maskings[hiding[i]], .data_k = CHECK_NAN, .data_v = CHECK_NAN, .lse = 1,
                      .rows = i == 4 ? 3 : 0, .n_keys = 23));
  }
  /* several tiles of queries and keys; so many keys that their numbers are not made at once */
  add(table, PARAMS(.n_queries = 70, .n_keys = 150, .seed = 1, .rate = 0.5f, .lse = 1, .masking = check_maskings[11]));
  add(table, PARAMS(.n_queries = 17, .n_keys = 1101, .seed = 1, .rate = 0.1f, .n_batch = 1, .k = 4, .j = 4));
  add(table, PARAMS(.n_batch = 0, .lse = 1));
  add(table, PARAMS(.n_keys = 0, .lse = 1, .seed = 1, .rate = 0.5f));
  add(table, PARAMS(.n_queries = 0, .lse = 1));
  add(table, PARAMS(.j = 0, .lse = 1));
}

/* k and v of 16 bits. */
static void add_halves(check_table *table, int32_t dtype)
{
  int32_t n = COUNT_OF(check_head_sizes);

  for (int32_t i = 0; i < n; i++) {
    add(table, PARAMS(.dtype = dtype, .k = check_head_sizes[i], .j = check_head_sizes[(i + i / 2) % n],
                      .n_queries = i % 3 ? 17 : 1, .n_keys = 40, .masking = check_maskings[i % 2 ? 2 : 0],
                      .reduced = i % 4 == 0));
  }
  for (int32_t i = 0; i < COUNT_OF(check_key_sizes); i++) {
    add(table, PARAMS(.dtype = dtype, .n_keys = check_key_sizes[i], .n_queries = 1 + i % 2 * 32, .k = 32, .j = 32,
                      .weights = i % 2));
    add(table, PARAMS(.dtype = dtype, .n_keys = check_key_sizes[i], .n_queries = 1, .masking = check_maskings[7],
                      .layout = 1, .reduced = i % 2));
  }
  for (int32_t i = 0; i < COUNT_OF(check_query_sizes); i++) {
    add(table, PARAMS(.dtype = dtype, .n_queries = check_query_sizes[i], .n_keys = check_query_sizes[i],
                      .masking = check_maskings[1], .lse = i % 2, .k = 64, .j = 64, .reduced = i % 2));
  }
  for (int32_t i = 0; i < CHECK_MASKINGS; i += 2) {
    add(table, PARAMS(.dtype = dtype, .masking = check_maskings[i], .n_queries = i % 4 ? 20 : 1, .layout = i / 2 % 4));
  }
  for (int32_t i = 0; i < COUNT_OF(check_operand_views); i++) {
    add(table, PARAMS(.dtype = dtype, .view = check_operand_views[i], .n_queries = 18, .k = 33, .j = 17));
    add(table, PARAMS(.dtype = dtype, .view = check_operand_views[i], .n_queries = 1, .k = 16, .j = 15));
  }
  for (int32_t i = 0; i < COUNT_OF(operand_data); i++) {
    add(table, PARAMS(.dtype = dtype, .data_q = operand_data[i][0], .data_k = operand_data[i][1],
                      .data_v = operand_data[i][2], .n_queries = i % 3 ? 19 : 1, .reduced = i % 2));
  }
  for (int32_t i = 0; i < COUNT_OF(hiding); i++) {
    add(table, PARAMS(.dtype = dtype, .masking = check_maskings[hiding[i]], .data_k = CHECK_NAN, .data_v = CHECK_NAN,
                      .rows = i == 4 ? 3 : 0, .n_queries = i % 2 ? 1 : 20, .n_keys = 23));
  }
  for (int32_t i = 1; i < 4; i++) {
    add(table, PARAMS(.dtype = dtype, .rows = i, .layout = 1, .n_queries = 1, .masking = check_maskings[7]));
    add(table, PARAMS(.dtype = dtype, .rows = i, .layout = i, .n_queries = 20, .n_keys = 37, .weights = 1));
  }
  add(table, PARAMS(.dtype = dtype, .seed = 1, .rate = 0.5f, .n_queries = 20, .lse = 1));
  add(table, PARAMS(.dtype = dtype, .n_keys = 0));
  add(table, PARAMS(.dtype = dtype, .view = CHECK_FAR, .masking = check_maskings[11]));
  add(table, PARAMS(.dtype = dtype, .n_batch = 1, .n_heads = 1, .n_queries = 1, .n_keys = 5001));
}

/* Reduced precision: whole numbers leave the weights to be rounded; scores that are all alike, with few keys, leave the
 * values. */
static void add_reduced(check_table *table)
{
  for (int32_t i = 0; i < COUNT_OF(check_head_sizes); i++) {
    add(table, PARAMS(.reduced = 1, .k = check_head_sizes[i], .j = check_head_sizes[i], .n_queries = i % 3 ? 17 : 1,
                      .n_keys = 40, .masking = check_maskings[i % 2 ? 2 : 0]));
  }
  for (int32_t i = 0; i < COUNT_OF(check_key_sizes); i++) {
    add(table, PARAMS(.reduced = 1, .n_keys = check_key_sizes[i], .n_queries = 33, .k = 32, .j = 32, .weights = i % 2));
    add(table,
        PARAMS(.reduced = 1, .n_keys = check_key_sizes[i], .n_queries = 1, .masking = check_maskings[7], .layout = 1));
  }
  for (int32_t i = 0; i < COUNT_OF(check_query_sizes); i++) {
    add(table, PARAMS(.reduced = 1, .n_queries = check_query_sizes[i], .n_keys = check_query_sizes[i],
                      .masking = check_maskings[1], .lse = i % 2, .k = 64, .j = 64));
  }
  for (int32_t i = 0; i < CHECK_MASKINGS; i++) {
    add(table, PARAMS(.reduced = 1, .masking = check_maskings[i], .weights = i % 2, .lse = i % 3 == 0, .n_queries = 20,
                      .layout = i % 4));
  }
  for (int32_t i = 0; i < COUNT_OF(check_operand_views); i++) {
    add(table, PARAMS(.reduced = 1, .view = check_operand_views[i], .n_queries = 18, .k = 33, .j = 17));
  }
  for (int32_t i = 0; i < COUNT_OF(operand_data); i++) {
    add(table, PARAMS(.reduced = 1, .data_q = operand_data[i][0], .data_k = operand_data[i][1],
                      .data_v = operand_data[i][2], .n_queries = i % 3 ? 19 : 1, .weights = i % 2));
  }
  for (int32_t i = 0; i < COUNT_OF(hiding); i++) {
    add(table, PARAMS(.reduced = 1, .masking = check_maskings[hiding[i]], .data_k = CHECK_NAN, .data_v = CHECK_NAN,
                      .rows = i == 4 ? 3 : 0, .n_queries = i % 2 ? 1 : 20, .n_keys = 23));
  }
  for (int32_t i = 1; i <= 4; i++) {
    add(table, PARAMS(.reduced = 1, .n_keys = i, .n_queries = 16, .data_q = CHECK_ZERO));
    add(table, PARAMS(.reduced = 1, .n_keys = 2 * i, .n_queries = 16, .k = i, .j = 16, .alpha = 1.0f));
    add(table,
        PARAMS(.reduced = 1, .n_keys = 35, .n_queries = i, .rows = i % 4, .layout = 1, .masking = check_maskings[7]));
  }
  add(table, PARAMS(.reduced = 1, .seed = 1, .rate = 0.5f, .n_queries = 20, .lse = 1));
  add(table, PARAMS(.reduced = 1, .n_keys = 0));
  add(table, PARAMS(.reduced = 1, .n_queries = 0));
  add(table, PARAMS(.reduced = 1, .n_batch = 1, .n_heads = 8, .n_queries = 64, .n_keys = 64, .k = 64, .j = 64));
  add(table, PARAMS(.reduced = 1, .n_batch = 1, .n_heads = 1, .n_queries = 64, .n_keys = 2500, .k = 32, .j = 32));
}

/* To bf16, as attention has it in training: with lse, dropped out. */
static void add_bf16(check_table *table)
{
  for (int32_t i = 0; i < COUNT_OF(check_head_sizes); i += 2) {
    add(table, PARAMS(.reduced = TSR_BF16, .k = check_head_sizes[i], .j = check_head_sizes[i], .n_queries = 17,
                      .n_keys = 40, .masking = check_maskings[i % 4 ? 2 : 0], .lse = 1));
  }
  for (int32_t i = 0; i < CHECK_MASKINGS; i++) {
    add(table, PARAMS(.reduced = TSR_BF16, .masking = check_maskings[i], .weights = i % 4 == 1, .lse = 1,
                      .n_queries = 20, .layout = i % 4, .seed = i % 2, .rate = 0.5f));
  }
  for (int32_t i = 0; i < COUNT_OF(operand_data); i++) {
    add(table, PARAMS(.reduced = TSR_BF16, .data_q = operand_data[i][0], .data_k = operand_data[i][1],
                      .data_v = operand_data[i][2], .n_queries = 19, .lse = i % 2));
  }
  for (int32_t i = 0; i < COUNT_OF(hiding); i++) {
    add(table, PARAMS(.reduced = TSR_BF16, .masking = check_maskings[hiding[i]], .data_k = CHECK_NAN,
                      .data_v = CHECK_NAN, .rows = i == 4 ? 3 : 0, .n_queries = 20, .n_keys = 23));
  }
  for (int32_t i = 1; i <= 4; i++) {
    add(table, PARAMS(.reduced = TSR_BF16, .n_keys = i, .n_queries = 16, .data_q = CHECK_ZERO));
  }
  add(table, PARAMS(.reduced = TSR_BF16, .n_batch = 1, .n_heads = 8, .n_queries = 64, .n_keys = 64, .k = 64, .j = 64,
                    .lse = 1));
}

/* Heads of k and v that several of q share, and scores that are squashed: far beyond the cap, about as large, and far
 * below it. */
static void add_grouped(check_table *table)
{
  static const float caps[] = {0.0f, 2.0f, 50.0f, 0.01f};
  static const int32_t groups[] = {1, 2, 3, 6};

  for (int32_t i = 0; i < COUNT_OF(groups); i++) {
    const attention_params p = {.n_heads = 6, .groups = groups[i], .softcap = caps[i]};
    for (int32_t j = 0; j < 4; j++) {
      add(table, PARAMS(.n_heads = p.n_heads, .groups = p.groups, .softcap = p.softcap, .layout = j, .lse = 1,
                        .n_queries = j % 2 ? 1 : 20, .n_keys = 37, .weights = j == 3, .rows = j == 1 ? 2 : 0,
                        .masking = check_maskings[j % 2 ? 7 : 2]));
      add(table, PARAMS(.n_heads = p.n_heads, .groups = p.groups, .softcap = caps[j], .alpha = 1.0f, .n_queries = 17,
                        .n_keys = 70, .k = 20, .j = 12, .view = check_operand_views[j]));
    }
    add(table, PARAMS(.n_heads = 6, .groups = groups[i], .softcap = caps[i], .dtype = TSR_F16, .n_queries = 1,
                      .n_keys = 130, .k = 64, .j = 64, .layout = 1, .rows = 2));
    add(table, PARAMS(.n_heads = 6, .groups = groups[i], .softcap = caps[i], .dtype = TSR_BF16, .n_queries = 33,
                      .n_keys = 33, .k = 64, .j = 64, .masking = check_maskings[1]));
    add(table, PARAMS(.n_heads = 6, .groups = groups[i], .softcap = caps[i], .reduced = 1, .n_queries = 40,
                      .n_keys = 65, .k = 32, .j = 32, .masking = check_maskings[1]));
  }
  for (int32_t i = 0; i < COUNT_OF(operand_data); i++) {
    add(table, PARAMS(.softcap = 2.0f, .data_q = operand_data[i][0], .data_k = operand_data[i][1],
                      .data_v = operand_data[i][2], .n_queries = i % 2 ? 1 : 18, .weights = i % 2));
  }
  for (int32_t i = 0; i < CHECK_MASKINGS; i += 3) {
    add(table, PARAMS(.softcap = 1.0f, .alpha = 1.0f, .masking = check_maskings[i], .n_queries = i % 2 ? 1 : 18));
  }
  add(table, PARAMS(.softcap = 50.0f, .groups = 1, .n_keys = 0));
  add(table, PARAMS(.softcap = 50.0f, .groups = 1, .k = 0, .weights = 1));
}

/* Sentences of 300 tokens, documents of 2,000; the steps that decode them. */
static void add_large(check_table *table)
{
  static const masking_params causal = {.causal = 1, .position = 4}, late = {.causal = 1, .position = 7},
                              caches = {.causal = 1, .position = 3, .lengths = 5};
  static const int32_t dtypes[] = {0, TSR_F16, TSR_BF16};

  add(table, PARAMS(.n_batch = 1, .n_queries = 300, .n_keys = 300, .k = 64, .j = 64, .masking = causal, .lse = 1));
  add(table, PARAMS(.n_batch = 1, .n_heads = 4, .groups = 2, .softcap = 50.0f, .alpha = 0.0625f, .n_queries = 150,
                    .n_keys = 300, .k = 256, .j = 256, .masking = causal));
  add(table, PARAMS(.n_heads = 8, .groups = 4, .softcap = 50.0f, .alpha = 0.0625f, .n_queries = 1, .n_keys = 1000,
                    .k = 256, .j = 256, .layout = 1, .rows = 2, .masking = caches));
  add(table, PARAMS(.n_batch = 2, .n_queries = 150, .n_keys = 300, .k = 32, .j = 32, .weights = 1,
                    .masking = {.lengths = 5, .buckets = 32, .bidirectional = 1, .max_distance = 128, .position = 4}));
  /* Heads that pass through shared memory in parts. */
  add(table, PARAMS(.n_batch = 1, .n_queries = 65, .n_keys = 300, .k = 256, .j = 256, .masking = late));
  add(table, PARAMS(.n_batch = 1, .n_queries = 65, .n_keys = 49, .k = 36, .j = 164, .lse = 1,
                    .masking = {.additive = ADDITIVE_FULL, .additive_data = CHECK_NEGINF}));
  add(table, PARAMS(.n_batch = 1, .n_queries = 33, .n_keys = 70, .k = 164, .j = 36, .seed = 1, .rate = 0.5f));
  /* Long both ways, but not at once: a driver on a CPU takes half a minute for that. */
  add(table, PARAMS(.n_batch = 1, .n_heads = 1, .n_queries = 2003, .n_keys = 331, .k = 64, .j = 64, .masking = causal));
  add(table, PARAMS(.n_batch = 1, .n_heads = 1, .n_queries = 300, .n_keys = 2003,
                    .masking = {.additive = ADDITIVE_QUERIES, .additive_data = CHECK_EDGES}));
  add(table, PARAMS(.n_batch = 1, .n_heads = 2, .n_queries = 300, .n_keys = 2003, .k = 4, .j = 4, .seed = 1,
                    .rate = 0.5f, .lse = 1));
  for (int32_t i = 0; i < COUNT_OF(dtypes); i++) {
    add(table, PARAMS(.dtype = dtypes[i], .n_heads = 2, .n_queries = 1, .n_keys = 2003, .k = 64, .j = 64, .layout = 1,
                      .masking = caches));
    add(table, PARAMS(.dtype = dtypes[i], .n_heads = 3, .n_queries = 1, .n_keys = 300, .k = 64, .j = 64, .layout = 1,
                      .rows = 2, .masking = caches));
    add(table, PARAMS(.dtype = dtypes[i], .reduced = 1, .n_batch = 1, .n_queries = 300, .n_keys = 300, .k = 64, .j = 64,
                      .masking = causal));
  }
  add(table,
      PARAMS(.dtype = TSR_F16, .n_batch = 1, .n_queries = 300, .n_keys = 300, .k = 64, .j = 64, .masking = causal));
}

/* What excluded keys hold is not seen, however many keys stand before them. Each column of v is NaN or infinite from
 * another key on, so that in each tile of queries some see such a key of some column, and others do not. Where they can
 * they share the pipelines of add_large. */
static void add_hidden(check_table *table)
{
  static const masking_params causal = {.causal = 1, .position = 4}, late = {.causal = 1, .position = 7},
                              caches = {.causal = 1, .position = 3, .lengths = 8}, lengths = {.lengths = 8},
                              rows = {.additive = ADDITIVE_QUERIES, .additive_data = CHECK_NEGINF_ROW};
  attention_params p = PARAMS(.n_batch = 1, .n_queries = 200, .n_keys = 200, .k = 64, .j = 64, .masking = causal,
                              .hidden = 101, .spread = 1, .hidden_k = 197, .lse = 1);

  add(table, p);
  p.lse = 0;
  p.dtype = TSR_F16;
  add(table, p);
  p.reduced = 1;
  add(table, p);
  add(table, PARAMS(.n_batch = 1, .n_queries = 65, .n_keys = 300, .k = 256, .j = 256, .masking = late, .hidden = 101,
                    .spread = 1, .hidden_k = 297));
  p = PARAMS(.n_queries = 1, .n_keys = 700, .k = 64, .j = 64, .layout = 1, .masking = caches, .hidden = 101,
             .spread = 1, .hidden_k = 250);
  add(table, p);
  p.dtype = TSR_F16;
  add(table, p);
  add(table, PARAMS(.n_batch = 1, .n_queries = 150, .n_keys = 150, .k = 5, .j = 7, .masking = causal, .hidden = 101,
                    .spread = 7, .weights = 1));
  add(table, PARAMS(.n_batch = 1, .n_queries = 150, .n_keys = 150, .masking = causal, .hidden = 101, .spread = 3,
                    .hidden_k = 147, .weights = 1));
  for (int32_t i = 0; i < 2; i++) {
    add(table, PARAMS(.n_batch = 1, .n_heads = 1, .n_queries = i ? 3 : 40, .n_keys = 1030, .masking = rows,
                      .hidden = 101, .hidden_k = 1000));
  }
  add(table, PARAMS(.n_heads = 1, .n_queries = 40, .n_keys = 257, .masking = lengths, .hidden = 101, .spread = 10,
                    .hidden_k = 128));
}

void check_cases_attention(check_table *table)
{
  if (table->perf) {
    add(table, PARAMS(.n_batch = 1, .n_heads = 8, .n_queries = 64, .n_keys = 64, .k = 32, .j = 32));
    add(table, PARAMS(.n_batch = 8, .n_heads = 8, .n_queries = 64, .n_keys = 64, .k = 64, .j = 64));
    add(table, PARAMS(.n_batch = 16, .n_heads = 8, .n_queries = 1, .n_keys = 64, .k = 32, .j = 32, .layout = 1));
    add(table, PARAMS(.n_batch = 4, .n_heads = 8, .n_queries = 1, .n_keys = 512, .k = 64, .j = 64, .layout = 1));
    add(table, PARAMS(.n_batch = 1, .n_heads = 8, .n_queries = 1, .n_keys = 256, .k = 64, .j = 64));
    add(table, PARAMS(.n_batch = 1, .n_heads = 8, .n_queries = 512, .n_keys = 512, .k = 64, .j = 64));
    add(table, PARAMS(.reduced = 1, .n_batch = 1, .n_heads = 8, .n_queries = 512, .n_keys = 512, .k = 64, .j = 64));
    add(table, PARAMS(.dtype = TSR_F16, .n_batch = 16, .n_heads = 8, .n_queries = 1, .n_keys = 64, .k = 32, .j = 32,
                      .layout = 1));
    add(table, PARAMS(.dtype = TSR_F16, .n_batch = 4, .n_heads = 8, .n_queries = 1, .n_keys = 512, .k = 64, .j = 64,
                      .layout = 1));
    return;
  }
  add_sizes(table);
  add_forms(table);
  add_values(table);
  add_training(table);
  add_halves(table, TSR_F16);
  add_halves(table, TSR_BF16);
  add_reduced(table);
  add_bf16(table);
  add_grouped(table);
  table->large = 1;
  add_large(table);
  table->large = 2; /* each shows a kernel what no other does */
  add_hidden(table);
  table->large = 0;
}

/* Extents: a step of decoding, a triangle, any, long; `work` multiply-adds at most. */
void check_attention_draw_extents(check_draw *draw, attention_params *p, double work)
{
  int32_t *extent[] = {&p->n_batch, &p->n_queries, &p->n_keys, &p->n_heads, &p->k, &p->j};
  int32_t i, longest;

  p->n_batch = check_draw_size(draw, check_draw_once_in(draw, 8) ? 80 : 5);
  p->n_heads = check_draw_size(draw, 8);
  p->k = check_draw_size(draw, 256);
  p->j = check_draw_once_in(draw, 3) ? check_draw_size(draw, 256) : p->k;
  p->n_keys = check_draw_size(draw, 400);
  switch (check_draw_below(draw, 4)) {
  case 0:
    p->n_queries = 1;
    break;
  case 1:
    p->n_queries = p->n_keys;
    break;
  case 2:
    p->n_queries = check_draw_size(draw, 150);
    break;
  default:
    p->n_queries = 1 + check_draw_below(draw, 20);
    p->n_keys = check_draw_size(draw, 4000);
  }
  if (check_draw_is_large(draw)) { /* one sentence, some hundreds of queries and keys at least */
    p->n_batch = p->n_heads = 1;
    p->k = check_draw_size(draw, 16);
    p->j = p->k;
    p->n_queries = 100 + check_draw_below(draw, 400);
    p->n_keys = check_draw_once_in(draw, 2) ? p->n_queries : 100 + check_draw_below(draw, 2000);
  }
  while ((double)p->n_batch * p->n_heads * (p->n_queries + 1.0) * p->n_keys * (p->k + p->j + 8.0) > work) {
    for (longest = 0, i = 1; i < COUNT_OF(extent); i++) {
      longest = *extent[i] > *extent[longest] ? i : longest;
    }
    *extent[longest] = (*extent[longest] + 1) / 2;
  }
  if (!check_draw_once_in(draw, 3)) { /* whole fours, as models have them */
    p->k = (p->k + 3) / 4 * 4;
    p->j = (p->j + 3) / 4 * 4;
  }
  if (check_draw_once_in(draw, 50)) {
    *CHECK_DRAW(draw, extent) = 0;
  }
}

void check_attention_draw_data(check_draw *draw, attention_params *p)
{
  if (check_draw_once_in(draw, 4)) {
    const int32_t *data = CHECK_DRAW(draw, operand_data);
    p->data_q = data[0];
    p->data_k = data[1];
    p->data_v = data[2];
  }
}

void check_attention_draw_dropout(check_draw *draw, attention_params *p)
{
  if (check_draw_once_in(draw, 5)) {
    p->seed = 1;
    p->rate = CHECK_DRAW(draw, check_rates);
    p->stream = check_draw_below(draw, 100);
  }
}

void check_random_attention(check_table *table, check_draw *draw, int32_t what)
{
  static const float alphas[] = {0.25f, 0.25f, 0.125f, 0.0625f, 1.0f, -1.0f, 0.0f, 8.0f};
  attention_params p = {0};

  check_attention_draw_extents(draw, &p, 1e7);
  p.alpha = CHECK_DRAW(draw, alphas);
  p.layout = check_draw_below(draw, COUNT_OF(check_layout_names));
  if (p.layout == 0) {
    p.view = check_draw_view(draw);
  }
  if (check_draw_once_in(draw, 3)) {
    p.rows = check_draw_below(draw, COUNT_OF(rows_names));
  }
  p.weights = check_draw_once_in(draw, 4);
  p.lse = check_draw_once_in(draw, 4);
  p.masking = check_masking_draw(draw);
  check_attention_draw_data(draw, &p);
  check_attention_draw_dropout(draw, &p);
  if (check_draw_once_in(draw, 4)) {
    static const float caps[] = {0.0f, 1.0f, 30.0f, 50.0f};
    p.groups = p.n_heads > 0 ? check_draw_size(draw, p.n_heads) : 0;
    p.n_heads = p.groups > 0 ? p.n_heads / p.groups * p.groups : 0;
    p.softcap = CHECK_DRAW(draw, caps);
  }
  if (what == CHECK_ATTENTION_HALVES) {
    p.reduced = check_draw_below(draw, 2);
    p.dtype = check_float_dtypes[p.reduced ? check_draw_below(draw, 3) : 1 + check_draw_below(draw, 2)];
    p.dtype = p.dtype == TSR_F32 ? 0 : p.dtype;
  }
  add(table, p);
}

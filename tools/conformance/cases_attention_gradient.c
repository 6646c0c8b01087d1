/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of attention's gradient.
 */
#include "tools/conformance/cases_attention.h"

static void build_gradient(check_build *build, const void *data)
{
  const attention_params *p = data;
  tsr_program *program = build->program;
  tsr_shape shape = TSR_SHAPE(p->n_batch, p->n_queries, p->n_heads, p->j);
  tsr_shape sums = TSR_SHAPE(p->n_batch, p->n_heads, p->n_queries);
  tsr_attention_args args = {.alpha = p->alpha, .softcap = p->softcap};
  tsr_ref y, lse, dk, dv, dscores = TSR_NONE;

  args.q = check_attention_operand(build, p, TSR_F32, 1, p->n_batch, p->n_queries, p->k,
                                   CHECK_FILL(.data = (check_data)p->data_q, .hidden = -p->hidden_q));
  args.k = check_attention_operand(build, p, TSR_F32, 0, p->n_batch, p->n_keys, p->k, check_attention_k(p));
  args.v = check_attention_operand(build, p, TSR_F32, 0, p->n_batch, p->n_keys, p->j, check_attention_v(p));
  args.masking = check_masking_make(build, &p->masking, p->n_batch, p->n_heads, p->n_queries, p->n_keys);
  check_attention_dropout(build, p, &args);
  args.reduced_precision = p->reduced;
  tsr_ref dy = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, shape, (check_view)p->view_y,
                             CHECK_FILL(.data = (check_data)p->data_dy, .hidden = -p->hidden_dy, .slope = p->spread));
  if (p->chain) {
    args.lse = &lse;
    y = tsr_attention(program, &args);
    args.lse = NULL;
  } else {
    y = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, shape, (check_view)p->view_y,
                      CHECK_FILL(.data = CHECK_NORMAL));
    lse = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, sums, (check_view)p->view_y,
                        CHECK_FILL(.data = CHECK_POSITIVE));
  }
  tsr_ref dq = tsr_attention_gradient(program, &args, y, dy, lse, &dk, &dv, p->dscores ? &dscores : NULL);
  tsr_output(program, "dq", dq);
  tsr_output(program, "dk", dk);
  tsr_output(program, "dv", dv);
  if (p->dscores) {
    tsr_output(program, "dscores", dscores);
  }
}

static void add(check_table *table, attention_params p)
{
  char masking[192], training[96];
  check_case *test = check_table_add(
      table, TSR_OP_ATTENTION_GRADIENT, build_gradient, &p, sizeof(p),
      "attention_gradient(B=%d,L=%d,S=%d,H=%d,K=%d,J=%d,layout=%s,view=%s/%s,data=%s/%s/%s/%s,chain=%d,dscores=%d,"
      "alpha=%g,%s%s)",
      (int)p.n_batch, (int)p.n_queries, (int)p.n_keys, (int)p.n_heads, (int)p.k, (int)p.j, check_layout_names[p.layout],
      check_view_name((check_view)p.view), check_view_name((check_view)p.view_y), check_data_name((check_data)p.data_q),
      check_data_name((check_data)p.data_k), check_data_name((check_data)p.data_v),
      check_data_name((check_data)p.data_dy), (int)p.chain, (int)p.dscores, (double)p.alpha,
      check_masking_text(&p.masking, masking, sizeof(masking)), check_attention_text(&p, training, sizeof(training)));

  if (test && p.runs) {
    test->runs = p.runs;
  }
}

static void add_sizes(check_table *table)
{
  int32_t n = COUNT_OF(check_head_sizes);

  for (int32_t i = 0; i < n; i++) {
    if (i % 3 == 0) {
      add(table, PARAMS(.k = check_head_sizes[i], .j = check_head_sizes[i], .dscores = i % 2));
    }
    add(table, PARAMS(.k = check_head_sizes[i], .j = check_head_sizes[(i + 7) % n], .masking = check_maskings[11],
                      .chain = i % 4 == 3));
  }
  for (int32_t i = 0; i < COUNT_OF(check_key_sizes); i++) {
    add(table, PARAMS(.n_keys = check_key_sizes[i], .dscores = 1, .chain = i / 2 % 2));
    add(table,
        PARAMS(.n_keys = check_key_sizes[i], .n_queries = 1 + i % 2, .masking = check_maskings[2], .layout = i % 4));
  }
  for (int32_t i = 0; i < COUNT_OF(check_query_sizes); i++) {
    add(table, PARAMS(.n_queries = check_query_sizes[i], .n_keys = check_query_sizes[i], .masking = check_maskings[1],
                      .chain = i / 4 % 2));
    add(table, PARAMS(.n_queries = check_query_sizes[i], .n_keys = 33, .masking = check_maskings[12], .dscores = 1));
  }
  add(table, PARAMS(.n_queries = 1000, .n_keys = 3, .n_batch = 1, .k = 4, .j = 4));
  add(table, PARAMS(.n_batch = 1, .n_heads = 8, .n_queries = 64, .n_keys = 64, .k = 32, .j = 32, .chain = 1));
  add(table, PARAMS(.n_batch = 17, .n_heads = 3, .n_queries = 9, .n_keys = 31, .k = 32, .j = 32,
                    .masking = check_maskings[3]));
  add(table, PARAMS(.n_batch = 32801, .n_heads = 2, .n_queries = 1, .n_keys = 1, .k = 4, .j = 4));
}

static void add_forms(check_table *table)
{
  for (int32_t i = 0; i < CHECK_MASKINGS; i++) {
    /* with scores of +inf, or as large, only the sums that belong to them give weights that are finite or NaN */
    const int32_t wild =
        check_maskings[i].additive_data == CHECK_POSINF || check_maskings[i].additive_data == CHECK_LARGE;
    add(table, PARAMS(.masking = check_maskings[i], .dscores = 1, .chain = wild));
    if (i % 3 == 2) {
      add(table, PARAMS(.masking = check_maskings[i], .n_queries = 9, .n_keys = 70, .k = 20, .j = 12, .chain = 1));
    }
  }
  for (int32_t i = 0; i < CHECK_MASKING_RUNS; i++) {
    add(table,
        PARAMS(.n_batch = 66, .n_keys = 65, .n_queries = 1 + i % 3, .masking = check_masking_runs[i], .dscores = 1));
  }
  for (int32_t i = 0; i < COUNT_OF(check_operand_views); i++) {
    add(table, PARAMS(.view = check_operand_views[i], .dscores = 1));
    add(table, PARAMS(.view_y = check_operand_views[i], .k = 33, .j = 17, .masking = check_maskings[11]));
  }
  for (int32_t i = 0; i < COUNT_OF(check_rates); i++) {
    add(table, PARAMS(.seed = 1, .rate = check_rates[i], .dscores = 1, .runs = 2));
    add(table,
        PARAMS(.seed = 1, .rate = 0.5f, .masking = check_maskings[11 + i], .n_heads = 3, .view = i, .chain = i % 2));
  }
  for (int32_t i = 0; i < COUNT_OF(check_streams); i++) {
    add(table, PARAMS(.seed = 1, .rate = 0.5f, .stream = check_streams[i]));
  }
  /* several tiles of queries and keys; so many pairs that their numbers are not made at once */
  add(table, PARAMS(.n_queries = 70, .n_keys = 150, .seed = 1, .rate = 0.5f, .chain = 1, .dscores = 1));
  add(table, PARAMS(.n_queries = 131, .n_keys = 135, .seed = 1, .rate = 0.1f, .masking = check_maskings[11], .k = 20,
                    .j = 12));
  add(table, PARAMS(.n_queries = 70, .n_keys = 1001, .seed = 1, .rate = 0.1f, .n_batch = 1, .k = 4, .j = 4));
  add(table, PARAMS(.n_batch = 0));
  add(table, PARAMS(.n_queries = 0, .dscores = 1));
  add(table, PARAMS(.n_keys = 0, .dscores = 1));
  add(table, PARAMS(.n_heads = 0));
  add(table, PARAMS(.k = 0));
  add(table, PARAMS(.j = 0, .dscores = 1));
  add(table, PARAMS(.alpha = 0.0f));
  add(table, PARAMS(.alpha = -1.0f, .chain = 1));
  add(table, PARAMS(.alpha = 2.0f, .dscores = 1, .chain = 1));
}

/* What is excluded may be NaN: by length, causally, by the additive mask. */
static const int32_t hiding[] = {1, 4, 11, 17};

static void add_values(check_table *table)
{
  /* of q, k, v and dy */
  static const int32_t data[][4] = {
      {CHECK_INTEGER, CHECK_NORMAL, CHECK_INTEGER, CHECK_INTEGER},
      {CHECK_ZERO, CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_BIG, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL, CHECK_BIG},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL, CHECK_ZERO},
      {CHECK_TINY, CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL, CHECK_TINY},
      {CHECK_NAN, CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NAN, CHECK_NORMAL, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_NAN, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL, CHECK_NAN},
      {CHECK_POSITIVE, CHECK_NEGINF, CHECK_NORMAL, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_MIXED, CHECK_MIXED},
      {CHECK_CONSTANT, CHECK_CONSTANT, CHECK_CANCEL, CHECK_NORMAL},
  };

  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    attention_params p =
        PARAMS(.data_q = data[i][0], .data_k = data[i][1], .data_v = data[i][2], .data_dy = data[i][3], .dscores = 1);
    add(table, p);
    p.chain = 1;
    p.masking = check_maskings[11];
    p.n_keys = 37;
    add(table, p);
  }
  for (int32_t i = 0; i < COUNT_OF(hiding); i++) {
    attention_params p = PARAMS(.masking = check_maskings[hiding[i]], .data_k = CHECK_NAN, .n_keys = 23, .dscores = 1);
    add(table, p);
    p.data_k = CHECK_NORMAL;
    p.data_v = CHECK_NAN;
    p.chain = 1;
    add(table, p);
  }
  /* scores that overflow in one order of their sums and not in another */
  add(table, PARAMS(.data_q = CHECK_LARGE, .data_k = CHECK_LARGE, .chain = 1, .dscores = 1));
  add(table, PARAMS(.data_v = CHECK_LARGE, .data_dy = CHECK_BIG, .chain = 1, .dscores = 1));
  /* 0 * NaN */
  add(table, PARAMS(.alpha = 0.0f, .data_k = CHECK_NAN, .n_keys = 23, .chain = 1));
  add(table, PARAMS(.alpha = 0.0f, .data_v = CHECK_NAN, .n_keys = 23, .n_queries = 1));
}

/* One case of f16, one of bf16. */
static void add_pair(check_table *table, attention_params p)
{
  p.reduced = TSR_F16;
  add(table, p);
  p.reduced = TSR_BF16;
  add(table, p);
}

/* Reduced precision, in every form that the rows of f32 have, at sizes that fill tiles and at such as do not. What is
 * not finite is told apart from what is excluded by a way of its own (add_hidden). */
static void add_reduced(check_table *table)
{
  static const masking_params causal = {.causal = 1, .position = 4};
  static const int32_t rows[][2] = {{1, 65}, {9, 16}, {16, 16}, {17, 63}, {63, 15}, {64, 64}, {65, 130}, {130, 31}};
  static const int32_t heads[][2] = {{8, 8}, {16, 32}, {32, 32}, {36, 20}, {64, 64}, {128, 128}, {80, 80}, {7, 12}};
  /* of q, k, v and dy */
  static const int32_t data[][4] = {
      {CHECK_INTEGER, CHECK_INTEGER, CHECK_INTEGER, CHECK_INTEGER},
      {CHECK_ZERO, CHECK_NORMAL, CHECK_NORMAL, CHECK_INTEGER},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_BIG, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL, CHECK_BIG},
      {CHECK_TINY, CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL, CHECK_TINY},
      {CHECK_NAN, CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NAN, CHECK_NORMAL, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_NAN, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL, CHECK_NAN},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_MIXED, CHECK_MIXED},
  };

  for (int32_t i = 0; i < COUNT_OF(rows); i++) {
    add_pair(table, PARAMS(.n_batch = 1 + i % 2, .n_queries = rows[i][0], .n_keys = rows[i][1], .k = 64, .j = 64,
                           .chain = i % 2, .masking = causal, .dscores = i % 3 == 0));
    add_pair(table, PARAMS(.n_batch = 2, .n_queries = rows[i][0], .n_keys = rows[i][1], .k = 32, .j = 32, .chain = 1,
                           .masking = {.lengths = 5}));
  }
  for (int32_t i = 0; i < COUNT_OF(heads); i++) {
    add_pair(table, PARAMS(.n_batch = 1, .n_queries = 65, .n_keys = 41 + 8 * i, .k = heads[i][0], .j = heads[i][1],
                           .dscores = i % 2, .chain = 1, .masking = check_maskings[i % 2 ? 11 : 0]));
  }
  for (int32_t i = 0; i < CHECK_MASKINGS; i++) {
    add_pair(table, PARAMS(.masking = check_maskings[i], .n_queries = 20, .n_keys = 35, .dscores = 1, .chain = 1,
                           .layout = i % 4));
  }
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    add_pair(table, PARAMS(.data_q = data[i][0], .data_k = data[i][1], .data_v = data[i][2], .data_dy = data[i][3],
                           .n_queries = 18, .n_keys = 37, .dscores = 1, .masking = check_maskings[i % 2 ? 11 : 0],
                           .chain = 1));
  }
  for (int32_t i = 0; i < COUNT_OF(check_operand_views); i++) {
    add_pair(table, PARAMS(.view = check_operand_views[i], .view_y = check_operand_views[i], .n_queries = 18));
  }
  for (int32_t i = 0; i < COUNT_OF(check_rates); i++) {
    add_pair(table, PARAMS(.seed = 1, .rate = check_rates[i], .n_queries = 33, .n_keys = 70, .dscores = i % 2,
                           .chain = 1, .runs = 2, .masking = check_maskings[i % 2 ? 11 : 0]));
  }
  /* sums of few terms, with scores that are all alike: what one factor loses shows */
  for (int32_t i = 1; i <= 4; i++) {
    add_pair(table, PARAMS(.n_queries = 16, .n_keys = i, .k = 4 * i, .j = 4, .data_q = CHECK_ZERO,
                           .data_dy = CHECK_INTEGER, .dscores = 1));
    add_pair(table, PARAMS(.n_queries = 16, .n_keys = 8 * i, .k = 4, .j = 4, .data_k = CHECK_INTEGER,
                           .data_v = CHECK_INTEGER, .data_dy = CHECK_INTEGER, .dscores = 1, .alpha = 1.0f));
  }
  add_pair(table, PARAMS(.n_queries = 0, .dscores = 1));
  add_pair(table, PARAMS(.n_keys = 0, .dscores = 1));
  add_pair(table, PARAMS(.alpha = 0.0f, .n_queries = 18, .data_k = CHECK_NAN, .chain = 1));
  add_pair(table, PARAMS(.alpha = -1.0f, .n_queries = 18, .chain = 1));
}

/* Scores that are squashed: far beyond the cap, about as large, and far below it. */
static void add_capped(check_table *table)
{
  static const float caps[] = {0.01f, 1.0f, 2.0f, 50.0f};
  static const int32_t rows[][2] = {{1, 65}, {9, 16}, {17, 63}, {65, 130}, {130, 31}};
  /* of q, k, v and dy */
  static const int32_t data[][4] = {
      {CHECK_INTEGER, CHECK_INTEGER, CHECK_INTEGER, CHECK_INTEGER},
      {CHECK_ZERO, CHECK_NORMAL, CHECK_NORMAL, CHECK_INTEGER},
      {CHECK_BIG, CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL},
      {CHECK_TINY, CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL},
      {CHECK_NAN, CHECK_NORMAL, CHECK_NORMAL, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NAN, CHECK_NORMAL, CHECK_NORMAL},
      {CHECK_NORMAL, CHECK_NORMAL, CHECK_MIXED, CHECK_MIXED},
  };

  for (int32_t i = 0; i < COUNT_OF(caps); i++) {
    for (int32_t j = 0; j < COUNT_OF(rows); j++) {
      add(table, PARAMS(.n_batch = 1, .n_queries = rows[j][0], .n_keys = rows[j][1], .softcap = caps[i], .alpha = 1.0f,
                        .k = j % 2 ? 32 : 20, .j = j % 2 ? 32 : 12, .dscores = (i + j) % 2, .chain = 1,
                        .masking = check_maskings[j % 2 ? 11 : 1]));
    }
    add(table, PARAMS(.softcap = caps[i], .seed = 1, .rate = 0.25f, .n_keys = 37, .dscores = 1, .chain = 1));
    add_pair(table, PARAMS(.n_batch = 1, .n_queries = 40, .n_keys = 65, .k = 32, .j = 32, .softcap = caps[i],
                           .dscores = i % 2, .chain = 1, .masking = check_maskings[1]));
  }
  for (int32_t i = 0; i < COUNT_OF(data); i++) {
    add(table, PARAMS(.data_q = data[i][0], .data_k = data[i][1], .data_v = data[i][2], .data_dy = data[i][3],
                      .n_queries = i % 2 ? 18 : 3, .n_keys = 37, .dscores = 1, .chain = 1, .softcap = 2.0f));
  }
  for (int32_t i = 0; i < CHECK_MASKINGS; i += 3) {
    add(table,
        PARAMS(.softcap = 1.0f, .alpha = 1.0f, .masking = check_maskings[i], .n_queries = 9, .dscores = 1, .chain = 1));
  }
  add(table, PARAMS(.softcap = 50.0f, .n_keys = 0, .dscores = 1));
  add(table, PARAMS(.softcap = 50.0f, .k = 0, .chain = 1));
}

/* Heads of real models; rows on both sides of the edges of tiles. Where they can cases share their pipelines. */
static void add_tiles(check_table *table)
{
  static const masking_params causal = {.causal = 1, .position = 4};
  static const int32_t rows[][2] = {{1, 65}, {15, 17}, {16, 16}, {17, 63}, {63, 15}, {64, 64}, {65, 300}, {300, 64}};
  static const int32_t heads[][2] = {{8, 8}, {64, 64}, {80, 80}, {128, 128}, {256, 256}, {36, 132}, {132, 36}};

  for (int32_t i = 0; i < COUNT_OF(rows); i++) {
    add(table, PARAMS(.n_batch = 1, .n_queries = rows[i][0], .n_keys = rows[i][1], .k = 64, .j = 64, .chain = i % 2,
                      .masking = causal));
  }
  /* A CPU's driver takes half a minute to compile attention itself for wide heads: without it there. */
  for (int32_t i = 0; i < COUNT_OF(heads); i++) {
    add(table, PARAMS(.n_batch = 1, .n_queries = 65, .n_keys = 49 + 8 * i, .k = heads[i][0], .j = heads[i][1],
                      .dscores = 1, .chain = heads[i][0] < 256, .masking = check_maskings[i % 2 ? 11 : 0]));
  }
}

static void add_large(check_table *table)
{
  static const masking_params causal = {.causal = 1, .position = 4};

  add(table, PARAMS(.n_batch = 1, .n_heads = 1, .n_queries = 300, .n_keys = 300, .chain = 1, .masking = causal));
  add(table, PARAMS(.n_batch = 1, .n_heads = 1, .n_queries = 40, .n_keys = 2003, .chain = 1, .dscores = 1, .seed = 1,
                    .rate = 0.1f));
  add(table, PARAMS(.n_batch = 1, .n_heads = 1, .n_queries = 2003, .n_keys = 40, .chain = 1));
  add(table, PARAMS(.n_batch = 1, .n_queries = 150, .n_keys = 300, .k = 64, .j = 64, .softcap = 8.0f, .alpha = 0.5f,
                    .chain = 1, .dscores = 1, .masking = causal));
  /* a batch of the base model; sentences of 300 tokens */
  add_pair(table, PARAMS(.n_batch = 4, .n_heads = 8, .n_queries = 64, .n_keys = 64, .k = 64, .j = 64, .chain = 1,
                         .seed = 1, .rate = 0.1f, .masking = check_maskings[11]));
  add_pair(table,
           PARAMS(.n_batch = 1, .n_queries = 300, .n_keys = 300, .k = 64, .j = 64, .chain = 1, .masking = causal));
  add_pair(table, PARAMS(.n_batch = 1, .n_heads = 1, .n_queries = 200, .n_keys = 331, .k = 128, .j = 128, .chain = 1));
}

/* What excluded pairs hold is not seen. Of keys and values NaN or infinite are the last, of queries and dy the first:
 * in each tile some pairs have such a row, and others do not. Without a chain: y and lse of a query that sees one are
 * numbers, so that what is beside it stays so. */
static void add_hidden(check_table *table)
{
  static const masking_params causal = {.causal = 1, .position = 4}, lengths = {.lengths = 8},
                              rows = {.additive = ADDITIVE_QUERIES, .additive_data = CHECK_NEGINF_ROW};
  static const struct {
    int32_t heads, length, k, hidden_dy;
  } sizes[] = {{2, 200, 64, 160}, {1, 112, 128, 96}};

  /* one operand at a time: what one of them makes NaN hides what another does */
  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    const attention_params p = PARAMS(.n_batch = 1, .n_heads = sizes[i].heads, .n_queries = sizes[i].length,
                                      .n_keys = sizes[i].length, .k = sizes[i].k, .j = sizes[i].k, .masking = causal);
    attention_params v = p, k = p, q = p, dy = p;
    v.hidden = k.hidden_k = q.hidden_q = 101;
    v.spread = dy.spread = 1;
    dy.hidden_dy = sizes[i].hidden_dy;
    add(table, v);
    add(table, k);
    add(table, q);
    add(table, dy);
  }
  add(table, PARAMS(.n_batch = 1, .n_queries = 120, .n_keys = 150, .k = 5, .j = 7, .masking = causal, .hidden = 101,
                    .spread = 7, .dscores = 1));
  add(table, PARAMS(.n_batch = 1, .n_queries = 120, .n_keys = 150, .k = 5, .j = 7, .masking = causal, .hidden_q = 3,
                    .hidden_dy = 100, .spread = 7, .dscores = 1));
  add(table, PARAMS(.n_heads = 1, .n_queries = 40, .n_keys = 257, .masking = lengths, .hidden = 101, .spread = 10,
                    .hidden_k = 128, .dscores = 1));
  add(table, PARAMS(.n_batch = 1, .n_heads = 1, .n_queries = 40, .n_keys = 150, .masking = rows, .hidden = 101,
                    .hidden_k = 147));
  for (int32_t i = 0; i < 4; i++) { /* of reduced precision: v, k, q, dy in turn */
    add_pair(table, PARAMS(.n_batch = 1, .n_queries = 80, .n_keys = 80, .k = 32, .j = 32, .masking = causal,
                           .hidden = i == 0 ? 41 : 0, .hidden_k = i == 1 ? 41 : 0, .hidden_q = i == 2 ? 41 : 0,
                           .hidden_dy = i == 3 ? 60 : 0, .spread = i % 3 == 0, .dscores = i % 2));
  }
}

void check_cases_attention_gradient(check_table *table)
{
  if (table->perf) {
    add(table, PARAMS(.n_batch = 8, .n_heads = 8, .n_queries = 64, .n_keys = 64, .k = 32, .j = 32));
    add(table, PARAMS(.n_batch = 16, .n_heads = 4, .n_queries = 12, .n_keys = 12));
    add(table, PARAMS(.n_batch = 64, .n_heads = 4, .n_queries = 24, .n_keys = 24, .k = 64, .j = 64, .seed = 1,
                      .rate = 0.1f, .masking = check_maskings[11]));
    add(table, PARAMS(.n_batch = 1, .n_heads = 8, .n_queries = 512, .n_keys = 512, .k = 64, .j = 64));
    add_pair(table, PARAMS(.n_batch = 1, .n_heads = 8, .n_queries = 512, .n_keys = 512, .k = 64, .j = 64));
    return;
  }
  add_sizes(table);
  add_forms(table);
  add_values(table);
  add_tiles(table);
  add_reduced(table);
  add_capped(table);
  table->large = 1;
  add_large(table);
  add_hidden(table);
  table->large = 0;
}

/* Where the scores may be far apart, only the sums that belong to them give weights that are finite: the chain. */
void check_random_attention_gradient(check_table *table, check_draw *draw, int32_t what)
{
  static const int32_t data[] = {CHECK_BIG, CHECK_ZERO, CHECK_TINY, CHECK_NAN, CHECK_MIXED};
  static const float alphas[] = {0.25f, 0.25f, 0.125f, 0.0625f, 0.0f, 1.0f, -1.0f};
  static const float caps[] = {1.0f, 30.0f, 50.0f};
  attention_params p = {0};

  (void)what;
  check_attention_draw_extents(draw, &p, 3e6);
  p.alpha = CHECK_DRAW(draw, alphas);
  p.layout = check_draw_below(draw, COUNT_OF(check_layout_names));
  if (p.layout == 0) {
    p.view = check_draw_view(draw);
  }
  p.view_y = check_draw_view(draw);
  p.dscores = check_draw_once_in(draw, 3);
  p.masking = check_masking_draw(draw);
  check_attention_draw_data(draw, &p);
  p.data_dy = check_draw_data(draw, data, COUNT_OF(data));
  check_attention_draw_dropout(draw, &p);
  if (check_draw_once_in(draw, 2)) {
    p.reduced = check_draw_once_in(draw, 2) ? TSR_BF16 : TSR_F16;
  }
  if (check_draw_once_in(draw, 4)) {
    p.softcap = CHECK_DRAW(draw, caps);
  }
  int tame = p.alpha >= 0.0f && p.alpha < 1.0f && p.data_q == CHECK_NORMAL && p.data_k == CHECK_NORMAL &&
             (p.masking.additive_data == CHECK_NORMAL || p.masking.additive_data == CHECK_NEGINF);
  p.chain = tame ? check_draw_below(draw, 2) : 1;
  add(table, p);
}

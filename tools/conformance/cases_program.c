/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases of several lines: memory that is used again, hazards between lines, states over several runs, and operators
 * against what they are short for.
 *
 * Those of whole numbers are exact: one stale or missing write shows as another number. The others carry their bounds
 * from line to line (bounds.c).
 */
#include <stdio.h>

#include "tools/conformance/cases.h"

typedef struct params {
  int32_t rows, columns, depth, runs, own, form;
  int32_t inner;          /* of the products in residuals and largest; 0: columns, 20 */
  int32_t dtype, reduced; /* of their weights, of the cache; 0: f32, bf16 where the form says so */
} params;

static tsr_ref whole_numbers(check_build *build, int32_t kind, tsr_shape shape)
{
  return check_operand(build, kind, TSR_F32, shape, CHECK_DENSE, CHECK_FILL(.data = CHECK_INTEGER));
}

/* Sums along a chain, every other line through a transposed view: two temporaries take turns in the same memory. */
static void build_sums(check_build *build, const void *data)
{
  const params *p = data;
  tsr_program *program = build->program;
  tsr_ref x = whole_numbers(build, TSR_STORAGE_INPUT, TSR_SHAPE(p->rows, p->columns)), c[2];

  c[0] = whole_numbers(build, TSR_STORAGE_CONSTANT, TSR_SHAPE(p->columns, p->rows));
  c[1] = whole_numbers(build, TSR_STORAGE_INPUT, TSR_SHAPE(p->rows, p->columns));
  for (int32_t i = 0; i < p->depth; i++) {
    x = tsr_add(program, tsr_transpose(program, x, 0, 1), c[i % 2]);
  }
  tsr_output(program, "y", x);
}

/* Many results alive at once, then added in pairs: what is still needed must not be overwritten. */
static void build_tree(check_build *build, const void *data)
{
  const params *p = data;
  tsr_program *program = build->program;
  tsr_ref x = whole_numbers(build, TSR_STORAGE_INPUT, TSR_SHAPE(p->rows, p->columns)), leaf[32];
  int32_t n = p->depth > 32 ? 32 : p->depth;

  for (int32_t i = 0; i < n; i++) {
    leaf[i] = tsr_mul(program, tsr_slice(program, x, 0, i % p->rows, 1), tsr_slice(program, x, 0, 0, p->rows - i % 2));
  }
  for (; n > 1; n = (n + 1) / 2) {
    for (int32_t i = 0; i < n / 2; i++) {
      tsr_ref a = tsr_reduce_sum(program, leaf[i], i % 2), b = tsr_reduce_sum(program, leaf[n - 1 - i], (i + 1) % 2);
      leaf[i] = tsr_add(program, tsr_slice(program, a, 0, 0, 1), tsr_slice(program, b, 0, 0, 1));
    }
  }
  tsr_output(program, "y", leaf[0]);
}

/* Rows are ranked, the ranks looked up in a table of whole numbers, summed, multiplied: one round of different
 * operators after another, each wholly dependent on the one before. The numbers stay small, because only ranks go on to
 * the next round. */
static void build_ranks(check_build *build, const void *data)
{
  const params *p = data;
  tsr_program *program = build->program;
  tsr_ref x = whole_numbers(build, TSR_STORAGE_INPUT, TSR_SHAPE(p->rows, p->columns));
  tsr_ref table = whole_numbers(build, TSR_STORAGE_CONSTANT, TSR_SHAPE(p->columns, p->columns));
  tsr_ref weight = check_operand(build, TSR_STORAGE_CONSTANT, TSR_BF16, TSR_SHAPE(p->columns, p->columns),
                                 CHECK_TRANSPOSED, CHECK_FILL(.data = CHECK_INTEGER));
  tsr_ref first = x, indices;
  int32_t k = p->columns < 5 ? p->columns : 5;

  for (int32_t i = 0; i < p->depth; i++) {
    tsr_scope_push(program, "round%d", (int)i);
    x = tsr_matmul(program, x, weight, TSR_NONE, 1.0f, TSR_ACTIVATION_RELU);
    x = tsr_add(program, x, first);
    (void)tsr_topk(program, x, k, &indices);
    tsr_ref looked_up = tsr_embedding(program, table, indices, 1.0f);
    x = tsr_reshape(program, tsr_reduce_sum(program, looked_up, 2), TSR_SHAPE(p->rows, p->columns));
    tsr_scope_pop(program);
  }
  tsr_output(program, "y", x);
  tsr_output(program, "indices", indices);
}

/* A state is read, written, read again, written again in one run: reads must not overtake writes, nor the other way. */
static void build_turns(check_build *build, const void *data)
{
  const params *p = data;
  tsr_program *program = build->program;
  tsr_ref state = whole_numbers(build, TSR_STORAGE_STATE, TSR_SHAPE(p->rows, p->columns));
  tsr_ref x = whole_numbers(build, TSR_STORAGE_INPUT, TSR_SHAPE(p->rows, p->columns));
  tsr_ref total = TSR_NONE;

  for (int32_t i = 0; i < p->depth; i++) {
    tsr_ref before = tsr_reduce_sum(program, state, 1 + i % 2); /* [1, columns] or [rows, 1] */
    tsr_update(program, state, x);
    tsr_ref after = tsr_add(program, state, x);
    tsr_update(program, tsr_slice(program, state, 0, i % p->rows, 1), tsr_slice(program, after, 0, 0, 1));
    before = tsr_add(program, state, before);
    total = total == TSR_NONE ? before : tsr_add(program, total, before);
  }
  tsr_output(program, "y", total);
}

/* Greedy decoding in small: the token chosen in one run is looked up in the next; what was looked up is kept at a
 * growing position. Whole numbers throughout. */
static void build_decode(check_build *build, const void *data)
{
  static const int32_t start[] = {0};
  const params *p = data;
  const int32_t vocabulary = 3 * p->columns;
  tsr_program *program = build->program;
  tsr_ref indices;

  tsr_ref token = check_operand(build, TSR_STORAGE_STATE, TSR_I32, TSR_SHAPE(p->rows, 1), CHECK_DENSE,
                                CHECK_FILL(.low = 0, .high = vocabulary - 1));
  tsr_ref history = whole_numbers(build, TSR_STORAGE_STATE, TSR_SHAPE(p->rows, p->depth, p->columns));
  tsr_ref table = whole_numbers(build, TSR_STORAGE_CONSTANT, TSR_SHAPE(vocabulary, p->columns));
  tsr_ref weight = whole_numbers(build, TSR_STORAGE_CONSTANT, TSR_SHAPE(p->columns, vocabulary));
  tsr_ref position = check_integers(build, start, 1, 1);
  tsr_ref x = tsr_embedding(program, table, token, 1.0f);
  history = tsr_append(program, history, x, position);
  x = tsr_reshape(program, tsr_reduce_sum(program, history, 2), TSR_SHAPE(p->rows, p->columns));
  tsr_ref logits = tsr_product(program, x, weight);
  (void)tsr_topk(program, logits, 1, &indices);
  tsr_update(program, token, indices);
  tsr_output(program, "logits", logits);
  tsr_output(program, "token", indices);
}

/* Attention over a cache that grows by a position a run, of the type that the case has. form 0: causal; 1: causal, with
 * rows. */
static void build_cache(check_build *build, const void *data)
{
  static const int32_t start[] = {0};
  const params *p = data;
  const int32_t heads = 2, width = p->columns;
  tsr_program *program = build->program;
  tsr_shape cache = TSR_SHAPE(p->rows, p->depth, heads, width), step = TSR_SHAPE(p->rows, 1, heads, width);
  tsr_attention_args args = {.alpha = 0.25f, .masking = {.causal = 1}};
  const tsr_dtype dtype = p->dtype ? p->dtype : TSR_F32;
  tsr_ref k = check_operand(build, TSR_STORAGE_STATE, dtype, cache, CHECK_DENSE, CHECK_FILL(.data = CHECK_NAN));
  tsr_ref v = check_operand(build, TSR_STORAGE_STATE, dtype, cache, CHECK_DENSE, CHECK_FILL(.data = CHECK_NAN));

  args.reduced_precision = p->reduced;
  args.masking.position = check_integers(build, start, 1, 1);
  args.q = check_input(build, step, CHECK_NORMAL);
  args.k = tsr_append(program, k, check_input(build, step, CHECK_NORMAL), args.masking.position);
  args.v = tsr_append(program, v, check_input(build, step, CHECK_NORMAL), args.masking.position);
  if (p->form == 1) {
    args.rows = check_operand(build, TSR_STORAGE_INPUT, TSR_I32, TSR_SHAPE(p->rows, p->depth), CHECK_DENSE,
                              CHECK_FILL(.low = 0, .high = p->rows - 1));
  }
  tsr_output(program, "y", tsr_attention(program, &args));
}

/* Attention and the lines that it is short for, and their difference. */
static void build_unfused(check_build *build, const void *data)
{
  static const int32_t lengths[] = {3, 1000, 1, 17, 0};
  static const int32_t positions[] = {4, 0, 2, 30, 1};
  const params *p = data;
  const int32_t batch = 2, heads = 3, width = 16;
  tsr_program *program = build->program;
  tsr_masking masking = {.causal = p->form & 1};
  tsr_attention_args args = {.alpha = 0.25f};
  tsr_ref weights;

  args.q = check_input(build, TSR_SHAPE(batch, p->rows, heads, width), CHECK_NORMAL);
  args.k = check_input(build, TSR_SHAPE(batch, p->columns, heads, width), CHECK_NORMAL);
  args.v = check_input(build, TSR_SHAPE(batch, p->columns, heads, width), CHECK_NORMAL);
  if (p->form & 2) {
    masking.lengths = check_integers(build, lengths + p->depth, batch, 0);
  }
  if (p->form & 1) {
    masking.position = check_integers(build, positions + p->depth, batch, 0);
  }
  if (p->form & 4) {
    masking.relative = check_input(build, TSR_SHAPE(16, heads), CHECK_NORMAL);
    masking.max_distance = 40;
    masking.bidirectional = p->form & 1;
  }
  if (p->form & 8) {
    masking.additive = check_input(build, TSR_SHAPE(batch, 1, 1, p->columns), CHECK_NEGINF);
  }
  tsr_ref minus_one = check_input(build, TSR_SHAPE(1), CHECK_MINUS_ONE);
  args.masking = masking;
  args.weights = &weights;
  tsr_ref y = tsr_attention(program, &args);
  tsr_ref scores = tsr_matmul(program, tsr_transpose(program, args.q, 1, 2),
                              tsr_permute(program, args.k, (const int32_t[]){0, 2, 3, 1}), TSR_NONE, args.alpha,
                              TSR_ACTIVATION_NONE);
  tsr_ref unfused_weights = tsr_softmax(program, tsr_mask(program, scores, &masking), TSR_NONE);
  tsr_ref unfused = tsr_product(program, unfused_weights, tsr_transpose(program, args.v, 1, 2));
  tsr_ref difference = tsr_mul(program, tsr_transpose(program, unfused, 1, 2), minus_one);
  tsr_output(program, "difference", tsr_add(program, y, difference));
  tsr_output(program, "fused", y);
  tsr_output(program, "unfused", unfused);
  tsr_output(program, "weights", weights);
  tsr_output(program, "unfused_weights", unfused_weights);
}

/* Weights of i8 are as large as those of the other types: their scales are 0.5 .. 1.5, and alpha divides by 128. */
static tsr_ref dense(check_build *build, tsr_ref x, int32_t from, int32_t to, tsr_dtype dtype, int32_t activation)
{
  tsr_ref weight = check_operand(build, TSR_STORAGE_CONSTANT, dtype, TSR_SHAPE(from, to), CHECK_TRANSPOSED,
                                 CHECK_FILL(.data = CHECK_UNIFORM, .low = -127, .high = 127));
  tsr_ref bias = check_operand(build, TSR_STORAGE_CONSTANT, TSR_F32, TSR_SHAPE(to), CHECK_DENSE,
                               CHECK_FILL(.data = CHECK_UNIFORM));

  if (dtype == TSR_I8) {
    tsr_ref scales = check_operand(build, TSR_STORAGE_CONSTANT, TSR_F32, TSR_SHAPE(to), CHECK_DENSE,
                                   CHECK_FILL(.data = CHECK_POSITIVE));
    return tsr_matmul_i8(build->program, x, weight, scales, bias, 0.25f / 128.0f, activation);
  }
  return tsr_matmul(build->program, x, weight, bias, 0.25f, activation);
}

static tsr_ref norm(check_build *build, tsr_ref x, int32_t width)
{
  check_fill fill = CHECK_FILL(.data = CHECK_POSITIVE);
  tsr_ref gain = check_operand(build, TSR_STORAGE_CONSTANT, TSR_F32, TSR_SHAPE(width), CHECK_DENSE, fill);
  tsr_ref bias = check_operand(build, TSR_STORAGE_CONSTANT, TSR_F32, TSR_SHAPE(width), CHECK_DENSE, fill);

  return tsr_layernorm(build->program, x, gain, bias, 1e-5f);
}

static const tsr_dtype layer_dtypes[] = {TSR_F32, TSR_F16, TSR_BF16, TSR_I8};

/* A pre-norm layer of an encoder. form: the weights' type, of layer_dtypes. */
static void build_layer(check_build *build, const void *data)
{
  static const int32_t lengths[] = {3, 9};
  const params *p = data;
  const int32_t batch = 2, heads = 2, d_model = p->columns, d_ff = 2 * p->columns;
  const tsr_dtype dtype = layer_dtypes[p->form];
  tsr_program *program = build->program;
  tsr_shape split = TSR_SHAPE(batch, p->rows, heads, d_model / heads), flat = TSR_SHAPE(batch, p->rows, d_model);
  tsr_attention_args args = {.alpha = 0.25f};
  tsr_ref x = check_input(build, flat, CHECK_NORMAL);

  args.masking.lengths = check_integers(build, lengths, batch, 0);
  for (int32_t i = 0; i < p->depth; i++) {
    tsr_scope_push(program, "layer%d", (int)i);
    tsr_ref h = norm(build, x, d_model);
    args.q = tsr_reshape(program, dense(build, h, d_model, d_model, dtype, TSR_ACTIVATION_NONE), split);
    args.k = tsr_reshape(program, dense(build, h, d_model, d_model, dtype, TSR_ACTIVATION_NONE), split);
    args.v = tsr_reshape(program, dense(build, h, d_model, d_model, dtype, TSR_ACTIVATION_NONE), split);
    h = tsr_reshape(program, tsr_attention(program, &args), flat);
    x = tsr_add(program, x, dense(build, h, d_model, d_model, dtype, TSR_ACTIVATION_NONE));
    h = norm(build, x, d_model);
    h = dense(build, h, d_model, d_ff, dtype, 1 + i % 4);
    x = tsr_add(program, x, dense(build, h, d_ff, d_model, dtype, TSR_ACTIVATION_NONE));
    tsr_scope_pop(program);
  }
  tsr_output(program, "y", x);
}

/* Norms of sums, which a device may compute together. form, bits: 1 the second operand is one row for all; 2 the sum is
 * needed later too; 4 the first operand is transposed; 8 rmsnorm. */
static void build_norms(check_build *build, const void *data)
{
  const params *p = data;
  tsr_program *program = build->program;
  const tsr_shape shape = TSR_SHAPE(p->rows, p->columns), row = TSR_SHAPE(p->columns);
  tsr_ref x = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, shape, p->form & 4 ? CHECK_TRANSPOSED : CHECK_DENSE,
                            CHECK_FILL(.data = CHECK_NORMAL));
  tsr_ref residual = check_input(build, p->form & 1 ? row : shape, CHECK_NORMAL);
  tsr_ref gain = p->form & 8 ? check_input(build, row, CHECK_POSITIVE) : TSR_NONE;

  for (int32_t i = 0; i < p->depth; i++) {
    tsr_ref sum = tsr_add(program, x, residual);
    x = p->form & 8 ? tsr_rmsnorm(program, sum, gain, 1e-5f) : norm(build, sum, p->columns);
    if (p->form & 2) {
      x = tsr_add(program, x, sum);
    }
  }
  tsr_output(program, "y", x);
}

/* x times weights of the type that the case has. Those of i8 have scales, the sums are then no whole numbers. */
static tsr_ref product(check_build *build, const params *p, tsr_ref x, tsr_ref weight, tsr_ref bias, int32_t activation)
{
  tsr_program *program = build->program;

  if (p->dtype == TSR_I8) {
    tsr_ref scales =
        check_operand(build, TSR_STORAGE_CONSTANT, TSR_F32, TSR_SHAPE(tsr_ref_shape(program, weight).extent[1]),
                      CHECK_DENSE, CHECK_FILL(.data = CHECK_POSITIVE));
    return tsr_matmul_i8(program, x, weight, scales, bias, 1.0f, activation);
  }
  return (p->reduced ? tsr_matmul_reduced_precision : tsr_matmul)(program, x, weight, bias, 1.0f, activation);
}

static tsr_ref whole_weights(check_build *build, tsr_dtype dtype, int64_t from, int64_t to, check_view view)
{
  return check_operand(build, TSR_STORAGE_CONSTANT, dtype, TSR_SHAPE(from, to), view,
                       CHECK_FILL(.data = CHECK_INTEGER, .low = -4, .high = 4));
}

/* Products of whole numbers whose results are added to something, which a device may compute together. form, bits: 1 no
 * bias; 2 relu; 4 what is added is one row for all; 8 it is a transposed view; 16 of two axes in front of the rows. */
static void build_residuals(check_build *build, const void *data)
{
  const params *p = data;
  tsr_program *program = build->program;
  const int64_t rows = p->rows, columns = p->columns, inner = p->inner ? p->inner : columns;
  const tsr_shape whole = p->form & 16 ? TSR_SHAPE(2, rows, columns) : TSR_SHAPE(rows, columns);
  const tsr_shape input = p->form & 16 ? TSR_SHAPE(2, rows, inner) : TSR_SHAPE(rows, inner);
  tsr_shape shape = p->form & 4 ? TSR_SHAPE(columns) : whole;
  check_view view = p->form & 8 ? CHECK_TRANSPOSED : CHECK_DENSE;
  const check_view lie = p->dtype ? CHECK_TRANSPOSED : CHECK_DENSE; /* of the weights */
  const tsr_dtype dtype = p->dtype ? p->dtype : TSR_F32;
  tsr_ref first = whole_numbers(build, TSR_STORAGE_INPUT, input);
  tsr_ref added = check_operand(build, TSR_STORAGE_INPUT, TSR_F32, shape, shape.rank > 1 ? view : CHECK_DENSE,
                                CHECK_FILL(.data = CHECK_INTEGER));

  for (int32_t i = 0; i < p->depth; i++) {
    tsr_ref weight = whole_weights(build, dtype, inner, columns, lie);
    tsr_ref square = p->inner ? whole_weights(build, dtype, columns, columns, lie) : weight;
    tsr_ref bias = p->form & 1 ? TSR_NONE : whole_numbers(build, TSR_STORAGE_CONSTANT, TSR_SHAPE(columns));
    tsr_ref y = product(build, p, first, weight, bias, p->form & 2 ? TSR_ACTIVATION_RELU : TSR_ACTIVATION_NONE);
    tsr_ref x = i % 2 ? tsr_add(program, y, added) : tsr_add(program, added, y);
    y = product(build, p, x, square, bias, TSR_ACTIVATION_NONE);
    tsr_output(program, i % 2 ? "odd" : "even", tsr_add(program, x, y));
  }
}

/* The depth largest columns of a product, which a device may find without writing the product: of whole numbers, with
 * many ties, exact. form, bits: 1 of log_softmax; 2 a bias that excludes every third column; 4 a bias and bf16 weights;
 * 8 of a row all of which is excluded, where 2 is set, or of NaN; 16 weights the other way. */
static void build_largest(check_build *build, const void *data)
{
  const params *p = data;
  const int32_t inner = p->inner ? p->inner : 20;
  tsr_program *program = build->program;
  const check_data strange = p->form & 2 ? CHECK_NEGINF_ROW : CHECK_NAN;
  tsr_ref x = whole_numbers(build, TSR_STORAGE_INPUT, TSR_SHAPE(p->rows, inner)), bias = TSR_NONE, indices;
  tsr_ref weight = whole_weights(build,
                                 p->dtype      ? p->dtype
                                 : p->form & 4 ? TSR_BF16
                                               : TSR_F32,
                                 inner, p->columns, p->form & 16 ? CHECK_DENSE : CHECK_TRANSPOSED);

  if (p->form & 8) {
    bias = check_input(build, TSR_SHAPE(p->rows, p->columns), strange);
  } else if (p->form & 2) {
    bias = check_input(build, TSR_SHAPE(1, p->columns), CHECK_NEGINF);
  } else if (p->form & 4) {
    bias = whole_numbers(build, TSR_STORAGE_CONSTANT, TSR_SHAPE(p->columns));
  }
  x = product(build, p, x, weight, bias, TSR_ACTIVATION_NONE);
  x = p->form & 1 ? tsr_log_softmax(program, x) : x;
  tsr_output(program, "values", tsr_topk(program, x, p->depth, &indices));
  tsr_output(program, "indices", indices);
}

/* Products of one matrix, whose rows a device may prepare once for all; form: 1 each is added to another. */
static void build_siblings(check_build *build, const void *data)
{
  const params *p = data;
  tsr_program *program = build->program;
  tsr_ref x = check_input(build, TSR_SHAPE(p->rows, p->inner), CHECK_NORMAL);
  tsr_ref added = check_input(build, TSR_SHAPE(p->rows, p->columns), CHECK_NORMAL);

  for (int32_t i = 0; i < p->depth; i++) {
    tsr_ref y = product(build, p, x, whole_weights(build, p->dtype, p->inner, p->columns, CHECK_TRANSPOSED), TSR_NONE,
                        p->form ? TSR_ACTIVATION_RELU : TSR_ACTIVATION_NONE);
    tsr_output(program, i % 2 ? "odd" : "even", p->form ? tsr_add(program, y, added) : y);
  }
}

/* Outputs that are no results: an input, a constant, a view, twice the same. */
static void build_outputs(check_build *build, const void *data)
{
  const params *p = data;
  tsr_program *program = build->program;
  tsr_ref x = whole_numbers(build, TSR_STORAGE_INPUT, TSR_SHAPE(p->rows, p->columns));
  tsr_ref c = whole_numbers(build, TSR_STORAGE_CONSTANT, TSR_SHAPE(p->columns));
  tsr_ref y = tsr_add(program, x, c);

  tsr_output(program, "input", x);
  tsr_output(program, "constant", c);
  tsr_output(program, "result", y);
  tsr_output(program, "again", y);
  tsr_output(program, "view", tsr_transpose(program, y, 0, 1));
  tsr_output(program, "part", tsr_slice(program, y, 1, p->columns / 2, p->columns - p->columns / 2));
}

static check_case *add(check_table *table, const char *name, void (*build)(check_build *, const void *), params p)
{
  char inner[32] = "", type[32] = "";

  if (p.inner) {
    snprintf(inner, sizeof(inner), ",inner=%d", (int)p.inner);
  }
  if (p.dtype) {
    snprintf(type, sizeof(type), ",type=%s%s", tsr_dtype_name(p.dtype), p.reduced ? ":narrow" : "");
  }
  check_case *test = check_table_add(table, 0, build, &p, sizeof(p),
                                     "%s(rows=%d,columns=%d,depth=%d,form=%d,runs=%d,own=%d%s%s)", name, (int)p.rows,
                                     (int)p.columns, (int)p.depth, (int)p.form, (int)p.runs, (int)p.own, inner, type);
  if (test) {
    test->runs = p.runs;
    test->own = p.own;
  }
  return test;
}

/* Each of the 12 lines of a layer errs by some 8 sqrt(n) u of its result, n about 64 terms, and none amplifies what it
 * is given as a whole, for what it is given is normalised: (12 * depth * 64 u)^2. Element by element the bounds grow
 * too wide to tell much, since each assumes the worst of the one before.
 *
 * With weights of i8 a number that errs so lies within its error of a tie with a probability of 127 * 64 u, and is then
 * off by a unit, 1/127 of the row's largest, which is some three times its root mean square: 5e-4 * (3/127)^2 a
 * product. */
static void add_layer(check_table *table, params p)
{
  check_case *test = add(table, "layer", build_layer, p);
  const double relative = 12.0 * p.depth * 64.0 * 0x1p-24;

  if (test) {
    test->nmse = layer_dtypes[p.form] == TSR_I8 ? 6.0 * p.depth * 3e-7 : relative * relative;
  }
}

void check_cases_program(check_table *table)
{
  static const int32_t sizes[][2] = {{1, 5}, {5, 7}, {33, 18}, {64, 64}, {129, 67}, {257, 255}};

  if (table->perf) {
    return;
  }
  for (int32_t i = 0; i < COUNT_OF(sizes); i++) {
    const int32_t rows = sizes[i][0], columns = sizes[i][1];
    for (int32_t own = 0; own < 2; own++) {
      add(table, "chain_of_sums", build_sums, (params){rows, columns, 30, 2, own, 0});
      add(table, "tree_of_sums", build_tree, (params){rows, columns, 20, 1, own, 0});
      add(table, "chain_of_ranks", build_ranks, (params){rows, columns > 64 ? 64 : columns, 6, 2, own, 0});
      add(table, "state_turns", build_turns, (params){rows, columns, 10, 3, own, 0});
      add(table, "outputs", build_outputs, (params){rows, columns, 1, 2, own, 0});
    }
    add(table, "decode", build_decode, (params){1 + i % 5, 8 + 9 * i, 12, 10, i % 2, 0});
    add(table, "cache", build_cache, (params){1 + i % 4, 8 << i % 4, 20, 20, i % 2, 0});
    add(table, "cache", build_cache, (params){4, 8 << i % 4, 9, 12, i % 2, 1});
  }
  for (int32_t i = 0; i < 16; i++) {
    const int one = (i ^ i >> 1 ^ i >> 2 ^ i >> 3) & 1; /* each part of the masking with one query and with several */
    add(table, "attention_unfused", build_unfused, (params){one ? 1 : 7, one ? 65 : 19, i % 4, 1, 0, i});
  }
  for (int32_t i = 0; i < 16; i++) {
    add(table, "norms_of_sums", build_norms, (params){1 + 9 * i, 16 + 7 * i, 3, 2, i % 2, i});
    add(table, "norms_of_sums", build_norms, (params){129, 64, 2, 1, 1 - i % 2, i});
  }
  for (int32_t i = 0; i < 32; i++) {
    add(table, "residuals", build_residuals, (params){1 + i, 12 + 5 * (i % 7), 2, 2, i % 2, i});
    add(table, "residuals", build_residuals, (params){67, 64, 1, 1, 1 - i % 2, i});
  }
  for (int32_t i = 0; i < 32; i++) {
    static const int32_t ks[] = {1, 8, 2, 32, 5, 16, 64, 3};
    const int32_t columns[] = {5, 63, 64, 65, 129, 256, 300, 513, 1031, 5001};
    const int32_t k = ks[i % COUNT_OF(ks)], n = columns[i % COUNT_OF(columns)];
    add(table, "largest", build_largest, (params){1 + i % 5, n, k < n ? k : n, 2, i % 2, i});
    add(table, "largest", build_largest, (params){9 + 2 * i, 5001 - 97 * i, k, 1, 1 - i % 2, i});
  }
  for (int32_t i = 0; i < 8; i++) { /* with the weights of cooperative matrices */
    static const int32_t ks[] = {1, 8, 16, 5}, rows[] = {130, 16, 33, 64, 200, 17, 63, 128};
    add(table, "largest", build_largest,
        (params){.rows = rows[i],
                 .columns = i % 2 ? 1031 : 520,
                 .depth = ks[i % 4],
                 .runs = 1,
                 .form = i | (i > 3 ? 8 : 0),
                 .inner = 48,
                 .dtype = TSR_F16,
                 .reduced = 1});
  }
  for (int32_t i = 0; i < 8; i++) { /* with weights of i8, as many rows as tiles have, and more */
    static const int32_t ks[] = {1, 8, 32, 5}, rows[] = {9, 31, 33, 64, 65, 130, 16, 63};
    add(table, "largest", build_largest,
        (params){.rows = rows[i],
                 .columns = i % 2 ? 1031 : 520,
                 .depth = ks[i % 4],
                 .runs = 1,
                 .form = i,
                 .inner = 48,
                 .dtype = TSR_I8});
    add(table, "residuals", build_residuals,
        (params){.rows = rows[i], .columns = 96, .depth = 1, .runs = 1, .form = i, .inner = 528, .dtype = TSR_I8});
    add(table, "residuals", build_residuals,
        (params){
            .rows = 1 + i, .columns = 70, .depth = 2, .runs = 1, .form = i, .inner = 256 * i + 16, .dtype = TSR_I8});
    add(table, "siblings", build_siblings,
        (params){.rows = 1 + 8 * i,
                 .columns = 80,
                 .depth = 2,
                 .runs = 2,
                 .own = i / 2 % 2,
                 .form = i % 2,
                 .inner = 528,
                 .dtype = TSR_I8});
  }
  table->large = 1; /* vocabularies, rows of documents, a cache of 300 positions in steps of a run each */
  for (int32_t i = 0; i < 4; i++) {
    static const int32_t dtypes[] = {0, TSR_F16, TSR_BF16, TSR_I8};
    add(table, "largest", build_largest,
        (params){.rows = 5, .columns = 32003, .depth = 8, .runs = 1, .form = i % 2, .inner = 32, .dtype = dtypes[i]});
  }
  add(table, "largest", build_largest, (params){.rows = 1, .columns = 250112, .depth = 1, .runs = 1, .inner = 8});
  add(table, "norms_of_sums", build_norms, (params){2049, 512, 1, 1, 0, 2});
  add(table, "residuals", build_residuals, (params){.rows = 2003, .columns = 130, .depth = 1, .runs = 1, .inner = 16});
  add(table, "chain_of_sums", build_sums, (params){1031, 1033, 3, 1, 0, 0});
  table->large = 0;
  for (int32_t i = 0; i < COUNT_OF(layer_dtypes); i++) {
    add_layer(table, (params){9, 16, 1, 1, 0, i});
    add_layer(table, (params){5, 32, 2, 2, 1, i});
    add_layer(table, (params){33, 64, 1, 1, 0, i});
  }
}

/* Weights of any type; some 2e6 elements of rows x columns x inner at most. */
static void draw_product(check_draw *draw, params *p, int32_t columns)
{
  static const int32_t dtypes[] = {0, 0, TSR_F16, TSR_BF16, TSR_I8};

  p->dtype = CHECK_DRAW(draw, dtypes);
  p->reduced = (p->dtype == TSR_F16 || p->dtype == TSR_BF16) && check_draw_once_in(draw, 2);
  p->rows = check_draw_once_in(draw, 2) ? 1 + check_draw_below(draw, 12) : check_draw_size(draw, 200);
  p->columns = check_draw_size(draw, columns);
  p->inner = check_draw_size(draw, 600);
  while ((double)p->rows * p->columns * p->inner > 2e6) {
    int32_t *longest = p->rows > p->columns ? &p->rows : &p->columns;
    longest = p->inner > *longest ? &p->inner : longest;
    *longest = (*longest + 1) / 2;
  }
  if (check_draw_once_in(draw, 2)) {
    p->columns = (p->columns + 15) / 16 * 16;
    p->inner = (p->inner + 15) / 16 * 16;
  }
}

/* what: CHECK_PROGRAM_*. */
void check_random_program(check_table *table, check_draw *draw, int32_t what)
{
  params p = {.runs = 1 + check_draw_below(draw, 2), .depth = 1};

  p.own = check_draw_below(draw, 2);
  p.rows = check_draw_size(draw, 150);
  p.columns = check_draw_size(draw, 200);
  switch (what) {
  case CHECK_PROGRAM_NORMS:
    p.columns = check_draw_size(draw, 2000);
    p.depth = 1 + check_draw_below(draw, 3);
    p.form = check_draw_below(draw, 16);
    add(table, "norms_of_sums", build_norms, p);
    break;
  case CHECK_PROGRAM_RESIDUALS:
    draw_product(draw, &p, 300);
    p.depth = 1 + check_draw_below(draw, 2);
    p.form = check_draw_below(draw, 32);
    add(table, "residuals", build_residuals, p);
    break;
  case CHECK_PROGRAM_LARGEST:
    draw_product(draw, &p, 20000);
    p.depth = check_draw_size(draw, p.columns < 70 ? p.columns : 70);
    p.form = check_draw_below(draw, 32);
    add(table, "largest", build_largest, p);
    break;
  case CHECK_PROGRAM_UNFUSED:
    p.rows = check_draw_once_in(draw, 3) ? 1 : check_draw_size(draw, 60);
    p.depth = check_draw_below(draw, 4);
    p.form = check_draw_below(draw, 16);
    add(table, "attention_unfused", build_unfused, p);
    break;
  case CHECK_PROGRAM_CACHE:
    p.rows = check_draw_size(draw, 6);
    p.columns = check_draw_size(draw, 128);
    p.depth = check_draw_size(draw, 100);
    p.runs = 1 + check_draw_below(draw, 8);
    p.form = check_draw_below(draw, 2);
    if (check_draw_once_in(draw, 2)) {
      p.dtype = CHECK_DRAW(draw, check_float_dtypes);
      p.reduced = check_draw_below(draw, 2);
    }
    add(table, "cache", build_cache, p);
    break;
  case CHECK_PROGRAM_DECODE:
    p.rows = check_draw_size(draw, 6);
    p.depth = check_draw_size(draw, 20);
    p.runs = 1 + check_draw_below(draw, 8);
    add(table, "decode", build_decode, p);
    break;
  case CHECK_PROGRAM_RANKS:
    p.depth = 1 + check_draw_below(draw, 6);
    add(table, "chain_of_ranks", build_ranks, p);
    break;
  case CHECK_PROGRAM_SUMS:
    p.rows++; /* some of the slices leave the first one out */
    p.depth = 1 + check_draw_below(draw, 32);
    if (check_draw_once_in(draw, 2)) {
      add(table, "chain_of_sums", build_sums, p);
    } else {
      add(table, "tree_of_sums", build_tree, p);
    }
    break;
  case CHECK_PROGRAM_TURNS:
    p.depth = 1 + check_draw_below(draw, 10);
    add(table, "state_turns", build_turns, p);
    break;
  default: /* the limit is for rows that a norm does not blow up, and for more weights of i8 than are drawn here */
    p.rows = check_draw_size(draw, 60);
    p.columns = 16 + 2 * check_draw_below(draw, 25);
    p.form = check_draw_below(draw, COUNT_OF(layer_dtypes) - 1);
    add_layer(table, p);
  }
}

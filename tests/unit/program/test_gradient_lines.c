/* SPDX-License-Identifier: Apache-2.0
 *
 * tsr_gradients: what it refuses, which lines it appends, and how long they keep memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/program/gradient_check.h"

/* ---- what is refused --------------------------------------------------------------------------------------------- */

static void refuse(maker *m, tsr_ref loss, tsr_ref factor, const tsr_ref *parameters, int32_t n,
                   const tsr_gradient_options *options, tsr_status status, const char *fragment)
{
  tsr_ref found[4] = {0};
  assert_int_equal(tsr_gradients(m->p, loss, factor, parameters, n, options, found), status);
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("'%s' does not hold '%s'", tsr_error_message(), fragment);
  }
  for (int32_t i = 0; i < n && i < 4; i++) {
    assert_int_equal(found[i], TSR_INVALID);
  }
  maker_finish(m);
}

static void refuse_loss(maker *m, tsr_ref loss, tsr_ref parameter, tsr_status status, const char *fragment)
{
  refuse(m, loss, tsr_input(m->p, "factor", TSR_F32, TSR_SHAPE(1)), &parameter, 1, NULL, status, fragment);
}

static void test_lines_without_gradient(void **state)
{
  maker m;
  (void)state;
  maker_begin(&m, 1, 0);
  tsr_ref x = leaf(&m, 2, 5), y = TSR_NONE;
  tsr_scope_push(m.p, "choice");
  y = tsr_topk(m.p, x, 2, NULL);
  tsr_scope_pop(m.p);
  refuse_loss(&m, y, x, TSR_ERR_UNSUPPORTED, "topk in choice.gradient: the operator has no gradient");

  maker_begin(&m, 1, 0);
  x = leaf(&m, 3, 4);
  tsr_ref bytes = tsr_input(m.p, "bytes", TSR_I8, TSR_SHAPE(4, 2));
  y = tsr_matmul_i8(m.p, x, bytes, leaf(&m, 2), TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
  refuse_loss(&m, y, x, TSR_ERR_UNSUPPORTED, "weights of i8 has no gradient");

  maker_begin(&m, 1, 0);
  tsr_ref scales = leaf(&m, 4);
  tsr_ref ids = whole_numbers(&m, TSR_SHAPE(2), (const int32_t[]){0, 1});
  y = tsr_embedding_i8(m.p, tsr_input(m.p, "bytes", TSR_I8, TSR_SHAPE(4, 2)), scales, ids, 1.0f);
  refuse_loss(&m, y, scales, TSR_ERR_UNSUPPORTED, "a table of i8 has no gradient");

  maker_begin(&m, 1, 0);
  tsr_ref weights;
  tsr_attention_args args = {.q = leaf(&m, 1, 2, 2, 3),
                             .k = leaf(&m, 1, 3, 2, 3),
                             .v = leaf(&m, 1, 3, 2, 3),
                             .alpha = 1.0f,
                             .weights = &weights};
  y = tsr_attention(m.p, &args);
  refuse_loss(&m, tsr_mul(m.p, weights, weights), args.q, TSR_ERR_UNSUPPORTED, "none of its weights and sums");

  maker_begin(&m, 1, 0);
  x = leaf(&m, 4);
  refuse_loss(&m, tsr_rotate(m.p, leaf(&m, 2, 4), x, 1.0f), x, TSR_ERR_UNSUPPORTED,
              "the operand 'turns' has no gradient");

  maker_begin(&m, 1, 0);
  tsr_ref lse;
  (void)tsr_cross_entropy(m.p, leaf(&m, 2, 3), whole_numbers(&m, TSR_SHAPE(2), (const int32_t[]){0, 1}), 0.0f, &lse);
  refuse_loss(&m, lse, m.leaves[0].dtype == TSR_F32 ? m.leaves[0].ref : m.leaves[1].ref, TSR_ERR_UNSUPPORTED,
              "the log of the sums has no gradient");

  maker_begin(&m, 1, 0);
  x = leaf(&m, 9);
  tsr_ref seven = tsr_slice(m.p, tsr_reshape(m.p, tsr_slice(m.p, x, 0, 0, 8), TSR_SHAPE(4, 2)), 1, 0, 1);
  refuse_loss(&m, tsr_relu(m.p, seven), x, TSR_ERR_UNSUPPORTED, "no block of its storage");
}

/* The factors of a gradient may be rounded to bf16 where the product's or attention's may; to f16 they may not. */
static void test_reduced_precision_of(tsr_dtype dtype)
{
  maker m;
  maker_begin(&m, 1, 0);
  tsr_ref x = leaf(&m, 1, 3, 2, 4), factor = tsr_input(m.p, "factor", TSR_F32, TSR_SHAPE(1));
  tsr_ref master = leaf(&m, 4, 4), weights = tsr_copy(m.p, master, dtype);
  tsr_ref y = tsr_matmul_reduced_precision(m.p, x, weights, TSR_NONE, 1.0f, TSR_ACTIVATION_SILU);
  tsr_attention_args args = {.q = y, .k = y, .v = y, .alpha = 1.0f, .reduced_precision = dtype};
  y = tsr_sum_of_squares(m.p, tsr_attention(m.p, &args), TSR_NONE);
  const tsr_program_desc *desc = tsr_program_describe(m.p);
  int32_t n_forward = desc->n_lines, n_products = 0, n_attention = 0;
  tsr_ref wanted[] = {x, master}, gradients[2];
  assert_int_equal(tsr_gradients(m.p, y, factor, wanted, 2, NULL, gradients), TSR_OK);
  for (int32_t i = n_forward; i < desc->n_lines; i++) {
    const tsr_line_desc *line = tsr_line_at(desc, i);
    const int is_product = line->op == TSR_OP_MATMUL;
    n_products += is_product;
    n_attention += line->op == TSR_OP_ATTENTION_GRADIENT;
    const int32_t b_type = is_product ? tsr_tensor_at(desc, line->in[1])->dtype : 0;
    const int is_reduced = dtype == TSR_BF16 && (is_product || line->op == TSR_OP_ATTENTION_GRADIENT);
    const int32_t expected = !is_reduced ? 0 : !is_product || b_type == TSR_F32 ? TSR_BF16 : 1;
    assert_int_equal(line->attributes.reduced_precision, expected);
  }
  assert_int_equal(n_products, 3); /* once more for its activation, and for each factor */
  assert_int_equal(n_attention, 1);
  maker_finish(&m);
}

static void test_reduced_precision(void **state)
{
  (void)state;
  test_reduced_precision_of(TSR_F16);
  test_reduced_precision_of(TSR_BF16);
}

static void test_states(void **state)
{
  maker m;
  (void)state;
  /* The loss reads what a line wrote. */
  maker_begin(&m, 1, 0);
  tsr_ref x = leaf(&m, 2, 3), kept = tsr_state(m.p, "kept", TSR_F32, TSR_SHAPE(2, 3));
  tsr_ref y = tsr_update(m.p, kept, tsr_mul(m.p, x, x));
  refuse_loss(&m, tsr_relu(m.p, y), x, TSR_ERR_UNSUPPORTED, "the state 'kept' as this line writes it");
  /* The gradient would read a state after it was overwritten; one that comes too late does no harm. */
  for (int32_t late = 0; late < 2; late++) {
    maker_begin(&m, 1, 0);
    x = leaf(&m, 2, 3);
    kept = tsr_state(m.p, "kept", TSR_F32, TSR_SHAPE(2, 3));
    y = tsr_mul(m.p, x, kept);
    tsr_ref factor = tsr_input(m.p, "factor", TSR_F32, TSR_SHAPE(1)), found;
    if (!late) {
      tsr_update(m.p, kept, y);
      refuse(&m, y, factor, &x, 1, NULL, TSR_ERR_UNSUPPORTED, "'kept' as it was before a later line writes it");
      continue;
    }
    assert_int_equal(tsr_gradients(m.p, y, factor, &x, 1, NULL, &found), TSR_OK);
    tsr_update(m.p, kept, y);
    assert_int_equal(tsr_program_status(m.p), TSR_OK);
    maker_finish(&m);
  }
  /* A state that is written before it is read, and does not depend on a parameter, is like an input. */
  maker_begin(&m, 1, 0);
  x = leaf(&m, 2, 3);
  kept = tsr_state(m.p, "kept", TSR_F32, TSR_SHAPE(2, 3));
  y = tsr_mul(m.p, x, tsr_update(m.p, kept, tsr_input(m.p, "new", TSR_F32, TSR_SHAPE(2, 3))));
  tsr_ref factor = tsr_input(m.p, "factor", TSR_F32, TSR_SHAPE(1)), found;
  assert_int_equal(tsr_gradients(m.p, y, factor, &x, 1, NULL, &found), TSR_OK);
  assert_true(found > 0);
  maker_finish(&m);
}

static void test_parameters(void **state)
{
  (void)state;
  for (int32_t i = 0; i < 9; i++) {
    static const struct {
      tsr_status status;
      const char *fragment;
    } expected[] = {{TSR_ERR_ARGUMENT, "parameter 1 is the result of a line"},
                    {TSR_ERR_ARGUMENT, "parameter 1 is a part of a tensor or permuted"},
                    {TSR_ERR_ARGUMENT, "parameter 1 is a part of a tensor or permuted"},
                    {TSR_ERR_ARGUMENT, "parameters 0 and 1 are the same"},
                    {TSR_ERR_DTYPE, "parameter 1 is i32"},
                    {TSR_ERR_ARGUMENT, "a tensor is missing"},
                    {TSR_ERR_SHAPE, "does not broadcast"},
                    {TSR_ERR_DTYPE, "the loss and its gradient must be f32"},
                    {TSR_ERR_ARGUMENT, "must not be NULL"}};
    maker m;
    maker_begin(&m, 1, 0);
    tsr_ref a = leaf(&m, 2, 3), b = leaf(&m, 3, 3), ids = whole_numbers(&m, TSR_SHAPE(1), (const int32_t[]){0});
    tsr_ref loss = tsr_product(m.p, a, b), factor = tsr_input(m.p, "factor", TSR_F32, TSR_SHAPE(i == 6 ? 2 : 1));
    tsr_ref second[] = {loss,
                        tsr_slice(m.p, b, 0, 0, 2),
                        tsr_transpose(m.p, b, 0, 1),
                        tsr_reshape(m.p, a, TSR_SHAPE(6)),
                        ids,
                        TSR_NONE,
                        b,
                        b,
                        b};
    const tsr_ref parameters[] = {a, second[i]};
    if (i == 7) {
      loss = ids;
    }
    refuse(&m, loss, factor, i == 8 ? NULL : parameters, 2, NULL, expected[i].status, expected[i].fragment);
  }
}

static void test_ranges(void **state)
{
  static const struct {
    tsr_line_range ranges[2];
    int32_t n;
    const char *fragment;
  } cases_of[] = {{{{-1, 2}}, 1, "lines -1 to 2"},
                  {{{2, 1}}, 1, "lines 2 to 1"},
                  {{{0, 5}}, 1, "lines 0 to 5"},
                  {{{0, 2}, {1, 3}}, 2, "lines 1 to 3"},
                  {{{2, 3}, {0, 1}}, 2, "lines 0 to 1"}};
  (void)state;
  for (size_t i = 0; i <= sizeof cases_of / sizeof cases_of[0] + 1; i++) {
    maker m;
    maker_begin(&m, 1, 0);
    tsr_ref x = leaf(&m, 2, 3), kept = tsr_state(m.p, "kept", TSR_F32, TSR_SHAPE(2, 3));
    tsr_ref y = tsr_mul(m.p, tsr_silu(m.p, tsr_silu(m.p, x)), x);
    tsr_update(m.p, kept, tsr_input(m.p, "new", TSR_F32, TSR_SHAPE(1)));
    tsr_ref factor = tsr_input(m.p, "factor", TSR_F32, TSR_SHAPE(1));
    if (i < sizeof cases_of / sizeof cases_of[0]) {
      const tsr_gradient_options options = {TSR_SIZED(tsr_gradient_options), .recompute = cases_of[i].ranges,
                                            .n_recompute = cases_of[i].n};
      refuse(&m, y, factor, &x, 1, &options, TSR_ERR_ARGUMENT, cases_of[i].fragment);
      continue;
    }
    const tsr_line_range all = {0, 4};
    const tsr_gradient_options options = {TSR_SIZED(tsr_gradient_options), .recompute = i % 2 ? &all : NULL,
                                          .n_recompute = 1};
    if (options.recompute) {
      tsr_mul(m.p, y, y); /* behind the range: it is walked over all the same */
    }
    refuse(&m, y, factor, &x, 1, &options, TSR_ERR_ARGUMENT, options.recompute ? "writes states" : "must not be NULL");
  }
}

/* ---- lines and labels -------------------------------------------------------------------------------------------- */

static int32_t count_lines(const tsr_program *program, const char *ending)
{
  const tsr_program_desc *desc = tsr_program_describe(program);
  int32_t n = 0;
  for (int32_t i = 0; i < desc->n_lines; i++) {
    const char *label = tsr_line_at(desc, i)->label;
    size_t length = strlen(label), tail = strlen(ending);
    n += length >= tail && strcmp(label + length - tail, ending) == 0;
  }
  return n;
}

static void test_lines(void **state)
{
  (void)state;
  maker m;
  maker_begin(&m, 1, 0);
  tsr_ref x = leaf(&m, 2, 3), idle = leaf(&m, 2, 3), found[2], y = x;
  tsr_scope_push(m.p, "outer");
  for (int32_t i = 0; i < 4; i++) {
    tsr_scope_push(m.p, "part%d", (int)i);
    y = tsr_silu(m.p, y);
    (void)tsr_relu(m.p, y); /* read by nobody */
    tsr_scope_pop(m.p);
  }
  int32_t lines = tsr_program_line_count(m.p);
  const tsr_line_range all = {0, lines};
  const tsr_gradient_options options = {TSR_SIZED(tsr_gradient_options), .recompute = &all, .n_recompute = 1};
  tsr_ref factor = tsr_input(m.p, "factor", TSR_F32, TSR_SHAPE(1));
  assert_int_equal(tsr_gradients(m.p, y, factor, (const tsr_ref[]){x, idle}, 2, &options, found), TSR_OK);
  assert_true(found[0] > 0);
  assert_int_equal(found[1], TSR_NONE);
  /* The arguments of three silus; neither the last one's result nor those of relu. */
  assert_int_equal(count_lines(m.p, ".again"), 3);
  assert_int_equal(count_lines(m.p, ".part0.again"), 1);
  assert_int_equal(count_lines(m.p, "outer.part3.again"), 0);
  assert_int_equal(count_lines(m.p, "outer.part3.gradient"), 1);
  assert_int_equal(tsr_program_line_count(m.p), lines + 7);
  /* The scope that was open still is. */
  tsr_relu(m.p, x);
  assert_int_equal(count_lines(m.p, "outer"), 1);
  tsr_scope_pop(m.p);
  maker_finish(&m);
}

/* The gradient of a bias is summed where its line is walked over, and what is read twice is added up at once: nothing
 * waits in memory for the end. */
static void test_memory(void **state)
{
  (void)state;
  enum { WIDTH = 16, LAYERS = 20, ROWS = 64 };
  maker m;
  maker_begin(&m, 1, 0);
  tsr_ref parameters[LAYERS + 1], found[LAYERS + 1], x = tsr_input(m.p, "x", TSR_F32, TSR_SHAPE(ROWS, WIDTH));
  tsr_ref w = leaf(&m, 8, WIDTH);
  parameters[LAYERS] = w;
  w = tsr_expand(m.p, tsr_slice(m.p, w, 0, 0, 1), TSR_SHAPE(WIDTH, WIDTH));
  for (int32_t i = 0; i < LAYERS; i++) {
    parameters[i] = leaf(&m, WIDTH);
    x = tsr_matmul(m.p, x, w, parameters[i], 1.0f, TSR_ACTIVATION_NONE);
  }
  tsr_ref factor = tsr_input(m.p, "factor", TSR_F32, TSR_SHAPE(1));
  const tsr_line_range all = {0, LAYERS};
  const tsr_gradient_options options = {TSR_SIZED(tsr_gradient_options), .recompute = &all, .n_recompute = 1};
  assert_int_equal(tsr_gradients(m.p, x, factor, parameters, LAYERS + 1, &options, found), TSR_OK);
  tsr_program_statistics statistics;
  assert_int_equal(tsr_program_measure(m.p, 64, &statistics), TSR_OK);
  /* All layers' arguments once, and a few gradients. */
  assert_true(statistics.planned_bytes < (LAYERS + 5) * ROWS * WIDTH * (int64_t)sizeof(float));
  maker_finish(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines_without_gradient),
      cmocka_unit_test(test_reduced_precision),
      cmocka_unit_test(test_states),
      cmocka_unit_test(test_parameters),
      cmocka_unit_test(test_ranges),
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

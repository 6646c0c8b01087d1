/* SPDX-License-Identifier: Apache-2.0
 *
 * core/program: builders, views, shape rules, errors, the memory plan.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/program/plan.h"
#include "tessera/ops.h"

static int new_program(void **state)
{
  tsr_program *program;
  if (tsr_program_create(&program) != TSR_OK) {
    return -1;
  }
  *state = program;
  return 0;
}

static int old_program(void **state)
{
  tsr_program_destroy(*state);
  return 0;
}

static void assert_shape(const tsr_program *p, tsr_ref x, tsr_shape expected)
{
  char text[128], wanted[128];
  tsr_shape shape = tsr_ref_shape(p, x);
  assert_string_equal(tsr_shape_print(&shape, text, sizeof text), tsr_shape_print(&expected, wanted, sizeof wanted));
}

static void assert_error(tsr_program *p, tsr_status status, const char *fragment)
{
  assert_int_equal(tsr_program_status(p), status);
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("'%s' does not hold '%s'", tsr_error_message(), fragment);
  }
}

static void test_views(void **state)
{
  tsr_program *p = *state;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(2, 6, 12));
  const tsr_program_desc *desc = tsr_program_describe(p);
  tsr_ref part = tsr_slice(p, x, -1, 4, 4);
  tsr_ref heads = tsr_reshape(p, part, TSR_SHAPE(2, 6, 2, 2));
  const tsr_tensor_desc *tensor = tsr_tensor_at(desc, heads);
  assert_int_equal(tensor->offset, 4);
  assert_int_equal(tensor->stride[0], 72);
  assert_int_equal(tensor->stride[1], 12);
  assert_int_equal(tensor->stride[2], 2);
  assert_int_equal(tensor->stride[3], 1);
  tsr_ref turned = tsr_transpose(p, heads, 1, 2);
  assert_shape(p, turned, TSR_SHAPE(2, 2, 6, 2));
  tsr_ref ones = tsr_reshape(p, x, TSR_SHAPE(2, 72, 1, 1));
  assert_shape(p, ones, TSR_SHAPE(2, 72, 1, 1));
  tsr_ref wide = tsr_expand(p, tsr_slice(p, x, 1, 0, 1), TSR_SHAPE(3, 2, 5, 12));
  tensor = tsr_tensor_at(tsr_program_describe(p), wide);
  assert_int_equal(tensor->stride[0], 0);
  assert_int_equal(tensor->stride[2], 0);
  assert_int_equal(tensor->stride[3], 1);
  assert_int_equal(tsr_program_line_count(p), 0);
  assert_int_equal(tsr_program_status(p), TSR_OK);
  assert_int_equal(tsr_reshape(p, turned, TSR_SHAPE(2, 24)), TSR_INVALID);
  assert_error(p, TSR_ERR_SHAPE, "copy it first");
}

static void test_view_errors(void **state)
{
  (void)state;
  static const struct {
    int kind;
    const char *fragment;
  } cases[] = {{0, "no axis 2"},
               {1, "do not lie"},
               {2, "permutation"},
               {3, "broadcast"},
               {4, "expand: a tensor has 0 to 4 axes, not 5"},
               {5, "reshape: a tensor has 0 to 4 axes, not 5"},
               {6, "y: a tensor has 0 to 4 axes, not 5"},
               {7, "numbers of elements"},
               {8, "tsr_permute: order must not be NULL"},
               {9, "tsr_mask: masking must not be NULL"},
               {10, "tsr_attention: args must not be NULL"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tsr_program *p;
    assert_int_equal(tsr_program_create(&p), TSR_OK);
    tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(2, 3)), y = TSR_NONE;
    switch (cases[i].kind) {
    case 0:
      y = tsr_transpose(p, x, 0, 2);
      break;
    case 1:
      y = tsr_slice(p, x, 1, 2, 2);
      break;
    case 2:
      y = tsr_permute(p, x, (int32_t[]){0, 0});
      break;
    case 3:
      y = tsr_expand(p, x, TSR_SHAPE(2, 4));
      break;
    case 4:
      y = tsr_expand(p, x, TSR_SHAPE(1, 1, 1, 2, 3));
      break;
    case 5:
      y = tsr_reshape(p, x, TSR_SHAPE(1, 1, 1, 2, 3));
      break;
    case 6:
      y = tsr_input(p, "y", TSR_F32, TSR_SHAPE(1, 1, 1, 2, 3));
      break;
    case 8:
      y = tsr_permute(p, x, NULL);
      break;
    case 9:
      y = tsr_mask(p, x, NULL);
      break;
    case 10:
      y = tsr_attention(p, NULL);
      break;
    default:
      y = tsr_reshape(p, x, TSR_SHAPE(7));
      break;
    }
    assert_int_equal(y, TSR_INVALID);
    assert_int_equal(tsr_relu(p, y), TSR_INVALID);
    assert_int_not_equal(tsr_program_status(p), TSR_OK);
    if (!strstr(tsr_error_message(), cases[i].fragment)) {
      fail_msg("'%s' does not hold '%s'", tsr_error_message(), cases[i].fragment);
    }
    tsr_program_destroy(p);
  }
}

static void test_matmul_folds(void **state)
{
  tsr_program *p = *state;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(2, 5, 8)), w = tsr_constant(p, "w", TSR_F16, TSR_SHAPE(12, 8));
  tsr_ref bias = tsr_constant(p, "b", TSR_F32, TSR_SHAPE(12));
  tsr_ref y = tsr_matmul(p, x, tsr_transpose(p, w, 0, 1), bias, 1.0f, TSR_ACTIVATION_RELU);
  assert_shape(p, y, TSR_SHAPE(2, 5, 12));
  const tsr_program_desc *desc = tsr_program_describe(p);
  const tsr_line_desc *line = tsr_line_at(desc, 0);
  assert_int_equal(tsr_tensor_at(desc, line->out[0])->rank, 2);
  assert_int_equal(tsr_tensor_at(desc, line->in[2])->stride[0], 0);
  /* Rows that do not follow each other in memory stay a batch. */
  tsr_ref part = tsr_slice(p, x, 1, 0, 3);
  tsr_ref z = tsr_product(p, part, tsr_transpose(p, w, 0, 1));
  assert_shape(p, z, TSR_SHAPE(2, 3, 12));
  line = tsr_line_at(tsr_program_describe(p), 1);
  assert_int_equal(tsr_tensor_at(tsr_program_describe(p), line->out[0])->rank, 3);
  /* b may have leading axes that a lacks. */
  tsr_ref many = tsr_constant(p, "many", TSR_F32, TSR_SHAPE(3, 1, 8, 4));
  assert_shape(p, tsr_product(p, x, many), TSR_SHAPE(3, 2, 5, 4));
  assert_int_equal(tsr_program_status(p), TSR_OK);
}

/* Scales are given with weights of i8, one for each column, and with those alone. */
static void test_weights_of_i8(void **state)
{
  tsr_program *p = *state;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(2, 5, 8)), w = tsr_constant(p, "w", TSR_I8, TSR_SHAPE(12, 8));
  tsr_ref scales = tsr_constant(p, "w.scales", TSR_F32, TSR_SHAPE(12));
  tsr_ref bias = tsr_constant(p, "b", TSR_F32, TSR_SHAPE(12));
  tsr_ref y = tsr_matmul_i8(p, x, tsr_transpose(p, w, 0, 1), scales, bias, 1.0f, TSR_ACTIVATION_RELU);
  assert_shape(p, y, TSR_SHAPE(2, 5, 12));
  const tsr_program_desc *desc = tsr_program_describe(p);
  assert_int_equal(tsr_tensor_at(desc, tsr_line_at(desc, 0)->out[0])->rank, 2);
  assert_int_equal(tsr_line_at(desc, 0)->in[3], scales);
  double bytes = 4 * (2 * 5 * 8 + 12 + 12 + 2 * 5 * 12) + 12 * 8;
  assert_true(tsr_line_bytes(desc, 0) == bytes);
  tsr_ref ids = tsr_input(p, "ids", TSR_I32, TSR_SHAPE(3));
  assert_shape(p, tsr_embedding_i8(p, w, scales, ids, 2.0f), TSR_SHAPE(3, 8));
  desc = tsr_program_describe(p);
  assert_true(tsr_line_bytes(desc, 1) == 3 * 8 + 4 * (3 + 3 + 3 * 8));
  assert_int_equal(tsr_program_status(p), TSR_OK);

  enum { NO_SCALES, FLOATS, SHORT, TOO_DEEP, A_IS_I8, TABLE_ALONE, TABLE_OF_FLOATS, TABLE_SHORT, CASES };
  static const struct {
    tsr_status status;
    const char *fragment;
  } expected[CASES] = {
      [NO_SCALES] = {TSR_ERR_ARGUMENT, "the operand 'b' is i8: 'scales' must be given with i8, and with i8 alone"},
      [FLOATS] = {TSR_ERR_ARGUMENT, "the operand 'b' is f32: 'scales' must be given with i8"},
      [SHORT] = {TSR_ERR_SHAPE, "the operand 'scales' must have extents [4], not [3]"},
      [TOO_DEEP] = {TSR_ERR_SHAPE, "the inner extent is at most 65536 where b is i8"},
      [A_IS_I8] = {TSR_ERR_DTYPE, "the operand 'a' cannot be i8"},
      [TABLE_ALONE] = {TSR_ERR_ARGUMENT, "the operand 'table' is i8: 'scales' must be given"},
      [TABLE_OF_FLOATS] = {TSR_ERR_ARGUMENT, "the operand 'table' is f32: 'scales' must be given with i8"},
      [TABLE_SHORT] = {TSR_ERR_SHAPE, "the operand 'scales' must have extents [8], not [4]"},
  };
  for (int i = 0; i < CASES; i++) {
    tsr_program *q;
    assert_int_equal(tsr_program_create(&q), TSR_OK);
    tsr_ref a = tsr_input(q, "a", TSR_F32, TSR_SHAPE(2, 8)), floats = tsr_input(q, "f", TSR_F32, TSR_SHAPE(8, 4));
    tsr_ref b = tsr_input(q, "b", TSR_I8, TSR_SHAPE(8, 4)), four = tsr_input(q, "four", TSR_F32, TSR_SHAPE(4));
    tsr_ref three = tsr_slice(q, four, 0, 0, 3), eight = tsr_input(q, "eight", TSR_F32, TSR_SHAPE(8));
    tsr_ref deep = tsr_input(q, "deep", TSR_F32, TSR_SHAPE(2, 65537)), id = tsr_input(q, "id", TSR_I32, TSR_SHAPE(1));
    tsr_ref deep_b = tsr_input(q, "deep_b", TSR_I8, TSR_SHAPE(65537, 4));
    tsr_ref z = i == NO_SCALES         ? tsr_product(q, a, b)
                : i == FLOATS          ? tsr_matmul_i8(q, a, floats, four, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE)
                : i == SHORT           ? tsr_matmul_i8(q, a, b, three, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE)
                : i == TOO_DEEP        ? tsr_matmul_i8(q, deep, deep_b, four, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE)
                : i == A_IS_I8         ? tsr_product(q, tsr_transpose(q, b, 0, 1), floats)
                : i == TABLE_ALONE     ? tsr_embedding(q, b, id, 1.0f)
                : i == TABLE_OF_FLOATS ? tsr_embedding_i8(q, floats, eight, id, 1.0f)
                                       : tsr_embedding_i8(q, b, four, id, 1.0f);
    assert_int_equal(z, TSR_INVALID);
    assert_error(q, expected[i].status, expected[i].fragment);
    tsr_program_destroy(q);
  }
}

/* The type of the scales tells four bits from i8; a depth takes whole groups of bytes. */
static void test_weights_of_four_bits(void **state)
{
  tsr_program *p = *state;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(2, 5, 40)), w = tsr_constant(p, "w", TSR_I8, TSR_SHAPE(12, 32));
  tsr_ref scales = tsr_constant(p, "w.scales", TSR_F16, TSR_SHAPE(12, 2)),
          ids = tsr_input(p, "ids", TSR_I32, TSR_SHAPE(3));
  tsr_ref y = tsr_matmul_i4(p, x, tsr_transpose(p, w, 0, 1), tsr_transpose(p, scales, 0, 1), TSR_NONE, 1.0f,
                            TSR_ACTIVATION_RELU);
  assert_shape(p, y, TSR_SHAPE(2, 5, 12));
  const tsr_program_desc *desc = tsr_program_describe(p);
  assert_true(tsr_line_bytes(desc, 0) == 4 * (2 * 5 * 40 + 2 * 5 * 12) + 12 * 32 + 2 * 12 * 2);
  assert_true(tsr_line_flops(desc, 0) == 2.0 * 10 * 12 * 40);
  assert_int_equal(tsr_line_since(desc, 0), 7);
  assert_shape(p, tsr_embedding_i4(p, w, scales, ids, 2.0f), TSR_SHAPE(3, 64));
  desc = tsr_program_describe(p);
  assert_true(tsr_line_bytes(desc, 1) == 3 * 32 + 2 * 3 * 2 + 4 * (3 + 3 * 64));
  assert_int_equal(tsr_line_since(desc, 1), 7);
  assert_int_equal(tsr_program_status(p), TSR_OK);

  static const struct {
    int64_t bytes, groups, columns;
    const char *fragment;
  } expected[] = {
      {16, 1, 4, "with weights of four bits a depth of 33 takes 32 bytes"},
      {33, 2, 4, "with weights of four bits a depth of 33 takes 32 bytes"},
      {32, 1, 4, "the operand 'scales' must have extents [2, 4], not [1, 4]"},
      {32, 2, 3, "the operand 'scales' must have extents [2, 4], not [2, 3]"},
  };
  for (int i = 0; i < 5; i++) {
    tsr_program *q;
    assert_int_equal(tsr_program_create(&q), TSR_OK);
    if (i == 4) {
      tsr_ref table = tsr_input(q, "t", TSR_I8, TSR_SHAPE(4, 24)), id = tsr_input(q, "id", TSR_I32, TSR_SHAPE(1));
      tsr_embedding_i4(q, table, tsr_input(q, "s", TSR_F16, TSR_SHAPE(4, 1)), id, 1.0f);
      assert_error(q, TSR_ERR_SHAPE, "a row of weights of four bits takes 16 bytes a group, not 24");
    } else {
      tsr_ref a = tsr_input(q, "a", TSR_F32, TSR_SHAPE(2, 33));
      tsr_ref b = tsr_input(q, "b", TSR_I8, TSR_SHAPE(expected[i].bytes, 4));
      tsr_ref s = tsr_input(q, "s", TSR_F16, TSR_SHAPE(expected[i].groups, expected[i].columns));
      assert_int_equal(tsr_matmul_i4(q, a, b, s, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE), TSR_INVALID);
      assert_error(q, TSR_ERR_SHAPE, expected[i].fragment);
    }
    tsr_program_destroy(q);
  }
}

static void test_reduced_precision(void **state)
{
  tsr_program *p = *state;
  char text[256];
  const tsr_program_desc *desc = tsr_program_describe(p);
  tsr_ref a = tsr_input(p, "a", TSR_F32, TSR_SHAPE(2, 8)), b = tsr_input(p, "b", TSR_BF16, TSR_SHAPE(8, 4));
  assert_shape(p, tsr_matmul_reduced_precision(p, a, b, TSR_NONE, 1.0f, TSR_ACTIVATION_RELU), TSR_SHAPE(2, 4));
  assert_int_equal(tsr_line_at(desc, 0)->attributes.reduced_precision, 1);
  assert_string_equal(tsr_program_print_line(p, 0, text, sizeof text),
                      "   0  %3 f32 [2, 4] = matmul(a[2, 8], b[8, 4]) relu narrow");
  tsr_matmul(p, a, b, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
  assert_int_equal(tsr_line_at(desc, 1)->attributes.reduced_precision, 0);
  tsr_ref q = tsr_input(p, "q", TSR_F32, TSR_SHAPE(1, 2, 1, 4));
  tsr_attention_args args = {.q = q, .k = q, .v = q, .alpha = 0.5f, .reduced_precision = 1};
  tsr_attention(p, &args);
  assert_int_equal(tsr_line_at(desc, 2)->attributes.reduced_precision, 1);
  assert_true(strstr(tsr_program_print_line(p, 2, text, sizeof text), "alpha 0.5 narrow") != NULL);
  assert_int_equal(tsr_program_status(p), TSR_OK);
  args.k = args.v = tsr_state(p, "cache", TSR_F16, TSR_SHAPE(1, 5, 1, 4));
  tsr_attention(p, &args);
  assert_int_equal(tsr_program_status(p), TSR_OK);
  args.reduced_precision = TSR_BF16;
  tsr_attention(p, &args);
  assert_true(strstr(tsr_program_print_line(p, 4, text, sizeof text), "alpha 0.5 narrow bf16") != NULL);
  assert_int_equal(tsr_program_status(p), TSR_OK);
  args.reduced_precision = TSR_I8;
  tsr_attention(p, &args);
  assert_error(p, TSR_ERR_ARGUMENT, "reduced_precision is 0, 1, TSR_F16 or TSR_BF16, not 4");

  tsr_program *q32;
  assert_int_equal(tsr_program_create(&q32), TSR_OK);
  a = tsr_input(q32, "a", TSR_F32, TSR_SHAPE(2, 8));
  tsr_matmul_reduced_precision(q32, a, tsr_transpose(q32, a, 0, 1), TSR_NONE, 1.0f, TSR_ACTIVATION_NONE);
  assert_error(q32, TSR_ERR_DTYPE, "a product of reduced precision has b of f16 or bf16, not f32");
  tsr_program_destroy(q32);

  assert_int_equal(tsr_program_create(&q32), TSR_OK);
  a = tsr_input(q32, "a", TSR_F32, TSR_SHAPE(2, 8));
  b = tsr_transpose(q32, a, 0, 1);
  assert_shape(q32, tsr_matmul_rounded(q32, a, b, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE, TSR_BF16), TSR_SHAPE(2, 2));
  assert_int_equal(tsr_line_at(tsr_program_describe(q32), 0)->attributes.reduced_precision, TSR_BF16);
  assert_string_equal(tsr_program_print_line(q32, 0, text, sizeof text),
                      "   0  %2 f32 [2, 2] = matmul(a[2, 8], a[8, 2] by [1, 8]) narrow bf16");
  b = tsr_input(q32, "b", TSR_F16, TSR_SHAPE(8, 4));
  tsr_matmul_rounded(q32, a, b, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE, TSR_F16);
  assert_error(q32, TSR_ERR_DTYPE, "a product that rounds both factors has b of f32, not f16");
  tsr_program_destroy(q32);

  assert_int_equal(tsr_program_create(&q32), TSR_OK);
  a = tsr_input(q32, "a", TSR_F32, TSR_SHAPE(2, 8));
  tsr_matmul_rounded(q32, a, tsr_transpose(q32, a, 0, 1), TSR_NONE, 1.0f, TSR_ACTIVATION_NONE, TSR_F32);
  assert_error(q32, TSR_ERR_DTYPE, "factors are rounded to f16 or bf16, not to f32");
  tsr_program_destroy(q32);

  assert_int_equal(tsr_program_create(&q32), TSR_OK);
  args = (tsr_attention_args){.alpha = 1.0f};
  args.q = args.k = tsr_input(q32, "q", TSR_F32, TSR_SHAPE(1, 2, 1, 4));
  args.v = tsr_input(q32, "v", TSR_F16, TSR_SHAPE(1, 2, 1, 4));
  tsr_attention(q32, &args);
  assert_error(q32, TSR_ERR_DTYPE, "its operands differ in type: f32 and f16");
  tsr_program_destroy(q32);
}

/* Relative biases with a row for each distance. */
static void test_clamped(void **state)
{
  (void)state;
  static const struct {
    int64_t rows;
    tsr_masking masking;
    const char *fragment;
  } cases[] = {
      {5, {.clamped = 1, .max_distance = 2}, NULL},
      {4, {.clamped = 1, .max_distance = 2}, "found 4 rows and a max_distance of 2"},
      {7, {.clamped = 1, .max_distance = 2}, "found 7 rows and a max_distance of 2"},
      {1, {.clamped = 1, .max_distance = 0}, "max_distance at least 1; found 1 rows"},
      {1, {.clamped = 1, .max_distance = INT32_MAX}, "found 1 rows and a max_distance of 2147483647"},
      {5, {.clamped = 1, .bidirectional = 1, .max_distance = 2}, "not both 1"},
      {5, {.clamped = 2, .max_distance = 2}, "bidirectional and clamped are 0 or 1"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    for (int32_t gradient = 0; gradient < 2; gradient++) {
      tsr_program *p;
      assert_int_equal(tsr_program_create(&p), TSR_OK);
      tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(1, 3, 4, 4));
      tsr_masking masking = cases[i].masking;
      masking.relative = tsr_constant(p, "table", TSR_F32, TSR_SHAPE(cases[i].rows, 3));
      tsr_ref y = gradient ? tsr_relative_gradient(p, x, &masking, cases[i].rows) : tsr_mask(p, x, &masking);
      if (cases[i].fragment) {
        assert_int_equal(y, TSR_INVALID);
        assert_error(p, TSR_ERR_ARGUMENT, cases[i].fragment);
      } else {
        char text[256];
        assert_int_equal(tsr_program_status(p), TSR_OK);
        assert_non_null(strstr(tsr_program_print_line(p, 0, text, sizeof text), " clamped max_distance 2"));
      }
      tsr_program_destroy(p);
    }
  }
}

static void test_states(void **state)
{
  tsr_program *p = *state;
  tsr_ref cache = tsr_state(p, "cache", TSR_F32, TSR_SHAPE(2, 8, 4)),
          x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(2, 1, 4));
  tsr_ref position = tsr_input(p, "position", TSR_I32, TSR_SHAPE(1));
  assert_int_equal(tsr_append(p, cache, x, position), cache);
  assert_int_equal(tsr_update(p, tsr_slice(p, cache, 1, 0, 1), x) > 0, 1);
  assert_int_equal(tsr_program_status(p), TSR_OK);
  assert_int_equal(tsr_update(p, cache, tsr_slice(p, cache, 1, 2, 1)), TSR_INVALID);
  assert_error(p, TSR_ERR_ARGUMENT, "read the state");

  /* A state of 16 bits takes f32, too; another one its own type alone. */
  for (int i = 0; i < 4; i++) {
    static const tsr_dtype types[][2] = {
        {TSR_F16, TSR_F32}, {TSR_BF16, TSR_F32}, {TSR_F32, TSR_F16}, {TSR_BF16, TSR_F16}};
    tsr_program *q;
    assert_int_equal(tsr_program_create(&q), TSR_OK);
    tsr_ref kept = tsr_state(q, "kept", types[i][0], TSR_SHAPE(2, 8, 4));
    x = tsr_input(q, "x", types[i][1], TSR_SHAPE(2, 1, 4));
    if (i < 2) {
      assert_int_equal(tsr_append(q, kept, x, TSR_NONE), kept);
      assert_int_equal(tsr_update(q, kept, x), kept);
      assert_int_equal((int)tsr_line_bytes(tsr_program_describe(q), 0), 8 * 4 + 8 * 2);
    } else {
      assert_int_equal(i == 2 ? tsr_append(q, kept, x, TSR_NONE) : tsr_update(q, kept, x), TSR_INVALID);
      assert_error(q, TSR_ERR_DTYPE,
                   i == 2 ? "x of f16 cannot be written into a state of f32"
                          : "x of f16 cannot be written into a state of bf16");
    }
    tsr_program_destroy(q);
  }
}

static void test_outputs(void **state)
{
  tsr_program *p = *state;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(3, 4));
  tsr_ref y = tsr_relu(p, x);
  assert_int_equal(tsr_output(p, "y", y), y);
  assert_int_equal(tsr_ref_kind(p, y), TSR_STORAGE_OUTPUT);
  assert_int_equal(tsr_program_line_count(p), 1);
  tsr_ref z = tsr_output(p, "z", x); /* an input: copied */
  assert_int_equal(tsr_program_line_count(p), 2);
  assert_int_equal(tsr_program_find(p, "z"), z);
  assert_int_equal(tsr_program_find(p, "nobody"), TSR_NONE);
  /* A product folds the leading axes of its operand; the output keeps the extents that its maker saw. */
  tsr_ref product = tsr_product(p, tsr_input(p, "a", TSR_F32, TSR_SHAPE(2, 3, 4)), tsr_transpose(p, x, 0, 1));
  assert_int_equal(tsr_output(p, "product", product), product);
  assert_int_equal(tsr_program_find(p, "product"), product);
  assert_shape(p, tsr_program_find(p, "product"), TSR_SHAPE(2, 3, 3));
  tsr_output(p, "y", tsr_relu(p, x));
  assert_error(p, TSR_ERR_ARGUMENT, "'y' is taken");
}

/* Names are found as fast in a large program as in a small one: if each were compared with all others, this would take
 * minutes, and the test be given up. */
static void test_many_names(void **state)
{
  enum { MANY = 1 << 18 };
  tsr_program *p = *state;
  char name[64];
  for (int32_t i = 1; i <= MANY; i++) {
    snprintf(name, sizeof name, "decoder.layers.self_attention.weight.%d", (int)i);
    assert_int_equal(tsr_program_find(p, name), TSR_NONE);
    assert_int_equal(tsr_constant(p, name, TSR_F32, TSR_SHAPE(1)), i);
  }
  for (int32_t i = 1; i <= MANY; i++) {
    snprintf(name, sizeof name, "decoder.layers.self_attention.weight.%d", (int)i);
    assert_int_equal(tsr_program_find(p, name), i);
  }
  assert_int_equal(tsr_program_find(p, "decoder.layers.self_attention.weight.0"), TSR_NONE);
  assert_int_equal(tsr_constant(p, name, TSR_F32, TSR_SHAPE(1)), TSR_INVALID);
  assert_error(p, TSR_ERR_ARGUMENT, "is taken already");
}

static void test_scopes(void **state)
{
  tsr_program *p = *state;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(3));
  tsr_relu(p, x);
  tsr_scope_push(p, "encoder");
  tsr_scope_push(p, "layer%d", 3);
  tsr_relu(p, x);
  tsr_scope_pop(p);
  tsr_relu(p, x);
  tsr_scope_pop(p);
  const tsr_program_desc *desc = tsr_program_describe(p);
  assert_string_equal(tsr_line_at(desc, 0)->label, "");
  assert_string_equal(tsr_line_at(desc, 1)->label, "encoder.layer3");
  assert_string_equal(tsr_line_at(desc, 2)->label, "encoder");
  tsr_scope_push(p, "decoder");
  tsr_add(p, x, tsr_input(p, "y", TSR_F32, TSR_SHAPE(2)));
  assert_error(p, TSR_ERR_SHAPE, "add in decoder: [3] and [2] do not broadcast");

  tsr_program *nameless;
  assert_int_equal(tsr_program_create(&nameless), TSR_OK);
  tsr_scope_push(nameless, "%s", "");
  assert_error(nameless, TSR_ERR_ARGUMENT, "its name is empty");
  tsr_program_destroy(nameless);
}

/* Every operator refuses an operand of the wrong type and a missing one, by the operand's name. */
static void test_slots(void **state)
{
  (void)state;
  assert_int_equal(tsr_op_find("attention"), TSR_OP_ATTENTION);
  assert_int_equal(tsr_op_find("nothing"), 0);
  assert_null(tsr_op_describe(0));
  assert_null(tsr_op_describe(TSR_OP_COUNT));
  for (int32_t op = 1; op < TSR_OP_COUNT; op++) {
    const tsr_op_info *info = tsr_op_describe(op);
    assert_non_null(info);
    assert_non_null(info->name);
    assert_non_null(info->formula);
    assert_true(info->tolerance >= TSR_CLASS_EXACT && info->tolerance <= TSR_CLASS_NORM);
    assert_non_null(info->in[0].name);
    assert_non_null(info->out[0].name);
    assert_int_equal(tsr_op_find(info->name), op);
  }
  tsr_program *p;
  assert_int_equal(tsr_program_create(&p), TSR_OK);
  tsr_ref ids = tsr_input(p, "ids", TSR_I32, TSR_SHAPE(3));
  assert_int_equal(tsr_softmax(p, ids, TSR_NONE), TSR_INVALID);
  assert_error(p, TSR_ERR_DTYPE, "softmax: the operand 'x' cannot be i32");
  tsr_program_destroy(p);
  assert_int_equal(tsr_program_create(&p), TSR_OK);
  assert_int_equal(tsr_relu(p, TSR_NONE), TSR_INVALID);
  assert_error(p, TSR_ERR_ARGUMENT, "relu: the operand 'x' is missing");
  tsr_program_destroy(p);
  assert_int_equal(tsr_program_create(&p), TSR_OK);
  assert_int_equal(tsr_relu(p, 99), TSR_INVALID);
  assert_error(p, TSR_ERR_ARGUMENT, "another program");
  tsr_program_destroy(p);
}

/* Rows of zeros are put around x by lines of their own; what does not lie in rows is copied. */
static void test_conv1d(void **state)
{
  tsr_program *p = *state;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(2, 9, 4)), w = tsr_constant(p, "w", TSR_F16, TSR_SHAPE(6, 3, 4));
  tsr_ref turned = tsr_input(p, "turned", TSR_F32, TSR_SHAPE(2, 4, 9)),
          bias = tsr_constant(p, "b", TSR_F32, TSR_SHAPE(6));
  assert_shape(p, tsr_conv1d(p, x, w, bias, 1, 0), TSR_SHAPE(2, 7, 6));
  assert_int_equal(tsr_program_line_count(p), 1);
  assert_shape(p, tsr_conv1d(p, tsr_slice(p, x, 1, 2, 5), tsr_slice(p, w, 0, 1, 3), TSR_NONE, 3, 0),
               TSR_SHAPE(2, 1, 3));
  assert_int_equal(tsr_program_line_count(p), 2);
  assert_shape(p, tsr_conv1d(p, x, w, bias, 2, 1), TSR_SHAPE(2, 5, 6));
  const tsr_program_desc *desc = tsr_program_describe(p);
  assert_int_equal(desc->n_lines, 5);
  assert_int_equal(tsr_line_at(desc, 2)->op, TSR_OP_REDUCE_SUM);
  assert_int_equal(tsr_line_at(desc, 3)->op, TSR_OP_CONCAT);
  assert_int_equal(tsr_line_at(desc, 3)->in[1], x);
  assert_int_equal(tsr_tensor_at(desc, tsr_line_at(desc, 3)->in[0])->extent[1], 1);
  assert_int_equal(tsr_tensor_at(desc, tsr_line_at(desc, 3)->in[2])->extent[1], 1);
  assert_int_equal(tsr_line_at(desc, 4)->attributes.stride, 2);
  assert_true(tsr_line_flops(desc, 4) == 2.0 * (2 * 5 * 6) * (3 * 4));
  assert_shape(p, tsr_conv1d(p, tsr_transpose(p, turned, 1, 2), tsr_slice(p, w, 1, 0, 2), TSR_NONE, 1, 0),
               TSR_SHAPE(2, 8, 6));
  desc = tsr_program_describe(p);
  assert_int_equal(desc->n_lines, 7);
  assert_int_equal(tsr_line_at(desc, 5)->op, TSR_OP_COPY);
  assert_shape(p, tsr_conv1d(p, x, tsr_slice(p, w, 2, 0, 4), TSR_NONE, INT32_MAX, 0), TSR_SHAPE(2, 1, 6));
  char text[200];
  assert_non_null(strstr(tsr_program_print_line(p, 4, text, sizeof text), "stride 2"));
  assert_int_equal(tsr_program_status(p), TSR_OK);
}

static void test_conv1d_errors(void **state)
{
  static const struct {
    int64_t time, in, kernel;
    int32_t stride, padding, bias;
    tsr_status status;
    const char *fragment;
  } cases[] = {{5, 4, 6, 1, 0, 3, TSR_ERR_SHAPE, "the kernel has 1 to 5 rows, not 6"},
               {5, 4, 8, 1, 1, 3, TSR_ERR_SHAPE, "the kernel has 1 to 7 rows, not 8"},
               {5, 4, 0, 1, 0, 3, TSR_ERR_SHAPE, "the kernel has 1 to 5 rows, not 0"},
               {5, 3, 2, 1, 0, 3, TSR_ERR_SHAPE, "x [1, 5, 3] and weight [3, 2, 4]: the last extents differ"},
               {5, 4, 2, 0, 0, 3, TSR_ERR_ARGUMENT, "the stride is at least 1, not 0"},
               {5, 4, 2, 1, -1, 3, TSR_ERR_ARGUMENT, "the padding is at least 0, not -1"},
               {5, 4, 2, 1, 0, 2, TSR_ERR_SHAPE, "the operand 'bias' must have extents [3], not [2]"}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tsr_program *p;
    assert_int_equal(tsr_program_create(&p), TSR_OK);
    tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(1, cases[i].time, cases[i].in));
    tsr_ref w = tsr_input(p, "w", TSR_F32, TSR_SHAPE(3, cases[i].kernel, 4));
    tsr_ref bias = tsr_input(p, "b", TSR_F32, TSR_SHAPE(cases[i].bias));
    assert_int_equal(tsr_conv1d(p, x, w, bias, cases[i].stride, cases[i].padding), TSR_INVALID);
    assert_error(p, cases[i].status, cases[i].fragment);
    tsr_program_destroy(p);
  }
  for (int32_t padding = 0; padding < 2; padding++) {
    tsr_program *p;
    assert_int_equal(tsr_program_create(&p), TSR_OK);
    tsr_ref matrix = tsr_input(p, "x", TSR_F32, TSR_SHAPE(5, 4)), w = tsr_input(p, "w", TSR_F32, TSR_SHAPE(3, 2, 4));
    assert_int_equal(tsr_conv1d(p, matrix, w, TSR_NONE, 1, padding), TSR_INVALID);
    assert_error(p, TSR_ERR_SHAPE, "the operand 'x' must have rank 3 to 3, not 2");
    tsr_program_destroy(p);
  }
}

/* Heads that share keys and values, and the bound of scores. */
static void test_attention(void **state)
{
  tsr_program *p = *state;
  tsr_ref q = tsr_input(p, "q", TSR_F32, TSR_SHAPE(2, 5, 6, 8)), k = tsr_input(p, "k", TSR_F32, TSR_SHAPE(2, 7, 3, 8));
  tsr_attention_args args = {.q = q, .k = k, .v = k, .alpha = 1.0f, .softcap = 50.0f};
  assert_shape(p, tsr_attention(p, &args), TSR_SHAPE(2, 5, 6, 8));
  char text[300];
  assert_non_null(strstr(tsr_program_print_line(p, 0, text, sizeof text), " softcap 50"));
  assert_int_equal(tsr_program_status(p), TSR_OK);
}

static void test_attention_errors(void **state)
{
  static const struct {
    int64_t heads;
    float softcap;
    tsr_status status;
    const char *fragment;
  } cases[] = {{4, 0.0f, TSR_ERR_SHAPE, "with the heads of k and v a divisor of H"},
               {0, 0.0f, TSR_ERR_SHAPE, "with the heads of k and v a divisor of H"},
               {12, 0.0f, TSR_ERR_SHAPE, "with the heads of k and v a divisor of H"},
               {6, -1.0f, TSR_ERR_ARGUMENT, "softcap is a finite number of at least 0, not -1"},
               {6, INFINITY, TSR_ERR_ARGUMENT, "softcap is a finite number of at least 0, not inf"},
               {6, NAN, TSR_ERR_ARGUMENT, "softcap is a finite number of at least 0"}};
  (void)state;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tsr_program *p;
    assert_int_equal(tsr_program_create(&p), TSR_OK);
    tsr_ref q = tsr_input(p, "q", TSR_F32, TSR_SHAPE(2, 5, 6, 8));
    tsr_ref k = tsr_input(p, "k", TSR_F32, TSR_SHAPE(2, 7, cases[i].heads, 8));
    tsr_attention_args args = {.q = q, .k = k, .v = k, .alpha = 1.0f, .softcap = cases[i].softcap};
    assert_int_equal(tsr_attention(p, &args), TSR_INVALID);
    assert_error(p, cases[i].status, cases[i].fragment);
    tsr_program_destroy(p);
  }
}

static void test_rotate(void **state)
{
  tsr_program *p = *state;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(2, 5, 3, 8)), turns = tsr_input(p, "t", TSR_F32, TSR_SHAPE(5, 1, 8));
  assert_shape(p, tsr_rotate(p, x, turns, -1.0f), TSR_SHAPE(2, 5, 3, 8));
  char text[300];
  assert_non_null(strstr(tsr_program_print_line(p, 0, text, sizeof text), " alpha -1"));
  assert_int_equal(tsr_rotate(p, tsr_slice(p, x, 3, 0, 7), tsr_slice(p, turns, 2, 0, 7), 1.0f), TSR_INVALID);
  assert_error(p, TSR_ERR_SHAPE, "rotate: the last extent of x is even, not 7");
}

/* What a backend of an older minor is not asked about: by the operands, types and attributes that a line has. */
static void test_since(void **state)
{
  tsr_program *p = *state;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(2, 4)), half = tsr_input(p, "half", TSR_F16, TSR_SHAPE(2, 4));
  tsr_ref gain = tsr_input(p, "gain", TSR_F32, TSR_SHAPE(4)), seed = tsr_input(p, "seed", TSR_I32, TSR_SHAPE(2));
  tsr_ref bytes = tsr_input(p, "bytes", TSR_I8, TSR_SHAPE(4, 4)), ids = tsr_input(p, "ids", TSR_I32, TSR_SHAPE(3));
  tsr_ref q = tsr_input(p, "q", TSR_F32, TSR_SHAPE(1, 2, 1, 4));
  tsr_ref k = tsr_input(p, "k", TSR_BF16, TSR_SHAPE(1, 2, 1, 4));
  tsr_ref whole = tsr_input(p, "whole", TSR_I8, TSR_SHAPE(4, 16));
  tsr_ref halves = tsr_input(p, "halves", TSR_F16, TSR_SHAPE(4, 1));
  uint32_t expected[21];
  int32_t n = 0;
  tsr_matmul(p, x, tsr_transpose(p, half, 0, 1), TSR_NONE, 1.0f, TSR_ACTIVATION_NONE), expected[n++] = 0;
  tsr_matmul_reduced_precision(p, x, tsr_transpose(p, half, 0, 1), TSR_NONE, 1.0f, 0),
      expected[n++] = 0; /* a permission */
  tsr_matmul_i8(p, x, bytes, gain, TSR_NONE, 1.0f, TSR_ACTIVATION_NONE), expected[n++] = 1;
  tsr_embedding(p, half, ids, 1.0f), expected[n++] = 0;
  tsr_embedding_i4(p, whole, halves, ids, 1.0f), expected[n++] = 7;
  tsr_dropout(p, x, seed, 0.5f, 1), expected[n++] = 2;
  tsr_layernorm(p, x, gain, gain, 1.0f), expected[n++] = 0;
  tsr_layernorm_std(p, x, gain, gain, 1.0f), expected[n++] = 3;
  tsr_update(p, tsr_state(p, "s", TSR_F32, TSR_SHAPE(2, 4)), x), expected[n++] = 0;
  tsr_update(p, tsr_state(p, "s16", TSR_F16, TSR_SHAPE(2, 4)), x), expected[n++] = 4;
  tsr_append(p, tsr_state(p, "a", TSR_F32, TSR_SHAPE(1, 4, 4)), tsr_reshape(p, x, TSR_SHAPE(1, 2, 4)), TSR_NONE);
  expected[n++] = 0;
  tsr_append(p, tsr_state(p, "a16", TSR_BF16, TSR_SHAPE(1, 4, 4)), tsr_reshape(p, x, TSR_SHAPE(1, 2, 4)), TSR_NONE);
  expected[n++] = 4;
  tsr_attention(p, &(tsr_attention_args){.q = q, .k = q, .v = q, .alpha = 1.0f}), expected[n++] = 0;
  tsr_attention(p, &(tsr_attention_args){.q = q, .k = k, .v = k, .alpha = 1.0f}), expected[n++] = 4;
  tsr_attention_args args = {.q = q, .k = q, .v = q, .alpha = 1.0f, .reduced_precision = 1};
  tsr_attention(p, &args), expected[n++] = 0;
  args.reduced_precision = TSR_BF16; /* an older backend would take it for f16 */
  tsr_attention(p, &args), expected[n++] = 6;
  tsr_attention(p, &(tsr_attention_args){.q = q, .k = q, .v = q, .alpha = 1.0f, .softcap = 5.0f}), expected[n++] = 9;
  tsr_ref two = tsr_reshape(p, q, TSR_SHAPE(1, 2, 2, 2)), one = tsr_slice(p, two, 2, 0, 1);
  tsr_attention(p, &(tsr_attention_args){.q = two, .k = one, .v = one, .alpha = 1.0f}), expected[n++] = 9;
  tsr_conv1d(p, tsr_reshape(p, x, TSR_SHAPE(1, 2, 4)), tsr_reshape(p, q, TSR_SHAPE(1, 2, 4)), TSR_NONE, 1, 0);
  expected[n++] = 8;
  tsr_rotate(p, x, gain, 1.0f), expected[n++] = 9;
  assert_int_equal(tsr_program_status(p), TSR_OK);
  assert_int_equal(tsr_program_line_count(p), n);
  for (int32_t i = 0; i < n; i++) {
    assert_int_equal(tsr_line_since(tsr_program_describe(p), i), expected[i]);
  }
}

/* One number of the attributes, by the name that each operator has for it. */
static void test_shared_attribute(void **state)
{
  tsr_program *p = *state;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(3, 4)), ids = tsr_input(p, "ids", TSR_I32, TSR_SHAPE(3));
  tsr_ref scores = tsr_input(p, "scores", TSR_F32, TSR_SHAPE(1, 1, 3, 4));
  tsr_topk(p, x, 2, NULL);
  tsr_relative_gradient(p, scores, &(tsr_masking){.bidirectional = 1, .max_distance = 16}, 8);
  tsr_scatter_add(p, x, ids, 0, 5, 1.0f);
  tsr_embedding_padded(p, x, ids, 1.0f, 2);
  assert_int_equal(tsr_program_status(p), TSR_OK);
  const tsr_program_desc *desc = tsr_program_describe(p);
  assert_int_equal(tsr_line_at(desc, 0)->attributes.k, 2);
  assert_int_equal(tsr_line_at(desc, 1)->attributes.buckets, 8);
  assert_int_equal(tsr_line_at(desc, 2)->attributes.extent, 5);
  assert_int_equal(tsr_line_at(desc, 3)->attributes.padding, 3);
  for (int32_t i = 0; i < 4; i++) { /* a backend that was built when all were called k reads the same */
    static const int32_t expected[] = {2, 8, 5, 3};
    assert_int_equal(tsr_line_at(desc, i)->attributes.k, expected[i]);
  }
}

static void test_huge(void **state)
{
  tsr_program *p = *state;
  tsr_input(p, "x", TSR_F32, TSR_SHAPE(INT64_MAX / 8, 3));
  assert_error(p, TSR_ERR_SHAPE, "too large");
}

/* No two temporaries that are alive at one line share a byte, and none lies in two pieces, on random programs. */
static void test_plan(void **state)
{
  static const int64_t pieces[] = {0, 192, 256, 1024};
  (void)state;
  srand(7);
  for (int round = 0; round < 60; round++) {
    const int64_t piece = pieces[round % 4];
    tsr_program *p;
    assert_int_equal(tsr_program_create(&p), TSR_OK);
    tsr_ref made[64];
    int n = 1;
    made[0] = tsr_input(p, "x", TSR_F32, TSR_SHAPE(1, 1));
    while (n < 64) {
      tsr_ref a = made[rand() % n], b = made[n > 6 ? n - 1 - rand() % 6 : rand() % n];
      int64_t rows = 1 + rand() % 40;
      tsr_ref sum = tsr_add(p, tsr_slice(p, a, 0, 0, 1), tsr_slice(p, b, 0, 0, 1));
      made[n++] =
          tsr_gather(p, sum,
                     tsr_expand(p,
                                tsr_slice(p,
                                          tsr_program_find(p, "i") > 0 ? tsr_program_find(p, "i")
                                                                       : tsr_input(p, "i", TSR_I32, TSR_SHAPE(1)),
                                          0, 0, 1),
                                TSR_SHAPE(rows)),
                     0);
    }
    assert_int_equal(tsr_program_status(p), TSR_OK);
    const tsr_program_desc *desc = tsr_program_describe(p);
    tsr_memory_plan plan;
    const tsr_plan_options options = {.alignment = 64, .piece = piece};
    assert_int_equal(tsr_memory_plan_make(desc, &options, &plan), TSR_OK);
    assert_true(plan.size < plan.unplanned / 2);
    int32_t first[512], last[512];
    for (int32_t s = 0; s < desc->n_storages; s++) {
      first[s] = INT32_MAX;
      last[s] = -1;
    }
    for (int32_t i = 0; i < desc->n_lines; i++) {
      const tsr_line_desc *line = tsr_line_at(desc, i);
      const int32_t used[3] = {line->in[0], line->in[1], line->out[0]};
      for (int j = 0; j < 3; j++) {
        int32_t s = tsr_tensor_at(desc, used[j])->storage;
        first[s] = first[s] < i ? first[s] : i;
        last[s] = i;
      }
    }
    for (int32_t a = 1; a < desc->n_storages; a++) {
      if (tsr_storage_at(desc, a)->kind != TSR_STORAGE_TEMPORARY) {
        continue;
      }
      assert_int_equal(plan.offset[a] % 64, 0);
      assert_true(plan.offset[a] + tsr_storage_at(desc, a)->size <= plan.size);
      assert_true(piece == 0 || plan.offset[a] % piece + tsr_storage_at(desc, a)->size <= piece);
      for (int32_t b = a + 1; b < desc->n_storages; b++) {
        if (tsr_storage_at(desc, b)->kind != TSR_STORAGE_TEMPORARY || first[a] > last[b] || first[b] > last[a]) {
          continue;
        }
        int apart = plan.offset[a] + tsr_storage_at(desc, a)->size <= plan.offset[b] ||
                    plan.offset[b] + tsr_storage_at(desc, b)->size <= plan.offset[a];
        assert_true(apart);
      }
    }
    tsr_memory_plan_finish(&plan);
    assert_int_equal(tsr_memory_plan_make(desc, &(tsr_plan_options){.alignment = 64, .keep_all = 1}, &plan), TSR_OK);
    assert_int_equal(plan.size, plan.unplanned);
    tsr_memory_plan_finish(&plan);
    assert_int_equal(tsr_memory_plan_make(desc, &(tsr_plan_options){.alignment = 64, .piece = 64}, &plan),
                     TSR_ERR_DEVICE_MEMORY);
    tsr_program_destroy(p);
  }
}

static void test_listing(void **state)
{
  tsr_program *p = *state;
  tsr_ref x = tsr_input(p, "x", TSR_F32, TSR_SHAPE(2, 3));
  tsr_topk(p, tsr_transpose(p, x, 0, 1), 2, NULL);
  char text[256], tiny[8];
  assert_string_equal(tsr_program_print_line(p, 0, text, sizeof text),
                      "   0  %2 f32 [3, 2], %3 i32 [3, 2] = topk(x[3, 2] by [1, 3]) k 2");
  assert_string_equal(tsr_program_print_line(p, 0, tiny, sizeof tiny), "   0  %");
  assert_string_equal(tsr_program_print_line(p, 5, text, sizeof text), "");
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, new_program, old_program)

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(test_views),
      cmocka_unit_test(test_view_errors),
      cmocka_unit_test(test_clamped),
      TEST(test_matmul_folds),
      TEST(test_weights_of_i8),
      TEST(test_weights_of_four_bits),
      TEST(test_reduced_precision),
      TEST(test_states),
      TEST(test_outputs),
      TEST(test_many_names),
      TEST(test_scopes),
      cmocka_unit_test(test_slots),
      TEST(test_attention),
      TEST(test_rotate),
      cmocka_unit_test(test_attention_errors),
      TEST(test_conv1d),
      TEST(test_conv1d_errors),
      TEST(test_since),
      TEST(test_shared_attribute),
      TEST(test_huge),
      cmocka_unit_test(test_plan),
      TEST(test_listing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

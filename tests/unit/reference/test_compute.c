/* SPDX-License-Identifier: Apache-2.0
 *
 * backends/reference: products, softmax, norms, elementwise operators, sums, topk, against values worked out by hand.
 */
#include "tests/unit/reference/reference_fixture.h"

static fixture f;

static const float nan_value = NAN, inf = INFINITY;

/* One line of up to three operands and one f32 result. */
static int32_t line_of(int32_t op, int32_t a, int32_t b, int32_t c, int32_t rank, const int64_t *extent)
{
  const int32_t y = fixture_result(&f, TSR_F32, rank, extent);
  tsr_line_desc *line = fixture_line(&f, op);
  line->in[0] = a, line->in[1] = b, line->in[2] = c, line->out[0] = y;
  return y;
}

static tsr_op_attributes *attributes_of_last_line(void)
{
  return &f.lines[f.n_lines - 1].attributes;
}

static void test_matmul(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t a = fixture_f32(&f, EXTENTS(2, 3), VALUES(1, 2, 3, 4, 5, 6));
  const int32_t b = fixture_f32(&f, EXTENTS(3, 2), VALUES(1, 0, -1, 2, 0.5f, -1));
  const int32_t y = line_of(TSR_OP_MATMUL, a, b, 0, EXTENTS(2, 2));

  /* The same product with b stored transposed, alpha, a bias that repeats along rows, and relu. */
  const int32_t stored = fixture_f32(&f, EXTENTS(2, 3), VALUES(1, -1, 0.5f, 0, 2, -1));
  const int32_t transposed = fixture_view(&f, stored, EXTENTS(3, 2), STRIDES(1, 3), 0);
  const int32_t row = fixture_f32(&f, EXTENTS(2), VALUES(-2, 10));
  const int32_t bias = fixture_view(&f, row, EXTENTS(2, 2), STRIDES(0, 1), 0);
  const int32_t relu = line_of(TSR_OP_MATMUL, a, transposed, bias, EXTENTS(2, 2));
  attributes_of_last_line()->alpha = 2;
  attributes_of_last_line()->activation = TSR_ACTIVATION_RELU;

  /* Two matrices of a against one of b, which repeats; a is a part of a longer one. */
  const int32_t longer = fixture_f32(&f, EXTENTS(2, 2, 2), VALUES(9, 1, 9, 2, 9, 3, 9, 4));
  const int32_t part = fixture_view(&f, longer, EXTENTS(2, 2, 1), STRIDES(4, 2, 1), 1);
  const int32_t pair = fixture_f32(&f, EXTENTS(1, 2), VALUES(1, -1));
  const int32_t repeated = fixture_view(&f, pair, EXTENTS(2, 1, 2), STRIDES(0, 0, 1), 0);
  const int32_t batch = line_of(TSR_OP_MATMUL, part, repeated, 0, EXTENTS(2, 2, 2));
  fixture_run(&f);
  fixture_expect(&f, y, 0, VALUES(0.5f, 1, 2, 4));
  fixture_expect(&f, relu, 0, VALUES(0, 12, 2, 18));
  fixture_expect(&f, batch, 0, VALUES(1, -1, 2, -2, 3, -3, 4, -4));
}

/* K = 0 gives activation(bias); no rows give nothing; NaN and infinities reach exactly their rows and columns. */
static void test_matmul_limits(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t a = fixture_f32(&f, EXTENTS(2, 0), 0, NULL), b = fixture_f32(&f, EXTENTS(0, 3), 0, NULL);
  const int32_t bias = fixture_f32(&f, EXTENTS(2, 3), VALUES(-1, 2, -3, 4, -5, 6));
  const int32_t empty_sum = line_of(TSR_OP_MATMUL, a, b, 0, EXTENTS(2, 3));
  const int32_t of_bias = line_of(TSR_OP_MATMUL, a, b, bias, EXTENTS(2, 3));
  attributes_of_last_line()->activation = TSR_ACTIVATION_RELU;
  const int32_t no_rows = fixture_f32(&f, EXTENTS(0, 3), 0, NULL);
  const int32_t square = fixture_f32(&f, EXTENTS(3, 2), VALUES(1, 2, 3, 4, 5, 6));
  line_of(TSR_OP_MATMUL, no_rows, square, 0, EXTENTS(0, 2));
  const int32_t special = fixture_f32(&f, EXTENTS(3, 2), VALUES(nan_value, 1, inf, 0, 1, 1));
  const int32_t values = fixture_f32(&f, EXTENTS(2, 2), VALUES(1, 0, 1, inf));
  const int32_t y = line_of(TSR_OP_MATMUL, special, values, 0, EXTENTS(3, 2));
  fixture_run(&f);
  fixture_expect(&f, empty_sum, 0, VALUES(0, 0, 0, 0, 0, 0));
  fixture_expect(&f, of_bias, 0, VALUES(0, 2, 0, 4, 0, 6));
  fixture_expect(&f, y, 0, VALUES(nan_value, nan_value, inf, nan_value, 2, inf));
}

/* Sums in double: 2^24 + 1 - 2^24 is 1. More rows than are taken at a time. Half-precision weights. */
static void test_matmul_precision(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t a = fixture_f32(&f, EXTENTS(1, 3), VALUES(16777216, 1, -16777216));
  const int32_t rows = fixture_view(&f, a, EXTENTS(19, 3), STRIDES(0, 1), 0);
  const int32_t ones = fixture_half(&f, TSR_F16, EXTENTS(3, 1), HALVES(0x3c00, 0x3c00, 0x3c00));
  const int32_t upper = fixture_half(&f, TSR_BF16, EXTENTS(3, 1), HALVES(0x3f80, 0x4000, 0x3f80));
  const int32_t y = line_of(TSR_OP_MATMUL, rows, ones, 0, EXTENTS(19, 1));
  const int32_t z = line_of(TSR_OP_MATMUL, rows, upper, 0, EXTENTS(19, 1));
  fixture_run(&f);
  for (int i = 0; i < 19; i++) {
    assert_true(fixture_floats(&f, y)[i] == 1);
    assert_true(fixture_floats(&f, z)[i] == 2);
  }
}

/* Weights of i8: rows of a become integers of -127 .. 127, by halves to even. */
static void test_matmul_i8(void **state)
{
  (void)state;
  fixture_begin(&f);
  /* One unit of a is worth 1: 127, 2 (2.5), 4 (3.5), 0 (-0.5), -2 (-1.5). Columns of b: 127 + 20 + 400 - 250, 4 and
   * -16002. */
  const int32_t a = fixture_f32(&f, EXTENTS(2, 5), VALUES(127, 2.5f, 3.5f, -0.5f, -1.5f, 0, 0, -0.0f, 0, 0));
  const int32_t b = fixture_i8(&f, EXTENTS(5, 3), BYTES(1, 0, -128, 10, 1, 127, 100, 0, 0, 1, 1, 1, 125, -1, 0));
  const int32_t scales = fixture_f32(&f, EXTENTS(3), VALUES(1, 0.5f, -2));
  const int32_t y = line_of(TSR_OP_MATMUL, a, b, 0, EXTENTS(2, 3));
  f.lines[0].in[3] = scales;

  /* One unit is worth 2: -127, 4 (3.5). b transposed and strided: (-127 + 8) and (381 - 16), times 2 * 2 * 0.25. */
  const int32_t twos = fixture_f32(&f, EXTENTS(1, 2), VALUES(-254, 7));
  const int32_t stored = fixture_i8(&f, EXTENTS(2, 4), BYTES(1, 99, 2, 99, -3, 99, -4, 99));
  const int32_t transposed = fixture_view(&f, stored, EXTENTS(2, 2), STRIDES(2, 4), 0);
  const int32_t scale = fixture_view(&f, fixture_f32(&f, EXTENTS(1), VALUES(0.25f)), EXTENTS(2), STRIDES(0), 0);
  const int32_t bias = fixture_f32(&f, EXTENTS(1, 2), VALUES(100, 0.5f));
  const int32_t relu = line_of(TSR_OP_MATMUL, twos, transposed, bias, EXTENTS(1, 2));
  f.lines[1].in[3] = scale;
  attributes_of_last_line()->alpha = 2;
  attributes_of_last_line()->activation = TSR_ACTIVATION_RELU;
  fixture_run(&f);
  fixture_expect(&f, y, 0, VALUES(297, 2, 32004, 0, 0, 0));
  fixture_expect(&f, relu, 0, VALUES(0, 365.5f));
}

/* Weights of four bits: where k lies in the bytes, a scale for each 32, and what is beyond K is not seen. */
static void test_matmul_i4(void **state)
{
  (void)state;
  fixture_begin(&f);
  float rows[3 * 36] = {0};
  rows[0] = 127, rows[4] = 2, rows[35] = -3;                /* of group 0 the first byte, of group 1 its fourth */
  rows[36 + 1] = 127, rows[36 + 5] = 1, rows[36 + 32] = 10; /* one unit is 1 */
  rows[72 + 31] = 254, rows[72 + 27] = 2;                   /* one unit is 2 */
  int8_t bytes[32 * 2] = {0};
  memset(bytes, -120, sizeof bytes); /* w = 0: both halves are 8 */
  bytes[0] = (int8_t)0x9f;           /* k = 0: 15 - 8, k = 4: 9 - 8 */
  bytes[2] = 0x08;                   /* k = 1: 0, k = 5: -8 */
  bytes[30] = (int8_t)0xa1;          /* k = 27: 1 - 8, k = 31: 10 - 8 */
  bytes[32] = 0x7f;                  /* k = 32: 7 */
  bytes[38] = 0x08;                  /* k = 35: 0; k = 39 is beyond */
  bytes[62] = 0;                     /* so is this */
  for (int i = 1; i < 64; i += 2) {  /* the other column has -1 everywhere */
    bytes[i] = 0x77;
  }
  const int32_t a = fixture_f32(&f, EXTENTS(3, 36), 3 * 36, rows);
  const int32_t b = fixture_i8(&f, EXTENTS(32, 2), 32 * 2, bytes);
  const int32_t scales =
      fixture_half(&f, TSR_F16, EXTENTS(2, 2), HALVES(0x3c00, 0x3800, 0x4000, 0x3c00)); /* 1, 1/2; 2, 1 */
  const int32_t y = line_of(TSR_OP_MATMUL, a, b, 0, EXTENTS(3, 2));
  f.lines[0].in[3] = scales;
  fixture_run(&f);
  fixture_expect(&f, y, 0, VALUES(127 * 7 + 2, -64.5f + 3, -8 + 2 * 70, -64 - 10, 2 * (254 - 7), -128));
}

/* NaN and infinities take their rows, small rows are zero, K = 0 is the bias, large rows do not overflow. */
static void test_matmul_i8_limits(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t a = fixture_f32(&f, EXTENTS(7, 2),
                                VALUES(nan_value, 1, 1, -inf, 127, 1, 0x1.fffffep-101f, -0x1p-149f, 0x1p-100f,
                                       0x1p-107f, 1e38f, -1e38f, 1, 0x1p-149f));
  const int32_t b = fixture_i8(&f, EXTENTS(2, 1), BYTES(1, 0));
  const int32_t scale = fixture_f32(&f, EXTENTS(1), VALUES(1)), five = fixture_f32(&f, EXTENTS(1), VALUES(5));
  const int32_t relu =
      line_of(TSR_OP_MATMUL, a, b, fixture_view(&f, five, EXTENTS(7, 1), STRIDES(0, 0), 0), EXTENTS(7, 1));
  attributes_of_last_line()->activation = TSR_ACTIVATION_RELU;
  const int32_t y = line_of(TSR_OP_MATMUL, a, b, 0, EXTENTS(7, 1));
  const int32_t no_a = fixture_f32(&f, EXTENTS(1, 0), 0, NULL), no_b = fixture_i8(&f, EXTENTS(0, 1), 0, NULL);
  const int32_t of_bias =
      line_of(TSR_OP_MATMUL, no_a, no_b, fixture_view(&f, five, EXTENTS(1, 1), STRIDES(0, 0), 0), EXTENTS(1, 1));
  f.lines[0].in[3] = f.lines[1].in[3] = f.lines[2].in[3] = scale;
  fixture_run(&f);
  fixture_expect(&f, relu, 1e-7, VALUES(nan_value, nan_value, 132, 5, 5, 1e38f, 6));
  assert_true(fixture_floats(&f, y)[3] == 0 && fabs(fixture_floats(&f, y)[4] / 0x1p-100 - 1) < 1e-6);
  fixture_expect(&f, of_bias, 0, VALUES(5));
}

static void test_softmax(void **state)
{
  (void)state;
  fixture_begin(&f);
  const float third = 1.0f / 3, log_2 = 0.693147181f;
  const int32_t x = fixture_f32(&f, EXTENTS(2, 3), VALUES(0, log_2, -inf, 1000, 1000, 1000));
  const int32_t y = line_of(TSR_OP_SOFTMAX, x, 0, 0, EXTENTS(2, 3));
  const int32_t special =
      fixture_f32(&f, EXTENTS(5, 2), VALUES(-inf, -inf, inf, 0, nan_value, -inf, nan_value, 5, inf, 5));
  const int32_t mask = fixture_f32(&f, EXTENTS(5, 2), VALUES(inf, nan_value, 0, 0, 0, 0, -inf, 3, -inf, 3));
  const int32_t plain = line_of(TSR_OP_SOFTMAX, special, 0, 0, EXTENTS(5, 2));
  const int32_t masked = line_of(TSR_OP_SOFTMAX, special, mask, 0, EXTENTS(5, 2));
  /* z is an f32: a mask of the lowest number swallows what it is added to, and beyond it excludes. */
  const float lowest = -3.40282347e+38f;
  const int32_t low = fixture_f32(&f, EXTENTS(2, 2), VALUES(1, 2, lowest, 0));
  const int32_t lowering = fixture_f32(&f, EXTENTS(2, 2), VALUES(lowest, lowest, lowest, lowest));
  const int32_t lowered = line_of(TSR_OP_SOFTMAX, low, lowering, 0, EXTENTS(2, 2));
  const int32_t empty = fixture_f32(&f, EXTENTS(2, 0), 0, NULL);
  line_of(TSR_OP_SOFTMAX, empty, 0, 0, EXTENTS(2, 0));
  fixture_run(&f);
  fixture_expect(&f, y, 1e-7, VALUES(third, 2 * third, 0, third, third, third));
  fixture_expect(&f, plain, 0,
                 VALUES(0, 0, nan_value, nan_value, nan_value, nan_value, nan_value, nan_value, nan_value, nan_value));
  fixture_expect(&f, masked, 0, VALUES(0, 0, nan_value, nan_value, nan_value, nan_value, 0, 1, 0, 1));
  fixture_expect(&f, lowered, 0, VALUES(0.5f, 0.5f, 0, 1));
}

static void test_log_softmax(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t x = fixture_f32(&f, EXTENTS(5, 2), VALUES(0, 0, 1e30f, 0, -inf, 3, -inf, -inf, nan_value, -inf));
  const int32_t y = line_of(TSR_OP_LOG_SOFTMAX, x, 0, 0, EXTENTS(5, 2));
  const int32_t infinite = fixture_f32(&f, EXTENTS(2), VALUES(-inf, inf));
  const int32_t z = line_of(TSR_OP_LOG_SOFTMAX, infinite, 0, 0, EXTENTS(2));
  fixture_run(&f);
  fixture_expect(&f, y, 1e-7,
                 VALUES(-0.693147181f, -0.693147181f, 0, -1e30f, -inf, 0, -inf, -inf, nan_value, nan_value));
  fixture_expect(&f, z, 0, VALUES(nan_value, nan_value));
}

static void test_norms(void **state)
{
  (void)state;
  fixture_begin(&f);
  /* mean 2, variance 2/3 */
  const int32_t x = fixture_f32(&f, EXTENTS(2, 3), VALUES(1, 2, 3, 10000001, 10000002, 10000003));
  const int32_t gain = fixture_f32(&f, EXTENTS(3), VALUES(1, 2, 3)),
                bias = fixture_f32(&f, EXTENTS(3), VALUES(0, 5, 1));
  const int32_t with_bias = line_of(TSR_OP_LAYERNORM, x, gain, bias, EXTENTS(2, 3));
  attributes_of_last_line()->epsilon = 1.0f / 3;
  const int32_t without = line_of(TSR_OP_LAYERNORM, x, gain, 0, EXTENTS(2, 3));
  attributes_of_last_line()->epsilon = 1.0f / 3;
  /* by the unbiased deviation 1 + epsilon 1; of one element it is 0 */
  const int32_t unbiased = line_of(TSR_OP_LAYERNORM, x, gain, bias, EXTENTS(2, 3));
  attributes_of_last_line()->epsilon = 1;
  attributes_of_last_line()->unbiased = 1;
  const int32_t single = fixture_f32(&f, EXTENTS(1, 1), VALUES(7)), one = fixture_f32(&f, EXTENTS(1), VALUES(2));
  const int32_t alone = line_of(TSR_OP_LAYERNORM, single, one, one, EXTENTS(1, 1));
  attributes_of_last_line()->epsilon = 1;
  attributes_of_last_line()->unbiased = 1;
  /* mean square 4, epsilon 5: divided by 3 */
  const int32_t squares = fixture_f32(&f, EXTENTS(4, 2), VALUES(2, -2, 0, 0, 3e38f, 3e38f, nan_value, 1));
  const int32_t gains = fixture_f32(&f, EXTENTS(2), VALUES(3, 6));
  const int32_t rms = line_of(TSR_OP_RMSNORM, squares, gains, 0, EXTENTS(4, 2));
  attributes_of_last_line()->epsilon = 5;
  fixture_run(&f);
  fixture_expect(&f, with_bias, 1e-6, VALUES(-1, 5, 4, -1, 5, 4));
  fixture_expect(&f, without, 1e-6, VALUES(-1, 0, 3, -1, 0, 3));
  fixture_expect(&f, unbiased, 1e-6, VALUES(-0.5f, 5, 2.5f, -0.5f, 5, 2.5f));
  fixture_expect(&f, alone, 1e-6, VALUES(2));
  fixture_expect(&f, rms, 1e-6, VALUES(2, -4, 0, 0, 3, 6, nan_value, nan_value));
}

static void test_activations(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t x = fixture_f32(&f, EXTENTS(7), VALUES(-inf, -20, -1, 0, 1, inf, nan_value));
  const int32_t relu = line_of(TSR_OP_RELU, x, 0, 0, EXTENTS(7));
  const int32_t silu = line_of(TSR_OP_SILU, x, 0, 0, EXTENTS(7));
  const int32_t of_erf = line_of(TSR_OP_GELU, x, 0, 0, EXTENTS(7));
  attributes_of_last_line()->activation = TSR_ACTIVATION_GELU_ERF;
  const int32_t of_tanh = line_of(TSR_OP_GELU, x, 0, 0, EXTENTS(7));
  attributes_of_last_line()->activation = TSR_ACTIVATION_GELU_TANH;
  const int32_t scalar = fixture_f32(&f, SCALAR, VALUES(-3));
  const int32_t of_scalar = line_of(TSR_OP_RELU, scalar, 0, 0, SCALAR);
  fixture_run(&f);
  fixture_expect(&f, relu, 0, VALUES(0, 0, 0, 0, 1, inf, nan_value));
  fixture_expect(&f, silu, 1e-7, VALUES(0, -4.12230715e-8f, -0.268941421f, 0, 0.731058579f, inf, nan_value));
  fixture_expect(&f, of_erf, 1e-7, VALUES(0, 0, -0.158655254f, 0, 0.841344746f, inf, nan_value));
  fixture_expect(&f, of_tanh, 1e-7, VALUES(0, 0, -0.158808010f, 0, 0.841191990f, inf, nan_value));
  fixture_expect(&f, of_scalar, 0, VALUES(0));
}

static void test_add_and_mul(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t a = fixture_f32(&f, EXTENTS(2, 2), VALUES(1, 2, inf, nan_value));
  const int32_t column = fixture_f32(&f, EXTENTS(2, 1), VALUES(10, -inf));
  const int32_t b = fixture_view(&f, column, EXTENTS(2, 2), STRIDES(1, 0), 0);
  const int32_t sum = line_of(TSR_OP_ADD, a, b, 0, EXTENTS(2, 2));
  const int32_t product = line_of(TSR_OP_MUL, a, b, 0, EXTENTS(2, 2));
  const int32_t i = fixture_i32(&f, EXTENTS(3), IDS(INT32_MAX, INT32_MIN, 7));
  const int32_t j = fixture_i32(&f, EXTENTS(3), IDS(1, -1, -3));
  const int32_t sums = fixture_result(&f, TSR_I32, EXTENTS(3)), products = fixture_result(&f, TSR_I32, EXTENTS(3));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_ADD);
  line->in[0] = i, line->in[1] = j, line->out[0] = sums;
  line = fixture_line(&f, TSR_OP_MUL);
  line->in[0] = i, line->in[1] = j, line->out[0] = products;
  fixture_run(&f);
  fixture_expect(&f, sum, 0, VALUES(11, 12, nan_value, nan_value));
  fixture_expect(&f, product, 0, VALUES(10, 20, -inf, nan_value));
  fixture_expect_ids(&f, sums, IDS(INT32_MIN, INT32_MAX, 4));
  fixture_expect_ids(&f, products, IDS(INT32_MAX, INT32_MIN, -21));
}

static void test_reduce_sum(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t x = fixture_f32(&f, EXTENTS(2, 3), VALUES(1, 2, 3, 10, 20, 30));
  const int32_t none = line_of(TSR_OP_REDUCE_SUM, x, 0, 0, EXTENTS(2, 3));
  const int32_t first = line_of(TSR_OP_REDUCE_SUM, x, 0, 0, EXTENTS(1, 3));
  attributes_of_last_line()->axes = 1;
  const int32_t second = line_of(TSR_OP_REDUCE_SUM, x, 0, 0, EXTENTS(2, 1));
  attributes_of_last_line()->axes = 2;
  const int32_t both = line_of(TSR_OP_REDUCE_SUM, x, 0, 0, EXTENTS(1, 1));
  attributes_of_last_line()->axes = 3;
  const int32_t transposed = fixture_view(&f, x, EXTENTS(3, 2, 2), STRIDES(1, 0, 3), 0);
  const int32_t outer = line_of(TSR_OP_REDUCE_SUM, transposed, 0, 0, EXTENTS(1, 2, 1));
  attributes_of_last_line()->axes = 5;
  const int32_t empty = fixture_f32(&f, EXTENTS(2, 0), 0, NULL);
  const int32_t nothing = line_of(TSR_OP_REDUCE_SUM, empty, 0, 0, EXTENTS(2, 1));
  attributes_of_last_line()->axes = 2;
  fixture_run(&f);
  fixture_expect(&f, none, 0, VALUES(1, 2, 3, 10, 20, 30));
  fixture_expect(&f, first, 0, VALUES(11, 22, 33));
  fixture_expect(&f, second, 0, VALUES(6, 60));
  fixture_expect(&f, both, 0, VALUES(66));
  fixture_expect(&f, outer, 0, VALUES(66, 66));
  fixture_expect(&f, nothing, 0, VALUES(0, 0));
}

static int32_t topk(int32_t x, int32_t k, int32_t rank, const int64_t *extent, int32_t *indices)
{
  const int32_t values = line_of(TSR_OP_TOPK, x, 0, 0, rank, extent);
  *indices = fixture_result(&f, TSR_I32, rank, extent);
  f.lines[f.n_lines - 1].out[1] = *indices;
  attributes_of_last_line()->k = k;
  return values;
}

static void test_topk(void **state)
{
  (void)state;
  int32_t indices, all_indices, zero_indices, strided_indices;
  fixture_begin(&f);
  const int32_t x = fixture_f32(&f, EXTENTS(2, 4), VALUES(1, 7, 7, 3, -inf, nan_value, inf, nan_value));
  const int32_t values = topk(x, 3, EXTENTS(2, 3), &indices);
  const int32_t all = topk(x, 4, EXTENTS(2, 4), &all_indices);
  const int32_t zeros = fixture_f32(&f, EXTENTS(4), VALUES(-0.0f, 0, -0.0f, -1));
  const int32_t of_zeros = topk(zeros, 4, EXTENTS(4), &zero_indices);
  const int32_t columns = fixture_view(&f, x, EXTENTS(2, 2), STRIDES(1, 4), 2);
  const int32_t of_columns = topk(columns, 1, EXTENTS(2, 1), &strided_indices);
  fixture_run(&f);
  fixture_expect(&f, values, 0, VALUES(7, 7, 3, nan_value, nan_value, inf));
  fixture_expect_ids(&f, indices, IDS(1, 2, 3, 1, 3, 2));
  fixture_expect(&f, all, 0, VALUES(7, 7, 3, 1, nan_value, nan_value, inf, -inf));
  fixture_expect_ids(&f, all_indices, IDS(1, 2, 3, 0, 1, 3, 2, 0));
  fixture_expect(&f, of_zeros, 0, VALUES(0, 0, 0, -1));
  fixture_expect_ids(&f, zero_indices, IDS(0, 1, 2, 3));
  fixture_expect(&f, of_columns, 0, VALUES(inf, nan_value));
  fixture_expect_ids(&f, strided_indices, IDS(1, 1));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_matmul),      cmocka_unit_test(test_matmul_limits), cmocka_unit_test(test_matmul_precision),
      cmocka_unit_test(test_matmul_i8),   cmocka_unit_test(test_matmul_i4),     cmocka_unit_test(test_matmul_i8_limits),
      cmocka_unit_test(test_softmax),     cmocka_unit_test(test_log_softmax),   cmocka_unit_test(test_norms),
      cmocka_unit_test(test_activations), cmocka_unit_test(test_add_and_mul),   cmocka_unit_test(test_reduce_sum),
      cmocka_unit_test(test_topk),
  };
  return cmocka_run_group_tests_name("reference_compute", tests, NULL, NULL);
}

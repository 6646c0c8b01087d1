/* SPDX-License-Identifier: Apache-2.0
 *
 * backends/reference: operators that move elements, and the rounding of narrow types.
 */
#include "tests/unit/reference/reference_fixture.h"

static fixture f;

static void line_of(int32_t op, int32_t a, int32_t b, int32_t y)
{
  tsr_line_desc *line = fixture_line(&f, op);
  line->in[0] = a, line->in[1] = b, line->out[0] = y;
}

static void test_embedding(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t table = fixture_f32(&f, EXTENTS(3, 2), VALUES(1, 2, 3, 4, NAN, 6));
  const int32_t half = fixture_half(&f, TSR_F16, EXTENTS(2, 2), HALVES(0x3c00, 0x0001, 0xfbff, 0x7c00));
  const int32_t upper = fixture_half(&f, TSR_BF16, EXTENTS(1, 2), HALVES(0xc040, 0x0001));
  const int32_t ids = fixture_i32(&f, EXTENTS(2, 3), IDS(1, 0, 3, -1, 2, INT32_MIN));
  const int32_t one = fixture_i32(&f, SCALAR, IDS(1)), pair = fixture_i32(&f, EXTENTS(2), IDS(0, 1));
  const int32_t y = fixture_result(&f, TSR_F32, EXTENTS(2, 3, 2)), row = fixture_result(&f, TSR_F32, EXTENTS(2));
  const int32_t halves = fixture_result(&f, TSR_F32, EXTENTS(2, 2)),
                uppers = fixture_result(&f, TSR_F32, EXTENTS(2, 2));
  line_of(TSR_OP_EMBEDDING, table, ids, y);
  f.lines[0].attributes.alpha = -2;
  line_of(TSR_OP_EMBEDDING, table, one, row);
  line_of(TSR_OP_EMBEDDING, half, pair, halves);
  line_of(TSR_OP_EMBEDDING, upper, pair, uppers);
  const int32_t bytes = fixture_i8(&f, EXTENTS(2, 2), BYTES(-128, 127, 1, -1));
  const int32_t scales = fixture_f32(&f, EXTENTS(2), VALUES(0.5f, 4));
  const int32_t scaled = fixture_result(&f, TSR_F32, EXTENTS(2, 3, 2));
  line_of(TSR_OP_EMBEDDING, bytes, ids, scaled);
  f.lines[4].in[2] = scales;
  f.lines[4].attributes.alpha = 2;
  fixture_run(&f);
  fixture_expect(&f, scaled, 0, VALUES(8, -8, -128, 127, 0, 0, 0, 0, 0, 0, 0, 0));
  fixture_expect(&f, y, 0, VALUES(-6, -8, -2, -4, 0, 0, 0, 0, NAN, -12, 0, 0));
  fixture_expect(&f, row, 0, VALUES(3, 4));
  fixture_expect(&f, halves, 0, VALUES(1, 0x1p-24f, -65504, INFINITY));
  fixture_expect(&f, uppers, 0, VALUES(-3, 0x1p-133f, 0, 0));
  assert_true(fixture_floats(&f, halves)[1] == 0x1p-24f && fixture_floats(&f, uppers)[1] == 0x1p-133f);
}

/* Every f16 and bf16 widens to its value, and narrows back to itself. */
static void test_widening(void **state)
{
  (void)state;
  static uint16_t bits[1 << 14];
  const int32_t types[] = {TSR_F16, TSR_BF16};
  for (int part = 0; part < 8; part++) {
    const int32_t type = types[part % 2], n = 1 << 14;
    for (int i = 0; i < n; i++) {
      bits[i] = (uint16_t)(part / 2 * n + i);
    }
    fixture_begin(&f);
    const int32_t x = fixture_half(&f, type, EXTENTS(n), n, bits), y = fixture_result(&f, TSR_F32, EXTENTS(n));
    const int32_t back = fixture_result(&f, type, EXTENTS(n));
    line_of(TSR_OP_COPY, x, 0, y);
    line_of(TSR_OP_COPY, y, 0, back);
    fixture_run(&f);
    for (int i = 0; i < n; i++) {
      const int exponent_bits = type == TSR_F16 ? 5 : 8, fraction_bits = 15 - exponent_bits;
      const int exponent = bits[i] >> fraction_bits & ((1 << exponent_bits) - 1);
      const int fraction = bits[i] & ((1 << fraction_bits) - 1), bias = (1 << (exponent_bits - 1)) - 1;
      const float found = fixture_floats(&f, y)[i];
      if (exponent == (1 << exponent_bits) - 1) {
        assert_true(fraction ? isnan(found) : isinf(found) && (found < 0) == bits[i] >> 15);
        assert_true(fraction ? (fixture_halves(&f, back)[i] & 0x7fff) > exponent << fraction_bits
                             : fixture_halves(&f, back)[i] == bits[i]);
        continue;
      }
      const double size = exponent == 0 ? ldexp(fraction, 1 - bias - fraction_bits)
                                        : ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
      assert_true(found == (bits[i] >> 15 ? -size : size) && !signbit(found) == !(bits[i] >> 15));
      assert_int_equal(fixture_halves(&f, back)[i], bits[i]);
    }
  }
}

/* To nearest, ties to even; subnormals; overflow. */
static void test_narrowing(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t x =
      fixture_f32(&f, EXTENTS(20),
                  VALUES(1, 1 + 0x1p-11f, 1 + 0x1p-11f + 0x1p-20f, 1 + 0x3p-11f, 65504, 65519.996f, 65520, -1e6f,
                         0x1p-14f, 0x1p-14f - 0x1p-26f, 0x1p-24f, 0x1p-25f, 0x1.8p-24f, 0x1.000002p-25f, -0x1p-26f,
                         -0.0f, INFINITY, 0x1p-149f, 2048 + 1.0f, -0x1.ffcp-15f));
  const int32_t half = fixture_result(&f, TSR_F16, EXTENTS(20));
  line_of(TSR_OP_COPY, x, 0, half);
  const int32_t wide = fixture_f32(
      &f, EXTENTS(8),
      VALUES(1, 1 + 0x1p-8f, 1 + 0x3p-8f, 1 + 0x1p-8f + 0x1p-20f, 3.40282347e+38f, -INFINITY, 0x1p-149f, -0x1.8p-133f));
  const int32_t upper = fixture_result(&f, TSR_BF16, EXTENTS(8));
  line_of(TSR_OP_COPY, wide, 0, upper);
  /* 1 + 2^-10 from f16 to bf16, and a bf16 beyond f16. */
  const int32_t from_half = fixture_half(&f, TSR_F16, EXTENTS(2), HALVES(0x3c01, 0x3c04));
  const int32_t to_upper = fixture_result(&f, TSR_BF16, EXTENTS(2));
  line_of(TSR_OP_COPY, from_half, 0, to_upper);
  const int32_t from_upper = fixture_half(&f, TSR_BF16, EXTENTS(2), HALVES(0x4780, 0x3f81));
  const int32_t to_half = fixture_result(&f, TSR_F16, EXTENTS(2));
  line_of(TSR_OP_COPY, from_upper, 0, to_half);
  fixture_run(&f);
  fixture_expect_halves(&f, half,
                        HALVES(0x3c00, 0x3c00, 0x3c01, 0x3c02, 0x7bff, 0x7bff, 0x7c00, 0xfc00, 0x0400, 0x0400, 0x0001,
                               0x0000, 0x0002, 0x0001, 0x8000, 0x8000, 0x7c00, 0x0000, 0x6800, 0x8400));
  fixture_expect_halves(&f, upper, HALVES(0x3f80, 0x3f80, 0x3f82, 0x3f81, 0x7f80, 0xff80, 0x0000, 0x8002));
  fixture_expect_halves(&f, to_upper, HALVES(0x3f80, 0x3f80));
  fixture_expect_halves(&f, to_half, HALVES(0x7c00, 0x3c08));
}

static void test_copy_of_views(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t ids = fixture_i32(&f, EXTENTS(2, 3), IDS(1, 2, 3, 4, 5, INT32_MIN));
  const int32_t transposed = fixture_view(&f, ids, EXTENTS(3, 2), STRIDES(1, 3), 0);
  const int32_t y = fixture_result(&f, TSR_I32, EXTENTS(3, 2));
  line_of(TSR_OP_COPY, transposed, 0, y);
  const int32_t row = fixture_view(&f, ids, EXTENTS(2, 1, 2, 2), STRIDES(0, 0, 0, 1), 4);
  const int32_t repeated = fixture_result(&f, TSR_I32, EXTENTS(2, 1, 2, 2));
  line_of(TSR_OP_COPY, row, 0, repeated);
  /* The bits of a NaN stay where no conversion is asked. */
  const int32_t half = fixture_half(&f, TSR_F16, EXTENTS(1), HALVES(0x7d23)),
                same = fixture_result(&f, TSR_F16, EXTENTS(1));
  line_of(TSR_OP_COPY, half, 0, same);
  const int32_t bytes = fixture_result(&f, TSR_I8, EXTENTS(5)), bytes_too = fixture_result(&f, TSR_I8, EXTENTS(3));
  line_of(TSR_OP_COPY, fixture_view(&f, bytes, EXTENTS(3), STRIDES(2), 0), 0, bytes_too);
  memcpy(f.bytes + f.storages[f.tensors[bytes].storage].offset, "abcde", 5);
  fixture_run(&f);
  fixture_expect_ids(&f, y, IDS(1, 4, 2, 5, 3, INT32_MIN));
  fixture_expect_ids(&f, repeated, IDS(5, INT32_MIN, 5, INT32_MIN, 5, INT32_MIN, 5, INT32_MIN));
  fixture_expect_halves(&f, same, HALVES(0x7d23));
  assert_memory_equal(fixture_ids(&f, bytes_too), "ace", 3);
}

static void test_append(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t cache = fixture_f32(&f, EXTENTS(2, 3, 1), VALUES(1, 2, 3, 4, 5, 6));
  const int32_t x = fixture_f32(&f, EXTENTS(2, 2, 1), VALUES(10, 20, 30, 40));
  const int32_t position = fixture_i32(&f, EXTENTS(2), IDS(1, 2));
  line_of(TSR_OP_APPEND, x, position, cache);
  /* A view of a state: the even columns, its rows in the state's order; one position for all. */
  const int32_t wide = fixture_i32(&f, EXTENTS(2, 2, 3), IDS(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  const int32_t even = fixture_view(&f, wide, EXTENTS(2, 2, 2), STRIDES(6, 3, 2), 0);
  const int32_t ids = fixture_i32(&f, EXTENTS(2, 1, 2), IDS(1, 2, 3, 4)), one = fixture_i32(&f, EXTENTS(1), IDS(1));
  line_of(TSR_OP_APPEND, ids, one, even);
  /* No position; more rows than there is room for. Far outside on both sides. */
  const int32_t small = fixture_f32(&f, EXTENTS(1, 2), VALUES(7, 8));
  const int32_t long_x = fixture_f32(&f, EXTENTS(1, 3), VALUES(-1, -2, -3));
  line_of(TSR_OP_APPEND, long_x, 0, small);
  const int32_t kept = fixture_f32(&f, EXTENTS(1, 2), VALUES(7, 8));
  line_of(TSR_OP_APPEND, long_x, fixture_i32(&f, EXTENTS(1), IDS(INT32_MAX)), kept);
  line_of(TSR_OP_APPEND, long_x, fixture_i32(&f, EXTENTS(1), IDS(-2)), kept);
  fixture_run(&f);
  fixture_expect(&f, cache, 0, VALUES(1, 10, 20, 4, 5, 30));
  fixture_expect_ids(&f, wide, IDS(0, 0, 0, 1, 0, 2, 0, 0, 0, 3, 0, 4));
  fixture_expect(&f, small, 0, VALUES(-1, -2));
  fixture_expect(&f, kept, 0, VALUES(-3, 8));
}

static void test_update(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t row = fixture_f32(&f, EXTENTS(2), VALUES(1, NAN));
  const int32_t repeated = fixture_view(&f, row, EXTENTS(2, 2), STRIDES(0, 1), 0);
  const int32_t s = fixture_result(&f, TSR_F32, EXTENTS(2, 2));
  line_of(TSR_OP_UPDATE, repeated, 0, s);
  const int32_t ids = fixture_i32(&f, EXTENTS(2, 2), IDS(1, 2, 3, 4)), nine = fixture_i32(&f, SCALAR, IDS(9));
  const int32_t column = fixture_view(&f, ids, EXTENTS(2), STRIDES(2), 1);
  line_of(TSR_OP_UPDATE, fixture_view(&f, nine, EXTENTS(2), STRIDES(0), 0), 0, column);
  fixture_run(&f);
  fixture_expect(&f, s, 0, VALUES(1, NAN, 1, NAN));
  fixture_expect_ids(&f, ids, IDS(1, 9, 3, 9));
}

static void test_gather(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t x = fixture_f32(&f, EXTENTS(2, 3), VALUES(1, 2, 3, 4, 5, NAN));
  const int32_t index = fixture_i32(&f, EXTENTS(4), IDS(2, 0, 3, -1)), flip = fixture_i32(&f, EXTENTS(2), IDS(1, 0));
  const int32_t columns = fixture_result(&f, TSR_F32, EXTENTS(2, 4)), rows = fixture_result(&f, TSR_F32, EXTENTS(2, 3));
  line_of(TSR_OP_GATHER, x, index, columns);
  f.lines[0].attributes.axis = -1;
  line_of(TSR_OP_GATHER, x, flip, rows);
  const int32_t half = fixture_half(&f, TSR_F16, EXTENTS(1, 2, 2), HALVES(1, 2, 3, 0x7d23));
  const int32_t swapped = fixture_result(&f, TSR_F16, EXTENTS(1, 2, 2));
  line_of(TSR_OP_GATHER, half, flip, swapped);
  f.lines[2].attributes.axis = 1;
  const int32_t ids = fixture_i32(&f, EXTENTS(3), IDS(7, 8, 9)), chosen = fixture_result(&f, TSR_I32, EXTENTS(2));
  line_of(TSR_OP_GATHER, ids, flip, chosen);
  const int32_t nothing = fixture_f32(&f, EXTENTS(0, 3), 0, NULL), zeros = fixture_result(&f, TSR_F32, EXTENTS(2, 3));
  line_of(TSR_OP_GATHER, nothing, flip, zeros);
  fixture_run(&f);
  fixture_expect(&f, columns, 0, VALUES(3, 1, 0, 0, NAN, 4, 0, 0));
  fixture_expect(&f, rows, 0, VALUES(4, 5, NAN, 1, 2, 3));
  fixture_expect_halves(&f, swapped, HALVES(3, 0x7d23, 1, 2));
  fixture_expect_ids(&f, chosen, IDS(8, 7));
  fixture_expect(&f, zeros, 0, VALUES(0, 0, 0, 0, 0, 0));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_embedding),     cmocka_unit_test(test_widening), cmocka_unit_test(test_narrowing),
      cmocka_unit_test(test_copy_of_views), cmocka_unit_test(test_append),   cmocka_unit_test(test_update),
      cmocka_unit_test(test_gather),
  };
  return cmocka_run_group_tests_name("reference_data", tests, NULL, NULL);
}

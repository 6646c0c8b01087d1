/* SPDX-License-Identifier: Apache-2.0
 *
 * backends/reference: mask and attention, and attention against matmul, mask, softmax, matmul.
 */
#include "tests/unit/reference/reference_fixture.h"

static fixture f;

static const float nan_value = NAN, inf = INFINITY;

enum { ADDITIVE = 1, LENGTHS = 2, POSITION = 3, RELATIVE = 4 }; /* slots of mask; attention's are 2 further */

static void test_lengths_and_causal(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t x = fixture_f32(&f, EXTENTS(3, 1, 1, 2), VALUES(nan_value, 1, 2, nan_value, 4, 5));
  const int32_t y = fixture_result(&f, TSR_F32, EXTENTS(3, 1, 1, 2));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_MASK);
  line->in[0] = x, line->in[LENGTHS] = fixture_i32(&f, EXTENTS(3), IDS(-5, 1, 9)), line->out[0] = y;

  const int32_t zeros = fixture_f32(&f, SCALAR, VALUES(0));
  const int32_t scores = fixture_view(&f, zeros, EXTENTS(2, 1, 2, 4), STRIDES(0, 0, 0, 0), 0);
  const int32_t causal = fixture_result(&f, TSR_F32, EXTENTS(2, 1, 2, 4));
  line = fixture_line(&f, TSR_OP_MASK);
  line->in[0] = scores, line->out[0] = causal, line->attributes.causal = 1;
  const int32_t moved = fixture_result(&f, TSR_F32, EXTENTS(2, 1, 2, 4));
  line = fixture_line(&f, TSR_OP_MASK);
  line->in[0] = scores, line->out[0] = moved, line->attributes.causal = 1;
  line->in[POSITION] = fixture_i32(&f, EXTENTS(2), IDS(1, 2));
  const int32_t one = fixture_i32(&f, EXTENTS(1), IDS(3));
  const int32_t same = fixture_result(&f, TSR_F32, EXTENTS(2, 1, 2, 4));
  line = fixture_line(&f, TSR_OP_MASK);
  line->in[0] = scores, line->out[0] = same, line->in[LENGTHS] = one;
  fixture_run(&f);
  fixture_expect(&f, y, 0, VALUES(-inf, -inf, 2, -inf, 4, 5));
  fixture_expect(&f, causal, 0, VALUES(0, -inf, -inf, -inf, 0, 0, -inf, -inf, 0, -inf, -inf, -inf, 0, 0, -inf, -inf));
  fixture_expect(&f, moved, 0, VALUES(0, 0, -inf, -inf, 0, 0, 0, -inf, 0, 0, 0, -inf, 0, 0, 0, 0));
  fixture_expect(&f, same, 0, VALUES(0, 0, 0, -inf, 0, 0, 0, -inf, 0, 0, 0, -inf, 0, 0, 0, -inf));
}

static void test_biases(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t x = fixture_f32(&f, EXTENTS(1, 1, 1, 7), VALUES(1, nan_value, -inf, inf, 1, 1e8f, -inf));
  const int32_t additive =
      fixture_f32(&f, EXTENTS(1, 1, 1, 7), VALUES(0.5f, -inf, nan_value, 0, nan_value, -1e8f, inf));
  const int32_t y = fixture_result(&f, TSR_F32, EXTENTS(1, 1, 1, 7));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_MASK);
  line->in[0] = x, line->in[ADDITIVE] = additive, line->out[0] = y;
  /* Row 0 of the table is for distance 0 and keys to come, row 1 for -1 and further: (score + additive) + relative. */
  const int32_t z = fixture_result(&f, TSR_F32, EXTENTS(1, 1, 1, 7));
  line = fixture_line(&f, TSR_OP_MASK);
  line->in[0] = x, line->in[ADDITIVE] = additive, line->out[0] = z;
  line->in[RELATIVE] = fixture_f32(&f, EXTENTS(2, 1), VALUES(0.25f, 100));
  line->attributes.max_distance = 2;
  line->in[POSITION] = fixture_i32(&f, EXTENTS(1), IDS(4));
  const int32_t excluding = fixture_result(&f, TSR_F32, EXTENTS(1, 1, 1, 7));
  line = fixture_line(&f, TSR_OP_MASK);
  line->in[0] = x, line->out[0] = excluding;
  line->in[RELATIVE] = fixture_f32(&f, EXTENTS(2, 1), VALUES(-inf, 100));
  line->attributes.max_distance = 2;
  line->in[POSITION] = fixture_i32(&f, EXTENTS(1), IDS(1));
  fixture_run(&f);
  fixture_expect(&f, y, 0, VALUES(1.5f, -inf, -inf, inf, nan_value, 0, -inf));
  fixture_expect(&f, z, 0, VALUES(101.5f, -inf, -inf, inf, nan_value, 0.25f, -inf));
  fixture_expect(&f, excluding, 0, VALUES(101, -inf, -inf, -inf, -inf, -inf, -inf));
}

/* Buckets of distances -15 .. 15, 8 of them up to 20 away, as the original (float32) has them. */
static void test_relative_buckets(void **state)
{
  (void)state;
  static const float numbers[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  fixture_begin(&f);
  const int32_t zero = fixture_f32(&f, SCALAR, VALUES(0));
  const int32_t scores = fixture_view(&f, zero, EXTENTS(1, 2, 1, 31), STRIDES(0, 0, 0, 0), 0);
  const int32_t table = fixture_f32(&f, EXTENTS(8), 8, numbers);
  const int32_t heads = fixture_view(&f, table, EXTENTS(8, 2), STRIDES(1, 0), 0);
  const int32_t position = fixture_i32(&f, EXTENTS(1), IDS(15)); /* key s is s - 15 away */
  int32_t y[2];
  for (int bidirectional = 0; bidirectional < 2; bidirectional++) {
    y[bidirectional] = fixture_result(&f, TSR_F32, EXTENTS(1, 2, 1, 31));
    tsr_line_desc *line = fixture_line(&f, TSR_OP_MASK);
    line->in[0] = scores, line->in[POSITION] = position, line->in[RELATIVE] = heads, line->out[0] = y[bidirectional];
    line->attributes.bidirectional = bidirectional;
    line->attributes.max_distance = 20;
  }
  fixture_run(&f);
  static const float causal[31] = {7, 7, 6, 6, 6, 6, 6, 5, 5, 5, 4, 4, 3, 2, 1, 0,
                                   0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  static const float both[31] = {3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 1, 0,
                                 5, 6, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7};
  for (int i = 0; i < 62; i++) {
    assert_true(fixture_floats(&f, y[0])[i] == causal[i % 31]);
    assert_true(fixture_floats(&f, y[1])[i] == both[i % 31]);
  }
}

/* Distances -15 .. 15, at most 4 of which have a row of their own on each side; a table of two heads. */
static void test_clamped_distances(void **state)
{
  (void)state;
  fixture_begin(&f);
  float numbers[18];
  for (int i = 0; i < 18; i++) {
    const int row = i / 2, head = i % 2;
    numbers[i] = (float)(row + 100 * head);
  }
  const int32_t zero = fixture_f32(&f, SCALAR, VALUES(0));
  const int32_t y = fixture_result(&f, TSR_F32, EXTENTS(1, 2, 2, 31));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_MASK);
  line->in[0] = fixture_view(&f, zero, EXTENTS(1, 2, 2, 31), STRIDES(0, 0, 0, 0), 0), line->out[0] = y;
  line->in[RELATIVE] = fixture_f32(&f, EXTENTS(9, 2), 18, numbers);
  line->in[POSITION] = fixture_i32(&f, EXTENTS(1), IDS(15)); /* key s is s - 15 after query 0 */
  line->attributes.max_distance = 4;
  line->attributes.clamped = 1;
  fixture_run(&f);
  static const float rows[32] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3,
                                 4, 5, 6, 7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8};
  for (int i = 0; i < 4 * 31; i++) {
    const int h = i / 62, l = i / 31 % 2, s = i % 31;
    assert_true(fixture_floats(&f, y)[i] == rows[s + 1 - l] + 100.0f * (float)h);
  }
}

/* Two keys of equal score, K = 1, J = 2. */
static void test_attention(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t q = fixture_f32(&f, EXTENTS(1, 3, 1, 1), VALUES(0, 2, -2));
  const int32_t k = fixture_f32(&f, EXTENTS(1, 2, 1, 1), VALUES(0, 0.549306144f)); /* alpha q k = ln 3 for q = 2 */
  const int32_t v = fixture_f32(&f, EXTENTS(1, 2, 1, 2), VALUES(1, 10, 3, -10));
  const int32_t y = fixture_result(&f, TSR_F32, EXTENTS(1, 3, 1, 2));
  const int32_t w = fixture_result(&f, TSR_F32, EXTENTS(1, 1, 3, 2));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_ATTENTION);
  line->in[0] = q, line->in[1] = k, line->in[2] = v, line->out[0] = y, line->out[1] = w;
  const int32_t causal = fixture_result(&f, TSR_F32, EXTENTS(1, 3, 1, 2));
  line = fixture_line(&f, TSR_OP_ATTENTION);
  line->in[0] = q, line->in[1] = k, line->in[2] = v, line->out[0] = causal, line->attributes.causal = 1;
  fixture_run(&f);
  fixture_expect(&f, y, 1e-6, VALUES(2, 0, 2.5f, -5, 1.5f, 5));
  fixture_expect(&f, w, 1e-6, VALUES(0.5f, 0.5f, 0.25f, 0.75f, 0.75f, 0.25f));
  fixture_expect(&f, causal, 1e-6, VALUES(1, 10, 2.5f, -5, 1.5f, 5));
}

/* Two heads of keys, each of which two of queries share; scores of 3 and -3 are squashed into a bound of 2. */
static void test_attention_shared(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t q = fixture_f32(&f, EXTENTS(1, 1, 4, 1), VALUES(1, -1, 1, -1));
  const int32_t k = fixture_f32(&f, EXTENTS(1, 2, 2, 1), VALUES(3, 0, -3, 0));
  const int32_t v = fixture_f32(&f, EXTENTS(1, 2, 2, 1), VALUES(1, 10, 0, 0));
  const int32_t y = fixture_result(&f, TSR_F32, EXTENTS(1, 1, 4, 1));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_ATTENTION);
  line->in[0] = q, line->in[1] = k, line->in[2] = v, line->out[0] = y;
  line->attributes.alpha = 1, line->attributes.softcap = 2;
  fixture_run(&f);
  /* 1 / (1 + exp(-4 tanh 1.5)), and 1 less that */
  fixture_expect(&f, y, 1e-6, VALUES(0.973930985f, 0.026069015f, 5, 5));
}

/* Columns 0 and 2, 1 and 3 are pairs. */
static void test_rotate(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t x = fixture_f32(&f, EXTENTS(4), VALUES(1, 2, 3, 4));
  const int32_t turns = fixture_f32(&f, EXTENTS(4), VALUES(0.5f, 2, 1, -1));
  const int32_t y = fixture_result(&f, TSR_F32, EXTENTS(4));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_ROTATE);
  line->in[0] = x, line->in[1] = turns, line->out[0] = y, line->attributes.alpha = 2;
  fixture_run(&f);
  fixture_expect(&f, y, 0, VALUES(0.5f - 6, 4 + 8, 1.5f + 2, 8 - 4));
}

/* What excluded keys hold is not seen; a query without keys gives zeros; what is seen and NaN makes NaN. */
static void test_attention_exclusion(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t q = fixture_f32(&f, EXTENTS(3, 1, 1, 1), VALUES(1, 1, 1));
  const int32_t k = fixture_f32(&f, EXTENTS(3, 2, 1, 1), VALUES(1, nan_value, nan_value, nan_value, nan_value, 1));
  const int32_t v = fixture_f32(&f, EXTENTS(3, 2, 1, 1), VALUES(7, nan_value, inf, nan_value, 1, 1));
  const int32_t lengths = fixture_i32(&f, EXTENTS(3), IDS(1, 0, 2));
  const int32_t y = fixture_result(&f, TSR_F32, EXTENTS(3, 1, 1, 1));
  const int32_t w = fixture_result(&f, TSR_F32, EXTENTS(3, 1, 1, 2));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_ATTENTION);
  line->in[0] = q, line->in[1] = k, line->in[2] = v, line->in[LENGTHS + 2] = lengths;
  line->out[0] = y, line->out[1] = w;
  /* The same by the additive mask alone. */
  const int32_t mask = fixture_f32(&f, EXTENTS(3, 1, 1, 2), VALUES(0, -inf, -inf, -inf, 0, 0));
  const int32_t masked = fixture_result(&f, TSR_F32, EXTENTS(3, 1, 1, 1));
  line = fixture_line(&f, TSR_OP_ATTENTION);
  line->in[0] = q, line->in[1] = k, line->in[2] = v, line->in[ADDITIVE + 2] = mask, line->out[0] = masked;
  /* A NaN in v alone, seen. */
  const int32_t of_v = fixture_result(&f, TSR_F32, EXTENTS(1, 1, 1, 1));
  const int32_t ones = fixture_view(&f, q, EXTENTS(1, 2, 1, 1), STRIDES(0, 1, 0, 0), 0);
  const int32_t one = fixture_view(&f, q, EXTENTS(1, 1, 1, 1), STRIDES(0, 0, 0, 0), 0);
  line = fixture_line(&f, TSR_OP_ATTENTION);
  line->in[0] = one, line->in[1] = ones, line->in[2] = fixture_view(&f, v, EXTENTS(1, 2, 1, 1), STRIDES(0, 1, 0, 0), 0);
  line->out[0] = of_v;
  /* No keys at all, and no elements in a key. */
  const int32_t no_keys = fixture_f32(&f, EXTENTS(3, 0, 1, 1), 0, NULL);
  const int32_t of_nothing = fixture_result(&f, TSR_F32, EXTENTS(3, 1, 1, 1));
  line = fixture_line(&f, TSR_OP_ATTENTION);
  line->in[0] = q, line->in[1] = no_keys, line->in[2] = no_keys, line->out[0] = of_nothing;
  const int32_t short_q = fixture_f32(&f, EXTENTS(1, 1, 1, 0), 0, NULL);
  const int32_t short_k = fixture_f32(&f, EXTENTS(1, 2, 1, 0), 0, NULL);
  const int32_t mean = fixture_result(&f, TSR_F32, EXTENTS(1, 1, 1, 1));
  line = fixture_line(&f, TSR_OP_ATTENTION);
  line->in[0] = short_q, line->in[1] = short_k, line->out[0] = mean;
  line->in[2] = fixture_f32(&f, EXTENTS(1, 2, 1, 1), VALUES(3, 5));
  fixture_run(&f);
  fixture_expect(&f, y, 0, VALUES(7, 0, nan_value));
  fixture_expect(&f, w, 0, VALUES(1, 0, 0, 0, nan_value, nan_value));
  fixture_expect(&f, masked, 0, VALUES(7, 0, nan_value));
  fixture_expect(&f, of_v, 0, VALUES(nan_value));
  fixture_expect(&f, of_nothing, 0, VALUES(0, 0, 0));
  fixture_expect(&f, mean, 0, VALUES(4));
}

/* Key s of sentence b is key s of row rows[b, s] of the cache. */
static void test_attention_rows(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t q = fixture_f32(&f, EXTENTS(2, 1, 1, 1), VALUES(0, 0));
  const int32_t k = fixture_f32(&f, EXTENTS(3, 2, 1, 1), VALUES(0, 0, 0, 0, 0, 0));
  const int32_t v = fixture_f32(&f, EXTENTS(3, 2, 1, 1), VALUES(1, 2, 10, 20, 100, 200));
  const int32_t rows = fixture_i32(&f, EXTENTS(2, 2), IDS(2, 0, 1, 3));
  const int32_t y = fixture_result(&f, TSR_F32, EXTENTS(2, 1, 1, 1));
  const int32_t w = fixture_result(&f, TSR_F32, EXTENTS(2, 1, 1, 2));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_ATTENTION);
  line->in[0] = q, line->in[1] = k, line->in[2] = v, line->in[7] = rows, line->out[0] = y, line->out[1] = w;
  const int32_t outside = fixture_i32(&f, EXTENTS(2, 2), IDS(-1, INT32_MAX, INT32_MIN, -1));
  const int32_t z = fixture_result(&f, TSR_F32, EXTENTS(2, 1, 1, 1));
  line = fixture_line(&f, TSR_OP_ATTENTION);
  line->in[0] = q, line->in[1] = k, line->in[2] = v, line->in[7] = outside, line->out[0] = z;
  fixture_run(&f);
  fixture_expect(&f, y, 0, VALUES(51, 10));
  fixture_expect(&f, w, 0, VALUES(0.5f, 0.5f, 1, 0));
  fixture_expect(&f, z, 0, VALUES(0, 0));
}

/* Attention means matmul, mask, softmax, matmul, with every kind of masking at once. */
static void test_attention_against_its_parts(void **state)
{
  (void)state;
  enum { B = 3, L = 4, H = 2, S = 6, K = 5, J = 3 };
  static float values[B * S * H * K];
  static float mask_values[B * S];
  fixture_begin(&f);
  fixture_random(values, B * L * H * K, 1);
  const int32_t q = fixture_f32(&f, EXTENTS(B, L, H, K), B * L * H * K, values);
  fixture_random(values, B * S * H * K, 2);
  const int32_t k = fixture_f32(&f, EXTENTS(B, S, H, K), B * S * H * K, values);
  fixture_random(values, B * S * H * J, 3);
  const int32_t v = fixture_f32(&f, EXTENTS(B, S, H, J), B * S * H * J, values);
  fixture_random(mask_values, B * S, 4);
  mask_values[1] = mask_values[2 * S] = -INFINITY;
  const int32_t per_key = fixture_f32(&f, EXTENTS(B, S), B * S, mask_values);
  fixture_random(values, 8 * H, 5);
  const int32_t relative = fixture_f32(&f, EXTENTS(8, H), 8 * H, values);
  const int32_t additive = fixture_view(&f, per_key, EXTENTS(B, H, L, S), STRIDES(S, 0, 0, 1), 0);
  const int32_t lengths = fixture_i32(&f, EXTENTS(B), IDS(6, 0, 5)),
                position = fixture_i32(&f, EXTENTS(B), IDS(0, 1, 2));

  /* Heads come before positions in the parts: views do it. */
  const int32_t q_heads = fixture_view(&f, q, EXTENTS(B, H, L, K), STRIDES(L * H * K, K, H * K, 1), 0);
  const int32_t k_heads = fixture_view(&f, k, EXTENTS(B, H, K, S), STRIDES(S * H * K, K, 1, H * K), 0);
  const int32_t v_heads = fixture_view(&f, v, EXTENTS(B, H, S, J), STRIDES(S * H * J, J, H * J, 1), 0);
  const int32_t scores = fixture_result(&f, TSR_F32, EXTENTS(B, H, L, S));
  const int32_t masked = fixture_result(&f, TSR_F32, EXTENTS(B, H, L, S));
  const int32_t weights = fixture_result(&f, TSR_F32, EXTENTS(B, H, L, S));
  const int32_t mixed = fixture_result(&f, TSR_F32, EXTENTS(B, H, L, J));
  const int32_t y = fixture_result(&f, TSR_F32, EXTENTS(B, L, H, J));
  const int32_t w = fixture_result(&f, TSR_F32, EXTENTS(B, H, L, S));

  tsr_line_desc *line = fixture_line(&f, TSR_OP_MATMUL);
  line->in[0] = q_heads, line->in[1] = k_heads, line->out[0] = scores, line->attributes.alpha = 1.7f;
  line = fixture_line(&f, TSR_OP_MASK);
  line->in[0] = scores, line->out[0] = masked;
  const int32_t operands[] = {additive, lengths, position, relative};
  memcpy(&line->in[ADDITIVE], operands, sizeof(operands));
  line->attributes.causal = line->attributes.bidirectional = 1;
  line->attributes.max_distance = 5;
  line = fixture_line(&f, TSR_OP_SOFTMAX);
  line->in[0] = masked, line->out[0] = weights;
  line = fixture_line(&f, TSR_OP_MATMUL);
  line->in[0] = weights, line->in[1] = v_heads, line->out[0] = mixed;

  line = fixture_line(&f, TSR_OP_ATTENTION);
  line->in[0] = q, line->in[1] = k, line->in[2] = v, line->out[0] = y, line->out[1] = w;
  memcpy(&line->in[ADDITIVE + 2], operands, sizeof(operands));
  line->attributes.alpha = 1.7f;
  line->attributes.causal = line->attributes.bidirectional = 1;
  line->attributes.max_distance = 5;
  fixture_run(&f);

  fixture_expect(&f, w, 0, B * H * L * S, fixture_floats(&f, weights));
  for (int b = 0; b < B; b++) {
    for (int l = 0; l < L; l++) {
      for (int h = 0; h < H; h++) {
        double sum = 0;
        for (int j = 0; j < J; j++) {
          const float part = fixture_floats(&f, mixed)[((b * H + h) * L + l) * J + j];
          assert_true(fabsf(fixture_floats(&f, y)[((b * L + l) * H + h) * J + j] - part) <= 1e-6);
        }
        for (int s = 0; s < S; s++) {
          const float weight = fixture_floats(&f, w)[((b * H + h) * L + l) * S + s];
          const int excluded = b == 1 || (b == 0 && (s > l || s == 1)) || (b == 2 && (s > l + 2 || s >= 5 || s == 0));
          assert_true(excluded ? weight == 0 : weight > 0);
          sum += weight;
        }
        assert_true(fabs(sum - (b != 1)) < 1e-6);
      }
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lengths_and_causal),
      cmocka_unit_test(test_biases),
      cmocka_unit_test(test_relative_buckets),
      cmocka_unit_test(test_clamped_distances),
      cmocka_unit_test(test_attention),
      cmocka_unit_test(test_attention_shared),
      cmocka_unit_test(test_rotate),
      cmocka_unit_test(test_attention_exclusion),
      cmocka_unit_test(test_attention_rows),
      cmocka_unit_test(test_attention_against_its_parts),
  };
  return cmocka_run_group_tests_name("reference_attention", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * backends/reference: dropout, the loss, the optimiser and the operators beside them, against values worked out by
 * hand, another writing of Philox, and the recurrences of the papers; and what they make of NaN, infinities and labels
 * that are none.
 */
#include "tessera/philox.h"
#include "tests/unit/reference/reference_fixture.h"

static fixture f;

static const float nan_value = NAN, inf = INFINITY;

/* The 16 random bits of an element, in the order that ops.h gives. */
static uint32_t half_of(const int32_t *pair, int32_t stream, uint32_t element)
{
  const uint32_t counter[4] = {element / 8, 0, (uint32_t)stream, 0}, key[2] = {(uint32_t)pair[0], (uint32_t)pair[1]};
  uint32_t word[4];
  tsr_philox4x32(counter, key, word);
  return word[element % 8 / 2] >> (element % 2 ? 16 : 0) & 0xffffu;
}

static void test_dropout(void **state)
{
  static const float rates[] = {0, 0.1f, 0.5f, 0.99f, 0.999999f};
  static const uint32_t thresholds[] = {0, 6554, 32768, 64881, 65535};
  enum { N = 1003 };
  static float x[N], expected[N];
  (void)state;
  fixture_random(x, N, 5);
  for (int32_t i = 0; i < 5; i++) {
    const int32_t pair[] = {INT32_MIN + i, 77 - i}, stream = i * -1000003;
    const float scale = 65536.0f / (float)(65536u - thresholds[i]);
    int32_t kept = 0;
    fixture_begin(&f);
    tsr_line_desc *line = fixture_line(&f, TSR_OP_DROPOUT);
    line->in[0] = fixture_f32(&f, EXTENTS(17, 59), N, x);
    line->in[1] = fixture_i32(&f, EXTENTS(2), 2, pair);
    line->out[0] = fixture_result(&f, TSR_F32, EXTENTS(17, 59));
    line->attributes.rate = rates[i], line->attributes.stream = stream;
    for (uint32_t e = 0; e < N; e++) {
      const int keeps = half_of(pair, stream, e) >= thresholds[i];
      expected[e] = keeps ? scale * x[e] : 0;
      kept += keeps;
    }
    fixture_run(&f);
    fixture_expect(&f, line->out[0], 0, N, expected);
    assert_true(fabs(kept - N * (1 - (double)rates[i])) < 4 * sqrt(N / 4.0));
  }
}

/* What is dropped is 0, whatever it was; a view counts its elements in row-major order, as any other tensor. */
static void test_dropout_of_a_view(void **state)
{
  const int32_t pair[] = {3, 4};
  float values[24], expected[24];
  (void)state;
  for (int32_t e = 0; e < 24; e++) {
    values[e] = nan_value;
    expected[e % 6 * 4 + e / 6] = half_of(pair, 9, (uint32_t)(e % 6 * 4 + e / 6)) >= 32768 ? nan_value : 0;
  }
  fixture_begin(&f);
  const int32_t x = fixture_f32(&f, EXTENTS(4, 6), 24, values);
  tsr_line_desc *line = fixture_line(&f, TSR_OP_DROPOUT);
  line->in[0] = fixture_view(&f, x, EXTENTS(6, 4), STRIDES(1, 6), 0);
  line->in[1] = fixture_i32(&f, EXTENTS(2), 2, pair);
  line->out[0] = fixture_result(&f, TSR_F32, EXTENTS(6, 4));
  line->attributes.rate = 0.5f, line->attributes.stream = 9;
  fixture_run(&f);
  fixture_expect(&f, line->out[0], 0, 24, expected);
}

static void test_loss(void **state)
{
  const float ln2 = 0.693147181f, ln3 = 1.09861229f;
  (void)state;
  fixture_begin(&f);
  const int32_t logits = fixture_f32(
      &f, EXTENTS(6, 3), VALUES(0, 0, 0, ln2, 0, 0, nan_value, 1, inf, 1, -inf, 1, -inf, -inf, -inf, 0, inf, 0));
  const int32_t labels = fixture_i32(&f, EXTENTS(6), IDS(2, 0, 3, 0, 1, 0));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_CROSS_ENTROPY);
  const int32_t loss = fixture_result(&f, TSR_F32, EXTENTS(6)), lse = fixture_result(&f, TSR_F32, EXTENTS(6));
  line->in[0] = logits, line->in[1] = labels, line->out[0] = loss, line->out[1] = lse;
  line = fixture_line(&f, TSR_OP_CROSS_ENTROPY);
  const int32_t smooth = fixture_result(&f, TSR_F32, EXTENTS(6)), again = fixture_result(&f, TSR_F32, EXTENTS(6));
  line->in[0] = logits, line->in[1] = labels, line->out[0] = smooth, line->out[1] = again;
  line->attributes.smoothing = 0.3f;
  line = fixture_line(&f, TSR_OP_CROSS_ENTROPY_GRADIENT);
  const int32_t dlogits = fixture_result(&f, TSR_F32, EXTENTS(3, 3));
  line->in[0] = fixture_view(&f, logits, EXTENTS(3, 3), STRIDES(3, 1), 0);
  line->in[1] = fixture_view(&f, labels, EXTENTS(3), STRIDES(1), 0);
  line->in[2] = fixture_view(&f, lse, EXTENTS(3), STRIDES(1), 0);
  line->in[3] = fixture_f32(&f, EXTENTS(3), VALUES(3, 4, nan_value));
  line->out[0] = dlogits, line->attributes.smoothing = 0.3f;
  fixture_run(&f);
  fixture_expect(&f, loss, 1e-7, VALUES(ln3, ln2, 0, ln2, inf, nan_value));
  fixture_expect(&f, lse, 1e-7, VALUES(ln3, 2 * ln2, nan_value, 1 + ln2, -inf, nan_value));
  /* the second row's probabilities are 1/2, 1/4, 1/4 */
  fixture_expect(&f, smooth, 1e-7, VALUES(ln3, 0.7f * ln2 + 0.1f * 5 * ln2, 0, inf, inf, nan_value));
  fixture_expect(&f, dlogits, 3e-7, VALUES(0.7f, 0.7f, -1.4f, 4 * (0.5f - 0.8f), 4 * 0.15f, 4 * 0.15f, 0, 0, 0));
}

/* The states of adam, as doubles: the recurrence of the paper, bias corrections and all. */
typedef struct recurrence {
  double p, m, v, average;
} recurrence;

static void test_adam(void **state)
{
  enum { N = 7, STEPS = 4 };
  float values[4][N], gradient[N];
  recurrence expected[N];
  (void)state;
  for (int32_t decoupled = 0; decoupled < 2; decoupled++) {
    for (int32_t k = 0; k < 4; k++) {
      for (int32_t e = 0; e < N; e++) {
        values[k][e] = k == 0 ? (float)e - 3 : 0; /* the moments begin at 0 */
      }
    }
    for (int32_t e = 0; e < N; e++) {
      expected[e] = (recurrence){.p = e - 3};
    }
    for (int32_t t = 1; t <= STEPS; t++) {
      const double b1 = 0.9f, b2 = 0.98f, rate = 0.125, factor = 0.5, decay = 0.25f, keeps = 0.75;
      const float norm =
          t == 3 ? nan_value : 64; /* so the norm is 8, 4 after the factor: clipped to 3, except at t = 3 */
      fixture_random(gradient, N, (uint64_t)t);
      fixture_begin(&f);
      tsr_line_desc *line = fixture_line(&f, TSR_OP_ADAM);
      line->in[0] = fixture_f32(&f, EXTENTS(N), N, gradient);
      line->in[1] = fixture_f32(&f, EXTENTS(5),
                                VALUES((float)rate, (float)(1 / (1 - pow(b1, t))), (float)(1 / (1 - pow(b2, t))),
                                       (float)factor, (float)(1 - keeps)));
      line->in[2] = fixture_f32(&f, EXTENTS(1), VALUES(norm));
      for (int32_t k = 0; k < 4; k++) {
        line->out[k] = fixture_f32(&f, EXTENTS(N), N, values[k]);
      }
      line->attributes.beta1 = 0.9f, line->attributes.beta2 = 0.98f, line->attributes.epsilon = 1e-3f;
      line->attributes.decay = 0.25f, line->attributes.decoupled = decoupled, line->attributes.max_norm = 3;
      fixture_run(&f);
      for (int32_t e = 0; e < N && t != 3; e++) {
        recurrence *x = &expected[e];
        double g = gradient[e] * factor * (3 / (4 + 1e-6));
        g += decoupled ? 0 : decay * x->p;
        x->p *= decoupled ? 1 - rate * decay : 1;
        x->m = b1 * x->m + (1 - b1) * g;
        x->v = b2 * x->v + (1 - b2) * g * g;
        x->p -= rate * (x->m / (1 - pow(b1, t))) / (sqrt(x->v / (1 - pow(b2, t))) + (double)1e-3f);
        x->average = keeps * x->average + (1 - keeps) * x->p;
      }
      for (int32_t e = 0; e < N; e++) {
        const double wanted[] = {expected[e].p, expected[e].m, expected[e].v, expected[e].average};
        for (int32_t k = 0; k < 4; k++) {
          const float found = fixture_floats(&f, line->out[k])[e];
          assert_true(fabs(found - wanted[k]) < 2e-6);
          assert_true(t != 3 || found == values[k][e]);
        }
      }
      for (int32_t k = 0; k < 4; k++) {
        memcpy(values[k], fixture_floats(&f, line->out[k]), sizeof(values[k]));
      }
    }
  }
}

static void test_sum_of_squares(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t x = fixture_f32(&f, EXTENTS(2, 3), VALUES(1, 2, 3, -4, 5, 6)),
                y = fixture_result(&f, TSR_F32, EXTENTS(1));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_SUM_OF_SQUARES);
  line->in[0] = fixture_view(&f, x, EXTENTS(3, 2), STRIDES(1, 3), 0), line->out[0] = y;
  line = fixture_line(&f, TSR_OP_SUM_OF_SQUARES);
  const int32_t z = fixture_result(&f, TSR_F32, EXTENTS(1));
  line->in[0] = fixture_f32(&f, EXTENTS(0), 0, NULL), line->in[1] = y, line->out[0] = z;
  fixture_run(&f);
  fixture_expect(&f, y, 0, VALUES(91));
  fixture_expect(&f, z, 0, VALUES(91));
}

static void test_concat_and_scatter_add(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t a = fixture_f32(&f, EXTENTS(2, 2), VALUES(1, 2, 3, 4)),
                b = fixture_f32(&f, EXTENTS(2, 1), VALUES(5, nan_value));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_CONCAT);
  const int32_t joined = fixture_result(&f, TSR_F32, EXTENTS(2, 3));
  line->in[0] = a, line->in[1] = b, line->out[0] = joined, line->attributes.axis = -1;
  line = fixture_line(&f, TSR_OP_CONCAT);
  const int32_t stacked = fixture_result(&f, TSR_F32, EXTENTS(4, 2));
  line->in[0] = a, line->in[1] = fixture_view(&f, a, EXTENTS(2, 2), STRIDES(1, 2), 0), line->out[0] = stacked;
  line = fixture_line(&f, TSR_OP_SCATTER_ADD);
  const int32_t rows = fixture_result(&f, TSR_F32, EXTENTS(3, 2));
  line->in[0] = stacked, line->in[1] = fixture_i32(&f, EXTENTS(4), IDS(2, 0, 3, 2)), line->out[0] = rows;
  line->attributes.alpha = 0.5f, line->attributes.extent = 3;
  line = fixture_line(&f, TSR_OP_SCATTER_ADD);
  const int32_t columns = fixture_result(&f, TSR_F32, EXTENTS(2, 2));
  line->in[0] = joined, line->in[1] = fixture_i32(&f, EXTENTS(3), IDS(0, 0, -1)), line->out[0] = columns;
  line->attributes.axis = 1, line->attributes.extent = 2;
  fixture_run(&f);
  fixture_expect(&f, joined, 0, VALUES(1, 2, 5, 3, 4, nan_value));
  fixture_expect(&f, stacked, 0, VALUES(1, 2, 3, 4, 1, 3, 2, 4));
  fixture_expect(&f, rows, 0, VALUES(1.5f, 2, 0, 0, 1.5f, 3));
  fixture_expect(&f, columns, 0, VALUES(3, 0, 7, 0));
}

static void test_conv1d(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t x = fixture_f32(&f, EXTENTS(1, 5, 2), VALUES(1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
  const int32_t y = fixture_result(&f, TSR_F32, EXTENTS(1, 2, 2)), z = fixture_result(&f, TSR_F32, EXTENTS(1, 2, 1));
  const int32_t bias = fixture_f32(&f, EXTENTS(2), VALUES(100, 200));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_CONV1D);
  line->in[0] = x, line->out[0] = y, line->attributes.stride = 2;
  line->in[1] = fixture_f32(&f, EXTENTS(2, 3, 2), VALUES(1, 0, 0, 0, 0, 0, 0, 1, 0, 10, 1, 0));
  line->in[2] = fixture_view(&f, bias, EXTENTS(1, 2, 2), STRIDES(0, 0, 1), 0);
  line = fixture_line(&f, TSR_OP_CONV1D);
  line->in[0] = x, line->out[0] = z, line->attributes.stride = 3;
  line->in[1] = fixture_half(&f, TSR_F16, EXTENTS(1, 2, 2), HALVES(0x3c00, 0x4000, 0, 0x3c00)); /* 1, 2, 0, 1 */
  fixture_run(&f);
  fixture_expect(&f, y, 0, VALUES(101, 200 + 2 + 40 + 5, 105, 200 + 6 + 80 + 9));
  fixture_expect(&f, z, 0, VALUES(1 + 4 + 4, 7 + 16 + 10));
}

static tsr_line_desc *gradient_line(int32_t op, int32_t x, int32_t dy, int32_t dx)
{
  tsr_line_desc *line = fixture_line(&f, op);
  line->in[0] = x, line->in[1] = dy, line->out[0] = dx;
  return line;
}

/* What the slopes are where they are none, and what excluded elements hide. */
static void test_specials(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t x = fixture_f32(&f, EXTENTS(7), VALUES(-inf, inf, nan_value, 0, -1, 1, -3e38f));
  const int32_t dy = fixture_f32(&f, EXTENTS(7), VALUES(nan_value, 2, 1, nan_value, inf, inf, 1));
  const int32_t relu = fixture_result(&f, TSR_F32, EXTENTS(7)), silu = fixture_result(&f, TSR_F32, EXTENTS(7));
  const int32_t gelu = fixture_result(&f, TSR_F32, EXTENTS(7)), zeros = fixture_result(&f, TSR_F32, EXTENTS(2));
  const int32_t masked = fixture_result(&f, TSR_F32, EXTENTS(1, 1, 1, 3));
  gradient_line(TSR_OP_ACTIVATION_GRADIENT, x, dy, relu)->attributes.activation = TSR_ACTIVATION_RELU;
  gradient_line(TSR_OP_ACTIVATION_GRADIENT, x, dy, silu)->attributes.activation = TSR_ACTIVATION_SILU;
  gradient_line(TSR_OP_ACTIVATION_GRADIENT, x, dy, gelu)->attributes.activation = TSR_ACTIVATION_GELU_TANH;
  gradient_line(TSR_OP_SOFTMAX_GRADIENT, fixture_f32(&f, EXTENTS(2), VALUES(0, -0.0f)),
                fixture_f32(&f, EXTENTS(2), VALUES(nan_value, inf)), zeros);
  gradient_line(TSR_OP_MASK_GRADIENT, fixture_f32(&f, EXTENTS(1, 1, 1, 3), VALUES(-inf, inf, nan_value)),
                fixture_f32(&f, EXTENTS(1, 1, 1, 3), VALUES(nan_value, 2, 3)), masked);
  fixture_run(&f);
  fixture_expect(&f, relu, 0, VALUES(0, 2, nan_value, 0, 0, inf, 0));
  fixture_expect(&f, silu, 0, VALUES(0, 2, nan_value, nan_value, inf, inf, 0));
  fixture_expect(&f, gelu, 0, VALUES(0, 2, nan_value, nan_value, -inf, inf, 0));
  fixture_expect(&f, zeros, 0, VALUES(0, 0));
  fixture_expect(&f, masked, 0, VALUES(0, 2, 3));
}

/* One query sees nothing, what the other does not see holds NaN. */
static void test_attention_gradient_of_excluded_keys(void **state)
{
  (void)state;
  fixture_begin(&f);
  const int32_t q = fixture_f32(&f, EXTENTS(2, 1, 1, 1), VALUES(nan_value, 2));
  const int32_t k = fixture_f32(&f, EXTENTS(2, 2, 1, 1), VALUES(nan_value, 1, 0.5f, nan_value));
  const int32_t v = fixture_f32(&f, EXTENTS(2, 2, 1, 1), VALUES(1, nan_value, 3, nan_value));
  const int32_t y = fixture_result(&f, TSR_F32, EXTENTS(2, 1, 1, 1)),
                lse = fixture_result(&f, TSR_F32, EXTENTS(2, 1, 1));
  tsr_line_desc *line = fixture_line(&f, TSR_OP_ATTENTION);
  line->in[0] = q, line->in[1] = k, line->in[2] = v, line->in[4] = fixture_i32(&f, EXTENTS(2), IDS(0, 1));
  line->out[0] = y, line->out[2] = lse;
  tsr_line_desc *gradient = fixture_line(&f, TSR_OP_ATTENTION_GRADIENT);
  memcpy(gradient->in, line->in, 9 * sizeof(*line->in));
  gradient->in[9] = y, gradient->in[10] = fixture_f32(&f, EXTENTS(2, 1, 1, 1), VALUES(nan_value, 7)),
  gradient->in[11] = lse;
  const int32_t dq = fixture_result(&f, TSR_F32, EXTENTS(2, 1, 1, 1)),
                dk = fixture_result(&f, TSR_F32, EXTENTS(2, 2, 1, 1));
  const int32_t dv = fixture_result(&f, TSR_F32, EXTENTS(2, 2, 1, 1));
  const int32_t dscores = fixture_result(&f, TSR_F32, EXTENTS(2, 1, 1, 2));
  gradient->out[0] = dq, gradient->out[1] = dk, gradient->out[2] = dv, gradient->out[3] = dscores;
  fixture_run(&f);
  fixture_expect(&f, y, 0, VALUES(0, 3));
  fixture_expect(&f, lse, 0, VALUES(-inf, 1));
  fixture_expect(&f, dq, 0, VALUES(0, 0));
  fixture_expect(&f, dk, 0, VALUES(0, 0, 0, 0));
  fixture_expect(&f, dv, 0, VALUES(0, 0, 7, 0));
  fixture_expect(&f, dscores, 0, VALUES(0, 0, 0, 0));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_dropout),
      cmocka_unit_test(test_dropout_of_a_view),
      cmocka_unit_test(test_loss),
      cmocka_unit_test(test_adam),
      cmocka_unit_test(test_conv1d),
      cmocka_unit_test(test_sum_of_squares),
      cmocka_unit_test(test_concat_and_scatter_add),
      cmocka_unit_test(test_specials),
      cmocka_unit_test(test_attention_gradient_of_excluded_keys),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

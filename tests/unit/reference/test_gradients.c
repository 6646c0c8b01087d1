/* SPDX-License-Identifier: Apache-2.0
 *
 * backends/reference: every gradient operator against central differences. For random c the scalar sum c y, accumulated
 * in double over the f32 results y of the forward operator, is differentiated by the four-point rule
 *
 *     (8 (L(x + h) - L(x - h)) - (L(x + 2h) - L(x - 2h))) / 12h,
 *
 * and the gradient operator is run with dy = c. Operands lie on a grid on which x +- 2h is exact. The rule itself errs
 * by h^4 / 30 times the fifth derivative, some 1e-6; the rounding of y by 2^-24 / h of it, some 1e-6 too.
 */
#include "tests/unit/reference/reference_fixture.h"

enum { OPERANDS = 6, MOST = 400 };

#define STEP      0x1p-5
#define TOLERANCE 2e-4 /* of the largest element of the gradient */
#define SMALLEST                                                                                                       \
  0.05 /* or of this: a query that sees one key has no gradient, and the differences have their rounding */

typedef struct operand {
  int32_t rank;
  int64_t extent[TSR_MAX_RANK];
  float value[MOST];
} operand;

typedef struct problem problem;

struct problem {
  /* Adds the lines: y from the operands x, the gradients dx from dy and what else they need. */
  void (*build)(const problem *p, const int32_t *x, int32_t dy, int32_t *y, int32_t *dx);
  int32_t n;
  operand x[OPERANDS];
  operand dy; /* of y's extents */
  tsr_op_attributes attributes;
  int32_t lengths, position; /* of attention and mask: 1: given */
  int32_t gradient_of;       /* the activation whose gradient is taken; else that of the attributes */
};

static fixture f;
static uint64_t seed;

static int64_t count(const operand *x)
{
  int64_t n = 1;
  for (int32_t axis = 0; axis < x->rank; axis++) {
    n *= x->extent[axis];
  }
  return n;
}

static int64_t between(int64_t low, int64_t high)
{
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return low + (int64_t)((seed >> 33) % (uint64_t)(high - low + 1));
}

/* On a grid of 2^-9 in -2 .. 2, no nearer to 0 than 0.125, where relu bends. */
static void fill(operand *x)
{
  assert_true(count(x) <= MOST);
  for (int64_t i = 0; i < count(x); i++) {
    const int64_t magnitude = between(64, 1024);
    x->value[i] = (float)(between(0, 1) ? magnitude : -magnitude) * 0x1p-9f;
  }
}

static operand *add(problem *p, int32_t rank, const int64_t *extent)
{
  operand *x = &p->x[p->n++];
  assert_true(p->n <= OPERANDS);
  *x = (operand){.rank = rank};
  memcpy(x->extent, extent, (size_t)rank * sizeof(*extent));
  fill(x);
  return x;
}

static void set_result(problem *p, int32_t rank, const int64_t *extent)
{
  p->dy = (operand){.rank = rank};
  memcpy(p->dy.extent, extent, (size_t)rank * sizeof(*extent));
  fill(&p->dy);
}

static int32_t result_like(const operand *x)
{
  return fixture_result(&f, TSR_F32, x->rank, x->extent);
}

/* A line with the problem's attributes. */
static tsr_line_desc *line_of(const problem *p, int32_t op)
{
  tsr_line_desc *line = fixture_line(&f, op);
  line->attributes = p->attributes;
  line->attributes.struct_size = sizeof(line->attributes);
  return line;
}

/* Returns sum c y; gradients, if not NULL: [n][MOST]. */
static double evaluate(const problem *p, float (*gradients)[MOST])
{
  int32_t x[OPERANDS] = {0}, dx[OPERANDS] = {0}, y = 0;
  double sum = 0;
  fixture_begin(&f);
  for (int32_t i = 0; i < p->n; i++) {
    x[i] = fixture_f32(&f, p->x[i].rank, p->x[i].extent, count(&p->x[i]), p->x[i].value);
  }
  const int32_t dy = fixture_f32(&f, p->dy.rank, p->dy.extent, count(&p->dy), p->dy.value);
  p->build(p, x, dy, &y, dx);
  fixture_run(&f);
  for (int64_t i = 0; i < count(&p->dy); i++) {
    sum += (double)p->dy.value[i] * fixture_floats(&f, y)[i];
  }
  for (int32_t i = 0; gradients && i < p->n; i++) {
    memcpy(gradients[i], fixture_floats(&f, dx[i]), (size_t)count(&p->x[i]) * sizeof(float));
  }
  return sum;
}

static double moved(problem *p, float *element, double by)
{
  const float before = *element;
  *element = (float)(before + by);
  const double sum = evaluate(p, NULL);
  *element = before;
  return sum;
}

/* The largest distance of a gradient from the differences, relative to the operand's largest gradient. */
static double distance(problem *p)
{
  static float gradients[OPERANDS][MOST];
  double worst = 0;
  int any = 0; /* gradient that is not small */
  evaluate(p, gradients);
  for (int32_t i = 0; i < p->n; i++) {
    double largest = 0, error = 0;
    for (int64_t e = 0; e < count(&p->x[i]); e++) {
      float *element = &p->x[i].value[e];
      const double near = moved(p, element, STEP) - moved(p, element, -STEP);
      const double far = moved(p, element, 2 * STEP) - moved(p, element, -2 * STEP);
      const double slope = (8 * near - far) / (12 * STEP);
      largest = fmax(largest, fabs(slope));
      error = fmax(error, fabs(slope - gradients[i][e]));
      assert_true(isfinite(gradients[i][e]));
    }
    worst = fmax(worst, error / fmax(largest, SMALLEST));
    any |= largest > SMALLEST;
  }
  assert_true(any);
  return worst;
}

static void expect_gradient(problem *p)
{
  const double found = distance(p);
  if (!(found < TOLERANCE)) {
    fail_msg("the gradient is off by %g of its size, where %g is allowed", found, TOLERANCE);
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Operators on elements and rows
 */

static void build_activation(const problem *p, const int32_t *x, int32_t dy, int32_t *y, int32_t *dx)
{
  const int32_t activation = p->attributes.activation;
  tsr_line_desc *line = line_of(p, activation == TSR_ACTIVATION_RELU   ? TSR_OP_RELU
                                   : activation == TSR_ACTIVATION_SILU ? TSR_OP_SILU
                                                                       : TSR_OP_GELU);
  *y = result_like(&p->dy), dx[0] = result_like(&p->x[0]);
  line->in[0] = x[0], line->out[0] = *y;
  line = line_of(p, TSR_OP_ACTIVATION_GRADIENT);
  line->in[0] = x[0], line->in[1] = dy, line->out[0] = dx[0];
  line->attributes.activation = p->gradient_of ? p->gradient_of : activation;
}

static problem activation_problem(int32_t activation)
{
  problem p = {.build = build_activation, .attributes = {.activation = activation}};
  const int64_t extent[] = {between(1, 5), between(1, 30)};
  add(&p, 2, extent);
  set_result(&p, 2, extent);
  return p;
}

static void test_activations(void **state)
{
  (void)state;
  for (int32_t activation = TSR_ACTIVATION_RELU; activation <= TSR_ACTIVATION_SILU; activation++) {
    for (int32_t round = 0; round < 3; round++) {
      problem p = activation_problem(activation);
      expect_gradient(&p);
    }
  }
}

/* The comparison can fail. */
static void test_wrong_gradients_are_seen(void **state)
{
  (void)state;
  problem p = activation_problem(TSR_ACTIVATION_GELU_ERF);
  p.gradient_of = TSR_ACTIVATION_GELU_TANH; /* their slopes differ by 1e-3 at most */
  assert_true(distance(&p) > 2 * TOLERANCE);
  p.gradient_of = TSR_ACTIVATION_SILU;
  assert_true(distance(&p) > 100 * TOLERANCE);
}

/* y, then dx from y and dy; dropout's from the seed and dy. */
static void build_unary(const problem *p, const int32_t *x, int32_t dy, int32_t *y, int32_t *dx)
{
  const int32_t op = p->attributes.k;
  tsr_line_desc *line = line_of(p, op);
  *y = result_like(&p->dy), dx[0] = result_like(&p->x[0]);
  line->in[0] = x[0], line->out[0] = *y;
  if (op == TSR_OP_DROPOUT) {
    const int32_t pair = fixture_i32(&f, EXTENTS(2), IDS(-7, 12345));
    line->in[1] = pair;
    line = line_of(p, op);
    line->in[0] = dy, line->in[1] = pair, line->out[0] = dx[0];
    return;
  }
  line = line_of(p, op == TSR_OP_SOFTMAX ? TSR_OP_SOFTMAX_GRADIENT : TSR_OP_LOG_SOFTMAX_GRADIENT);
  line->in[0] = *y, line->in[1] = dy, line->out[0] = dx[0];
}

static void test_rows(void **state)
{
  static const int32_t ops[] = {TSR_OP_SOFTMAX, TSR_OP_LOG_SOFTMAX, TSR_OP_DROPOUT};
  (void)state;
  for (int32_t round = 0; round < 9; round++) {
    problem p = {.build = build_unary, .attributes = {.k = ops[round % 3], .rate = 0.3f, .stream = round}};
    const int64_t extent[] = {between(1, 4), between(2, 3), between(2, 12)};
    add(&p, 3, extent);
    set_result(&p, 3, extent);
    expect_gradient(&p);
  }
}

/* x, gain and, for layernorm, bias. */
static void build_norm(const problem *p, const int32_t *x, int32_t dy, int32_t *y, int32_t *dx)
{
  const int32_t centred = p->n == 3;
  tsr_line_desc *line = line_of(p, centred ? TSR_OP_LAYERNORM : TSR_OP_RMSNORM);
  *y = result_like(&p->dy);
  line->in[0] = x[0], line->in[1] = x[1], line->in[2] = x[2], line->out[0] = *y;
  line = line_of(p, centred ? TSR_OP_LAYERNORM_GRADIENT : TSR_OP_RMSNORM_GRADIENT);
  line->in[0] = x[0], line->in[1] = x[1], line->in[2] = dy;
  for (int32_t i = 0; i < p->n; i++) {
    line->out[i] = dx[i] = result_like(&p->x[i]);
  }
}

static void test_norms(void **state)
{
  (void)state;
  for (int32_t round = 0; round < 10; round++) {
    problem p = {.build = build_norm,
                 .attributes = {.epsilon = round < 4 ? 1e-5f : 0.25f, .unbiased = round >= 6 && round % 2}};
    const int64_t extent[] = {between(1, 3), between(1, 3), between(4, 11)};
    add(&p, 3, extent);
    add(&p, 1, &extent[2]);
    if (round % 2) {
      add(&p, 1, &extent[2]);
    }
    set_result(&p, 3, extent);
    expect_gradient(&p);
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * The loss
 */

static void build_loss(const problem *p, const int32_t *x, int32_t dy, int32_t *y, int32_t *dx)
{
  const int32_t V = (int32_t)p->x[0].extent[1];
  const int32_t labels = fixture_i32(&f, EXTENTS(5), IDS(0, V - 1, V, -1, V / 2)); /* two of them ignored */
  const int32_t lse = result_like(&p->dy);
  tsr_line_desc *line = line_of(p, TSR_OP_CROSS_ENTROPY);
  *y = result_like(&p->dy), dx[0] = result_like(&p->x[0]);
  line->in[0] = x[0], line->in[1] = labels, line->out[0] = *y, line->out[1] = lse;
  line = line_of(p, TSR_OP_CROSS_ENTROPY_GRADIENT);
  line->in[0] = x[0], line->in[1] = labels, line->in[2] = lse, line->in[3] = dy, line->out[0] = dx[0];
}

static void test_loss(void **state)
{
  static const float smoothing[] = {0, 0.1f, 0.6f};
  (void)state;
  for (int32_t round = 0; round < 6; round++) {
    problem p = {.build = build_loss, .attributes = {.smoothing = smoothing[round % 3]}};
    add(&p, EXTENTS(5, between(2, 20)));
    set_result(&p, EXTENTS(5));
    expect_gradient(&p);
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * gather and embedding
 */

static void build_gather(const problem *p, const int32_t *x, int32_t dy, int32_t *y, int32_t *dx)
{
  const int32_t embeds = p->attributes.k == TSR_OP_EMBEDDING, axis = embeds ? 0 : p->attributes.axis;
  const int32_t index = fixture_i32(&f, EXTENTS(6), IDS(1, 0, 1, 9, -1, 1)); /* rows 1 three times, two outside */
  tsr_line_desc *line = line_of(p, p->attributes.k);
  *y = result_like(&p->dy), dx[0] = result_like(&p->x[0]);
  line->in[0] = x[0], line->in[1] = index, line->out[0] = *y;
  line = line_of(p, TSR_OP_SCATTER_ADD);
  line->in[0] = dy, line->in[1] = index, line->out[0] = dx[0];
  line->attributes.axis = axis, line->attributes.extent = (int32_t)p->x[0].extent[axis];
  line->attributes.alpha = embeds ? p->attributes.alpha : 1;
}

static void test_scatter(void **state)
{
  (void)state;
  for (int32_t axis = 0; axis < 3; axis++) {
    problem p = {.build = build_gather, .attributes = {.axis = axis, .k = TSR_OP_GATHER}};
    int64_t extent[] = {between(2, 5), between(2, 5), between(2, 5)};
    add(&p, 3, extent);
    extent[axis] = 6;
    set_result(&p, 3, extent);
    expect_gradient(&p);
  }
  problem p = {.build = build_gather, .attributes = {.alpha = 5.5f, .k = TSR_OP_EMBEDDING}};
  const int64_t width = between(2, 9);
  add(&p, EXTENTS(4, width));
  set_result(&p, EXTENTS(6, width));
  expect_gradient(&p);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Masking and attention. The last two operands are the additive and the relative bias, each of which may be missing.
 */

enum {
  WITH_ADDITIVE = 1,
  WITH_RELATIVE = 2,
  WITH_LENGTHS = 4,
  WITH_POSITION = 8,
  WITH_CAUSAL = 16,
  WITH_SEED = 32,
  WITH_CLAMPED = 64 /* of the relative bias */
};

static void add_masking(const problem *p, tsr_line_desc *line, int32_t first, const int32_t *bias)
{
  line->in[first] = bias[0];
  line->in[first + 1] = p->lengths ? fixture_i32(&f, EXTENTS(2), IDS(3, 100)) : 0;
  line->in[first + 2] = p->position ? fixture_i32(&f, EXTENTS(2), IDS(2, 0)) : 0;
  line->in[first + 3] = bias[1];
}

/* The operands' indices of the two biases; 0: missing (operand 0 is none of them). */
static void biases_of(const problem *p, int32_t first, int32_t *index)
{
  const int32_t options = p->attributes.k;
  index[0] = options & WITH_ADDITIVE ? first++ : 0;
  index[1] = options & WITH_RELATIVE ? first : 0;
}

/* The gradient of the relative bias from that of the masked scores. */
static int32_t add_relative_gradient(const problem *p, int32_t operand_index, int32_t dscores, int32_t position)
{
  tsr_line_desc *line = line_of(p, TSR_OP_RELATIVE_GRADIENT);
  line->in[0] = dscores, line->in[1] = position;
  line->attributes.buckets = (int32_t)p->x[operand_index].extent[0];
  return line->out[0] = result_like(&p->x[operand_index]);
}

static void build_mask(const problem *p, const int32_t *x, int32_t dy, int32_t *y, int32_t *dx)
{
  int32_t index[2];
  biases_of(p, 1, index);
  const int32_t bias[] = {index[0] ? x[index[0]] : 0, index[1] ? x[index[1]] : 0};
  tsr_line_desc *line = line_of(p, TSR_OP_MASK);
  const int32_t masked = result_like(&p->dy);
  line->in[0] = x[0], line->out[0] = masked;
  add_masking(p, line, 1, bias);
  const int32_t position = line->in[3];
  /* relu's 0 for what is excluded, so that the sum is finite: the mask's own gradient stands before it */
  line = line_of(p, TSR_OP_RELU);
  *y = result_like(&p->dy);
  line->in[0] = masked, line->out[0] = *y;
  const int32_t dmasked = result_like(&p->dy);
  line = line_of(p, TSR_OP_ACTIVATION_GRADIENT);
  line->in[0] = masked, line->in[1] = dy, line->out[0] = dmasked, line->attributes.activation = TSR_ACTIVATION_RELU;
  line = line_of(p, TSR_OP_MASK_GRADIENT);
  dx[0] = result_like(&p->x[0]);
  line->in[0] = masked, line->in[1] = dmasked, line->out[0] = dx[0];
  if (index[0]) {
    dx[index[0]] = dx[0];
  }
  if (index[1]) {
    dx[index[1]] = add_relative_gradient(p, index[1], dx[0], position);
  }
}

static void add_biases(problem *p, int32_t options, const int64_t *scores)
{
  if (options & WITH_ADDITIVE) {
    add(p, 4, scores);
  }
  if (options & WITH_RELATIVE) {
    add(p, EXTENTS(options & WITH_CLAMPED ? 5 : 6, scores[1]));
  }
  p->attributes.k = options;
  p->attributes.causal = (options & WITH_CAUSAL) != 0;
  p->attributes.clamped = (options & WITH_CLAMPED) != 0;
  p->attributes.bidirectional = !p->attributes.causal && !p->attributes.clamped;
  p->attributes.max_distance = p->attributes.clamped ? 2 : 5;
  p->lengths = (options & WITH_LENGTHS) != 0;
  p->position = (options & WITH_POSITION) != 0;
}

static void test_mask(void **state)
{
  (void)state;
  for (int32_t round = 0; round < 2 * WITH_SEED; round += 3) {
    const int32_t options = round < WITH_SEED ? round : (round - WITH_SEED) | WITH_CLAMPED;
    problem p = {.build = build_mask};
    const int64_t scores[] = {2, between(1, 3), between(1, 4), between(2, 7)};
    add(&p, 4, scores);
    add_biases(&p, options, scores);
    for (int64_t i = 0; i < count(&p.x[0]); i++) {
      p.x[0].value[i] = fabsf(p.x[0].value[i]) + 5; /* above 0, whatever is added */
    }
    set_result(&p, 4, scores);
    expect_gradient(&p);
  }
}

static void build_attention(const problem *p, const int32_t *x, int32_t dy, int32_t *y, int32_t *dx)
{
  const operand *q = &p->x[0];
  int32_t index[2];
  biases_of(p, 3, index);
  const int32_t bias[] = {index[0] ? x[index[0]] : 0, index[1] ? x[index[1]] : 0};
  const int64_t L = q->extent[1], H = q->extent[2], S = p->x[1].extent[1];
  const int32_t lse = fixture_result(&f, TSR_F32, EXTENTS(2, H, L));
  const int32_t dscores = fixture_result(&f, TSR_F32, EXTENTS(2, H, L, S));
  tsr_line_desc *line = line_of(p, TSR_OP_ATTENTION);
  *y = result_like(&p->dy);
  line->out[0] = *y, line->out[2] = lse;
  for (int32_t i = 0; i < 3; i++) {
    line->in[i] = x[i];
    dx[i] = result_like(&p->x[i]);
  }
  add_masking(p, line, 3, bias);
  line->in[8] = p->attributes.k & WITH_SEED ? fixture_i32(&f, EXTENTS(2), IDS(99, -3)) : 0;

  tsr_line_desc *gradient = line_of(p, TSR_OP_ATTENTION_GRADIENT);
  memcpy(gradient->in, line->in, 9 * sizeof(*line->in));
  gradient->in[9] = *y, gradient->in[10] = dy, gradient->in[11] = lse;
  memcpy(gradient->out, dx, 3 * sizeof(*dx));
  gradient->out[3] = dscores;
  if (index[0]) {
    dx[index[0]] = dscores;
  }
  if (index[1]) {
    dx[index[1]] = add_relative_gradient(p, index[1], dscores, line->in[5]);
  }
}

static void test_attention(void **state)
{
  (void)state;
  for (int32_t options = 0; options < 2 * WITH_CLAMPED; options += 3) {
    problem p = {.build = build_attention,
                 .attributes = {.alpha = 0.5f, .rate = 0.3f, .stream = options, .softcap = options % 2 ? 1.5f : 0.0f}};
    const int64_t L = between(1, 4), H = between(1, 2), S = between(2, 6), K = between(1, 4), J = between(1, 4);
    add(&p, EXTENTS(2, L, H, K));
    add(&p, EXTENTS(2, S, H, K));
    add(&p, EXTENTS(2, S, H, J));
    add_biases(&p, options, (const int64_t[]){2, H, L, S});
    set_result(&p, EXTENTS(2, L, H, J));
    expect_gradient(&p);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_activations), cmocka_unit_test(test_wrong_gradients_are_seen),
      cmocka_unit_test(test_rows),        cmocka_unit_test(test_norms),
      cmocka_unit_test(test_loss),        cmocka_unit_test(test_scatter),
      cmocka_unit_test(test_mask),        cmocka_unit_test(test_attention),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

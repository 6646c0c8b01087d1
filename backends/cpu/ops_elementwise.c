/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators on one element at a time, their gradients, and the activations of other operators.
 */
#include "dropout.h"
#include "rows.h"

/* ---- activations ----------------------------------------------------------------------------------------------- */

/* erf(z), off by at most about one unit of 1: z P(z^2) / Q(z^2), fitted to erf in the largest error over 0 .. 3.95;
 * beyond, erf is 1 in f32. All coefficients are positive, so that nothing cancels. */
static inline cpu_f32v erf_of(cpu_f32v z)
{
  const cpu_f32v limit = cpu_splat(3.95f);
  z = cpu_max(-limit, cpu_min(limit, z)); /* NaN stays */
  const cpu_f32v s = z * z;
  cpu_f32v p = cpu_splat(2.011595961918749e-06f), q = cpu_splat(3.783616521420814e-05f);
  p = cpu_fma(p, s, cpu_splat(0.00028756271919698815f));
  q = cpu_fma(q, s, cpu_splat(0.0011979780789130613f));
  p = cpu_fma(p, s, cpu_splat(0.003916571373851364f));
  q = cpu_fma(q, s, cpu_splat(0.015269262599831883f));
  p = cpu_fma(p, s, cpu_splat(0.05320478921636898f));
  q = cpu_fma(q, s, cpu_splat(0.11558443648789973f));
  p = cpu_fma(p, s, cpu_splat(0.19402122387271964f));
  q = cpu_fma(q, s, cpu_splat(0.5052783315251295f));
  p = cpu_fma(p, s, cpu_splat(1.1283790073776385f));
  q = cpu_fma(q, s, cpu_splat(1.0f));
  return z * p / q;
}

/* 1 / (1 + exp(-w)) */
static inline cpu_f32v sigmoid(cpu_f32v w)
{
  const cpu_f32v zero = cpu_splat(0.0f), one = cpu_splat(1.0f), e = cpu_exp(-cpu_abs(w));
  return cpu_select(w < zero, e, one) / (one + e);
}

/* x times a factor that is 0 far below 0: there the product is 0 too, not -inf times 0. */
static inline cpu_f32v gated(cpu_f32v x, cpu_f32v factor)
{
  return cpu_select(factor == cpu_splat(0.0f), cpu_splat(0.0f), x * factor);
}

static inline cpu_f32v activated(int32_t activation, cpu_f32v x)
{
  const cpu_f32v zero = cpu_splat(0.0f), half = cpu_splat(0.5f);
  switch (activation) {
  case TSR_ACTIVATION_RELU:
    return cpu_select(x < zero, zero, x); /* NaN stays */
  case TSR_ACTIVATION_GELU_ERF: {
    /* Below -5.6 the factor is less than a quarter of a unit of 1. */
    const cpu_f32v factor = cpu_fma(erf_of(x * cpu_splat((float)M_SQRT1_2)), half, half);
    return gated(x, cpu_select(x < cpu_splat(-5.6f), zero, factor));
  }
  case TSR_ACTIVATION_GELU_TANH: {
    /* (1 + tanh(z)) / 2 = 1 / (1 + exp(-2 z)) */
    const cpu_f32v cubic = cpu_fma(x * x * x, cpu_splat(0.044715f), x);
    return gated(x, sigmoid(cubic * cpu_splat(1.5957691216057308f))); /* 2 sqrt(2 / pi) */
  }
  case TSR_ACTIVATION_SILU:
    return gated(x, sigmoid(x));
  default:
    return x;
  }
}

/* Inlined once per activation, so that none asks per element. */
static inline void activate_all(int32_t activation, const float *x, float *y, int64_t n)
{
  int64_t i = 0;
  for (; i + CPU_LANES <= n; i += CPU_LANES) {
    cpu_store(y + i, activated(activation, cpu_load(x + i)));
  }
  if (i < n) {
    cpu_store_part(y + i, activated(activation, cpu_load_part(x + i, n - i, 0.0f)), n - i);
  }
}

static void activate(int32_t activation, const float *x, float *y, int64_t n)
{
  switch (activation) {
  case TSR_ACTIVATION_RELU:
    activate_all(TSR_ACTIVATION_RELU, x, y, n);
    break;
  case TSR_ACTIVATION_GELU_ERF:
    activate_all(TSR_ACTIVATION_GELU_ERF, x, y, n);
    break;
  case TSR_ACTIVATION_GELU_TANH:
    activate_all(TSR_ACTIVATION_GELU_TANH, x, y, n);
    break;
  case TSR_ACTIVATION_SILU:
    activate_all(TSR_ACTIVATION_SILU, x, y, n);
    break;
  default:
    break;
  }
}

void cpu_activate_row(int32_t activation, float *y, int64_t n)
{
  activate(activation, y, y, n);
}

typedef struct activation_work {
  const float *x;
  float *y;
  int64_t x_stride;
  int32_t activation;
  int32_t drops; /* 1: the results are dropped out */
  cpu_dropout dropout;
} activation_work;

enum { PART = 512 }; /* of a run, where what is computed of it is needed again */

static void activate_run(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  const activation_work *work = context;
  const int64_t whole = work->drops ? PART : n;
  for (int64_t i = 0; i < n; i += whole) {
    const int64_t part = n - i < whole ? n - i : whole;
    float *y = work->y + at[1] + i;
    activate(work->activation, cpu_side_by_side(work->x + at[0] + i * work->x_stride, work->x_stride, part, y), y,
             part);
    if (work->drops) {
      cpu_dropout_row(&work->dropout, (uint64_t)(at[1] + i), y, part, y);
    }
  }
}

void cpu_run_activation(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *y = &line->out[0];
  const cpu_walk walk = cpu_walk_of((const cpu_tensor *const[]){x, y}, 2);
  activation_work work = {.x = x->data, .y = y->data, .x_stride = walk.stride[0][0]};
  work.activation = line->op == TSR_OP_RELU   ? TSR_ACTIVATION_RELU
                    : line->op == TSR_OP_SILU ? TSR_ACTIVATION_SILU
                                              : line->attributes.activation;
  if (cpu_present(&line->in[CPU_IN_ACTIVATION_SEED])) {
    work.drops = 1;
    work.dropout = cpu_dropout_of(&line->in[CPU_IN_ACTIVATION_SEED], &line->attributes);
  }
  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && walk.stride[1][0] == 1);
  cpu_walk_all(&walk, team, (work.activation == TSR_ACTIVATION_RELU ? 4.0 : 40.0) / CPU_LANES, activate_run, &work);
}

/* ---- gradients of activations ---------------------------------------------------------------------------------- */

/* x within limits beyond which the slope is 0 or 1 in f32: at infinities nothing is multiplied with 0. NaN stays. */
static inline cpu_f32v bounded(cpu_f32v x, float limit)
{
  return cpu_max(cpu_splat(-limit), cpu_min(cpu_splat(limit), x));
}

/* s + z s (1 - s) times `inner`, s = 1 / (1 + exp(-w)): the slope of z s, where w has the slope inner / 1. */
static inline cpu_f32v slope_of_gated(cpu_f32v z, cpu_f32v w, cpu_f32v inner)
{
  const cpu_f32v zero = cpu_splat(0.0f), one = cpu_splat(1.0f), e = cpu_exp(-cpu_abs(w)), part = one / (one + e);
  return cpu_fma(z * inner, e * part * part, cpu_select(w < zero, e, one) * part);
}

static inline cpu_f32v slope_of(int32_t activation, cpu_f32v x)
{
  const cpu_f32v zero = cpu_splat(0.0f), one = cpu_splat(1.0f), half = cpu_splat(0.5f);
  switch (activation) {
  case TSR_ACTIVATION_RELU:
    return cpu_select(x > zero, one, cpu_select(cpu_is_nan(x), x, zero));
  case TSR_ACTIVATION_GELU_ERF: {
    const cpu_f32v z = bounded(x, 13.5f), share = cpu_fma(erf_of(z * cpu_splat((float)M_SQRT1_2)), half, half);
    const cpu_f32v density = cpu_exp(z * z * -half) * cpu_splat(0.3989422804014327f);
    return cpu_fma(z, density, cpu_select(z < cpu_splat(-5.6f), zero, share));
  }
  case TSR_ACTIVATION_GELU_TANH: {
    const cpu_f32v z = bounded(x, 10.1f), square = z * z, twice_root = cpu_splat(1.5957691216057308f);
    const cpu_f32v w = cpu_fma(z * square, cpu_splat(0.044715f), z) * twice_root;
    return slope_of_gated(z, w, cpu_fma(square, cpu_splat(3 * 0.044715f), one) * twice_root);
  }
  default: {
    const cpu_f32v z = bounded(x, 90.0f);
    return slope_of_gated(z, z, one);
  }
  }
}

/* Where the slope is 0 whatever dy is makes no difference. */
static inline cpu_f32v sloped(int32_t activation, cpu_f32v x, cpu_f32v dy)
{
  const cpu_f32v slope = slope_of(activation, x), zero = cpu_splat(0.0f);
  return cpu_select(slope == zero, zero, slope * dy);
}

static inline void slope_all(int32_t activation, const float *x, const float *dy, float *dx, int64_t n)
{
  int64_t i = 0;
  for (; i + CPU_LANES <= n; i += CPU_LANES) {
    cpu_store(dx + i, sloped(activation, cpu_load(x + i), cpu_load(dy + i)));
  }
  if (i < n) {
    const int64_t rest = n - i;
    cpu_store_part(dx + i, sloped(activation, cpu_load_part(x + i, rest, 0.0f), cpu_load_part(dy + i, rest, 0.0f)),
                   rest);
  }
}

typedef struct slope_work {
  const float *x, *dy;
  float *dx;
  int64_t x_stride, dy_stride;
  int32_t activation;
  int32_t drops; /* 1: dy is dropped out first */
  cpu_dropout dropout;
} slope_work;

static void slope_run(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  const slope_work *work = context;
  float x_room[PART], dy_room[PART];
  for (int64_t i = 0; i < n; i += PART) {
    const int64_t part = n - i < PART ? n - i : PART;
    const float *x = cpu_side_by_side(work->x + at[0] + i * work->x_stride, work->x_stride, part, x_room);
    const float *dy = cpu_side_by_side(work->dy + at[1] + i * work->dy_stride, work->dy_stride, part, dy_room);
    float *dx = work->dx + at[2] + i;
    if (work->drops) {
      cpu_dropout_row(&work->dropout, (uint64_t)(at[2] + i), dy, part, dy_room);
      dy = dy_room;
    }
    switch (work->activation) {
    case TSR_ACTIVATION_RELU:
      slope_all(TSR_ACTIVATION_RELU, x, dy, dx, part);
      break;
    case TSR_ACTIVATION_GELU_ERF:
      slope_all(TSR_ACTIVATION_GELU_ERF, x, dy, dx, part);
      break;
    case TSR_ACTIVATION_GELU_TANH:
      slope_all(TSR_ACTIVATION_GELU_TANH, x, dy, dx, part);
      break;
    default:
      slope_all(TSR_ACTIVATION_SILU, x, dy, dx, part);
    }
  }
}

void cpu_run_activation_gradient(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *dy = &line->in[1], *dx = &line->out[0];
  const cpu_walk walk = cpu_walk_of((const cpu_tensor *const[]){x, dy, dx}, 3);
  slope_work work = {.x = x->data,
                     .dy = dy->data,
                     .dx = dx->data,
                     .x_stride = walk.stride[0][0],
                     .dy_stride = walk.stride[1][0],
                     .activation = line->attributes.activation};
  if (cpu_present(&line->in[CPU_IN_SLOPE_SEED])) {
    work.drops = 1;
    work.dropout = cpu_dropout_of(&line->in[CPU_IN_SLOPE_SEED], &line->attributes);
  }
  assert(x->dtype == TSR_F32 && dy->dtype == TSR_F32 && dx->dtype == TSR_F32 && walk.stride[2][0] == 1);
  assert(work.activation > TSR_ACTIVATION_NONE && work.activation <= TSR_ACTIVATION_SILU);
  cpu_walk_all(&walk, team, (work.activation == TSR_ACTIVATION_RELU ? 5.0 : 60.0) / CPU_LANES, slope_run, &work);
}

/* ---- add, mul -------------------------------------------------------------------------------------------------- */

typedef struct binary_work {
  const void *a, *b;
  void *y;
  int64_t a_stride, b_stride;
} binary_work;

static inline cpu_f32v combined(int32_t op, cpu_f32v a, cpu_f32v b)
{
  return op == TSR_OP_ADD ? a + b : a * b;
}

/* Integers wrap around: unsigned arithmetic does. */
static inline cpu_i32v combined_i32(int32_t op, cpu_i32v a, cpu_i32v b)
{
  const cpu_u32v ua = (cpu_u32v)a, ub = (cpu_u32v)b;
  return (cpu_i32v)(op == TSR_OP_ADD ? ua + ub : ua * ub);
}

/* stride 0 or 1 */
static inline cpu_f32v load_some(const float *p, int64_t stride, int64_t i)
{
  return stride ? cpu_load(p + i) : cpu_splat(p[0]);
}

static inline cpu_f32v load_last(const float *p, int64_t stride, int64_t i, int64_t n)
{
  return stride ? cpu_load_part(p + i, n, 0.0f) : cpu_splat(p[0]);
}

static inline void combine_f32(int32_t op, const float *a, int64_t a_stride, const float *b, int64_t b_stride, float *y,
                               int64_t n)
{
  int64_t i = 0;
  for (; i + CPU_LANES <= n; i += CPU_LANES) {
    cpu_store(y + i, combined(op, load_some(a, a_stride, i), load_some(b, b_stride, i)));
  }
  if (i < n) {
    const int64_t rest = n - i;
    cpu_store_part(y + i, combined(op, load_last(a, a_stride, i, rest), load_last(b, b_stride, i, rest)), rest);
  }
}

static inline void run_f32(int32_t op, const binary_work *work, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  const float *a = (const float *)work->a + at[0], *b = (const float *)work->b + at[1];
  float *y = (float *)work->y + at[2];
  const int64_t a_stride = work->a_stride, b_stride = work->b_stride;
  if (a_stride == 1 && b_stride == 1) {
    combine_f32(op, a, 1, b, 1, y, n);
  } else if (a_stride == 1 && b_stride == 0) {
    combine_f32(op, a, 1, b, 0, y, n);
  } else if (a_stride == 0 && b_stride == 1) {
    combine_f32(op, a, 0, b, 1, y, n);
  } else {
    for (int64_t i = 0; i < n; i++) {
      y[i] = op == TSR_OP_ADD ? a[i * a_stride] + b[i * b_stride] : a[i * a_stride] * b[i * b_stride];
    }
  }
}

static inline void run_i32(int32_t op, const binary_work *work, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  const int32_t *a = (const int32_t *)work->a + at[0], *b = (const int32_t *)work->b + at[1];
  int32_t *y = (int32_t *)work->y + at[2];
  const int64_t a_stride = work->a_stride, b_stride = work->b_stride;
  int64_t i = 0;
  if (a_stride == 1 && b_stride == 1) {
    for (; i + CPU_LANES <= n; i += CPU_LANES) {
      cpu_store_i32(y + i, combined_i32(op, cpu_load_i32(a + i), cpu_load_i32(b + i)));
    }
  }
  for (; i < n; i++) {
    const uint32_t ai = (uint32_t)a[i * a_stride], bi = (uint32_t)b[i * b_stride];
    y[i] = (int32_t)(op == TSR_OP_ADD ? ai + bi : ai * bi);
  }
}

static void add_run(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  run_f32(TSR_OP_ADD, context, at, n);
}

static void add_run_i32(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  run_i32(TSR_OP_ADD, context, at, n);
}

static void mul_run(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  run_f32(TSR_OP_MUL, context, at, n);
}

static void mul_run_i32(const void *context, const int64_t at[CPU_WALK_TENSORS], int64_t n)
{
  run_i32(TSR_OP_MUL, context, at, n);
}

static void combine(const cpu_line *line, cpu_team *team, cpu_run_body of_f32, cpu_run_body of_i32)
{
  const cpu_tensor *a = &line->in[0], *b = &line->in[1], *y = &line->out[0];
  const cpu_walk walk = cpu_walk_of((const cpu_tensor *const[]){a, b, y}, 3);
  const binary_work work = {
      .a = a->data, .b = b->data, .y = y->data, .a_stride = walk.stride[0][0], .b_stride = walk.stride[1][0]};
  assert(a->dtype == y->dtype && b->dtype == y->dtype && walk.stride[2][0] == 1);
  cpu_walk_all(&walk, team, 5.0 / CPU_LANES, y->dtype == TSR_I32 ? of_i32 : of_f32, &work);
}

void cpu_run_add(const cpu_line *line, cpu_team *team)
{
  combine(line, team, add_run, add_run_i32);
}

void cpu_run_mul(const cpu_line *line, cpu_team *team)
{
  combine(line, team, mul_run, mul_run_i32);
}

/* ---- storage types --------------------------------------------------------------------------------------------- */

static inline cpu_f32v widened(int32_t dtype, const uint16_t *from)
{
  return dtype == TSR_F16 ? cpu_load_f16(from) : cpu_load_bf16(from);
}

static inline void widen_halves(int32_t dtype, const uint16_t *from, int64_t stride, int64_t n, float *to)
{
  int64_t i = 0;
  for (; stride == 1 && i + CPU_LANES <= n; i += CPU_LANES) {
    cpu_store(to + i, widened(dtype, from + i));
  }
  while (i < n) {
    uint16_t part[CPU_LANES] = {0};
    const int64_t rest = n - i < CPU_LANES ? n - i : CPU_LANES;
    for (int64_t j = 0; j < rest; j++) {
      part[j] = from[(i + j) * stride];
    }
    cpu_store_part(to + i, widened(dtype, part), rest);
    i += rest;
  }
}

void cpu_widen_row(int32_t dtype, const void *from, int64_t stride, int64_t n, float *to)
{
  switch (dtype) {
  case TSR_F16:
    widen_halves(TSR_F16, from, stride, n, to);
    break;
  case TSR_BF16:
    widen_halves(TSR_BF16, from, stride, n, to);
    break;
  case TSR_I8:
    for (int64_t i = 0; i < n; i++) {
      to[i] = ((const int8_t *)from)[i * stride];
    }
    break;
  default:
    cpu_copy_run(from, stride, to, 1, n, sizeof *to);
  }
}

/* ---- rotate ------------------------------------------------------------------------------------------------------ */

/* Pairs of a row, which lie side by side. */
static void rotate_run(const float *x, const float *turns, float alpha, int64_t half, float *y)
{
  for (int64_t i = 0; i < half; i += CPU_LANES) {
    const int64_t part = half - i < CPU_LANES ? half - i : CPU_LANES;
    const cpu_f32v first = cpu_load_part(x + i, part, 0.0f), second = cpu_load_part(x + half + i, part, 0.0f);
    const cpu_f32v cosine = cpu_load_part(turns + i, part, 0.0f);
    const cpu_f32v sine = cpu_load_part(turns + half + i, part, 0.0f) * cpu_splat(alpha);
    cpu_store_part(y + i, first * cosine - second * sine, part);
    cpu_store_part(y + half + i, second * cosine + first * sine, part);
  }
}

static void rotate_rows(const cpu_line *line, int64_t first, int64_t last, void *scratch)
{
  const cpu_tensor *x = &line->in[0], *turns = &line->in[1], *y = &line->out[0];
  const int32_t axes = y->rank - 1;
  const cpu_row_map x_map = cpu_row_map_of(x, axes), map = cpu_row_map_of(turns, axes);
  const int64_t n = cpu_row_length(y);
  float *room = scratch;

  for (int64_t row = first; row < last; row++) {
    const float *from = (const float *)x->data + cpu_row_at(&x_map, row);
    const float *by = (const float *)turns->data + cpu_row_at(&map, row);
    rotate_run(cpu_side_by_side(from, x->stride[axes], n, room), cpu_side_by_side(by, turns->stride[axes], n, room + n),
               line->attributes.alpha, n / 2, (float *)y->data + row * n);
  }
}

int32_t cpu_prepare_rotate(cpu_line *line, cpu_preparation *preparation)
{
  cpu_ask_scratch(preparation, 2 * (uint64_t)cpu_row_length(&line->out[0]) * sizeof(float));
  return TSR_OK;
}

void cpu_run_rotate(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *turns = &line->in[1], *y = &line->out[0];
  assert(x->dtype == TSR_F32 && turns->dtype == TSR_F32 && y->rank >= 1 && cpu_row_length(y) % 2 == 0);
  assert(x->rank == y->rank && turns->rank == y->rank);
  cpu_run_rows(line, team, cpu_rows(y), 10.0 + 8.0 * (double)cpu_row_length(y) / CPU_LANES, rotate_rows);
}

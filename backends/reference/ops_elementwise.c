/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators on one element at a time, or on pairs, and the gradients of the activations.
 */
#include "kernel.h"

/* gelu and silu are x times a factor that falls to 0 faster than x grows: at -inf the product is 0, not NaN. */
static double gelu_erf(double x)
{
  return x == -INFINITY ? 0.0 : x / 2 * erfc(-x * M_SQRT1_2); /* 1 + erf(z) = erfc(-z) */
}

static double gelu_tanh(double x)
{
  const double z = sqrt(2 * M_1_PI) * (x + 0.044715 * x * x * x);
  return x == -INFINITY ? 0.0 : x / (1 + exp(-2 * z)); /* (1 + tanh(z)) / 2 = 1 / (1 + exp(-2 z)) */
}

static double silu(double x)
{
  return x == -INFINITY ? 0.0 : x / (1 + exp(-x));
}

double ref_activate(int32_t activation, double x)
{
  switch (activation) {
  case TSR_ACTIVATION_RELU:
    return x < 0 ? 0.0 : x; /* NaN stays */
  case TSR_ACTIVATION_GELU_ERF:
    return gelu_erf(x);
  case TSR_ACTIVATION_GELU_TANH:
    return gelu_tanh(x);
  case TSR_ACTIVATION_SILU:
    return silu(x);
  default:
    return x;
  }
}

static void activate(const ref_line *line, int32_t activation)
{
  const ref_tensor *x = &line->in[0], *y = &line->out[0];

  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && ref_same_extents(x, y));

  for (int64_t row = 0; row < ref_rows(y); row++) {
    const int64_t x_at = ref_row(x, row), y_at = ref_row(y, row);
    for (int64_t i = 0; i < ref_row_length(y); i++) {
      ref_set_f32(y, y_at + i * ref_row_stride(y), ref_activate(activation, ref_f32(x, x_at + i * ref_row_stride(x))));
    }
  }
}

void ref_relu(const ref_line *line)
{
  activate(line, TSR_ACTIVATION_RELU);
}

void ref_gelu(const ref_line *line)
{
  assert(line->attributes.activation == TSR_ACTIVATION_GELU_ERF ||
         line->attributes.activation == TSR_ACTIVATION_GELU_TANH);
  activate(line, line->attributes.activation);
}

void ref_silu(const ref_line *line)
{
  activate(line, TSR_ACTIVATION_SILU);
}

/* Integers wrap around: unsigned arithmetic does. */
static double add_f32(double a, double b)
{
  return a + b;
}

static uint32_t add_i32(uint32_t a, uint32_t b)
{
  return a + b;
}

static double mul_f32(double a, double b)
{
  return a * b;
}

static uint32_t mul_i32(uint32_t a, uint32_t b)
{
  return a * b;
}

static void combine(const ref_line *line, double (*of_f32)(double, double), uint32_t (*of_i32)(uint32_t, uint32_t))
{
  const ref_tensor *a = &line->in[0], *b = &line->in[1], *y = &line->out[0];

  assert(a->dtype == y->dtype && b->dtype == y->dtype);
  assert(ref_same_extents(a, y) && ref_same_extents(b, y));

  for (int64_t row = 0; row < ref_rows(y); row++) {
    const int64_t a_at = ref_row(a, row), b_at = ref_row(b, row), y_at = ref_row(y, row);
    for (int64_t i = 0; i < ref_row_length(y); i++) {
      const int64_t a_i = a_at + i * ref_row_stride(a), b_i = b_at + i * ref_row_stride(b);
      const int64_t y_i = y_at + i * ref_row_stride(y);
      if (y->dtype == TSR_I32) {
        ref_set_i32(y, y_i, (int32_t)of_i32((uint32_t)ref_i32(a, a_i), (uint32_t)ref_i32(b, b_i)));
      } else {
        ref_set_f32(y, y_i, of_f32(ref_f32(a, a_i), ref_f32(b, b_i)));
      }
    }
  }
}

void ref_add(const ref_line *line)
{
  combine(line, add_f32, add_i32);
}

void ref_mul(const ref_line *line)
{
  combine(line, mul_f32, mul_i32);
}

/* Phi(x) + x phi(x), Phi and phi the normal distribution and its density. */
static double gelu_erf_slope(double x)
{
  return erfc(-x * M_SQRT1_2) / 2 + x * exp(-x * x / 2) * M_SQRT1_2 * M_2_SQRTPI / 2;
}

/* Of x s(2 z), s the logistic function: s + x s (1 - s) 2 z'; 1 - s(t) = s(-t). */
static double gelu_tanh_slope(double x)
{
  const double root = sqrt(2 * M_1_PI), z = root * (x + 0.044715 * x * x * x);
  const double s = 1 / (1 + exp(-2 * z)), rest = 1 / (1 + exp(2 * z));
  return s + x * s * rest * 2 * root * (1 + 3 * 0.044715 * x * x);
}

static double silu_slope(double x)
{
  const double s = 1 / (1 + exp(-x)), rest = 1 / (1 + exp(x));
  return s + x * s * rest;
}

static double slope(int32_t activation, double x)
{
  if (isnan(x) || isinf(x)) {
    return isnan(x) ? x : x > 0;
  }
  switch (activation) {
  case TSR_ACTIVATION_RELU:
    return x > 0;
  case TSR_ACTIVATION_GELU_ERF:
    return gelu_erf_slope(x);
  case TSR_ACTIVATION_GELU_TANH:
    return gelu_tanh_slope(x);
  default:
    return silu_slope(x);
  }
}

void ref_activation_gradient(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *dy = &line->in[1], *dx = &line->out[0];

  assert(x->dtype == TSR_F32 && ref_same_extents(x, dy) && ref_same_extents(x, dx));
  assert(line->attributes.activation > TSR_ACTIVATION_NONE && line->attributes.activation <= TSR_ACTIVATION_SILU);

  for (int64_t e = 0; e < ref_count(dx, dx->rank); e++) {
    const double dye = ref_f32(dy, ref_at(dy, dy->rank, e));
    const double by = slope(line->attributes.activation, ref_f32(x, ref_at(x, x->rank, e)));
    ref_set_f32(dx, ref_at(dx, dx->rank, e), by == 0 ? 0.0 : dye * by);
  }
}

void ref_rotate(const ref_line *line)
{
  const ref_tensor *x = &line->in[0], *turns = &line->in[1], *y = &line->out[0];
  const int64_t half = ref_row_length(y) / 2, x_step = ref_row_stride(x), step = ref_row_stride(turns);
  const double alpha = line->attributes.alpha;

  assert(x->dtype == TSR_F32 && turns->dtype == TSR_F32 && ref_row_length(y) % 2 == 0);
  assert(ref_same_extents(x, y) && ref_same_extents(turns, y));

  for (int64_t row = 0; row < ref_rows(y); row++) {
    const int64_t x_at = ref_row(x, row), at = ref_row(turns, row), y_at = ref_row(y, row);
    for (int64_t i = 0; i < half; i++) {
      const double first = ref_f32(x, x_at + i * x_step), second = ref_f32(x, x_at + (half + i) * x_step);
      const double cosine = ref_f32(turns, at + i * step), sine = alpha * ref_f32(turns, at + (half + i) * step);
      ref_set_f32(y, y_at + i * ref_row_stride(y), first * cosine - second * sine);
      ref_set_f32(y, y_at + (half + i) * ref_row_stride(y), second * cosine + first * sine);
    }
  }
}

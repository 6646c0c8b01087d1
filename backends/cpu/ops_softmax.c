/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax, log_softmax, their gradients, and cross-entropy, along the last axis. An element that is +inf or NaN makes
 * the sum of exponentials NaN, and that every result: +inf because it is the maximum, from which it cannot be
 * subtracted.
 */
#include "rows.h"

/* The largest of z, NaN left out; -inf of nothing. */
static float largest(const float *z, int64_t n)
{
  const cpu_f32v lowest = cpu_splat(-INFINITY);
  cpu_f32v m0 = lowest, m1 = lowest, m2 = lowest, m3 = lowest;
  int64_t i = 0;
  for (; i + 4 * CPU_LANES <= n; i += 4 * CPU_LANES) {
    m0 = cpu_max(cpu_load(z + i), m0);
    m1 = cpu_max(cpu_load(z + i + CPU_LANES), m1);
    m2 = cpu_max(cpu_load(z + i + 2 * CPU_LANES), m2);
    m3 = cpu_max(cpu_load(z + i + 3 * CPU_LANES), m3);
  }
  for (; i + CPU_LANES <= n; i += CPU_LANES) {
    m0 = cpu_max(cpu_load(z + i), m0);
  }
  if (i < n) {
    m1 = cpu_max(cpu_load_part(z + i, n - i, -INFINITY), m1);
  }
  return cpu_largest(cpu_max(cpu_max(m0, m1), cpu_max(m2, m3)));
}

/* For rows whose largest element is -inf: whether there is a NaN beside. */
static int holds_nan(const float *z, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    if (isnan(z[i])) {
      return 1;
    }
  }
  return 0;
}

static void fill(float *y, int64_t n, float value)
{
  for (int64_t i = 0; i < n; i++) {
    y[i] = value;
  }
}

/* sum exp(z - max); the terms go to y if there is one, the sum of z - max to *distance, and n elements from `ahead` on
 * are fetched meanwhile. Inlined for each of these. */
static inline float sum_of_exponentials(const float *z, int64_t n, float max, float *y, float *distance,
                                        const float *ahead)
{
  const cpu_f32v shift = cpu_splat(max), zero = cpu_splat(0.0f);
  cpu_f32v s0 = zero, s1 = zero, d0 = zero, d1 = zero;
  int64_t i = 0;
  for (; i + 2 * CPU_LANES <= n; i += 2 * CPU_LANES) {
    const cpu_f32v z0 = cpu_load(z + i) - shift, z1 = cpu_load(z + i + CPU_LANES) - shift;
    const cpu_f32v e0 = cpu_exp(z0), e1 = cpu_exp(z1);
    s0 += e0;
    s1 += e1;
    if (y) {
      cpu_store(y + i, e0);
      cpu_store(y + i + CPU_LANES, e1);
    }
    if (distance) {
      d0 += z0;
      d1 += z1;
    }
    for (int j = 0; ahead && j < 2 * CPU_LANES; j += 16) {
      __builtin_prefetch(ahead + i + j);
    }
  }
  while (i < n) {
    const int64_t rest = n - i < CPU_LANES ? n - i : CPU_LANES;
    const cpu_f32v zi = cpu_load_part(z + i, rest, -INFINITY) - shift, e = cpu_exp(zi);
    s0 += e;
    if (y) {
      cpu_store_part(y + i, e, rest);
    }
    if (distance) {
      d0 += cpu_select(cpu_first_lanes(rest), zi, zero);
    }
    i += rest;
  }
  if (distance) {
    *distance = cpu_sum(d0 + d1);
  }
  return cpu_sum(s0 + s1);
}

static void scale(float *y, int64_t n, float factor)
{
  const cpu_f32v by = cpu_splat(factor);
  int64_t i = 0;
  for (; i + CPU_LANES <= n; i += CPU_LANES) {
    cpu_store(y + i, cpu_load(y + i) * by);
  }
  for (; i < n; i++) {
    y[i] *= factor;
  }
}

/* z may be y. */
static void softmax_row(const float *z, int64_t n, float *y)
{
  const float max = largest(z, n);
  if (max == -INFINITY) {
    fill(y, n, holds_nan(z, n) ? NAN : 0.0f);
    return;
  }
  scale(y, n, 1.0f / sum_of_exponentials(z, n, max, y, NULL, NULL));
}

/* z = x + mask; -inf in either excludes, whatever the other is. */
static void add_mask(const float *x, const float *mask, int64_t n, float *z)
{
  const cpu_f32v excluded = cpu_splat(-INFINITY);
  for (int64_t i = 0; i < n; i += CPU_LANES) {
    const int64_t rest = n - i < CPU_LANES ? n - i : CPU_LANES;
    const cpu_f32v xi = rest == CPU_LANES ? cpu_load(x + i) : cpu_load_part(x + i, rest, 0.0f);
    const cpu_f32v mi = rest == CPU_LANES ? cpu_load(mask + i) : cpu_load_part(mask + i, rest, 0.0f);
    const cpu_f32v zi = cpu_select((xi == excluded) | (mi == excluded), excluded, xi + mi);
    if (rest == CPU_LANES) {
      cpu_store(z + i, zi);
    } else {
      cpu_store_part(z + i, zi, rest);
    }
  }
}

static void softmax_rows(const cpu_line *line, int64_t first, int64_t last, void *scratch)
{
  const cpu_tensor *x = &line->in[0], *mask = &line->in[1], *y = &line->out[0];
  const cpu_row_map x_rows = cpu_row_map_of(x, cpu_last(x)), mask_rows = cpu_row_map_of(mask, cpu_last(mask));
  const int64_t N = cpu_row_length(x);
  float *x_room = scratch, *mask_room = x_room + cpu_room(N);

  for (int64_t row = first; row < last; row++) {
    float *to = (float *)y->data + row * N;
    const float *z = cpu_side_by_side((const float *)x->data + cpu_row_at(&x_rows, row), cpu_row_stride(x), N, x_room);
    if (cpu_present(mask)) {
      const float *from = (const float *)mask->data + cpu_row_at(&mask_rows, row);
      add_mask(z, cpu_side_by_side(from, cpu_row_stride(mask), N, mask_room), N, to);
      z = to;
    }
    softmax_row(z, N, to);
  }
}

void cpu_run_softmax(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *mask = &line->in[1], *y = &line->out[0];
  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && cpu_row_length(y) == cpu_row_length(x));
  assert(!cpu_present(mask) || (mask->dtype == TSR_F32 && mask->rank == x->rank));
  cpu_run_rows(line, team, cpu_rows(y), 30.0 + 30.0 * (double)cpu_row_length(x) / CPU_LANES, softmax_rows);
}

static void log_softmax_row(const float *z, int64_t n, float *y)
{
  const float max = largest(z, n);
  if (max == -INFINITY) {
    fill(y, n, holds_nan(z, n) ? NAN : -INFINITY);
    return;
  }
  const float logarithm = (float)log((double)sum_of_exponentials(z, n, max, NULL, NULL, NULL));
  int64_t i = 0;
  for (; i + CPU_LANES <= n; i += CPU_LANES) {
    cpu_store(y + i, cpu_load(z + i) - cpu_splat(max) - cpu_splat(logarithm));
  }
  for (; i < n; i++) {
    y[i] = z[i] - max - logarithm;
  }
}

static void log_softmax_rows(const cpu_line *line, int64_t first, int64_t last, void *scratch)
{
  const cpu_tensor *x = &line->in[0], *y = &line->out[0];
  const cpu_row_map x_rows = cpu_row_map_of(x, cpu_last(x));
  const int64_t N = cpu_row_length(x);

  for (int64_t row = first; row < last; row++) {
    const float *from = (const float *)x->data + cpu_row_at(&x_rows, row);
    log_softmax_row(cpu_side_by_side(from, cpu_row_stride(x), N, scratch), N, (float *)y->data + row * N);
  }
}

void cpu_run_log_softmax(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *y = &line->out[0];
  assert(x->dtype == TSR_F32 && y->dtype == TSR_F32 && cpu_row_length(y) == cpu_row_length(x));
  cpu_run_rows(line, team, cpu_rows(y), 60.0 + 30.0 * (double)cpu_row_length(x) / CPU_LANES, log_softmax_rows);
}

/* ---- gradients of softmax and log_softmax
 * -------------------------------------------------------------------------- */

/* exp of what may be large, too: from where f32 ends on, infinity. cpu_exp ends at 127.5 ln 2, where the power of
 * two in it does; exp(x - 1) e goes on to the end. There x - 1 is exact. */
static inline cpu_f32v exp_of_any(cpu_f32v x)
{
  const cpu_f32v one = cpu_splat(1.0f), bounded = cpu_min(cpu_splat(89.0f), x); /* NaN stays */
  const cpu_i32v large = bounded > cpu_splat(88.0f);
  return cpu_exp(bounded - cpu_select(large, one, cpu_splat(0.0f))) * cpu_select(large, cpu_splat(0x1.5bf0a8p1f), one);
}

/* sum of a, or of a * b. */
static inline float sum_of_products(const float *a, const float *b, int64_t n)
{
  cpu_f32v s[4] = {cpu_splat(0.0f), cpu_splat(0.0f), cpu_splat(0.0f), cpu_splat(0.0f)};
  int64_t i = 0;
  for (; i + 4 * CPU_LANES <= n; i += 4 * CPU_LANES) {
    for (int j = 0; j < 4; j++) {
      const cpu_f32v ai = cpu_load(a + i + j * CPU_LANES);
      s[j] = b ? cpu_fma(ai, cpu_load(b + i + j * CPU_LANES), s[j]) : s[j] + ai;
    }
  }
  for (; i < n; i += CPU_LANES) {
    const int64_t rest = n - i < CPU_LANES ? n - i : CPU_LANES;
    const cpu_f32v ai = cpu_load_part(a + i, rest, 0.0f);
    s[0] = b ? cpu_fma(ai, cpu_load_part(b + i, rest, 0.0f), s[0]) : s[0] + ai;
  }
  return cpu_sum((s[0] + s[1]) + (s[2] + s[3]));
}

static inline cpu_f32v softmax_slope(int32_t op, cpu_f32v y, cpu_f32v dy, cpu_f32v sum)
{
  const cpu_f32v zero = cpu_splat(0.0f);
  return op == TSR_OP_SOFTMAX_GRADIENT ? cpu_select(y == zero, zero, y * (dy - sum)) : dy - exp_of_any(y) * sum;
}

static inline void softmax_gradient_row(int32_t op, const float *y, const float *dy, int64_t n, float *dx)
{
  const cpu_f32v sum =
      cpu_splat(op == TSR_OP_SOFTMAX_GRADIENT ? sum_of_products(y, dy, n) : sum_of_products(dy, NULL, n));
  int64_t i = 0;
  for (; i + CPU_LANES <= n; i += CPU_LANES) {
    cpu_store(dx + i, softmax_slope(op, cpu_load(y + i), cpu_load(dy + i), sum));
  }
  if (i < n) {
    const int64_t rest = n - i;
    cpu_store_part(dx + i, softmax_slope(op, cpu_load_part(y + i, rest, 0.0f), cpu_load_part(dy + i, rest, 0.0f), sum),
                   rest);
  }
}

static void softmax_gradient_rows(const cpu_line *line, int64_t first, int64_t last, void *scratch)
{
  const cpu_tensor *y = &line->in[0], *dy = &line->in[1], *dx = &line->out[0];
  const cpu_row_map y_rows = cpu_row_map_of(y, cpu_last(y)), dy_rows = cpu_row_map_of(dy, cpu_last(dy));
  const int64_t N = cpu_row_length(y);
  float *room = scratch;

  for (int64_t row = first; row < last; row++) {
    const float *yi = (const float *)y->data + cpu_row_at(&y_rows, row);
    const float *dyi = (const float *)dy->data + cpu_row_at(&dy_rows, row);
    float *to = (float *)dx->data + row * N;
    yi = cpu_side_by_side(yi, cpu_row_stride(y), N, room);
    dyi = cpu_side_by_side(dyi, cpu_row_stride(dy), N, room + cpu_room(N));
    if (line->op == TSR_OP_SOFTMAX_GRADIENT) {
      softmax_gradient_row(TSR_OP_SOFTMAX_GRADIENT, yi, dyi, N, to);
    } else {
      softmax_gradient_row(TSR_OP_LOG_SOFTMAX_GRADIENT, yi, dyi, N, to);
    }
  }
}

void cpu_run_softmax_gradient(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *y = &line->in[0], *dy = &line->in[1], *dx = &line->out[0];
  const double cost = line->op == TSR_OP_SOFTMAX_GRADIENT ? 8.0 : 25.0;
  assert(y->dtype == TSR_F32 && dy->dtype == TSR_F32 && dx->dtype == TSR_F32);
  assert(cpu_row_length(dy) == cpu_row_length(y) && cpu_row_length(dx) == cpu_row_length(y));
  cpu_run_rows(line, team, cpu_rows(dx), 30.0 + cost * (double)cpu_row_length(y) / CPU_LANES, softmax_gradient_rows);
}

/* ---- cross-entropy ----------------------------------------------------------------------------------------------- */

/* The loss is lse - (1 - smoothing) z[label] - smoothing mean(z); with the maximum taken off all three, none of the
 * terms is below 0 and nothing cancels. A label outside is ignored. */
static void cross_entropy_row(const float *z, const float *next, int64_t n, int64_t label, float smoothing, float *loss,
                              float *lse)
{
  const float max = largest(z, n);
  const int ignored = label < 0 || label >= n;
  float distance = 0.0f, sum;
  if (max == -INFINITY) {
    const int nan = holds_nan(z, n);
    *lse = nan ? NAN : -INFINITY;
    *loss = ignored ? 0.0f : nan ? NAN : INFINITY;
    return;
  }
  if (smoothing > 0.0f && !ignored) {
    sum = sum_of_exponentials(z, n, max, NULL, &distance, next);
    distance *= smoothing / (float)n;
  } else {
    sum = sum_of_exponentials(z, n, max, NULL, NULL, next);
  }
  const float logarithm = (float)log((double)sum);
  *lse = max + logarithm;
  *loss = ignored ? 0.0f : logarithm - (1.0f - smoothing) * (z[label] - max) - distance;
}

static void cross_entropy_rows(const cpu_line *line, int64_t first, int64_t last, void *scratch)
{
  const cpu_tensor *logits = &line->in[0], *labels = &line->in[1];
  const int64_t V = logits->extent[1];
  for (int64_t t = first; t < last; t++) {
    const float *from = (const float *)logits->data + t * logits->stride[0];
    const float *z = cpu_side_by_side(from, logits->stride[1], V, scratch);
    const float *next = t + 1 < last && z == from ? z + logits->stride[0] : z;
    cross_entropy_row(z, next, V, ((const int32_t *)labels->data)[t * labels->stride[0]], line->attributes.smoothing,
                      (float *)line->out[0].data + t, (float *)line->out[1].data + t);
  }
}

void cpu_run_cross_entropy(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *logits = &line->in[0], *labels = &line->in[1], *loss = &line->out[0], *lse = &line->out[1];
  assert(logits->dtype == TSR_F32 && logits->rank == 2 && logits->extent[1] > 0);
  assert(labels->dtype == TSR_I32 && labels->rank == 1 && labels->extent[0] == logits->extent[0]);
  assert(loss->rank == 1 && loss->extent[0] == logits->extent[0] && lse->extent[0] == logits->extent[0]);
  cpu_run_rows(line, team, loss->extent[0], 60.0 + 25.0 * (double)logits->extent[1] / CPU_LANES, cross_entropy_rows);
}

/* The rows are long and follow one another in memory, more of them than any cache holds: a page ahead, at the beginning
 * of each line of memory, what will be read and what will be written is asked for. */
static inline void fetch_ahead(const float *from, const float *to, int64_t i)
{
  enum { LINE = 16 /* floats */, AHEAD = 4096 /* bytes */ };
  if (CPU_LANES >= LINE || i % LINE == 0) {
    __builtin_prefetch((const void *)((uintptr_t)(from + i) + AHEAD), 0);
    __builtin_prefetch((const void *)((uintptr_t)(to + i) + AHEAD), 1);
  }
}

static void cross_entropy_gradient_row(const float *z, int64_t n, int64_t label, float smoothing, float lse,
                                       float dloss, float *dz)
{
  const float each = smoothing / (float)n;
  const cpu_f32v shift = cpu_splat(lse), target = cpu_splat(each), factor = cpu_splat(dloss);
  int64_t i = 0;
  for (; i + CPU_LANES <= n; i += CPU_LANES) {
    fetch_ahead(z, dz, i);
    cpu_store(dz + i, (exp_of_any(cpu_load(z + i) - shift) - target) * factor);
  }
  if (i < n) {
    cpu_store_part(dz + i, (exp_of_any(cpu_load_part(z + i, n - i, 0.0f) - shift) - target) * factor, n - i);
  }
  dz[label] = (exp_of_any(cpu_splat(z[label]) - shift)[0] - (1.0f - smoothing + each)) * dloss;
}

static void cross_entropy_gradient_rows(const cpu_line *line, int64_t first, int64_t last, void *scratch)
{
  const cpu_tensor *logits = &line->in[0], *labels = &line->in[1], *lse = &line->in[2], *dloss = &line->in[3];
  const int64_t V = logits->extent[1];
  for (int64_t t = first; t < last; t++) {
    const int64_t label = ((const int32_t *)labels->data)[t * labels->stride[0]];
    const float *z = (const float *)logits->data + t * logits->stride[0];
    float *to = (float *)line->out[0].data + t * V;
    if (label < 0 || label >= V) {
      memset(to, 0, (size_t)V * sizeof *to);
      continue;
    }
    cross_entropy_gradient_row(cpu_side_by_side(z, logits->stride[1], V, scratch), V, label, line->attributes.smoothing,
                               ((const float *)lse->data)[t * lse->stride[0]],
                               ((const float *)dloss->data)[t * dloss->stride[0]], to);
  }
}

void cpu_run_cross_entropy_gradient(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *logits = &line->in[0], *labels = &line->in[1], *lse = &line->in[2], *dloss = &line->in[3];
  const cpu_tensor *dlogits = &line->out[0];
  assert(logits->dtype == TSR_F32 && logits->rank == 2 && dlogits->rank == 2);
  assert(labels->dtype == TSR_I32 && labels->rank == 1 && labels->extent[0] == logits->extent[0]);
  assert(lse->rank == 1 && lse->extent[0] == logits->extent[0] && dloss->rank == 1);
  assert(dloss->extent[0] == logits->extent[0] && dlogits->extent[1] == logits->extent[1]);
  cpu_run_rows(line, team, logits->extent[0], 60.0 + 25.0 * (double)logits->extent[1] / CPU_LANES,
               cross_entropy_gradient_rows);
}

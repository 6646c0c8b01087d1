/* SPDX-License-Identifier: Apache-2.0
 *
 * softmax and log_softmax along the last axis. In both an element that is +inf or NaN makes the sum NaN, and that
 * every result: +inf because it is the maximum, from which it cannot be subtracted.
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

/* sum exp(z - max); the terms go to y if there is one. Inlined for each of the two. */
static inline float sum_of_exponentials(const float *z, int64_t n, float max, float *y)
{
  const cpu_f32v shift = cpu_splat(max);
  cpu_f32v s0 = cpu_splat(0.0f), s1 = s0;
  int64_t i = 0;
  for (; i + 2 * CPU_LANES <= n; i += 2 * CPU_LANES) {
    const cpu_f32v e0 = cpu_exp(cpu_load(z + i) - shift), e1 = cpu_exp(cpu_load(z + i + CPU_LANES) - shift);
    s0 += e0;
    s1 += e1;
    if (y) {
      cpu_store(y + i, e0);
      cpu_store(y + i + CPU_LANES, e1);
    }
  }
  while (i < n) {
    const int64_t rest = n - i < CPU_LANES ? n - i : CPU_LANES;
    const cpu_f32v e = cpu_exp(cpu_load_part(z + i, rest, -INFINITY) - shift);
    s0 += e;
    if (y) {
      cpu_store_part(y + i, e, rest);
    }
    i += rest;
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
  scale(y, n, 1.0f / sum_of_exponentials(z, n, max, y));
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
  const float logarithm = (float)log((double)sum_of_exponentials(z, n, max, NULL));
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * The k largest along the last axis.
 */
#include "rows.h"

/* The first NaN; else the first of the largest. */
static int64_t find_largest(const float *x, int64_t n)
{
  const cpu_f32v lowest = cpu_splat(-INFINITY);
  cpu_f32v m[4] = {lowest, lowest, lowest, lowest};
  cpu_i32v nan[2] = {cpu_splat_i32(0), cpu_splat_i32(0)};
  int64_t i = 0;
  for (; i + 4 * CPU_LANES <= n; i += 4 * CPU_LANES) {
    for (int j = 0; j < 4; j++) {
      const cpu_f32v v = cpu_load(x + i + j * CPU_LANES);
      m[j] = cpu_max(v, m[j]); /* NaN is left out */
      nan[j % 2] |= cpu_is_nan(v);
    }
  }
  for (; i < n; i += CPU_LANES) {
    const cpu_f32v v = n - i < CPU_LANES ? cpu_load_part(x + i, n - i, -INFINITY) : cpu_load(x + i);
    m[0] = cpu_max(v, m[0]);
    nan[0] |= cpu_is_nan(v);
  }
  if (cpu_any(nan[0] | nan[1])) {
    for (i = 0; !isnan(x[i]); i++) {
    }
    return i;
  }
  const float largest = cpu_largest(cpu_max(cpu_max(m[0], m[1]), cpu_max(m[2], m[3])));
  const cpu_f32v wanted = cpu_splat(largest);
  for (i = 0; i + CPU_LANES <= n && !cpu_any(cpu_load(x + i) == wanted); i += CPU_LANES) {
  }
  while (x[i] != largest) {
    i++;
  }
  return i;
}

/* An element as one number, larger if it stands earlier in the result: its value in the order of integers (NaN above
 * all, the two zeros equal) above the index, of which the lower is the larger. */
static int64_t rank_of(float value, int64_t index)
{
  int32_t bits;
  value += 0.0f; /* -0 becomes 0 */
  memcpy(&bits, &value, sizeof bits);
  bits = isnan(value) ? INT32_MAX : bits < 0 ? bits ^ INT32_MAX : bits;
  return (int64_t)bits * (INT64_C(1) << 32) + (int64_t)(UINT32_MAX - (uint32_t)index);
}

static int64_t index_of(int64_t rank)
{
  return (int64_t)(UINT32_MAX - (uint32_t)rank);
}

/* heap[0] is the smallest of n; every element is at most as large as its two below it. Puts `rank` in the place of
 * element i, from where it sinks. */
static void sink(int64_t *heap, int64_t n, int64_t i, int64_t rank)
{
  for (int64_t below = 2 * i + 1; below < n; below = 2 * i + 1) {
    below += below + 1 < n && heap[below + 1] < heap[below];
    if (heap[below] >= rank) {
      break;
    }
    heap[i] = heap[below];
    i = below;
  }
  heap[i] = rank;
}

/* What a later element must pass to stand among the kept ones; those that are NaN pass always, and are held against
 * the heap. */
static float threshold_of(const float *x, int64_t rank)
{
  const float value = x[index_of(rank)];
  return isnan(value) ? INFINITY : value;
}

/* ranks: room of k; receives those of the k largest, in order. */
static void find_k_largest(const float *x, int64_t n, int64_t k, int64_t *ranks)
{
  for (int64_t i = 0; i < k; i++) {
    ranks[i] = rank_of(x[i], i);
  }
  for (int64_t i = k / 2 - 1; i >= 0; i--) {
    sink(ranks, k, i, ranks[i]);
  }
  float threshold = threshold_of(x, ranks[0]);
  for (int64_t i = k; i < n;) {
    /* Most elements do not pass: many are asked at once. */
    const cpu_f32v least = cpu_splat(threshold);
    if (i + 4 * CPU_LANES <= n) {
      const cpu_i32v stay = (cpu_load(x + i) <= least) & (cpu_load(x + i + CPU_LANES) <= least) &
                            (cpu_load(x + i + 2 * CPU_LANES) <= least) & (cpu_load(x + i + 3 * CPU_LANES) <= least);
      if (!cpu_any(~stay)) {
        i += 4 * CPU_LANES;
        continue;
      }
    }
    const int64_t end = i + 4 * CPU_LANES < n ? i + 4 * CPU_LANES : n;
    for (; i < end; i++) {
      if (!(x[i] <= threshold) && rank_of(x[i], i) > ranks[0]) {
        sink(ranks, k, 0, rank_of(x[i], i));
        threshold = threshold_of(x, ranks[0]);
      }
    }
  }
  /* The smallest goes to the end, over and over. */
  for (int64_t rest = k - 1; rest > 0; rest--) {
    const int64_t smallest = ranks[0];
    sink(ranks, rest, 0, ranks[rest]);
    ranks[rest] = smallest;
  }
}

static void topk_rows(const cpu_line *line, int64_t first, int64_t last, void *scratch)
{
  const cpu_tensor *x = &line->in[0];
  const cpu_row_map x_rows = cpu_row_map_of(x, cpu_last(x));
  const int64_t N = cpu_row_length(x), k = line->attributes.k;
  int64_t *ranks = scratch; /* as long as two rows of floats at most */
  float *room = (float *)scratch + 2 * cpu_room(N);

  for (int64_t row = first; row < last; row++) {
    const float *xi = cpu_side_by_side((const float *)x->data + cpu_row_at(&x_rows, row), cpu_row_stride(x), N, room);
    float *values = (float *)line->out[0].data + row * k;
    int32_t *indices = (int32_t *)line->out[1].data + row * k;
    if (k == 1) {
      indices[0] = (int32_t)find_largest(xi, N);
      values[0] = xi[indices[0]];
      continue;
    }
    find_k_largest(xi, N, k, ranks);
    for (int64_t j = 0; j < k; j++) {
      indices[j] = (int32_t)index_of(ranks[j]);
      values[j] = xi[indices[j]];
    }
  }
}

void cpu_run_topk(const cpu_line *line, cpu_team *team)
{
  const cpu_tensor *x = &line->in[0], *values = &line->out[0], *indices = &line->out[1];
  const int64_t N = cpu_row_length(x), k = line->attributes.k;
  assert(x->dtype == TSR_F32 && values->dtype == TSR_F32 && indices->dtype == TSR_I32);
  assert(k >= 1 && k <= N && cpu_row_length(values) == k && cpu_row_length(indices) == k);
  cpu_run_rows(line, team, cpu_rows(values), 50.0 + 2.0 * (double)N / CPU_LANES + (k > 1 ? 100.0 * (double)k : 0.0),
               topk_rows);
}

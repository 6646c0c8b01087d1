/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets of relative positions. Which bucket a distance r falls in rises with r, so that the distances at which the
 * buckets begin say all: a row of biases is a few runs of the same value, without a logarithm per key.
 */
#include "masking.h"

/* Buckets on one side of the query. */
static int64_t buckets_of(const cpu_tensor *relative, int32_t bidirectional)
{
  return bidirectional ? relative->extent[0] / 2 : relative->extent[0];
}

/* The bucket of distance r >= 0 among n; each step is rounded to f32, the logarithms from their exact values. */
static int64_t bucket(int64_t r, int64_t n, int32_t max_distance)
{
  const int64_t e = n / 2;
  if (r < e) {
    return r;
  }
  const float ratio = (float)r / (float)e, whole = (float)log((double)max_distance / (double)e);
  const float share = (float)log(ratio) / whole;
  const int64_t result = e + (int64_t)(share * (float)(n - e));
  return result < n - 1 ? result : n - 1;
}

int32_t cpu_prepare_masking(const cpu_line *line, int32_t first, cpu_preparation *preparation, const int32_t **starts)
{
  const cpu_tensor *relative = &line->in[first + 3];
  const int32_t max_distance = line->attributes.max_distance;
  *starts = NULL;
  if (!cpu_present(relative)) {
    return TSR_OK;
  }
  const int64_t n = buckets_of(relative, line->attributes.bidirectional);
  int32_t *made = cpu_ask_memory(preparation, (uint64_t)n * sizeof *made);
  if (!made) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  int64_t low = 0;
  for (int64_t j = 0; j < n; j++) {
    /* The smallest r whose bucket is j or more; from max_distance on all fall in the last. */
    int64_t high = max_distance;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (bucket(middle, n, max_distance) >= j) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    made[j] = (int32_t)low;
  }
  *starts = made;
  return TSR_OK;
}

void cpu_relative_row(const cpu_masking *masking, int64_t b, int64_t h, int64_t l, int64_t first, int64_t n, float *row)
{
  const cpu_tensor *t = masking->relative;
  const float *table = (const float *)t->data + h * t->stride[1];
  const int64_t buckets = buckets_of(t, masking->bidirectional), distance = first - l - cpu_position_of(masking, b);
  const int32_t *starts = masking->starts;
  int64_t j = buckets - 1, i = 0;

  /* Up to the query itself: r falls from key to key. */
  while (i < n && distance + i <= 0) {
    const int64_t r = -(distance + i);
    while (starts[j] > r) {
      j--;
    }
    const int64_t run = r - starts[j] + 1, end = run < n - i ? i + run : n;
    const float bias = table[j * t->stride[0]];
    for (; i < end; i++) {
      row[i] = bias;
    }
  }
  /* Beyond it: r rises, or counts as 0. */
  for (j = 0; i < n;) {
    const int64_t r = masking->bidirectional ? distance + i : 0;
    while (j + 1 < buckets && starts[j + 1] <= r) {
      j++;
    }
    const int64_t run = masking->bidirectional && j + 1 < buckets ? starts[j + 1] - r : n;
    const int64_t end = run < n - i ? i + run : n;
    const float bias = table[(masking->bidirectional ? buckets + j : 0) * t->stride[0]];
    for (; i < end; i++) {
      row[i] = bias;
    }
  }
}

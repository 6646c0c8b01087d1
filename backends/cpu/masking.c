/* SPDX-License-Identifier: Apache-2.0
 *
 * Buckets of relative positions. Which bucket a distance r falls in rises with r, so that the distances at which the
 * buckets begin say all: a row of biases is a few runs of the same value, without a logarithm per key.
 */
#include "masking.h"

/* The bucket of distance r >= 0 among n; each step is rounded to f32, the logarithms from their exact values. */
static int64_t bucket(int64_t r, int64_t n, int32_t max_distance)
{
  const int64_t e = n / 2;
  if (r < e) {
    return r;
  }
  const float ratio = (float)r / (float)e, whole = (float)log((double)max_distance / (double)e);
  const float share = (float)log((double)ratio) / whole;
  const int64_t result = e + (int64_t)(share * (float)(n - e));
  return result < n - 1 ? result : n - 1;
}

const int32_t *cpu_bucket_starts(cpu_preparation *preparation, int64_t rows, const tsr_op_attributes *attributes)
{
  const int64_t buckets = cpu_buckets_of(rows, attributes);
  const int32_t max_distance = attributes->max_distance;
  int32_t *starts = cpu_ask_memory(preparation, (uint64_t)buckets * sizeof *starts);
  int64_t low = 0;
  for (int64_t j = 0; starts && j < buckets; j++) {
    /* The smallest r whose bucket is j or more; from max_distance on all fall in the last. */
    int64_t high = max_distance;
    if (attributes->clamped) {
      low = high = j;
    }
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (bucket(middle, buckets, max_distance) >= j) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    starts[j] = (int32_t)low;
  }
  return starts;
}

int32_t cpu_prepare_masking(const cpu_line *line, int32_t first, cpu_preparation *preparation, const int32_t **starts)
{
  const cpu_tensor *relative = &line->in[first + 3];
  *starts = NULL;
  if (!cpu_present(relative)) {
    return TSR_OK;
  }
  *starts = cpu_bucket_starts(preparation, relative->extent[0], &line->attributes);
  return *starts ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;
}

void cpu_relative_row(const cpu_masking *masking, int64_t b, int64_t h, int64_t l, int64_t first, int64_t n, float *row)
{
  const cpu_tensor *t = masking->relative;
  const float *table = (const float *)t->data + h * t->stride[1];
  cpu_bucket_walk walk =
      cpu_bucket_walk_from(masking->starts, t->extent[0], masking->attributes, first - l - cpu_position_of(masking, b));
  for (int64_t i = 0; i < n;) {
    int64_t bucket_row;
    const int64_t end = i + cpu_next_bucket(&walk, n - i, &bucket_row);
    const float bias = table[bucket_row * t->stride[0]];
    for (; i < end; i++) {
      row[i] = bias;
    }
  }
}

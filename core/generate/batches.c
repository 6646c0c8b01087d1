/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/batches.h"

#include <stdlib.h>

#include "core/base/status.h"

enum {
  DEFAULT_BATCH = 32, /* sentences */
  MAX_ROWS = 64       /* of a default batch, hypotheses counted, where more make nothing faster but take memory */
};

typedef struct sort_key {
  int32_t length;
  int32_t index;
} sort_key;

static int compare_keys(const void *left, const void *right)
{
  const sort_key *a = left;
  const sort_key *b = right;
  if (a->length != b->length) {
    return a->length > b->length ? -1 : 1;
  }
  return (a->index > b->index) - (a->index < b->index);
}

tsr_status tsr_sort_longest_first(const int32_t *lengths, int32_t n, int32_t *order)
{
  size_t size = ((size_t)n + 1) * sizeof(sort_key);
  sort_key *keys = malloc(size);
  if (!keys) {
    return tsr_fail_memory(size);
  }
  for (int32_t i = 0; i < n; i++) {
    keys[i] = (sort_key){.length = lengths[i], .index = i};
  }
  qsort(keys, (size_t)n, sizeof *keys, compare_keys);
  for (int32_t i = 0; i < n; i++) {
    order[i] = keys[i].index;
  }
  free(keys);
  return TSR_OK;
}

tsr_status tsr_check_sentence(const int32_t *ids, int32_t n, int32_t max_positions, int32_t vocabulary)
{
  if (n < 0 || n > max_positions) {
    return tsr_fail(TSR_ERR_ARGUMENT, "has %d tokens; the model takes 0 to %d", (int)n, (int)max_positions);
  }
  for (int32_t t = 0; t < n; t++) {
    if (ids[t] < 0 || ids[t] >= vocabulary) {
      return tsr_fail(TSR_ERR_ARGUMENT, "token %d is %d; the vocabulary has the ids 0 to %d", (int)t, (int)ids[t],
                      (int)vocabulary - 1);
    }
  }
  return TSR_OK;
}

enum { CACHED_WEIGHTS = 32 << 20 };

int32_t tsr_least_rows(int64_t weights)
{
  enum { FEW_ROWS = 2, MANY_ROWS = 32 };
  return weights <= CACHED_WEIGHTS ? FEW_ROWS : MANY_ROWS;
}

int32_t tsr_best_batch(int64_t weights)
{
  enum { BEST_BATCH = 4 };
  return weights <= CACHED_WEIGHTS ? BEST_BATCH : 0;
}

int32_t tsr_default_batch(int32_t beam, int32_t frugal)
{
  int32_t batch = frugal && beam > MAX_ROWS / DEFAULT_BATCH ? MAX_ROWS / beam : DEFAULT_BATCH;
  return batch > 4 ? batch : 4;
}

static int32_t round_length(int32_t length, int32_t step, int32_t max_positions)
{
  int32_t rounded = (length + step - 1) / step * step;
  return rounded < max_positions ? rounded : max_positions;
}

int32_t tsr_source_bucket(int32_t length, int32_t max_positions)
{
  return round_length(length, length <= 64 ? 8 : length <= 256 ? 32 : 128, max_positions);
}

int32_t tsr_source_step(int32_t length, int32_t max_positions)
{
  return round_length(length, length <= 32 ? 1 : length <= 128 ? 4 : 16, max_positions);
}

int32_t tsr_batch_bucket(int32_t count)
{
  int32_t bucket = 1;
  while (bucket < count && bucket < 8) {
    bucket *= 2;
  }
  if (count <= bucket) {
    return bucket;
  }
  int32_t step = count <= 16 ? 4 : count <= 64 ? 8 : 32;
  return (count + step - 1) / step * step;
}

static int32_t choose_workers(int32_t n_sentences, int32_t beam, uint32_t concurrent, int32_t least_rows,
                              int32_t wanted)
{
  if (wanted > 0) {
    return wanted < n_sentences ? wanted : n_sentences;
  }
  int32_t least = beam < least_rows ? least_rows / beam : 1;
  int32_t useful = n_sentences / least;
  int32_t workers = concurrent < (uint32_t)useful ? (int32_t)concurrent : useful;
  return workers > 1 ? workers : 1;
}

/* What a sentence costs: a step per token, more or less, and something for each batch it may be in. */
static int64_t cost(int32_t length)
{
  return length + 4;
}

/* The sentences of the batch that begins with lengths[0], n of them left: as many as reach their share of the cost, and
 * what else its rows have room for. */
static int32_t take_share(const int32_t *lengths, int32_t n, int32_t n_batch, int64_t share)
{
  int32_t count = 0;
  for (int64_t taken = 0; count < n && count < n_batch && taken < share; count++) {
    taken += cost(lengths[count]);
  }
  int32_t rows = tsr_batch_bucket(count);
  rows = rows < n_batch ? rows : n_batch;
  return rows < n ? rows : n;
}

tsr_status tsr_batches_init(tsr_batches *batches, const int32_t *lengths, int32_t n_sentences, int32_t n_batch,
                            int32_t beam, uint32_t concurrent, int32_t least_rows, int32_t wanted)
{
  int32_t workers = choose_workers(n_sentences, beam, concurrent, least_rows, wanted);
  int32_t full = (n_sentences + n_batch - 1) / n_batch;
  int32_t rounds = (full + workers - 1) / workers; /* batches for each worker */
  /* A worker that has one or two batches must get its share; one that has many evens that out by itself. */
  int is_shared = workers > 1 && rounds <= 2;
  size_t size = ((size_t)n_sentences + 1) * sizeof *batches->first;
  *batches = (tsr_batches){.first = malloc(size)};
  if (!batches->first) {
    return tsr_fail_memory(size);
  }
  int64_t left = 0;
  for (int32_t i = 0; i < n_sentences; i++) {
    left += cost(lengths[i]);
  }
  int32_t parts = rounds * workers;
  for (int32_t i = 0; i < n_sentences;) {
    int32_t n = n_sentences - i;
    int32_t count = n < n_batch ? n : n_batch;
    if (is_shared) {
      int32_t parts_left = parts > batches->n ? parts - batches->n : 1;
      count = take_share(lengths + i, n, n_batch, (left + parts_left - 1) / parts_left);
    }
    batches->first[batches->n++] = i;
    for (int32_t end = i + count; i < end; i++) {
      left -= cost(lengths[i]);
    }
  }
  batches->first[batches->n] = n_sentences;
  batches->n_workers = workers < batches->n ? workers : batches->n > 0 ? batches->n : 1;
  return TSR_OK;
}

void tsr_batches_finish(tsr_batches *batches)
{
  free(batches->first);
  *batches = (tsr_batches){0};
}

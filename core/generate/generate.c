/* SPDX-License-Identifier: Apache-2.0 */
#include "tessera/generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/generate/search.h"
#include "core/generate/settings.h"

enum { DEFAULT_BATCH = 32, MAX_BATCH = 4096 };

/* One call of tsr_generate. */
typedef struct job {
  tsr_transformer *transformer;
  const tsr_generate_options *options;
  const int32_t *const *source;
  const int32_t *lengths;
  int32_t *order; /* sentences, longest first */
  int32_t n_sentences;
  int32_t n_batch;
  tsr_progress_fn progress;
  void *user;
} job;

static tsr_status check_sources(const job *j)
{
  const tsr_transformer_config *config = &j->transformer->model->config;
  for (int32_t i = 0; i < j->n_sentences; i++) {
    if (j->lengths[i] < 0 || j->lengths[i] > config->max_positions) {
      return tsr_fail(TSR_ERR_ARGUMENT, "sentence %d has %d tokens; the model takes 0 to %d", (int)i,
                      (int)j->lengths[i], (int)config->max_positions);
    }
    for (int32_t t = 0; t < j->lengths[i]; t++) {
      if (j->source[i][t] < 0 || j->source[i][t] >= config->source_vocabulary) {
        return tsr_fail(TSR_ERR_ARGUMENT, "sentence %d: token %d is %d; the vocabulary has the ids 0 to %d", (int)i,
                        (int)t, (int)j->source[i][t], (int)config->source_vocabulary - 1);
      }
    }
  }
  return TSR_OK;
}

typedef struct sort_key {
  int32_t length;
  int32_t index;
} sort_key;

/* Longest first, so that states grow to their full size at once and a want of memory shows early. */
static int compare_keys(const void *left, const void *right)
{
  const sort_key *a = left;
  const sort_key *b = right;
  if (a->length != b->length) {
    return a->length > b->length ? -1 : 1;
  }
  return (a->index > b->index) - (a->index < b->index);
}

static tsr_status sort_sentences(job *j)
{
  size_t n = (size_t)j->n_sentences;
  sort_key *keys = malloc((n + 1) * sizeof *keys);
  j->order = malloc((n + 1) * sizeof *j->order);
  if (!keys || !j->order) {
    free(keys);
    return tsr_fail_memory((n + 1) * sizeof *keys);
  }
  for (int32_t i = 0; i < j->n_sentences; i++) {
    keys[i] = (sort_key){.length = j->lengths[i], .index = i};
  }
  qsort(keys, n, sizeof *keys, compare_keys);
  for (int32_t i = 0; i < j->n_sentences; i++) {
    j->order[i] = keys[i].index;
  }
  free(keys);
  return TSR_OK;
}

/* Source lengths share programs: steps of 8 up to 64, of 32 up to 256, then of 128. */
static int32_t source_bucket(int32_t length, int32_t max_positions)
{
  int32_t step = length <= 64 ? 8 : length <= 256 ? 32 : 128;
  int32_t bucket = (length + step - 1) / step * step;
  return bucket < max_positions ? bucket : max_positions;
}

static int32_t batch_bucket(int32_t count)
{
  int32_t bucket = 1;
  while (bucket < count) {
    bucket *= 2;
  }
  return bucket;
}

static void hypothesis_free(tsr_hypothesis *hypotheses, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    free(hypotheses[i].ids);
    hypotheses[i].ids = NULL;
  }
}

/* One batch: sentences order[0 .. count-1], none of them empty. */
static tsr_status run_batch(const job *j, const int32_t *order, int32_t count, int32_t *ids, int32_t *lengths,
                            tsr_hypothesis *found, tsr_generation *generation)
{
  const tsr_transformer_config *config = &j->transformer->model->config;
  int32_t n_best = j->options->n_best;
  int32_t batch = batch_bucket(count);
  int32_t source = source_bucket(j->lengths[order[0]], config->max_positions);
  int32_t pad = config->pad_id >= 0 && config->pad_id < config->source_vocabulary ? config->pad_id : 0;
  for (int32_t b = 0; b < batch; b++) {
    lengths[b] = b < count ? j->lengths[order[b]] : 0;
    for (int32_t t = 0; t < source; t++) {
      ids[(size_t)b * (size_t)source + (size_t)t] = t < lengths[b] ? j->source[order[b]][t] : pad;
    }
  }
  memset(found, 0, (size_t)count * (size_t)n_best * sizeof *found);
  tsr_search search;
  TSR_TRY(tsr_search_init(&search, j->transformer, j->options, count, batch, source, lengths));
  tsr_status status = tsr_search_encode(&search, ids);
  if (status == TSR_OK) {
    status = j->options->beam == 1 ? tsr_search_greedy(&search, found) : tsr_search_beams(&search, found);
  }
  tsr_search_finish(&search);
  if (status != TSR_OK) {
    hypothesis_free(found, (int64_t)count * n_best);
    return status;
  }
  tsr_work *work = &j->transformer->work;
  for (int32_t b = 0; b < count; b++) {
    memcpy(&generation->hypotheses[(int64_t)order[b] * n_best], &found[(int64_t)b * n_best],
           (size_t)n_best * sizeof *found);
    work->sentences++;
    work->source_tokens += lengths[b];
    work->target_tokens += found[(int64_t)b * n_best].n_ids;
  }
  return TSR_OK;
}

static void fill_empty(const job *j, tsr_generation *generation)
{
  for (int32_t i = 0; i < j->n_sentences; i++) {
    for (int32_t k = 0; j->lengths[i] == 0 && k < generation->n_best; k++) {
      generation->hypotheses[(int64_t)i * generation->n_best + k].score = j->options->beam == 1 ? NAN : 0.0f;
    }
  }
}

static tsr_status run(const job *j, tsr_generation *generation)
{
  int32_t longest = j->n_sentences > 0 ? j->lengths[j->order[0]] : 0;
  int32_t full = 0; /* sentences that are not empty: they come first */
  while (full < j->n_sentences && j->lengths[j->order[full]] > 0) {
    full++;
  }
  fill_empty(j, generation);
  if (full == 0) {
    return TSR_OK;
  }
  size_t batch = (size_t)batch_bucket(j->n_batch < full ? j->n_batch : full);
  size_t width = (size_t)source_bucket(longest, j->transformer->model->config.max_positions);
  int32_t *ids = malloc(batch * width * sizeof *ids);
  int32_t *lengths = malloc(batch * sizeof *lengths);
  tsr_hypothesis *found = malloc(batch * (size_t)generation->n_best * sizeof *found);
  tsr_status status = ids && lengths && found ? TSR_OK : tsr_fail_memory(batch * width * sizeof *ids);
  for (int32_t first = 0; first < full && status == TSR_OK; first += j->n_batch) {
    int32_t count = full - first < j->n_batch ? full - first : j->n_batch;
    status = run_batch(j, j->order + first, count, ids, lengths, found, generation);
    if (status == TSR_OK && j->progress) {
      int32_t done = first + count;
      j->progress(j->user, done == full ? j->n_sentences : done, j->n_sentences);
    }
  }
  free(ids);
  free(lengths);
  free(found);
  return status;
}

tsr_status tsr_generate(tsr_transformer *transformer, int32_t n_sentences, const int32_t *const *source,
                        const int32_t *lengths, int32_t n_batch, const tsr_generate_options *options,
                        tsr_progress_fn progress, void *user, tsr_generation *generation)
{
  if (!transformer || !options || !generation || n_sentences < 0 || (n_sentences > 0 && (!source || !lengths))) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_generate: transformer, source, lengths, options and generation are needed");
  }
  *generation = (tsr_generation){0};
  if (n_batch < 0 || n_batch > MAX_BATCH) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_generate: a batch of %d; it should be 1 to %d, or 0 for %d", (int)n_batch,
                    (int)MAX_BATCH, (int)DEFAULT_BATCH);
  }
  TSR_TRY(tsr_generate_check(&transformer->model->config, options));
  job j = {.transformer = transformer,
           .options = options,
           .source = source,
           .lengths = lengths,
           .n_sentences = n_sentences,
           .n_batch = n_batch > 0 ? n_batch : DEFAULT_BATCH,
           .progress = progress,
           .user = user};
  TSR_TRY(check_sources(&j));
  size_t total = (size_t)n_sentences * (size_t)options->n_best;
  tsr_hypothesis *hypotheses = calloc(total + 1, sizeof *hypotheses);
  if (!hypotheses) {
    return tsr_fail_memory((total + 1) * sizeof *hypotheses);
  }
  *generation = (tsr_generation){.n_sentences = n_sentences, .n_best = options->n_best, .hypotheses = hypotheses};
  tsr_status status = sort_sentences(&j);
  if (status == TSR_OK) {
    status = run(&j, generation);
  }
  free(j.order);
  if (status != TSR_OK) {
    tsr_generation_finish(generation);
  }
  return status;
}

void tsr_generation_finish(tsr_generation *generation)
{
  if (!generation) {
    return;
  }
  if (generation->hypotheses) {
    hypothesis_free(generation->hypotheses, (int64_t)generation->n_sentences * generation->n_best);
  }
  free(generation->hypotheses);
  *generation = (tsr_generation){0};
}

void tsr_generate_measure(const tsr_transformer *transformer, tsr_generate_statistics *statistics)
{
  const tsr_work *work = &transformer->work;
  *statistics = (tsr_generate_statistics){.sentences = work->sentences,
                                          .source_tokens = work->source_tokens,
                                          .target_tokens = work->target_tokens,
                                          .encode_runs = work->encode_runs,
                                          .step_runs = work->step_runs,
                                          .encode_seconds = work->encode_seconds,
                                          .step_seconds = work->step_seconds};
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tessera/generate.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/generate/batches.h"
#include "core/generate/details.h"
#include "core/generate/request.h"
#include "core/generate/search.h"
#include "core/generate/settings.h"

enum { MAX_BATCH = 4096 };

/* One call of tsr_generate. */
typedef struct job {
  tsr_transformer *transformer; /* the first of the workers' */
  const tsr_generate_options *options;
  const int32_t *const *source; /* or NULL, likewise the next */
  const float *const *features;
  const int32_t *lengths;
  const tsr_prompt *prompts;
  const int64_t *numbers; /* or NULL */
  const tsr_request_watch *watch;
  int32_t first_only;
  int32_t *order;  /* sentences, longest first */
  int32_t *sorted; /* their lengths */
  int32_t n_sentences;
  int32_t n_full; /* sentences that are not empty: they come first */
  int32_t n_batch;
  int32_t workers; /* that are wanted */
  tsr_batches batches;
  tsr_generation *generation;
  tsr_progress_fn progress;
  void *user;
  atomic_int next;      /* batch that nobody has taken yet */
  atomic_int stopped;   /* a batch failed: the others are not wanted any more */
  pthread_mutex_t lock; /* guards what follows, and is held while progress is told */
  int32_t done;         /* sentences */
  tsr_status status;    /* of the first batch that failed, and its message */
  char *message;
  int64_t sentence; /* that it is about, or -1; the message does not name it */
} job;

/* A thread of a job. What it computes with is its own. */
typedef struct worker {
  job *job;
  tsr_transformer *transformer;
  pthread_t thread;
  tsr_sentence *sentences; /* of a batch, as the largest needs it */
} worker;

static tsr_status check_sources(const job *j)
{
  const tsr_transformer_config *config = &j->transformer->model->config;
  for (int32_t i = 0; i < j->n_sentences && !j->features; i++) {
    TSR_TRY(tsr_fail_sentence(
        tsr_check_sentence(j->source[i], j->lengths[i], config->max_positions, config->source_vocabulary), "", i));
  }
  return TSR_OK;
}

/* What outputs begin with, checked. options: resolved. */
static tsr_status fill_prompts(const tsr_transformer_config *config, int32_t n_sentences, const int32_t *const *source,
                               const int32_t *lengths, const tsr_generate_options *options, tsr_prompt *prompts)
{
  const char *what = config->encoder_layers == 0 ? "source of " : "prefix of ";
  for (int32_t i = 0; i < n_sentences; i++) {
    int32_t n_prefix = options->prefix ? options->prefix_lengths[i] : 0;
    const int32_t *prefix = n_prefix != 0 ? options->prefix[i] : tsr_search_first(options, &n_prefix);
    const int32_t *ids = source ? source[i] : NULL;
    TSR_TRY(
        tsr_fail_sentence(tsr_prompt_init(&prompts[i], config, options, ids, lengths[i], prefix, n_prefix), what, i));
  }
  return TSR_OK;
}

static tsr_status sort_sentences(job *j)
{
  size_t n = (size_t)j->n_sentences;
  j->order = malloc((n + 1) * sizeof *j->order);
  j->sorted = malloc((n + 1) * sizeof *j->sorted);
  if (!j->order || !j->sorted) {
    return tsr_fail_memory((n + 1) * sizeof *j->order);
  }
  TSR_TRY(tsr_sort_longest_first(j->lengths, j->n_sentences, j->order));
  for (int32_t i = 0; i < j->n_sentences; i++) {
    j->sorted[i] = j->lengths[j->order[i]];
    j->n_full += j->sorted[i] > 0;
  }
  return TSR_OK;
}

static void hypothesis_free(tsr_hypothesis *hypotheses, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    free(hypotheses[i].ids);
    free(hypotheses[i].attention);
    hypotheses[i].ids = NULL;
    hypotheses[i].attention = NULL;
  }
}

/* Of tsr_search_client. */
static void take_hypotheses(void *user, const tsr_sentence *sentence, const tsr_hypothesis *hypotheses)
{
  const worker *w = user;
  const int32_t n_best = w->job->options->n_best;
  tsr_work *work = &w->transformer->work;
  memcpy(&w->job->generation->hypotheses[(int64_t)sentence->index * n_best], hypotheses,
         (size_t)n_best * sizeof *hypotheses);
  work->sentences++;
  work->source_tokens += sentence->n_source;
  work->target_tokens += hypotheses->n_ids;
}

/* Of tsr_search_client, likewise the next. */
static int32_t look(void *user, int32_t n_open)
{
  const tsr_request_watch *watch = ((const worker *)user)->job->watch;
  return watch->look(watch->user, n_open);
}

static int32_t is_wanted(void *user, const tsr_sentence *sentence)
{
  const tsr_request_watch *watch = ((const worker *)user)->job->watch;
  return watch->is_wanted(watch->user, sentence->index);
}

/* One batch: sentences order[0 .. count-1], none of them empty. */
static tsr_status run_batch(worker *w, const int32_t *order, int32_t count)
{
  const job *j = w->job;
  const tsr_search_client client = {
      .user = w, .take = take_hypotheses, .look = j->watch ? look : NULL, .is_wanted = j->watch ? is_wanted : NULL};
  int32_t n = 0;
  for (int32_t b = 0; b < count; b++) {
    int32_t i = order[b];
    if (!j->watch || j->watch->is_wanted(j->watch->user, i)) {
      w->sentences[n++] = (tsr_sentence){.source = j->source ? j->source[i] : NULL,
                                         .features = j->features ? j->features[i] : NULL,
                                         .n_source = j->lengths[i],
                                         .prompt = j->prompts[i],
                                         .number = j->numbers ? j->numbers[i] : j->options->first_sentence + i,
                                         .seed = j->options->seed,
                                         .index = i};
    }
  }
  if (n == 0) {
    return TSR_OK;
  }
  tsr_search search;
  TSR_TRY(tsr_search_init(&search, w->transformer, j->options, &client, w->sentences, n, n));
  search.stopped = &j->stopped;
  search.lock = &w->job->lock;
  search.first_only = j->first_only;
  tsr_status status = tsr_search_run(&search);
  tsr_search_finish(&search);
  return status;
}

/* Empty sentences have their result already; the others none (n_ids is -1). */
static void fill_empty(const job *j)
{
  const tsr_generation *generation = j->generation;
  for (int64_t i = 0; i < (int64_t)j->n_full; i++) {
    for (int32_t k = 0; k < generation->n_best; k++) {
      generation->hypotheses[(int64_t)j->order[i] * generation->n_best + k].n_ids = -1;
    }
  }
  for (int32_t i = j->n_full; i < j->n_sentences; i++) {
    for (int32_t k = 0; k < generation->n_best; k++) {
      generation->hypotheses[(int64_t)j->order[i] * generation->n_best + k].score =
          tsr_search_is_beam(j->options) || j->options->scores ? 0.0f : NAN;
    }
  }
}

/* ---- workers ----------------------------------------------------------------------------------------------------- */

/* Counts a batch as done, or keeps the error that it ended with, if it is the first. */
static void report(job *j, int32_t count, tsr_status status)
{
  pthread_mutex_lock(&j->lock);
  if (status == TSR_OK) {
    j->done += count;
    if (j->progress) {
      j->progress(j->user, j->done == j->n_full ? j->n_sentences : j->done, j->n_sentences);
    }
  } else if (j->status == TSR_OK) {
    j->status = status;
    const char *message;
    j->sentence = tsr_error_sentence(&message);
    j->message = strdup(message);
    atomic_store(&j->stopped, 1);
  }
  pthread_mutex_unlock(&j->lock);
}

static void *work(void *opaque)
{
  worker *w = opaque;
  job *j = w->job;
  for (int32_t i; !atomic_load(&j->stopped) && (i = atomic_fetch_add(&j->next, 1)) < j->batches.n;) {
    int32_t first = j->batches.first[i];
    int32_t count = j->batches.first[i + 1] - first;
    report(j, count, run_batch(w, j->order + first, count));
  }
  return NULL;
}

static tsr_status prepare_worker(job *j, int32_t index, worker *w)
{
  int32_t most = 1;
  for (int32_t i = 0; i < j->batches.n; i++) {
    int32_t count = j->batches.first[i + 1] - j->batches.first[i];
    most = count > most ? count : most;
  }
  w->job = j;
  w->sentences = malloc((size_t)most * sizeof *w->sentences);
  if (!w->sentences) {
    return tsr_fail_memory((size_t)most * sizeof *w->sentences);
  }
  return tsr_transformer_sibling(j->transformer, index, &w->transformer);
}

/* Worker 0 is the calling thread. Without a thread for one of the others, the rest takes over its batches. */
static void run_workers(worker *workers, int32_t n)
{
  int32_t n_threads = 1;
  while (n_threads < n && pthread_create(&workers[n_threads].thread, NULL, work, &workers[n_threads]) == 0) {
    n_threads++;
  }
  work(&workers[0]);
  for (int32_t i = 1; i < n_threads; i++) {
    pthread_join(workers[i].thread, NULL);
  }
}

static tsr_status run(job *j)
{
  const tsr_transformer *t = j->transformer;
  uint32_t concurrent = tsr_device_get_properties(t->device)->concurrent_runs;
  TSR_TRY(tsr_batches_init(&j->batches, j->sorted, j->n_full, j->n_batch, tsr_search_rows(j->options), concurrent,
                           tsr_least_rows(tsr_transformer_weights_size(t)), j->workers));
  int32_t n_workers = j->batches.n_workers;
  worker *workers = calloc((size_t)n_workers, sizeof *workers);
  tsr_status status = workers ? TSR_OK : tsr_fail_memory((size_t)n_workers * sizeof *workers);
  for (int32_t i = 0; i < n_workers && status == TSR_OK; i++) {
    status = prepare_worker(j, i, &workers[i]);
  }
  if (status == TSR_OK) {
    run_workers(workers, n_workers);
    j->transformer->generate_workers = n_workers;
    if (j->status != TSR_OK) {
      status = tsr_fail(j->status, "%s", j->message ? j->message : "out of host memory for the reason");
      status = j->sentence >= 0 ? tsr_fail_sentence(status, "", j->sentence) : status;
    }
  }
  for (int32_t i = 0; workers && i < n_workers; i++) {
    free(workers[i].sentences);
  }
  free(workers);
  return status;
}

/* Copies of the prefixes of windows, in which languages that are to be detected have their place: *rows [n] and the ids
 * behind them are one block. languages [n] receives these places, or NULL. */
static tsr_status copy_prefixes(const tsr_generate_options *options, int32_t n, int32_t ***rows, int32_t **languages)
{
  size_t ids = 0;
  for (int32_t i = 0; i < n; i++) {
    ids += options->prefix_lengths[i] > 0 ? (size_t)options->prefix_lengths[i] : 0;
  }
  const size_t size = ((size_t)n + 1) * sizeof **rows + ids * sizeof ***rows;
  *rows = malloc(size);
  if (!*rows) {
    return tsr_fail_memory(size);
  }
  int32_t *to = (int32_t *)(*rows + n);
  for (int32_t i = 0; i < n; i++) {
    (*rows)[i] = to;
    languages[i] = NULL;
    for (int32_t t = 0; t < options->prefix_lengths[i]; t++, to++) {
      *to = options->prefix[i][t];
      if (*to == TSR_DETECTED && (languages[i] || options->n_languages == 0)) {
        return tsr_fail_sentence(tsr_fail(TSR_ERR_ARGUMENT,
                                          "has TSR_DETECTED as token %d: it stands at most once, and needs languages",
                                          (int)t),
                                 "prefix of ", i);
      }
      languages[i] = *to == TSR_DETECTED ? to : languages[i];
      *to = *to == TSR_DETECTED ? options->languages[0] : *to; /* until one is detected */
    }
  }
  return TSR_OK;
}

/* Prompts of windows, some of whose languages are to be detected. *rows is to be freed. */
static tsr_status fill_detecting_prompts(const tsr_request *asked, const tsr_generate_options *options,
                                         tsr_prompt *prompts, int32_t ***rows)
{
  const int32_t n = asked->n_sentences;
  int32_t **languages = calloc((size_t)n + 1, sizeof *languages);
  tsr_generate_options given = *options;
  tsr_status status =
      languages ? copy_prefixes(options, n, rows, languages) : tsr_fail_memory((size_t)n * sizeof *languages);
  if (status == TSR_OK) {
    given.prefix = (const int32_t *const *)*rows;
    status = fill_prompts(&asked->transformer->model->config, n, NULL, asked->lengths, &given, prompts);
  }
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    prompts[i].language = languages[i];
  }
  free(languages);
  return status;
}

/* What tsr_generate and its sibling have in common. request: transformer, sentences, n_batch, progress. */
static tsr_status generate(const tsr_request *asked, const tsr_generate_options *options, tsr_generation *generation)
{
  tsr_transformer *transformer = asked->transformer;
  const tsr_transformer_config *config = &transformer->model->config;
  if (asked->n_batch < 0 || asked->n_batch > MAX_BATCH) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_generate: a batch of %d; it should be 1 to %d, or 0", (int)asked->n_batch,
                    (int)MAX_BATCH);
  }
  tsr_generate_options given;
  TSR_TRY(TSR_SIZED_READ(tsr_generate_options, token_user, options, &given));
  TSR_TRY(tsr_generate_check_options(config, &given));
  const tsr_generate_options resolved = tsr_generate_resolve(config, &given);
  size_t size = ((size_t)asked->n_sentences + 1) * sizeof(tsr_prompt);
  tsr_prompt *prompts = calloc(1, size);
  if (!prompts) {
    return tsr_fail_memory(size);
  }
  int32_t **rows = NULL;
  tsr_status status = asked->features && resolved.prefix
                          ? fill_detecting_prompts(asked, &resolved, prompts, &rows)
                          : fill_prompts(config, asked->n_sentences, asked->source, asked->lengths, &resolved, prompts);
  tsr_request request = *asked;
  request.prompts = prompts;
  request.workers = transformer->options.workers;
  request.options = &resolved;
  if (status == TSR_OK) {
    status = resolved.alternatives > 0 ? tsr_request_alternatives(&request, generation)
                                       : tsr_request_run(&request, generation);
  }
  free(rows);
  free(prompts);
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
  TSR_TRY(tsr_model_check_reads_text(transformer->model, "tsr_generate", "tsr_generate_features"));
  const tsr_request request = {.transformer = transformer,
                               .n_sentences = n_sentences,
                               .source = source,
                               .lengths = lengths,
                               .n_batch = n_batch,
                               .progress = progress,
                               .user = user};
  return generate(&request, options, generation);
}

tsr_status tsr_windows_check(const tsr_transformer_config *config, int32_t n, const float *const *features)
{
  for (int32_t i = 0; i < n; i++) {
    tsr_status status = features[i] ? tsr_features_check(config, 1, features[i])
                                    : tsr_fail(TSR_ERR_ARGUMENT, "there are no features: they are NULL");
    TSR_TRY(tsr_fail_sentence(status, "", i));
  }
  return TSR_OK;
}

tsr_status tsr_generate_features(tsr_transformer *transformer, int32_t n_windows, const float *const *features,
                                 int32_t n_batch, const tsr_generate_options *options, tsr_progress_fn progress,
                                 void *user, tsr_generation *generation)
{
  if (!transformer || !options || !generation || n_windows < 0 || (n_windows > 0 && !features)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_generate_features: transformer, features, options and generation are needed");
  }
  *generation = (tsr_generation){0};
  const tsr_transformer_config *config = &transformer->model->config;
  TSR_TRY(tsr_model_check_reads_sound(transformer->model, "tsr_generate_features"));
  TSR_TRY(tsr_windows_check(config, n_windows, features));
  int32_t *lengths = malloc(((size_t)n_windows + 1) * sizeof *lengths);
  if (!lengths) {
    return tsr_fail_memory(((size_t)n_windows + 1) * sizeof *lengths);
  }
  for (int32_t i = 0; i < n_windows; i++) {
    lengths[i] = config->source_positions;
  }
  const tsr_request request = {.transformer = transformer,
                               .n_sentences = n_windows,
                               .features = features,
                               .lengths = lengths,
                               .n_batch = n_batch,
                               .progress = progress,
                               .user = user};
  tsr_status status = generate(&request, options, generation);
  free(lengths);
  return status;
}

tsr_status tsr_request_run(const tsr_request *request, tsr_generation *generation)
{
  tsr_transformer *transformer = request->transformer;
  const tsr_generate_options *options = request->options;
  job j = {.transformer = transformer,
           .options = options,
           .source = request->source,
           .features = request->features,
           .lengths = request->lengths,
           .prompts = request->prompts,
           .numbers = request->numbers,
           .watch = request->watch,
           .first_only = request->first_only,
           .n_sentences = request->n_sentences,
           .workers = request->workers,
           .n_batch = request->n_batch > 0 ? request->n_batch
                      : request->features
                          ? TSR_DEFAULT_WINDOWS
                          : tsr_default_batch(tsr_search_rows(options), tsr_search_is_frugal(transformer)),
           .generation = generation,
           .progress = request->progress,
           .user = request->user};
  *generation = (tsr_generation){0};
  TSR_TRY(check_sources(&j));
  double start = tsr_seconds();
  size_t total = (size_t)j.n_sentences * (size_t)options->n_best;
  tsr_hypothesis *hypotheses = calloc(total + 1, sizeof *hypotheses);
  if (!hypotheses) {
    return tsr_fail_memory((total + 1) * sizeof *hypotheses);
  }
  *generation = (tsr_generation){.n_sentences = j.n_sentences, .n_best = options->n_best, .hypotheses = hypotheses};
  pthread_mutex_init(&j.lock, NULL);
  tsr_status status = options->details ? tsr_details_begin(options->details, j.n_sentences, options->n_best) : TSR_OK;
  if (status == TSR_OK) {
    status = sort_sentences(&j);
  }
  int is_kept = status == TSR_OK && options->partial;
  if (status == TSR_OK) {
    fill_empty(&j);
  }
  if (status == TSR_OK && j.n_full > 0) {
    status = run(&j);
  }
  pthread_mutex_destroy(&j.lock);
  tsr_batches_finish(&j.batches);
  free(j.order);
  free(j.sorted);
  free(j.message);
  if (status != TSR_OK && !is_kept) {
    tsr_generation_finish(generation);
  }
  transformer->generate_seconds += tsr_seconds() - start;
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

void tsr_generate_measure_sized(const tsr_transformer *transformer, tsr_generate_statistics *statistics, size_t size)
{
  tsr_generate_statistics sum = {.seconds = transformer->generate_seconds, .workers = transformer->generate_workers};
  for (int32_t i = 0; i <= transformer->n_siblings; i++) {
    const tsr_work *work = i == 0 ? &transformer->work : &transformer->siblings[i - 1]->work;
    sum.sentences += work->sentences;
    sum.source_tokens += work->source_tokens;
    sum.target_tokens += work->target_tokens;
    sum.encode_runs += work->encode_runs;
    sum.step_runs += work->step_runs;
    sum.encode_seconds += work->encode_seconds;
    sum.step_seconds += work->step_seconds;
  }
  tsr_sized_fill(&sum, sizeof sum, statistics, size);
}

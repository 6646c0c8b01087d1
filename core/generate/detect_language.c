/* SPDX-License-Identifier: Apache-2.0
 *
 * The language of a sound: the decoder's first step.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/generate/batches.h"
#include "core/generate/details.h"
#include "core/generate/search.h"

/* What is asked, and where it goes. */
typedef struct query {
  const float *const *features;
  int32_t n_languages;
  const int32_t *languages;
  int32_t no_speech_id;
  int32_t *best;
  float *probabilities;
  float *no_speech;
} query;

static tsr_status check(const tsr_transformer_config *config, int32_t n_batch, const query *q)
{
  if (n_batch < 0 || q->n_languages < 0 || (q->n_languages > 0 && !q->languages) ||
      (q->n_languages == 0 && (q->best || q->probabilities))) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_detect_language: a batch of %d windows, and %d languages", (int)n_batch,
                    (int)q->n_languages);
  }
  for (int32_t i = 0; i < q->n_languages; i++) {
    if (q->languages[i] < 0 || q->languages[i] >= config->target_vocabulary) {
      return tsr_fail(TSR_ERR_ARGUMENT, "tsr_detect_language: language %d is %d; the vocabulary has the ids 0 to %d",
                      (int)i, (int)q->languages[i], (int)config->target_vocabulary - 1);
    }
  }
  if (q->no_speech_id < -1 || q->no_speech_id >= config->target_vocabulary || (q->no_speech && q->no_speech_id < 0)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_detect_language: no_speech_id is %d; the vocabulary has the ids 0 to %d, and no_speech needs "
                    "one of them",
                    (int)q->no_speech_id, (int)config->target_vocabulary - 1);
  }
  return config->decoder_start_id >= 0
             ? TSR_OK
             : tsr_fail(TSR_ERR_FORMAT,
                        "the model's files do not say what its decoder starts with (decoder_start_token_id)");
}

/* The sum of exp(logits[ids[i]] - largest), of the first n logits where ids is NULL. */
static double sum_of(const float *logits, const int32_t *ids, int32_t n, double largest)
{
  double sum = 0.0;
  for (int32_t i = 0; i < n; i++) {
    sum += exp((double)logits[ids ? ids[i] : i] - largest);
  }
  return sum;
}

/* The number of the largest, the first among equals. */
static int32_t largest_of(const float *logits, const int32_t *ids, int32_t n)
{
  int32_t best = 0;
  for (int32_t i = 1; i < n; i++) {
    best = logits[ids ? ids[i] : i] > logits[ids ? ids[best] : best] ? i : best;
  }
  return best;
}

int32_t tsr_language_best(const float *logits, const int32_t *languages, int32_t n, float *probabilities)
{
  const int32_t best = largest_of(logits, languages, n);
  const double largest = (double)logits[languages[best]], sum = sum_of(logits, languages, n, largest);
  for (int32_t i = 0; probabilities && i < n; i++) {
    probabilities[i] = (float)(exp((double)logits[languages[i]] - largest) / sum);
  }
  return best;
}

float tsr_token_probability(const float *logits, int32_t vocabulary, int32_t token)
{
  const double largest = (double)logits[largest_of(logits, NULL, vocabulary)];
  return (float)(exp((double)logits[token] - largest) / sum_of(logits, NULL, vocabulary, largest));
}

static tsr_status check_logits(const tsr_transformer *t, const float *logits, int32_t window)
{
  for (int32_t v = 0; v < t->model->config.target_vocabulary; v++) {
    if (isnan(logits[v])) {
      return tsr_fail_sentence(
          tsr_fail(TSR_ERR_NOT_FINITE, "%s computed NaN for the first token", tsr_device_name(t->device)), "", window);
    }
  }
  return TSR_OK;
}

/* ---- in a search ------------------------------------------------------------------------------------------------- */

static int32_t asks_for_speech(const tsr_generate_options *options)
{
  return options->details && options->no_speech_id > 0;
}

static int32_t is_needed(const tsr_search *search)
{
  int32_t needed = asks_for_speech(search->options);
  for (int32_t i = 0; i < search->count; i++) {
    needed |= search->sentences[i].prompt.language != NULL;
  }
  return needed && search->transformer->model->config.mels > 0;
}

/* The decoder's logits behind the start token: [B][V]. */
static tsr_status run_first(tsr_search *search, int32_t *start, float *logits)
{
  tsr_transformer *t = search->transformer;
  const tsr_program_key key = {.kind = TSR_PROGRAM_DECODE,
                               .size = {.batch = search->batch, .source = search->source_room, .target = 1}};
  const int64_t n = search->batch;
  tsr_compiled *first = NULL;
  for (int32_t b = 0; b < search->batch; b++) {
    start[b] = t->model->config.decoder_start_id;
  }
  TSR_TRY(tsr_transformer_compile(t, &key, &first));
  TSR_TRY(tsr_executable_write(first->executable, first->refs.target, start, n * (int64_t)sizeof *start));
  TSR_TRY(tsr_executable_write(first->executable, first->refs.source_lengths, search->lengths,
                               n * (int64_t)sizeof *search->lengths));
  TSR_TRY(tsr_transformer_run(t, first, 1.0));
  t->work.step_runs++;
  return tsr_executable_read(first->executable, first->refs.logits, logits,
                             n * t->model->config.target_vocabulary * (int64_t)sizeof *logits);
}

static tsr_status hear(const tsr_search *search, int32_t b, const float *logits)
{
  const tsr_generate_options *options = search->options;
  const tsr_sentence *sentence = &search->sentences[b];
  TSR_TRY(check_logits(search->transformer, logits, sentence->index));
  if (sentence->prompt.language) {
    float *probabilities = NULL;
    if (options->details) {
      TSR_TRY(tsr_details_make_languages(options->details, sentence->index, options->n_languages, &probabilities));
    }
    *sentence->prompt.language =
        options->languages[tsr_language_best(logits, options->languages, options->n_languages, probabilities)];
  }
  if (asks_for_speech(options)) {
    const int32_t vocabulary = search->transformer->model->config.target_vocabulary;
    tsr_details_put_no_speech(options->details, sentence->index,
                              tsr_token_probability(logits, vocabulary, options->no_speech_id));
  }
  return TSR_OK;
}

tsr_status tsr_search_listen(tsr_search *search)
{
  const size_t batch = (size_t)search->batch, vocabulary = (size_t)search->filter.vocabulary;
  if (!is_needed(search)) {
    return TSR_OK;
  }
  double started = tsr_seconds();
  int32_t *start = malloc(batch * sizeof *start);
  float *logits = malloc(batch * vocabulary * sizeof *logits);
  tsr_status status =
      start && logits ? run_first(search, start, logits) : tsr_fail_memory(batch * vocabulary * sizeof *logits);
  for (int32_t b = 0; b < search->count && status == TSR_OK; b++) {
    status = hear(search, b, logits + (size_t)b * vocabulary);
  }
  free(start);
  free(logits);
  search->transformer->work.step_seconds += tsr_seconds() - started;
  return status;
}

/* ---- alone ------------------------------------------------------------------------------------------------------- */

/* Windows first .. first+n-1. features [n] of all, and logits: room. */
static tsr_status detect(tsr_transformer *t, const query *q, int32_t first, int32_t n, float *features, float *logits)
{
  const tsr_transformer_config *config = &t->model->config;
  const size_t window = (size_t)config->mels * 2 * (size_t)config->source_positions;
  int32_t *start = malloc((size_t)n * sizeof *start);
  if (!start) {
    return tsr_fail_memory((size_t)n * sizeof *start);
  }
  for (int32_t i = 0; i < n; i++) {
    memcpy(features + (size_t)i * window, q->features[first + i], window * sizeof *features);
    start[i] = config->decoder_start_id;
  }
  tsr_status status = tsr_transformer_forward_features(t, n, features, 1, start, NULL, logits);
  free(start);
  TSR_TRY(status);
  for (int32_t i = 0; i < n; i++) {
    const float *row = logits + (size_t)i * (size_t)config->target_vocabulary;
    const size_t of_window = (size_t)(first + i) * (size_t)q->n_languages;
    TSR_TRY(check_logits(t, row, first + i));
    if (q->best || q->probabilities) {
      float *probabilities = q->probabilities ? q->probabilities + of_window : NULL;
      const int32_t best = tsr_language_best(row, q->languages, q->n_languages, probabilities);
      if (q->best) {
        q->best[first + i] = best;
      }
    }
    if (q->no_speech) {
      q->no_speech[first + i] = tsr_token_probability(row, config->target_vocabulary, q->no_speech_id);
    }
  }
  return TSR_OK;
}

tsr_status tsr_detect_language(tsr_transformer *transformer, int32_t n_windows, const float *const *features,
                               int32_t n_batch, int32_t n_languages, const int32_t *languages, int32_t no_speech_id,
                               int32_t *best, float *probabilities, float *no_speech)
{
  if (!transformer || n_windows < 0 || (n_windows > 0 && !features)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_detect_language: transformer and features are needed");
  }
  const query q = {.features = features,
                   .n_languages = n_languages,
                   .languages = languages,
                   .no_speech_id = no_speech_id,
                   .best = best,
                   .probabilities = probabilities,
                   .no_speech = no_speech};
  const tsr_transformer_config *config = &transformer->model->config;
  TSR_TRY(tsr_model_check_reads_sound(transformer->model, "tsr_detect_language"));
  TSR_TRY(check(config, n_batch, &q));
  TSR_TRY(tsr_windows_check(config, n_windows, features));
  const int32_t wanted = n_batch > 0 ? n_batch : TSR_DEFAULT_WINDOWS, most = wanted < n_windows ? wanted : n_windows;
  const size_t window = (size_t)config->mels * 2 * (size_t)config->source_positions;
  const size_t room = (size_t)most * window + 1, room_of_logits = (size_t)most * (size_t)config->target_vocabulary + 1;
  float *together = malloc(room * sizeof *together), *logits = malloc(room_of_logits * sizeof *logits);
  tsr_status status = together && logits ? TSR_OK : tsr_fail_memory((room + room_of_logits) * sizeof *together);
  for (int32_t first = 0; first < n_windows && status == TSR_OK; first += most) {
    const int32_t left = n_windows - first;
    status = detect(transformer, &q, first, left < most ? left : most, together, logits);
  }
  free(together);
  free(logits);
  return status;
}

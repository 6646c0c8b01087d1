/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/transcribe/transcribe.h"

static const double step = 0.02; /* seconds of a position of the encoder */

/* A search of some of the windows. */
typedef struct attempt {
  tsr_transcriber *transcriber;
  const tsr_transcribe_request *request;
  tsr_window **windows; /* [n] which begin with the same token */
  int32_t n;
  float temperature;
} attempt;

/* The probabilities of a hypothesis's tokens behind the input: their sum without that of <|endoftext|>, over their
 * number and one. */
static double average_logprob(const attempt *a, int32_t window, int32_t number, const tsr_hypothesis *h)
{
  const int32_t first = a->windows[window]->n_input - 1; /* the start token is no part of an output */
  const float *each = tsr_details_log_probabilities(a->transcriber->details, window, number);
  int32_t n = h->n_ids - first;
  if (!each) {
    return h->score; /* of beam search */
  }
  n -= n > 0 && h->ids[h->n_ids - 1] == a->transcriber->tokens.end_of_text;
  return tsr_speech_average_logprob(each + first, n);
}

/* When each of the window's tokens, which a hypothesis has behind the input, is spoken, and how probable it is. */
static tsr_status keep_times(const attempt *a, int32_t number, int32_t hypothesis)
{
  tsr_transcriber *t = a->transcriber;
  tsr_window *window = a->windows[number];
  const int32_t n = window->n_tokens, positions = t->config.source_positions, used = (window->frames + 1) / 2;
  const float *logprobs = tsr_details_log_probabilities(t->details, number, hypothesis);
  int32_t n_rows = 0;
  const float *weights = tsr_details_alignment(t->details, number, hypothesis, &n_rows);
  free(window->times);
  free(window->probabilities);
  window->times = malloc(((size_t)n + 1) * sizeof *window->times);
  window->probabilities = logprobs ? malloc(((size_t)n + 1) * sizeof *window->probabilities) : NULL;
  double *all = malloc(((size_t)n_rows + 1) * sizeof *all);
  tsr_status status = window->times && all && (window->probabilities || !logprobs)
                          ? TSR_OK
                          : tsr_fail_memory(((size_t)n_rows + 1) * sizeof *all);
  if (status == TSR_OK && weights) {
    status = tsr_speech_token_times(weights, a->request->search.n_alignment_heads, n_rows, positions, used,
                                    t->median_width, all);
  }
  for (int32_t i = 0; status == TSR_OK && i <= n; i++) { /* the last one's end is the window's if no token follows */
    const int32_t at = window->n_input + i;
    window->times[i] = weights && at <= n_rows ? all[at] : used * step;
  }
  for (int32_t i = 0; status == TSR_OK && logprobs && i < n; i++) {
    window->probabilities[i] = expf(logprobs[window->n_input - 1 + i]);
  }
  free(all);
  return status;
}

/* Keeps the likeliest of a window's hypotheses, and judges it. */
static tsr_status take(const attempt *a, int32_t number, const tsr_generation *generation)
{
  tsr_transcriber *t = a->transcriber;
  const tsr_transcribe_options *options = &a->request->options;
  tsr_window *window = a->windows[number];
  const tsr_hypothesis *hypotheses = generation->hypotheses + (int64_t)number * generation->n_best, *best = NULL;
  for (int32_t i = 0; i < generation->n_best; i++) {
    const double average = average_logprob(a, number, i, &hypotheses[i]);
    if (!best || average > window->measures.average_logprob) {
      best = &hypotheses[i];
      window->measures.average_logprob = average;
    }
  }
  const int32_t first = window->n_input - 1;
  int32_t n = best->n_ids > first ? best->n_ids - first : 0;
  while (n > 0 && best->ids[first + n - 1] == t->tokens.end_of_text) {
    n--;
  }
  TSR_TRY(tsr_window_keep(window, best->ids + first, n));
  if (options->words) {
    TSR_TRY(keep_times(a, number, (int32_t)(best - hypotheses)));
  }
  window->temperature = a->temperature;
  window->measures.no_speech = tsr_details_no_speech(t->details, number);
  char *text = NULL;
  TSR_TRY(tsr_speech_decode(t->tokenizer, window->tokens, n, 0, t->config.source_positions, &text));
  const tsr_status status = tsr_speech_compression_ratio(text, strlen(text), &window->measures.compression_ratio);
  tsr_free(text);
  const tsr_speech_measures limits = {.compression_ratio = options->compression_ratio_limit,
                                      .average_logprob = options->average_logprob_limit,
                                      .no_speech = options->no_speech_limit};
  window->verdict = tsr_speech_judge(&window->measures, &limits);
  return status;
}

/* The language that was detected, into the sound, and into the input for later attempts. */
static void take_language(const attempt *a, int32_t number)
{
  const tsr_transcriber *t = a->transcriber;
  tsr_window *window = a->windows[number];
  const float *probabilities = tsr_details_languages(t->details, number);
  if (!probabilities) {
    return;
  }
  int32_t best = 0;
  for (int32_t i = 1; i < t->n_languages; i++) {
    best = probabilities[i] > probabilities[best] ? i : best;
  }
  window->sound->language = best;
  window->language_probability = probabilities[best];
  for (int32_t i = 0; i < window->n_input; i++) {
    window->input[i] = window->input[i] == TSR_DETECTED ? t->languages[best] : window->input[i];
  }
}

static tsr_status search(const attempt *a)
{
  tsr_transcriber *t = a->transcriber;
  const tsr_transcribe_options *options = &a->request->options;
  tsr_generate_options settings = a->request->search;
  const float **features = malloc((size_t)a->n * sizeof *features);
  const int32_t **prefix = malloc((size_t)a->n * sizeof *prefix);
  int32_t *lengths = malloc((size_t)a->n * sizeof *lengths);
  tsr_generation generation = {0};
  tsr_status status = features && prefix && lengths ? TSR_OK : tsr_fail_memory((size_t)a->n * sizeof *features);
  for (int32_t i = 0; status == TSR_OK && i < a->n; i++) {
    features[i] = a->windows[i]->values;
    prefix[i] = a->windows[i]->input + 1;
    lengths[i] = a->windows[i]->n_input - 1;
  }
  settings.decoder_start_id = a->windows[0]->input[0];
  settings.prefix = prefix;
  settings.prefix_lengths = lengths;
  settings.details = t->details;
  settings.languages = t->languages;
  settings.n_languages = t->n_languages;
  settings.no_speech_id = t->tokens.no_speech;
  if (a->temperature > 0) {
    settings.sample = 1;
    settings.temperature = a->temperature;
    settings.beam = 1;
    settings.n_best = options->best_of;
    settings.seed = options->seed;
    settings.first_sentence = a->windows[0]->sound->seek;
  }
  if (status == TSR_OK) {
    status = tsr_generate_features(t->transformer, a->n, features, t->batch, &settings, NULL, NULL, &generation);
  }
  for (int32_t i = 0; status == TSR_OK && i < a->n; i++) {
    take_language(a, i);
    status = take(a, i, &generation);
  }
  tsr_generation_finish(&generation);
  free(features);
  free(prefix);
  free(lengths);
  return status;
}

static int waits(const tsr_window *window, int32_t attempts)
{
  return window->attempts == attempts && window->verdict == TSR_SPEECH_RETRY;
}

/* Searches the windows that are not good enough after so many attempts. All that begin with the same token are searched
 * together, at temperature 0; tokens are drawn for each window alone, so that they do not depend on the others. */
static tsr_status attempt_all(tsr_transcriber *t, const tsr_transcribe_request *request, int32_t attempts,
                              tsr_window *windows, int32_t n, tsr_window **chosen)
{
  attempt a = {
      .transcriber = t, .request = request, .windows = chosen, .temperature = request->options.temperatures[attempts]};
  for (int32_t i = 0; i < n; i++) {
    a.n = 0;
    for (int32_t j = i; j < n && (a.n == 0 || a.temperature <= 0); j++) {
      if (waits(&windows[j], attempts) && (a.n == 0 || windows[j].input[0] == chosen[0]->input[0])) {
        windows[j].attempts++;
        chosen[a.n++] = &windows[j];
      }
    }
    if (a.n > 0) {
      TSR_TRY(search(&a));
    }
  }
  return TSR_OK;
}

tsr_status tsr_windows_search(tsr_transcriber *t, const tsr_transcribe_request *request, tsr_window *windows, int32_t n)
{
  const tsr_transcribe_options *options = &request->options;
  tsr_window **chosen = malloc((size_t)n * sizeof *chosen);
  if (!chosen) {
    return tsr_fail_memory((size_t)n * sizeof *chosen);
  }
  for (int32_t i = 0; i < n; i++) {
    windows[i].attempts = 0;
    windows[i].verdict = TSR_SPEECH_RETRY;
  }
  tsr_status status = TSR_OK;
  for (int32_t i = 0; status == TSR_OK && i < options->n_temperatures; i++) {
    status = attempt_all(t, request, i, windows, n, chosen);
  }
  free(chosen);
  return status;
}

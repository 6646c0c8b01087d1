/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/file.h"
#include "core/transcribe/transcribe.h"
#include "core/transformer/model.h"

enum {
  BATCH = 4,
  MEDIAN_WIDTH = 7,
  MOST_MEDIAN_WIDTH = 1 << 10,
  MULTILINGUAL_VOCABULARY = 51865 /* of the published models, the least of those that know languages */
};

static const float forgetting_temperature = 0.5f; /* a text that took more is not told to the next window */

/* ---- opening ----------------------------------------------------------------------------------------------------- */

/* Whether prefixes have languages and tasks: the folder says it, or the vocabulary's size does. Whether the model
 * writes timestamps: it does, unless the folder says otherwise. And how times of words are filtered. */
static tsr_status read_generation_config(tsr_transcriber *t, const char *folder)
{
  char *path = tsr_path_join(folder, "generation_config.json");
  tsr_config file;
  t->median_width = MEDIAN_WIDTH;
  t->has_timestamps = 1;
  t->is_multilingual = t->n_languages > 0 && t->config.target_vocabulary >= MULTILINGUAL_VOCABULARY;
  if (!path) {
    return tsr_fail_memory(1);
  }
  tsr_status status = TSR_OK;
  if (tsr_path_exists(path)) {
    status = tsr_config_open(path, &file);
    if (status == TSR_OK) {
      tsr_config_bool(&file, "is_multilingual", &t->is_multilingual);
      tsr_config_bool(&file, "has_timestamps", &t->has_timestamps);
      tsr_config_int(&file, "median_filter_width", 1, MOST_MEDIAN_WIDTH, &t->median_width);
      status = tsr_config_status(&file);
      tsr_config_finish(&file);
    }
  }
  free(path);
  return status;
}

static tsr_status list_languages(tsr_transcriber *t)
{
  const int32_t n = tsr_tokenizer_n_languages(t->tokenizer);
  t->languages = malloc(((size_t)n + 1) * sizeof *t->languages);
  if (!t->languages) {
    return tsr_fail_memory(((size_t)n + 1) * sizeof *t->languages);
  }
  for (int32_t i = 0; i < n; i++) {
    t->languages[i] = tsr_speech_language_id(t->tokenizer, i);
  }
  t->n_languages = n;
  return TSR_OK;
}

static tsr_status load(tsr_transcriber *t, const char *folder, const tsr_transcriber_options *options)
{
  const tsr_transformer_options of = {TSR_SIZED(tsr_transformer_options), .weights = options->weights,
                                      .strict = options->strict};
  TSR_TRY(tsr_model_open(folder, &t->model));
  t->config = t->model->config;
  if (t->config.mels == 0) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: a model of the family '%s' reads text, not sound", folder,
                    t->config.family);
  }
  TSR_TRY(tsr_tokenizer_open(t->model, &t->tokenizer));
  TSR_TRY(tsr_speech_get_tokens(t->tokenizer, &t->tokens));
  TSR_TRY(list_languages(t));
  TSR_TRY(read_generation_config(t, folder));
  TSR_TRY(tsr_mel_create(t->config.mels, &t->mel));
  TSR_TRY(tsr_details_create(&t->details));
  t->runtime = options->runtime;
  if (!t->runtime) {
    TSR_TRY(tsr_runtime_create(NULL, &t->runtime));
    t->has_runtime = 1;
  }
  TSR_TRY(tsr_device_open(t->runtime, options->device, &t->device));
  return tsr_transformer_create(t->model, t->device, &of, &t->transformer);
}

tsr_status tsr_transcriber_open(const char *folder, const tsr_transcriber_options *given, tsr_transcriber **transcriber)
{
  tsr_transcriber_options options;
  if (!folder || !transcriber) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_transcriber_open: folder and transcriber must not be NULL");
  }
  *transcriber = NULL;
  TSR_TRY(TSR_SIZED_READ(tsr_transcriber_options, batch, given, &options));
  if (options.batch < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_transcriber_options: batch is %d; expected 0 or more", (int)options.batch);
  }
  tsr_transcriber *t = calloc(1, sizeof *t);
  if (!t) {
    return tsr_fail_memory(sizeof *t);
  }
  t->batch = options.batch > 0 ? options.batch : BATCH;
  const tsr_status status = load(t, folder, &options);
  if (status != TSR_OK) {
    tsr_transcriber_close(t);
    return status;
  }
  *transcriber = t;
  return TSR_OK;
}

void tsr_transcriber_close(tsr_transcriber *t)
{
  if (!t) {
    return;
  }
  tsr_transformer_destroy(t->transformer);
  tsr_device_close(t->device);
  if (t->has_runtime) {
    tsr_runtime_destroy(t->runtime);
  }
  tsr_details_destroy(t->details);
  tsr_mel_destroy(t->mel);
  tsr_tokenizer_close(t->tokenizer);
  tsr_model_close(t->model);
  free(t->languages);
  free(t);
}

const tsr_model *tsr_transcriber_model(const tsr_transcriber *transcriber)
{
  return transcriber->model;
}

const tsr_tokenizer *tsr_transcriber_tokenizer(const tsr_transcriber *transcriber)
{
  return transcriber->tokenizer;
}

tsr_device *tsr_transcriber_device(const tsr_transcriber *transcriber)
{
  return transcriber->device;
}

/* ---- what is asked for ------------------------------------------------------------------------------------------- */

tsr_status tsr_transcribe_defaults(tsr_transcribe_options *options)
{
  const tsr_transcribe_options o = {TSR_SIZED(tsr_transcribe_options),
                                    .task = TSR_SPEECH_TRANSCRIBE,
                                    .condition_on_previous = 1,
                                    .timestamps = 1,
                                    .n_temperatures = 6,
                                    .temperatures = {0.0f, 0.2f, 0.4f, 0.6f, 0.8f, 1.0f},
                                    .best_of = 5,
                                    .compression_ratio_limit = 2.4f,
                                    .average_logprob_limit = -1.0f,
                                    .no_speech_limit = 0.6f};
  return TSR_SIZED_WRITE(tsr_transcribe_options, user, &o, options);
}

static tsr_status check(const tsr_transcribe_options *o)
{
  static const char name[] = "tsr_transcribe_options";
  if (o->task != TSR_SPEECH_TRANSCRIBE && o->task != TSR_SPEECH_TRANSLATE) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: task is %d; expected TSR_SPEECH_TRANSCRIBE or TSR_SPEECH_TRANSLATE", name,
                    (int)o->task);
  }
  if (o->n_temperatures < 1 || o->n_temperatures > TSR_MOST_TEMPERATURES) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: n_temperatures is %d; expected 1 to %d", name, (int)o->n_temperatures,
                    TSR_MOST_TEMPERATURES);
  }
  for (int32_t i = 0; i < o->n_temperatures; i++) {
    if (!(o->temperatures[i] >= 0) || isinf(o->temperatures[i])) {
      return tsr_fail(TSR_ERR_ARGUMENT, "%s: temperatures[%d] is %g; expected 0 or more", name, (int)i,
                      (double)o->temperatures[i]);
    }
  }
  if (o->n_prompt_ids < 0 || (o->n_prompt_ids > 0 && !o->prompt_ids)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: prompt_ids are %d at %p", name, (int)o->n_prompt_ids,
                    (const void *)o->prompt_ids);
  }
  if (o->best_of < 1) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: best_of is %d; expected 1 or more", name, (int)o->best_of);
  }
  return TSR_OK;
}

static tsr_status copy_prompt(const tsr_transcriber *t, tsr_transcribe_request *r)
{
  const tsr_transcribe_options *o = &r->options;
  const size_t size = (size_t)o->n_prompt_ids * sizeof *r->prompt;
  for (int32_t i = 0; i < o->n_prompt_ids; i++) {
    if (o->prompt_ids[i] < 0 || o->prompt_ids[i] >= t->config.target_vocabulary) {
      return tsr_fail(TSR_ERR_ARGUMENT,
                      "tsr_transcribe_options: prompt_ids[%d] is %d; the vocabulary has the ids 0 to %d", (int)i,
                      (int)o->prompt_ids[i], (int)t->config.target_vocabulary - 1);
    }
  }
  r->prompt = malloc(size);
  if (!r->prompt) {
    return tsr_fail_memory(size);
  }
  memcpy(r->prompt, o->prompt_ids, size);
  r->n_prompt = o->n_prompt_ids;
  return TSR_OK;
}

/* The language, if one is named, and the prompt's ids, of which the last are kept. */
static tsr_status read_texts(const tsr_transcriber *t, tsr_transcribe_request *r)
{
  const tsr_transcribe_options *o = &r->options;
  r->language = -1;
  if (o->language) {
    TSR_TRY(tsr_speech_find_language(t->tokenizer, o->language, &r->language));
  }
  if (!t->is_multilingual) {
    const char *code = r->language >= 0 ? tsr_tokenizer_language(t->tokenizer, r->language) : "en";
    if (o->task == TSR_SPEECH_TRANSLATE || strcmp(code, "en") != 0) {
      return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: the model hears English alone; it cannot %s", t->model->folder,
                      o->task == TSR_SPEECH_TRANSLATE ? "translate" : "hear another language");
    }
    r->language = -1;
  }
  if (o->n_prompt_ids > 0) {
    TSR_TRY(copy_prompt(t, r));
  } else if (o->prompt && *o->prompt) {
    TSR_TRY(tsr_speech_prompt(t->tokenizer, o->prompt, strlen(o->prompt), &r->prompt, &r->n_prompt));
  }
  const int32_t excess = r->n_prompt - 1 - r->most_of_previous;
  if (excess > 0) { /* behind <|startofprev|> */
    memmove(r->prompt + 1, r->prompt + 1 + excess, (size_t)r->most_of_previous * sizeof *r->prompt);
    r->n_prompt -= excess;
  }
  return TSR_OK;
}

static tsr_status read_request(const tsr_transcriber *t, const tsr_transcribe_options *given, tsr_transcribe_request *r)
{
  if (given) {
    TSR_TRY(TSR_SIZED_READ(tsr_transcribe_options, user, given, &r->options));
  } else {
    r->options = (tsr_transcribe_options){TSR_SIZED(tsr_transcribe_options)};
    TSR_TRY(tsr_transcribe_defaults(&r->options));
  }
  TSR_TRY(check(&r->options));
  r->options.timestamps = r->options.timestamps && t->has_timestamps;
  r->search = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
  if (r->options.search) {
    TSR_TRY(TSR_SIZED_READ(tsr_generate_options, token_user, r->options.search, &r->search));
  } else {
    TSR_TRY(tsr_generate_defaults(t->model, &r->search));
  }
  r->search.timestamps = r->options.timestamps;
  r->search.timestamp_begin = t->tokens.timestamp_begin;
  r->search.no_timestamps_id = t->tokens.no_timestamps;
  r->search.alignment = r->options.words;
  if (r->options.words && r->search.n_alignment_heads == 0) {
    return tsr_fail(TSR_ERR_UNSUPPORTED,
                    "%s: words have no times: generation_config.json has no alignment_heads, which say what attends to "
                    "the sound",
                    t->model->folder);
  }
  r->most_of_previous = t->config.max_positions / 2 - 1;
  return read_texts(t, r);
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

/* r: NULL: nobody is told. */
static void end_sound(const tsr_transcribe_request *r, tsr_sound *sound)
{
  if (!sound->is_done) {
    sound->is_done = 1;
    tsr_features_close(sound->features);
    free(sound->previous);
    sound->features = NULL;
    sound->previous = NULL;
    if (r && r->options.ended) {
      r->options.ended(r->options.user, sound->number);
    }
  }
}

static tsr_status begin_sound(const tsr_transcriber *t, tsr_sound *sound)
{
  int32_t has;
  tsr_audio_info info;
  tsr_audio_describe(sound->audio, &info);
  sound->frames = info.samples >= 0 ? info.samples / TSR_MEL_HOP : -1;
  TSR_TRY(tsr_features_open(sound->audio, t->mel, &sound->features));
  TSR_TRY(tsr_features_has(sound->features, 2 * (int64_t)t->config.source_positions, &has));
  sound->kind = has ? TSR_FEATURES_WHOLE : TSR_FEATURES_ALONE;
  return TSR_OK;
}

/* The next window's features; *got is 0 at the sound's end. */
static tsr_status read_window(const tsr_transcriber *t, tsr_sound *sound, tsr_window *window, int32_t *got)
{
  if (!sound->features) {
    TSR_TRY(begin_sound(t, sound));
  }
  const int32_t kind = sound->seek == 0 ? sound->kind : TSR_FEATURES_WHOLE;
  TSR_TRY(tsr_features_read(sound->features, sound->seek, 2 * t->config.source_positions, kind, window->values, got));
  window->sound = sound;
  window->frames = *got;
  window->language_probability = NAN;
  return TSR_OK;
}

static tsr_status make_input(const tsr_transcriber *t, const tsr_transcribe_request *r, tsr_window *window)
{
  const tsr_sound *sound = window->sound;
  const tsr_transcribe_options *o = &r->options;
  int32_t prefix[TSR_SPEECH_PREFIX], n;
  const int detects = t->is_multilingual && sound->language < 0;
  const int32_t language = detects ? 0 : sound->language;
  TSR_TRY(tsr_speech_prefix(t->tokenizer, t->is_multilingual ? language : -1,
                            t->is_multilingual ? o->task : TSR_SPEECH_NO_TASK, o->timestamps, prefix, &n));
  if (detects) {
    prefix[1] = TSR_DETECTED;
  }
  /* A quarter of the positions is left for what is written. Before the text of earlier windows stands the prompt, if it
   * stays, else <|startofprev|>. */
  const int32_t before = o->prompt_stays && r->n_prompt > 0 ? r->n_prompt : 1;
  const int32_t left = t->config.max_positions - t->config.max_positions / 4 - n - before;
  const int32_t most = left > 0 ? left : 0;
  const int32_t most_of_previous = most < r->most_of_previous ? most : r->most_of_previous;
  const tsr_speech_context context = {.prompt = r->prompt,
                                      .n_prompt = r->n_prompt,
                                      .previous = sound->previous,
                                      .n_previous = sound->n_previous,
                                      .prefix = prefix,
                                      .n_prefix = n,
                                      .start_of_prev = t->tokens.start_of_prev,
                                      .has_previous = o->condition_on_previous,
                                      .prompt_stays = o->prompt_stays,
                                      .most_of_previous = most_of_previous};
  const size_t room = (size_t)r->n_prompt + (size_t)r->most_of_previous + 1 + (size_t)n;
  free(window->input);
  window->input = malloc(room * sizeof *window->input);
  if (!window->input) {
    return tsr_fail_memory(room * sizeof *window->input);
  }
  return tsr_speech_window_input(&context, window->input, &window->n_input);
}

/* Hands over what was heard in a window. */
static tsr_status tell(const tsr_transcriber *t, const tsr_transcribe_request *r, const tsr_window *window)
{
  const tsr_transcribe_options *o = &r->options;
  const double frame = 0.01; /* seconds */
  tsr_sound *sound = window->sound;
  tsr_transcript *transcript = sound->transcript;
  const int64_t end = sound->seek + window->frames;
  int32_t first;
  TSR_TRY(tsr_window_tell(t, window, &first));
  if (sound->language >= 0) {
    transcript->language = tsr_tokenizer_language(t->tokenizer, sound->language);
  }
  if (!isnan(window->language_probability)) {
    transcript->language_probability = window->language_probability;
  }
  transcript->duration = (double)end * frame;
  if (window->temperature > forgetting_temperature) {
    sound->n_previous = 0;
  }
  for (int32_t i = first; o->segment && i < transcript->n_segments; i++) {
    if (o->segment(o->user, sound->number, &transcript->segments[i]) != 0) {
      end_sound(r, sound);
      return TSR_OK;
    }
  }
  if (o->heard) {
    o->heard(o->user, sound->number, (double)(sound->seek < end ? sound->seek : end) * frame,
             sound->frames >= 0 ? (double)sound->frames * frame : (double)NAN);
  }
  return TSR_OK;
}

/* 1 if there is this sound, perhaps since now. */
static int is_here(const tsr_transcribe_request *r, tsr_sound *sound)
{
  const tsr_transcribe_options *o = &r->options;
  if (!sound->audio && !o->next(o->user, sound->number, &sound->audio)) {
    sound->audio = NULL;
  }
  return sound->audio != NULL;
}

/* The next windows of the first sounds that are not done, as many as are computed together; *n is 0 when all are, and
 * no other comes. */
static tsr_status gather(const tsr_transcriber *t, const tsr_transcribe_request *r, tsr_sound *sounds, int32_t n_sounds,
                         tsr_window *windows, int32_t *n)
{
  *n = 0;
  for (int32_t i = 0; i < n_sounds && *n < t->batch; i++) {
    if (sounds[i].is_done) {
      continue;
    }
    if (!is_here(r, &sounds[i])) {
      return TSR_OK;
    }
    int32_t got = 0;
    const tsr_status status = read_window(t, &sounds[i], &windows[*n], &got);
    if (status == TSR_ERR_OUT_OF_MEMORY) {
      return status;
    }
    if (status != TSR_OK) {
      tsr_transcript_fail(sounds[i].transcript, status);
    }
    if (got == 0) {
      end_sound(r, &sounds[i]);
    } else {
      TSR_TRY(make_input(t, r, &windows[*n]));
      (*n)++;
    }
  }
  return TSR_OK;
}

static tsr_status hear(tsr_transcriber *t, const tsr_transcribe_request *r, tsr_sound *sounds, int32_t n_sounds,
                       tsr_window *windows)
{
  int32_t n;
  for (;;) {
    TSR_TRY(gather(t, r, sounds, n_sounds, windows, &n));
    if (n == 0) {
      return TSR_OK;
    }
    TSR_TRY(tsr_windows_search(t, r, windows, n));
    for (int32_t i = 0; i < n; i++) {
      TSR_TRY(tell(t, r, &windows[i]));
    }
  }
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

static tsr_status make_windows(const tsr_transcriber *t, int32_t n_sounds, tsr_window **windows, int32_t *n)
{
  const size_t values = (size_t)t->config.mels * 2 * (size_t)t->config.source_positions;
  *n = n_sounds < t->batch ? n_sounds : t->batch;
  *windows = calloc((size_t)*n + 1, sizeof **windows);
  tsr_status status = *windows ? TSR_OK : tsr_fail_memory(((size_t)*n + 1) * sizeof **windows);
  for (int32_t i = 0; status == TSR_OK && i < *n; i++) {
    (*windows)[i].values = malloc(values * sizeof(float));
    status = (*windows)[i].values ? TSR_OK : tsr_fail_memory(values * sizeof(float));
  }
  return status;
}

tsr_status tsr_transcribe(tsr_transcriber *t, int32_t n, tsr_audio *const *given, const tsr_transcribe_options *options,
                          tsr_transcript *transcripts)
{
  if (!t || n < 0 || (n > 0 && (!given || !transcripts))) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_transcribe: transcriber, sounds and transcripts must not be NULL, and n must "
                    "be 0 or more");
  }
  tsr_transcribe_request request = {0};
  tsr_window *windows = NULL;
  int32_t n_windows = 0;
  tsr_sound *sounds = calloc((size_t)n + 1, sizeof *sounds);
  tsr_status status = sounds ? read_request(t, options, &request) : tsr_fail_memory(((size_t)n + 1) * sizeof *sounds);
  for (int32_t i = 0; i < n; i++) {
    transcripts[i] = (tsr_transcript){.language_probability = NAN};
    if (status == TSR_OK && !given[i] && !request.options.next) {
      status = tsr_fail(TSR_ERR_ARGUMENT, "tsr_transcribe: sound %d must not be NULL without options.next", (int)i);
    }
  }
  if (status == TSR_OK) {
    status = make_windows(t, n, &windows, &n_windows);
  }
  if (status == TSR_OK) {
    for (int32_t i = 0; i < n; i++) {
      sounds[i] =
          (tsr_sound){.number = i, .audio = given[i], .language = request.language, .transcript = &transcripts[i]};
      if (request.language >= 0) {
        transcripts[i].language = tsr_tokenizer_language(t->tokenizer, request.language);
      }
    }
    status = hear(t, &request, sounds, n, windows);
  }
  for (int32_t i = 0; sounds && i < n; i++) {
    end_sound(NULL, &sounds[i]);
    if (status != TSR_OK) {
      tsr_transcript_finish(&transcripts[i]);
    }
  }
  for (int32_t i = 0; windows && i < n_windows; i++) {
    free(windows[i].values);
    free(windows[i].input);
    free(windows[i].tokens);
    free(windows[i].times);
    free(windows[i].probabilities);
  }
  free(windows);
  free(sounds);
  tsr_free(request.prompt);
  return status;
}

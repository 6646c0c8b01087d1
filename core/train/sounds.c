/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/sounds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/train/draws.h"

enum {
  FRAMES = 2, /* of a position */
  MOST_POSITIONS = TSR_FEATURES_MOST / FRAMES,
  SAMPLES = FRAMES * TSR_MEL_HOP, /* likewise */
  REACH = 200                     /* samples before the middle of a frame that belong to it */
};

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static tsr_status check(const tsr_training_sounds *o)
{
  const struct {
    const char *name;
    double value, low, high;
  } numbers[] = {{"mels", o->mels, 1, TSR_MEL_MOST_MELS},
                 {"positions", o->positions, 1, MOST_POSITIONS},
                 {"task", o->task, TSR_SPEECH_TRANSCRIBE, TSR_SPEECH_TRANSLATE},
                 {"whole", o->whole, 0, 1},
                 {"timestamps", o->timestamps, 0, 1},
                 {"time_masks", o->time_masks, 0, 1000},
                 {"time_width", o->time_width, 0, TSR_FEATURES_MOST},
                 {"time_share", o->time_share, 0, 1},
                 {"mel_masks", o->mel_masks, 0, 1000},
                 {"mel_width", o->mel_width, 0, o->mels}};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    if (!(numbers[i].value >= numbers[i].low && numbers[i].value <= numbers[i].high)) {
      return tsr_fail(TSR_ERR_ARGUMENT, "tsr_training_sounds: %s is %g; expected %g to %g", numbers[i].name,
                      numbers[i].value, numbers[i].low, numbers[i].high);
    }
  }
  return TSR_OK;
}

static tsr_status make_room(tsr_sound_reader *r, const char *list)
{
  const char *slash = strrchr(list, '/');
  const size_t length = slash ? (size_t)(slash - list) : 0, window = (size_t)r->options.positions * SAMPLES;
  const size_t features = (size_t)r->options.mels * (size_t)r->options.positions * FRAMES;
  r->folder = malloc(length + 2);
  r->samples = malloc((window + 1) * sizeof *r->samples);
  r->features = malloc(features * sizeof *r->features);
  if (!r->folder || !r->samples || !r->features) {
    return tsr_fail_memory((window + 1 + features) * sizeof *r->features);
  }
  memcpy(r->folder, list, length);
  snprintf(r->folder + length, 2, "%s", !slash ? "." : length == 0 ? "/" : "");
  return TSR_OK;
}

tsr_status tsr_sound_reader_open(tsr_sound_reader *reader, const tsr_training_data_options *options, const char *list)
{
  tsr_training_sounds *o = &reader->options;
  o->task = o->task ? o->task : TSR_SPEECH_TRANSCRIBE;
  TSR_TRY(check(o));
  if (options->task) {
    return tsr_fail(TSR_ERR_ARGUMENT, "training data: sounds belong to files, and there is a task");
  }
  if (options->max_ratio > 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "training data: positions of a sound and ids of a text have no ratio: expected "
                                      "max_ratio 0");
  }
  reader->seed = options->seed;
  reader->tokenizer = options->tokenizer;
  TSR_TRY(tsr_speech_get_tokens(options->tokenizer, &reader->tokens));
  reader->language = -1;
  if (o->language) {
    TSR_TRY(tsr_speech_find_language(options->tokenizer, o->language, &reader->language));
  }
  TSR_TRY(make_room(reader, list));
  return tsr_mel_create(o->mels, &reader->mel);
}

void tsr_sound_reader_finish(tsr_sound_reader *reader)
{
  tsr_mel_destroy(reader->mel);
  free(reader->folder);
  free(reader->samples);
  free(reader->features);
  *reader = (tsr_sound_reader){0};
}

/* ---- the sound --------------------------------------------------------------------------------------------------- */

/* Reads the samples; *n is more than a window has if the sound has more. */
static tsr_status read_samples(tsr_sound_reader *r, const char *path, int64_t *n)
{
  const tsr_audio_options options = {TSR_SIZED(tsr_audio_options), .plugins_path = r->options.plugins_path};
  const int64_t most = (int64_t)r->options.positions * SAMPLES + 1;
  tsr_audio *audio;
  TSR_TRY(tsr_audio_open(path, &options, &audio));
  const tsr_status status = tsr_audio_read(audio, r->samples, most, n);
  tsr_audio_close(audio);
  return status;
}

/* Of n samples: the features of the frames that sound, the mean of these, and the feature of silence. */
static tsr_status make_features(tsr_sound_reader *r, int64_t n, tsr_pair_sound *sound)
{
  const int32_t window = FRAMES * r->options.positions, mels = r->options.mels;
  const int64_t sounding = (n + REACH + TSR_MEL_HOP - 1) / TSR_MEL_HOP;
  const int32_t frames = sounding < window ? (int32_t)sounding : window;
  /* A few frames of silence, so that neither the last frame that sounds nor the first that does not reaches an end. */
  const int32_t all = frames + 4 < window ? frames + 4 : window;
  TSR_TRY(tsr_mel_features(r->mel, r->samples, n, (int64_t)all * TSR_MEL_HOP, r->features));
  sound->frames = frames;
  sound->silence = r->features[frames < all ? frames : all - 1];
  sound->values = malloc((size_t)frames * (size_t)mels * sizeof *sound->values);
  if (!sound->values) {
    return tsr_fail_memory((size_t)frames * (size_t)mels * sizeof *sound->values);
  }
  double sum = 0;
  tsr_status status = TSR_OK;
  for (int32_t m = 0; m < mels && status == TSR_OK; m++) {
    const float *row = r->features + (int64_t)m * all;
    for (int32_t i = 0; i < frames; i++) {
      sum += (double)row[i];
    }
    status = tsr_convert(TSR_F32, row, TSR_F16, sound->values + (int64_t)m * frames, frames);
  }
  sound->mean = (float)(sum / ((double)frames * mels));
  return status;
}

static tsr_status read_sound(tsr_sound_reader *r, const tsr_corpus_pair *pair, tsr_pair_sound *sound, int64_t *n)
{
  char *name = malloc(pair->source_size + 1);
  if (!name) {
    return tsr_fail_memory(pair->source_size + 1);
  }
  memcpy(name, pair->source, pair->source_size);
  name[pair->source_size] = '\0';
  char *path = name[0] == '/' ? strdup(name) : tsr_path_join(r->folder, name);
  tsr_status status = path ? read_samples(r, path, n) : tsr_fail_memory(pair->source_size + 1);
  if (status == TSR_OK && *n <= (int64_t)r->options.positions * SAMPLES) {
    status = make_features(r, *n, sound);
  }
  free(path);
  free(name);
  return status;
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

static tsr_status find_language(const tsr_sound_reader *r, tsr_span name, int32_t *language)
{
  char text[64];
  *language = r->language;
  if (name.size == 0 || r->language < 0) {
    return TSR_OK;
  }
  snprintf(text, sizeof text, "%.*s", (int)(name.size < sizeof text ? name.size : sizeof text - 1), name.bytes);
  return tsr_speech_find_language(r->tokenizer, text, language);
}

static tsr_status find_task(const tsr_sound_reader *r, tsr_span name, int32_t *task)
{
  static const char *const names[] = {"transcribe", "translate"};
  *task = r->options.task;
  for (int32_t i = 0; i < 2; i++) {
    if (name.size == strlen(names[i]) && memcmp(name.bytes, names[i], name.size) == 0) {
      *task = i == 0 ? TSR_SPEECH_TRANSCRIBE : TSR_SPEECH_TRANSLATE;
      return TSR_OK;
    }
  }
  return name.size == 0 ? TSR_OK
                        : tsr_fail(TSR_ERR_FORMAT, "there is no task '%.*s': expected transcribe or translate",
                                   (int)(name.size < 64 ? name.size : 64), name.bytes);
}

/* The prompt behind <|startoftranscript|>, the text, between timestamps if the pair is to have them, <|endoftext|>.
 * samples: of the sound. */
static tsr_status make_target(const tsr_sound_reader *r, const tsr_corpus_pair *pair, tsr_span language_name,
                              tsr_span task_name, int64_t samples, int32_t *prompt, int32_t **target, int32_t *n_target)
{
  int32_t prefix[TSR_SPEECH_PREFIX], n_prefix, language, task, *ids, n;
  const uint64_t line = (uint64_t)pair->number;
  tsr_draws draws = tsr_draws_make(r->seed, TSR_DRAWS_TIMESTAMPS, 0, (uint32_t)line, (uint32_t)(line >> 32));
  const int has_times = tsr_draw_share(&draws, r->options.timestamps);
  TSR_TRY(find_language(r, language_name, &language));
  TSR_TRY(find_task(r, task_name, &task));
  TSR_TRY(tsr_speech_prefix(r->tokenizer, language, language >= 0 ? task : TSR_SPEECH_NO_TASK, has_times, prefix,
                            &n_prefix));
  TSR_TRY(tsr_speech_prompt(r->tokenizer, pair->target, pair->target_size, &ids, &n));
  int32_t *all = malloc(((size_t)n_prefix + (size_t)n + 3) * sizeof *all), at = 0;
  if (!all) {
    tsr_free(ids);
    return tsr_fail_memory(((size_t)n_prefix + (size_t)n + 3) * sizeof *all);
  }
  for (int32_t i = 1; i < n_prefix; i++) {
    all[at++] = prefix[i];
  }
  *prompt = at;
  if (has_times) {
    all[at++] = r->tokens.timestamp_begin;
  }
  for (int32_t i = 1; i < n; i++) { /* behind <|startofprev|> */
    all[at++] = ids[i];
  }
  if (has_times) {
    all[at++] = r->tokens.timestamp_begin + (int32_t)((samples + SAMPLES / 2) / SAMPLES);
  }
  all[at++] = r->tokens.end_of_text;
  tsr_free(ids);
  *target = all;
  *n_target = at;
  return TSR_OK;
}

tsr_status tsr_sound_read(tsr_sound_reader *reader, const tsr_corpus_pair *pair, tsr_span language, tsr_span task,
                          tsr_pair_sound *sound, int32_t *is_long, int32_t **target, int32_t *n_target)
{
  int64_t n = 0;
  *sound = (tsr_pair_sound){0};
  *target = NULL;
  *n_target = 0;
  tsr_status status = read_sound(reader, pair, sound, &n);
  *is_long = status == TSR_OK && !sound->values;
  if (status == TSR_OK) {
    status = make_target(reader, pair, language, task, n, &sound->prompt, target, n_target);
  }
  if (status != TSR_OK) {
    free(sound->values);
    sound->values = NULL;
  }
  return status;
}

/* ---- rows of a batch --------------------------------------------------------------------------------------------- */

void tsr_sound_fill(const tsr_pair_sound *sound, int32_t mels, int32_t width, float *row)
{
  const int32_t n = sound->frames < width ? sound->frames : width;
  for (int32_t m = 0; m < mels; m++) {
    float *to = row + (int64_t)m * width;
    tsr_status status = tsr_convert(TSR_F16, sound->values + (int64_t)m * sound->frames, TSR_F32, to, n);
    (void)status; /* types that there are */
    for (int32_t i = n; i < width; i++) {
      to[i] = sound->silence;
    }
  }
}

static int32_t draw_up_to(tsr_draws *draws, int32_t most)
{
  return (int32_t)tsr_draw_below(draws, (uint32_t)most + 1);
}

static int32_t least(int32_t a, int32_t b)
{
  return a < b ? a : b;
}

void tsr_sound_mask(const tsr_training_sounds *options, uint64_t seed, int64_t epoch, int64_t line,
                    const tsr_pair_sound *sound, int32_t width, float *row)
{
  const int32_t frames = least(sound->frames, width), mels = options->mels;
  const int32_t share = options->time_share > 0 ? (int32_t)(options->time_share * frames) : frames;
  tsr_draws draws = tsr_draws_make(seed, TSR_DRAWS_MASKS, (uint32_t)epoch & 0xFFFFFF, (uint32_t)(uint64_t)line,
                                   (uint32_t)((uint64_t)line >> 32));
  for (int32_t k = 0; k < options->time_masks + options->mel_masks; k++) {
    const int is_time = k < options->time_masks;
    const int32_t most = is_time ? least(options->time_width, share) : options->mel_width;
    const int32_t wide = draw_up_to(&draws, most), first = draw_up_to(&draws, (is_time ? frames : mels) - wide);
    const int32_t first_mel = is_time ? 0 : first, end_mel = is_time ? mels : first + wide;
    const int32_t first_frame = is_time ? first : 0, end_frame = is_time ? first + wide : frames;
    for (int32_t m = first_mel; m < end_mel; m++) {
      for (int32_t i = first_frame; i < end_frame; i++) {
        row[(int64_t)m * width + i] = sound->mean;
      }
    }
  }
}

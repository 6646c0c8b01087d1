/* SPDX-License-Identifier: Apache-2.0
 *
 * Sounds: opened, resampled, restarted.
 */
#include "tessera/audio.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/audio/reader.h"
#include "core/base/sized.h"
#include "core/base/status.h"

enum { LEAST_RATE = 1000, MOST_RATE = 4000000, BLOCK = 1 << 14 /* samples that are resampled at once */ };

struct tsr_audio {
  char *name;
  tsr_source source;
  tsr_audio_options options;
  tsr_audio_info info; /* its format is `format` */
  char format[64];
  tsr_reader reader;
  tsr_audio_library resampler;
  void *resampling; /* NULL: the sound has the right rate */
  float *block;     /* [BLOCK] samples at the sound's rate, of which [begin, end) are not resampled yet */
  int64_t begin, end;
  int64_t made;      /* samples at 16 kHz */
  int32_t is_read;   /* 1: the reader has no more */
  tsr_status failed; /* what became of the reader, and its message; what came before is given first */
  char message[TSR_READER_MESSAGE];
};

/* Samples at 16 kHz of n at `rate`; -1 if they are unknown, or beyond what a file can hold. */
static int64_t resampled_length(int64_t n, int64_t rate)
{
  if (n < 0 || n > INT64_MAX / (TSR_AUDIO_RATE / LEAST_RATE + 1)) {
    return -1;
  }
  return n / rate * TSR_AUDIO_RATE + (n % rate * TSR_AUDIO_RATE + rate / 2) / rate;
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static tsr_status begin_resampling(tsr_audio *audio)
{
  const int32_t rate = audio->reader.facts.rate;
  if (rate < LEAST_RATE || rate > MOST_RATE) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: %d samples a second, expected %d to %d", audio->source.name, (int)rate,
                    LEAST_RATE, MOST_RATE);
  }
  if (rate == TSR_AUDIO_RATE) {
    return TSR_OK;
  }
  int is_missing;
  char message[TSR_AUDIO_MESSAGE_ROOM] = "";
  TSR_TRY(tsr_fail_context(
      tsr_audio_library_open(&tsr_audio_resampler, audio->options.plugins_path, &audio->resampler, &is_missing),
      "%s: %d samples a second, and a plugin is needed to make %d of them", audio->source.name, (int)rate,
      TSR_AUDIO_RATE));
  const int32_t result = audio->resampler.table->resampler_create(rate, TSR_AUDIO_RATE, &audio->resampling, message);
  audio->resampling = result == TSR_OK ? audio->resampling : NULL;
  TSR_TRY(tsr_fail_context(tsr_audio_library_check(&audio->resampler, result, message), "%s", audio->source.name));
  audio->block = malloc(BLOCK * sizeof *audio->block);
  return audio->block ? TSR_OK : tsr_fail_memory(BLOCK * sizeof *audio->block);
}

/* All but the source. */
static void end_reading(tsr_audio *audio)
{
  if (audio->resampling) {
    audio->resampler.table->resampler_destroy(audio->resampling);
    audio->resampling = NULL;
  }
  tsr_audio_library_close(&audio->resampler);
  tsr_reader_close(&audio->reader);
  free(audio->block);
  audio->block = NULL;
  audio->begin = audio->end = audio->made = 0;
  audio->is_read = 0;
  audio->failed = TSR_OK;
}

static void fill_info(tsr_audio *audio)
{
  const tsr_audio_facts *f = &audio->reader.facts;
  memcpy(audio->format, f->format, sizeof audio->format);
  audio->info = (tsr_audio_info){
      .format = audio->format,
      .rate = f->rate,
      .channels = f->channels,
      .length = f->length,
      .samples = resampled_length(f->length, f->rate),
      .can_restart = audio->source.size >= 0,
  };
}

static tsr_status begin_reading(tsr_audio *audio)
{
  TSR_TRY(tsr_reader_open(&audio->source, &audio->options, &audio->reader));
  tsr_status status = begin_resampling(audio);
  if (status != TSR_OK) {
    end_reading(audio);
    return status;
  }
  fill_info(audio);
  return TSR_OK;
}

static tsr_status read_options(const tsr_audio_options *given, tsr_audio_options *options)
{
  TSR_TRY(TSR_SIZED_READ(tsr_audio_options, plugins_path, given, options));
  if (options->raw < 0 || options->raw > TSR_AUDIO_F32) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_audio_options: raw is %d, expected TSR_AUDIO_S16 or TSR_AUDIO_F32, or 0",
                    (int)options->raw);
  }
  if (!options->raw && (options->rate || options->channels)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_audio_options: rate and channels are for raw samples: a file has its own");
  }
  options->rate = options->rate ? options->rate : TSR_AUDIO_RATE;
  options->channels = options->channels ? options->channels : 1;
  return TSR_OK;
}

static tsr_status create(const char *name, const tsr_audio_options *options, tsr_audio **audio)
{
  tsr_audio *a = calloc(1, sizeof *a);
  if (!a) {
    return tsr_fail_memory(sizeof *a);
  }
  tsr_status status = read_options(options, &a->options);
  if (status == TSR_OK && !(a->name = strdup(name))) {
    status = tsr_fail_memory(strlen(name) + 1);
  }
  if (status != TSR_OK) {
    free(a);
    return status;
  }
  *audio = a;
  return TSR_OK;
}

/* Hands the sound over if it can be read. */
static tsr_status finish(tsr_audio *made, tsr_audio **audio)
{
  const tsr_status status = begin_reading(made);
  if (status != TSR_OK) {
    tsr_audio_close(made);
    return status;
  }
  *audio = made;
  return TSR_OK;
}

tsr_status tsr_audio_open(const char *path, const tsr_audio_options *options, tsr_audio **audio)
{
  if (!path || !audio) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_audio_open: path and audio must not be NULL");
  }
  *audio = NULL;
  tsr_audio *made = NULL;
  TSR_TRY(create(path, options, &made));
  const tsr_status status = tsr_source_open(made->name, &made->source);
  if (status != TSR_OK) {
    tsr_audio_close(made);
    return status;
  }
  return finish(made, audio);
}

tsr_status tsr_audio_view(const char *name, const void *bytes, size_t size, const tsr_audio_options *options,
                          tsr_audio **audio)
{
  if (!name || (!bytes && size > 0) || !audio) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_audio_view: name, bytes and audio must not be NULL");
  }
  *audio = NULL;
  tsr_audio *made = NULL;
  TSR_TRY(create(name, options, &made));
  tsr_source_view(made->name, bytes, size, &made->source);
  return finish(made, audio);
}

tsr_status tsr_audio_open_source(const char *name, const tsr_audio_source *source, const tsr_audio_options *options,
                                 tsr_audio **audio)
{
  if (!name || !source || !source->read || (source->seek && source->size < 0) || !audio) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_audio_open_source: name, source, its read and audio must not be NULL, nor size below 0 with "
                    "seek");
  }
  *audio = NULL;
  tsr_audio *made = NULL;
  TSR_TRY(create(name, options, &made));
  tsr_source_give(made->name, source, &made->source);
  return finish(made, audio);
}

void tsr_audio_close(tsr_audio *audio)
{
  if (audio) {
    end_reading(audio);
    tsr_source_close(&audio->source);
    free(audio->name);
    free(audio);
  }
}

void tsr_audio_describe_sized(const tsr_audio *audio, tsr_audio_info *info, size_t size)
{
  tsr_sized_fill(&audio->info, sizeof audio->info, info, size);
}

tsr_status tsr_audio_restart(tsr_audio *audio)
{
  if (!audio) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_audio_restart: audio must not be NULL");
  }
  if (audio->source.size < 0) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: a pipe cannot be read again from its beginning", audio->source.name);
  }
  end_reading(audio);
  TSR_TRY(tsr_source_seek(&audio->source, 0));
  return begin_reading(audio);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The next n samples at the sound's own rate; *got is 0 at the end alone. After an error each call has it. */
static tsr_status read_on(tsr_audio *audio, float *samples, int64_t n, int64_t *got)
{
  *got = 0;
  if (audio->failed != TSR_OK) {
    return tsr_fail(audio->failed, "%s", audio->message);
  }
  const tsr_status status = tsr_reader_read(&audio->reader, samples, n, got);
  if (status != TSR_OK) {
    audio->failed = status;
    snprintf(audio->message, sizeof audio->message, "%s", tsr_error_message());
  }
  return *got > 0 ? TSR_OK : status;
}

/* Sees to it that there is something to resample, unless all was read. */
static tsr_status fill_block(tsr_audio *audio)
{
  if (audio->begin < audio->end || audio->is_read) {
    return TSR_OK;
  }
  int64_t got;
  TSR_TRY(read_on(audio, audio->block, BLOCK, &got));
  audio->begin = 0;
  audio->end = got;
  audio->is_read = got == 0;
  return TSR_OK;
}

/* Some of the next n samples; *got is 0 at the end alone. */
static tsr_status resample(tsr_audio *audio, float *samples, int64_t n, int64_t *got)
{
  int64_t used = 1;
  for (*got = 0; *got == 0 && used > 0;) {
    TSR_TRY(fill_block(audio));
    if (audio->is_read) {
      const int64_t left = resampled_length(audio->reader.taken, audio->reader.facts.rate) - audio->made;
      n = left < n ? left : n;
    }
    if (n <= 0) {
      return TSR_OK;
    }
    char message[TSR_AUDIO_MESSAGE_ROOM] = "";
    const int64_t given = audio->end - audio->begin;
    used = 0;
    const int32_t result = audio->resampler.table->resample(
        audio->resampling, audio->is_read ? NULL : audio->block + audio->begin, given, &used, samples, n, got, message);
    TSR_TRY(tsr_fail_context(tsr_audio_library_check(&audio->resampler, result, message), "%s", audio->source.name));
    if (used < 0 || used > given || *got < 0 || *got > n || (!audio->is_read && used == 0 && *got == 0)) {
      return tsr_fail(TSR_ERR_PLUGIN, "%s: %s takes %lld of %lld samples and gives %lld of %lld: a fault of the plugin",
                      audio->source.name, audio->resampler.table->name, (long long)used, (long long)given,
                      (long long)*got, (long long)n);
    }
    audio->begin += used;
  }
  if (*got == 0) { /* the resampler ended sooner than the sound */
    memset(samples, 0, (size_t)n * sizeof *samples);
    *got = n;
  }
  return TSR_OK;
}

tsr_status tsr_audio_read(tsr_audio *audio, float *samples, int64_t n, int64_t *got)
{
  if (!audio || !got || n < 0 || (!samples && n > 0)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_audio_read: %lld samples; audio, samples and got must not be NULL",
                    (long long)n);
  }
  *got = 0;
  if (!tsr_reader_is_open(&audio->reader)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: was not restarted, and cannot be read", audio->source.name);
  }
  for (int64_t found = 1; found > 0 && *got < n; *got += found) {
    TSR_TRY(audio->resampling ? resample(audio, samples + *got, n - *got, &found)
                              : read_on(audio, samples + *got, n - *got, &found));
    audio->made += found;
  }
  return TSR_OK;
}

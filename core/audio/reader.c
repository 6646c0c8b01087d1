/* SPDX-License-Identifier: Apache-2.0 */
#include "core/audio/reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

enum { MOST_CHANNELS = 1024, NUMBERS = 1 << 14 /* of all channels, that a plugin gives at once */ };

/* ---- WAV files and raw samples ----------------------------------------------------------------------------------- */

/* tsr_byte_source */
static tsr_status read_bytes(void *context, void *bytes, size_t size, size_t *got)
{
  return tsr_source_read(context, bytes, size, got);
}

static void take_wav(tsr_reader *reader, const char *format, const tsr_wav_info *info)
{
  reader->facts.rate = info->rate;
  reader->facts.channels = info->channels;
  reader->facts.length = info->length;
  snprintf(reader->facts.format, sizeof reader->facts.format, "%s", format);
}

static tsr_status open_raw(tsr_reader *reader, const tsr_audio_options *options)
{
  const tsr_byte_source bytes = {read_bytes, reader->source};
  const int is_float = options->raw == TSR_AUDIO_F32;
  tsr_wav_info info;
  TSR_TRY(
      tsr_wav_open_raw(reader->source->name, &bytes, is_float, options->rate, options->channels, &reader->wav, &info));
  if (reader->source->size >= 0) {
    info.length = reader->source->size / options->channels / (is_float ? 4 : 2);
  }
  take_wav(reader, "raw", &info);
  return TSR_OK;
}

static tsr_status open_wav(tsr_reader *reader)
{
  const tsr_byte_source bytes = {read_bytes, reader->source};
  tsr_wav_info info;
  TSR_TRY(tsr_wav_open(reader->source->name, &bytes, &reader->wav, &info));
  take_wav(reader, "WAV", &info);
  return TSR_OK;
}

/* ---- plugins ----------------------------------------------------------------------------------------------------- */

/* Keeps what became of the source, since the plugin's own error comes behind it. */
static int32_t noted(tsr_reader *reader, tsr_status status)
{
  if (status != TSR_OK && reader->io_status == TSR_OK) {
    reader->io_status = status;
    snprintf(reader->io_message, sizeof reader->io_message, "%s", tsr_error_message());
  }
  return status;
}

static int32_t give_bytes(void *context, void *bytes, int64_t size, int64_t *got)
{
  tsr_reader *reader = context;
  size_t n = 0;
  *got = 0;
  const tsr_status status = size > 0 ? tsr_source_read(reader->source, bytes, (size_t)size, &n) : TSR_OK;
  *got = (int64_t)n;
  return noted(reader, status);
}

static int32_t seek_bytes(void *context, int64_t offset)
{
  tsr_reader *reader = context;
  if (offset < 0 || offset > reader->source->size) {
    return TSR_ERR_ARGUMENT; /* a header names a place behind the file's end: the plugin tells of it */
  }
  return noted(reader, tsr_source_seek(reader->source, offset));
}

/* What a slot returned; the source's own error comes first. */
static tsr_status check(const tsr_reader *reader, int32_t result, const char *message)
{
  if (reader->io_status != TSR_OK) {
    return tsr_fail(reader->io_status, "%s", reader->io_message);
  }
  return tsr_fail_context(tsr_audio_library_check(&reader->decoder, result, message), "%s", reader->source->name);
}

static tsr_status check_facts(tsr_reader *reader)
{
  tsr_audio_facts *f = &reader->facts;
  f->format[sizeof f->format - 1] = '\0';
  if (f->channels < 1 || f->channels > MOST_CHANNELS || f->rate < 1) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %d channels of %d samples a second, expected 1 to %d of 1 or more",
                    reader->source->name, (int)f->channels, (int)f->rate, MOST_CHANNELS);
  }
  f->length = f->length < 0 ? -1 : f->length;
  reader->at_once = NUMBERS / f->channels;
  reader->frame = malloc(NUMBERS * sizeof *reader->frame);
  return reader->frame ? TSR_OK : tsr_fail_memory(NUMBERS * sizeof *reader->frame);
}

static void close_sound(tsr_reader *reader)
{
  if (reader->sound) {
    reader->decoder.table->close(reader->sound);
    reader->sound = NULL;
  }
  tsr_audio_library_close(&reader->decoder);
}

/* Has one plugin open the file. */
static tsr_status open_with(tsr_reader *reader, const tsr_audio_plugin_kind *kind, const char *path, int *is_missing)
{
  char message[TSR_AUDIO_MESSAGE_ROOM] = "";
  TSR_TRY(tsr_source_seek(reader->source, 0));
  TSR_TRY(tsr_fail_context(tsr_audio_library_open(kind, path, &reader->decoder, is_missing),
                           "%s: not a WAV file, and a plugin is needed to read another", reader->source->name));
  reader->bytes = (tsr_audio_bytes){give_bytes, seek_bytes, reader, reader->source->size};
  reader->facts = (tsr_audio_facts){TSR_SIZED(tsr_audio_facts)};
  void *sound = NULL;
  const int32_t result = reader->decoder.table->open(&reader->bytes, &sound, &reader->facts, message);
  reader->sound = result == TSR_OK ? sound : NULL;
  tsr_status status = check(reader, result, message);
  if (status == TSR_OK) {
    status = check_facts(reader);
  }
  if (status != TSR_OK) {
    close_sound(reader);
  }
  return status;
}

/* Of two errors, which is told: that of a plugin which knows the format, then that of a missing plugin. */
static int weight_of(tsr_status status)
{
  return status == TSR_ERR_UNSUPPORTED ? 1 : status == TSR_ERR_PLUGIN ? 2 : 3;
}

static tsr_status open_other(tsr_reader *reader, const char *path)
{
  tsr_status told = TSR_OK;
  char message[TSR_READER_MESSAGE] = "";
  const tsr_audio_plugin_kind *missing = NULL, *also_missing = NULL;
  if (reader->source->size < 0) {
    TSR_TRY(tsr_source_keep(reader->source));
  }
  if (reader->source->size == 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the file is empty", reader->source->name);
  }
  for (int32_t i = 0; i < TSR_AUDIO_DECODERS; i++) {
    int is_missing = 0;
    const tsr_status status = open_with(reader, &tsr_audio_decoders[i], path, &is_missing);
    if (status == TSR_OK || status == TSR_ERR_OUT_OF_MEMORY || reader->io_status != TSR_OK) {
      return status;
    }
    if (is_missing) {
      also_missing = missing ? &tsr_audio_decoders[i] : NULL;
      missing = missing ? missing : &tsr_audio_decoders[i];
    }
    if (weight_of(status) > weight_of(told) || told == TSR_OK) {
      told = status;
      snprintf(message, sizeof message, "%s", tsr_error_message());
    }
  }
  if (also_missing) {
    return tsr_fail(told, "%s; nor is there the plugin %s, which %s (Debian: %s)", message, also_missing->name,
                    also_missing->work, also_missing->packages);
  }
  return tsr_fail(told, "%s", message);
}

/* ------------------------------------------------------------------------------------------------------------------ */

/* The first bytes, as many as there are up to `size`. */
static tsr_status look(tsr_source *source, unsigned char *head, size_t size, size_t *n)
{
  size_t got = 1;
  for (*n = 0; *n < size && got > 0; *n += got) {
    TSR_TRY(tsr_source_read(source, head + *n, size - *n, &got));
  }
  return tsr_source_restart(source);
}

static tsr_status open_any(tsr_reader *reader, const tsr_audio_options *options)
{
  if (options->raw) {
    tsr_source_settle(reader->source);
    return open_raw(reader, options);
  }
  unsigned char head[TSR_WAV_HEAD] = {0};
  size_t n;
  TSR_TRY(look(reader->source, head, sizeof head, &n));
  if (tsr_wav_is_one(head, n)) {
    const tsr_status status = open_wav(reader);
    /* A coding of samples that the library does not read: a decoder may. */
    if (status != TSR_ERR_UNSUPPORTED || tsr_source_restart(reader->source) != TSR_OK) {
      tsr_source_settle(reader->source);
      return status;
    }
  }
  tsr_source_settle(reader->source);
  return open_other(reader, options->plugins_path);
}

tsr_status tsr_reader_open(tsr_source *source, const tsr_audio_options *options, tsr_reader *reader)
{
  *reader = (tsr_reader){.source = source};
  const tsr_status status = open_any(reader, options);
  if (status != TSR_OK) {
    tsr_reader_close(reader);
  }
  return status;
}

void tsr_reader_close(tsr_reader *reader)
{
  tsr_wav_close(reader->wav);
  reader->wav = NULL;
  close_sound(reader);
  free(reader->frame);
  reader->frame = NULL;
}

int tsr_reader_is_open(const tsr_reader *reader)
{
  return reader->wav || reader->sound;
}

/* The mean of the channels of n samples. */
static tsr_status mix(tsr_reader *reader, float *samples, int64_t n)
{
  const float *number = reader->frame;
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int32_t channel = 0; channel < reader->facts.channels; channel++) {
      sum += (double)*number++;
    }
    samples[i] = (float)(sum / reader->facts.channels);
    if (!isfinite(samples[i])) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: sample %" PRId64 " is not finite", reader->source->name, reader->taken + i);
    }
  }
  return TSR_OK;
}

tsr_status tsr_reader_read(tsr_reader *reader, float *samples, int64_t n, int64_t *got)
{
  tsr_status status = TSR_OK;
  *got = 0;
  if (reader->wav) {
    status = tsr_wav_read(reader->wav, samples, n, got);
  } else if (n > 0) {
    char message[TSR_AUDIO_MESSAGE_ROOM] = "";
    const int64_t wanted = n < reader->at_once ? n : reader->at_once;
    int64_t found = 0;
    const int32_t result = reader->decoder.table->read(reader->sound, reader->frame, wanted, &found, message);
    TSR_TRY(check(reader, result, message));
    if (found < 0 || found > wanted) {
      return tsr_fail(TSR_ERR_PLUGIN, "%s: %s gives %lld samples where %lld were asked for: a fault of the plugin",
                      reader->source->name, reader->decoder.table->name, (long long)found, (long long)wanted);
    }
    TSR_TRY(mix(reader, samples, found));
    *got = found;
  }
  reader->taken += *got;
  return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/audio/wav.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

enum {
  PCM = 1,
  FLOAT = 3,
  EXTENSIBLE = 0xFFFE, /* the format is named by the first two bytes of an identifier at SUBFORMAT */
  FORMAT_BYTES = 16,
  SUBFORMAT = 24,
  MOST_CHANNELS = 1024,
  MOST_RATE = 1 << 24,
  BUFFER_BYTES = 1 << 16
};

static const uint32_t unknown = 0xFFFFFFFFu; /* a size that the writer did not know, or that stands elsewhere */

struct tsr_wav {
  const char *name;
  tsr_byte_source source;
  int32_t coding, channels, sample_bytes;
  uint64_t at;           /* bytes of the file that were read */
  int64_t left;          /* bytes of samples; -1: to the end of the file */
  int64_t taken;         /* samples of each channel */
  unsigned char *buffer; /* [BUFFER_BYTES] */
};

static uint32_t little(const unsigned char *bytes, int32_t n)
{
  uint32_t value = 0;
  for (int32_t i = 0; i < n; i++) {
    value |= (uint32_t)bytes[i] << 8 * i;
  }
  return value;
}

static uint64_t little64(const unsigned char *bytes)
{
  return little(bytes, 4) | (uint64_t)little(bytes + 4, 4) << 32;
}

/* As many bytes as there are, up to size. */
static tsr_status read_up_to(tsr_wav *wav, void *bytes, size_t size, size_t *got)
{
  tsr_status status = TSR_OK;
  size_t n = 1;
  for (*got = 0; *got < size && n > 0 && status == TSR_OK; *got += n) {
    n = 0;
    status = wav->source.read(wav->source.context, (unsigned char *)bytes + *got, size - *got, &n);
  }
  wav->at += *got;
  return status;
}

static tsr_status read_all(tsr_wav *wav, void *bytes, size_t size, const char *what)
{
  size_t got;
  const tsr_status status = read_up_to(wav, bytes, size, &got);
  if (status == TSR_OK && got < size) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: the file ends before %s", wav->name, what);
  }
  return status;
}

static tsr_status skip(tsr_wav *wav, uint64_t size)
{
  tsr_status status = TSR_OK;
  while (size > 0 && status == TSR_OK) {
    const size_t n = size < BUFFER_BYTES ? (size_t)size : BUFFER_BYTES;
    status = read_all(wav, wav->buffer, n, "its samples");
    size -= n;
  }
  return status;
}

/* ---- the header -------------------------------------------------------------------------------------------------- */

static tsr_status read_format(tsr_wav *wav, uint32_t size, tsr_wav_info *info)
{
  unsigned char format[SUBFORMAT + 2] = {0};
  if (size < FORMAT_BYTES) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: its format has %" PRIu32 " bytes, expected %d at least", wav->name, size,
                    FORMAT_BYTES);
  }
  const uint32_t known = size < sizeof format ? size : sizeof format;
  tsr_status status = read_all(wav, format, known, "its format");
  if (status == TSR_OK) {
    status = skip(wav, size - known + size % 2);
  }
  if (status != TSR_OK) {
    return status;
  }
  const uint32_t channels = little(format + 2, 2), rate = little(format + 4, 4), bits = little(format + 14, 2);
  const uint32_t coding = little(format, 2);
  wav->coding = (int32_t)(coding == EXTENSIBLE ? little(format + SUBFORMAT, 2) : coding);
  const int is_pcm = wav->coding == PCM && (bits == 8 || bits == 16 || bits == 24 || bits == 32);
  const int is_float = wav->coding == FLOAT && (bits == 32 || bits == 64);
  if (!is_pcm && !is_float) {
    return tsr_fail(TSR_ERR_UNSUPPORTED,
                    "%s: its samples have coding %d with %" PRIu32
                    " bits, expected %d with 8, 16, 24 or 32, or %d with "
                    "32 or 64",
                    wav->name, wav->coding, bits, PCM, FLOAT);
  }
  if (channels < 1 || channels > MOST_CHANNELS || rate < 1 || rate > MOST_RATE) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s: %" PRIu32 " channels of %" PRIu32 " samples a second, expected 1 to %d of 1 to %d", wav->name,
                    channels, rate, MOST_CHANNELS, MOST_RATE);
  }
  wav->sample_bytes = (int32_t)bits / 8;
  wav->channels = info->channels = (int32_t)channels;
  info->rate = (int32_t)rate;
  if (little(format + 12, 2) != channels * bits / 8) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: a sample of %" PRIu32 " channels has %" PRIu32 " bytes, expected %" PRIu32,
                    wav->name, channels, little(format + 12, 2), channels * bits / 8);
  }
  return TSR_OK;
}

/* Sizes that 32 bits cannot hold: that of the samples stands behind that of the file. */
static tsr_status read_large_sizes(tsr_wav *wav, uint32_t size, uint64_t *file, uint64_t *samples)
{
  unsigned char sizes[16];
  if (size < sizeof sizes) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: its large sizes have %" PRIu32 " bytes, expected %zu at least", wav->name,
                    size, sizeof sizes);
  }
  const tsr_status status = read_all(wav, sizes, sizeof sizes, "its large sizes");
  if (status != TSR_OK) {
    return status;
  }
  *file = little64(sizes);
  *samples = little64(sizes + 8);
  if (*samples > INT64_MAX) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: its samples have %" PRIu64 " bytes", wav->name, *samples);
  }
  return skip(wav, size - sizeof sizes + size % 2);
}

/* Writers that cannot come back to a header leave in it what it might hold at most: a little less than 2^31 bytes or
 * just as many (SoX, arecord), or a little less than 2^32 (FFmpeg). */
static int is_guess(uint64_t size)
{
  return (size >= 0x7FFFF000u && size <= 0x80000000u) || (size >= 0xFFFFFF00u && size <= unknown);
}

/* Whether the header knows how many bytes of samples there are. Others leave 0 (GStreamer), also where the file's own
 * size ends with the header: if nothing comes behind it, nothing is read. */
static int tells_size(const tsr_wav *wav, uint64_t samples, uint64_t file, int is_large)
{
  if (samples > 0) {
    return is_large || !is_guess(samples);
  }
  return (is_large || !is_guess(file)) && file + 8 > wav->at;
}

/* Whole samples alone count. */
static void begin_samples(tsr_wav *wav, uint64_t size, int is_known, tsr_wav_info *info)
{
  const int64_t sample = (int64_t)wav->channels * wav->sample_bytes;
  info->length = is_known ? (int64_t)(size / (uint64_t)sample) : -1;
  wav->left = is_known ? info->length * sample : -1;
}

int tsr_wav_is_one(const unsigned char *head, size_t n)
{
  return n >= TSR_WAV_HEAD && (memcmp(head, "RIFF", 4) == 0 || memcmp(head, "RF64", 4) == 0) &&
         memcmp(head + 8, "WAVE", 4) == 0;
}

/* The chunks before the samples. */
static tsr_status read_header(tsr_wav *wav, tsr_wav_info *info)
{
  unsigned char head[TSR_WAV_HEAD];
  size_t got;
  tsr_status status = read_up_to(wav, head, sizeof head, &got);
  if (status != TSR_OK) {
    return status;
  }
  if (!tsr_wav_is_one(head, got)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: not a WAV file", wav->name);
  }
  const int is_large = memcmp(head, "RF64", 4) == 0;
  uint64_t file_size = little(head + 4, 4), large = 0;
  int has_large = 0;
  while (status == TSR_OK) {
    unsigned char chunk[8];
    status = read_all(wav, chunk, sizeof chunk, "its samples");
    const uint32_t size = status == TSR_OK ? little(chunk + 4, 4) : 0;
    if (status == TSR_OK && memcmp(chunk, "data", 4) == 0) {
      if (wav->channels == 0) {
        return tsr_fail(TSR_ERR_FORMAT, "%s: its samples come before their format", wav->name);
      }
      const int takes_large = has_large && size == unknown;
      const uint64_t samples = takes_large ? large : size;
      begin_samples(wav, samples, tells_size(wav, samples, file_size, takes_large), info);
      return TSR_OK;
    }
    if (status == TSR_OK && memcmp(chunk, "fmt ", 4) == 0) {
      status = read_format(wav, size, info);
    } else if (status == TSR_OK && is_large && memcmp(chunk, "ds64", 4) == 0) {
      status = read_large_sizes(wav, size, &file_size, &large);
      has_large = 1;
    } else if (status == TSR_OK) {
      status = skip(wav, (uint64_t)size + size % 2);
    }
  }
  return status;
}

static tsr_status create(const char *name, const tsr_byte_source *source, tsr_wav **wav)
{
  tsr_wav *w = calloc(1, sizeof *w);
  if (!w || !(w->buffer = malloc(BUFFER_BYTES))) {
    free(w);
    return tsr_fail_memory(BUFFER_BYTES);
  }
  w->name = name;
  w->source = *source;
  *wav = w;
  return TSR_OK;
}

tsr_status tsr_wav_open(const char *name, const tsr_byte_source *source, tsr_wav **wav, tsr_wav_info *info)
{
  tsr_wav *w = NULL;
  TSR_TRY(create(name, source, &w));
  *info = (tsr_wav_info){0};
  const tsr_status status = read_header(w, info);
  if (status != TSR_OK) {
    tsr_wav_close(w);
    return status;
  }
  *wav = w;
  return TSR_OK;
}

tsr_status tsr_wav_open_raw(const char *name, const tsr_byte_source *source, int32_t is_float, int32_t rate,
                            int32_t channels, tsr_wav **wav, tsr_wav_info *info)
{
  if (rate < 1 || rate > MOST_RATE || channels < 1 || channels > MOST_CHANNELS) {
    return tsr_fail(TSR_ERR_ARGUMENT, "%s: %d channels of %d raw samples a second, expected 1 to %d of 1 to %d", name,
                    (int)channels, (int)rate, MOST_CHANNELS, MOST_RATE);
  }
  TSR_TRY(create(name, source, wav));
  (*wav)->coding = is_float ? FLOAT : PCM;
  (*wav)->sample_bytes = is_float ? 4 : 2;
  (*wav)->channels = channels;
  *info = (tsr_wav_info){.rate = rate, .channels = channels};
  begin_samples(*wav, 0, 0, info);
  return TSR_OK;
}

void tsr_wav_close(tsr_wav *wav)
{
  if (wav) {
    free(wav->buffer);
    free(wav);
  }
}

/* ---- samples ----------------------------------------------------------------------------------------------------- */

static double value_of(const tsr_wav *wav, const unsigned char *bytes)
{
  union {
    uint64_t bits;
    double value;
  } wide;
  union {
    uint32_t bits;
    float value;
  } narrow;
  switch (wav->sample_bytes) {
  case 1:
    return (bytes[0] - 128) / 128.0;
  case 2:
    return (int16_t)little(bytes, 2) / 32768.0;
  case 4:
    if (wav->coding == FLOAT) {
      narrow.bits = little(bytes, 4);
      return (double)narrow.value;
    }
    break;
  case 8:
    wide.bits = little64(bytes);
    return wide.value;
  default:
    break;
  }
  const int32_t bits = 8 * wav->sample_bytes;
  const double range = ldexp(1, bits - 1), value = little(bytes, wav->sample_bytes);
  return (value >= range ? value - 2 * range : value) / range;
}

/* The mean of the channels, of n samples in the buffer. */
static tsr_status mix(tsr_wav *wav, float *samples, int64_t n)
{
  const unsigned char *bytes = wav->buffer;
  for (int64_t i = 0; i < n; i++) {
    double sum = 0;
    for (int32_t channel = 0; channel < wav->channels; channel++, bytes += wav->sample_bytes) {
      sum += value_of(wav, bytes);
    }
    samples[i] = (float)(sum / wav->channels);
    if (!isfinite(samples[i])) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: sample %" PRId64 " is not finite", wav->name, wav->taken + i);
    }
  }
  wav->taken += n;
  return TSR_OK;
}

tsr_status tsr_wav_read(tsr_wav *wav, float *samples, int64_t n, int64_t *got)
{
  const int64_t sample = (int64_t)wav->channels * wav->sample_bytes, most = BUFFER_BYTES / sample;
  tsr_status status = TSR_OK;
  for (*got = 0; *got < n && wav->left != 0 && status == TSR_OK;) {
    const int64_t wanted = n - *got < most ? n - *got : most;
    const int64_t bytes = wav->left >= 0 && wav->left < wanted * sample ? wav->left : wanted * sample;
    size_t found;
    const tsr_status reading = read_up_to(wav, wav->buffer, (size_t)bytes, &found);
    const int64_t whole = (int64_t)found / sample;
    TSR_TRY(mix(wav, samples + *got, whole));
    *got += whole;
    if (reading != TSR_OK) {
      status = reading;
    } else if ((int64_t)found < bytes && wav->left > 0) {
      status = tsr_fail(TSR_ERR_FORMAT, "%s: the file ends %" PRId64 " bytes before its samples do", wav->name,
                        wav->left - (int64_t)found);
    } else {
      wav->left = wav->left < 0 ? ((int64_t)found < bytes ? 0 : -1) : wav->left - bytes;
    }
  }
  return status;
}

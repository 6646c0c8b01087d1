/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw samples and WAV files through functions, and windows of their features: each is what the whole sound has, and
 * what comes through a pipe is the same.
 *
 * The first bytes say how it is read: kind, channels, the size of pieces, and a few windows; the rest is the sound.
 */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/audio.h"

enum { HEAD = 3, WINDOWS = 2, MELS = 3, MOST = 4096 /* samples; the fuzzer's files have no more bytes */ };

typedef struct given {
  const uint8_t *bytes;
  size_t size, at, piece;
} given;

static tsr_status give(void *context, void *bytes, size_t size, size_t *got)
{
  given *g = context;
  const size_t left = g->size - g->at, most = g->piece < left ? g->piece : left;
  *got = size < most ? size : most;
  memcpy(bytes, g->bytes + g->at, *got);
  g->at += *got;
  return TSR_OK;
}

static tsr_status go_to(void *context, int64_t offset)
{
  given *g = context;
  REQUIRE(offset >= 0 && offset <= (int64_t)g->size);
  g->at = (size_t)offset;
  return TSR_OK;
}

/* How many samples; -1 after an error. */
static int64_t read_all(tsr_audio *audio, int64_t piece, float *samples)
{
  int64_t n = 0;
  for (int64_t got = piece; got == piece; n += got) {
    REQUIRE(n + piece <= 2 * MOST);
    if (tsr_audio_read(audio, samples + n, piece, &got) != TSR_OK) {
      REQUIRE(tsr_error_message()[0]);
      return -1;
    }
  }
  for (int64_t i = 0; i < n; i++) {
    REQUIRE(isfinite(samples[i]));
  }
  return n;
}

static void check_windows(tsr_audio *audio, const tsr_mel *mel, const uint8_t *head, const float *samples, int64_t n)
{
  static float values[MELS * 256], expected[MELS * 256], whole[MELS * 2 * MOST];
  tsr_features *features;
  const int64_t frames = n / TSR_MEL_HOP;
  REQUIRE(tsr_features_open(audio, mel, &features) == TSR_OK);
  REQUIRE(tsr_mel_features(mel, samples, n, n, whole) == TSR_OK);
  for (int32_t w = 0; w < WINDOWS; w++) {
    const int64_t first = head[w] % 32;
    const int32_t length = 1 + head[w] / 32 * 2;
    int32_t got;
    REQUIRE(tsr_features_read(features, first, length, TSR_FEATURES_WHOLE, values, &got) == TSR_OK);
    REQUIRE(got == (frames < first ? 0 : frames - first < length ? frames - first : length));
    for (int32_t i = 0; i < MELS * length; i++) {
      const int64_t frame = first + i % length;
      REQUIRE(values[i] == (frame < frames ? whole[i / length * frames + frame] : 0));
    }
    REQUIRE(tsr_features_read(features, first, length, TSR_FEATURES_ALONE, values, &got) == TSR_OK);
    const int64_t from = first * TSR_MEL_HOP < n ? first * TSR_MEL_HOP : n;
    REQUIRE(tsr_mel_features(mel, samples + from, n - from, (int64_t)length * TSR_MEL_HOP, expected) == TSR_OK);
    REQUIRE(memcmp(values, expected, (size_t)(MELS * length) * sizeof *values) == 0);
  }
  tsr_features_close(features);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static float samples[2 * MOST], again[2 * MOST];
  static tsr_mel *mel;
  if (size < HEAD || size > MOST) {
    return 0;
  }
  if (!mel) {
    REQUIRE(tsr_mel_create(MELS, &mel) == TSR_OK);
  }
  tsr_audio_options options = {TSR_SIZED(tsr_audio_options), .raw = data[0] % 3, .plugins_path = "/nonexistent"};
  options.channels = options.raw ? data[0] / 3 % 8 : 0;
  given file = {data + HEAD, size - HEAD, 0, 1 + (size_t)data[0] / 24}, pipe = file;
  const tsr_audio_source source = {give, go_to, &file, (int64_t)file.size}, once = {give, NULL, &pipe, 0};
  tsr_audio *audio = NULL, *second = NULL;
  const tsr_status status = tsr_audio_open_source("fuzz", &source, &options, &audio);
  const tsr_status same = tsr_audio_open_source("fuzz", &once, &options, &second);
  REQUIRE(status == TSR_OK || (tsr_error_message()[0] && !audio));
  REQUIRE((status == TSR_OK) == (same == TSR_OK));
  if (status == TSR_OK) {
    const int64_t n = read_all(audio, 100, samples);
    REQUIRE(read_all(second, 7, again) == n);
    if (n >= 0) {
      REQUIRE(memcmp(samples, again, (size_t)n * sizeof *samples) == 0);
      REQUIRE(tsr_audio_restart(audio) == TSR_OK);
      check_windows(audio, mel, data + 1, samples, n);
    }
  }
  tsr_audio_close(audio);
  tsr_audio_close(second);
  return 0;
}

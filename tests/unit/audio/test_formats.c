/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats that libsndfile reads: recorded speech, written in each of them. What loses nothing gives the recorded
 * features, what does gives others that are near.
 */
#include <setjmp.h>
#include <sndfile.h>
#include <soxr.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "tessera/audio.h"
#include "tests/support/temporary.h"
#include "tests/unit/audio/files.h"
#include "tests/unit/audio/recorded.h"

#define FOX TESSERA_SOURCE_ROOT "/tests/data/goldens/speech/features/fox.wav"

static const tsr_audio_options plugins = {TSR_SIZED(tsr_audio_options), .plugins_path = TESSERA_AUDIO_PLUGINS};

/* ---- files ------------------------------------------------------------------------------------------------------- */

typedef struct kind {
  int format;
  const char *name;  /* what it is called */
  double difference; /* mean of the features; 0: the file has the same samples */
  int32_t is_needed; /* 1: each libsndfile writes it */
} kind;

static const kind kinds[] = {
    {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, "FLAC", 0, 1},
    {SF_FORMAT_AIFF | SF_FORMAT_PCM_16, "AIFF", 0, 1},
    {SF_FORMAT_AU | SF_FORMAT_PCM_16, "AU", 0, 1},
    {SF_FORMAT_W64 | SF_FORMAT_PCM_16, "W64", 0, 1},
    {SF_FORMAT_CAF | SF_FORMAT_ALAC_16, "CAF", 0, 0},
    {SF_FORMAT_WAV | SF_FORMAT_ULAW, "WAV", 0.1, 1},
    {SF_FORMAT_OGG | SF_FORMAT_VORBIS, "OGG", 0.1, 1},
    {SF_FORMAT_OGG | SF_FORMAT_OPUS, "OGG", 0.1, 0},
    {SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, "MPEG", 0.1, 0},
};

/* Returns 0 if this libsndfile does not write the format. */
static int write_sound(const char *path, int format, int32_t rate, int32_t channels, const float *samples, int64_t n)
{
  SF_INFO info = {.samplerate = rate, .channels = channels, .format = format};
  SNDFILE *file = sf_format_check(&info) ? sf_open(path, SFM_WRITE, &info) : NULL;
  if (!file) {
    return 0;
  }
  for (int64_t i = 0; i < n; i++) {
    int frame[8];
    for (int32_t c = 0; c < channels; c++) {
      frame[c] = (int)lrint((double)samples[i] * 2147483648.0);
    }
    assert_int_equal(sf_writef_int(file, frame, 1), 1);
  }
  assert_int_equal(sf_close(file), 0);
  return 1;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

typedef struct given {
  const unsigned char *bytes;
  size_t size, at, fails_at; /* fails_at: there reading fails; 0: nowhere */
} given;

static tsr_status give(void *context, void *bytes, size_t size, size_t *got)
{
  given *g = context;
  if (g->fails_at > 0 && g->at >= g->fails_at) {
    return tsr_fail(TSR_ERR_CANCELLED, "the upload was given up");
  }
  const size_t left = g->size - g->at, most = left < 999 ? left : 999;
  *got = size < most ? size : most;
  memcpy(bytes, g->bytes + g->at, *got);
  g->at += *got;
  return TSR_OK;
}

static tsr_status go_to(void *context, int64_t offset)
{
  ((given *)context)->at = (size_t)offset;
  return TSR_OK;
}

static tsr_audio *open_given(given *g, int can_seek)
{
  const tsr_audio_source source = {give, can_seek ? go_to : NULL, g, (int64_t)g->size};
  tsr_audio *audio;
  g->at = 0;
  if (tsr_audio_open_source("upload", &source, &plugins, &audio) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  return audio;
}

/* From memory, from functions and from a pipe come the same samples as from the file. */
static void check_sources(const char *path, const float *samples, int64_t n)
{
  given g = {0};
  unsigned char *bytes = read_bytes(path, &g.size);
  g.bytes = bytes;
  tsr_audio *audio;
  for (int32_t i = 0; i < 3; i++) {
    if (i == 0) {
      assert_int_equal(tsr_audio_view("memory", bytes, g.size, &plugins, &audio), TSR_OK);
    } else {
      audio = open_given(&g, i == 1);
    }
    tsr_audio_info info;
    tsr_audio_describe(audio, &info);
    assert_int_equal(info.can_restart, 1); /* of a pipe, the copy */
    int64_t found;
    float *same = read_sound(audio, n + 1, &found);
    assert_int_equal(found, n);
    assert_memory_equal(same, samples, (size_t)n * sizeof *samples);
    free(same);
    tsr_audio_close(audio);
  }
  free(bytes);
}

/* ---- formats ----------------------------------------------------------------------------------------------------- */

static void check_kind(const kind *k, const char *path, const float *expected, int64_t n)
{
  tsr_audio *audio;
  if (tsr_audio_open(path, &plugins, &audio) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  tsr_audio_info info;
  tsr_audio_describe(audio, &info);
  if (!strstr(info.format, k->name)) {
    fail_msg("%s is called %s", k->name, info.format);
  }
  assert_int_equal(info.channels, 1);
  double mean, largest;
  compare_recorded(audio, &mean, &largest);
  if (k->difference > 0 ? mean > k->difference : largest > 1e-5) {
    fail_msg("%s: features differ by %g, at most %g", info.format, mean, largest);
  }
  assert_int_equal(tsr_audio_restart(audio), TSR_OK);
  int64_t found;
  float *samples = read_sound(audio, 2 * n, &found);
  if (k->difference > 0) {
    assert_true(llabs((long long)(found - n)) < 3000);
  } else {
    assert_int_equal(info.length, n);
    assert_int_equal(found, n);
    assert_memory_equal(samples, expected, (size_t)n * sizeof *samples);
  }
  tsr_audio_close(audio);
  check_sources(path, samples, found);
  free(samples);
}

static void test_formats(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  int64_t n;
  float *expected = read_samples(FOX, &n);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const char *path = path_in(folder, "sound");
    const int is_written = write_sound(path, kinds[i].format, 16000, 1, expected, n);
    assert_true(is_written || !kinds[i].is_needed);
    if (is_written) {
      check_kind(&kinds[i], path, expected, n);
    }
  }
  free(expected);
  remove_temporary_folder(folder);
}

/* Three channels at 44.1 kHz come back to what they were made from. */
static void test_rate(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  int64_t n;
  float *expected = read_samples(FOX, &n);
  const size_t room = (size_t)(n * 44100 / 16000 + 1);
  float *faster = calloc(room, sizeof *faster);
  assert_non_null(faster);
  size_t used, made;
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_VHQ, 0);
  assert_null(soxr_oneshot(16000, 44100, 1, expected, (size_t)n, &used, faster, room, &made, NULL, &quality, NULL));
  const char *path = path_in(folder, "sound.flac");
  assert_true(write_sound(path, SF_FORMAT_FLAC | SF_FORMAT_PCM_24, 44100, 3, faster, (int64_t)made));
  tsr_audio *audio;
  assert_int_equal(tsr_audio_open(path, &plugins, &audio), TSR_OK);
  tsr_audio_info info;
  tsr_audio_describe(audio, &info);
  assert_int_equal(info.rate, 44100);
  assert_int_equal(info.channels, 3);
  assert_int_equal(info.samples, n);
  int64_t found;
  float *samples = read_sound(audio, 2 * n, &found);
  assert_int_equal(found, n);
  double error = 0, energy = 0;
  for (int64_t i = 0; i < n; i++) {
    const double difference = (double)samples[i] - (double)expected[i];
    error += difference * difference;
    energy += (double)expected[i] * (double)expected[i];
  }
  if (!(10 * log10(energy / error) > 40)) {
    fail_msg("what comes back is %.1f dB above its error", 10 * log10(energy / error));
  }
  double mean, largest;
  assert_int_equal(tsr_audio_restart(audio), TSR_OK);
  compare_recorded(audio, &mean, &largest);
  if (!(mean < 0.02)) {
    fail_msg("features differ by %g, at most %g", mean, largest);
  }
  tsr_audio_close(audio);
  free(samples);
  free(faster);
  free(expected);
  remove_temporary_folder(folder);
}

/* ---- broken files ------------------------------------------------------------------------------------------------ */

static void refuse(tsr_status found, tsr_status status, const char *words)
{
  if (found != status || !strstr(tsr_error_message(), words)) {
    fail_msg("%d: '%s', expected %d: '%s'", (int)found, tsr_error_message(), (int)status, words);
  }
}

static void test_broken(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  int64_t n, got;
  float *expected = read_samples(FOX, &n);
  float *samples = calloc((size_t)n, sizeof *samples);
  assert_non_null(samples);
  const char *path = path_in(folder, "sound.flac");
  assert_true(write_sound(path, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, expected, n));
  size_t size;
  unsigned char *bytes = read_bytes(path, &size);
  tsr_audio *audio;

  /* A file that is cut in its middle, within a frame and between two. */
  int32_t between = 0;
  for (size_t cut = size / 2; cut + 1 < size; cut++) {
    const int is_between = bytes[cut] == 0xFF && (bytes[cut + 1] & 0xFE) == 0xF8;
    if (is_between || cut == size / 2) {
      assert_int_equal(tsr_audio_view("x.flac", bytes, cut, &plugins, &audio), TSR_OK);
      refuse(tsr_audio_read(audio, samples, n, &got), TSR_ERR_FORMAT, "x.flac: sndfile: ");
      tsr_audio_close(audio);
      between += is_between;
    }
  }
  assert_true(between > 0);

  /* Whatever stands in it, there is an error or some samples. */
  for (size_t i = 0; i < size; i += 1 + size / 40) {
    unsigned char saved = bytes[i];
    bytes[i] ^= 0x5A;
    tsr_status status = tsr_audio_view("x.flac", bytes, size, &plugins, &audio);
    if (status == TSR_OK) {
      status = tsr_audio_read(audio, samples, n, &got);
    }
    assert_true(status == TSR_OK ? got <= n : tsr_error_message()[0] != '\0');
    tsr_audio_close(audio);
    bytes[i] = saved;
  }
  static const char text[] = "This is no sound. It is a text that somebody took for one, and long enough to look at.";
  const tsr_status status = tsr_audio_view("x.txt", text, sizeof text, &plugins, &audio);
  assert_true(status == TSR_ERR_UNSUPPORTED || status == TSR_ERR_PLUGIN);
  assert_non_null(strstr(tsr_error_message(), "x.txt: "));
  free(bytes);
  free(samples);
  free(expected);
  remove_temporary_folder(folder);
}

/* Functions that fail: their own error is told. */
static void test_given_up(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  int64_t n, got;
  float *samples = read_samples(FOX, &n);
  const char *path = path_in(folder, "sound.flac");
  assert_true(write_sound(path, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 16000, 1, samples, n));
  given g = {0};
  unsigned char *bytes = read_bytes(path, &g.size);
  g.bytes = bytes;
  tsr_audio *audio = open_given(&g, 1);
  g.fails_at = g.size / 2;
  refuse(tsr_audio_read(audio, samples, n, &got), TSR_ERR_CANCELLED, "the upload was given up");
  tsr_audio_close(audio);
  for (int can_seek = 0; can_seek <= 1; can_seek++) {
    const tsr_audio_source source = {give, can_seek ? go_to : NULL, &g, (int64_t)g.size};
    g.at = 0;
    g.fails_at = 30;
    refuse(tsr_audio_open_source("x", &source, &plugins, &audio), TSR_ERR_CANCELLED, "the upload was given up");
    assert_null(audio);
  }
  free(bytes);
  free(samples);
  remove_temporary_folder(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_formats),
      cmocka_unit_test(test_rate),
      cmocka_unit_test(test_broken),
      cmocka_unit_test(test_given_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

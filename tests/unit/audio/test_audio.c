/* SPDX-License-Identifier: Apache-2.0
 *
 * Sounds that need no plugin: WAV files and raw samples, from files, standard input, memory and functions; what is
 * said where a plugin is missing; and a sound of hours, in little memory.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include <math.h>

#include "tessera/audio.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary.h"
#include "tests/unit/audio/files.h"

#define FOX TESSERA_SOURCE_ROOT "/tests/data/goldens/speech/features/fox.wav"

/* Where no plugin is. */
static const tsr_audio_options alone = {TSR_SIZED(tsr_audio_options), .plugins_path = "/nonexistent"};

static void refuse(tsr_status found, tsr_status status, const char *words)
{
  assert_int_equal(found, status);
  if (!strstr(tsr_error_message(), words)) {
    fail_msg("'%s' is not said in '%s'", words, tsr_error_message());
  }
}

/* ---- functions --------------------------------------------------------------------------------------------------- */

typedef struct given {
  const unsigned char *bytes;
  size_t size, at, piece; /* piece: as many bytes come at once */
  size_t fails_at;        /* there reading fails; 0: nowhere */
} given;

static tsr_status give(void *context, void *bytes, size_t size, size_t *got)
{
  given *g = context;
  if (g->fails_at > 0 && g->at >= g->fails_at) {
    return tsr_fail(TSR_ERR_CANCELLED, "the upload was given up");
  }
  const size_t left = g->size - g->at, most = g->piece < left ? g->piece : left;
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

static tsr_status open_given(given *g, int can_seek, const tsr_audio_options *options, tsr_audio **audio)
{
  const tsr_audio_source source = {give, can_seek ? go_to : NULL, g, (int64_t)g->size};
  return tsr_audio_open_source("upload", &source, options, audio);
}

/* ---- the same sound from everywhere ------------------------------------------------------------------------------ */

/* Reads to the end in pieces, and compares. */
static void compare(tsr_audio *audio, const float *expected, int64_t n, int64_t piece)
{
  float samples[4096];
  int64_t total = 0, got = piece;
  for (; got == piece; total += got) {
    assert_int_equal(tsr_audio_read(audio, samples, piece, &got), TSR_OK);
    assert_true(total + got <= n);
    assert_memory_equal(samples, expected + total, (size_t)got * sizeof *samples);
  }
  assert_int_equal(total, n);
  assert_int_equal(tsr_audio_read(audio, samples, piece, &got), TSR_OK);
  assert_int_equal(got, 0);
}

static void check_fox(tsr_audio *audio, int can_restart, const float *expected, int64_t n)
{
  tsr_audio_info info;
  tsr_audio_describe(audio, &info);
  assert_string_equal(info.format, "WAV");
  assert_int_equal(info.rate, 16000);
  assert_int_equal(info.channels, 1);
  assert_int_equal(info.length, n);
  assert_int_equal(info.samples, n);
  assert_int_equal(info.can_restart, can_restart);
  compare(audio, expected, n, 4096);
  if (can_restart) {
    assert_int_equal(tsr_audio_restart(audio), TSR_OK);
    compare(audio, expected, n, 777);
  } else {
    refuse(tsr_audio_restart(audio), TSR_ERR_UNSUPPORTED, "a pipe cannot be read again");
  }
  tsr_audio_close(audio);
}

/* Puts a file in the place of standard input, and goes on in its middle. */
static int replace_input(const char *path, int64_t offset)
{
  const int saved = dup(STDIN_FILENO), file = open(path, O_RDONLY);
  assert_true(saved >= 0 && file >= 0);
  assert_int_equal(lseek(file, (off_t)offset, SEEK_SET), offset);
  assert_true(dup2(file, STDIN_FILENO) >= 0);
  close(file);
  return saved;
}

static void restore_input(int saved)
{
  assert_true(dup2(saved, STDIN_FILENO) >= 0);
  close(saved);
}

static void test_sources(void **state)
{
  (void)state;
  int64_t n;
  float *expected = read_samples(FOX, &n);
  given g = {.piece = 1000};
  unsigned char *bytes = read_bytes(FOX, &g.size);
  g.bytes = bytes;
  tsr_audio *audio;
  assert_int_equal(tsr_audio_open(FOX, &alone, &audio), TSR_OK);
  check_fox(audio, 1, expected, n);
  assert_int_equal(tsr_audio_view("fox.wav", bytes, g.size, NULL, &audio), TSR_OK);
  check_fox(audio, 1, expected, n);
  for (int can_seek = 0; can_seek <= 1; can_seek++) {
    for (g.piece = 1; g.piece <= 1001; g.piece += 500) {
      g.at = 0;
      assert_int_equal(open_given(&g, can_seek, &alone, &audio), TSR_OK);
      check_fox(audio, can_seek, expected, n);
    }
  }
  int saved = replace_input(FOX, 0);
  assert_int_equal(tsr_audio_open("-", &alone, &audio), TSR_OK);
  check_fox(audio, 1, expected, n);
  restore_input(saved);

  /* Somebody has read the header: the rest is raw, from there on. */
  tsr_audio_options raw = alone;
  raw.raw = TSR_AUDIO_S16;
  saved = replace_input(FOX, WAV_HEADER + 200);
  assert_int_equal(tsr_audio_open("-", &raw, &audio), TSR_OK);
  compare(audio, expected + 100, n - 100, 4096);
  assert_int_equal(tsr_audio_restart(audio), TSR_OK);
  compare(audio, expected + 100, n - 100, 4096);
  tsr_audio_close(audio);
  restore_input(saved);
  free(bytes);
  free(expected);
}

#ifndef _WIN32
/* A pipe, which may be gone before the sound is read. */
static void test_pipe(void **state)
{
  (void)state;
  int64_t n;
  float *expected = read_samples(FOX, &n);
  char command[512];
  snprintf(command, sizeof command, "cat '%s'", FOX);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  const int saved = dup(STDIN_FILENO);
  assert_true(dup2(fileno(pipe), STDIN_FILENO) >= 0);
  tsr_audio *audio;
  assert_int_equal(tsr_audio_open("-", &alone, &audio), TSR_OK);
  check_fox(audio, 0, expected, n);
  restore_input(saved);
  pclose(pipe);
  free(expected);
}
#endif

/* ---- raw samples ------------------------------------------------------------------------------------------------- */

static void test_raw(void **state)
{
  (void)state;
  enum { N = 1000, CHANNELS = 7 };
  static unsigned char whole[N * CHANNELS * 2 + 3];
  static float floats[N * CHANNELS], expected[N];
  uint32_t seed = 1;
  for (int32_t i = 0; i < N; i++) {
    double sum = 0;
    for (int32_t c = 0; c < CHANNELS; c++) {
      const int32_t value = (int32_t)(next_noise(&seed) * 32767);
      const size_t at = (size_t)i * CHANNELS + (size_t)c;
      whole[2 * at] = (unsigned char)(value & 0xFF);
      whole[2 * at + 1] = (unsigned char)(value >> 8 & 0xFF);
      floats[at] = (float)value / 32768;
      sum += value / 32768.0;
    }
    expected[i] = (float)(sum / CHANNELS);
  }
  tsr_audio_options options = alone;
  options.channels = CHANNELS;
  tsr_audio *audio;
  tsr_audio_info info;
  for (options.raw = TSR_AUDIO_S16; options.raw <= TSR_AUDIO_F32; options.raw++) {
    /* With a bit more than whole samples: it is left out. */
    const void *bytes = options.raw == TSR_AUDIO_S16 ? (const void *)whole : floats;
    const size_t size = options.raw == TSR_AUDIO_S16 ? sizeof whole : sizeof floats;
    given g = {bytes, size, 0, 11, 0};
    for (int can_seek = 0; can_seek <= 1; can_seek++) {
      g.at = 0;
      assert_int_equal(open_given(&g, can_seek, &options, &audio), TSR_OK);
      tsr_audio_describe(audio, &info);
      assert_string_equal(info.format, "raw");
      assert_int_equal(info.channels, CHANNELS);
      assert_int_equal(info.rate, 16000);
      assert_int_equal(info.length, can_seek ? N : -1);
      assert_int_equal(info.samples, can_seek ? N : -1);
      compare(audio, expected, N, 100);
      tsr_audio_close(audio);
    }
  }
  options.raw = TSR_AUDIO_F32;
  options.channels = 0; /* 1 */
  floats[40] = NAN;
  assert_int_equal(tsr_audio_view("x", floats, 50 * sizeof *floats, &options, &audio), TSR_OK);
  int64_t got;
  refuse(tsr_audio_read(audio, expected, 50, &got), TSR_ERR_FORMAT, "x: sample 40 is not finite");
  tsr_audio_close(audio);
  for (size_t n = 0; n <= 1; n++) {
    assert_int_equal(tsr_audio_view("x", floats, n * sizeof *floats, &options, &audio), TSR_OK);
    compare(audio, floats, (int64_t)n, 100);
    tsr_audio_close(audio);
  }
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void test_refused(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  tsr_audio *audio;
  refuse(tsr_audio_open(path_in(folder, "x.wav"), &alone, &audio), TSR_ERR_IO, "x.wav: cannot be opened");
  assert_null(audio);
  refuse(tsr_audio_open(folder, &alone, &audio), TSR_ERR_IO, "found a folder");
  write_file(path_in(folder, "empty.wav"), "", 0);
  refuse(tsr_audio_open(path_in(folder, "empty.wav"), &alone, &audio), TSR_ERR_FORMAT, "empty.wav: the file is empty");
  remove_temporary_folder(folder);

  /* Other formats, and other rates, take plugins. */
  refuse(tsr_audio_view("x.flac", "fLaC and so on", 14, &alone, &audio), TSR_ERR_PLUGIN,
         "x.flac: not a WAV file, and a plugin is needed to read another: there is no libtessera-audio-sndfile");
  refuse(tsr_audio_view("x.flac", "fLaC", 4, &alone, &audio), TSR_ERR_PLUGIN, "libsndfile1-dev");
  refuse(tsr_audio_view("x.flac", "fLaC", 4, &alone, &audio), TSR_ERR_PLUGIN,
         "searched: /nonexistent; nor is there the plugin libav, which reads M4A");
  unsigned char wav[WAV_HEADER + 100] = {0};
  make_wav_header(wav, 44100, 1, 100);
  refuse(tsr_audio_view("x.wav", wav, sizeof wav, &alone, &audio), TSR_ERR_PLUGIN,
         "x.wav: 44100 samples a second, and a plugin is needed to make 16000 of them: there is no "
         "libtessera-audio-soxr");
  make_wav_header(wav, 999, 1, 100);
  refuse(tsr_audio_view("x.wav", wav, sizeof wav, &alone, &audio), TSR_ERR_UNSUPPORTED,
         "x.wav: 999 samples a second, expected 1000 to 4000000");
  make_wav_header(wav, 4000001, 1, 100);
  refuse(tsr_audio_view("x.wav", wav, sizeof wav, &alone, &audio), TSR_ERR_UNSUPPORTED, "4000001 samples a second");
  /* Of a coding that the library does not know, a plugin is asked. */
  make_wav_header(wav, 16000, 1, 100);
  wav[20] = 7;
  refuse(tsr_audio_view("x.wav", wav, sizeof wav, &alone, &audio), TSR_ERR_PLUGIN, "libtessera-audio-sndfile");
  given pipe = {wav, sizeof wav, 0, 50, 0};
  refuse(open_given(&pipe, 0, &alone, &audio), TSR_ERR_PLUGIN, "libtessera-audio-sndfile");
  /* A pipe is kept for that up to a mebibyte. */
  static unsigned char large[(1 << 20) + 2 * WAV_HEADER];
  memcpy(large, wav, 12);
  memcpy(large + 12, "LIST\0\0\x10\0", 8);
  memcpy(large + 20 + (1 << 20), wav + 12, WAV_HEADER - 12);
  pipe = (given){large, sizeof large, 0, 5000, 0};
  refuse(open_given(&pipe, 0, &alone, &audio), TSR_ERR_UNSUPPORTED, "coding 7");
  refuse(tsr_audio_view("x.wav", large, sizeof large, &alone, &audio), TSR_ERR_PLUGIN, "libtessera-audio-sndfile");

  /* A file that is cut, and functions that fail. */
  make_wav_header(wav, 16000, 1, 200);
  float samples[200];
  int64_t got;
  assert_int_equal(tsr_audio_view("x.wav", wav, sizeof wav, &alone, &audio), TSR_OK);
  refuse(tsr_audio_read(audio, samples, 200, &got), TSR_ERR_FORMAT, "x.wav: the file ends 100 bytes before");
  assert_int_equal(got, 50);
  refuse(tsr_audio_read(audio, samples, 200, &got), TSR_ERR_FORMAT, "x.wav: the file ends 100 bytes before");
  assert_int_equal(got, 0);
  assert_int_equal(tsr_audio_restart(audio), TSR_OK);
  assert_int_equal(tsr_audio_read(audio, samples, 10, &got), TSR_OK);
  assert_int_equal(got, 10);
  tsr_audio_close(audio);
  for (int can_seek = 0; can_seek <= 1; can_seek++) {
    given g = {wav, sizeof wav, 0, 30, 100};
    assert_int_equal(open_given(&g, can_seek, &alone, &audio), TSR_OK);
    refuse(tsr_audio_read(audio, samples, 200, &got), TSR_ERR_CANCELLED, "the upload was given up");
    assert_true(got >= 28); /* the samples before byte 100 */
    tsr_audio_close(audio);
    g.at = 0;
    g.fails_at = 5;
    refuse(open_given(&g, can_seek, &alone, &audio), TSR_ERR_CANCELLED, "the upload was given up");
    assert_null(audio);
  }
}

static tsr_status give_too_much(void *context, void *bytes, size_t size, size_t *got)
{
  (void)context;
  (void)bytes;
  *got = size + 1;
  return TSR_OK;
}

static void test_arguments(void **state)
{
  (void)state;
  tsr_audio *audio;
  float sample;
  int64_t got;
  refuse(tsr_audio_open(NULL, NULL, &audio), TSR_ERR_ARGUMENT, "must not be NULL");
  refuse(tsr_audio_view("x", NULL, 1, NULL, &audio), TSR_ERR_ARGUMENT, "must not be NULL");
  refuse(tsr_audio_open_source("x", NULL, NULL, &audio), TSR_ERR_ARGUMENT, "must not be NULL");
  tsr_audio_source source = {give, go_to, NULL, -1};
  refuse(tsr_audio_open_source("x", &source, NULL, &audio), TSR_ERR_ARGUMENT, "size below 0");
  source = (tsr_audio_source){give_too_much, NULL, NULL, 0};
  refuse(tsr_audio_open_source("x", &source, NULL, &audio), TSR_ERR_ARGUMENT, "x: its function gave 13 bytes");
  tsr_audio_options options = alone;
  options.rate = 8000;
  refuse(tsr_audio_view("x", "", 0, &options, &audio), TSR_ERR_ARGUMENT, "a file has its own");
  options.raw = 3;
  refuse(tsr_audio_view("x", "", 0, &options, &audio), TSR_ERR_ARGUMENT, "raw is 3");
  options.raw = TSR_AUDIO_S16;
  options.rate = 0;
  options.channels = -1;
  refuse(tsr_audio_view("x", "", 0, &options, &audio), TSR_ERR_ARGUMENT, "-1 channels");
  options.channels = 2000;
  refuse(tsr_audio_view("x", "", 0, &options, &audio), TSR_ERR_ARGUMENT, "2000 channels");
  refuse(tsr_audio_read(NULL, &sample, 1, &got), TSR_ERR_ARGUMENT, "must not be NULL");
  refuse(tsr_audio_restart(NULL), TSR_ERR_ARGUMENT, "must not be NULL");
  tsr_audio_close(NULL);
}

/* ---- hours ------------------------------------------------------------------------------------------------------- */

/* A WAV file that knows no length, and has so many samples; each second begins with a click. */
typedef struct hours {
  int64_t at, samples; /* at: of the next byte */
} hours;

static tsr_status give_hours(void *context, void *bytes, size_t size, size_t *got)
{
  hours *h = context;
  unsigned char *target = bytes;
  unsigned char header[WAV_HEADER];
  make_wav_header(header, 16000, 1, UINT32_MAX);
  const int64_t left = WAV_HEADER + 2 * h->samples - h->at;
  *got = (int64_t)size < left ? size : (size_t)left;
  memset(target, 0, *got);
  for (size_t i = 0; i < *got && h->at + (int64_t)i < WAV_HEADER; i++) {
    target[i] = header[h->at + (int64_t)i];
  }
  enum { SECOND = 32000 };
  const int64_t from = h->at > WAV_HEADER ? h->at - WAV_HEADER : 0;
  for (int64_t click = (from + SECOND - 1) / SECOND * SECOND; click + WAV_HEADER < h->at + (int64_t)*got;
       click += SECOND) {
    target[click + WAV_HEADER - h->at] = 1;
  }
  h->at += (int64_t)*got;
  return TSR_OK;
}

static long peak_kilobytes(void)
{
  struct rusage usage;
  assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_maxrss;
}

static void test_hours(void **state)
{
  (void)state;
  const int64_t seconds = TEST_IS_SANITIZED ? 600 : 8 * 3600;
  hours h = {0, seconds * 16000};
  const tsr_audio_source source = {give_hours, NULL, &h, 0};
  tsr_audio *audio;
  assert_int_equal(tsr_audio_open_source("hours", &source, &alone, &audio), TSR_OK);
  tsr_audio_info info;
  tsr_audio_describe(audio, &info);
  assert_int_equal(info.length, -1);
  const long before = peak_kilobytes();
  static float block[16000];
  int64_t got = 16000, clicks = 0, total = 0;
  for (; got == 16000; total += got) {
    assert_int_equal(tsr_audio_read(audio, block, 16000, &got), TSR_OK);
    if (got > 0) {
      assert_true(block[0] == 1.0f / 32768 && block[1] == 0);
      clicks++;
    }
  }
  assert_int_equal(clicks, seconds);
  assert_int_equal(total, seconds * 16000);
  const long grown = peak_kilobytes() - before;
  if (grown > 4096) {
    fail_msg("%ld KiB more after %lld samples", grown, (long long)total);
  }
  tsr_audio_close(audio);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sources),
#ifndef _WIN32
      cmocka_unit_test(test_pipe),
#endif
      cmocka_unit_test(test_raw),       cmocka_unit_test(test_refused),
      cmocka_unit_test(test_arguments), cmocka_unit_test(test_hours),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

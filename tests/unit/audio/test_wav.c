/* SPDX-License-Identifier: Apache-2.0
 *
 * WAV files: each coding of samples, sizes that the header does not know, and files that are broken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "tessera/status.h"
#include "tests/support/memory_source.h"
#include "tests/unit/audio/files.h"

enum { PCM = 1, FLOAT = 3, MOST = 1 << 20 };

typedef struct file {
  unsigned char bytes[MOST];
  size_t size;
} file;

static void put(file *f, uint64_t value, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    assert_true(f->size < MOST);
    f->bytes[f->size++] = (unsigned char)(value >> 8 * i);
  }
}

static void put_text(file *f, const char *text)
{
  for (; *text; text++) {
    put(f, (unsigned char)*text, 1);
  }
}

static void put_format(file *f, uint32_t coding, uint32_t channels, uint32_t rate, uint32_t bits)
{
  put_text(f, "fmt ");
  put(f, 16, 4);
  put(f, coding, 2);
  put(f, channels, 2);
  put(f, rate, 4);
  put(f, (uint64_t)rate * channels * bits / 8, 4);
  put(f, channels * bits / 8, 2);
  put(f, bits, 2);
}

static void begin(file *f, const char *kind, uint32_t size)
{
  f->size = 0;
  put_text(f, kind);
  put(f, size, 4);
  put_text(f, "WAVE");
}

static void put_data(file *f, uint32_t size)
{
  put_text(f, "data");
  put(f, size, 4);
}

static void put_sample(file *f, uint32_t coding, uint32_t bits, double value)
{
  union {
    float value;
    uint32_t bits;
  } narrow;
  union {
    double value;
    uint64_t bits;
  } wide;
  narrow.value = (float)value;
  wide.value = value;
  if (coding == FLOAT) {
    put(f, bits == 32 ? narrow.bits : wide.bits, (int32_t)bits / 8);
  } else {
    const int64_t whole = (int64_t)lrint(value * ldexp(1, (int)bits - 1));
    put(f, (uint64_t)(bits == 8 ? whole + 128 : whole), (int32_t)bits / 8);
  }
}

static file *new_file(void)
{
  file *f = calloc(1, sizeof *f);
  assert_non_null(f);
  return f;
}

static tsr_status open_file(const file *f, size_t piece, memory_source *bytes, tsr_byte_source *source, tsr_wav **wav,
                            tsr_wav_info *info)
{
  *bytes = (memory_source){f->bytes, f->size, piece};
  *source = source_in_memory(bytes);
  *wav = NULL;
  return tsr_wav_open("x.wav", source, wav, info);
}

/* What a file holds, in pieces of 7 samples. */
static tsr_status read_file(const file *f, size_t piece, tsr_wav_info *info, float *samples, int64_t *n)
{
  memory_source bytes;
  tsr_byte_source source;
  tsr_wav *wav;
  tsr_status status = open_file(f, piece, &bytes, &source, &wav, info);
  *n = 0;
  for (int64_t got = 7; status == TSR_OK && got == 7; *n += got) {
    status = tsr_wav_read(wav, samples + *n, 7, &got);
  }
  tsr_wav_close(wav);
  return status;
}

static void test_codings(void **state)
{
  (void)state;
  static const struct {
    uint32_t coding, bits;
  } codings[] = {{PCM, 8}, {PCM, 16}, {PCM, 24}, {PCM, 32}, {FLOAT, 32}, {FLOAT, 64}};
  enum { N = 300 };
  static float samples[N + 7];
  file *f = new_file();
  for (size_t c = 0; c < sizeof codings / sizeof *codings; c++) {
    for (uint32_t channels = 1; channels <= 7; channels += 3) {
      const uint32_t coding = codings[c].coding, bits = codings[c].bits;
      begin(f, "RIFF", 1);
      put_format(f, coding, channels, 44100, bits);
      put_data(f, N * channels * bits / 8);
      double expected[N] = {0};
      for (int32_t i = 0; i < N; i++) {
        for (uint32_t channel = 0; channel < channels; channel++) {
          const double value = ((i * 37 + (int32_t)channel * 50) % 256 - 128) / 128.0; /* from -1 on, exact in 8 bits */
          put_sample(f, coding, bits, value);
          expected[i] += value / channels;
        }
      }
      put_text(f, "LIST no samples");
      for (size_t piece = 0; piece < 4; piece++) {
        tsr_wav_info info;
        int64_t n;
        assert_int_equal(read_file(f, piece, &info, samples, &n), TSR_OK);
        assert_int_equal(info.rate, 44100);
        assert_int_equal(info.channels, channels);
        assert_int_equal(info.length, N);
        assert_int_equal(n, N);
        for (int32_t i = 0; i < N; i++) {
          assert_true(fabs((double)samples[i] - expected[i]) <= 1e-6);
        }
      }
    }
  }
  free(f);
}

/* A format that names its coding by an identifier, among chunks of other kinds and odd size. */
static void test_chunks(void **state)
{
  (void)state;
  file *f = new_file();
  begin(f, "RIFF", 1);
  put_text(f, "LIST");
  put(f, 3, 4);
  put_text(f, "odd");
  put(f, 0, 1);
  put_text(f, "fmt ");
  put(f, 40, 4);
  put(f, 0xFFFE, 2);
  put(f, 1, 2);
  put(f, 192000, 4);
  put(f, 192000 * 3, 4);
  put(f, 3, 2);
  put(f, 24, 2);
  put(f, 22, 2);
  put(f, 24, 2);
  put(f, 4, 4);
  put(f, PCM, 2);
  put(f, 0x0010000000000000u, 8);
  put(f, 0x719B3800AA000080u, 6);
  put_data(f, 3);
  put_sample(f, PCM, 24, -0.25);
  tsr_wav_info info;
  float samples[16];
  int64_t n;
  assert_int_equal(read_file(f, 0, &info, samples, &n), TSR_OK);
  assert_int_equal(info.rate, 192000);
  assert_int_equal(n, 1);
  assert_true(samples[0] == -0.25f);
  free(f);
}

/* Pipes: a writer that cannot go back leaves a size of zero, of all bits, or what the header might hold at most. RF64
 * has it elsewhere. */
static void test_unknown_sizes(void **state)
{
  (void)state;
  static const struct {
    const char *kind;
    uint32_t file, data;
    int32_t length; /* what a chunk of large sizes says; -1: there is none */
  } cases[] = {
      {"RIFF", 0, 0, -1},
      {"RIFF", 0xFFFFFFFFu, 0xFFFFFFFFu, -1},
      {"RIFF", 0xFFFFFFFFu, 0, -1},
      {"RIFF", 0x80000000u, 0, -1},
      {"RIFF", 99, 0xFFFFFFFFu, -1},
      {"RIFF", 36, 0, -1},                    /* GStreamer */
      {"RIFF", 0x7FFFF024u, 0x7FFFF000u, -1}, /* SoX */
      {"RIFF", 0x7FFFFF24u, 0x7FFFFF00u, -1}, /* arecord, likewise the next */
      {"RIFF", 0x80000024u, 0x80000000u, -1},
      {"RIFF", 0xFFFFFFFFu, 0xFFFFFFDBu, -1},
      {"RF64", 0xFFFFFFFFu, 0xFFFFFFFFu, 20},
      {"RF64", 0xFFFFFFFFu, 0xFFFFFFFFu, 0}, /* FFmpeg */
      {"RF64", 0xFFFFFFFFu, 0xFFFFFFFFu, -1},
  };
  file *f = new_file();
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    begin(f, cases[c].kind, cases[c].file);
    if (cases[c].length >= 0) {
      put_text(f, "ds64");
      put(f, 28, 4);
      put(f, cases[c].length > 0 ? 1000 : 0, 8);
      put(f, (uint64_t)cases[c].length * 2, 8);
      put(f, 0, 8);
      put(f, 0, 4);
    }
    put_format(f, PCM, 1, 8000, 16);
    put_data(f, cases[c].data);
    for (int32_t i = 0; i < 20; i++) {
      put_sample(f, PCM, 16, 0.5);
    }
    put(f, 7, 1); /* half a sample */
    tsr_wav_info info;
    float samples[32];
    int64_t n;
    assert_int_equal(read_file(f, 0, &info, samples, &n), TSR_OK);
    assert_int_equal(info.length, cases[c].length > 0 ? 20 : -1);
    assert_int_equal(n, 20);
    assert_true(samples[19] == 0.5f);
  }
  /* Files that are complete, and hold nothing: in the second one, something else comes behind. */
  for (uint32_t behind = 0; behind <= 12; behind += 12) {
    begin(f, "RIFF", 36 + behind);
    put_format(f, PCM, 1, 8000, 16);
    put_data(f, 0);
    put_text(f, behind ? "LIST" : "");
    put(f, 4, behind ? 4 : 0);
    put_text(f, behind ? "INFO" : "");
    tsr_wav_info info;
    float samples[16];
    int64_t n;
    assert_int_equal(read_file(f, 0, &info, samples, &n), TSR_OK);
    assert_int_equal(n, 0);
  }
  free(f);
}

/* Sizes that are none of these are believed, large ones too: a file that is shorter was cut. */
static void test_large_sizes(void **state)
{
  (void)state;
  static const uint32_t sizes[] = {0x7FFFEFFEu, 0x80000002u, 0xFFFFFEFEu};
  file *f = new_file();
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    begin(f, "RIFF", sizes[i] + 36);
    put_format(f, PCM, 1, 8000, 16);
    put_data(f, sizes[i]);
    put(f, 0, 8);
    tsr_wav_info info;
    float samples[16];
    int64_t n;
    assert_int_equal(read_file(f, 0, &info, samples, &n), TSR_ERR_FORMAT);
    assert_int_equal(info.length, sizes[i] / 2);
  }
  free(f);
}

static void refuse(const file *f, tsr_status status, const char *words)
{
  static float samples[MOST];
  tsr_wav_info info;
  int64_t n;
  assert_int_equal(read_file(f, 0, &info, samples, &n), status);
  const char *message = tsr_error_message();
  if (!strstr(message, words) || strncmp(message, "x.wav: ", 7) != 0) {
    fail_msg("'%s' is not said in '%s'", words, message);
  }
}

static void test_broken(void **state)
{
  (void)state;
  file *f = new_file();
  refuse(f, TSR_ERR_FORMAT, "not a WAV file");
  begin(f, "RIFX", 1);
  refuse(f, TSR_ERR_FORMAT, "not a WAV file");
  begin(f, "RIFF", 1);
  refuse(f, TSR_ERR_FORMAT, "the file ends before its samples");
  put_data(f, 4);
  refuse(f, TSR_ERR_FORMAT, "its samples come before their format");
  static const struct {
    uint32_t coding, channels, rate, bits;
    tsr_status status;
    const char *words;
  } formats[] = {
      {7, 1, 8000, 8, TSR_ERR_UNSUPPORTED, "coding 7 with 8 bits"},
      {PCM, 1, 8000, 12, TSR_ERR_UNSUPPORTED, "coding 1 with 12 bits"},
      {FLOAT, 1, 8000, 16, TSR_ERR_UNSUPPORTED, "coding 3 with 16 bits"},
      {PCM, 0, 8000, 16, TSR_ERR_FORMAT, "0 channels"},
      {PCM, 2000, 8000, 16, TSR_ERR_FORMAT, "2000 channels"},
      {PCM, 1, 0, 16, TSR_ERR_FORMAT, "of 0 samples a second"},
      {PCM, 1, 1u << 31, 16, TSR_ERR_FORMAT, "samples a second"},
  };
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    begin(f, "RIFF", 1);
    put_format(f, formats[i].coding, formats[i].channels, formats[i].rate, formats[i].bits);
    put_data(f, 16);
    put(f, 0, 8);
    put(f, 0, 8);
    refuse(f, formats[i].status, formats[i].words);
  }
  begin(f, "RF64", 0xFFFFFFFFu);
  put_text(f, "ds64");
  put(f, 16, 4);
  put(f, 1000, 8);
  put(f, 1ull << 63, 8);
  refuse(f, TSR_ERR_FORMAT, "its samples have 9223372036854775808 bytes");
  begin(f, "RIFF", 1);
  put_text(f, "fmt ");
  put(f, 15, 4);
  refuse(f, TSR_ERR_FORMAT, "its format has 15 bytes");
  begin(f, "RIFF", 1);
  put_format(f, PCM, 2, 8000, 16);
  f->bytes[f->size - 4] = 3;
  put_data(f, 4);
  put(f, 0, 4);
  refuse(f, TSR_ERR_FORMAT, "has 3 bytes, expected 4");

  begin(f, "RIFF", 1);
  put_format(f, PCM, 1, 8000, 16);
  put_data(f, 100);
  put(f, 0, 8);
  refuse(f, TSR_ERR_FORMAT, "the file ends 92 bytes before its samples do");
  begin(f, "RIFF", 1);
  put_format(f, FLOAT, 1, 8000, 32);
  put_data(f, 80);
  for (int32_t i = 0; i < 20; i++) {
    put_sample(f, FLOAT, 32, i == 12 ? (double)NAN : 0.5);
  }
  refuse(f, TSR_ERR_FORMAT, "sample 12 is not finite");

  /* Whatever is cut off, an error says so. */
  int64_t n;
  unsigned char *whole = read_bytes(TESSERA_SOURCE_ROOT "/tests/data/goldens/speech/features/count.wav", &f->size);
  memcpy(f->bytes, whole, f->size);
  free(whole);
  const size_t size = f->size;
  static float samples[MOST];
  tsr_wav_info info;
  for (f->size = 0; f->size < size; f->size += f->size < 60 ? 1 : 9973) {
    assert_int_equal(read_file(f, 0, &info, samples, &n), TSR_ERR_FORMAT);
  }
  free(f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_codings),     cmocka_unit_test(test_chunks), cmocka_unit_test(test_unknown_sizes),
      cmocka_unit_test(test_large_sizes), cmocka_unit_test(test_broken),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

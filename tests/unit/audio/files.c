/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/audio/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/memory_source.h"

static void put(unsigned char *bytes, uint32_t value, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    bytes[i] = (unsigned char)(value >> 8 * i);
  }
}

void make_wav_header(unsigned char *header, uint32_t rate, uint32_t channels, uint32_t size)
{
  memcpy(header, "RIFF....WAVEfmt ....", 20);
  put(header + 4, size + WAV_HEADER - 8, 4);
  put(header + 16, 16, 4);
  put(header + 20, 1, 2);
  put(header + 22, channels, 2);
  put(header + 24, rate, 4);
  put(header + 28, rate * channels * 2, 4);
  put(header + 32, channels * 2, 2);
  put(header + 34, 16, 2);
  memcpy(header + 36, "data", 4);
  put(header + 40, size, 4);
}

float next_noise(uint32_t *seed)
{
  *seed = *seed * 1664525u + 1013904223u;
  return (float)(*seed >> 8) / (float)(1 << 23) - 1;
}

unsigned char *read_bytes(const char *path, size_t *size)
{
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  *size = (size_t)ftell(file);
  rewind(file);
  unsigned char *bytes = malloc(*size + 1);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, *size, file), *size);
  fclose(file);
  return bytes;
}

float *read_samples(const char *path, int64_t *n)
{
  memory_source bytes = {0};
  unsigned char *all = read_bytes(path, &bytes.size);
  bytes.bytes = all;
  const tsr_byte_source source = source_in_memory(&bytes);
  tsr_wav *wav;
  tsr_wav_info info;
  assert_int_equal(tsr_wav_open(path, &source, &wav, &info), TSR_OK);
  assert_int_equal(info.rate, 16000);
  float *samples = calloc((size_t)info.length + 1, sizeof *samples);
  assert_non_null(samples);
  assert_int_equal(tsr_wav_read(wav, samples, info.length + 1, n), TSR_OK);
  assert_int_equal(*n, info.length);
  tsr_wav_close(wav);
  free(all);
  return samples;
}

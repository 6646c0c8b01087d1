/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of sound.
 */
#ifndef TESSERA_TESTS_AUDIO_FILES_H
#define TESSERA_TESTS_AUDIO_FILES_H

#include "core/audio/wav.h"

/* Bytes in memory; `piece`: as many come at once, 0: all. */
typedef struct bytes_read {
  const unsigned char *bytes;
  size_t size, piece;
} bytes_read;
tsr_byte_source source_of(bytes_read *bytes);

/* All bytes of a file, allocated. */
unsigned char *read_bytes(const char *path, size_t *size);

/* All samples of a WAV file, allocated. */
float *read_samples(const char *path, int64_t *n);

#endif

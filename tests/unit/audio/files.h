/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of sound.
 */
#ifndef TESSERA_TESTS_AUDIO_FILES_H
#define TESSERA_TESTS_AUDIO_FILES_H

#include <stddef.h>
#include <stdint.h>

/* All bytes of a file, allocated. */
unsigned char *read_bytes(const char *path, size_t *size);

/* All samples of a WAV file, allocated. */
float *read_samples(const char *path, int64_t *n);

#endif

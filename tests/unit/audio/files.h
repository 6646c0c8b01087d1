/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of sound.
 */
#ifndef TESSERA_TESTS_AUDIO_FILES_H
#define TESSERA_TESTS_AUDIO_FILES_H

#include <stddef.h>
#include <stdint.h>

enum { WAV_HEADER = 44 }; /* bytes */

/* The header of a WAV file of whole numbers of 16 bits. size: of the samples, in bytes. */
void make_wav_header(unsigned char *header, uint32_t rate, uint32_t channels, uint32_t size);

/* Noise from -1 to 1; *seed is what it comes from. */
float next_noise(uint32_t *seed);

/* All bytes of a file, allocated. */
unsigned char *read_bytes(const char *path, size_t *size);

/* All samples of a WAV file, allocated. */
float *read_samples(const char *path, int64_t *n);

#endif

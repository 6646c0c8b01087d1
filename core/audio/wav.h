/* SPDX-License-Identifier: Apache-2.0
 *
 * Sound from WAV files (RIFF and RF64; Microsoft and IBM 1991, EBU Tech 3306): whole numbers of 8, 16, 24 or 32 bits,
 * or floats of 32 or 64, any number of channels, any rate. It is read piece by piece, so a file may be longer than the
 * memory, and may come through a pipe: then the header need not know how long it is.
 *
 * Files may come from strangers: every size is checked, and every error names the file.
 */
#ifndef TESSERA_CORE_WAV_H
#define TESSERA_CORE_WAV_H

#include <stddef.h>
#include <stdint.h>

#include "tessera/status.h"

/* Where bytes come from: fills `bytes` with up to `size` of them; *got is 0 at the end alone. */
typedef struct tsr_byte_source {
  tsr_status (*read)(void *context, void *bytes, size_t size, size_t *got);
  void *context;
} tsr_byte_source;

typedef struct tsr_wav tsr_wav; /* one thread at a time */

typedef struct tsr_wav_info {
  int32_t rate; /* samples a second, of each channel */
  int32_t channels;
  int64_t length; /* samples of each channel; -1: only the end of the file tells */
} tsr_wav_info;

enum { TSR_WAV_HEAD = 12 }; /* bytes that tell a WAV file */

/* 1 if a file that begins with these bytes is a WAV file. */
int tsr_wav_is_one(const unsigned char *head, size_t n);

/* Reads the header. `name` stands in messages. *wav is the caller's until tsr_wav_close; the name, and what the source
 * reads from, must live as long.
 * Errors: TSR_ERR_FORMAT (no WAV file, or a broken one), TSR_ERR_UNSUPPORTED (another coding of samples),
 * TSR_ERR_OUT_OF_MEMORY, those of the source. */
tsr_status tsr_wav_open(const char *name, const tsr_byte_source *source, tsr_wav **wav,
                        tsr_wav_info *info) TSR_MUST_CHECK;

/* The same for samples without a header: whole numbers of 16 bits, or floats of 32. info->length is unknown. Bytes at
 * the end that are no whole sample of all channels are left out. Errors: TSR_ERR_ARGUMENT, TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_wav_open_raw(const char *name, const tsr_byte_source *source, int32_t is_float, int32_t rate,
                            int32_t channels, tsr_wav **wav, tsr_wav_info *info) TSR_MUST_CHECK;
void tsr_wav_close(tsr_wav *wav); /* takes NULL */

/* The next n samples, the mean of the channels, -1 to 1 where the file has whole numbers. *got < n at the end alone, or
 * with an error: so many came before it. Errors: TSR_ERR_FORMAT (the file ends within its samples; a sample is NaN or
 * infinite), those of the source. */
tsr_status tsr_wav_read(tsr_wav *wav, float *samples, int64_t n, int64_t *got) TSR_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the bytes of a sound come from: a file, standard input, memory, or functions of the caller.
 */
#ifndef TESSERA_CORE_AUDIO_SOURCE_H
#define TESSERA_CORE_AUDIO_SOURCE_H

#include "tessera/audio.h"

/* One thread at a time. */
typedef struct tsr_source {
  const char *name;           /* for messages; borrowed */
  int descriptor;             /* of a file; -1: none */
  int is_owned;               /* 1: the descriptor is closed with the source */
  const unsigned char *bytes; /* in memory; borrowed */
  tsr_audio_source given;     /* functions; read is NULL where there are none */
  int64_t base;               /* of the descriptor where the source begins */
  int64_t size;               /* bytes; -1: a pipe, which comes once */
  int64_t at;                 /* of the next byte */
  unsigned char *seen;        /* [n_seen] of a pipe: its first bytes, which may be read again */
  int64_t n_seen;
  int is_settled; /* 1: no more of them are kept */
} tsr_source;

/* Opens a file; "-" is standard input. Finish it after success. Errors: TSR_ERR_IO, naming the file. */
tsr_status tsr_source_open(const char *path, tsr_source *source) TSR_MUST_CHECK;
void tsr_source_view(const char *name, const void *bytes, size_t size, tsr_source *source);
void tsr_source_give(const char *name, const tsr_audio_source *given, tsr_source *source);
void tsr_source_close(tsr_source *source); /* takes a zeroed or a closed one */

/* Up to `size` bytes; *got is 0 at the end alone. Errors: TSR_ERR_IO, those of the caller's functions. */
tsr_status tsr_source_read(tsr_source *source, void *bytes, size_t size, size_t *got) TSR_MUST_CHECK;

/* Errors: TSR_ERR_IO (an offset outside the file), those of the caller's functions. Not for a pipe. */
tsr_status tsr_source_seek(tsr_source *source, int64_t offset) TSR_MUST_CHECK;

/* Goes back to the beginning. A pipe can until it is settled, or a mebibyte has come: then it is TSR_ERR_UNSUPPORTED,
 * and has no message. Other errors: those of seeking. */
tsr_status tsr_source_restart(tsr_source *source) TSR_MUST_CHECK;

/* Nobody goes back any more: what a pipe brings is not kept from here on. */
void tsr_source_settle(tsr_source *source);

/* Copies a pipe that is at its beginning to a temporary file without a name, which takes its place. Errors: TSR_ERR_IO,
 * TSR_ERR_OUT_OF_MEMORY, those of the caller's functions. */
tsr_status tsr_source_keep(tsr_source *source) TSR_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A file, or bytes in memory, read forward through a window: what the readers of texts stand on. What gzip or zstd
 * compressed is decompressed on the way.
 */
#ifndef TESSERA_CORE_STREAM_H
#define TESSERA_CORE_STREAM_H

#include "core/text/compressed.h"
#include "tessera/status.h"

#include <stddef.h>

/* One thread at a time. */
typedef struct tsr_stream {
  char *name;         /* for messages */
  int descriptor;     /* -1: bytes in memory */
  const char *bytes;  /* in memory; borrowed */
  size_t size;        /* of these */
  char *buffer;       /* holds [begin, end) unread */
  const char *window; /* the buffer, or the bytes in memory */
  size_t room;        /* of the buffer, in bytes */
  size_t begin;
  size_t end;
  int64_t offset; /* of window[begin] from the beginning, in bytes of the text, not of the compressed file */
  int at_end;     /* nothing comes after `end` */
  tsr_compressed compressed;
  char *packed; /* of a compressed file: the bytes that are being decompressed */
} tsr_stream;

/* Opens a file (a pipe is one, too, but cannot be sought) and reads its first bytes. Finish it after success. Errors:
 * TSR_ERR_IO, and those of tsr_compressed_begin, naming the file. */
tsr_status tsr_stream_open(const char *path, tsr_stream *stream) TSR_MUST_CHECK;

/* The same over borrowed bytes, which outlive the stream. */
tsr_status tsr_stream_view(const char *name, const void *bytes, size_t size, tsr_stream *stream) TSR_MUST_CHECK;
void tsr_stream_finish(tsr_stream *stream); /* takes a zeroed one */

/* Makes the window longer by what comes next, unless at_end is set afterwards and nothing did. Pointers into it become
 * invalid. Errors: TSR_ERR_IO, TSR_ERR_FORMAT (compressed bytes that are broken or cut off), TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_stream_fill(tsr_stream *stream) TSR_MUST_CHECK;

/* Drops the first `size` bytes of the window. */
void tsr_stream_skip(tsr_stream *stream, size_t size);

/* Goes to an offset. Compressed bytes are decompressed up to it, from the beginning where it lies before the window.
 * Errors: TSR_ERR_IO (a pipe; an offset beyond the end), and those of tsr_stream_fill. */
tsr_status tsr_stream_seek(tsr_stream *stream, int64_t offset) TSR_MUST_CHECK;

#endif

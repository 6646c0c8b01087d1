/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes that gzip or zstd compressed, decompressed a piece at a time. Who uses it brings the compressed bytes.
 */
#ifndef TESSERA_CORE_COMPRESSED_H
#define TESSERA_CORE_COMPRESSED_H

#include "core/text/codec.h"

/* One thread at a time. */
typedef struct tsr_compressed {
  const tsr_codec *codec; /* NULL: nothing is compressed, and the rest is zero */
  void *state;            /* the codec's */
  const char *name;       /* the file's, for messages; borrowed */
  const char *next;       /* compressed bytes that come next; the user puts more here once all are used */
  size_t left;            /* bytes */
  int at_end;             /* 1: none come after these; the user's to say */
  int64_t offset;         /* of `next` from the file's beginning, in bytes */
  int64_t unit_begin;     /* the same of the member or frame */
  int within;             /* 1: in the middle of it */
  const char *fault;      /* what is wrong at `offset`; NULL: nothing so far */
} tsr_compressed;

/* How many first bytes of a file tell whether it is compressed. */
enum { TSR_COMPRESSED_MARK = 4 };

/* Sets *c up for a file that begins with these bytes; c->codec is NULL if it is not compressed. Finish it. Errors:
 * TSR_ERR_FORMAT (shorter than the mark, though the name ends as a compressed file's), TSR_ERR_UNSUPPORTED (a format
 * that this build cannot read), TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_compressed_begin(const char *name, const char *bytes, size_t size, tsr_compressed *c) TSR_MUST_CHECK;
void tsr_compressed_finish(tsr_compressed *c); /* takes a zeroed one */

/* What comes next is the file's beginning again. */
void tsr_compressed_restart(tsr_compressed *c);

/* Decompresses into `out` until `room` bytes are full or all of c->next is used. *given: bytes of `out` that are set; 0
 * although nothing is left and at_end is set: this is the text's end. Errors: TSR_ERR_FORMAT, naming file and offset;
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_compressed_read(tsr_compressed *c, char *out, size_t room, size_t *given) TSR_MUST_CHECK;

/* The length of a file's name without the ending of a compressed file. */
size_t tsr_compressed_stem(const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What decompresses one format: gzip.c and zstd.c each have a table of this form, for compressed.c.
 */
#ifndef TESSERA_CORE_CODEC_H
#define TESSERA_CORE_CODEC_H

#include "tessera/status.h"

#include <stddef.h>

typedef enum tsr_codec_progress {
  TSR_CODEC_GOES_ON,  /* within a unit */
  TSR_CODEC_ENDED,    /* the unit is complete, its checksum is right, and all of its text has been given */
  TSR_CODEC_BROKEN,   /* `fault` says what is wrong */
  TSR_CODEC_NO_MEMORY /* an allocation failed */
} tsr_codec_progress;

/* Both sides of a step, which moves them forward. */
typedef struct tsr_codec_step {
  const char *in; /* compressed */
  size_t in_size; /* bytes */
  char *out;
  size_t room;       /* bytes */
  const char *fault; /* static text */
} tsr_codec_step;

/* A file is one or more units, one behind the other: members of gzip, frames of zstd. */
typedef struct tsr_codec {
  const char *format;                                     /* "gzip" */
  const char *unit;                                       /* "member" */
  int (*begins)(const unsigned char *bytes, size_t size); /* 1 if a file of the format begins so */
  tsr_status (*open)(void **state);                       /* NULL: this build cannot read the format */
  void (*restart)(void *state);                           /* the next step begins a unit, whatever was before */
  tsr_codec_progress (*step)(void *state, tsr_codec_step *step);
  void (*close)(void *state); /* takes NULL */
} tsr_codec;

extern const tsr_codec tsr_codec_gzip;
extern const tsr_codec tsr_codec_zstd;

#endif

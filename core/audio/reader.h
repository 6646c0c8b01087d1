/* SPDX-License-Identifier: Apache-2.0
 *
 * A sound of any format as mono samples, at the rate that it has.
 */
#ifndef TESSERA_CORE_AUDIO_READER_H
#define TESSERA_CORE_AUDIO_READER_H

#include "core/audio/plugin.h"
#include "core/audio/source.h"
#include "core/audio/wav.h"

enum { TSR_READER_MESSAGE = 1024 };

/* One thread at a time. */
typedef struct tsr_reader {
  tsr_source *source;
  tsr_wav *wav; /* WAV file or raw samples; NULL: the plugin reads */
  tsr_audio_library decoder;
  tsr_audio_bytes bytes;
  void *sound;
  float *frame; /* [at_once, channels] what the plugin gave */
  int64_t at_once;
  int64_t taken; /* samples of each channel */
  tsr_audio_facts facts;
  tsr_status io_status; /* what became of the source while the plugin read from it, and its message */
  char io_message[TSR_READER_MESSAGE];
} tsr_reader;

/* Opens a source at its beginning; a pipe may be copied to a temporary file. `options` has no defaults left. The reader
 * stays where it is. Errors: those of tsr_audio_open. */
tsr_status tsr_reader_open(tsr_source *source, const tsr_audio_options *options, tsr_reader *reader) TSR_MUST_CHECK;
void tsr_reader_close(tsr_reader *reader); /* takes a zeroed one */
int tsr_reader_is_open(const tsr_reader *reader);

/* The next n samples, the mean of the channels, all finite. *got is 0 at the end alone, or with an error: so many came
 * before it. Errors: those of tsr_audio_read. */
tsr_status tsr_reader_read(tsr_reader *reader, float *samples, int64_t n, int64_t *got) TSR_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model of speech hears in the sounds of a list, for tessera eval. Functions that return int return exit codes,
 * as in message.h.
 */
#ifndef TESSERA_TOOLS_EVAL_SPEECH_H
#define TESSERA_TOOLS_EVAL_SPEECH_H

#include "tessera/transcriber.h"
#include "tools/tessera/text/translator.h"

/* Zero it. */
typedef struct listener {
  tsr_runtime *runtime;
  tsr_transcriber *transcriber;
  tsr_transcribe_options request;
  tsr_generate_options search;
  const char *list;              /* whose folder the sounds are relative to */
  char *paths[TRANSLATOR_CHUNK]; /* [n] of a chunk */
  int32_t n;
  int64_t done; /* sounds of the chunks before */
  tsr_cli_progress progress;
} listener;

/* 1 if the model of that folder reads sound. */
int listener_hears(const char *folder, int *hears);

/* Loads the model. Of the settings those of the device, the precision, the batch, the beam and the language count; that
 * others are given is a wrong command line. list: outlives the listener. Finish it also after a failure. */
int listener_open(listener *l, const translator_settings *settings, const char *list);
void listener_finish(listener *l);

/* Adds a sound to the chunk, which has room for TRANSLATOR_CHUNK. */
int listener_add(listener *l, const char *path, size_t size);

/* Takes what was heard in a sound of the chunk: its text on one line. */
typedef int (*listener_take_fn)(void *user, int32_t sound, const char *text, size_t size);

/* Transcribes the chunk, in its order, and empties it. A sound that cannot be read ends it. */
int listener_transcribe(listener *l, listener_take_fn take, void *user);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model of speech hears in the sounds of a list, for tessera eval. Functions that return int return exit codes,
 * as in message.h.
 */
#ifndef TESSERA_TOOLS_EVAL_SPEECH_H
#define TESSERA_TOOLS_EVAL_SPEECH_H

#include "tessera/corpus.h"
#include "tessera/transcriber.h"
#include "tools/tessera/text/translator.h"

/* Zero it. */
typedef struct listener {
  tsr_runtime *runtime;
  tsr_transcriber *transcriber;
  tsr_transcribe_options request;
  tsr_generate_options search;
  const char *list;      /* whose folder the sounds are relative to */
  const char *otherwise; /* the language of sounds for which the list names none; NULL: their first windows tell */
  struct listener_sound *sounds; /* [n] of a chunk, with room for TRANSLATOR_CHUNK */
  int32_t n;
  int64_t done; /* sounds that were heard */
  tsr_cli_progress progress;
} listener;

/* 1 if the model of that folder reads sound. */
int listener_hears(const char *folder, int *hears);

/* Loads the model. Of the settings those of the device, the precision, the batch, the beam and the language count; that
 * others are given is a wrong command line. list: outlives the listener. Finish it also after a failure. */
int listener_open(listener *l, const translator_settings *settings, const char *list);
void listener_finish(listener *l);

/* Adds the sound of the list's last pair to the chunk, which has room for TRANSLATOR_CHUNK. A third column of the list
 * names its language, a fourth its task. */
int listener_add(listener *l, const tsr_corpus *corpus, const tsr_corpus_pair *pair);

/* Takes what was heard in a sound of the chunk: its text on one line. */
typedef int (*listener_take_fn)(void *user, int32_t sound, const char *text, size_t size);

/* Transcribes the chunk, hands its texts over in its order, and empties it. A sound that cannot be read ends it. */
int listener_transcribe(listener *l, listener_take_fn take, void *user);

#endif

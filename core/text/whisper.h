/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tokenizer of Whisper has beyond others: tokens of tasks, languages and timestamps.
 */
#ifndef TESSERA_CORE_WHISPER_H
#define TESSERA_CORE_WHISPER_H

#include "tessera/speech.h"

typedef struct tsr_whisper {
  tsr_speech_tokens tokens;
  int32_t task;           /* of texts that are encoded with their prefix: TSR_SPEECH_TRANSCRIBE ... */
  int32_t has_timestamps; /* likewise */
} tsr_whisper;

/* The ids of a tokenizer of Whisper; NULL: the tokenizer is NULL or of another kind, and the thread's error says so of
 * the function `where`. */
const tsr_whisper *tsr_whisper_of(const tsr_tokenizer *tokenizer, const char *where);

/* Writes what the decoder begins with; language: the id of its token, or -1. Returns how many. */
int32_t tsr_whisper_prefix(const tsr_whisper *whisper, int32_t language, int32_t task, int32_t has_timestamps,
                           int32_t prefix[TSR_SPEECH_PREFIX]);

/* The index of a language by its English name, whatever the letters' case; -1: none. */
int32_t tsr_whisper_find_name(const tsr_tokenizer *tokenizer, const char *name);

/* How many of the ids are a prompt, which a transcript does not have. */
int32_t tsr_whisper_prompt_length(const tsr_whisper *whisper, const int32_t *ids, int32_t n_ids);

/* Removes each "<|1.20|>" from a text, in place. */
void tsr_whisper_strip_timestamps(char *text);

/* The bytes of a token of text, not NUL-terminated, at most as many as its spelling has; 0 for ids that are no text.
 * bytes: room for them, or NULL to ask for the most that there may be. */
size_t tsr_whisper_bytes(const tsr_tokenizer *tokenizer, int32_t id, char *bytes);

#endif

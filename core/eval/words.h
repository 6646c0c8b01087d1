/* SPDX-License-Identifier: Apache-2.0
 *
 * From texts to the symbols whose n-grams are counted: words for BLEU, characters for chrF.
 */
#ifndef TESSERA_CORE_WORDS_H
#define TESSERA_CORE_WORDS_H

#include "core/base/text_buffer.h"

/* The tokenizer 13a: that of mteval-v13a.pl and of sacreBLEU. It separates most ASCII punctuation; points and commas
 * unless a digit stands before and after, hyphens after digits. The words are apart by the white space that
 * tsr_is_space names. `text` is valid UTF-8; *tokens is good until the buffers change. */
tsr_status tsr_tokenize_13a(tsr_text_buffer buffers[2], const char *text, size_t size, const char **tokens,
                            size_t *tokens_size) TSR_MUST_CHECK;

/* A growing sequence of symbols. Zero it; free(symbols) ends it. */
typedef struct tsr_symbols {
  uint32_t *symbols;
  size_t n;
  size_t room;
} tsr_symbols;

/* The code points of a text (valid UTF-8) but white space. */
tsr_status tsr_symbols_of_characters(tsr_symbols *symbols, const char *text, size_t size) TSR_MUST_CHECK;

/* Words numbered by when they were first met. Zero it; tsr_words_finish ends it. */
typedef struct tsr_words {
  struct tsr_word *table; /* [room], open addressing; `room` is a power of two */
  size_t room;
  uint32_t n; /* distinct words */
  uint32_t stamp;
} tsr_words;

/* Forgets all words: the texts that they stood in may go. */
void tsr_words_forget(tsr_words *words);

/* The numbers of the words of a text (valid UTF-8), which stays where it is until tsr_words_forget. */
tsr_status tsr_symbols_of_words(tsr_symbols *symbols, tsr_words *words, const char *text, size_t size) TSR_MUST_CHECK;
void tsr_words_finish(tsr_words *words);

/* A text as n-grams are counted of it. */
typedef struct tsr_reading {
  tsr_text_buffer clean;
  tsr_text_buffer tokens[2];
  tsr_text_buffer normalized;
  const char *text; /* valid UTF-8 */
  size_t size;
} tsr_reading;

/* Takes a text, which stays where it is; what is not UTF-8 becomes U+FFFD. */
tsr_status tsr_reading_begin(tsr_reading *reading, const char *text, size_t size) TSR_MUST_CHECK;

/* The numbers of its words, as the tokenizer 13a parts them; the reading stays as it is until tsr_words_forget. */
tsr_status tsr_reading_words(tsr_reading *reading, tsr_words *words, tsr_symbols *symbols) TSR_MUST_CHECK;

/* Room for n readings and the symbols of each, in arrays of *room that begin as NULL, and their end. */
tsr_status tsr_readings_reserve(tsr_reading **readings, tsr_symbols **symbols, int32_t *room, int32_t n) TSR_MUST_CHECK;
void tsr_readings_finish(tsr_reading *readings, tsr_symbols *symbols, int32_t room);

#endif

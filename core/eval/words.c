/* SPDX-License-Identifier: Apache-2.0 */
#include "core/eval/words.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/eval/ngrams.h"

typedef struct tsr_word {
  const char *text;
  size_t size;
  uint64_t hash;
  uint32_t number;
  uint32_t stamp; /* with another one than the table's the entry is empty */
} tsr_word;

static tsr_status add_symbol(tsr_symbols *s, uint32_t symbol)
{
  if (s->n == s->room) {
    size_t room = s->room > 0 ? 2 * s->room : 256;
    uint32_t *symbols = realloc(s->symbols, room * sizeof *symbols);
    if (!symbols) {
      return tsr_fail_memory(room * sizeof *symbols);
    }
    s->symbols = symbols;
    s->room = room;
  }
  s->symbols[s->n++] = symbol;
  return TSR_OK;
}

tsr_status tsr_symbols_of_characters(tsr_symbols *symbols, const char *text, size_t size)
{
  symbols->n = 0;
  size_t length;
  for (size_t i = 0; i < size; i += length) {
    uint32_t c = tsr_utf8_decode(text + i, size - i, &length);
    if (!tsr_is_space(c)) {
      TSR_TRY(add_symbol(symbols, c));
    }
  }
  return TSR_OK;
}

void tsr_words_forget(tsr_words *words)
{
  words->n = 0;
  if (++words->stamp == 0) {
    if (words->room > 0) {
      memset(words->table, 0, words->room * sizeof *words->table);
    }
    words->stamp = 1;
  }
}

/* The word's entry, or the empty one where it belongs. */
static tsr_word *find(const tsr_words *words, const char *text, size_t size, uint64_t hash)
{
  size_t mask = words->room - 1;
  for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
    tsr_word *word = &words->table[at];
    if (word->stamp != words->stamp ||
        (word->hash == hash && word->size == size && memcmp(word->text, text, size) == 0)) {
      return word;
    }
  }
}

/* Keeps the table at most half full. */
static tsr_status make_room(tsr_words *words)
{
  if (words->n < words->room / 2) {
    return TSR_OK;
  }
  tsr_words larger = {.room = words->room > 0 ? 2 * words->room : 256, .n = words->n, .stamp = 1};
  larger.table = calloc(larger.room, sizeof *larger.table);
  if (!larger.table) {
    return tsr_fail_memory(larger.room * sizeof *larger.table);
  }
  for (size_t i = 0; i < words->room; i++) {
    tsr_word word = words->table[i];
    if (word.stamp == words->stamp) {
      word.stamp = larger.stamp;
      *find(&larger, word.text, word.size, word.hash) = word;
    }
  }
  free(words->table);
  *words = larger;
  return TSR_OK;
}

static uint64_t hash_bytes(const char *text, size_t size)
{
  uint64_t hash = size;
  uint64_t part;
  for (; size >= sizeof part; text += sizeof part, size -= sizeof part) {
    memcpy(&part, text, sizeof part);
    hash = tsr_hash_mix(hash ^ part) + 1;
  }
  part = 0;
  memcpy(&part, text, size);
  return tsr_hash_mix(hash ^ part);
}

static tsr_status add_word(tsr_symbols *symbols, tsr_words *words, const char *text, size_t size)
{
  TSR_TRY(make_room(words));
  uint64_t hash = hash_bytes(text, size);
  tsr_word *word = find(words, text, size, hash);
  if (word->stamp != words->stamp) {
    *word = (tsr_word){.text = text, .size = size, .hash = hash, .number = words->n++, .stamp = words->stamp};
  }
  return add_symbol(symbols, word->number);
}

tsr_status tsr_symbols_of_words(tsr_symbols *symbols, tsr_words *words, const char *text, size_t size)
{
  symbols->n = 0;
  size_t begin = 0; /* of the word that is being read */
  size_t length;
  for (size_t i = 0; i < size; i += length) {
    if (!tsr_is_space(tsr_utf8_decode(text + i, size - i, &length))) {
      continue;
    }
    if (i > begin) {
      TSR_TRY(add_word(symbols, words, text + begin, i - begin));
    }
    begin = i + length;
  }
  return size > begin ? add_word(symbols, words, text + begin, size - begin) : TSR_OK;
}

void tsr_words_finish(tsr_words *words)
{
  free(words->table);
  *words = (tsr_words){0};
}

tsr_status tsr_reading_begin(tsr_reading *reading, const char *text, size_t size)
{
  return tsr_text_buffer_clean(&reading->clean, size > 0 ? text : "", size, &reading->text, &reading->size);
}

tsr_status tsr_reading_words(tsr_reading *reading, tsr_words *words, tsr_symbols *symbols)
{
  const char *tokens;
  size_t size;
  TSR_TRY(tsr_tokenize_13a(reading->tokens, reading->text, reading->size, &tokens, &size));
  return tsr_symbols_of_words(symbols, words, tokens, size);
}

tsr_status tsr_readings_reserve(tsr_reading **readings, tsr_symbols **symbols, int32_t *room, int32_t n)
{
  if (n <= *room) {
    return TSR_OK;
  }
  tsr_reading *more = realloc(*readings, (size_t)n * sizeof *more);
  *readings = more ? more : *readings;
  tsr_symbols *more_symbols = more ? realloc(*symbols, (size_t)n * sizeof *more_symbols) : NULL;
  *symbols = more_symbols ? more_symbols : *symbols;
  if (!more_symbols) {
    return tsr_fail_memory((size_t)n * sizeof *more);
  }
  for (; *room < n; (*room)++) {
    (*readings)[*room] = (tsr_reading){0};
    (*symbols)[*room] = (tsr_symbols){0};
  }
  return TSR_OK;
}

void tsr_readings_finish(tsr_reading *readings, tsr_symbols *symbols, int32_t room)
{
  for (int32_t i = 0; i < room; i++) {
    free(readings[i].clean.bytes);
    free(readings[i].tokens[0].bytes);
    free(readings[i].tokens[1].bytes);
    free(readings[i].normalized.bytes);
    free(symbols[i].symbols);
  }
  free(readings);
  free(symbols);
}

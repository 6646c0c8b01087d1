/* SPDX-License-Identifier: Apache-2.0
 *
 * A source text as a model takes it: whole, cut, or in parts. Every tokenizer serves: how many tokens a piece of text
 * makes is found out by encoding it.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/base/utf8.h"
#include "tessera/text.h"

/* Places where a text may be parted, the better ones last. */
enum { AT_CHARACTER = 0, AT_BLANK = 1, AT_CLAUSE = 2, AT_SENTENCE = 3, PLACES = 4 };

/* A text that is being parted. */
typedef struct parting {
  const tsr_tokenizer *tokenizer;
  const char *text;
  size_t size;
  size_t prefix;   /* bytes that begin every part: a language token */
  int32_t most;    /* tokens of a part */
  int32_t n_empty; /* tokens of no text, and they */
  int32_t *empty;
  char *room; /* for the prefix and a piece of text */
} parting;

static int is_one_of(uint32_t c, const uint32_t *list, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    if (list[i] == c) {
      return 1;
    }
  }
  return 0;
}

/* What ends a sentence or a clause where a blank follows, and what does without one. */
static int ending_of(uint32_t c, int *alone)
{
  static const uint32_t sentence[] = {'.', '!', '?', 0x2026, 0x061F, 0x06D4, 0x0964, 0x0965, 0x0589, 0x1362};
  static const uint32_t wide_sentence[] = {0x3002, 0xFF01, 0xFF1F, 0xFF61};
  static const uint32_t clause[] = {',', ';', ':', 0x2014, 0x2013, 0x060C, 0x061B};
  static const uint32_t wide_clause[] = {0x3001, 0xFF0C, 0xFF1B, 0xFF1A};
  *alone = 0;
  if (is_one_of(c, sentence, sizeof sentence / sizeof sentence[0])) {
    return AT_SENTENCE;
  }
  if (is_one_of(c, clause, sizeof clause / sizeof clause[0])) {
    return AT_CLAUSE;
  }
  *alone = 1;
  if (is_one_of(c, wide_sentence, sizeof wide_sentence / sizeof wide_sentence[0])) {
    return AT_SENTENCE;
  }
  return is_one_of(c, wide_clause, sizeof wide_clause / sizeof wide_clause[0]) ? AT_CLAUSE : AT_CHARACTER;
}

/* Closes what a sentence may end in: ." .) .» */
static int is_closer(uint32_t c)
{
  static const uint32_t closers[] = {'"', '\'', ')', ']', '}', 0xBB, 0x2019, 0x201D, 0x203A, 0x300D, 0x300F, 0xFF09};
  return is_one_of(c, closers, sizeof closers / sizeof closers[0]);
}

/* Where to end a part of text[begin .. limit): behind the last sentence, clause or word, whichever is not too far
 * back. */
static size_t best_place(const char *text, size_t size, size_t begin, size_t limit)
{
  size_t last[PLACES] = {begin, begin, begin, begin};
  int ending = AT_CHARACTER;
  size_t length;
  for (size_t i = begin; i <= limit && i < size; i += length) {
    int alone;
    uint32_t c = tsr_utf8_decode(text + i, size - i, &length);
    int kind = ending_of(c, &alone);
    if (tsr_is_space(c)) {
      last[AT_BLANK] = i;
      last[ending] = i;
      ending = AT_CHARACTER;
    } else if (i == limit) {
      break;
    } else if (kind != AT_CHARACTER) {
      ending = kind;
      if (alone) {
        last[kind] = i + length;
      }
    } else if (!is_closer(c)) {
      ending = AT_CHARACTER;
    }
  }
  if (last[AT_SENTENCE] - begin > (limit - begin) / 4) {
    return last[AT_SENTENCE];
  }
  if (last[AT_CLAUSE] - begin > (limit - begin) / 2) {
    return last[AT_CLAUSE];
  }
  return last[AT_BLANK] > begin ? last[AT_BLANK] : limit;
}

static size_t skip_blanks(const char *text, size_t at, size_t size)
{
  size_t length;
  while (at < size && tsr_is_space(tsr_utf8_decode(text + at, size - at, &length))) {
    at += length;
  }
  return at;
}

/* Encodes text[begin .. end), with the prefix if it does not stand there already. */
static tsr_status encode(const parting *p, size_t begin, size_t end, int32_t **ids, int32_t *n_ids)
{
  if (p->prefix == 0 || begin < p->prefix) {
    return tsr_tokenizer_encode(p->tokenizer, p->text + begin, end - begin, ids, n_ids);
  }
  memcpy(p->room, p->text, p->prefix);
  memcpy(p->room + p->prefix, p->text + begin, end - begin);
  return tsr_tokenizer_encode(p->tokenizer, p->room, p->prefix + end - begin, ids, n_ids);
}

static tsr_status fits(const parting *p, size_t begin, size_t end, int *yes)
{
  int32_t *ids;
  int32_t n_ids;
  TSR_TRY(encode(p, begin, end, &ids, &n_ids));
  free(ids);
  *yes = n_ids <= p->most;
  return TSR_OK;
}

/* The beginning of the character that byte `at` belongs to. */
static size_t character_at(const char *text, size_t begin, size_t at)
{
  size_t back = at;
  while (back > begin && at - back < TSR_UTF8_LONGEST - 1 && ((unsigned char)text[back] & 0xC0) == 0x80) {
    back--;
  }
  return ((unsigned char)text[back] & 0xC0) == 0x80 ? at : back;
}

/* About as much of the text from `begin` on as fits; never less than a character. guess: bytes, likely too many. */
static tsr_status find_limit(const parting *p, size_t begin, size_t guess, size_t *limit)
{
  size_t length, step = guess;
  (void)tsr_utf8_decode(p->text + begin, p->size - begin, &length);
  size_t low = begin + length, high = low;
  int yes = 1;
  while (yes && high < p->size) {
    low = high;
    high = p->size - begin > step ? character_at(p->text, begin, begin + step) : p->size;
    high = high > low ? high : p->size;
    TSR_TRY(fits(p, begin, high, &yes));
    step *= 2;
  }
  if (yes) {
    *limit = high;
    return TSR_OK;
  }
  while (high - low > 1 + (low - begin) / 32) {
    size_t middle = character_at(p->text, begin, low + (high - low) / 2);
    if (middle <= low) {
      (void)tsr_utf8_decode(p->text + low, p->size - low, &length);
      middle = low + length;
    }
    if (middle >= high) {
      break;
    }
    TSR_TRY(fits(p, begin, middle, &yes));
    if (yes) {
      low = middle;
    } else {
      high = middle;
    }
  }
  *limit = low;
  return TSR_OK;
}

/* Shortens ids to the most that are allowed; the special tokens at the end stay. */
static void cut(const parting *p, int32_t *ids, int32_t *n_ids)
{
  if (*n_ids <= p->most) {
    return;
  }
  int32_t tail = 0;
  while (tail < p->n_empty && tail < p->most && ids[*n_ids - 1 - tail] == p->empty[p->n_empty - 1 - tail]) {
    tail++;
  }
  memmove(ids + p->most - tail, ids + *n_ids - tail, (size_t)tail * sizeof *ids);
  *n_ids = p->most;
}

/* Takes ids, after a failure too. */
static tsr_status add_part(tsr_source *source, int32_t *ids, int32_t n_ids)
{
  size_t n = (size_t)source->n_parts + 1;
  int32_t **all = realloc(source->ids, n * sizeof *all);
  if (all) {
    source->ids = all;
  }
  int32_t *counts = all ? realloc(source->n_ids, n * sizeof *counts) : NULL;
  if (!counts) {
    free(ids);
    return tsr_fail_memory(n * sizeof *all);
  }
  source->n_ids = counts;
  source->ids[source->n_parts] = ids;
  source->n_ids[source->n_parts] = n_ids;
  source->n_parts++;
  return TSR_OK;
}

/* What takes a target language's token in the text, at its beginning (Marian: >>fra<<), takes it in each part. */
static size_t prefix_of(const parting *p, const int32_t *ids, int32_t n_ids)
{
  const char *token = n_ids > 0 ? tsr_tokenizer_token(p->tokenizer, 0, ids[0]) : "";
  size_t size = strlen(token);
  int is_language = size > 4 && memcmp(token, ">>", 2) == 0 && memcmp(token + size - 2, "<<", 2) == 0;
  return is_language && size <= p->size && memcmp(p->text, token, size) == 0 ? size : 0;
}

/* ids [n_ids]: of the text's first `read` bytes. */
static tsr_status split(parting *p, size_t read, const int32_t *ids, int32_t n_ids, tsr_source *source)
{
  p->prefix = prefix_of(p, ids, n_ids);
  p->room = malloc(p->size + p->prefix + 1);
  if (!p->room) {
    return tsr_fail_memory(p->size + p->prefix + 1);
  }
  const size_t guess = read / (size_t)n_ids * (size_t)p->most + 64;
  tsr_status status = TSR_OK;
  for (size_t begin = 0; status == TSR_OK && (begin = skip_blanks(p->text, begin, p->size)) < p->size;) {
    size_t limit = p->size;
    int32_t *part = NULL;
    int32_t n = 0;
    status = find_limit(p, begin, guess, &limit);
    size_t end = limit < p->size ? best_place(p->text, p->size, begin, limit) : limit;
    if (status == TSR_OK) {
      status = encode(p, begin, end, &part, &n);
    }
    if (status == TSR_OK && n > p->n_empty) {
      cut(p, part, &n); /* a character of more tokens than there may be */
      status = add_part(source, part, n);
    } else {
      free(part);
    }
    begin = end;
  }
  free(p->room);
  p->room = NULL;
  return status;
}

/* Bytes of the text's beginning: `wanted`, or up to the last blank in the last quarter of that. */
static size_t beginning(const parting *p, size_t wanted)
{
  size_t length;
  if (wanted >= p->size) {
    return p->size;
  }
  size_t end = character_at(p->text, 0, wanted);
  for (size_t at = end; at > wanted / 4 * 3; at = character_at(p->text, 0, at - 1)) {
    if (tsr_is_space(tsr_utf8_decode(p->text + at, p->size - at, &length))) {
      return at;
    }
  }
  return end;
}

/* Encodes the text, or of one that is far too long its beginning: so much that the tokens which are kept are no more
 * than half of those that are read. What comes so far behind them does not change them: tokens depend on the text near
 * them. (Where a letter is repeated without end, SentencePiece may cut the row otherwise than it would cut the whole.)
 * *size: bytes that were read. */
static tsr_status encode_beginning(const parting *p, int32_t **ids, int32_t *n_ids, size_t *size)
{
  enum { LEAST = 1 << 18, BYTES_OF_TOKEN = 64 /* more than all but a few have */ };
  size_t wanted = (size_t)p->most * BYTES_OF_TOKEN;
  for (wanted = wanted > LEAST ? wanted : LEAST;; wanted *= 2) {
    *size = beginning(p, wanted);
    TSR_TRY(tsr_tokenizer_encode(p->tokenizer, p->text, *size, ids, n_ids));
    if (*size == p->size || *n_ids / 2 > p->most) {
      return TSR_OK;
    }
    free(*ids);
    *ids = NULL;
  }
}

static tsr_status take(parting *p, int32_t long_input, tsr_source *source)
{
  int32_t *ids = NULL;
  int32_t n_ids = 0;
  size_t size = 0;
  TSR_TRY(encode_beginning(p, &ids, &n_ids, &size));
  source->n_tokens = n_ids;
  source->has_more = size < p->size;
  if (n_ids <= p->n_empty) { /* characters that the tokenizer takes for nothing */
    free(ids);
    return TSR_OK;
  }
  if (n_ids > p->most && long_input == TSR_LONG_ERROR) {
    free(ids);
    return tsr_fail(TSR_ERR_ARGUMENT, "%s%d tokens; the model takes at most %d", source->has_more ? "more than " : "",
                    (int)n_ids, (int)p->most);
  }
  if (n_ids > p->most && long_input == TSR_LONG_SPLIT) {
    tsr_status status = split(p, size, ids, n_ids, source);
    free(ids);
    return status;
  }
  cut(p, ids, &n_ids);
  return add_part(source, ids, n_ids);
}

static tsr_status prepare(parting *p, int32_t long_input, tsr_source *source)
{
  if (skip_blanks(p->text, 0, p->size) == p->size) {
    return TSR_OK;
  }
  TSR_TRY(tsr_tokenizer_encode(p->tokenizer, "", 0, &p->empty, &p->n_empty));
  tsr_status status = take(p, long_input, source);
  free(p->empty);
  if (status != TSR_OK) {
    tsr_source_finish(source);
  }
  return status;
}

tsr_status tsr_source_prepare_sized(const tsr_tokenizer *tokenizer, const char *text, size_t text_size, int32_t most,
                                    int32_t long_input, tsr_source *source, size_t size)
{
  if (!tokenizer || !source || (!text && text_size > 0) || most < 1 || long_input < TSR_LONG_CUT ||
      long_input > TSR_LONG_ERROR) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_source_prepare: tokenizer, text and source must not be NULL, most not below 1, long_input one "
                    "of TSR_LONG_*");
  }
  parting p = {.tokenizer = tokenizer, .text = text, .size = text_size, .most = most};
  tsr_source made = {0};
  tsr_status status = prepare(&p, long_input, &made);
  tsr_sized_fill(&made, sizeof made, source, size);
  return status;
}

/* Touches fields of the first version alone: the caller may have no more. */
void tsr_source_finish(tsr_source *source)
{
  for (int32_t i = 0; i < source->n_parts; i++) {
    free(source->ids[i]);
  }
  free(source->ids);
  free(source->n_ids);
  source->n_tokens = 0;
  source->n_parts = 0;
  source->ids = NULL;
  source->n_ids = NULL;
}

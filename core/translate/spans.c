/* SPDX-License-Identifier: Apache-2.0
 *
 * Where in a text its tokens are.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/translate/translate.h"

/* Tokens that are decoded together: each prefix of them once. */
enum { WINDOW = 256, NOWHERE = -1 };

static int is_blank(char c)
{
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Bytes that both begin with: whole characters. */
static size_t common_bytes(const char *a, const char *b)
{
  size_t n = 0;
  while (a[n] && a[n] == b[n]) {
    n++;
  }
  while (n > 0 && ((unsigned char)b[n] & 0xC0) == 0x80) {
    n--;
  }
  return n;
}

/* ends [n]: how far the text of ids reaches with each of them. The text of the first ones is the beginning of the
 * whole, but for blanks before punctuation and characters of several tokens: these end with the token that settles
 * them. */
static tsr_status find_ends(const tsr_tokenizer *tokenizer, int32_t side, const int32_t *ids,
                            const char *const *replaced, int32_t n, const char *text, size_t *ends)
{
  int32_t first = 0;
  size_t base = 0, before = 0;
  for (int32_t i = 0; i < n; i++) {
    char *beginning = NULL;
    TSR_TRY(tsr_tokenizer_decode_replaced(tokenizer, side, ids + first, replaced ? replaced + first : NULL,
                                          i + 1 - first, &beginning));
    while (base > 0 && is_blank(text[base])) {
      base++;
    }
    size_t end = base + common_bytes(beginning, text + base);
    tsr_free(beginning);
    ends[i] = end > before ? end : before;
    if (i + 1 - first >= WINDOW && ends[i] > before) { /* not within a character */
      first = i + 1;
      base = ends[i];
    }
    before = ends[i];
  }
  int32_t last = n - 1;
  while (last > 0 && tsr_token_is_special(tokenizer, side, ids[last])) {
    last--;
  }
  for (int32_t i = last; i >= 0 && i < n; i++) {
    ends[i] = strlen(text);
  }
  return TSR_OK;
}

tsr_status tsr_spans_find(const tsr_tokenizer *tokenizer, int32_t side, const int32_t *ids, const char *const *replaced,
                          int32_t n, const char *text, tsr_text_span *spans)
{
  size_t *ends = malloc(((size_t)n + 1) * sizeof *ends), begin = 0;
  if (!ends) {
    return tsr_fail_memory(((size_t)n + 1) * sizeof *ends);
  }
  tsr_status status = find_ends(tokenizer, side, ids, replaced, n, text, ends);
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    while (begin < ends[i] && is_blank(text[begin])) {
      begin++;
    }
    spans[i] = (tsr_text_span){(int32_t)begin, (int32_t)ends[i]};
    begin = ends[i];
  }
  free(ends);
  return status;
}

/* ---- from the text that a tokenizer made of a text back to that -------------------------------------------------- */

/* A text that is walked through. */
typedef struct reader {
  const char *text;
  size_t size;
  size_t at;
} reader;

/* What a character is compared by: as a tokenizer may have changed it. */
static uint32_t fold(uint32_t c)
{
  enum { WIDE_FIRST = 0xFF01, WIDE_LAST = 0xFF5E, WIDE_OFFSET = 0xFEE0, WIDE_BLANK = 0x3000, NO_BREAK = 0xA0 };
  c = c >= WIDE_FIRST && c <= WIDE_LAST ? c - WIDE_OFFSET : c;
  c = c == WIDE_BLANK || c == NO_BREAK || (c >= '\t' && c <= '\r') ? ' ' : c;
  return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

/* The character where a reader stands, folded, and behind it; 0 at the end. */
static uint32_t next(reader *r)
{
  size_t length = 0;
  if (r->at >= r->size) {
    return 0;
  }
  uint32_t c = tsr_utf8_decode(r->text + r->at, r->size - r->at, &length);
  r->at += length;
  return fold(c);
}

static uint32_t peek(reader r)
{
  return next(&r);
}

/* 1 if the next few characters are the same; where the made text ends, a word of the other one does. */
static int agree(reader made, reader b)
{
  enum { FEW = 3 };
  for (int32_t i = 0; i < FEW; i++) {
    uint32_t x = next(&made), y = next(&b);
    if (x == 0) {
      return y == 0 || y == ' ';
    }
    if (x != y) {
      return 0;
    }
  }
  return 1;
}

/* Moves both to the nearest place from which they agree again; a character further where there is none near. */
static void catch_up(reader *a, reader *b)
{
  enum { NEAR = 24 };
  for (int32_t distance = 1; distance <= NEAR; distance++) {
    reader x = *a;
    for (int32_t i = 0; i <= distance; i++, (void)next(&x)) {
      reader y = *b;
      for (int32_t k = i; k < distance; k++) {
        (void)next(&y);
      }
      if (agree(x, y)) {
        *a = x;
        *b = y;
        return;
      }
    }
  }
  (void)next(a);
  (void)next(b);
}

/* Where each byte of `made` begins and ends in a text from byte *at on, which moves behind the last: begins and ends
 * [size of made]. */
static void match(const char *made, const char *text, size_t size, size_t *at, int32_t *begins, int32_t *ends)
{
  reader a = {.text = made, .size = strlen(made)}, b = {.text = text, .size = size, .at = *at};
  while (a.at < a.size) {
    size_t from = a.at;
    uint32_t x = peek(a), y = peek(b);
    size_t begin = b.at;
    if (x == y) {
      (void)next(&a);
      (void)next(&b);
    } else if (y == ' ') {
      (void)next(&b);
    } else if (x == ' ') {
      (void)next(&a);
    } else {
      catch_up(&a, &b);
    }
    for (size_t i = from; i < a.at; i++) {
      begins[i] = (int32_t)begin;
      ends[i] = (int32_t)b.at;
    }
  }
  *at = b.at;
}

/* Tokens that have no text of their own: an unknown one has what lies between its neighbours, or behind the last one up
 * to the next blank; the others nothing. */
static void place_others(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n, const char *text, size_t size,
                         int32_t first, tsr_text_span *spans)
{
  int32_t unknown = tokenizer->side[TSR_SIDE_SOURCE].special[TSR_UNK], last = first;
  for (int32_t i = 0; i < n; i++) {
    if (spans[i].begin == NOWHERE && ids[i] == unknown) {
      int32_t next = i + 1, begin = last;
      while (next < n && spans[next].begin == NOWHERE) {
        next++;
      }
      int32_t limit = next < n ? spans[next].begin : (int32_t)size;
      while (begin < limit && is_blank(text[begin])) {
        begin++;
      }
      int32_t end = begin;
      while (end < limit && (next < n || !is_blank(text[end]))) {
        end++;
      }
      while (end > begin && is_blank(text[end - 1])) {
        end--;
      }
      spans[i] = (tsr_text_span){begin, end};
    } else { /* of several that one character became, the first has it */
      spans[i].begin = spans[i].begin > last ? spans[i].begin : last;
      spans[i].end = spans[i].end > spans[i].begin ? spans[i].end : spans[i].begin;
    }
    last = spans[i].end;
  }
}

tsr_status tsr_spans_find_source(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n, const char *text,
                                 size_t size, size_t *at, tsr_text_span *spans)
{
  char *made = NULL;
  TSR_TRY(tsr_tokenizer_decode_side(tokenizer, TSR_SIDE_SOURCE, ids, n, &made));
  size_t room = strlen(made) + 1;
  int32_t *begins = malloc(2 * room * sizeof *begins);
  tsr_status status = begins ? tsr_spans_find(tokenizer, TSR_SIDE_SOURCE, ids, NULL, n, made, spans)
                             : tsr_fail_memory(2 * room * sizeof *begins);
  if (status == TSR_OK) {
    int32_t *ends = begins + room;
    int32_t first = (int32_t)*at;
    match(made, text, size, at, begins, ends);
    for (int32_t i = 0; i < n; i++) {
      int32_t is_empty = spans[i].begin == spans[i].end;
      spans[i] = is_empty ? (tsr_text_span){NOWHERE, NOWHERE}
                          : (tsr_text_span){begins[spans[i].begin], ends[spans[i].end - 1]};
    }
    place_others(tokenizer, ids, n, text, size, first, spans);
    *at = n > 0 && (size_t)spans[n - 1].end > *at ? (size_t)spans[n - 1].end : *at;
  }
  free(begins);
  tsr_free(made);
  return status;
}

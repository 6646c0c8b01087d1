/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/text/unknown.h"
#include "tools/tessera/common/message.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char mark[] = "\xE2\x96\x81"; /* U+2581: what SentencePiece puts before a word */
enum { MARK_SIZE = sizeof mark - 1 };

typedef struct span {
  const char *bytes;
  size_t size;
} span;

/* A source: its text, and its tokens as the search read them. */
typedef struct source {
  const char *text; /* NULL: only the tokens are known, for they are a part of it */
  size_t size;
  const int32_t *ids;
  int32_t n_ids;
} source;

/* What a part of a source was translated to. */
typedef struct part {
  const int32_t *ids;
  int32_t n_ids;
  const float *attention; /* [n_ids][n_ids of the source]; NULL: nothing is known of it */
} part;

typedef struct writer {
  char *text;
  size_t size;
  int failed;
} writer;

static void append(writer *w, const char *bytes, size_t size)
{
  char *longer = w->failed ? NULL : realloc(w->text, w->size + size + 1);
  if (!longer) {
    w->failed = 1;
    return;
  }
  memcpy(longer + w->size, bytes, size);
  w->text = longer;
  w->size += size;
  longer[w->size] = '\0';
}

static const char *token_of(const translator *t, int32_t side, int32_t id)
{
  return tsr_tokenizer_token(t->tokenizer, side, id);
}

static int begins_word(const char *token)
{
  return strncmp(token, mark, MARK_SIZE) == 0;
}

static int is_blank(char c)
{
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Word number k, from 0, of a text; *n receives how many there are. */
static span find_word(const char *text, size_t size, int32_t k, int32_t *n)
{
  span word = {0};
  *n = 0;
  for (size_t at = 0; at < size;) {
    size_t begin = at;
    while (at < size && !is_blank(text[at])) {
      at++;
    }
    if (at > begin && (*n)++ == k) {
      word = (span){.bytes = text + begin, .size = at - begin};
    }
    at += at < size;
  }
  return word;
}

/* Without punctuation at its ends, unless it is nothing else. */
static span trim(span word)
{
  span inner = word;
  while (inner.size > 0 && ispunct((unsigned char)inner.bytes[0])) {
    inner.bytes++;
    inner.size--;
  }
  while (inner.size > 0 && ispunct((unsigned char)inner.bytes[inner.size - 1])) {
    inner.size--;
  }
  return inner.size > 0 ? inner : word;
}

/* The word that token `at` of the source is part of, in the source's text; empty where it cannot be told. */
static span word_of(const translator *t, const source *from, int32_t at)
{
  int32_t before = -1, all = 0, n = 0;
  for (int32_t i = 0; i < from->n_ids; i++) {
    int begins = begins_word(token_of(t, 0, from->ids[i]));
    before += begins && i <= at;
    all += begins;
  }
  span word = from->text && before >= 0 ? find_word(from->text, from->size, before, &n) : (span){0};
  return n == all ? trim(word) : (span){0};
}

/* Appends the tokens of the word that token `at` is part of, the unknown ones left out. */
static void append_tokens(const translator *t, const source *from, int32_t at, writer *w)
{
  int32_t begin = at;
  while (begin > 0 && !begins_word(token_of(t, 0, from->ids[begin]))) {
    begin--;
  }
  for (int32_t i = begin; i < from->n_ids && (i <= at || !begins_word(token_of(t, 0, from->ids[i]))); i++) {
    const char *token = token_of(t, 0, from->ids[i]);
    int is_special = from->ids[i] == t->text.unk_id || from->ids[i] == t->text.eos_id;
    if (!is_special) {
      size_t skip = begins_word(token) ? MARK_SIZE : 0;
      append(w, token + skip, strlen(token + skip));
    }
  }
}

static int32_t most_attended(const part *of, const source *from, int32_t token)
{
  const float *row = of->attention + (size_t)token * (size_t)from->n_ids;
  int32_t best = 0;
  for (int32_t i = 1; i < from->n_ids; i++) {
    best = row[i] > row[best] ? i : best;
  }
  return best;
}

/* A blank between what is there and a word that follows; none behind an apostrophe or a hyphen. */
static void part_words(writer *w)
{
  if (w->size > 0 && !strchr(" '-", w->text[w->size - 1])) {
    append(w, " ", 1);
  }
}

/* Known tokens first .. end-1. */
static int append_known(const translator *t, const part *of, int32_t first, int32_t end, writer *w)
{
  char *text = NULL;
  int code = translator_text(t, of->ids + first, end - first, &text);
  if (code == TSR_EXIT_OK && text[0] != '\0') {
    if (begins_word(token_of(t, 1, of->ids[first]))) {
      part_words(w);
    }
    append(w, text, strlen(text));
  }
  tsr_free(text);
  return code;
}

/* Appends the text of a part. */
static int append_part(const translator *t, const source *from, const part *of, writer *all)
{
  writer w = {0};
  span last = {0};
  int code = TSR_EXIT_OK;
  append(&w, "", 0);
  for (int32_t i = 0; i < of->n_ids && code == TSR_EXIT_OK;) {
    int32_t first = i;
    while (i < of->n_ids && (!of->attention || of->ids[i] != t->text.unk_id)) {
      i++;
    }
    if (i > first) {
      code = append_known(t, of, first, i, &w);
      last = (span){0};
    }
    if (i == of->n_ids || code != TSR_EXIT_OK) {
      break;
    }
    int32_t at = most_attended(of, from, i++);
    span word = word_of(t, from, at);
    if (word.size > 0 && word.bytes == last.bytes) {
      continue; /* a word of several unknown tokens */
    }
    part_words(&w);
    if (word.size > 0) {
      append(&w, word.bytes, word.size);
    } else {
      append_tokens(t, from, at, &w);
    }
    last = word;
  }
  append(all, w.text ? w.text : "", w.size);
  all->failed |= w.failed;
  free(w.text);
  return code;
}

int unknown_text(const translator *t, const translation *found, char **text)
{
  const tsr_translation *answer = found->answer;
  const tsr_translation_hypothesis *h = found->hypothesis;
  const tsr_translation_request *request = &t->requests[found->index];
  writer w = {0};
  int code = TSR_EXIT_OK;
  *text = NULL;
  for (int32_t i = 0, id = 0, source_id = 0; i < h->n_parts && code == TSR_EXIT_OK; i++) {
    const source from = {.text = h->n_parts == 1 ? request->text : NULL,
                         .size = request->text_size,
                         .ids = answer->source_ids + source_id,
                         .n_ids = answer->part_ends[i] - source_id};
    const part of = {.ids = h->ids + id, .n_ids = h->part_ends[i] - id, .attention = h->part_attention[i]};
    append(&w, " ", i > 0 ? 1 : 0);
    code = append_part(t, &from, &of, &w);
    id = h->part_ends[i];
    source_id = answer->part_ends[i];
  }
  if (code == TSR_EXIT_OK && w.failed) {
    code = tsr_cli_no_memory();
  }
  if (code != TSR_EXIT_OK) {
    free(w.text);
    return code;
  }
  *text = w.text;
  return TSR_EXIT_OK;
}

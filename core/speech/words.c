/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of tokens.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/text/tokenizer.h"
#include "core/text/whisper.h"

/* Marks that are words of their own, that belong to the word after them, and to the word before. */
static const char marks[] = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
static const char before_words[] = "\"'\xE2\x80\x9C\xC2\xBF([{-";
static const char after_words[] = "\"'.\xE3\x80\x82,\xEF\xBC\x8C!\xEF\xBC\x81?\xEF\xBC\x9F:\xEF\xBC\x9A\xE2\x80\x9D)]}"
                                  "\xE3\x80\x81";

/* The tokens from `first` to before `end`; those from `core` to before `core_end` tell its times and probability. */
typedef struct word {
  int32_t first;
  int32_t end;
  int32_t core;
  int32_t core_end;
} word;

typedef struct grouping {
  const tsr_tokenizer *tokenizer;
  const int32_t *tokens;
  int32_t n_tokens;
  int is_spaced; /* words begin with blanks */
  char *bytes;   /* of all tokens */
  size_t *at;    /* [n_tokens + 1] where a token's bytes begin */
  char *clean;   /* room for all bytes as UTF-8 and a NUL */
  word *words;   /* [n_tokens] */
  int32_t n_words;
  int32_t run; /* the first word of the run of text that is read */
} grouping;

static void finish(grouping *g)
{
  free(g->bytes);
  free(g->at);
  free(g->clean);
  free(g->words);
}

static tsr_status begin(grouping *g)
{
  size_t most = 0;
  for (int32_t i = 0; i < g->n_tokens; i++) {
    most += tsr_whisper_bytes(g->tokenizer, g->tokens[i], NULL);
  }
  const size_t n = (size_t)g->n_tokens + 1;
  g->bytes = malloc(most + 1);
  g->clean = malloc(3 * most + 1);
  g->at = malloc(n * sizeof *g->at);
  g->words = malloc(n * sizeof *g->words);
  if (!g->bytes || !g->clean || !g->at || !g->words) {
    return tsr_fail_memory(4 * most + n * (sizeof *g->at + sizeof *g->words));
  }
  g->at[0] = 0;
  for (int32_t i = 0; i < g->n_tokens; i++) {
    g->at[i + 1] = g->at[i] + tsr_whisper_bytes(g->tokenizer, g->tokens[i], g->bytes + g->at[i]);
  }
  return TSR_OK;
}

/* The text of tokens, valid until the next call; *size may be NULL. */
static const char *text_of(const grouping *g, int32_t first, int32_t end, size_t *size)
{
  const size_t length = tsr_utf8_clean(g->bytes + g->at[first], g->at[end] - g->at[first], g->clean);
  g->clean[length] = '\0';
  if (size) {
    *size = length;
  }
  return g->clean;
}

/* 1 if the text without the white space around it is part of `list`, as an empty one is. */
static int is_listed(const grouping *g, int32_t first, int32_t end, const char *list)
{
  size_t size;
  const char *text = text_of(g, first, end, &size);
  tsr_strip(&text, &size);
  g->clean[text - g->clean + (ptrdiff_t)size] = '\0';
  return strstr(list, text) != NULL;
}

/* Tokens whose characters are whole begin a word, or go on with one. */
static void add_tokens(grouping *g, int32_t first, int32_t end)
{
  const int goes_on =
      g->is_spaced && g->n_words > g->run && text_of(g, first, end, NULL)[0] != ' ' && !is_listed(g, first, end, marks);
  if (goes_on) {
    g->words[g->n_words - 1].end = end;
    g->words[g->n_words - 1].core_end = end;
  } else {
    g->words[g->n_words++] = (word){first, end, first, end};
  }
}

/* Removes the run's words that others have taken. */
static void compact(grouping *g)
{
  int32_t n = g->run;
  for (int32_t i = g->run; i < g->n_words; i++) {
    if (g->words[i].first < g->words[i].end) {
      g->words[n++] = g->words[i];
    }
  }
  g->n_words = n;
}

static void join_marks_before(grouping *g)
{
  int32_t next = g->n_words - 1;
  for (int32_t i = g->n_words - 2; i >= g->run; i--) {
    word *w = &g->words[i];
    if (text_of(g, w->first, w->end, NULL)[0] == ' ' && is_listed(g, w->first, w->end, before_words)) {
      g->words[next].first = w->first;
      w->end = w->first;
    } else {
      next = i;
    }
  }
  compact(g);
}

static void join_marks_after(grouping *g)
{
  int32_t last = g->run;
  for (int32_t i = g->run + 1; i < g->n_words; i++) {
    word *w = &g->words[i];
    size_t size;
    const char *text = text_of(g, g->words[last].first, g->words[last].end, &size);
    const int ends_blank = size > 0 && text[size - 1] == ' ';
    if (!ends_blank && strstr(after_words, text_of(g, w->first, w->end, NULL))) {
      g->words[last].end = w->end;
      w->end = w->first;
    } else {
      last = i;
    }
  }
  compact(g);
}

/* Tokens of text without others between. */
static void add_run(grouping *g, int32_t first, int32_t end)
{
  g->run = g->n_words;
  size_t read = g->at[first]; /* up to here characters are whole */
  int32_t begins = first;
  for (int32_t i = first; i < end; i++) {
    size_t length;
    for (; read < g->at[i + 1]; read += length) {
      tsr_utf8_decode(g->bytes + read, g->at[end] - read, &length);
    }
    if (read == g->at[i + 1] && g->at[i + 1] > g->at[begins]) {
      add_tokens(g, begins, i + 1);
      begins = i + 1;
    }
  }
  join_marks_before(g);
  join_marks_after(g);
}

static void group(grouping *g, int32_t end_of_text)
{
  for (int32_t i = 0; i < g->n_tokens;) {
    int32_t end = i;
    while (end < g->n_tokens && g->tokens[end] < end_of_text) {
      end++;
    }
    if (end > i) {
      add_run(g, i, end);
    }
    i = end + 1;
  }
}

/* One allocation of the words and, behind them, their texts. */
static tsr_status pack(const grouping *g, const double *times, const float *probabilities, tsr_speech_word **words)
{
  const size_t head = (size_t)g->n_words * sizeof **words;
  const size_t room = head + 3 * g->at[g->n_tokens] + (size_t)g->n_words + 1;
  tsr_speech_word *block = malloc(room);
  if (!block) {
    return tsr_fail_memory(room);
  }
  char *texts = (char *)(block + g->n_words);
  for (int32_t i = 0; i < g->n_words; i++) {
    const word *w = &g->words[i];
    double sum = 0.0;
    for (int32_t k = w->core; k < w->core_end; k++) {
      sum += probabilities ? (double)probabilities[k] : 1.0;
    }
    block[i] = (tsr_speech_word){
        .text = texts,
        .start = times[w->core],
        .end = times[w->core_end],
        .probability = sum / (w->core_end - w->core),
        .first = w->first,
        .n_tokens = w->end - w->first,
    };
    texts += tsr_utf8_clean(g->bytes + g->at[w->first], g->at[w->end] - g->at[w->first], texts);
    *texts++ = '\0';
  }
  *words = block;
  return TSR_OK;
}

static int has_spaces(const char *language)
{
  static const char *const without[] = {"zh", "ja", "th", "lo", "my", "yue"};
  for (size_t i = 0; language && i < sizeof without / sizeof without[0]; i++) {
    if (strcmp(language, without[i]) == 0) {
      return 0;
    }
  }
  return 1;
}

tsr_status tsr_speech_words(const tsr_tokenizer *tokenizer, const char *language, const int32_t *tokens,
                            int32_t n_tokens, const double *times, const float *probabilities, tsr_speech_word **words,
                            int32_t *n_words)
{
  const tsr_whisper *whisper = tsr_whisper_of(tokenizer, "tsr_speech_words");
  if (!whisper) {
    return TSR_ERR_ARGUMENT;
  }
  if (!words || !n_words || !times || n_tokens < 0 || (!tokens && n_tokens > 0)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_speech_words: tokens, times, words and n_words must not be NULL, n_tokens not negative");
  }
  *words = NULL;
  *n_words = 0;
  grouping g = {.tokenizer = tokenizer, .tokens = tokens, .n_tokens = n_tokens, .is_spaced = has_spaces(language)};
  tsr_status status = begin(&g);
  if (status == TSR_OK) {
    group(&g, whisper->tokens.end_of_text);
    status = pack(&g, times, probabilities, words);
  }
  if (status == TSR_OK) {
    *n_words = g.n_words;
  }
  finish(&g);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Shortlists from text files.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "tessera/corpus.h"
#include "tessera/shortlist.h"

typedef struct named_token {
  const char *name;
  int32_t id;
} named_token;

typedef struct reader {
  const tsr_tokenizer *tokenizer;
  tsr_text_file *file;
  named_token *tokens[2]; /* of source and target, by name */
  int32_t n_tokens[2];
  tsr_shortlist_entry *entries;
  int64_t n;
  int64_t room;
} reader;

static int compare_tokens(const void *left, const void *right)
{
  const named_token *a = left;
  const named_token *b = right;
  int order = strcmp(a->name, b->name);
  return order != 0 ? order : (a->id > b->id) - (a->id < b->id);
}

static tsr_status list_tokens(reader *r, int32_t side, int32_t vocabulary)
{
  size_t size = ((size_t)vocabulary + 1) * sizeof(named_token);
  r->tokens[side] = malloc(size);
  if (!r->tokens[side]) {
    return tsr_fail_memory(size);
  }
  for (int32_t id = 0; id < vocabulary; id++) {
    const char *name = tsr_tokenizer_token(r->tokenizer, side, id);
    if (name[0] != '\0') {
      r->tokens[side][r->n_tokens[side]++] = (named_token){.name = name, .id = id};
    }
  }
  qsort(r->tokens[side], (size_t)r->n_tokens[side], sizeof(named_token), compare_tokens);
  return TSR_OK;
}

/* The id of a token, or -1. */
static int32_t find_token(const reader *r, int32_t side, const char *name, size_t size)
{
  if (memchr(name, '\0', size)) {
    return -1; /* no token holds one, and a comparison would end there */
  }
  int32_t low = 0;
  int32_t high = r->n_tokens[side];
  while (low < high) {
    int32_t middle = (low + high) / 2;
    const char *other = r->tokens[side][middle].name;
    int order = strncmp(other, name, size);
    if (order == 0 && other[size] == '\0') {
      return r->tokens[side][middle].id;
    }
    if (order < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return -1;
}

static tsr_status add(reader *r, int32_t source, int32_t target, float probability)
{
  if (r->n == r->room) {
    int64_t room = r->room > 0 ? 2 * r->room : 1024;
    tsr_shortlist_entry *entries = realloc(r->entries, (size_t)room * sizeof *entries);
    if (!entries) {
      return tsr_fail_memory((size_t)room * sizeof *entries);
    }
    r->entries = entries;
    r->room = room;
  }
  r->entries[r->n++] = (tsr_shortlist_entry){.source = source, .target = target, .probability = probability};
  return TSR_OK;
}

/* "source<tab>target target ..": the targets' tokens, those that end a sentence left out. */
static tsr_status read_words(reader *r, const char *text, size_t size, size_t tab)
{
  int32_t *source = NULL, *target = NULL;
  int32_t n_source = 0, n_target = 0, first = -1;
  tsr_tokenizer_info info;
  tsr_status status = tsr_tokenizer_get_info(r->tokenizer, &info);
  if (status == TSR_OK) {
    status = tsr_tokenizer_encode(r->tokenizer, text, tab, &source, &n_source);
  }
  /* What is put before a text (a language, say) is before nothing, too. */
  int32_t *nothing = NULL;
  int32_t n_nothing = 0;
  if (status == TSR_OK) {
    status = tsr_tokenizer_encode(r->tokenizer, "", 0, &nothing, &n_nothing);
  }
  for (int32_t i = 0; i < n_source && i < n_nothing && source[i] == nothing[i] && n_source > n_nothing; i++) {
    first = i;
  }
  first++;
  for (size_t at = tab + 1; at < size && status == TSR_OK && n_source > n_nothing;) {
    size_t end = at;
    while (end < size && text[end] != ' ' && text[end] != '\t') {
      end++;
    }
    if (end > at) {
      status = tsr_tokenizer_encode_target(r->tokenizer, text + at, end - at, &target, &n_target);
      for (int32_t i = 0; i < n_target && status == TSR_OK; i++) {
        status = add(r, source[first], target[i], 1.0f);
      }
      tsr_free(target);
      target = NULL;
      n_target = 0;
    }
    at = end + 1;
  }
  tsr_free(source);
  tsr_free(nothing);
  return status;
}

/* "target source probability". */
static tsr_status read_tokens(reader *r, const tsr_corpus_sentence *line)
{
  const char *text[3];
  size_t sizes[3];
  int32_t n = 0;
  for (size_t at = 0; at < line->size; at++) {
    size_t begin = at;
    while (at < line->size && line->text[at] != ' ') {
      at++;
    }
    if (at > begin) {
      if (n < 3) {
        text[n] = line->text + begin;
        sizes[n] = at - begin;
      }
      n++;
    }
  }
  char number[64] = "";
  char *end = number;
  double probability = 0.0;
  if (n == 3 && sizes[2] < sizeof number) {
    memcpy(number, text[2], sizes[2]);
    number[sizes[2]] = '\0';
    probability = strtod(number, &end);
  }
  if (n != 0 && (n != 3 || end == number || *end != '\0' || !isfinite(probability))) {
    return tsr_fail(TSR_ERR_FORMAT,
                    "%s, line %lld: expected \"target source probability\", or a source word, a tab and target words",
                    tsr_text_file_name(r->file), (long long)line->number);
  }
  int32_t target = n == 3 ? find_token(r, 1, text[0], sizes[0]) : -1;
  int32_t source = n == 3 ? find_token(r, 0, text[1], sizes[1]) : -1;
  return target >= 0 && source >= 0 ? add(r, source, target, (float)probability) : TSR_OK;
}

static tsr_status read_all(reader *r, const char *path, const tsr_tokenizer_info *info)
{
  TSR_TRY(list_tokens(r, 0, info->source_vocabulary));
  TSR_TRY(list_tokens(r, 1, info->target_vocabulary));
  TSR_TRY(tsr_text_file_open(path, TSR_TEXT_SOURCE, &r->file));
  for (int32_t end = 0; !end;) {
    tsr_corpus_sentence line;
    TSR_TRY(tsr_text_file_next(r->file, &line, &end));
    if (end) {
      break;
    }
    const char *tab = memchr(line.text, '\t', line.size);
    TSR_TRY(tab ? read_words(r, line.text, line.size, (size_t)(tab - line.text)) : read_tokens(r, &line));
  }
  if (r->n == 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: no line has tokens of the model's vocabularies", path);
  }
  return TSR_OK;
}

tsr_status tsr_shortlist_open(const char *path, const tsr_tokenizer *tokenizer, int32_t first, int32_t best,
                              tsr_shortlist **shortlist)
{
  if (!path || !tokenizer || !shortlist) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_shortlist_open: path, tokenizer and shortlist must not be NULL");
  }
  *shortlist = NULL;
  reader r = {.tokenizer = tokenizer};
  tsr_tokenizer_info info;
  TSR_TRY(tsr_tokenizer_get_info(tokenizer, &info));
  tsr_status status = read_all(&r, path, &info);
  if (status == TSR_OK) {
    status =
        tsr_shortlist_create(info.source_vocabulary, info.target_vocabulary, r.entries, r.n, first, best, shortlist);
  }
  tsr_text_file_close(r.file);
  free(r.tokens[0]);
  free(r.tokens[1]);
  free(r.entries);
  return status;
}

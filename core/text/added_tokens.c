/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

void tsr_added_tokens_finish(tsr_added_tokens *tokens)
{
  tsr_arena_finish(&tokens->arena);
  free(tokens->list);
  free(tokens->places);
  *tokens = (tsr_added_tokens){0};
}

/* The place of a text, or the free one where it belongs. There is room. */
static size_t *place_of(const tsr_added_tokens *tokens, const char *text)
{
  uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
  for (const char *c = text; *c; c++) {
    hash = (hash ^ (unsigned char)*c) * 0x100000001B3u;
  }
  size_t at = (size_t)(hash ^ hash >> 32) & (tokens->places_room - 1);
  while (tokens->places[at] > 0 && strcmp(tokens->list[tokens->places[at] - 1].text, text) != 0) {
    at = (at + 1) & (tokens->places_room - 1);
  }
  return &tokens->places[at];
}

/* Finds the places of the list's tokens anew. */
static void place_all(tsr_added_tokens *tokens)
{
  memset(tokens->places, 0, tokens->places_room * sizeof *tokens->places);
  for (size_t i = 0; i < tokens->count; i++) {
    *place_of(tokens, tokens->list[i].text) = i + 1;
  }
}

static tsr_added_token *find(const tsr_added_tokens *tokens, const char *text)
{
  const size_t place = tokens->count > 0 ? *place_of(tokens, text) : 0;
  return place > 0 ? &tokens->list[place - 1] : NULL;
}

const tsr_added_token *tsr_added_tokens_find(const tsr_added_tokens *tokens, const char *text)
{
  return find(tokens, text);
}

/* Room for one more token. */
static tsr_status reserve(tsr_added_tokens *tokens)
{
  if (tokens->count < tokens->room) {
    return TSR_OK;
  }
  const size_t room = tokens->room ? 2 * tokens->room : 16;
  tsr_added_token *list = realloc(tokens->list, room * sizeof *list);
  if (!list) {
    return tsr_fail_memory(room * sizeof *list);
  }
  tokens->list = list;
  size_t *places = malloc(2 * room * sizeof *places);
  if (!places) {
    return tsr_fail_memory(2 * room * sizeof *places);
  }
  free(tokens->places);
  tokens->places = places;
  tokens->places_room = 2 * room;
  tokens->room = room;
  place_all(tokens);
  return TSR_OK;
}

tsr_status tsr_added_tokens_add(tsr_added_tokens *tokens, const char *text, int32_t id, uint32_t flags)
{
  if (!text[0]) {
    return TSR_OK;
  }
  tsr_added_token *there = find(tokens, text);
  if (there) {
    there->flags |= flags & TSR_ADDED_SPECIAL; /* one who calls it special is enough */
    return TSR_OK;
  }
  TSR_TRY(reserve(tokens));
  const char *copy = tsr_arena_text(&tokens->arena, text);
  if (!copy) {
    return tsr_fail_memory(strlen(text) + 1);
  }
  tokens->list[tokens->count++] = (tsr_added_token){copy, strlen(text), id, flags};
  *place_of(tokens, copy) = tokens->count;
  return TSR_OK;
}

static int first_byte(const tsr_added_token *token)
{
  return (unsigned char)token->text[0];
}

static int compare(const void *a, const void *b)
{
  const tsr_added_token *x = a;
  const tsr_added_token *y = b;
  int order = first_byte(x) - first_byte(y);
  if (order == 0) {
    order = (x->size < y->size) - (x->size > y->size);
  }
  return order ? order : strcmp(x->text, y->text);
}

void tsr_added_tokens_sort(tsr_added_tokens *tokens)
{
  if (tokens->count > 0) {
    qsort(tokens->list, tokens->count, sizeof *tokens->list, compare);
    place_all(tokens);
  }
  size_t at = 0;
  for (int byte = 0; byte <= 256; byte++) {
    while (at < tokens->count && first_byte(&tokens->list[at]) < byte) {
      at++;
    }
    tokens->first[byte] = at;
  }
}

/* A token that stands for a word wants a blank, or nothing, on both sides. */
static int is_word(const char *text, size_t size, size_t at, size_t length)
{
  return (at == 0 || text[at - 1] == ' ') && (at + length == size || text[at + length] == ' ');
}

/* Of the tokens from `begin` on, before `end`, which are as long as the first of them: one past the last. */
static size_t end_of_length(const tsr_added_tokens *tokens, size_t begin, size_t end)
{
  const size_t length = tokens->list[begin].size;
  size_t low = begin + 1;
  while (low < end) {
    const size_t middle = low + (end - low) / 2;
    if (tokens->list[middle].size == length) {
      low = middle + 1;
    } else {
      end = middle;
    }
  }
  return low;
}

/* Of equally long tokens begin .. end-1, the one that stands at `at`, which has room for it; NULL: none does. */
static const tsr_added_token *find_equal(const tsr_added_tokens *tokens, size_t begin, size_t end, const char *at)
{
  while (begin < end) {
    const size_t middle = begin + (end - begin) / 2;
    const tsr_added_token *token = &tokens->list[middle];
    const int order = memcmp(at, token->text, token->size);
    if (order == 0) {
      return token;
    }
    if (order < 0) {
      end = middle;
    } else {
      begin = middle + 1;
    }
  }
  return NULL;
}

/* One look for each length, as there may be very many tokens. */
const tsr_added_token *tsr_added_tokens_match(const tsr_added_tokens *tokens, const char *text, size_t size, size_t at)
{
  const unsigned char byte = (unsigned char)text[at];
  const size_t last = tokens->first[byte + 1];
  for (size_t i = tokens->first[byte], end; i < last; i = end) {
    end = end_of_length(tokens, i, last);
    const tsr_added_token *token = tokens->list[i].size <= size - at ? find_equal(tokens, i, end, text + at) : NULL;
    if (token && (!(token->flags & TSR_ADDED_WORD) || is_word(text, size, at, token->size))) {
      return token;
    }
  }
  return NULL;
}

int tsr_added_tokens_is_special(const tsr_added_tokens *tokens, int32_t id)
{
  for (size_t i = 0; i < tokens->count; i++) {
    if (tokens->list[i].id == id && tokens->list[i].flags & TSR_ADDED_SPECIAL) {
      return 1;
    }
  }
  return 0;
}

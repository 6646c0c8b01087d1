/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/added_tokens.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

void tsr_added_tokens_finish(tsr_added_tokens *tokens)
{
  tsr_arena_finish(&tokens->arena);
  free(tokens->list);
  *tokens = (tsr_added_tokens){0};
}

const tsr_added_token *tsr_added_tokens_find(const tsr_added_tokens *tokens, const char *text)
{
  for (size_t i = 0; i < tokens->count; i++) {
    if (strcmp(tokens->list[i].text, text) == 0) {
      return &tokens->list[i];
    }
  }
  return NULL;
}

tsr_status tsr_added_tokens_add(tsr_added_tokens *tokens, const char *text, int32_t id, uint32_t flags)
{
  if (!text[0]) {
    return TSR_OK;
  }
  for (size_t i = 0; i < tokens->count; i++) {
    if (strcmp(tokens->list[i].text, text) == 0) {
      tokens->list[i].flags |= flags & TSR_ADDED_SPECIAL; /* one who calls it special is enough */
      return TSR_OK;
    }
  }
  if (tokens->count == tokens->room) {
    size_t room = tokens->room ? 2 * tokens->room : 16;
    tsr_added_token *list = realloc(tokens->list, room * sizeof *list);
    if (!list) {
      return tsr_fail_memory(room * sizeof *list);
    }
    tokens->list = list;
    tokens->room = room;
  }
  const char *copy = tsr_arena_text(&tokens->arena, text);
  if (!copy) {
    return tsr_fail_memory(strlen(text) + 1);
  }
  tokens->list[tokens->count++] = (tsr_added_token){copy, strlen(text), id, flags};
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

const tsr_added_token *tsr_added_tokens_match(const tsr_added_tokens *tokens, const char *text, size_t size, size_t at)
{
  unsigned char byte = (unsigned char)text[at];
  for (size_t i = tokens->first[byte]; i < tokens->first[byte + 1]; i++) {
    const tsr_added_token *token = &tokens->list[i];
    if (token->size <= size - at && memcmp(token->text, text + at, token->size) == 0 &&
        (!(token->flags & TSR_ADDED_WORD) || is_word(text, size, at, token->size))) {
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

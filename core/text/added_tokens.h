/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens that are recognised in a text before it is cut into pieces: </s>, <mask>, languages' tokens, those that
 * somebody added to a finished vocabulary.
 */
#ifndef TESSERA_CORE_ADDED_TOKENS_H
#define TESSERA_CORE_ADDED_TOKENS_H

#include <stddef.h>

#include "core/base/arena.h"
#include "tessera/status.h"

enum {
  TSR_ADDED_SPECIAL = 1, /* left out of decoded text */
  TSR_ADDED_LSTRIP = 2,  /* takes the white space before it */
  TSR_ADDED_RSTRIP = 4,  /* and after it */
  TSR_ADDED_WORD = 8     /* stands between blanks only */
};

typedef struct tsr_added_token {
  const char *text;
  size_t size;
  int32_t id;
  uint32_t flags; /* TSR_ADDED_* */
} tsr_added_token;

/* Zero it. */
typedef struct tsr_added_tokens {
  tsr_arena arena;
  tsr_added_token *list; /* after sorting: by first byte, the longest first */
  size_t count;
  size_t room;
  size_t first[257];  /* where each first byte's tokens begin */
  size_t *places;     /* [places_room] a token's place in the list and 1, at its text's hash or behind it; 0: free */
  size_t places_room; /* a power of two, at most half of it used */
} tsr_added_tokens;

void tsr_added_tokens_finish(tsr_added_tokens *tokens);

/* Adds a token; one of the same text that is there already stays as it is. The text is copied. */
tsr_status tsr_added_tokens_add(tsr_added_tokens *tokens, const char *text, int32_t id, uint32_t flags) TSR_MUST_CHECK;

/* To be called when all are there, before the next function. */
void tsr_added_tokens_sort(tsr_added_tokens *tokens);

/* The longest token that the text at `at` begins with, or NULL. */
const tsr_added_token *tsr_added_tokens_match(const tsr_added_tokens *tokens, const char *text, size_t size, size_t at);

/* The token of that text, or NULL. */
const tsr_added_token *tsr_added_tokens_find(const tsr_added_tokens *tokens, const char *text);

/* 1 if the id belongs to a special token. */
int tsr_added_tokens_is_special(const tsr_added_tokens *tokens, int32_t id);

#endif

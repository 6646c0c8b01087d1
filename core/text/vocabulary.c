/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"

typedef struct entry {
  const char *token; /* NULL: the place is free */
  size_t size;
  int32_t id;
} entry;

struct tsr_vocabulary {
  char *name;
  int32_t limit;       /* ids are below it; TSR_VOCABULARY_WHOLE: none */
  int32_t size;        /* one more than the highest id, or limit */
  tsr_arena arena;     /* the tokens */
  const char **tokens; /* [tokens_room] by id; NULL where an id has none */
  size_t tokens_room;
  entry *entries; /* [room] a token lies at its hash, or at the next free place behind it */
  size_t room;    /* a power of two, at most half of it used */
  size_t used;
};

/* The place of a token, or the free one where it belongs. */
static entry *place_of(const tsr_vocabulary *vocabulary, const char *token, size_t size)
{
  uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
  for (size_t i = 0; i < size; i++) {
    hash = (hash ^ (unsigned char)token[i]) * 0x100000001B3u;
  }
  size_t at = (size_t)(hash ^ hash >> 32) & (vocabulary->room - 1);
  for (;; at = (at + 1) & (vocabulary->room - 1)) {
    entry *found = &vocabulary->entries[at];
    if (!found->token || (found->size == size && memcmp(found->token, token, size) == 0)) {
      return found;
    }
  }
}

static tsr_status grow_entries(tsr_vocabulary *vocabulary)
{
  entry *old = vocabulary->entries;
  size_t old_room = vocabulary->room;
  vocabulary->room = old_room ? 2 * old_room : 64;
  vocabulary->entries = calloc(vocabulary->room, sizeof *vocabulary->entries);
  if (!vocabulary->entries) {
    vocabulary->entries = old;
    vocabulary->room = old_room;
    return tsr_fail_memory(2 * old_room * sizeof *old);
  }
  for (size_t i = 0; i < old_room; i++) {
    if (old[i].token) {
      *place_of(vocabulary, old[i].token, old[i].size) = old[i];
    }
  }
  free(old);
  return TSR_OK;
}

/* Room for the id in the list of tokens, whose length follows. */
static tsr_status cover_id(tsr_vocabulary *vocabulary, int32_t id)
{
  size_t wanted = (size_t)id + 1;
  if (wanted > vocabulary->tokens_room) {
    size_t room = wanted < 64 ? 64 : wanted + wanted / 2;
    const char **tokens = realloc(vocabulary->tokens, room * sizeof *tokens);
    if (!tokens) {
      return tsr_fail_memory(room * sizeof *tokens);
    }
    memset(tokens + vocabulary->tokens_room, 0, (room - vocabulary->tokens_room) * sizeof *tokens);
    vocabulary->tokens = tokens;
    vocabulary->tokens_room = room;
  }
  if (id >= vocabulary->size) {
    vocabulary->size = id + 1;
  }
  return TSR_OK;
}

tsr_status tsr_vocabulary_begin(const char *name, int32_t size, tsr_vocabulary **vocabulary)
{
  *vocabulary = NULL;
  tsr_vocabulary *made = calloc(1, sizeof *made);
  if (!made) {
    return tsr_fail_memory(sizeof *made);
  }
  made->limit = size;
  made->size = size == TSR_VOCABULARY_WHOLE ? 0 : size;
  made->name = strdup(name);
  tsr_status status = made->name ? grow_entries(made) : tsr_fail_memory(strlen(name) + 1);
  if (status != TSR_OK) {
    tsr_vocabulary_close(made);
    return status;
  }
  *vocabulary = made;
  return TSR_OK;
}

/* An id that is free, and room for it. */
static tsr_status take_id(tsr_vocabulary *vocabulary, const char *token, int64_t id)
{
  enum { MOST_IDS = 1 << 24 }; /* more than any model has */
  if (id < 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: token %s: expected an id of at least 0, found %lld", vocabulary->name,
                    tsr_quote(token).text, (long long)id);
  }
  if (id >= (vocabulary->limit == TSR_VOCABULARY_WHOLE ? MOST_IDS : vocabulary->limit)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: token %s: the id %lld is beyond the model's vocabulary of %d tokens",
                    vocabulary->name, tsr_quote(token).text, (long long)id,
                    (int)(vocabulary->limit == TSR_VOCABULARY_WHOLE ? MOST_IDS : vocabulary->limit));
  }
  const char *other = tsr_vocabulary_token(vocabulary, (int32_t)id);
  if (other) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tokens %s and %s have the same id %d", vocabulary->name, tsr_quote(other).text,
                    tsr_quote(token).text, (int)id);
  }
  return cover_id(vocabulary, (int32_t)id);
}

tsr_status tsr_vocabulary_repeat(tsr_vocabulary *vocabulary, const char *token, int64_t id)
{
  TSR_TRY(take_id(vocabulary, token, id));
  vocabulary->tokens[id] = place_of(vocabulary, token, strlen(token))->token;
  return TSR_OK;
}

tsr_status tsr_vocabulary_add(tsr_vocabulary *vocabulary, const char *token, int64_t id)
{
  if (2 * (vocabulary->used + 1) > vocabulary->room) {
    TSR_TRY(grow_entries(vocabulary));
  }
  TSR_TRY(take_id(vocabulary, token, id));
  size_t size = strlen(token);
  entry *place = place_of(vocabulary, token, size);
  if (place->token) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: token %s has two ids: %d and %lld", vocabulary->name, tsr_quote(token).text,
                    (int)place->id, (long long)id);
  }
  const char *copy = tsr_arena_text(&vocabulary->arena, token);
  if (!copy) {
    return tsr_fail_memory(size + 1);
  }
  *place = (entry){copy, size, (int32_t)id};
  vocabulary->used++;
  vocabulary->tokens[id] = copy;
  return TSR_OK;
}

tsr_status tsr_vocabulary_add_object(tsr_vocabulary *vocabulary, const json_t *object)
{
  if (!json_is_object(object)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: expected an object from tokens to ids, found %s", vocabulary->name,
                    tsr_json_show(object).text);
  }
  const char *token;
  json_t *value;
  json_object_foreach((json_t *)object, token, value)
  {
    if (!json_is_integer(value)) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: token %s: expected an id of at least 0, found %s", vocabulary->name,
                      tsr_quote(token).text, tsr_json_show(value).text);
    }
    TSR_TRY(tsr_vocabulary_add(vocabulary, token, json_integer_value(value)));
  }
  return TSR_OK;
}

static tsr_status read_object(const char *name, const json_t *root, int32_t size, tsr_vocabulary **vocabulary)
{
  size_t count = json_object_size(root);
  if (size == TSR_VOCABULARY_WHOLE && count > INT32_MAX) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %zu tokens are too many for a vocabulary", name, count);
  }
  tsr_vocabulary *made;
  TSR_TRY(tsr_vocabulary_begin(name, size == TSR_VOCABULARY_WHOLE ? (int32_t)count : size, &made));
  tsr_status status = tsr_vocabulary_add_object(made, root);
  if (status != TSR_OK) {
    tsr_vocabulary_close(made);
    return status;
  }
  *vocabulary = made;
  return TSR_OK;
}

tsr_status tsr_vocabulary_parse(const char *name, const void *text, size_t text_size, int32_t size,
                                tsr_vocabulary **vocabulary)
{
  *vocabulary = NULL;
  json_t *root;
  TSR_TRY(tsr_json_parse(name, text, text_size, &root));
  tsr_status status = read_object(name, root, size, vocabulary);
  json_decref(root);
  return status;
}

tsr_status tsr_vocabulary_open(const char *path, int32_t size, tsr_vocabulary **vocabulary)
{
  *vocabulary = NULL;
  tsr_file file;
  TSR_TRY(tsr_file_read(path, &file));
  tsr_status status = tsr_vocabulary_parse(path, file.bytes, file.size, size, vocabulary);
  tsr_file_free(&file);
  return status;
}

void tsr_vocabulary_close(tsr_vocabulary *vocabulary)
{
  if (!vocabulary) {
    return;
  }
  tsr_arena_finish(&vocabulary->arena);
  free(vocabulary->tokens);
  free(vocabulary->entries);
  free(vocabulary->name);
  free(vocabulary);
}

int32_t tsr_vocabulary_find(const tsr_vocabulary *vocabulary, const char *token, size_t size)
{
  const entry *found = place_of(vocabulary, token, size);
  return found->token ? found->id : -1;
}

tsr_status tsr_vocabulary_require(const tsr_vocabulary *vocabulary, const char *token, int32_t *id)
{
  *id = tsr_vocabulary_find(vocabulary, token, strlen(token));
  if (*id < 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: token %s is missing", vocabulary->name, tsr_quote(token).text);
  }
  return TSR_OK;
}

const char *tsr_vocabulary_token(const tsr_vocabulary *vocabulary, int32_t id)
{
  return id >= 0 && (size_t)id < vocabulary->tokens_room ? vocabulary->tokens[id] : NULL;
}

int32_t tsr_vocabulary_size(const tsr_vocabulary *vocabulary)
{
  return vocabulary->size;
}

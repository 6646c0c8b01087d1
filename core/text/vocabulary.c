/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/vocabulary.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

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
  int32_t size;
  json_t *root;        /* its keys are the tokens */
  const char **tokens; /* by id; NULL where an id has none */
  entry *entries;      /* [room] a token lies at its hash, or at the next free place behind it */
  size_t room;         /* a power of two, at most half of it used */
};

/* The place of a token, or the free one where it belongs. */
static entry *place_of(const tsr_vocabulary *vocabulary, const char *token, size_t size)
{
  uint64_t hash = 0xCBF29CE484222325u; /* FNV-1a */
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ (unsigned char)token[i]) * 0x100000001B3u;
  size_t at = (size_t)(hash ^ hash >> 32) & (vocabulary->room - 1);
  for (;; at = (at + 1) & (vocabulary->room - 1)) {
    entry *found = &vocabulary->entries[at];
    if (!found->token || (found->size == size && memcmp(found->token, token, size) == 0))
      return found;
  }
}

static tsr_status add(tsr_vocabulary *vocabulary, const char *token, const json_t *value)
{
  json_int_t id = json_integer_value(value);
  if (!json_is_integer(value) || id < 0)
    return tsr_fail(TSR_ERR_FORMAT, "%s: token %s: expected an id of at least 0, found %s", vocabulary->name,
                    tsr_quote(token).text, tsr_json_show(value).text);
  if (id >= vocabulary->size)
    return tsr_fail(TSR_ERR_FORMAT, "%s: token %s: the id %lld is beyond the model's vocabulary of %d tokens",
                    vocabulary->name, tsr_quote(token).text, (long long)id, (int)vocabulary->size);
  if (vocabulary->tokens[id])
    return tsr_fail(TSR_ERR_FORMAT, "%s: tokens %s and %s have the same id %d", vocabulary->name,
                    tsr_quote(vocabulary->tokens[id]).text, tsr_quote(token).text, (int)id);
  vocabulary->tokens[id] = token;
  size_t size = strlen(token);
  *place_of(vocabulary, token, size) = (entry){token, size, (int32_t)id};
  return TSR_OK;
}

static tsr_status fill(tsr_vocabulary *vocabulary, const char *name, const void *text, size_t text_size)
{
  TSR_TRY(tsr_json_parse(name, text, text_size, &vocabulary->root));
  size_t count = json_object_size(vocabulary->root);
  if (vocabulary->size == TSR_VOCABULARY_WHOLE) {
    if (count > INT32_MAX)
      return tsr_fail(TSR_ERR_FORMAT, "%s: %zu tokens are too many for a vocabulary", name, count);
    vocabulary->size = (int32_t)count;
  }
  vocabulary->name = strdup(name);
  vocabulary->tokens = calloc((size_t)vocabulary->size + 1, sizeof *vocabulary->tokens);
  vocabulary->room = 2;
  while (vocabulary->room < 2 * count)
    vocabulary->room *= 2;
  vocabulary->entries = calloc(vocabulary->room, sizeof *vocabulary->entries);
  if (!vocabulary->name || !vocabulary->tokens || !vocabulary->entries)
    return tsr_fail_memory(((size_t)vocabulary->size + 1) * sizeof *vocabulary->tokens +
                           vocabulary->room * sizeof *vocabulary->entries);
  const char *token;
  json_t *value;
  json_object_foreach(vocabulary->root, token, value)
  {
    TSR_TRY(add(vocabulary, token, value));
  }
  return TSR_OK;
}

tsr_status tsr_vocabulary_parse(const char *name, const void *text, size_t text_size, int32_t size,
                                tsr_vocabulary **vocabulary)
{
  *vocabulary = NULL;
  tsr_vocabulary *made = calloc(1, sizeof *made);
  if (!made)
    return tsr_fail_memory(sizeof *made);
  made->size = size;
  tsr_status status = fill(made, name, text, text_size);
  if (status != TSR_OK) {
    tsr_vocabulary_close(made);
    return status;
  }
  *vocabulary = made;
  return TSR_OK;
}

tsr_status tsr_vocabulary_open(const char *path, int32_t size, tsr_vocabulary **vocabulary)
{
  *vocabulary = NULL;
  tsr_file file;
  TSR_TRY(tsr_file_map(path, &file));
  tsr_status status = tsr_vocabulary_parse(path, file.bytes, file.size, size, vocabulary);
  tsr_file_unmap(&file);
  return status;
}

void tsr_vocabulary_close(tsr_vocabulary *vocabulary)
{
  if (!vocabulary)
    return;
  json_decref(vocabulary->root);
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
  if (*id < 0)
    return tsr_fail(TSR_ERR_FORMAT, "%s: token %s is missing", vocabulary->name, tsr_quote(token).text);
  return TSR_OK;
}

const char *tsr_vocabulary_token(const tsr_vocabulary *vocabulary, int32_t id)
{
  return id >= 0 && id < vocabulary->size ? vocabulary->tokens[id] : NULL;
}

int32_t tsr_vocabulary_size(const tsr_vocabulary *vocabulary)
{
  return vocabulary->size;
}

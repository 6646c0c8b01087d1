/* SPDX-License-Identifier: Apache-2.0
 *
 * What the kinds of tokenizers read a folder with.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"
#include "core/text/kinds.h"
#include "core/text/sentencepiece.h"

tsr_status tsr_files_has(const tsr_tokenizer_files *files, const char *name, int *has)
{
  char *path = tsr_path_join(files->folder, name);
  if (!path) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  *has = tsr_path_exists(path);
  free(path);
  return TSR_OK;
}

tsr_status tsr_files_json(const tsr_tokenizer_files *files, const char *name, json_t **root)
{
  int has;
  TSR_TRY(tsr_files_has(files, name, &has));
  if (!has) {
    return TSR_OK;
  }
  char *path = tsr_path_join(files->folder, name);
  if (!path) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  tsr_file file = {0};
  tsr_status status = tsr_file_read(path, &file);
  if (status == TSR_OK) {
    status = tsr_json_parse_large(path, file.bytes, file.size, root);
  }
  tsr_file_free(&file);
  free(path);
  return status;
}

tsr_status tsr_files_fast(tsr_tokenizer_files *files)
{
  return files->fast ? TSR_OK : tsr_files_json(files, "tokenizer.json", &files->fast);
}

tsr_status tsr_files_vocabulary(const tsr_tokenizer_files *files, const char *name, tsr_vocabulary **vocabulary)
{
  const tsr_transformer_config *config = files->config;
  int32_t size = TSR_VOCABULARY_WHOLE;
  if (config) { /* one vocabulary for two tables: the larger one bounds its ids */
    size =
        config->source_vocabulary > config->target_vocabulary ? config->source_vocabulary : config->target_vocabulary;
  }
  char *path = tsr_path_join(files->folder, name);
  tsr_status status = path ? tsr_vocabulary_begin(path, size, vocabulary) : TSR_ERR_OUT_OF_MEMORY;
  free(path);
  return status;
}

tsr_status tsr_files_add_vocabulary(const tsr_tokenizer_files *files, const char *name, tsr_vocabulary *vocabulary,
                                    int32_t *size)
{
  json_t *root = NULL;
  tsr_status status = tsr_files_json(files, name, &root);
  if (status == TSR_OK && !root) {
    status = tsr_fail(TSR_ERR_IO, "%s: has no %s", files->folder, name);
  }
  if (status == TSR_OK) {
    status = tsr_vocabulary_add_object(vocabulary, root);
  }
  *size = (int32_t)json_object_size(root);
  json_decref(root);
  return status;
}

/* The two messages one behind the other: what the second says is then merged into the first. */
static tsr_status parse_merged(const char *path, const tsr_file *file, const void *extra, size_t extra_size,
                               tsr_segmenter *segmenter)
{
  if (extra_size == 0) {
    return tsr_sentencepiece_segmenter(path, file->bytes, file->size, segmenter);
  }
  unsigned char *bytes = malloc(file->size + extra_size);
  if (!bytes) {
    return tsr_fail_memory(file->size + extra_size);
  }
  memcpy(bytes, file->bytes, file->size);
  memcpy(bytes + file->size, extra, extra_size);
  tsr_status status = tsr_sentencepiece_segmenter(path, bytes, file->size + extra_size, segmenter);
  free(bytes);
  return status;
}

tsr_status tsr_files_sentencepiece(const tsr_tokenizer_files *files, const char *name, const void *extra,
                                   size_t extra_size, tsr_segmenter *segmenter)
{
  char *path = tsr_path_join(files->folder, name);
  if (!path) {
    return TSR_ERR_OUT_OF_MEMORY;
  }
  tsr_file file = {0};
  tsr_status status = tsr_file_read(path, &file);
  if (status == TSR_OK) {
    status = parse_merged(path, &file, extra, extra_size, segmenter);
  }
  tsr_file_free(&file);
  free(path);
  return status;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Added tokens
 */
/* An id, from the number that JSON has for it or from a key of digits. */
static tsr_status check_id(const char *path, const char *token, const json_t *value, int64_t *id)
{
  *id = json_integer_value(value);
  if (json_is_integer(value) && *id >= 0 && *id <= INT32_MAX) {
    return TSR_OK;
  }
  return tsr_fail(TSR_ERR_FORMAT, "%s: added token %s: expected an id of at least 0, found %s", path,
                  tsr_quote(token).text, tsr_json_show(value).text);
}

static uint32_t read_flags(const json_t *token)
{
  static const struct {
    const char *key;
    uint32_t flag;
  } keys[] = {
      {"special", TSR_ADDED_SPECIAL},
      {"lstrip", TSR_ADDED_LSTRIP},
      {"rstrip", TSR_ADDED_RSTRIP},
      {"single_word", TSR_ADDED_WORD},
  };
  uint32_t flags = 0;
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    flags |= json_is_true(json_object_get(token, keys[i].key)) ? keys[i].flag : 0;
  }
  return flags;
}

/* A token that the vocabulary has keeps the id that it has there. */
static tsr_status add_token(tsr_vocabulary *vocabulary, tsr_added_tokens *added, const char *text, int64_t id,
                            uint32_t flags)
{
  int32_t known = tsr_vocabulary_find(vocabulary, text, strlen(text));
  if (known < 0) {
    TSR_TRY(tsr_vocabulary_add(vocabulary, text, id));
    known = (int32_t)id;
  }
  return tsr_added_tokens_add(added, text, known, flags);
}

/* {"7": {"content": "<mask>", "lstrip": true, ...}, ...} */
static tsr_status add_by_id(const char *path, const json_t *object, tsr_vocabulary *vocabulary, tsr_added_tokens *added)
{
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value)
  {
    const char *text = json_string_value(json_object_get(value, "content"));
    char *end;
    long id = strtol(key, &end, 10);
    if (!text || *end || end == key || id < 0 || id > INT32_MAX) {
      return tsr_fail(TSR_ERR_FORMAT,
                      "%s: key \"added_tokens_decoder\": expected ids and tokens with a text \"content\", found %s: %s",
                      path, tsr_quote(key).text, tsr_json_show(value).text);
    }
    TSR_TRY(add_token(vocabulary, added, text, id, read_flags(value)));
  }
  return TSR_OK;
}

/* [{"id": 7, "content": "<mask>", "lstrip": true, ...}, ...] */
static tsr_status add_list(const char *path, const json_t *list, tsr_vocabulary *vocabulary, tsr_added_tokens *added)
{
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *value = json_array_get(list, i);
    const char *text = json_string_value(json_object_get(value, "content"));
    int64_t id;
    if (!text) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: key \"added_tokens\": expected tokens with a text \"content\", found %s",
                      path, tsr_json_show(value).text);
    }
    TSR_TRY(check_id(path, text, json_object_get(value, "id"), &id));
    TSR_TRY(add_token(vocabulary, added, text, id, read_flags(value)));
  }
  return TSR_OK;
}

/* {"<mask>": 7, ...} */
static tsr_status add_by_text(const tsr_tokenizer_files *files, const char *name, const json_t *object,
                              tsr_vocabulary *vocabulary, tsr_added_tokens *added)
{
  const char *text;
  json_t *value;
  json_object_foreach((json_t *)object, text, value)
  {
    int64_t id;
    TSR_TRY(check_id(name, text, value, &id));
    TSR_TRY(add_token(vocabulary, added, text, id, tsr_files_is_special(files, text) ? TSR_ADDED_SPECIAL : 0));
  }
  return TSR_OK;
}

static tsr_status add_from_text(const tsr_tokenizer_files *files, tsr_vocabulary *vocabulary, tsr_added_tokens *added)
{
  static const char name[] = "added_tokens.json";
  json_t *root = NULL;
  tsr_status status = tsr_files_json(files, name, &root);
  if (status == TSR_OK && root) {
    status = add_by_text(files, name, root, vocabulary, added);
  }
  json_decref(root);
  return status;
}

tsr_status tsr_files_added_tokens(tsr_tokenizer_files *files, tsr_vocabulary *vocabulary, tsr_added_tokens *added)
{
  const json_t *by_id = json_object_get(files->options.root, "added_tokens_decoder");
  if (json_is_object(by_id)) {
    return add_by_id(files->options.path, by_id, vocabulary, added);
  }
  TSR_TRY(add_from_text(files, vocabulary, added));
  TSR_TRY(tsr_files_fast(files));
  return files->fast ? add_list("tokenizer.json", json_object_get(files->fast, "added_tokens"), vocabulary, added)
                     : TSR_OK;
}

/* The text of a token: a text, or an object that has it as its content. */
static const char *text_of(const json_t *token)
{
  return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* The additional special tokens of tokenizer_config.json and special_tokens_map.json, as transformers 4 and 5 call
 * them; an object of the second name is something else. NULL: there are none. */
enum { N_LISTS = 4 };
static const json_t *additional_tokens(const tsr_tokenizer_files *files, int list)
{
  static const char *const keys[] = {"additional_special_tokens", "extra_special_tokens"};
  return json_object_get(list < 2 ? files->options.root : files->specials, keys[list % 2]);
}

tsr_status tsr_files_list_additional(tsr_tokenizer_files *files)
{
  for (int list = 0; list < N_LISTS; list++) {
    const json_t *tokens = additional_tokens(files, list);
    for (size_t i = 0; i < json_array_size(tokens); i++) {
      const char *text = text_of(json_array_get(tokens, i));
      if (text) {
        TSR_TRY(tsr_added_tokens_add(&files->additional, text, 0, 0));
      }
    }
  }
  return TSR_OK;
}

int tsr_files_is_special(const tsr_tokenizer_files *files, const char *token)
{
  return tsr_added_tokens_find(&files->additional, token) != NULL;
}

static tsr_status add_additional(const tsr_tokenizer_files *files, tsr_tokenizer_side *side)
{
  for (int list = 0; list < N_LISTS; list++) {
    const json_t *tokens = additional_tokens(files, list);
    for (size_t i = 0; i < json_array_size(tokens); i++) {
      const char *text = text_of(json_array_get(tokens, i));
      int32_t id = text ? tsr_vocabulary_find(side->vocabulary, text, strlen(text)) : -1;
      if (id >= 0) {
        TSR_TRY(tsr_added_tokens_add(side->added, text, id, TSR_ADDED_SPECIAL));
      }
    }
  }
  return TSR_OK;
}

tsr_status tsr_files_special(const tsr_tokenizer_files *files, const char *key, int empty_is_silent, const char **text)
{
  const json_t *roots[] = {files->options.root, files->specials};
  for (size_t r = 0; r < sizeof roots / sizeof roots[0]; r++) {
    const json_t *value = json_object_get(roots[r], key);
    const char *found = text_of(value);
    if (!value || json_is_null(value) || (empty_is_silent && found && !found[0])) {
      continue;
    }
    *text = found;
    if (!found || !found[0]) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: key \"%s\": expected a text, found %s",
                      r == 0 ? files->options.path : "special_tokens_map.json", key, tsr_json_show(value).text);
    }
    return TSR_OK;
  }
  return TSR_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Parts of a tokenizer
 */
tsr_status tsr_added_tokens_create(tsr_added_tokens **added)
{
  *added = calloc(1, sizeof **added);
  return *added ? TSR_OK : tsr_fail_memory(sizeof **added);
}

void tsr_tokenizer_share_sides(tsr_tokenizer *tokenizer)
{
  tokenizer->side[TSR_SIDE_TARGET] = tokenizer->side[TSR_SIDE_SOURCE];
}

static tsr_status find_side(const tsr_tokenizer_files *files, tsr_tokenizer *tokenizer, tsr_tokenizer_side *side)
{
  for (int32_t i = 0; i < TSR_SPECIALS; i++) {
    const char *text = tokenizer->special[i];
    side->special[i] = text ? tsr_vocabulary_find(side->vocabulary, text, strlen(text)) : -1;
    if (side->special[i] < 0 && (i == TSR_EOS || i == TSR_UNK)) {
      TSR_TRY(tsr_vocabulary_require(side->vocabulary, text, &side->special[i]));
    }
    if (side->special[i] >= 0) {
      TSR_TRY(tsr_added_tokens_add(
          side->added, text, side->special[i],
          TSR_ADDED_SPECIAL | (i == TSR_MASK && tokenizer->kind->mask_strips ? (uint32_t)TSR_ADDED_LSTRIP : 0)));
    }
  }
  TSR_TRY(add_additional(files, side));
  tsr_added_tokens_sort(side->added);
  if (side->special[TSR_EOS] >= 0) {
    side->frame = (tsr_frame){.after = {side->special[TSR_EOS]}, .n_after = 1};
  }
  return TSR_OK;
}

tsr_status tsr_tokenizer_find_specials(const tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  for (int32_t side = 0; side < TSR_SIDES; side++) {
    TSR_TRY(find_side(files, tokenizer, &tokenizer->side[side]));
  }
  return TSR_OK;
}

tsr_status tsr_side_segmenters(tsr_status status, tsr_side_files *files, tsr_tokenizer *tokenizer)
{
  const tsr_file *source = &files->file[TSR_SIDE_SOURCE];
  const int are_there = source->bytes && files->file[TSR_SIDE_TARGET].bytes;
  for (int32_t side = 0; side < TSR_SIDES && are_there; side++) {
    const tsr_file *file = &files->file[side];
    tsr_segmenter *segmenter = &tokenizer->side[side].segmenter;
    if (status != TSR_OK) {
      continue;
    }
    if (side > 0 && file->size == source->size && memcmp(file->bytes, source->bytes, source->size) == 0) {
      *segmenter = tokenizer->side[TSR_SIDE_SOURCE].segmenter;
    } else {
      status = tsr_sentencepiece_segmenter(files->path[side], file->bytes, file->size, segmenter);
    }
  }
  for (int32_t side = 0; side < TSR_SIDES; side++) {
    tsr_file_free(&files->file[side]);
    free(files->path[side]);
  }
  return status;
}

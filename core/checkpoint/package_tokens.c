/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokens of a folder of CTranslate2: the vocabularies, which are a JSON array or a token a line, and the tokens that
 * mean something to the runtime.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/bytes.h"
#include "core/checkpoint/ctranslate2.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/package.h"

/* ---- tokens with a meaning --------------------------------------------------------------------------------------- */

static tsr_status copy(const char *text, char **to)
{
  free(*to);
  *to = text ? strdup(text) : NULL;
  return *to || !text ? TSR_OK : tsr_fail_memory(strlen(text) + 1);
}

static tsr_status read_config(tsr_config *file, tsr_package_tokens *tokens)
{
  const char *unk = "<unk>", *bos = "<s>", *eos = "</s>";
  const json_t *start = json_object_get(file->root, "decoder_start_token");
  const char *decoder_start = NULL;
  tsr_config_text(file, "unk_token", &unk);
  tsr_config_text(file, "bos_token", &bos);
  tsr_config_text(file, "eos_token", &eos);
  decoder_start = start ? NULL : bos;
  tsr_config_text(file, "decoder_start_token", &decoder_start);
  tsr_config_bool(file, "add_source_bos", &tokens->add_source_bos);
  tsr_config_bool(file, "add_source_eos", &tokens->add_source_eos);
  tsr_config_float(file, "layer_norm_epsilon", 1e-12, 1.0, &tokens->epsilon);
  TSR_TRY(tsr_config_status(file));
  TSR_TRY(copy(unk, &tokens->unk));
  TSR_TRY(copy(bos, &tokens->bos));
  TSR_TRY(copy(eos, &tokens->eos));
  return copy(decoder_start, &tokens->decoder_start);
}

/* A text that a variable holds as its bytes; `otherwise` where there is no such variable. */
static tsr_status read_text(const tsr_checkpoint *checkpoint, const char *name, const char *otherwise, char **to)
{
  enum { LONGEST = 1024 };
  const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(checkpoint, name);
  if (!tensor) {
    return copy(otherwise, to);
  }
  if (tensor->dtype != TSR_I8 || tensor->size > LONGEST) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: tensor %s: expected the bytes of a token", tensor->path, tsr_quote(name).text);
  }
  char text[LONGEST + 1] = "";
  TSR_TRY(tsr_checkpoint_copy(tensor, 0, tensor->size, text));
  return copy(text, to);
}

static tsr_status read_flag(const tsr_checkpoint *checkpoint, const char *name, int32_t *flag)
{
  const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(checkpoint, name);
  int8_t value = 0;
  if (tensor && tensor->size == 1) {
    TSR_TRY(tsr_checkpoint_copy(tensor, 0, 1, &value));
    *flag = value != 0;
  }
  return TSR_OK;
}

/* As models had it before config.json. */
static tsr_status read_variables(const tsr_checkpoint *checkpoint, tsr_package_tokens *tokens)
{
  int32_t has_bos = 1, by_user = 0;
  TSR_TRY(read_text(checkpoint, "unk_token", "<unk>", &tokens->unk));
  TSR_TRY(read_text(checkpoint, "bos_token", "<s>", &tokens->bos));
  TSR_TRY(read_text(checkpoint, "eos_token", "</s>", &tokens->eos));
  TSR_TRY(read_flag(checkpoint, "with_source_bos", &tokens->add_source_bos));
  TSR_TRY(read_flag(checkpoint, "with_source_eos", &tokens->add_source_eos));
  TSR_TRY(read_flag(checkpoint, "with_target_bos", &has_bos));
  TSR_TRY(read_flag(checkpoint, "user_decoder_start_tokens", &by_user));
  return copy(by_user ? NULL : has_bos ? tokens->bos : tokens->eos, &tokens->decoder_start);
}

static tsr_status read_either(tsr_config *file, const tsr_checkpoint *checkpoint, tsr_package_tokens *tokens)
{
  const char *version = checkpoint ? tsr_checkpoint_metadata(checkpoint, TSR_CTRANSLATE2_VERSION) : NULL;
  const int is_old = version && strtol(version, NULL, 10) < 6;
  if (!file->root && !is_old) {
    return tsr_fail(TSR_ERR_IO, "%s: its folder has no config.json, which a model of the binary version %s needs",
                    tsr_checkpoint_path(checkpoint), version ? version : "6");
  }
  return !is_old ? read_config(file, tokens) : read_variables(checkpoint, tokens);
}

tsr_status tsr_package_read_tokens(const tsr_package *package, const tsr_checkpoint *checkpoint,
                                   tsr_package_tokens *tokens)
{
  tsr_config file;
  tsr_checkpoint *own = NULL;
  *tokens = (tsr_package_tokens){0};
  TSR_TRY(tsr_package_config(package, TSR_PACKAGE_MODEL, "config.json", &file));
  tsr_status status = TSR_OK;
  /* The weights of a zip file are not inflated a second time for a version that config.json tells by being there. */
  if (!checkpoint && (!file.root || !tsr_package_is_zip(package))) {
    status = tsr_package_checkpoint(package, &own);
  }
  if (status == TSR_OK) {
    status = read_either(&file, checkpoint ? checkpoint : own, tokens);
  }
  tsr_checkpoint_close(own);
  tsr_config_finish(&file);
  return status;
}

void tsr_package_tokens_finish(tsr_package_tokens *tokens)
{
  free(tokens->unk);
  free(tokens->bos);
  free(tokens->eos);
  free(tokens->decoder_start);
  *tokens = (tsr_package_tokens){0};
}

/* ---- vocabularies ------------------------------------------------------------------------------------------------ */

/* Room for n tokens, and the unknown one. */
static tsr_status reserve(tsr_package_vocabulary *vocabulary, size_t n)
{
  enum { MOST = 1 << 24 };
  if (n > MOST) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %zu tokens; expected at most %d", vocabulary->path, n, (int)MOST);
  }
  vocabulary->tokens = tsr_arena_take(&vocabulary->arena, (n + 1) * sizeof *vocabulary->tokens);
  return vocabulary->tokens ? TSR_OK : tsr_fail_memory((n + 1) * sizeof *vocabulary->tokens);
}

static tsr_status add(tsr_package_vocabulary *vocabulary, const char *token, size_t size)
{
  char *kept = tsr_arena_take(&vocabulary->arena, size + 1);
  if (!kept) {
    return tsr_fail_memory(size + 1);
  }
  memcpy(kept, token, size);
  vocabulary->tokens[vocabulary->n++] = kept;
  return TSR_OK;
}

static tsr_status add_array(const json_t *array, tsr_package_vocabulary *vocabulary)
{
  TSR_TRY(reserve(vocabulary, json_array_size(array)));
  for (size_t i = 0; i < json_array_size(array); i++) {
    const json_t *token = json_array_get(array, i);
    if (!json_is_string(token)) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: element %zu: expected a token as a text, found %s", vocabulary->path, i,
                      tsr_json_show(token).text);
    }
    TSR_TRY(add(vocabulary, json_string_value(token), json_string_length(token)));
  }
  return TSR_OK;
}

static tsr_status parse_json(const tsr_file *file, tsr_package_vocabulary *vocabulary)
{
  json_error_t error;
  json_t *root = json_loadb(file->bytes, file->size, 0, &error);
  if (!root) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: line %d, column %d: %s", vocabulary->path, error.line, error.column,
                    tsr_quote(error.text).text);
  }
  tsr_status status = json_is_array(root) ? add_array(root, vocabulary)
                                          : tsr_fail(TSR_ERR_FORMAT, "%s: expected a list of tokens", vocabulary->path);
  json_decref(root);
  return status;
}

/* A carriage return is part of a token, unless it ends every line. */
static tsr_status parse_lines(const tsr_file *file, tsr_package_vocabulary *vocabulary)
{
  const char *text = file->bytes;
  size_t n = 0, n_returns = 0;
  for (size_t at = 0; at < file->size; n++) {
    const char *end = memchr(text + at, '\n', file->size - at);
    const size_t length = end ? (size_t)(end - text) - at : file->size - at;
    n_returns += length > 0 && text[at + length - 1] == '\r';
    if (memchr(text + at, 0, length)) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: line %zu: a token with a zero in it", vocabulary->path, n + 1);
    }
    at += length + 1;
  }
  TSR_TRY(reserve(vocabulary, n));
  for (size_t at = 0; at < file->size;) {
    const char *end = memchr(text + at, '\n', file->size - at);
    const size_t length = end ? (size_t)(end - text) - at : file->size - at;
    TSR_TRY(add(vocabulary, text + at, length - (n_returns == n)));
    at += length + 1;
  }
  return TSR_OK;
}

/* *found: 1 if the package has a file of that name. */
static tsr_status read_file(const tsr_package *package, const char *name, const char *suffix,
                            tsr_package_vocabulary *vocabulary, int *found)
{
  char full[64];
  tsr_file file;
  snprintf(full, sizeof full, "%s_vocabulary%s", name, suffix);
  free(vocabulary->path);
  vocabulary->path = NULL;
  tsr_status status = tsr_package_read(package, TSR_PACKAGE_MODEL, full, &vocabulary->path, &file);
  *found = file.bytes != NULL;
  if (status == TSR_OK && *found && file.size == 0) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: the file is empty; expected a list of tokens", vocabulary->path);
  }
  if (status == TSR_OK && *found) {
    status = strcmp(suffix, ".json") == 0 ? parse_json(&file, vocabulary) : parse_lines(&file, vocabulary);
  }
  tsr_file_free(&file);
  return status;
}

tsr_status tsr_package_read_vocabulary(const tsr_package *package, int32_t side, const char *unk,
                                       tsr_package_vocabulary *vocabulary)
{
  static const char *const suffixes[] = {".json", ".txt"};
  const char *names[] = {side == 0 ? "source" : "target", "shared"};
  int found = 0;
  *vocabulary = (tsr_package_vocabulary){0};
  for (int i = 0; i < 4 && !found; i++) {
    vocabulary->is_shared = i / 2;
    TSR_TRY(read_file(package, names[i / 2], suffixes[i % 2], vocabulary, &found));
  }
  if (!found) {
    const int stem = (int)(strlen(vocabulary->path) - strlen(suffixes[1]));
    return tsr_fail(TSR_ERR_IO,
                    "%.*s.json: the vocabulary is missing: expected this file or %s_vocabulary.json, or one of them "
                    "as .txt",
                    stem, vocabulary->path, names[0]);
  }
  if (tsr_package_vocabulary_find(vocabulary, unk) < 0) {
    TSR_TRY(add(vocabulary, unk, strlen(unk)));
  }
  return TSR_OK;
}

void tsr_package_vocabulary_finish(tsr_package_vocabulary *vocabulary)
{
  free(vocabulary->path);
  tsr_arena_finish(&vocabulary->arena);
  *vocabulary = (tsr_package_vocabulary){0};
}

int32_t tsr_package_vocabulary_find(const tsr_package_vocabulary *vocabulary, const char *token)
{
  for (int32_t i = 0; i < vocabulary->n; i++) {
    if (strcmp(vocabulary->tokens[i], token) == 0) {
      return i;
    }
  }
  return -1;
}

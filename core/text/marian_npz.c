/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer of Marian-NMT's own folders, whose decoder.yml names a vocabulary for each side: YAML from tokens to
 * ids, a SentencePiece model (.spm) whose pieces are numbered as they come, or one token a line. Where source.spm and
 * target.spm lie beside a vocabulary that is none itself (OPUS-MT), they cut and join texts; else texts come cut, and
 * blanks separate the tokens, as with marian-decoder itself.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/decoder_yml.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/yaml.h"
#include "core/text/kinds.h"
#include "core/text/sentencepiece.h"

/* ------------------------------------------------------------------------------------------------------------------
 * Tokens between blanks
 */
static tsr_status split(const void *state, const char *text, size_t size, tsr_piece_fn receive, void *user)
{
  (void)state;
  for (size_t at = 0; at < size;) {
    const char *blank = memchr(text + at, ' ', size - at);
    size_t length = blank ? (size_t)(blank - text) - at : size - at;
    if (length > 0) {
      TSR_TRY(receive(user, text + at, length));
    }
    at += length + 1;
  }
  return TSR_OK;
}

static tsr_status join(const void *state, const char *const *pieces, size_t n_pieces, char **text)
{
  (void)state;
  size_t room = 1;
  for (size_t i = 0; i < n_pieces; i++) {
    room += strlen(pieces[i]) + 1;
  }
  char *to = malloc(room);
  *text = to;
  if (!to) {
    return tsr_fail_memory(room);
  }
  for (size_t i = 0; i < n_pieces; i++) {
    size_t size = strlen(pieces[i]);
    if (i > 0) {
      *to++ = ' ';
    }
    memcpy(to, pieces[i], size);
    to += size;
  }
  *to = '\0';
  return TSR_OK;
}

static void close_nothing(void *state)
{
  (void)state;
}

static const tsr_segmenter_methods blanks = {split, join, close_nothing};

/* ------------------------------------------------------------------------------------------------------------------
 * Vocabularies
 */
static int has_suffix(const char *path, const char *suffix)
{
  size_t size = strlen(path);
  size_t lead = strlen(suffix);
  return size >= lead && strcmp(path + size - lead, suffix) == 0;
}

static tsr_status add_yaml(const char *path, tsr_vocabulary *vocabulary)
{
  tsr_config file;
  TSR_TRY(tsr_yaml_open(path, &file));
  tsr_status status = tsr_vocabulary_add_object(vocabulary, file.root);
  tsr_config_finish(&file);
  return status;
}

static tsr_status add_pieces(const char *path, const tsr_file *file, tsr_vocabulary *vocabulary)
{
  tsr_sentencepiece *model = NULL;
  TSR_TRY(tsr_sentencepiece_parse(path, file->bytes, file->size, &model));
  tsr_status status = TSR_OK;
  for (int32_t id = 0; id < tsr_sentencepiece_count(model) && status == TSR_OK; id++) {
    status = tsr_vocabulary_add(vocabulary, tsr_sentencepiece_piece(model, id), id);
  }
  tsr_sentencepiece_close(model);
  return status;
}

static tsr_status add_lines(const char *path, const tsr_file *file, tsr_vocabulary *vocabulary)
{
  const char *at = file->bytes;
  const char *end = at + file->size;
  for (int64_t id = 0; at < end; id++) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    size_t size = (size_t)((stop ? stop : end) - at);
    if (memchr(at, '\0', size)) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: line %lld holds a NUL", path, (long long)id + 1);
    }
    char *token = strndup(at, size);
    if (!token) {
      return tsr_fail_memory(size + 1);
    }
    if (size > 0 && token[size - 1] == '\r') {
      token[size - 1] = '\0';
    }
    tsr_status status = tsr_vocabulary_add(vocabulary, token, id);
    free(token);
    TSR_TRY(status);
    at += size + 1;
  }
  return TSR_OK;
}

static tsr_status read_vocabulary(const char *path, const tsr_file *file, tsr_tokenizer_side *side)
{
  if (!has_suffix(path, ".spm")) {
    return add_lines(path, file, side->vocabulary);
  }
  TSR_TRY(add_pieces(path, file, side->vocabulary));
  return tsr_sentencepiece_segmenter(path, file->bytes, file->size, &side->segmenter);
}

static tsr_status open_side(const char *path, int32_t limit, tsr_tokenizer_side *side)
{
  TSR_TRY(tsr_vocabulary_begin(path, limit, &side->vocabulary));
  if (has_suffix(path, ".yml") || has_suffix(path, ".yaml") || has_suffix(path, ".json")) {
    return add_yaml(path, side->vocabulary);
  }
  tsr_file file;
  TSR_TRY(tsr_file_read(path, &file));
  tsr_status status = read_vocabulary(path, &file, side);
  tsr_file_free(&file);
  return status;
}

/* Fills both sides, of which two may be one. */
static tsr_status open_sides(const tsr_tokenizer_files *files, const tsr_config *settings, tsr_tokenizer *tokenizer)
{
  char *paths[TSR_SIDES] = {NULL};
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < TSR_SIDES && status == TSR_OK; i++) {
    status = tsr_marian_npz_file(files->folder, settings, "vocabs", i, &paths[i]);
  }
  int is_joint = status == TSR_OK && strcmp(paths[0], paths[1]) == 0;
  for (int32_t i = 0; i < TSR_SIDES && status == TSR_OK; i++) {
    const tsr_transformer_config *config = files->config;
    int32_t limit = !config ? TSR_VOCABULARY_WHOLE : i == 0 ? config->source_vocabulary : config->target_vocabulary;
    if (i > 0 && is_joint) {
      tokenizer->side[i].vocabulary = tokenizer->side[0].vocabulary;
      tokenizer->side[i].segmenter = tokenizer->side[0].segmenter;
    } else {
      status = open_side(paths[i], limit, &tokenizer->side[i]);
    }
  }
  free(paths[0]);
  free(paths[1]);
  return status;
}

/* What cuts texts where no vocabulary does. */
static tsr_status open_segmenters(const tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  static const char *const names[TSR_SIDES] = {"source.spm", "target.spm"};
  for (int32_t i = 0; i < TSR_SIDES; i++) {
    tsr_segmenter *segmenter = &tokenizer->side[i].segmenter;
    int has = 0;
    if (segmenter->methods) {
      continue;
    }
    TSR_TRY(tsr_files_has(files, names[i], &has));
    if (has) {
      TSR_TRY(tsr_files_sentencepiece(files, names[i], NULL, 0, segmenter));
    } else {
      *segmenter = (tsr_segmenter){&blanks, NULL};
      tokenizer->keep_blanks = i == TSR_SIDE_TARGET ? 1 : tokenizer->keep_blanks;
    }
  }
  return TSR_OK;
}

/* Old vocabularies spell the end and the unknown in another way. */
static tsr_status find_older(tsr_tokenizer *tokenizer, int32_t special, const char *older)
{
  const tsr_vocabulary *vocabulary = tokenizer->side[TSR_SIDE_TARGET].vocabulary;
  const char *text = tokenizer->special[special];
  if (tsr_vocabulary_find(vocabulary, text, strlen(text)) >= 0 ||
      tsr_vocabulary_find(vocabulary, older, strlen(older)) < 0) {
    return TSR_OK;
  }
  tokenizer->special[special] = tsr_arena_text(&tokenizer->arena, older);
  return tokenizer->special[special] ? TSR_OK : tsr_fail_memory(strlen(older) + 1);
}

tsr_status tsr_marian_npz_tokenizer(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                                    tsr_tokenizer *tokenizer)
{
  (void)kind;
  tsr_config settings;
  TSR_TRY(tsr_marian_npz_settings(files->folder, &settings));
  tsr_status status = open_sides(files, &settings, tokenizer);
  tsr_config_finish(&settings);
  TSR_TRY(status);
  TSR_TRY(open_segmenters(files, tokenizer));
  for (int32_t side = 0; side < TSR_SIDES; side++) {
    TSR_TRY(tsr_added_tokens_create(&tokenizer->side[side].added));
  }
  TSR_TRY(find_older(tokenizer, TSR_EOS, "eos"));
  TSR_TRY(find_older(tokenizer, TSR_UNK, "UNK"));
  return tsr_tokenizer_find_specials(files, tokenizer);
}

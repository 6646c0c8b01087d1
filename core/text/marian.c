/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer of Marian folders: SentencePiece cuts a text into pieces, and the vocabulary, not SentencePiece,
 * numbers them. Results equal those of Hugging Face's MarianTokenizer.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"
#include "core/text/kinds.h"
#include "core/text/sentencepiece.h"

/* ------------------------------------------------------------------------------------------------------------------
 * Opening
 */
static tsr_status read_pieces(const char *folder, const char *name, char **path, tsr_file *file)
{
  *path = tsr_path_join(folder, name);
  return *path ? tsr_file_read(*path, file) : TSR_ERR_OUT_OF_MEMORY;
}

static tsr_status open_pieces(const char *folder, tsr_tokenizer *tokenizer)
{
  static const char *const names[TSR_SIDES] = {"source.spm", "target.spm"};
  tsr_side_files files = {{NULL}};
  tsr_status status = TSR_OK;
  for (int32_t side = 0; side < TSR_SIDES && status == TSR_OK; side++) {
    status = read_pieces(folder, names[side], &files.path[side], &files.file[side]);
  }
  return tsr_side_segmenters(status, &files, tokenizer);
}

static tsr_status open_vocabulary(const char *folder, const char *name, int32_t size, tsr_vocabulary **vocabulary)
{
  char *path = tsr_path_join(folder, name);
  tsr_status status = path ? tsr_vocabulary_open(path, size, vocabulary) : TSR_ERR_OUT_OF_MEMORY;
  free(path);
  return status;
}

static tsr_status open_vocabularies(tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  const tsr_transformer_config *config = files->config;
  tsr_tokenizer_side *source = &tokenizer->side[TSR_SIDE_SOURCE];
  tsr_tokenizer_side *target = &tokenizer->side[TSR_SIDE_TARGET];
  int32_t separate = 0;
  tsr_config_bool(&files->options, "separate_vocabs", &separate);
  TSR_TRY(tsr_config_status(&files->options));
  int32_t source_size = config ? config->source_vocabulary : TSR_VOCABULARY_WHOLE;
  int32_t target_size = config ? config->target_vocabulary : TSR_VOCABULARY_WHOLE;
  if (separate) {
    TSR_TRY(open_vocabulary(files->folder, "vocab.json", source_size, &source->vocabulary));
    TSR_TRY(open_vocabulary(files->folder, "target_vocab.json", target_size, &target->vocabulary));
  } else {
    /* One vocabulary for two tables: the larger one bounds its ids. */
    TSR_TRY(open_vocabulary(files->folder, "vocab.json", source_size > target_size ? source_size : target_size,
                            &source->vocabulary));
    target->vocabulary = source->vocabulary;
  }
  return TSR_OK;
}

/* Multilingual models have a token such as ">>fra<<" for each target language, which a source text begins with. */
tsr_status tsr_marian_open_languages(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                                     tsr_tokenizer *tokenizer)
{
  (void)kind;
  (void)files;
  const tsr_vocabulary *vocabulary = tokenizer->side[TSR_SIDE_SOURCE].vocabulary;
  for (int32_t id = 0; id < tsr_vocabulary_size(vocabulary); id++) {
    const char *token = tsr_vocabulary_token(vocabulary, id);
    size_t size = token ? strlen(token) : 0;
    if (size < 5 || strncmp(token, ">>", 2) != 0 || strcmp(token + size - 2, "<<") != 0) {
      continue;
    }
    char *code = tsr_arena_text(&tokenizer->arena, token + 2);
    if (!code) {
      return tsr_fail_memory(size);
    }
    code[size - 4] = '\0';
    TSR_TRY(tsr_tokenizer_add_language(tokenizer, code, token, id));
    tokenizer->place = TSR_LANGUAGE_SOURCE;
  }
  return TSR_OK;
}

tsr_status tsr_marian_open(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  (void)kind;
  TSR_TRY(open_pieces(files->folder, tokenizer));
  TSR_TRY(open_vocabularies(files, tokenizer));
  for (int32_t i = 0; i < TSR_SIDES; i++) {
    tsr_tokenizer_side *side = &tokenizer->side[i];
    TSR_TRY(tsr_added_tokens_create(&side->added));
    /* Their ids are numbers of the source's vocabulary. */
    if (side->vocabulary == tokenizer->side[TSR_SIDE_SOURCE].vocabulary) {
      TSR_TRY(tsr_files_added_tokens(files, side->vocabulary, side->added));
    }
  }
  return tsr_tokenizer_find_specials(files, tokenizer);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Encoding
 */
/* The first and the last place of a pair of equal characters in a line; `size` if there is none. */
static size_t first_pair(const char *line, size_t size, char character)
{
  for (size_t i = 0; i + 1 < size; i++) {
    if (line[i] == character && line[i + 1] == character) {
      return i;
    }
  }
  return size;
}

static size_t last_pair(const char *line, size_t size, char character)
{
  for (size_t i = size; i >= 2; i--) {
    if (line[i - 1] == character && line[i - 2] == character) {
      return i - 2;
    }
  }
  return size;
}

/* Multilingual models take the target language from a prefix such as ">>fra<<". What the original looks for is the
 * greedy expression ">>.+<<", which matches at most once in a line: from the first ">>" to the last "<<". One at the
 * start of the text is looked up as a single token; all of them are removed from what SentencePiece gets. */
tsr_status tsr_marian_encode_plain(tsr_encoding *to, const char *text, size_t size, int32_t where)
{
  (void)where;
  char *rest = malloc(size + 1);
  if (!rest) {
    return tsr_fail_memory(size + 1);
  }
  size_t rest_size = 0;
  tsr_status status = TSR_OK;
  for (size_t at = 0; at < size && status == TSR_OK;) {
    const char *line = text + at;
    const char *newline = memchr(line, '\n', size - at);
    size_t line_size = newline ? (size_t)(newline - line) : size - at;
    size_t whole_size = newline ? line_size + 1 : line_size;
    size_t begin = first_pair(line, line_size, '>');
    size_t end = last_pair(line, line_size, '<');
    if (end < line_size && begin + 2 < end) {
      end += 2;
      if (at + begin == 0) {
        status = tsr_encoding_append_token(to, line, end);
      }
    } else {
      begin = end = 0;
    }
    memcpy(rest + rest_size, line, begin);
    memcpy(rest + rest_size + begin, line + end, whole_size - end);
    rest_size += begin + whole_size - end;
    at += whole_size;
  }
  const tsr_segmenter *segmenter = &to->tokenizer->side[to->side].segmenter;
  if (status == TSR_OK && rest_size > 0) {
    status = segmenter->methods->encode(segmenter->state, rest, rest_size, tsr_encoding_append_token, to);
  }
  free(rest);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/marian.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"
#include "core/text/sentencepiece.h"
#include "core/text/vocabulary.h"

enum { SPECIAL_EOS = 0, SPECIAL_UNK = 1, SPECIAL_PAD = 2, N_SPECIAL = 3 };
static const char *const special_keys[N_SPECIAL] = {"eos_token", "unk_token", "pad_token"};
static const char *const special_defaults[N_SPECIAL] = {"</s>", "<unk>", "<pad>"};

/* SentencePiece keeps several numbers per byte. */
enum { MAX_TEXT = 1 << 28 };

struct tsr_tokenizer {
  char *special[N_SPECIAL]; /* as the vocabularies spell them */
  struct {
    tsr_sentencepiece *pieces;  /* both sides may have the same */
    tsr_vocabulary *vocabulary; /* both sides may have the same */
    int32_t special[N_SPECIAL]; /* ids; -1: none (only <pad> may lack) */
  } side[TSR_SIDES];
};

/* ------------------------------------------------------------------------------------------------------------------
 * Opening
 */
/* A special token is a text, or an object with the text as "content". */
static tsr_status read_special(const tsr_config *config, int kind, char **token)
{
  const char *text = special_defaults[kind];
  if (tsr_config_has(config, special_keys[kind])) {
    const json_t *value = json_object_get(config->root, special_keys[kind]);
    text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
    if (!text || !text[0])
      return tsr_fail(TSR_ERR_FORMAT, "%s: key \"%s\": expected a text, found %s", config->path, special_keys[kind],
                      tsr_json_show(value).text);
  }
  *token = strdup(text);
  return *token ? TSR_OK : tsr_fail_memory(strlen(text) + 1);
}

static tsr_status read_options(tsr_config *config, tsr_tokenizer *tokenizer, int32_t *separate)
{
  for (int kind = 0; kind < N_SPECIAL; kind++)
    TSR_TRY(read_special(config, kind, &tokenizer->special[kind]));
  tsr_config_bool(config, "separate_vocabs", separate);
  return tsr_config_status(config);
}

/* tokenizer_config.json may be missing: then all is as usual. */
static tsr_status open_options(const char *folder, tsr_tokenizer *tokenizer, int32_t *separate)
{
  static const char usual[] = "{}";
  char *path = tsr_path_join(folder, "tokenizer_config.json");
  if (!path)
    return TSR_ERR_OUT_OF_MEMORY;
  tsr_config config;
  tsr_status status =
      tsr_path_exists(path) ? tsr_config_open(path, &config) : tsr_config_parse(path, usual, sizeof usual - 1, &config);
  free(path);
  if (status != TSR_OK)
    return status;
  status = read_options(&config, tokenizer, separate);
  tsr_config_finish(&config);
  return status;
}

static tsr_status map_pieces(const char *folder, const char *name, char **path, tsr_file *file)
{
  *path = tsr_path_join(folder, name);
  return *path ? tsr_file_map(*path, file) : TSR_ERR_OUT_OF_MEMORY;
}

/* Both sides, which share one model if their files are equal: it takes longer to open than all else together. */
static tsr_status open_pieces(const char *folder, tsr_tokenizer *tokenizer)
{
  static const char *const names[TSR_SIDES] = {"source.spm", "target.spm"};
  char *paths[TSR_SIDES] = {NULL};
  tsr_file files[TSR_SIDES] = {{0}};
  tsr_status status = TSR_OK;
  for (int32_t side = 0; side < TSR_SIDES && status == TSR_OK; side++)
    status = map_pieces(folder, names[side], &paths[side], &files[side]);
  for (int32_t side = 0; side < TSR_SIDES && status == TSR_OK; side++) {
    if (side > 0 && files[side].size == files[0].size && memcmp(files[side].bytes, files[0].bytes, files[0].size) == 0)
      tokenizer->side[side].pieces = tokenizer->side[0].pieces;
    else
      status = tsr_sentencepiece_parse(paths[side], files[side].bytes, files[side].size, &tokenizer->side[side].pieces);
  }
  for (int32_t side = 0; side < TSR_SIDES; side++) {
    tsr_file_unmap(&files[side]);
    free(paths[side]);
  }
  return status;
}

static tsr_status open_vocabulary(const char *folder, const char *name, int32_t size, tsr_vocabulary **vocabulary)
{
  char *path = tsr_path_join(folder, name);
  tsr_status status = path ? tsr_vocabulary_open(path, size, vocabulary) : TSR_ERR_OUT_OF_MEMORY;
  free(path);
  return status;
}

static tsr_status find_special(tsr_tokenizer *tokenizer, int32_t side)
{
  const tsr_vocabulary *vocabulary = tokenizer->side[side].vocabulary;
  int32_t *ids = tokenizer->side[side].special;
  TSR_TRY(tsr_vocabulary_require(vocabulary, tokenizer->special[SPECIAL_EOS], &ids[SPECIAL_EOS]));
  TSR_TRY(tsr_vocabulary_require(vocabulary, tokenizer->special[SPECIAL_UNK], &ids[SPECIAL_UNK]));
  const char *pad = tokenizer->special[SPECIAL_PAD];
  ids[SPECIAL_PAD] = tsr_vocabulary_find(vocabulary, pad, strlen(pad));
  return TSR_OK;
}

static tsr_status open_files(const char *folder, const tsr_transformer_config *config, tsr_tokenizer *tokenizer)
{
  int32_t separate = 0;
  TSR_TRY(open_options(folder, tokenizer, &separate));
  TSR_TRY(open_pieces(folder, tokenizer));
  int32_t size = config ? config->source_vocabulary : TSR_VOCABULARY_WHOLE;
  int32_t target_size = config ? config->target_vocabulary : TSR_VOCABULARY_WHOLE;
  if (!separate && target_size > size)
    size = target_size; /* one file names the tokens of two tables */
  TSR_TRY(open_vocabulary(folder, "vocab.json", size, &tokenizer->side[TSR_SIDE_SOURCE].vocabulary));
  if (separate) {
    TSR_TRY(open_vocabulary(folder, "target_vocab.json", target_size, &tokenizer->side[TSR_SIDE_TARGET].vocabulary));
  } else {
    tokenizer->side[TSR_SIDE_TARGET].vocabulary = tokenizer->side[TSR_SIDE_SOURCE].vocabulary;
  }
  for (int32_t side = 0; side < TSR_SIDES; side++)
    TSR_TRY(find_special(tokenizer, side));

  /* A model that ends its sentences with another token than the vocabulary says would never be understood to end. */
  int32_t eos = tokenizer->side[TSR_SIDE_TARGET].special[SPECIAL_EOS];
  if (config && config->eos_id >= 0 && config->eos_id != eos)
    return tsr_fail(TSR_ERR_FORMAT, "%s: token %s has the id %d in the vocabulary, but eos_token_id is %d", folder,
                    tsr_quote(tokenizer->special[SPECIAL_EOS]).text, (int)eos, (int)config->eos_id);
  return TSR_OK;
}

tsr_status tsr_marian_open(const char *folder, const tsr_transformer_config *config, tsr_tokenizer **tokenizer)
{
  *tokenizer = NULL;
  tsr_tokenizer *made = calloc(1, sizeof *made);
  if (!made)
    return tsr_fail_memory(sizeof *made);
  tsr_status status = open_files(folder, config, made);
  if (status != TSR_OK) {
    tsr_tokenizer_close(made);
    return status;
  }
  *tokenizer = made;
  return TSR_OK;
}

void tsr_tokenizer_close(tsr_tokenizer *tokenizer)
{
  if (!tokenizer)
    return;
  for (int kind = 0; kind < N_SPECIAL; kind++)
    free(tokenizer->special[kind]);
  if (tokenizer->side[TSR_SIDE_TARGET].vocabulary != tokenizer->side[TSR_SIDE_SOURCE].vocabulary)
    tsr_vocabulary_close(tokenizer->side[TSR_SIDE_TARGET].vocabulary);
  tsr_vocabulary_close(tokenizer->side[TSR_SIDE_SOURCE].vocabulary);
  if (tokenizer->side[TSR_SIDE_TARGET].pieces != tokenizer->side[TSR_SIDE_SOURCE].pieces)
    tsr_sentencepiece_close(tokenizer->side[TSR_SIDE_TARGET].pieces);
  tsr_sentencepiece_close(tokenizer->side[TSR_SIDE_SOURCE].pieces);
  free(tokenizer);
}

tsr_status tsr_tokenizer_get_info(const tsr_tokenizer *tokenizer, tsr_tokenizer_info *info)
{
  if (!tokenizer || !info)
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_tokenizer_get_info: tokenizer and info must not be NULL");
  const tsr_vocabulary *source = tokenizer->side[TSR_SIDE_SOURCE].vocabulary;
  const tsr_vocabulary *target = tokenizer->side[TSR_SIDE_TARGET].vocabulary;
  *info = (tsr_tokenizer_info){
      .source_vocabulary = tsr_vocabulary_size(source),
      .target_vocabulary = tsr_vocabulary_size(target),
      .is_joint = source == target,
      .source_pad_id = tokenizer->side[TSR_SIDE_SOURCE].special[SPECIAL_PAD],
      .target_pad_id = tokenizer->side[TSR_SIDE_TARGET].special[SPECIAL_PAD],
      .eos_id = tokenizer->side[TSR_SIDE_TARGET].special[SPECIAL_EOS],
      .unk_id = tokenizer->side[TSR_SIDE_TARGET].special[SPECIAL_UNK],
  };
  return TSR_OK;
}

const char *tsr_tokenizer_token(const tsr_tokenizer *tokenizer, int32_t side, int32_t id)
{
  if (!tokenizer || (side != TSR_SIDE_SOURCE && side != TSR_SIDE_TARGET))
    return "";
  const char *token = tsr_vocabulary_token(tokenizer->side[side].vocabulary, id);
  return token ? token : "";
}

/* ------------------------------------------------------------------------------------------------------------------
 * Text to ids
 */
typedef struct encoding {
  const tsr_tokenizer *tokenizer;
  int32_t side;
  int32_t *ids;
  int32_t count;
  int32_t room;
} encoding;

static tsr_status append(encoding *to, int32_t id)
{
  if (to->count == to->room) {
    int32_t room = to->room ? 2 * to->room : 64;
    int32_t *ids = realloc(to->ids, (size_t)room * sizeof *ids);
    if (!ids)
      return tsr_fail_memory((size_t)room * sizeof *ids);
    to->ids = ids;
    to->room = room;
  }
  to->ids[to->count++] = id;
  return TSR_OK;
}

static tsr_status append_token(void *user, const char *token, size_t size)
{
  encoding *to = user;
  int32_t id = tsr_vocabulary_find(to->tokenizer->side[to->side].vocabulary, token, size);
  return append(to, id >= 0 ? id : to->tokenizer->side[to->side].special[SPECIAL_UNK]);
}

/* The first and the last place of a pair of equal characters in a line; `size` if there is none. */
static size_t first_pair(const char *line, size_t size, char character)
{
  for (size_t i = 0; i + 1 < size; i++) {
    if (line[i] == character && line[i + 1] == character)
      return i;
  }
  return size;
}

static size_t last_pair(const char *line, size_t size, char character)
{
  for (size_t i = size; i >= 2; i--) {
    if (line[i - 1] == character && line[i - 2] == character)
      return i - 2;
  }
  return size;
}

/* Multilingual models take the target language from a prefix such as ">>fra<<". What the original looks for is the
 * greedy expression ">>.+<<", which matches at most once in a line: from the first ">>" to the last "<<". One at the
 * start of the text is looked up as a single token; all of them are removed from what SentencePiece gets. */
static tsr_status encode_plain(encoding *to, const char *text, size_t size)
{
  char *rest = malloc(size + 1);
  if (!rest)
    return tsr_fail_memory(size + 1);
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
      if (at + begin == 0)
        status = append_token(to, line, end);
    } else {
      begin = end = 0;
    }
    memcpy(rest + rest_size, line, begin);
    memcpy(rest + rest_size + begin, line + end, whole_size - end);
    rest_size += begin + whole_size - end;
    at += whole_size;
  }
  if (status == TSR_OK && rest_size > 0)
    status = tsr_sentencepiece_encode(to->tokenizer->side[to->side].pieces, rest, rest_size, append_token, to);
  free(rest);
  return status;
}

/* The special token that a text begins with, the longest if several do; -1 if none does. Sets *length. */
static int special_at(const encoding *from, const char *text, size_t size, size_t *length)
{
  int found = -1;
  *length = 0;
  for (int kind = 0; kind < N_SPECIAL; kind++) {
    const char *token = from->tokenizer->special[kind];
    size_t token_size = strlen(token);
    if (from->tokenizer->side[from->side].special[kind] >= 0 && token_size > *length && token_size <= size &&
        memcmp(text, token, token_size) == 0) {
      found = kind;
      *length = token_size;
    }
  }
  return found;
}

/* Special tokens written in the text stand for themselves; what lies between them is plain. */
static tsr_status encode_text(encoding *to, const char *text, size_t size)
{
  size_t begin = 0;
  for (size_t at = 0; at < size;) {
    size_t length;
    int kind = special_at(to, text + at, size - at, &length);
    if (kind < 0) {
      at++;
      continue;
    }
    if (at > begin)
      TSR_TRY(encode_plain(to, text + begin, at - begin));
    TSR_TRY(append(to, to->tokenizer->side[to->side].special[kind]));
    at += length;
    begin = at;
  }
  if (size > begin)
    TSR_TRY(encode_plain(to, text + begin, size - begin));
  return append(to, to->tokenizer->side[to->side].special[SPECIAL_EOS]);
}

tsr_status tsr_marian_encode(const tsr_tokenizer *tokenizer, int32_t side, const char *text, size_t size, int32_t **ids,
                             int32_t *n_ids)
{
  if (!tokenizer || !ids || !n_ids || (!text && size > 0))
    return tsr_fail(TSR_ERR_ARGUMENT, "encode: tokenizer, text, ids and n_ids must not be NULL");
  *ids = NULL;
  *n_ids = 0;
  if (size > MAX_TEXT)
    return tsr_fail(TSR_ERR_ARGUMENT, "a text of %zu bytes: expected at most %d", size, (int)MAX_TEXT);
  encoding to = {.tokenizer = tokenizer, .side = side};
  tsr_status status = encode_text(&to, text, size);
  if (status != TSR_OK) {
    free(to.ids);
    return status;
  }
  *ids = to.ids;
  *n_ids = to.count;
  return TSR_OK;
}

tsr_status tsr_tokenizer_encode(const tsr_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids,
                                int32_t *n_ids)
{
  return tsr_marian_encode(tokenizer, TSR_SIDE_SOURCE, text, size, ids, n_ids);
}

tsr_status tsr_tokenizer_encode_target(const tsr_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids,
                                       int32_t *n_ids)
{
  return tsr_marian_encode(tokenizer, TSR_SIDE_TARGET, text, size, ids, n_ids);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Ids to text
 */
static const char word_mark[] = "\xE2\x96\x81"; /* U+2581, which SentencePiece writes for a blank */

static int is_special(const tsr_tokenizer *tokenizer, int32_t id)
{
  const int32_t *special = tokenizer->side[TSR_SIDE_TARGET].special;
  for (int kind = 0; kind < N_SPECIAL; kind++) {
    if (special[kind] == id)
      return 1;
  }
  return 0;
}

/* The bytes of the white space that a text begins with, as Unicode sees it: 0 if it begins with something else. `left`
 * is how many bytes may be looked at. */
static size_t blank_at(const char *text, size_t left)
{
  static const char *const wide[] = {
      "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81", "\xE2\x80\x82", "\xE2\x80\x83",
      "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86", "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A",
      "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80",
  };
  if (left == 0)
    return 0;
  unsigned char byte = (unsigned char)text[0];
  if (byte == ' ' || (byte >= '\t' && byte <= '\r') || (byte >= 0x1C && byte <= 0x1F))
    return 1;
  for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++) {
    size_t size = strlen(wide[i]);
    if (size <= left && memcmp(text, wide[i], size) == 0)
      return size;
  }
  return 0;
}

/* Writes blanks for word marks and strips white space at both ends, in place. */
static void tidy(char *text)
{
  size_t size = 0;
  for (const char *from = text; *from;) {
    int marked = strncmp(from, word_mark, sizeof word_mark - 1) == 0;
    text[size++] = marked ? ' ' : *from;
    from += marked ? sizeof word_mark - 1 : 1;
  }
  size_t begin = 0;
  for (size_t blank = 1; blank > 0;) {
    blank = blank_at(text + begin, size - begin);
    begin += blank;
  }
  for (size_t length = 1; length <= 3 && length <= size - begin;) {
    if (blank_at(text + size - length, length) == length) {
      size -= length;
      length = 1;
    } else {
      length++;
    }
  }
  memmove(text, text + begin, size - begin);
  text[size - begin] = 0;
}

tsr_status tsr_tokenizer_decode(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n_ids, char **text)
{
  if (!tokenizer || !text || n_ids < 0 || (!ids && n_ids > 0))
    return tsr_fail(TSR_ERR_ARGUMENT, "decode: tokenizer, ids and text must not be NULL, n_ids not negative");
  *text = NULL;
  const tsr_vocabulary *vocabulary = tokenizer->side[TSR_SIDE_TARGET].vocabulary;
  const char **pieces = malloc(((size_t)n_ids + 1) * sizeof *pieces);
  if (!pieces)
    return tsr_fail_memory(((size_t)n_ids + 1) * sizeof *pieces);
  size_t n_pieces = 0;
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < n_ids && status == TSR_OK; i++) {
    const char *token = tsr_vocabulary_token(vocabulary, ids[i]);
    if (ids[i] < 0 || ids[i] >= tsr_vocabulary_size(vocabulary)) {
      status = tsr_fail(TSR_ERR_ARGUMENT, "token id %d is outside the vocabulary of %d tokens", (int)ids[i],
                        (int)tsr_vocabulary_size(vocabulary));
    } else if (token && token[0] && !is_special(tokenizer, ids[i])) {
      pieces[n_pieces++] = token;
    }
  }
  if (status == TSR_OK)
    status = tsr_sentencepiece_decode(tokenizer->side[TSR_SIDE_TARGET].pieces, pieces, n_pieces, text);
  if (status == TSR_OK)
    tidy(*text);
  free(pieces);
  return status;
}

void tsr_free(void *memory)
{
  free(memory);
}

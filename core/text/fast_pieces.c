/* SPDX-License-Identifier: Apache-2.0
 *
 * SentencePiece models from tokenizer.json: the library's own search and normalisation then do the work. Pieces keep
 * their texts; their ids are the vocabulary's.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/checkpoint/json.h"
#include "core/text/base64.h"
#include "core/text/fast.h"
#include "core/text/message.h"
#include "core/text/sentencepiece.h"

static const char mark[] = "\xE2\x96\x81"; /* U+2581, a blank for SentencePiece */

/* ------------------------------------------------------------------------------------------------------------------
 * normalizer and pre_tokenizer
 */
static tsr_status unsupported(const char *key, const json_t *value)
{
  return tsr_fail(
      TSR_ERR_UNSUPPORTED,
      "%s: key \"%s\": this build does not support %s; put the files that tokenizer.json was made from beside it",
      tsr_fast_name, key, tsr_json_show(value).text);
}

static int is_text(const json_t *value, const char *text)
{
  return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

/* What is the matter with blanks: a run becomes one, or one becomes a mark. */
static int take_replace(const json_t *part, tsr_fast_spaces *spaces)
{
  const json_t *pattern = json_object_get(part, "pattern");
  const json_t *content = json_object_get(part, "content");
  int is_blank = is_text(content, " ");
  int is_mark = is_text(content, mark);
  if (is_text(json_object_get(pattern, "Regex"), " {2,}") && (is_blank || is_mark)) {
    spaces->collapse = 1;
    return 1;
  }
  int marks = is_text(json_object_get(pattern, "String"), " ") && is_mark;
  spaces->marked |= marks;
  return marks;
}

static int take_metaspace(const json_t *part, tsr_fast_spaces *spaces)
{
  const json_t *scheme = json_object_get(part, "prepend_scheme");
  const json_t *prefix = json_object_get(part, "add_prefix_space");
  const json_t *replacement = json_object_get(part, "replacement");
  if (replacement && !is_text(replacement, mark)) {
    return 0;
  }
  if (json_is_string(scheme)) {
    spaces->first_only = is_text(scheme, "first");
    spaces->dummy_prefix = spaces->first_only || is_text(scheme, "always");
    return spaces->dummy_prefix || is_text(scheme, "never");
  }
  spaces->dummy_prefix = !json_is_false(prefix);
  return 1;
}

/* One part, of a type that is no sequence: 1 if it is understood. */
static int take_part(const json_t *part, tsr_fast_spaces *spaces)
{
  const json_t *type = json_object_get(part, "type");
  if (is_text(type, "Precompiled")) {
    spaces->charmap = json_string_value(json_object_get(part, "precompiled_charsmap"));
    return spaces->charmap != NULL;
  }
  if (is_text(type, "Prepend")) {
    spaces->dummy_prefix = 1;
    return is_text(json_object_get(part, "prepend"), mark);
  }
  if (is_text(type, "WhitespaceSplit")) {
    spaces->collapse = spaces->white = 1;
    return 1;
  }
  if (is_text(type, "Replace")) {
    return take_replace(part, spaces);
  }
  if (is_text(type, "Split")) { /* at blanks, where marks stand for all of them: nothing is cut */
    return spaces->marked && is_text(json_object_get(json_object_get(part, "pattern"), "String"), " ");
  }
  if (is_text(type, "Strip")) { /* as what collapses runs does, too */
    spaces->strips = 1;
    return 1;
  }
  return is_text(type, "Metaspace") && take_metaspace(part, spaces);
}

static tsr_status take_parts(const json_t *root, const char *key, const char *list, tsr_fast_spaces *spaces)
{
  const json_t *value = json_object_get(root, key);
  if (!value || json_is_null(value)) {
    return TSR_OK;
  }
  if (!is_text(json_object_get(value, "type"), "Sequence")) {
    return take_part(value, spaces) ? TSR_OK : unsupported(key, value);
  }
  const json_t *parts = json_object_get(value, list);
  for (size_t i = 0; i < json_array_size(parts); i++) {
    if (!take_part(json_array_get(parts, i), spaces)) {
      return unsupported(key, json_array_get(parts, i));
    }
  }
  return TSR_OK;
}

tsr_status tsr_fast_read_spaces(const json_t *root, tsr_fast_spaces *spaces)
{
  *spaces = (tsr_fast_spaces){0};
  TSR_TRY(take_parts(root, "normalizer", "normalizers", spaces));
  TSR_TRY(take_parts(root, "pre_tokenizer", "pretokenizers", spaces));
  return spaces->strips && !spaces->collapse ? unsupported("normalizer", json_object_get(root, "normalizer")) : TSR_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Pieces
 */
/* "<0x0A>" */
static int is_byte(const char *piece)
{
  return strlen(piece) == 6 && strncmp(piece, "<0x", 3) == 0 && strspn(piece + 3, "0123456789ABCDEF") == 2 &&
         piece[5] == '>';
}

/* A piece that is an added token is not found by searching; a special one has no text. What merges make is found: runs
 * of blanks are added tokens of Gemma's, too. */
static int type_of(const tsr_added_tokens *added, const char *piece, int bytes)
{
  size_t size = strlen(piece);
  const tsr_added_token *found = size > 0 ? tsr_added_tokens_match(added, piece, size, 0) : NULL;
  if (found && found->size == size) {
    return found->flags & TSR_ADDED_SPECIAL ? TSR_PIECE_CONTROL : TSR_PIECE_UNUSED;
  }
  return bytes && is_byte(piece) ? TSR_PIECE_BYTE : TSR_PIECE_NORMAL;
}

static int has_bytes(const json_t *root)
{
  return json_is_true(json_object_get(json_object_get(root, "model"), "byte_fallback"));
}

/* [["piece", score], ...] */
static tsr_status add_unigram(const json_t *root, const tsr_tokenizer_side *side, tsr_message *model)
{
  const json_t *file = json_object_get(root, "model");
  const json_t *pieces = json_object_get(file, "vocab");
  const json_t *unk = json_object_get(file, "unk_id");
  if (!json_is_array(pieces) || !json_is_integer(unk)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: key \"model\": a Unigram model needs a list \"vocab\" and a number \"unk_id\"",
                    tsr_fast_name);
  }
  for (size_t i = 0; i < json_array_size(pieces); i++) {
    const json_t *pair = json_array_get(pieces, i);
    const json_t *text = json_array_get(pair, 0);
    const json_t *score = json_array_get(pair, 1);
    if (!json_is_string(text) || !json_is_number(score) || fabs(json_number_value(score)) > (double)FLT_MAX) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: key \"model\": piece %zu: expected [\"piece\", score], found %s",
                      tsr_fast_name, i, tsr_json_show(pair).text);
    }
    const char *piece = json_string_value(text);
    int type =
        (json_int_t)i == json_integer_value(unk) ? TSR_PIECE_UNKNOWN : type_of(side->added, piece, has_bytes(root));
    tsr_message_piece(model, piece, json_string_length(text), (float)json_number_value(score), type);
  }
  return TSR_OK;
}

/* The two texts of a merge, as "a b" or ["a", "b"]: where the first ends and the second begins. */
static tsr_status read_merge(const json_t *merge, const char **left, size_t *left_size, const char **right)
{
  const json_t *second = json_array_get(merge, 1);
  *left = json_string_value(json_is_string(merge) ? merge : json_array_get(merge, 0));
  *right = json_is_string(merge) ? strchr(*left, ' ') : json_string_value(second);
  if (!*left || !*right) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: key \"model\": expected merges \"a b\" or [\"a\", \"b\"], found %s",
                    tsr_fast_name, tsr_json_show(merge).text);
  }
  *left_size = json_is_string(merge) ? (size_t)(*right - *left) : strlen(*left);
  *right += json_is_string(merge);
  return TSR_OK;
}

enum { LONGEST_PIECE = 1024 };

/* The first merge that makes each token; -1: none does. */
static tsr_status rank_tokens(const json_t *merges, const tsr_vocabulary *vocabulary, int32_t *ranks)
{
  for (int32_t id = 0; id < tsr_vocabulary_size(vocabulary); id++) {
    ranks[id] = -1;
  }
  for (size_t i = 0; i < json_array_size(merges); i++) {
    char text[LONGEST_PIECE];
    const char *left = NULL;
    const char *right = NULL;
    size_t left_size = 0;
    TSR_TRY(read_merge(json_array_get(merges, i), &left, &left_size, &right));
    size_t size = left_size + strlen(right);
    if (size < sizeof text) {
      memcpy(text, left, left_size);
      memcpy(text + left_size, right, size - left_size);
    }
    int32_t id = size < sizeof text ? tsr_vocabulary_find(vocabulary, text, size) : -1;
    if (id < 0) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: key \"model\": the merge %s makes no token", tsr_fast_name,
                      tsr_json_show(json_array_get(merges, i)).text);
    }
    if (ranks[id] < 0) {
      ranks[id] = (int32_t)i;
    }
  }
  return TSR_OK;
}

/* Pairs of tokens that a token can be parted into, at any of its characters. */
static size_t count_pairs(const tsr_vocabulary *vocabulary, const char *token)
{
  size_t size = strlen(token);
  size_t count = 0;
  size_t length;
  if (size >= LONGEST_PIECE) {
    return 0; /* no merge may make it */
  }
  for (size_t at = 0; at < size; at += length) {
    (void)tsr_utf8_decode(token + at, size - at, &length);
    count += at > 0 && tsr_vocabulary_find(vocabulary, token, at) >= 0 &&
             tsr_vocabulary_find(vocabulary, token + at, size - at) >= 0;
  }
  return count;
}

/* A SentencePiece model merges whatever pair makes a piece; merges of another origin that leave pairs out would be cut
 * in another way. */
static tsr_status check_pairs(const json_t *merges, const json_t *vocab, const tsr_vocabulary *vocabulary)
{
  size_t count = 0;
  const char *token;
  json_t *id;
  json_object_foreach((json_t *)vocab, token, id)
  {
    count += count_pairs(vocabulary, token);
  }
  if (count == json_array_size(merges)) {
    return TSR_OK;
  }
  return tsr_fail(TSR_ERR_UNSUPPORTED,
                  "%s: key \"model\": BPE with Metaspace whose merges (%zu) are not all pairs of tokens that make a "
                  "token (%zu), as in SentencePiece: this build does not support that",
                  tsr_fast_name, json_array_size(merges), count);
}

static tsr_status add_ranked(const json_t *root, const json_t *vocab, const tsr_tokenizer_side *side, int32_t *ranks,
                             tsr_message *model)
{
  const json_t *file = json_object_get(root, "model");
  const json_t *merges = json_object_get(file, "merges");
  const json_t *unk = json_object_get(file, "unk_token");
  TSR_TRY(rank_tokens(merges, side->vocabulary, ranks));
  const char *token;
  json_t *id;
  json_object_foreach((json_t *)vocab, token, id)
  {
    int32_t rank = ranks[json_integer_value(id)];
    int type = is_text(unk, token) ? TSR_PIECE_UNKNOWN : type_of(side->added, token, has_bytes(root));
    size_t length;
    size_t size = strlen(token);
    int is_character = size > 0 && (tsr_utf8_decode(token, size, &length), length == size);
    if (type == TSR_PIECE_UNUSED && rank >= 0) {
      type = TSR_PIECE_NORMAL;
    }
    if (type == TSR_PIECE_NORMAL && rank < 0 && !is_character) {
      type = TSR_PIECE_UNUSED; /* no merge leads to it */
    }
    tsr_message_piece(model, token, size, (float)(rank < 0 ? -(double)json_array_size(merges) : -(double)rank), type);
  }
  return TSR_OK;
}

static tsr_status add_bpe(const json_t *root, const tsr_tokenizer_side *side, tsr_message *model)
{
  const json_t *file = json_object_get(root, "model");
  const json_t *vocab = json_object_get(file, "vocab");
  const json_t *merges = json_object_get(file, "merges");
  if (!json_is_object(vocab) || !json_is_array(merges) || !json_is_string(json_object_get(file, "unk_token"))) {
    return tsr_fail(
        TSR_ERR_FORMAT,
        "%s: key \"model\": a BPE model with Metaspace needs an object \"vocab\", a list \"merges\" and a text "
        "\"unk_token\"",
        tsr_fast_name);
  }
  TSR_TRY(check_pairs(merges, vocab, side->vocabulary));
  size_t size = ((size_t)tsr_vocabulary_size(side->vocabulary) + 1) * sizeof(int32_t);
  int32_t *ranks = malloc(size);
  if (!ranks) {
    return tsr_fail_memory(size);
  }
  tsr_status status = add_ranked(root, vocab, side, ranks, model);
  free(ranks);
  return status;
}

/* ------------------------------------------------------------------------------------------------------------------
 * The model
 */
static tsr_status add_normalizer(const tsr_fast_spaces *spaces, int dummy_prefix, tsr_message *model)
{
  tsr_message normalizer = {0};
  tsr_status status = TSR_OK;
  if (spaces->charmap) {
    size_t size = strlen(spaces->charmap);
    size_t n_bytes;
    unsigned char *bytes = malloc(size / 4 * 3 + 3);
    if (!bytes) {
      return tsr_fail_memory(size / 4 * 3 + 3);
    }
    if (tsr_base64_decode(spaces->charmap, size, bytes, &n_bytes)) {
      tsr_message_bytes(&normalizer, TSR_NORMALIZER_TABLE, bytes, n_bytes);
    } else {
      status = tsr_fail(TSR_ERR_FORMAT, "%s: key \"precompiled_charsmap\": not base64", tsr_fast_name);
    }
    free(bytes);
  }
  tsr_message_varint(&normalizer, TSR_NORMALIZER_DUMMY_PREFIX, (uint64_t)dummy_prefix);
  tsr_message_varint(&normalizer, TSR_NORMALIZER_REMOVE_BLANKS, (uint64_t)spaces->collapse);
  tsr_message_bytes(model, TSR_MODEL_NORMALIZER, normalizer.bytes, normalizer.size);
  model->failed |= normalizer.failed;
  tsr_message_finish(&normalizer);
  return status;
}

static void add_trainer(const json_t *root, int type, tsr_message *model)
{
  tsr_message trainer = {0};
  tsr_message_varint(&trainer, TSR_TRAINER_TYPE, (uint64_t)type);
  tsr_message_varint(&trainer, TSR_TRAINER_BYTE_FALLBACK, (uint64_t)has_bytes(root));
  tsr_message_bytes(model, TSR_MODEL_TRAINER, trainer.bytes, trainer.size);
  model->failed |= trainer.failed;
  tsr_message_finish(&trainer);
}

static tsr_status open_model(const tsr_message *model, tsr_segmenter *segmenter)
{
  return model->failed ? tsr_fail_memory(model->size)
                       : tsr_sentencepiece_segmenter(tsr_fast_name, model->bytes, model->size, segmenter);
}

/* A further normaliser is merged into the one before: the last word is its. */
static tsr_status open_models(const tsr_fast_spaces *spaces, tsr_message *model, tsr_segmenter *segmenter,
                              tsr_segmenter *plain)
{
  TSR_TRY(add_normalizer(spaces, spaces->dummy_prefix, model));
  TSR_TRY(open_model(model, segmenter));
  if (!spaces->first_only) {
    return TSR_OK;
  }
  TSR_TRY(add_normalizer(spaces, 0, model));
  return open_model(model, plain);
}

tsr_status tsr_fast_make_pieces(const json_t *root, const tsr_fast_spaces *spaces, const tsr_tokenizer_side *side,
                                tsr_segmenter *segmenter, tsr_segmenter *plain)
{
  int is_bpe = is_text(json_object_get(json_object_get(root, "model"), "type"), "BPE");
  tsr_message model = {0};
  tsr_status status = is_bpe ? add_bpe(root, side, &model) : add_unigram(root, side, &model);
  if (status == TSR_OK) {
    add_trainer(root, is_bpe ? TSR_TYPE_BPE : TSR_TYPE_UNIGRAM, &model);
    status = open_models(spaces, &model, segmenter, plain);
  }
  tsr_message_finish(&model);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What all tokenizers share: text to ids and back.
 */
#include "core/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/checkpoint/json.h"
#include "core/text/whisper.h"

/* SentencePiece keeps several numbers per byte. */
enum { MAX_TEXT = 1 << 28 };

void tsr_tokenizer_close(tsr_tokenizer *tokenizer)
{
  if (!tokenizer) {
    return;
  }
  tsr_tokenizer_side *source = &tokenizer->side[TSR_SIDE_SOURCE];
  tsr_tokenizer_side *target = &tokenizer->side[TSR_SIDE_TARGET];
  if (target->vocabulary != source->vocabulary) {
    tsr_vocabulary_close(target->vocabulary);
  }
  if (target->segmenter.state != source->segmenter.state) {
    tsr_segmenter_close(target->segmenter);
  }
  if (target->added != source->added && target->added) {
    tsr_added_tokens_finish(target->added);
    free(target->added);
  }
  tsr_vocabulary_close(source->vocabulary);
  tsr_segmenter_close(source->segmenter);
  tsr_segmenter_close(tokenizer->plain);
  if (source->added) {
    tsr_added_tokens_finish(source->added);
    free(source->added);
  }
  tsr_arena_finish(&tokenizer->arena);
  free(tokenizer);
}

tsr_status tsr_tokenizer_get_info_sized(const tsr_tokenizer *tokenizer, tsr_tokenizer_info *info, size_t size)
{
  if (!tokenizer || !info) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_tokenizer_get_info: tokenizer and info must not be NULL");
  }
  const tsr_tokenizer_side *source = &tokenizer->side[TSR_SIDE_SOURCE];
  const tsr_tokenizer_side *target = &tokenizer->side[TSR_SIDE_TARGET];
  int32_t language = tokenizer->language[TSR_SIDE_TARGET];
  int32_t id = language >= 0 ? tokenizer->languages[language].id : -1;
  int32_t place = tokenizer->place;
  const tsr_tokenizer_info known = {
      .source_vocabulary = tsr_vocabulary_size(source->vocabulary),
      .target_vocabulary = tsr_vocabulary_size(target->vocabulary),
      .is_joint = source->vocabulary == target->vocabulary,
      .source_pad_id = source->special[TSR_PAD],
      .target_pad_id = target->special[TSR_PAD],
      .eos_id = target->special[TSR_EOS],
      .unk_id = target->special[TSR_UNK],
      .forced_bos_id = place == TSR_LANGUAGE_BEFORE || place == TSR_LANGUAGE_AFTER ? id : -1,
      .decoder_start_id = place == TSR_LANGUAGE_START ? id : -1,
  };
  tsr_sized_fill(&known, sizeof known, info, size);
  return TSR_OK;
}

const char *tsr_tokenizer_kind_name(const tsr_tokenizer *tokenizer)
{
  return tokenizer ? tokenizer->kind->name : "";
}

const char *tsr_tokenizer_token(const tsr_tokenizer *tokenizer, int32_t side, int32_t id)
{
  if (!tokenizer || (side != TSR_SIDE_SOURCE && side != TSR_SIDE_TARGET)) {
    return "";
  }
  const char *token = tsr_vocabulary_token(tokenizer->side[side].vocabulary, id);
  return token ? token : "";
}

/* ------------------------------------------------------------------------------------------------------------------
 * Text to ids
 */
tsr_status tsr_encoding_append(tsr_encoding *to, int32_t id)
{
  if (to->count == to->room) {
    int32_t room = to->room ? 2 * to->room : 64;
    int32_t *ids = realloc(to->ids, (size_t)room * sizeof *ids);
    if (!ids) {
      return tsr_fail_memory((size_t)room * sizeof *ids);
    }
    to->ids = ids;
    to->room = room;
  }
  to->ids[to->count++] = id;
  return TSR_OK;
}

tsr_status tsr_encoding_append_token(void *encoding, const char *token, size_t size)
{
  tsr_encoding *to = encoding;
  const tsr_tokenizer_side *side = &to->tokenizer->side[to->side];
  int32_t id = tsr_vocabulary_find(side->vocabulary, token, size);
  size_t length = size;
  for (size_t at = 0; id < 0 && to->tokenizer->unk_each && at < size; at += length) {
    (void)tsr_utf8_decode(token + at, size - at, &length);
    if (at + length < size) {
      TSR_TRY(tsr_encoding_append(to, side->special[TSR_UNK]));
    }
  }
  return tsr_encoding_append(to, id >= 0 ? id : side->special[TSR_UNK]);
}

/* The bytes of white space that a text begins with, and those before the white space that it ends with. */
static size_t count_leading(const char *text, size_t size)
{
  size_t at = 0;
  for (size_t length; at < size && tsr_is_space(tsr_utf8_decode(text + at, size - at, &length));) {
    at += length;
  }
  return at;
}

static size_t count_trimmed(const char *text, size_t size)
{
  for (size_t length = 1; length <= 3 && length <= size;) {
    size_t read;
    uint32_t last = tsr_utf8_decode(text + size - length, length, &read);
    if (read == length && tsr_is_space(last)) {
      size -= length;
      length = 1;
    } else {
      length++;
    }
  }
  return size;
}

void tsr_strip(const char **text, size_t *size)
{
  const size_t begin = count_leading(*text, *size);
  *text = begin > 0 ? *text + begin : *text;
  *size = count_trimmed(*text, *size - begin);
}

static tsr_status encode_plain(tsr_encoding *to, const char *text, size_t size, int32_t where)
{
  const tsr_tokenizer *tokenizer = to->tokenizer;
  if (size == 0) {
    return TSR_OK;
  }
  if (tokenizer->kind->encode_plain) {
    return tokenizer->kind->encode_plain(to, text, size, where);
  }
  const tsr_segmenter *segmenter = &tokenizer->side[to->side].segmenter;
  return segmenter->methods->encode(segmenter->state, text, size, tsr_encoding_append_token, to);
}

/* Added tokens stand for themselves; what lies between them is plain. */
static tsr_status encode_text(tsr_encoding *to, const char *text, size_t size)
{
  const tsr_added_tokens *added = to->tokenizer->side[to->side].added;
  size_t begin = 0; /* of the plain text that has not been encoded yet */
  for (size_t at = 0; at < size;) {
    const tsr_added_token *token = tsr_added_tokens_match(added, text, size, at);
    if (!token) {
      at++;
      continue;
    }
    size_t plain = at - begin;
    if (token->flags & TSR_ADDED_LSTRIP) {
      plain = count_trimmed(text + begin, plain);
    }
    TSR_TRY(encode_plain(to, text + begin, plain, begin == 0 ? TSR_PLAIN_FIRST : 0));
    TSR_TRY(tsr_encoding_append(to, token->id));
    at += token->size;
    if (token->flags & TSR_ADDED_RSTRIP) {
      at += count_leading(text + at, size - at);
    }
    begin = at;
  }
  return encode_plain(to, text + begin, size - begin, TSR_PLAIN_LAST | (begin == 0 ? TSR_PLAIN_FIRST : 0));
}

static tsr_status append_all(tsr_encoding *to, const int32_t *ids, int32_t n_ids)
{
  for (int32_t i = 0; i < n_ids; i++) {
    TSR_TRY(tsr_encoding_append(to, ids[i]));
  }
  return TSR_OK;
}

/* 1 if a text begins with what is looked up as a language: ">>", something, and "<<" on the same line. */
static int names_language(const char *text, size_t size)
{
  if (size < 5 || memcmp(text, ">>", 2) != 0) {
    return 0;
  }
  for (size_t i = 3; i + 1 < size && text[i - 1] != '\n'; i++) {
    if (text[i] == '<' && text[i + 1] == '<') {
      return 1;
    }
  }
  return 0;
}

static tsr_status encode(tsr_encoding *to, const char *text, size_t size)
{
  const tsr_tokenizer *tokenizer = to->tokenizer;
  const tsr_frame *frame = &tokenizer->side[to->side].frame;
  if (to->side == TSR_SIDE_TARGET && tokenizer->language[TSR_SIDE_TARGET] < 0 &&
      tokenizer->place != TSR_LANGUAGE_NONE && tokenizer->place != TSR_LANGUAGE_SOURCE &&
      tokenizer->place != TSR_LANGUAGE_FIXED && tokenizer->place != TSR_LANGUAGE_PREFIX) {
    return tsr_fail(
        TSR_ERR_ARGUMENT,
        "a target text begins or ends with its language's token, but no target language was chosen: neither "
        "here nor in tokenizer_config.json (tgt_lang)");
  }
  /* A source that names its target language itself keeps it. */
  if (tokenizer->place != TSR_LANGUAGE_SOURCE || !names_language(text, size)) {
    TSR_TRY(append_all(to, frame->before, frame->n_before));
  }
  int32_t begin = to->count;
  TSR_TRY(encode_text(to, text, size));
  int32_t skip =
      tokenizer->kind->eos_once && frame->n_after > 0 && to->count > begin && to->ids[to->count - 1] == frame->after[0];
  return append_all(to, frame->after + skip, frame->n_after - skip);
}

/* `encode_into` is what encodes: with the ids around the text, or without. */
static tsr_status encode_with(tsr_status (*encode_into)(tsr_encoding *to, const char *text, size_t size),
                              const tsr_tokenizer *tokenizer, int32_t side, const char *text, size_t size,
                              int32_t **ids, int32_t *n_ids)
{
  if (!tokenizer || !ids || !n_ids || (!text && size > 0)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "encode: tokenizer, text, ids and n_ids must not be NULL");
  }
  *ids = NULL;
  *n_ids = 0;
  if (size > MAX_TEXT) {
    return tsr_fail(TSR_ERR_ARGUMENT, "a text of %zu bytes: expected at most %d", size, (int)MAX_TEXT);
  }
  tsr_encoding to = {.tokenizer = tokenizer, .side = side};
  tsr_status status = encode_into(&to, text, size);
  if (status != TSR_OK) {
    free(to.ids);
    return status;
  }
  *ids = to.ids;
  *n_ids = to.count;
  return TSR_OK;
}

tsr_status tsr_tokenizer_encode_side(const tsr_tokenizer *tokenizer, int32_t side, const char *text, size_t size,
                                     int32_t **ids, int32_t *n_ids)
{
  return encode_with(encode, tokenizer, side, text, size, ids, n_ids);
}

tsr_status tsr_tokenizer_encode_bare(const tsr_tokenizer *tokenizer, int32_t side, const char *text, size_t size,
                                     int32_t **ids, int32_t *n_ids)
{
  return encode_with(encode_text, tokenizer, side, text, size, ids, n_ids);
}

tsr_status tsr_tokenizer_encode(const tsr_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids,
                                int32_t *n_ids)
{
  return tsr_tokenizer_encode_side(tokenizer, TSR_SIDE_SOURCE, text, size, ids, n_ids);
}

tsr_status tsr_tokenizer_encode_target(const tsr_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids,
                                       int32_t *n_ids)
{
  return tsr_tokenizer_encode_side(tokenizer, TSR_SIDE_TARGET, text, size, ids, n_ids);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Ids to text
 */
static const char word_mark[] = "\xE2\x96\x81"; /* U+2581, which SentencePiece writes for a blank */

/* Writes blanks for word marks and strips white space at both ends, in place. */
static void tidy(char *text)
{
  size_t size = 0;
  for (const char *from = text; *from;) {
    int marked = strncmp(from, word_mark, sizeof word_mark - 1) == 0;
    text[size++] = marked ? ' ' : *from;
    from += marked ? sizeof word_mark - 1 : 1;
  }
  const char *stripped = text;
  tsr_strip(&stripped, &size);
  memmove(text, stripped, size);
  text[size] = 0;
}

/* Drops the blanks before punctuation, as the original's clean_up_tokenization_spaces: one rule after the other. */
static void clean_up(char *text)
{
  static const struct {
    const char *found;
    const char *wanted;
  } rules[] = {
      {" .", "."},     {" ?", "?"},   {" !", "!"},   {" ,", ","},     {" ' ", "'"},
      {" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (size_t rule = 0; rule < sizeof rules / sizeof rules[0]; rule++) {
    size_t found = strlen(rules[rule].found);
    size_t wanted = strlen(rules[rule].wanted);
    char *to = text;
    for (const char *from = text; *from;) {
      if (strncmp(from, rules[rule].found, found) == 0) {
        memcpy(to, rules[rule].wanted, wanted);
        to += wanted;
        from += found;
      } else {
        *to++ = *from++;
      }
    }
    *to = 0;
  }
}

int32_t tsr_token_is_special(const tsr_tokenizer *tokenizer, int32_t side, int32_t id)
{
  const tsr_tokenizer_side *from = &tokenizer->side[side];
  const char *token = tsr_vocabulary_token(from->vocabulary, id);
  const tsr_added_token *added = token && token[0] ? tsr_added_tokens_find(from->added, token) : NULL;
  return !token || !token[0] || (added && added->id == id && (added->flags & TSR_ADDED_SPECIAL));
}

tsr_status tsr_tokenizer_decode_side(const tsr_tokenizer *tokenizer, int32_t side, const int32_t *ids, int32_t n_ids,
                                     char **text)
{
  return tsr_tokenizer_decode_replaced(tokenizer, side, ids, NULL, n_ids, text);
}

tsr_status tsr_tokenizer_decode_replaced(const tsr_tokenizer *tokenizer, int32_t side, const int32_t *ids,
                                         const char *const *replaced, int32_t n_ids, char **text)
{
  if (!tokenizer || !text || n_ids < 0 || (!ids && n_ids > 0) || (side != TSR_SIDE_SOURCE && side != TSR_SIDE_TARGET)) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "decode: tokenizer, ids and text must not be NULL, n_ids not negative, the side 0 "
                    "or 1");
  }
  *text = NULL;
  const tsr_tokenizer_side *from = &tokenizer->side[side];
  const char **pieces = malloc(((size_t)n_ids + 1) * sizeof *pieces);
  if (!pieces) {
    return tsr_fail_memory(((size_t)n_ids + 1) * sizeof *pieces);
  }
  const int32_t begin = tokenizer->whisper ? tsr_whisper_prompt_length(tokenizer->whisper, ids, n_ids) : 0;
  size_t n_pieces = 0;
  tsr_status status = TSR_OK;
  for (int32_t i = begin; i < n_ids && status == TSR_OK; i++) {
    if (ids[i] < 0 || ids[i] >= tsr_vocabulary_size(from->vocabulary)) {
      status = tsr_fail(TSR_ERR_ARGUMENT, "token id %d is outside the vocabulary of %d tokens", (int)ids[i],
                        (int)tsr_vocabulary_size(from->vocabulary));
    } else if (replaced && replaced[i]) {
      pieces[n_pieces++] = replaced[i];
    } else if (!tsr_token_is_special(tokenizer, side, ids[i])) {
      pieces[n_pieces++] = tsr_vocabulary_token(from->vocabulary, ids[i]);
    }
  }
  if (status == TSR_OK) {
    status = from->segmenter.methods->decode(from->segmenter.state, pieces, n_pieces, text);
  }
  if (status == TSR_OK && !tokenizer->keep_blanks) {
    tidy(*text);
  }
  if (status == TSR_OK && tokenizer->clean_up) {
    clean_up(*text);
  }
  if (status == TSR_OK && tokenizer->whisper) {
    tsr_whisper_strip_timestamps(*text);
  }
  free(pieces);
  return status;
}

tsr_status tsr_tokenizer_decode(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n_ids, char **text)
{
  return tsr_tokenizer_decode_side(tokenizer, TSR_SIDE_TARGET, ids, n_ids, text);
}

void tsr_free(void *memory)
{
  free(memory);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Kinds whose ids are those of a SentencePiece model, moved, with tokens of their own before and behind: T5, Gemma,
 * Pegasus, mBART, NLLB. What the folder says of added tokens comes first, and the documented layout where it says
 * nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/text/kinds.h"
#include "core/text/sentencepiece.h"

const tsr_piece_layout tsr_layout_t5 = {.sentinels = 100};
const tsr_piece_layout tsr_layout_gemma = {.begins = 1};
const tsr_piece_layout tsr_layout_pegasus = {.fixed = {"<pad>", "</s>"}, .first = 2, .offset = 103, .masks = 1};
const tsr_piece_layout tsr_layout_mbart = {
    .fixed = {"<s>", "<pad>", "</s>", "<unk>"}, .first = 3, .offset = 1, .languages = &tsr_languages_mbart};
const tsr_piece_layout tsr_layout_mbart50 = {
    .fixed = {"<s>", "<pad>", "</s>", "<unk>"}, .first = 3, .offset = 1, .languages = &tsr_languages_mbart50};
const tsr_piece_layout tsr_layout_nllb = {
    .fixed = {"<s>", "<pad>", "</s>", "<unk>"}, .first = 3, .offset = 1, .languages = &tsr_languages_nllb};

/* Adds a token unless there is one of that text. */
static tsr_status put(tsr_vocabulary *vocabulary, const char *token, int64_t id)
{
  return tsr_vocabulary_find(vocabulary, token, strlen(token)) >= 0 ? TSR_OK
                                                                    : tsr_vocabulary_add(vocabulary, token, id);
}

/* The same for a token that is found in texts. */
static tsr_status put_added(tsr_tokenizer_side *side, const char *token, int64_t id, uint32_t flags)
{
  TSR_TRY(put(side->vocabulary, token, id));
  return tsr_added_tokens_add(side->added, token, tsr_vocabulary_find(side->vocabulary, token, strlen(token)), flags);
}

static tsr_status put_languages(const tsr_language_list *list, tsr_tokenizer_side *side, int32_t first)
{
  for (int32_t i = 0; i < list->n; i++) {
    char token[TSR_LANGUAGE_TOKEN];
    tsr_language_token(list, list->codes[i], token);
    TSR_TRY(put_added(side, token, first + i, list->are_special ? TSR_ADDED_SPECIAL : 0));
  }
  return TSR_OK;
}

static tsr_status put_sentinels(tsr_tokenizer_files *files, const tsr_piece_layout *layout, tsr_tokenizer_side *side,
                                int32_t first)
{
  enum { MOST = 10000 };
  int32_t n = layout->sentinels;
  tsr_config_int(&files->options, "extra_ids", 0, MOST, &n);
  TSR_TRY(tsr_config_status(&files->options));
  for (int32_t i = 0; i < n; i++) {
    char token[32];
    snprintf(token, sizeof token, "<extra_id_%d>", (int)i);
    TSR_TRY(put_added(side, token, first + n - 1 - i, TSR_ADDED_SPECIAL | TSR_ADDED_LSTRIP | TSR_ADDED_RSTRIP));
  }
  return TSR_OK;
}

static tsr_status put_masks(tsr_tokenizer_side *side, int32_t offset)
{
  for (int32_t id = 2; id < offset + 2; id++) {
    char token[32];
    snprintf(token, sizeof token, id < 4 ? "<mask_%d>" : "<unk_%d>", (int)(id < 4 ? id - 1 : id - 2));
    TSR_TRY(put_added(side, token, id, TSR_ADDED_SPECIAL));
  }
  return TSR_OK;
}

/* Pegasus without an offset has none of the tokens that it makes room for. */
static tsr_status read_offset(tsr_tokenizer_files *files, tsr_piece_layout *layout)
{
  enum { MOST = 1000 };
  if (!layout->masks) {
    return TSR_OK;
  }
  tsr_config_int(&files->options, "offset", 0, MOST, &layout->offset);
  TSR_TRY(tsr_config_status(&files->options));
  if (layout->offset < 2) {
    *layout = (tsr_piece_layout){.offset = layout->offset};
  }
  return TSR_OK;
}

static tsr_status fill(tsr_tokenizer_files *files, const tsr_piece_layout *layout, const tsr_sentencepiece *model,
                       tsr_tokenizer_side *side)
{
  int32_t n_pieces = tsr_sentencepiece_count(model);
  int32_t behind = n_pieces + layout->offset;
  TSR_TRY(tsr_files_added_tokens(files, side->vocabulary, side->added));
  for (int32_t i = 0; i < TSR_LAYOUT_FIXED && layout->fixed[i]; i++) {
    TSR_TRY(put(side->vocabulary, layout->fixed[i], i));
  }
  if (layout->masks) {
    TSR_TRY(put_masks(side, layout->offset));
  }
  if (layout->languages) {
    TSR_TRY(put_languages(layout->languages, side, behind));
    TSR_TRY(put(side->vocabulary, "<mask>", behind + layout->languages->n));
  }
  if (layout->sentinels) {
    TSR_TRY(put_sentinels(files, layout, side, behind));
  }
  for (int32_t i = layout->first; i < n_pieces; i++) {
    TSR_TRY(put(side->vocabulary, tsr_sentencepiece_piece(model, i), i + layout->offset));
  }
  return TSR_OK;
}

/* The file of the model: the first that is there, else the first. */
static tsr_status find_model(const tsr_tokenizer_files *files, const tsr_tokenizer_kind *kind, const char **name)
{
  int has = 0;
  if (kind->files[1]) {
    TSR_TRY(tsr_files_has(files, kind->files[1], &has));
  }
  int has_first;
  TSR_TRY(tsr_files_has(files, kind->files[0], &has_first));
  *name = kind->files[has && !has_first];
  return TSR_OK;
}

/* NLLB was first trained with the source's language behind the text. */
tsr_status tsr_pieces_open_languages(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files,
                                     tsr_tokenizer *tokenizer)
{
  const tsr_language_list *list = ((const tsr_piece_layout *)kind->data)->languages;
  int32_t legacy = 0;
  tsr_config_bool(&files->options, "legacy_behaviour", &legacy);
  TSR_TRY(tsr_config_status(&files->options));
  tsr_language_list used = *list;
  if (legacy && list == &tsr_languages_nllb) {
    used.place = TSR_LANGUAGE_AFTER;
  }
  return tsr_languages_open(&used, files, tokenizer);
}

/* T5: what is plain begins with a blank of SentencePiece's where it begins the text or a blank is written, and, in the
 * newer behaviour, with none behind a sentinel. A message that is merged into the model says so: normalizer_spec (3)
 * with add_dummy_prefix (3) false. */
static tsr_status open_plain(tsr_tokenizer_files *files, const char *name, tsr_tokenizer *tokenizer)
{
  static const unsigned char no_dummy_prefix[] = {3 << 3 | 2, 2, 3 << 3, 0};
  int32_t legacy = 1;
  tsr_config_bool(&files->options, "legacy", &legacy);
  TSR_TRY(tsr_config_status(&files->options));
  return legacy ? TSR_OK
                : tsr_files_sentencepiece(files, name, no_dummy_prefix, sizeof no_dummy_prefix, &tokenizer->plain);
}

tsr_status tsr_gemma_read_ends(tsr_tokenizer_files *files, int32_t begins, int32_t ends, tsr_tokenizer *tokenizer)
{
  tsr_config_bool(&files->options, "add_bos_token", &begins);
  tsr_config_bool(&files->options, "add_eos_token", &ends);
  TSR_TRY(tsr_config_status(&files->options));
  for (int32_t i = 0; i < TSR_SIDES; i++) {
    tsr_tokenizer_side *side = &tokenizer->side[i];
    if (begins) {
      TSR_TRY(tsr_vocabulary_require(side->vocabulary, tokenizer->special[TSR_BOS], &side->special[TSR_BOS]));
    }
    side->frame = (tsr_frame){
        .before = {side->special[TSR_BOS]}, .n_before = begins, .after = {side->special[TSR_EOS]}, .n_after = ends};
  }
  return TSR_OK;
}

tsr_status tsr_pieces_open(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  tsr_piece_layout layout = *(const tsr_piece_layout *)kind->data;
  tsr_tokenizer_side *side = &tokenizer->side[TSR_SIDE_SOURCE];
  const char *name;
  TSR_TRY(find_model(files, kind, &name));
  TSR_TRY(read_offset(files, &layout));
  TSR_TRY(tsr_files_sentencepiece(files, name, NULL, 0, &side->segmenter));
  TSR_TRY(tsr_files_vocabulary(files, name, &side->vocabulary));
  TSR_TRY(tsr_added_tokens_create(&side->added));
  TSR_TRY(fill(files, &layout, side->segmenter.state, side));
  if (layout.sentinels) {
    TSR_TRY(open_plain(files, name, tokenizer));
  }
  tsr_tokenizer_share_sides(tokenizer);
  TSR_TRY(tsr_tokenizer_find_specials(files, tokenizer));
  return layout.begins ? tsr_gemma_read_ends(files, 1, 0, tokenizer) : TSR_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * T5's own encoding
 */
typedef struct skipping {
  tsr_encoding *to;
  int32_t skip; /* pieces that are left out */
} skipping;

static tsr_status receive_behind(void *user, const char *piece, size_t size)
{
  skipping *s = user;
  if (s->skip > 0) {
    s->skip--;
    return TSR_OK;
  }
  return tsr_encoding_append_token(s->to, piece, size);
}

static tsr_status count_piece(void *user, const char *piece, size_t size)
{
  (void)piece;
  (void)size;
  ++*(int32_t *)user;
  return TSR_OK;
}

static const char mark[] = "\xE2\x96\x81"; /* U+2581, a blank for SentencePiece */
enum { MARK_SIZE = sizeof mark - 1 };

/* Writes the text with blanks for marks; returns where it ends. */
static char *write_blanks(char *to, const char *text, size_t size)
{
  for (size_t at = 0; at < size;) {
    int marked = size - at >= MARK_SIZE && memcmp(text + at, mark, MARK_SIZE) == 0;
    *to++ = marked ? ' ' : text[at];
    at += marked ? MARK_SIZE : 1;
  }
  return to;
}

static int is_blank(const char *text, size_t size)
{
  for (size_t i = 0; i < size; i++) {
    if (text[i] != ' ') {
      return 0;
    }
  }
  return 1;
}

/* The text goes to SentencePiece behind <unk>, whose pieces are left out again: SentencePiece would drop the blanks
 * that a text begins with. */
static tsr_status encode_behind_unk(tsr_encoding *to, const char *buffer, size_t unk_size, size_t size)
{
  const tsr_segmenter *plain = &to->tokenizer->plain;
  skipping s = {.to = to};
  TSR_TRY(plain->methods->encode(plain->state, buffer, unk_size, count_piece, &s.skip));
  return plain->methods->encode(plain->state, buffer, size, receive_behind, &s);
}

/* In the newer behaviour a text begins with a blank, and what is behind an added token begins as it is written. */
static tsr_status encode_new(tsr_encoding *to, const char *text, size_t size, int32_t where)
{
  const char *unk = to->tokenizer->special[TSR_UNK];
  size_t unk_size = strlen(unk);
  char *buffer = malloc(unk_size + MARK_SIZE + size);
  if (!buffer) {
    return tsr_fail_memory(unk_size + MARK_SIZE + size);
  }
  memcpy(buffer, unk, unk_size);
  char *begin = buffer + unk_size;
  if (where & TSR_PLAIN_FIRST) {
    memcpy(begin, mark, MARK_SIZE);
  }
  char *rest = begin + (where & TSR_PLAIN_FIRST ? (size_t)MARK_SIZE : 0);
  char *end = write_blanks(rest, text, size);
  const tsr_segmenter *plain = &to->tokenizer->plain;
  tsr_status status = TSR_OK;
  if (where & TSR_PLAIN_FIRST || *begin == ' ') {
    if (where != TSR_PLAIN_FIRST || !is_blank(rest, (size_t)(end - rest))) {
      status = encode_behind_unk(to, buffer, unk_size, (size_t)(end - buffer));
    }
  } else {
    status = plain->methods->encode(plain->state, begin, (size_t)(end - begin), tsr_encoding_append_token, to);
  }
  free(buffer);
  return status;
}

static tsr_status encode_segment(tsr_encoding *to, const char *text, size_t size, int32_t where)
{
  if (to->tokenizer->plain.methods) {
    return encode_new(to, text, size, where);
  }
  const tsr_segmenter *segmenter = &to->tokenizer->side[to->side].segmenter;
  return segmenter->methods->encode(segmenter->state, text, size, tsr_encoding_append_token, to);
}

/* The text with a blank for each character that Unicode calls white space. */
static tsr_status encode_white(tsr_encoding *to, const char *text, size_t size, int32_t where)
{
  char *blanks = malloc(size + 1);
  size_t n = 0, length;
  if (!blanks) {
    return tsr_fail_memory(size + 1);
  }
  for (size_t at = 0; at < size; at += length) {
    const uint32_t c = tsr_utf8_decode(text + at, size - at, &length);
    if (tsr_is_space(c) && (c < 0x1C || c > 0x1F)) { /* which are for Python alone */
      blanks[n++] = ' ';
    } else {
      memcpy(blanks + n, text + at, length);
      n += length;
    }
  }
  const tsr_status status = encode_segment(to, blanks, n, where);
  free(blanks);
  return status;
}

tsr_status tsr_t5_encode_plain(tsr_encoding *to, const char *text, size_t size, int32_t where)
{
  return (to->tokenizer->splits_white ? encode_white : encode_segment)(to, text, size, where);
}

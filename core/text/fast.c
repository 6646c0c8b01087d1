/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/fast.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/json.h"
#include "core/text/bpe.h"
#include "core/text/kinds.h"

const char tsr_fast_name[] = "tokenizer.json";

static tsr_status unsupported(const char *key, const json_t *value, const char *expected)
{
  return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key \"%s\": expected %s, found %s", tsr_fast_name, key, expected,
                  tsr_json_show(value).text);
}

static const char *type_of(const json_t *value)
{
  const char *type = json_string_value(json_object_get(value, "type"));
  return type ? type : "";
}

/* ------------------------------------------------------------------------------------------------------------------
 * model
 */
/* [["piece", score], ...]: ids are the places in the list. */
static tsr_status add_pieces(tsr_vocabulary *vocabulary, const json_t *list)
{
  if (!json_is_array(list)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: key \"model\": a Unigram model needs a list \"vocab\" and a number \"unk_id\"",
                    tsr_fast_name);
  }
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *piece = json_string_value(json_array_get(json_array_get(list, i), 0));
    if (!piece) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: key \"model\": piece %zu: expected [\"piece\", score], found %s",
                      tsr_fast_name, i, tsr_json_show(json_array_get(list, i)).text);
    }
    TSR_TRY(tsr_vocabulary_add(vocabulary, piece, (int64_t)i));
  }
  return TSR_OK;
}

static tsr_status read_vocabulary(tsr_tokenizer_files *files, tsr_tokenizer_side *side)
{
  const json_t *model = json_object_get(files->fast, "model");
  const json_t *vocab = json_object_get(model, "vocab");
  TSR_TRY(tsr_files_vocabulary(files, tsr_fast_name, &side->vocabulary));
  TSR_TRY(tsr_added_tokens_create(&side->added));
  if (strcmp(type_of(model), "Unigram") == 0) {
    TSR_TRY(add_pieces(side->vocabulary, vocab));
  } else if (strcmp(type_of(model), "BPE") == 0) {
    TSR_TRY(tsr_vocabulary_add_object(side->vocabulary, vocab));
  } else {
    return unsupported("model", json_object_get(model, "type"), "the type \"Unigram\" or \"BPE\"");
  }
  TSR_TRY(tsr_files_added_tokens(files, side->vocabulary, side->added));
  tsr_added_tokens_sort(side->added);
  return TSR_OK;
}

/* The pre-tokenizer of that type, alone or in a sequence; NULL: there is none. */
static const json_t *find_pre_tokenizer(const json_t *root, const char *type)
{
  const json_t *value = json_object_get(root, "pre_tokenizer");
  if (strcmp(type_of(value), type) == 0) {
    return value;
  }
  const json_t *parts = json_object_get(value, "pretokenizers");
  for (size_t i = 0; i < json_array_size(parts); i++) {
    if (strcmp(type_of(json_array_get(parts, i)), type) == 0) {
      return json_array_get(parts, i);
    }
  }
  return NULL;
}

/* Options of a BPE model that change how it merges. */
static tsr_status check_merging(const json_t *model)
{
  static const char *const keys[] = {"continuing_subword_prefix", "end_of_word_suffix"};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    const json_t *value = json_object_get(model, keys[i]);
    if (json_is_string(value) && json_string_length(value) > 0) {
      return unsupported(keys[i], value, "none");
    }
  }
  if (json_is_true(json_object_get(model, "ignore_merges"))) {
    return unsupported("ignore_merges", json_object_get(model, "ignore_merges"), "false");
  }
  const json_t *dropout = json_object_get(model, "dropout");
  if (dropout && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0.0)) {
    return unsupported("dropout", dropout, "none"); /* the original leaves merges out at random, also of what is read */
  }
  return TSR_OK;
}

static tsr_status open_byte_level(const json_t *root, const json_t *byte_level, tsr_tokenizer *tokenizer,
                                  tsr_tokenizer_side *side)
{
  const json_t *normalizer = json_object_get(root, "normalizer");
  if (normalizer && !json_is_null(normalizer)) {
    return unsupported("normalizer", normalizer, "none for byte-level BPE");
  }
  if (byte_level != json_object_get(root, "pre_tokenizer") || json_is_false(json_object_get(byte_level, "use_regex"))) {
    return unsupported("pre_tokenizer", json_object_get(root, "pre_tokenizer"),
                       "ByteLevel alone, with its own expression (\"use_regex\")");
  }
  tokenizer->keep_blanks = 1;
  tokenizer->prefix_blank =
      json_is_true(json_object_get(byte_level, "add_prefix_space")) ? TSR_BLANK_EACH : TSR_BLANK_NEVER;
  tsr_bpe *bpe;
  TSR_TRY(tsr_bpe_read(tsr_fast_name, json_object_get(json_object_get(root, "model"), "merges"), &bpe));
  side->segmenter = tsr_bpe_segmenter(bpe);
  return TSR_OK;
}

static tsr_status open_segmenter(const json_t *root, tsr_tokenizer *tokenizer, tsr_tokenizer_side *side)
{
  const json_t *byte_level = find_pre_tokenizer(root, "ByteLevel");
  int is_bpe = strcmp(type_of(json_object_get(root, "model")), "BPE") == 0;
  if (is_bpe) {
    TSR_TRY(check_merging(json_object_get(root, "model")));
  }
  if (is_bpe && byte_level) {
    return open_byte_level(root, byte_level, tokenizer, side);
  }
  const json_t *model = json_object_get(root, "model");
  tokenizer->unk_each = is_bpe && !json_is_true(json_object_get(model, "fuse_unk")) &&
                        !json_is_true(json_object_get(model, "byte_fallback"));
  tsr_fast_spaces spaces;
  TSR_TRY(tsr_fast_read_spaces(root, &spaces));
  const int has_table = spaces.charmap && spaces.charmap[0]; /* which makes blanks of white space, or nothing */
  tokenizer->splits_white = spaces.white && !has_table;
  return tsr_fast_make_pieces(root, &spaces, side, &side->segmenter, &tokenizer->plain);
}

/* ------------------------------------------------------------------------------------------------------------------
 * post_processor: the ids around a text
 */
static tsr_status put_id(const json_t *id, const tsr_vocabulary *vocabulary, int32_t *ids, int32_t *n)
{
  json_int_t value = json_integer_value(id);
  if (!json_is_integer(id) || value < 0 || value >= tsr_vocabulary_size(vocabulary) || *n == TSR_FRAME_MOST) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: key \"post_processor\": expected ids of the vocabulary, at most %d, found %s",
                    tsr_fast_name, (int)TSR_FRAME_MOST, tsr_json_show(id).text);
  }
  ids[(*n)++] = (int32_t)value;
  return TSR_OK;
}

/* {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": ...}, ...], "special_tokens": {"<s>": {"ids": [0]}}} */
static tsr_status read_template(const json_t *processor, const tsr_vocabulary *vocabulary, tsr_frame *frame)
{
  const json_t *single = json_object_get(processor, "single");
  int is_behind = 0;
  for (size_t i = 0; i < json_array_size(single); i++) {
    const json_t *part = json_array_get(single, i);
    if (json_object_get(part, "Sequence")) {
      is_behind = 1;
      continue;
    }
    const char *name = json_string_value(json_object_get(json_object_get(part, "SpecialToken"), "id"));
    const json_t *token = name ? json_object_get(json_object_get(processor, "special_tokens"), name) : NULL;
    const json_t *ids = json_object_get(token, "ids");
    if (json_array_size(ids) == 0) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: key \"post_processor\": %s has no ids among \"special_tokens\"",
                      tsr_fast_name, tsr_json_show(part).text);
    }
    for (size_t k = 0; k < json_array_size(ids); k++) {
      TSR_TRY(put_id(json_array_get(ids, k), vocabulary, is_behind ? frame->after : frame->before,
                     is_behind ? &frame->n_after : &frame->n_before));
    }
  }
  return TSR_OK;
}

static tsr_status read_processor(const json_t *processor, const tsr_vocabulary *vocabulary, tsr_frame *frame)
{
  const char *type = type_of(processor);
  if (!processor || json_is_null(processor) || strcmp(type, "ByteLevel") == 0) {
    return TSR_OK;
  }
  if (strcmp(type, "TemplateProcessing") == 0) {
    return read_template(processor, vocabulary, frame);
  }
  if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0) {
    TSR_TRY(put_id(json_array_get(json_object_get(processor, "cls"), 1), vocabulary, frame->before, &frame->n_before));
    return put_id(json_array_get(json_object_get(processor, "sep"), 1), vocabulary, frame->after, &frame->n_after);
  }
  return unsupported("post_processor", processor, "TemplateProcessing or RobertaProcessing");
}

static tsr_status read_frame(const json_t *root, const tsr_vocabulary *vocabulary, tsr_frame *frame)
{
  const json_t *processor = json_object_get(root, "post_processor");
  *frame = (tsr_frame){.n_before = 0};
  if (strcmp(type_of(processor), "Sequence") != 0) {
    return read_processor(processor, vocabulary, frame);
  }
  const json_t *parts = json_object_get(processor, "processors");
  for (size_t i = 0; i < json_array_size(parts); i++) {
    TSR_TRY(read_processor(json_array_get(parts, i), vocabulary, frame));
  }
  return TSR_OK;
}

/* Gemma's tokenizer_config.json has the last word. */
static tsr_status read_gemma_ends(tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  const tsr_frame *frame = &tokenizer->side[TSR_SIDE_SOURCE].frame;
  return tsr_config_has(&files->options, "add_bos_token") || tsr_config_has(&files->options, "add_eos_token")
             ? tsr_gemma_read_ends(files, frame->n_before > 0, frame->n_after > 0, tokenizer)
             : TSR_OK;
}

/* ------------------------------------------------------------------------------------------------------------------
 * The whole
 */
tsr_status tsr_fast_open(const tsr_tokenizer_kind *kind, tsr_tokenizer_files *files, tsr_tokenizer *tokenizer)
{
  tsr_tokenizer_side *side = &tokenizer->side[TSR_SIDE_SOURCE];
  TSR_TRY(tsr_files_fast(files));
  TSR_TRY(read_vocabulary(files, side));
  TSR_TRY(open_segmenter(files->fast, tokenizer, side));
  tsr_tokenizer_share_sides(tokenizer);
  TSR_TRY(tsr_tokenizer_find_specials(files, tokenizer));
  for (int32_t i = 0; i < TSR_SIDES; i++) {
    TSR_TRY(read_frame(files->fast, side->vocabulary, &tokenizer->side[i].frame));
  }
  return kind->data == &tsr_layout_gemma ? read_gemma_ends(files, tokenizer) : TSR_OK;
}

tsr_status tsr_fast_encode_plain(tsr_encoding *to, const char *text, size_t size, int32_t where)
{
  return (to->tokenizer->keep_blanks ? tsr_bart_encode_plain : tsr_t5_encode_plain)(to, text, size, where);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Every kind of tokenizer against the original's recorded results, languages, and folders that are broken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "core/checkpoint/file.h"
#include "core/text/added_tokens.h"
#include "core/text/tokenizer.h"
#include "tests/support/sanitized.h"
#include "tests/support/spm_writer.h"
#include "tests/support/temporary.h"
#include "tests/support/tokens.h"

#define MARK "\xE2\x96\x81"

/* ------------------------------------------------------------------------------------------------------------------
 * Recorded results
 */
static void expect_ids(const char *name, const json_t *expected, const int32_t *ids, int32_t n_ids, const char *text)
{
  int equal = json_array_size(expected) == (size_t)n_ids;
  for (int32_t i = 0; i < n_ids && equal; i++) {
    equal = json_integer_value(json_array_get(expected, (size_t)i)) == ids[i];
  }
  if (equal) {
    return;
  }
  char found[1024] = "";
  for (int32_t i = 0; i < n_ids && strlen(found) < sizeof found - 16; i++) {
    sprintf(found + strlen(found), " %d", (int)ids[i]);
  }
  fail_msg("%s: other ids than recorded of \"%s\":%s", name, text, found);
}

static void expect_text(const char *name, const json_t *expected, const char *found)
{
  if (strcmp(json_string_value(expected), found) != 0) {
    fail_msg("%s: \"%s\", recorded is \"%s\"", name, found, json_string_value(expected));
  }
}

/* Ids of each text and, where they were recorded, tokens and the text that comes back. */
static void compare(const char *name, const tsr_tokenizer *tokenizer, const json_t *texts, const json_t *all_ids,
                    const json_t *all_tokens, const json_t *all_decoded)
{
  assert_true(json_array_size(all_ids) >= 52);
  for (size_t i = 0; i < json_array_size(all_ids); i++) {
    const json_t *text = json_array_get(texts, i);
    int32_t *ids;
    int32_t n_ids;
    assert_int_equal(tsr_tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), &ids, &n_ids),
                     TSR_OK);
    expect_ids(name, json_array_get(all_ids, i), ids, n_ids, json_string_value(text));
    for (int32_t k = 0; k < n_ids && all_tokens; k++) {
      const json_t *token = json_array_get(json_array_get(all_tokens, i), (size_t)k);
      expect_text(name, token, tsr_tokenizer_token(tokenizer, TSR_SIDE_SOURCE, ids[k]));
    }
    char *decoded;
    assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, n_ids, &decoded), TSR_OK);
    if (all_decoded) {
      expect_text(name, json_array_get(all_decoded, i), decoded);
    }
    tsr_free(decoded);
    tsr_free(ids);
  }
}

typedef struct recorded_case {
  const char *name; /* in hf_golden.json */
  const char *folder;
  const char *file; /* copied, with `second`, into a folder of its own */
  const char *second;
  const char *options; /* tokenizer_config.json */
  const char *source;  /* language; NULL: the default */
} recorded_case;

static const char recordings[] = TESSERA_SOURCE_ROOT "/tests/data/goldens/tokenizers";

static const recorded_case recorded_cases[] = {
    {"t5_legacy", "t5", "spiece.model", NULL, "{\"tokenizer_class\":\"T5Tokenizer\"}", NULL},
    {"t5_new", "t5", "spiece.model", NULL, "{\"tokenizer_class\":\"T5TokenizerFast\",\"legacy\":false}", NULL},
    {"m2m_100_en", "m2m_100", "sentencepiece.bpe.model", "vocab.json", "{}", NULL},
    {"nllb_eng_Latn", "nllb", "sentencepiece.bpe.model", NULL, "{\"tokenizer_class\":\"NllbTokenizer\"}", "eng_Latn"},
    {"mbart25_en_XX", "nllb", "sentencepiece.bpe.model", NULL, "{\"tokenizer_class\":\"MBartTokenizer\"}", NULL},
    {"mbart50_en_XX", "nllb", "sentencepiece.bpe.model", NULL, "{\"tokenizer_class\":\"MBart50Tokenizer\"}", "en_XX"},
    {"pegasus", "pegasus", "spiece.model", NULL, "{\"tokenizer_class\":\"PegasusTokenizer\"}", NULL},
    {"bart", "bart", "vocab.json", "merges.txt", "{}", NULL},
};

static tsr_tokenizer *open_case(const char *folder, const recorded_case *c)
{
  char path[4096];
  const char *const files[] = {c->file, c->second};
  for (int i = 0; i < 2; i++) {
    if (files[i]) {
      snprintf(path, sizeof path, "%s/%s/%s", recordings, c->folder, files[i]);
      copy_file(path, path_in(folder, files[i]));
    }
  }
  write_text(path_in(folder, "tokenizer_config.json"), c->options);
  tsr_tokenizer *tokenizer;
  if (tsr_tokenizer_open_folder(folder, &tokenizer) != TSR_OK) {
    fail_msg("%s: %s", c->name, tsr_error_message());
  }
  assert_int_equal(tsr_tokenizer_set_languages(tokenizer, c->source, NULL), TSR_OK);
  return tokenizer;
}

/* The ids of languages and of <mask>. */
static void compare_languages(const char *name, const tsr_tokenizer *tokenizer, const json_t *golden)
{
  const char *code;
  json_t *id;
  json_object_foreach(json_object_get(golden, "lang_ids"), code, id)
  {
    const char *token = tsr_tokenizer_token(tokenizer, TSR_SIDE_SOURCE, (int32_t)json_integer_value(id));
    char marked[64];
    snprintf(marked, sizeof marked, "__%s__", code);
    if (strcmp(token, code) != 0 && strcmp(token, marked) != 0) {
      fail_msg("%s: the token \"%s\" where %s is recorded", name, token, code);
    }
  }
  if (json_object_get(golden, "mask_id")) {
    assert_string_equal(
        tsr_tokenizer_token(tokenizer, 0, (int32_t)json_integer_value(json_object_get(golden, "mask_id"))), "<mask>");
  }
}

static void test_recorded(void **state)
{
  (void)state;
  json_error_t error;
  json_t *recorded = json_load_file(path_in(recordings, "hf_golden.json"), JSON_ALLOW_NUL, &error);
  assert_non_null(recorded);
  for (size_t i = 0; i < sizeof recorded_cases / sizeof recorded_cases[0]; i++) {
    const recorded_case *c = &recorded_cases[i];
    char *folder = make_temporary_folder();
    tsr_tokenizer *tokenizer = open_case(folder, c);
    const json_t *golden = json_object_get(recorded, c->name);
    const json_t *texts = json_object_get(golden, "texts");
    compare(c->name, tokenizer, texts, json_object_get(golden, "input_ids"), json_object_get(golden, "tokens"),
            json_object_get(golden, "decoded_skip_special"));
    compare_languages(c->name, tokenizer, golden);
    if (strcmp(c->name, "nllb_eng_Latn") == 0) {
      assert_int_equal(tsr_tokenizer_set_languages(tokenizer, "fra_Latn", NULL), TSR_OK);
      compare("nllb_fra_Latn_ids", tokenizer, texts, json_object_get(recorded, "nllb_fra_Latn_ids"), NULL, NULL);
    }
    tsr_tokenizer_close(tokenizer);
    remove_temporary_folder(folder);
  }
  json_decref(recorded);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Small folders made here
 */
/* spm ids: <unk> 0, <s> 1, </s> 2, then the pieces. */
static void write_pieces(const char *path)
{
  static const char *const pieces[] = {MARK "a", MARK, "a", "b"};
  spm_writer model = {0};
  spm_add_piece(&model, "<unk>", 5, 0, SPM_UNKNOWN);
  spm_add_piece(&model, "<s>", 3, 0, SPM_CONTROL);
  spm_add_piece(&model, "</s>", 4, 0, SPM_CONTROL);
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
    spm_add_piece(&model, pieces[i], strlen(pieces[i]), (float)-(int)i - 1, SPM_NORMAL);
  }
  write_file(path, model.bytes, model.size);
  spm_finish(&model);
}

static void expect_side(const tsr_tokenizer *tokenizer, int32_t side, const char *text, const char *expected)
{
  expect_tokens(tokenizer, side, text, strlen(text), expected);
}

static tsr_tokenizer *open_with(const char *folder, const char *options)
{
  write_text(path_in(folder, "tokenizer_config.json"), options);
  tsr_tokenizer *tokenizer;
  if (tsr_tokenizer_open_folder(folder, &tokenizer) != TSR_OK) {
    fail_msg("%s: %s", options, tsr_error_message());
  }
  return tokenizer;
}

static void expect_search(const tsr_tokenizer *tokenizer, const char *forced, const char *start)
{
  tsr_tokenizer_info info;
  assert_int_equal(tsr_tokenizer_get_info(tokenizer, &info), TSR_OK);
  assert_string_equal(tsr_tokenizer_token(tokenizer, 1, info.forced_bos_id), forced);
  assert_string_equal(tsr_tokenizer_token(tokenizer, 1, info.decoder_start_id), start);
}

/* Where each kind wants the languages. */
static void test_languages(void **state)
{
  (void)state;
  static const struct {
    const char *options;
    const char *source;
    const char *target;
    const char *source_tokens; /* of "a" */
    const char *target_tokens;
    const char *forced;
    const char *start;
  } cases[] = {
      {"NllbTokenizer\"", "fra_Latn", "deu_Latn", "fra_Latn " MARK "a </s>", "deu_Latn " MARK "a </s>", "deu_Latn", ""},
      {"NllbTokenizer\",\"legacy_behaviour\":true", "fra_Latn", "deu_Latn", MARK "a </s> fra_Latn",
       MARK "a </s> deu_Latn", "deu_Latn", ""},
      {"NllbTokenizerFast\",\"src_lang\":\"ace_Arab\",\"tgt_lang\":\"zul_Latn\"", NULL, NULL, "ace_Arab " MARK "a </s>",
       "zul_Latn " MARK "a </s>", "zul_Latn", ""},
      {"MBartTokenizer\"", "ro_RO", "zh_CN", MARK "a </s> ro_RO", MARK "a </s> zh_CN", "", "zh_CN"},
      {"MBart50Tokenizer\"", NULL, "sl_SI", "en_XX " MARK "a </s>", "sl_SI " MARK "a </s>", "sl_SI", ""},
  };
  char *folder = make_temporary_folder();
  write_pieces(path_in(folder, "sentencepiece.bpe.model"));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char options[256];
    snprintf(options, sizeof options, "{\"tokenizer_class\":\"%s}", cases[i].options);
    tsr_tokenizer *tokenizer = open_with(folder, options);
    assert_int_equal(tsr_tokenizer_set_languages(tokenizer, cases[i].source, cases[i].target), TSR_OK);
    expect_side(tokenizer, TSR_SIDE_SOURCE, "a", cases[i].source_tokens);
    expect_side(tokenizer, TSR_SIDE_TARGET, "a", cases[i].target_tokens);
    expect_search(tokenizer, cases[i].forced, cases[i].start);
    tsr_tokenizer_close(tokenizer);
  }
  remove_temporary_folder(folder);
}

static void expect_unknown(tsr_tokenizer *tokenizer, const char *source, const char *target, const char *fragment)
{
  assert_int_equal(tsr_tokenizer_set_languages(tokenizer, source, target), TSR_ERR_ARGUMENT);
  assert_message_has(fragment);
}

static void test_unknown_languages(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  write_pieces(path_in(folder, "sentencepiece.bpe.model"));
  tsr_tokenizer *tokenizer = open_with(folder, "{\"tokenizer_class\":\"NllbTokenizer\"}");
  assert_int_equal(tsr_tokenizer_n_languages(tokenizer), 202);
  assert_string_equal(tsr_tokenizer_language(tokenizer, 0), "ace_Arab");
  assert_null(tsr_tokenizer_language(tokenizer, 202));
  assert_string_equal(tsr_tokenizer_chosen_language(tokenizer, 0), "eng_Latn");
  assert_null(tsr_tokenizer_chosen_language(tokenizer, 1));
  expect_unknown(tokenizer, NULL, "fra",
                 "target language \"fra\" is not one of the 202 that this tokenizer has; the nearest: fra_Latn");
  expect_unknown(tokenizer, "zho_hans", NULL, "the nearest: zho_Hans, zho_Hant");
  expect_unknown(tokenizer, NULL, "frn_Latn", "fra_Latn");
  expect_unknown(tokenizer, "", NULL, "the source language \"\" is not one");
  /* Nothing to decode into, and no language for a target. */
  int32_t *ids;
  int32_t n_ids;
  assert_int_equal(tsr_tokenizer_encode_target(tokenizer, "a", 1, &ids, &n_ids), TSR_ERR_ARGUMENT);
  assert_message_has("no target language was chosen");
  assert_null(ids);
  tsr_tokenizer_close(tokenizer);

  write_text(path_in(folder, "tokenizer_config.json"), "{\"tokenizer_class\":\"MBartTokenizer\",\"src_lang\":\"fr\"}");
  assert_int_equal(tsr_tokenizer_open_folder(folder, &tokenizer), TSR_ERR_ARGUMENT);
  assert_message_has("tokenizer_config.json: key \"src_lang\": the source language \"fr\" is not one of the 25");
  assert_message_has("fr_XX");
  remove_temporary_folder(folder);

  /* T5 has none. */
  folder = make_temporary_folder();
  write_pieces(path_in(folder, "spiece.model"));
  write_text(path_in(folder, "tokenizer_config.json"), "{\"tokenizer_class\":\"T5Tokenizer\",\"pad_token\":\"<s>\"}");
  assert_int_equal(tsr_tokenizer_open_folder(folder, &tokenizer), TSR_OK);
  expect_unknown(tokenizer, NULL, "fr", "a tokenizer of the kind t5 without tokens of languages");
  tsr_tokenizer_close(tokenizer);
  remove_temporary_folder(folder);
}

/* A multilingual Marian model: the target's language stands before the source, unless the text names one itself. */
static void test_marian_languages(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  write_pieces(path_in(folder, "source.spm"));
  write_pieces(path_in(folder, "target.spm"));
  write_text(path_in(folder, "vocab.json"),
             "{\"</s>\":0,\"<unk>\":1,\"" MARK "a\":2,\">>fra<<\":3,\">>deu<<\":4,\"<pad>\":5}");
  tsr_tokenizer *tokenizer = open_with(folder, "{}");
  assert_string_equal(tsr_tokenizer_kind_name(tokenizer), "marian");
  assert_int_equal(tsr_tokenizer_n_languages(tokenizer), 2);
  expect_side(tokenizer, TSR_SIDE_SOURCE, "a", MARK "a </s>");
  expect_unknown(tokenizer, "fra", NULL, "marks only the target language");
  expect_unknown(tokenizer, NULL, "fr", "the nearest: fra, deu");
  assert_int_equal(tsr_tokenizer_set_languages(tokenizer, NULL, "deu"), TSR_OK);
  expect_side(tokenizer, TSR_SIDE_SOURCE, "a", ">>deu<< " MARK "a </s>");
  expect_side(tokenizer, TSR_SIDE_SOURCE, ">>fra<< a", ">>fra<< " MARK "a </s>");
  expect_side(tokenizer, TSR_SIDE_SOURCE, ">> a", ">>deu<< <unk> <unk> " MARK "a </s>"); /* names no language */
  expect_side(tokenizer, TSR_SIDE_TARGET, "a", MARK "a </s>");
  assert_int_equal(tsr_tokenizer_set_languages(tokenizer, NULL, ">>fra<<"), TSR_OK);
  expect_side(tokenizer, TSR_SIDE_SOURCE, "a", ">>fra<< " MARK "a </s>");
  expect_search(tokenizer, "", "");
  tsr_tokenizer_close(tokenizer);
  remove_temporary_folder(folder);
}

/* What the folder says of added tokens goes before the documented layout. */
static void test_added_tokens(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  write_pieces(path_in(folder, "sentencepiece.bpe.model"));
  static const char added[] =
      "\"added_tokens_decoder\":{"
      "\"20\":{\"content\":\"fra_Latn\",\"special\":true},\"21\":{\"content\":\"eng_Latn\",\"special\":true},"
      "\"9\":{\"content\":\"[x]\",\"lstrip\":true,\"rstrip\":true},\"300\":{\"content\":\"word\",\"single_word\":true}"
      "}";
  char options[1024];
  snprintf(options, sizeof options, "{\"tokenizer_class\":\"NllbTokenizer\",%s}", added);
  write_text(path_in(folder, "tokenizer_config.json"), options);
  tsr_tokenizer *tokenizer;
  assert_int_equal(tsr_tokenizer_open_folder(folder, &tokenizer), TSR_ERR_FORMAT);
  assert_message_has("have the same id"); /* the layout's languages, behind 7 pieces */
  remove_temporary_folder(folder);

  folder = make_temporary_folder();
  write_pieces(path_in(folder, "spiece.model"));
  snprintf(options, sizeof options,
           "{\"tokenizer_class\":\"T5Tokenizer\",\"pad_token\":\"<s>\",\"extra_ids\":2,"
           "\"model_max_length\":1000000000000000019884624838656,%s}",
           added);
  tokenizer = open_with(folder, options);
  tsr_tokenizer_info info;
  assert_int_equal(tsr_tokenizer_get_info(tokenizer, &info), TSR_OK);
  assert_int_equal(info.source_vocabulary, 301);
  expect_side(tokenizer, 0, "a [x] b", MARK "a [x] " MARK " b </s>");
  expect_side(tokenizer, 0, "word", "word </s>");
  expect_side(tokenizer, 0, "awords", MARK "a <unk> </s>");
  expect_side(tokenizer, 0, "a<extra_id_1>b", MARK "a <extra_id_1> " MARK " b </s>");
  expect_side(tokenizer, 0, "a</s>", MARK "a </s>"); /* T5 writes no second one */
  char *text;
  assert_int_equal(tsr_tokenizer_decode(tokenizer, (int32_t[]){3, 9, 20, 300, 250, 6}, 6, &text), TSR_OK);
  assert_string_equal(text, "a[x]wordb");
  tsr_free(text);
  tsr_tokenizer_close(tokenizer);
  /* What a folder calls special is left out of texts; an object of that name is something else. */
  static const char *const named[] = {"\"additional_special_tokens\":[\"[x]\"]", "\"extra_special_tokens\":[\"[x]\"]",
                                      "\"extra_special_tokens\":{\"sign\":\"[x]\"}"};
  for (int i = 0; i < 3; i++) {
    snprintf(options, sizeof options,
             "{\"tokenizer_class\":\"T5Tokenizer\",\"pad_token\":\"<s>\",\"extra_ids\":2,%s,%s}", named[i], added);
    tokenizer = open_with(folder, options);
    assert_int_equal(tsr_tokenizer_decode(tokenizer, (int32_t[]){3, 9, 6}, 3, &text), TSR_OK);
    assert_string_equal(text, i < 2 ? "ab" : "a[x]b");
    tsr_free(text);
    tsr_tokenizer_close(tokenizer);
  }
  remove_temporary_folder(folder);
}

static const char *match(const tsr_added_tokens *tokens, const char *text, size_t at)
{
  const tsr_added_token *found = tsr_added_tokens_match(tokens, text, strlen(text), at);
  return found ? found->text : "";
}

/* The longest counts that may stand there. */
static void test_longest_added(void **state)
{
  (void)state;
  static const char *const texts[] = {"ab", "abd", "b", "abc", "abcde", "abd", "\xFF", "abx"};
  tsr_added_tokens tokens = {0};
  assert_null(tsr_added_tokens_find(&tokens, "ab"));
  for (int32_t i = 0; i < 8; i++) {
    assert_int_equal(tsr_added_tokens_add(&tokens, texts[i], i, i == 4 ? TSR_ADDED_WORD : 0), TSR_OK);
  }
  assert_int_equal(tokens.count, 7);
  assert_int_equal(tsr_added_tokens_add(&tokens, "", 9, 0), TSR_OK);
  tsr_added_tokens_sort(&tokens);
  assert_string_equal(match(&tokens, "abcde", 0), "abcde");
  assert_string_equal(match(&tokens, "abcdef", 0), "abc");
  assert_string_equal(match(&tokens, "xabd", 1), "abd");
  assert_string_equal(match(&tokens, "abe", 0), "ab");
  assert_string_equal(match(&tokens, "abe", 1), "b");
  assert_string_equal(match(&tokens, "a", 0), "");
  assert_string_equal(match(&tokens, "\xFF", 0), "\xFF");
  assert_string_equal(match(&tokens, "c", 0), "");
  assert_int_equal(tsr_added_tokens_find(&tokens, "abd")->id, 1); /* the first one's */
  assert_null(tsr_added_tokens_find(&tokens, "abcd"));
  tsr_added_tokens_finish(&tokens);
}

/* Catalogues of things are tokens, too: hundreds of thousands that begin with the same character. What takes a time
 * that grows with their square, or with their product with the text's length, does not end in the time of a test. */
static void test_many_added(void **state)
{
  (void)state;
  enum { MANY = 400000, LENGTH = 20000 };
  tsr_added_tokens tokens = {0};
  char text[32];
  for (int32_t i = 0; i < MANY; i++) {
    snprintf(text, sizeof text, "<item_%d>", (int)i);
    assert_int_equal(tsr_added_tokens_add(&tokens, text, i, 0), TSR_OK);
  }
  tsr_added_tokens_sort(&tokens);
  for (int32_t i = 0; i < MANY; i += 997) {
    snprintf(text, sizeof text, "a<item_%d>b", (int)i);
    const tsr_added_token *found = tsr_added_tokens_match(&tokens, text, strlen(text), 1);
    assert_non_null(found);
    assert_int_equal(found->id, i);
  }
  char *signs = malloc(LENGTH);
  assert_non_null(signs);
  memset(signs, '<', LENGTH);
  for (size_t at = 0; at < LENGTH; at++) {
    assert_null(tsr_added_tokens_match(&tokens, signs, LENGTH, at));
  }
  free(signs);
  tsr_added_tokens_finish(&tokens);
}

static void expect_refused(const char *folder, const char *options, tsr_status expected, const char *fragment)
{
  write_text(path_in(folder, "tokenizer_config.json"), options);
  tsr_tokenizer *tokenizer;
  tsr_status status = tsr_tokenizer_open_folder(folder, &tokenizer);
  if (status != expected) {
    fail_msg("%s: status %d: %s", options, (int)status, tsr_error_message());
  }
  assert_null(tokenizer);
  assert_message_has(fragment);
}

static void test_broken_folders(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  expect_refused(folder, "{}", TSR_ERR_UNSUPPORTED, "tell which tokenizer this is");
  expect_refused(folder, "{\"tokenizer_class\":\"BertTokenizer\"}", TSR_ERR_UNSUPPORTED,
                 "tokenizer_config.json: key \"tokenizer_class\": this build has no tokenizer \"BertTokenizer\"");
  expect_refused(
      folder,
      "{\"tokenizer_class\":\"T5Tokenizer\",\"extra_ids\":-1,\"model_max_length\":1000000000000000019884624838656}",
      TSR_ERR_IO, "spiece.model: cannot be opened");
  expect_refused(folder, "{\"tokenizer_class\":7}", TSR_ERR_FORMAT, "key \"tokenizer_class\": expected");
  static const struct {
    const char *class;
    const char *file;
  } missing[] = {
      {"T5Tokenizer", "spiece.model"},
      {"PegasusTokenizer", "spiece.model"},
      {"MBartTokenizer", "sentencepiece.bpe.model"},
      {"NllbTokenizer", "sentencepiece.bpe.model"},
      {"M2M100Tokenizer", "sentencepiece.bpe.model"},
      {"MarianTokenizer", "source.spm"},
  };
  for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++) {
    char options[128];
    char fragment[128];
    snprintf(options, sizeof options, "{\"tokenizer_class\":\"%s\"}", missing[i].class);
    snprintf(fragment, sizeof fragment, "%s: cannot be opened", missing[i].file);
    expect_refused(folder, options, TSR_ERR_IO, fragment);
  }
  write_pieces(path_in(folder, "sentencepiece.bpe.model"));
  expect_refused(folder, "{\"tokenizer_class\":\"M2M100Tokenizer\"}", TSR_ERR_IO, "vocab.json");
  expect_refused(folder, "{\"tokenizer_class\":\"M2M100Tokenizer\",\"language_codes\":\"all\"}", TSR_ERR_UNSUPPORTED,
                 "key \"language_codes\": expected \"m2m100\" or \"wmt21\", found \"all\"");
  expect_refused(folder, "{\"tokenizer_class\":\"NllbTokenizer\",\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}",
                 TSR_ERR_FORMAT, "key \"added_tokens_decoder\": expected ids and tokens");
  expect_refused(folder, "{\"tokenizer_class\":\"NllbTokenizer\",\"added_tokens_decoder\":{\"5\":{}}}", TSR_ERR_FORMAT,
                 "key \"added_tokens_decoder\": expected ids and tokens");
  expect_refused(folder,
                 "{\"tokenizer_class\":\"NllbTokenizer\",\"added_tokens_decoder\":{\"16777216\":{\"content\":\"y\"}}}",
                 TSR_ERR_FORMAT, "the id 16777216 is beyond the model's vocabulary");
  expect_refused(folder, "{\"tokenizer_class\":\"NllbTokenizer\",\"eos_token\":\"<end>\"}", TSR_ERR_FORMAT,
                 "token \"<end>\" is missing");
  expect_refused(folder, "{\"tokenizer_class\":\"NllbTokenizer\",\"sp_model_kwargs\":{\"enable_sampling\":true}}",
                 TSR_ERR_UNSUPPORTED, "key \"sp_model_kwargs\": this build does not sample pieces");
  write_text(path_in(folder, "sentencepiece.bpe.model"), "nothing");
  expect_refused(folder, "{\"tokenizer_class\":\"NllbTokenizer\"}", TSR_ERR_FORMAT,
                 "sentencepiece.bpe.model: not a SentencePiece model");
  tsr_tokenizer *tokenizer;
  assert_int_equal(tsr_tokenizer_open_as(folder, "words", &tokenizer), TSR_ERR_ARGUMENT);
  assert_message_has("the kinds are marian, t5");
  remove_temporary_folder(folder);
}

/* ---- texts that are far too long --------------------------------------------------------------------------------- */

enum { LONG_TEXT = 270000, MOST = 256 };

/* Words and sentences; letters without a blank; characters of a script without blanks. */
static size_t write_long_text(int kind, char *text)
{
  static const char *const words[] = {"the ", "house ", "is ", "unbelievably ", "old. ", "\xc3\xa9t\xc3\xa9, ",
                                      "2024 "};
  uint32_t draw = 1;
  size_t size = 0;
  while (size < LONG_TEXT) {
    draw = draw * 1664525u + 1013904223u;
    uint32_t number = draw >> 16;
    if (kind == 0) {
      size += (size_t)sprintf(text + size, "%s", words[number % (sizeof words / sizeof words[0])]);
    } else if (kind == 1) {
      text[size++] = (char)('a' + number % 26);
    } else {
      size += (size_t)sprintf(text + size, "\xe4%c%c", (char)(0xb8 + number % 8), (char)(0x80 + (number >> 4) % 64));
    }
  }
  return size;
}

/* What is kept of a text whose end nobody tokenizes is what would be kept of the whole. 0: the text makes few tokens
 * (letters that the tokenizer does not know are one), and is tokenized to its end. */
static int check_long_text(const char *name, const tsr_tokenizer *tokenizer, const char *text, size_t size)
{
  int32_t *ids, *empty, n_ids, n_empty;
  tsr_source source;
  assert_int_equal(tsr_tokenizer_encode(tokenizer, text, size, &ids, &n_ids), TSR_OK);
  assert_int_equal(tsr_tokenizer_encode(tokenizer, "", 0, &empty, &n_empty), TSR_OK);
  assert_int_equal(tsr_source_prepare(tokenizer, text, size, MOST, TSR_LONG_CUT, &source), TSR_OK);
  assert_int_equal(source.n_parts, 1);
  int has_more = source.has_more;
  if (n_ids > 2 * MOST) {
    assert_int_equal(source.n_ids[0], MOST);
    assert_int_equal(has_more, 1);
  } else {
    assert_int_equal(has_more, 0);
    assert_int_equal(source.n_tokens, n_ids);
    n_empty = MOST; /* nothing to compare */
  }
  assert_true(!has_more || (source.n_tokens > 2 * MOST && source.n_tokens < n_ids));
  for (int32_t i = 0; i < MOST - n_empty; i++) {
    if (source.ids[0][i] != ids[i]) {
      fail_msg("%s: token %d is %d, of the whole text %d", name, (int)i, (int)source.ids[0][i], (int)ids[i]);
    }
  }
  assert_int_equal(source.ids[0][source.n_ids[0] - 1], ids[n_ids - 1]);
  tsr_source_finish(&source);
  tsr_free(empty);
  tsr_free(ids);
  return has_more;
}

static void test_long_texts(void **state)
{
  (void)state;
  char *text = malloc(LONG_TEXT + 64);
  assert_non_null(text);
  const size_t step = TEST_IS_SANITIZED ? 4 : 1;
  int n_cut = 0;
  for (size_t c = 0; c < sizeof recorded_cases / sizeof recorded_cases[0]; c += step) {
    char *folder = make_temporary_folder();
    tsr_tokenizer *tokenizer = open_case(folder, &recorded_cases[c]);
    n_cut += check_long_text(recorded_cases[c].name, tokenizer, text, write_long_text((int)(c % 3), text));
    tsr_tokenizer_close(tokenizer);
    remove_temporary_folder(folder);
  }
  assert_true(n_cut > (TEST_IS_SANITIZED ? 1 : 4));
  free(text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_recorded),          cmocka_unit_test(test_languages),
      cmocka_unit_test(test_unknown_languages), cmocka_unit_test(test_marian_languages),
      cmocka_unit_test(test_added_tokens),      cmocka_unit_test(test_broken_folders),
      cmocka_unit_test(test_long_texts),        cmocka_unit_test(test_longest_added),
      cmocka_unit_test(test_many_added),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

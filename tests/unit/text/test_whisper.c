/* SPDX-License-Identifier: Apache-2.0
 *
 * Whisper's tokenizer against the original's recorded results (TESSERA_GOLDENS names another folder of recordings), and
 * folders that lack files or have others.
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

#include <math.h>

#include "core/text/tokenizer.h"
#include "tessera/speech.h"
#include "tests/support/goldens.h"
#include "tests/support/temporary.h"
#include "tests/support/tokens.h"

/* ---- recorded ---------------------------------------------------------------------------------------------------- */

typedef struct recording {
  json_t *golden;
  tsr_tokenizer *tokenizer;
  char folder[4096];
} recording;

static tsr_tokenizer *open_folder(const char *folder)
{
  tsr_tokenizer *tokenizer;
  if (tsr_tokenizer_open_folder(folder, &tokenizer) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  return tokenizer;
}

static int setup(void **state)
{
  static recording r;
  const char *path = golden_path(TESSERA_SOURCE_ROOT, "speech/tokenizer/golden.json");
  if (!path) {
    return 0;
  }
  json_error_t error;
  r.golden = json_load_file(path, JSON_ALLOW_NUL, &error);
  assert_non_null(r.golden);
  snprintf(r.folder, sizeof r.folder, "%s", path);
  *strrchr(r.folder, '/') = '\0';
  r.tokenizer = open_folder(r.folder);
  *state = &r;
  return 0;
}

static int teardown(void **state)
{
  recording *r = *state;
  if (r) {
    tsr_tokenizer_close(r->tokenizer);
    json_decref(r->golden);
  }
  return 0;
}

static const json_t *get(const json_t *object, const char *key)
{
  const json_t *value = json_object_get(object, key);
  if (!value) {
    fail_msg("the recording has no %s", key);
  }
  return value;
}

static int32_t id_of(const json_t *golden, const char *key)
{
  return (int32_t)json_integer_value(get(get(golden, "vocabulary"), key));
}

/* The ids of a list; the caller frees them. */
static int32_t *read_ids(const json_t *list, int32_t *n)
{
  *n = (int32_t)json_array_size(list);
  int32_t *ids = malloc(((size_t)*n + 1) * sizeof *ids);
  assert_non_null(ids);
  for (int32_t i = 0; i < *n; i++) {
    ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
  }
  return ids;
}

static void expect_ids(const json_t *list, const int32_t *ids, int32_t n, const char *what)
{
  int32_t n_expected;
  int32_t *expected = read_ids(list, &n_expected);
  int equal = n == n_expected;
  for (int32_t i = 0; i < n && equal; i++) {
    equal = ids[i] == expected[i];
  }
  if (!equal) {
    fail_msg("other ids than recorded of \"%s\"", what);
  }
  free(expected);
}

static void test_tokens(void **state)
{
  const recording *r = *state;
  if (!r) {
    skip();
  }
  assert_string_equal(tsr_tokenizer_kind_name(r->tokenizer), "whisper");
  tsr_speech_tokens tokens;
  assert_int_equal(tsr_speech_get_tokens(r->tokenizer, &tokens), TSR_OK);
  assert_int_equal(tokens.end_of_text, id_of(r->golden, "endoftext"));
  assert_int_equal(tokens.start_of_transcript, id_of(r->golden, "startoftranscript"));
  assert_int_equal(tokens.translate, id_of(r->golden, "translate"));
  assert_int_equal(tokens.transcribe, id_of(r->golden, "transcribe"));
  assert_int_equal(tokens.start_of_lm, id_of(r->golden, "startoflm"));
  assert_int_equal(tokens.start_of_prev, id_of(r->golden, "startofprev"));
  assert_int_equal(tokens.no_speech, id_of(r->golden, "nospeech"));
  assert_int_equal(tokens.no_timestamps, id_of(r->golden, "notimestamps"));
  assert_int_equal(tokens.timestamp_begin, id_of(r->golden, "timestamp_begin"));
  const int32_t first = id_of(r->golden, "first_language");
  const int32_t n = id_of(r->golden, "last_language") - first + 1;
  assert_int_equal(tsr_tokenizer_n_languages(r->tokenizer), n);
  for (int32_t i = 0; i < n; i++) {
    assert_int_equal(tsr_speech_language_id(r->tokenizer, i), first + i);
    const char *code = tsr_tokenizer_language(r->tokenizer, i);
    const char *name = tsr_speech_language_name(code);
    assert_non_null(name);
    int32_t found = -1;
    assert_int_equal(tsr_speech_find_language(r->tokenizer, name, &found), TSR_OK);
    assert_int_equal(found, i);
    assert_int_equal(tsr_speech_find_language(r->tokenizer, code, &found), TSR_OK);
    assert_int_equal(found, i);
  }
  tsr_tokenizer_info info;
  assert_int_equal(tsr_tokenizer_get_info(r->tokenizer, &info), TSR_OK);
  assert_int_equal(info.target_vocabulary, id_of(r->golden, "vocab_size"));
  assert_int_equal(info.eos_id, tokens.end_of_text);
  assert_int_equal(info.forced_bos_id, -1);
}

static void test_encode(void **state)
{
  const recording *r = *state;
  if (!r) {
    skip();
  }
  const json_t *texts = get(get(r->golden, "encode"), "texts");
  const json_t *all = get(get(r->golden, "encode"), "ids");
  assert_true(json_array_size(texts) > 0);
  for (size_t i = 0; i < json_array_size(texts); i++) {
    const json_t *text = json_array_get(texts, i);
    int32_t *ids;
    int32_t n;
    assert_int_equal(tsr_speech_encode(r->tokenizer, json_string_value(text), json_string_length(text), &ids, &n),
                     TSR_OK);
    expect_ids(json_array_get(all, i), ids, n, json_string_value(text));
    tsr_free(ids);
  }
}

/* With the prefix, from the parts and as a folder whose tokenizer_config.json chooses it. */
static void test_prefix(void **state)
{
  const recording *r = *state;
  if (!r) {
    skip();
  }
  size_t at;
  json_t *c;
  json_array_foreach(get(get(r->golden, "encode_with_prefix"), "cases"), at, c)
  {
    const char *language = json_string_value(json_object_get(c, "language"));
    const char *task = json_string_value(json_object_get(c, "task"));
    const char *text = json_string_value(json_object_get(c, "text"));
    const int32_t has_timestamps = json_is_true(json_object_get(c, "predict_timestamps"));
    int32_t index = -1;
    if (language) {
      assert_int_equal(tsr_speech_find_language(r->tokenizer, language, &index), TSR_OK);
    }
    int32_t prefix[TSR_SPEECH_PREFIX], n;
    const int32_t chosen = !task                            ? TSR_SPEECH_NO_TASK
                           : strcmp(task, "translate") == 0 ? TSR_SPEECH_TRANSLATE
                                                            : TSR_SPEECH_TRANSCRIBE;
    assert_int_equal(tsr_speech_prefix(r->tokenizer, index, chosen, has_timestamps, prefix, &n), TSR_OK);
    expect_ids(get(c, "prefix_tokens"), prefix, n, text);
    if (!task && !has_timestamps) { /* what tokenizer_config.json chooses where it is silent */
      int32_t *ids;
      assert_int_equal(tsr_tokenizer_set_languages(r->tokenizer, language, NULL), TSR_OK);
      assert_int_equal(tsr_tokenizer_encode(r->tokenizer, text, strlen(text), &ids, &n), TSR_OK);
      expect_ids(get(c, "ids"), ids, n, text);
      tsr_free(ids);
    }
  }
}

static void test_prompt(void **state)
{
  const recording *r = *state;
  if (!r) {
    skip();
  }
  const json_t *prompt = get(r->golden, "get_prompt_ids");
  const char *text = json_string_value(get(prompt, "text"));
  char spaced[1024];
  snprintf(spaced, sizeof spaced, "\t %s\n ", text);
  int32_t *ids;
  int32_t n;
  for (int i = 0; i < 2; i++) {
    const char *given = i ? spaced : text;
    assert_int_equal(tsr_speech_prompt(r->tokenizer, given, strlen(given), &ids, &n), TSR_OK);
    expect_ids(get(prompt, "ids"), ids, n, given);
    tsr_free(ids);
  }
  static const char *const refused[] = {"one <|en|> two", "<|0.20|>", "<|endoftext|>"};
  for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
    assert_int_equal(tsr_speech_prompt(r->tokenizer, refused[i], strlen(refused[i]), &ids, &n), TSR_ERR_ARGUMENT);
    assert_message_has("expected text alone");
    assert_null(strstr(tsr_error_message(), "tsr_")); /* a user of the program reads it */
    assert_null(ids);
  }
}

static void expect_decoded(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n, int32_t keep,
                           const json_t *expected)
{
  char *text;
  assert_int_equal(tsr_speech_decode(tokenizer, ids, n, keep, 0, &text), TSR_OK);
  if (strcmp(text, json_string_value(expected)) != 0) {
    fail_msg("keep %d: \"%s\", recorded is \"%s\"", (int)keep, text, json_string_value(expected));
  }
  tsr_free(text);
}

static void expect_offsets(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n_ids, const json_t *expected)
{
  tsr_speech_offset *offsets;
  int32_t n;
  assert_int_equal(tsr_speech_offsets(tokenizer, ids, n_ids, 0, &offsets, &n), TSR_OK);
  assert_int_equal(n, json_array_size(expected));
  for (int32_t i = 0; i < n; i++) {
    const json_t *one = json_array_get(expected, (size_t)i);
    assert_string_equal(offsets[i].text, json_string_value(get(one, "text")));
    const json_t *times = get(one, "timestamp");
    assert_true(fabs(offsets[i].start - json_number_value(json_array_get(times, 0))) < 1e-6);
    assert_true(fabs(offsets[i].end - json_number_value(json_array_get(times, 1))) < 1e-6);
  }
  tsr_free(offsets);
}

static void test_decode(void **state)
{
  const recording *r = *state;
  if (!r) {
    skip();
  }
  const int32_t vocabulary = id_of(r->golden, "vocab_size");
  size_t at;
  json_t *c;
  json_array_foreach(get(get(r->golden, "decode"), "cases"), at, c)
  {
    int32_t n;
    int32_t *ids = read_ids(get(c, "ids"), &n);
    const tsr_tokenizer *tokenizer = r->tokenizer;
    expect_decoded(tokenizer, ids, n, TSR_SPEECH_KEEP_SPECIAL, get(c, "decode"));
    expect_decoded(tokenizer, ids, n, 0, get(c, "skip_special_tokens"));
    expect_decoded(tokenizer, ids, n, TSR_SPEECH_KEEP_SPECIAL | TSR_SPEECH_KEEP_TIMESTAMPS,
                   get(c, "decode_with_timestamps"));
    expect_decoded(tokenizer, ids, n, TSR_SPEECH_KEEP_TIMESTAMPS, get(c, "skip_special_tokens+decode_with_timestamps"));
    expect_offsets(tokenizer, ids, n, get(c, "offsets"));
    int is_inside = 1;
    for (int32_t i = 0; i < n; i++) {
      is_inside = is_inside && ids[i] < vocabulary;
    }
    char *text;
    if (is_inside) {
      assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, n, &text), TSR_OK);
      assert_string_equal(text, json_string_value(get(c, "skip_special_tokens")));
    } else {
      assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, n, &text), TSR_ERR_ARGUMENT);
    }
    tsr_free(text);
    free(ids);
  }
}

/* ---- folders made here ------------------------------------------------------------------------------------------- */

/* Text a b ab \303 \251 (as U+00C3 and U+00A9), then the tokens of a model with two languages and four timestamps. */
static const char vocabulary[] =
    "{\"a\":0,\"b\":1,\"ab\":2,\"\xC3\x83\":3,\"\xC2\xA9\":4,\"\":5,\"\xC4\xA0\":19,\".\":20}";
static const char fast_json[] =
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,\"\xC3\x83\":3,\"\xC2\xA9\":4,\"\":5,\"\xC4\xA0\":"
    "19,\".\":20},"
    "\"merges\":[\"a b\"]},\"added_tokens\":["
    "{\"id\":6,\"content\":\"<|endoftext|>\",\"special\":true},"
    "{\"id\":7,\"content\":\"<|startoftranscript|>\",\"special\":true},"
    "{\"id\":8,\"content\":\"<|en|>\",\"special\":true},"
    "{\"id\":9,\"content\":\"<|tlh|>\",\"special\":true},"
    "{\"id\":10,\"content\":\"<|translate|>\",\"special\":true},"
    "{\"id\":11,\"content\":\"<|transcribe|>\",\"special\":true},"
    "{\"id\":12,\"content\":\"<|startofprev|>\",\"special\":true},"
    "{\"id\":13,\"content\":\"<|nocaptions|>\",\"special\":true},"
    "{\"id\":14,\"content\":\"<|notimestamps|>\",\"special\":true},"
    "{\"id\":15,\"content\":\"<|0.00|>\"},"
    "{\"id\":16,\"content\":\"<|0.02|>\"},"
    "{\"id\":17,\"content\":\"<|0.04|>\"},"
    "{\"id\":18,\"content\":\"<|0.06|>\"}]}";

static const char added_json[] =
    "{\"<|endoftext|>\":6,\"<|startoftranscript|>\":7,\"<|en|>\":8,\"<|tlh|>\":9,\"<|translate|>\":10,"
    "\"<|transcribe|>\":11,\"<|startofprev|>\":12,\"<|nocaptions|>\":13,\"<|notimestamps|>\":14,\"<|0.00|>\":15,"
    "\"<|0.02|>\":16,\"<|0.04|>\":17,\"<|0.06|>\":18}";
static const char specials_json[] =
    "{\"unk_token\":{\"content\":\"\"},\"additional_special_tokens\":[\"<|endoftext|>\",\"<|startoftranscript|>\","
    "\"<|en|>\",\"<|tlh|>\",\"<|translate|>\",\"<|transcribe|>\",\"<|startofprev|>\",\"<|nocaptions|>\","
    "\"<|notimestamps|>\"]}";

static void expect_kept(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n, int32_t keep, int32_t positions,
                        const char *expected)
{
  char *text;
  assert_int_equal(tsr_speech_decode(tokenizer, ids, n, keep, positions, &text), TSR_OK);
  assert_string_equal(text, expected);
  tsr_free(text);
}

/* What each of the folders gives. */
static void expect_small(const tsr_tokenizer *tokenizer)
{
  assert_string_equal(tsr_tokenizer_kind_name(tokenizer), "whisper");
  expect_tokens(tokenizer, TSR_SIDE_TARGET, "aab<|en|>b", 10,
                "<|startoftranscript|> <|notimestamps|> a ab <|en|> b <|endoftext|>");
  tsr_speech_tokens tokens;
  assert_int_equal(tsr_speech_get_tokens(tokenizer, &tokens), TSR_OK);
  const tsr_speech_tokens expected = {6, 7, 10, 11, -1, 12, 13, 14, 15};
  assert_memory_equal(&tokens, &expected, sizeof tokens);
  assert_int_equal(tsr_tokenizer_n_languages(tokenizer), 2);
  assert_string_equal(tsr_tokenizer_language(tokenizer, 1), "tlh");
  static const int32_t ids[] = {12, 0, 7, 8, 14, 2, 3, 4, 3, 5, 99, -1, 6};
  expect_kept(tokenizer, ids, 13, 0, 0, "ab\xC3\xA9\xEF\xBF\xBD");
  expect_kept(tokenizer, ids, 13, TSR_SPEECH_KEEP_SPECIAL, 0,
              "<|startofprev|>a<|startoftranscript|><|en|><|notimestamps|>ab\xC3\xA9\xEF\xBF\xBD<|endoftext|>");
  expect_kept(tokenizer, ids, 2, 0, 0, ""); /* a prompt alone */
  /* A single timestamp ends the window of 3 steps; then pairs do, of which the second timestamp is dropped. */
  static const int32_t windows[] = {15, 0, 17, 15, 1, 16, 18, 15, 0, 17};
  expect_kept(tokenizer, windows, 10, TSR_SPEECH_KEEP_TIMESTAMPS, 3,
              "<|0.00|>a<|0.04|><|0.06|>b<|0.08|><|0.08|>a<|0.12|>");
  expect_kept(tokenizer, windows, 10, 0, 3, "aba");
  tsr_speech_offset *offsets;
  int32_t n;
  assert_int_equal(tsr_speech_offsets(tokenizer, windows, 10, 3, &offsets, &n), TSR_OK);
  assert_int_equal(n, 3);
  assert_string_equal(offsets[1].text, "b");
  assert_true(fabs(offsets[1].start - 0.06) < 1e-9 && fabs(offsets[1].end - 0.08) < 1e-9);
  assert_true(fabs(offsets[2].start - 0.08) < 1e-9 && fabs(offsets[2].end - 0.12) < 1e-9);
  tsr_free(offsets);
}

static void test_folders(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  write_text(path_in(folder, "vocab.json"), vocabulary);
  write_text(path_in(folder, "merges.txt"), "#version: 0.2\na b\n");
  write_text(path_in(folder, "added_tokens.json"), added_json);
  write_text(path_in(folder, "special_tokens_map.json"), specials_json);
  tsr_tokenizer *tokenizer = open_folder(folder);
  expect_small(tokenizer);
  tsr_tokenizer_close(tokenizer);
  /* What tokenizer_config.json chooses. */
  write_text(path_in(folder, "tokenizer_config.json"),
             "{\"tokenizer_class\":\"WhisperTokenizerFast\",\"language\":\"English\",\"task\":\"translate\","
             "\"predict_timestamps\":true,\"clean_up_tokenization_spaces\":true}");
  tokenizer = open_folder(folder);
  expect_tokens(tokenizer, TSR_SIDE_SOURCE, "a", 1, "<|startoftranscript|> <|en|> <|translate|> a <|endoftext|>");
  assert_int_equal(tsr_tokenizer_set_languages(tokenizer, NULL, "tlh"), TSR_OK);
  expect_tokens(tokenizer, TSR_SIDE_TARGET, "a", 1, "<|startoftranscript|> <|tlh|> <|translate|> a <|endoftext|>");
  static const int32_t spaced[] = {0, 19, 20};
  char *text;
  assert_int_equal(tsr_tokenizer_decode(tokenizer, spaced, 3, &text), TSR_OK);
  assert_string_equal(text, "a ."); /* nothing is cleaned up */
  tsr_free(text);
  tsr_tokenizer_close(tokenizer);
  remove_temporary_folder(folder);
  /* One file alone. */
  folder = make_temporary_folder();
  write_text(path_in(folder, "tokenizer.json"), fast_json);
  tokenizer = open_folder(folder);
  expect_small(tokenizer);
  tsr_tokenizer_close(tokenizer);
  remove_temporary_folder(folder);
}

static void test_names(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  write_text(path_in(folder, "tokenizer.json"), fast_json);
  tsr_tokenizer *tokenizer = open_folder(folder);
  static const char *const english[] = {"en", "EN", "<|en|>", "<|EN|>", "English", "eNGLISH"};
  int32_t index;
  for (size_t i = 0; i < sizeof english / sizeof english[0]; i++) {
    assert_int_equal(tsr_speech_find_language(tokenizer, english[i], &index), TSR_OK);
    assert_int_equal(index, 0);
  }
  assert_string_equal(tsr_speech_language_name("yue"), "cantonese");
  assert_null(tsr_speech_language_name("tlh"));
  assert_null(tsr_speech_language_name(NULL));
  /* A language that the vocabulary lacks, and one that there is not. */
  static const char *const unknown[] = {"castilian", "engl", "<|english|>", "<|en", ""};
  for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
    assert_int_equal(tsr_speech_find_language(tokenizer, unknown[i], &index), TSR_ERR_ARGUMENT);
    assert_message_has("is not one of the 2 that this tokenizer has; the nearest: ");
  }
  tsr_tokenizer_close(tokenizer);
  remove_temporary_folder(folder);
}

/* tokenizer.json with `now` for `before`. */
static void expect_refused(const char *before, const char *now, const char *options, tsr_status status,
                           const char *message)
{
  char text[4096];
  const char *at = strstr(fast_json, before);
  assert_non_null(at);
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - fast_json), fast_json, now, at + strlen(before));
  char *folder = make_temporary_folder();
  write_text(path_in(folder, "tokenizer.json"), text);
  write_text(path_in(folder, "tokenizer_config.json"), options);
  tsr_tokenizer *tokenizer;
  assert_int_equal(tsr_tokenizer_open_as(folder, "whisper", &tokenizer), status);
  assert_message_has(message);
  assert_null(tokenizer);
  remove_temporary_folder(folder);
}

static void test_refused(void **state)
{
  (void)state;
  expect_refused("", "", "{\"task\":\"sing\"}", TSR_ERR_FORMAT,
                 "tokenizer_config.json: key \"task\": expected \"transcribe\" or \"translate\", found \"sing\"");
  expect_refused("", "", "{\"language\":\"french\"}", TSR_ERR_ARGUMENT,
                 "tokenizer_config.json: key \"language\": the source language \"french\" is not one of the 2");
  expect_refused("<|startofprev|>", "<|before|>", "{}", TSR_ERR_FORMAT, "token \"<|startofprev|>\" is missing");
  expect_refused("<|endoftext|>", "<|end|>", "{}", TSR_ERR_FORMAT, "token \"<|endoftext|>\" is missing");
  expect_refused("<|0.02|>", "<|x|>\"},{\"id\":15,\"content\":\"<|0.02|>", "{}", TSR_ERR_FORMAT, "have the same id 15");
  expect_refused("<|notimestamps|>\",\"special\":true},{\"id\":15,\"content\":\"<|0.00|>",
                 "<|0.00|>\",\"special\":true},{\"id\":15,\"content\":\"<|notimestamps|>", "{}", TSR_ERR_FORMAT,
                 "<|0.00|> has the id 14: expected 16, the one behind <|notimestamps|>");
}

static void test_arguments(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  write_text(path_in(folder, "tokenizer.json"), fast_json);
  tsr_tokenizer *tokenizer = open_folder(folder);
  int32_t prefix[TSR_SPEECH_PREFIX], n;
  assert_int_equal(tsr_speech_prefix(tokenizer, 2, 0, 0, prefix, &n), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_prefix(tokenizer, -2, 0, 0, prefix, &n), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_prefix(tokenizer, 0, 3, 0, prefix, &n), TSR_ERR_ARGUMENT);
  assert_message_has("language 0, task 3");
  assert_int_equal(tsr_speech_language_id(tokenizer, 2), -1);
  assert_int_equal(tsr_speech_language_id(NULL, 0), -1);
  char *text;
  assert_int_equal(tsr_speech_decode(tokenizer, prefix, -1, 0, 0, &text), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_decode(tokenizer, prefix, 0, 0, -1, &text), TSR_ERR_ARGUMENT);
  tsr_tokenizer_close(tokenizer);
  remove_temporary_folder(folder);
  const char *bart = golden_path(TESSERA_SOURCE_ROOT, "tokenizers/bart");
  if (bart) { /* of another kind */
    tokenizer = open_folder(bart);
    tsr_speech_tokens tokens;
    assert_int_equal(tsr_speech_get_tokens(tokenizer, &tokens), TSR_ERR_ARGUMENT);
    assert_message_has("tsr_speech_get_tokens: expected a tokenizer of the kind whisper, found bart");
    assert_int_equal(tsr_speech_language_id(tokenizer, 0), -1);
    tsr_tokenizer_close(tokenizer);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tokens), cmocka_unit_test(test_encode),  cmocka_unit_test(test_prefix),
      cmocka_unit_test(test_prompt), cmocka_unit_test(test_decode),  cmocka_unit_test(test_folders),
      cmocka_unit_test(test_names),  cmocka_unit_test(test_refused), cmocka_unit_test(test_arguments),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}

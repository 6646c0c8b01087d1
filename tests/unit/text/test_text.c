/* SPDX-License-Identifier: Apache-2.0
 *
 * Vocabularies, SentencePiece models good and bad, and Marian's tokenizer against the original's recorded results.
 */
#include <math.h>
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
#include "core/text/sentencepiece.h"
#include "core/text/tokenizer.h"
#include "core/text/vocabulary.h"
#include "tests/support/sanitized.h"
#include "tests/support/spm_writer.h"
#include "tests/support/temporary.h"
#include "tests/support/tokens.h"

static const char recorded_model[] = TESSERA_SOURCE_ROOT "/tests/data/marian-en-fr";
static const char recordings[] = TESSERA_SOURCE_ROOT "/tests/data/goldens/tokenizers";

/* ------------------------------------------------------------------------------------------------------------------
 * Vocabularies
 */
static void test_vocabulary(void **state)
{
  (void)state;
  static const char text[] = "{\"</s>\":0,\"b\":4,\"a\":2,\"ab\":1,\"\xE2\x96\x81\":3}";
  tsr_vocabulary *vocabulary;
  assert_int_equal(tsr_vocabulary_parse("vocab.json", text, sizeof text - 1, 7, &vocabulary), TSR_OK);
  assert_int_equal(tsr_vocabulary_size(vocabulary), 7);
  assert_int_equal(tsr_vocabulary_find(vocabulary, "a", 1), 2);
  assert_int_equal(tsr_vocabulary_find(vocabulary, "ab", 2), 1);
  assert_int_equal(tsr_vocabulary_find(vocabulary, "abc", 2), 1);
  assert_int_equal(tsr_vocabulary_find(vocabulary, "abc", 3), -1);
  assert_int_equal(tsr_vocabulary_find(vocabulary, "", 0), -1);
  assert_int_equal(tsr_vocabulary_find(vocabulary, "a\0b", 3), -1);
  assert_string_equal(tsr_vocabulary_token(vocabulary, 3), "\xE2\x96\x81");
  assert_null(tsr_vocabulary_token(vocabulary, 5)); /* an id without a token */
  assert_null(tsr_vocabulary_token(vocabulary, 7));
  assert_null(tsr_vocabulary_token(vocabulary, -1));
  int32_t id;
  assert_int_equal(tsr_vocabulary_require(vocabulary, "b", &id), TSR_OK);
  assert_int_equal(id, 4);
  assert_int_equal(tsr_vocabulary_require(vocabulary, "<unk>", &id), TSR_ERR_FORMAT);
  assert_message_has("vocab.json: token \"<unk>\" is missing");
  tsr_vocabulary_close(vocabulary);
  tsr_vocabulary_close(NULL);
}

static void test_bad_vocabularies(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    const char *fragment;
  } bad[] = {
      {"", "the file is empty"},
      {"[\"a\"]", "expected a JSON object"},
      {"{\"a\":0", "not valid JSON"},
      {"{\"a\":0,\"a\":1}", "duplicate object key"},
      {"{\"a\":0,\"b\":0}", "tokens \"a\" and \"b\" have the same id 0"},
      {"{\"a\":-1}", "token \"a\": expected an id of at least 0, found -1"},
      {"{\"a\":1.0}", "token \"a\": expected an id of at least 0, found 1.0"},
      {"{\"a\":\"1\"}", "token \"a\": expected an id of at least 0, found \"1\""},
      {"{\"a\":null}", "token \"a\": expected an id of at least 0, found null"},
      {"{\"a\":10}", "token \"a\": the id 10 is beyond the model's vocabulary of 10 tokens"},
      {"{\"a\":4294967296}", "token \"a\": the id 4294967296 is beyond"},
      {"{\"b\":1,\"a\":9223372036854775808}", "\"a\": a number is too large"},
      {"{\"a\\u0000\":1}", "not valid JSON"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    tsr_vocabulary *vocabulary;
    if (tsr_vocabulary_parse("vocab.json", bad[i].text, strlen(bad[i].text), 10, &vocabulary) != TSR_ERR_FORMAT) {
      fail_msg("accepted: %s", bad[i].text);
    }
    assert_null(vocabulary);
    assert_message_has("vocab.json: ");
    assert_message_has(bad[i].fragment);
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * SentencePiece models
 */
/* <unk>, three pieces, and no normalisation table. */
static spm_writer make_model(void)
{
  static const char *const pieces[] = {"\xE2\x96\x81", "a", "\xE2\x96\x81\x61\x62"};
  spm_writer model = {0};
  spm_add_pieces(&model, pieces, 3);
  return model;
}

static void expect_good_model(spm_writer *model)
{
  tsr_sentencepiece *loaded;
  assert_int_equal(tsr_sentencepiece_parse("good.spm", model->bytes, model->size, &loaded), TSR_OK);
  tsr_sentencepiece_close(loaded);
  spm_finish(model);
}

static void expect_bad_model(const void *bytes, size_t size, const char *fragment)
{
  tsr_sentencepiece *model;
  assert_int_equal(tsr_sentencepiece_parse("bad.spm", bytes, size, &model), TSR_ERR_FORMAT);
  assert_null(model);
  assert_message_has("bad.spm: ");
  assert_message_has(fragment);
}

static void expect_bad_writer(spm_writer *model, const char *fragment)
{
  expect_bad_model(model->bytes, model->size, fragment);
  spm_finish(model);
}

static void test_bad_pieces(void **state)
{
  (void)state;
  spm_writer model = make_model();
  expect_bad_model(model.bytes, model.size - 1, "not a SentencePiece model");
  expect_good_model(&model);

  expect_bad_model("", 0, "no pieces");
  expect_bad_model("not a model", 11, "not a SentencePiece model");
  expect_bad_model("\x0A\x7F", 2, "not a SentencePiece model");
  expect_bad_model("{\"version\":1}", 13, "not a SentencePiece model");

  static const struct {
    const char *text;
    size_t size;
    double score;
    const char *fragment;
  } bad[] = {
      {"a", 1, -3, "a is already defined"},
      {"", 0, -3, "piece 4 is empty"},
      {"x\0y", 3, -3, "piece 4 is empty or contains a NUL"},
      {"x", 1, NAN, "piece 4: the score is not a finite number"},
      {"x", 1, -INFINITY, "piece 4: the score is not a finite number"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    model = make_model();
    spm_add_piece(&model, bad[i].text, bad[i].size, (float)bad[i].score, SPM_NORMAL);
    expect_bad_writer(&model, bad[i].fragment);
  }
  spm_add_piece(&model, "a", 1, -3, SPM_NORMAL);
  expect_bad_writer(&model, "unk is not defined");

  /* Symbols that contain one another as beginnings: as many as the library has room for, then one more. */
  char symbol[65];
  memset(symbol, 'x', sizeof symbol);
  for (size_t limit = 64; limit <= 65; limit++) {
    model = make_model();
    for (size_t i = 1; i <= limit; i++) {
      spm_add_piece(&model, symbol, i, 0, SPM_USER_DEFINED);
    }
    if (limit == 64) {
      expect_good_model(&model);
    } else {
      expect_bad_writer(&model, "more than 64 user-defined symbols");
    }
  }
}

/* A table with the only entry "A". A unit is (offset << 10 | HAS_VALUE | label), and its children begin at its index
 * XOR its offset. Units that are in nobody's use carry the label 'Z', which matches nothing: where 'Z' would, it is
 * 'Y'. */
enum { UNITS = 512, HAS_VALUE = 1 << 8, UNIT_A = 256 + 'A', VALUE_A = 128 };

static void make_table(uint32_t *units)
{
  for (int i = 0; i < UNITS; i++) {
    units[i] = 'Z';
  }
  units['Z'] = 'Y';
  units[256 + 'Z'] = 'Y';
  units[0] = 256 << 10;
  units[UNIT_A] = (uint32_t)(UNIT_A ^ VALUE_A) << 10 | HAS_VALUE | 'A';
  units[VALUE_A] = 0x80000000u;
  units[VALUE_A ^ 'Z'] = 'Y';
}

static void test_bad_tables(void **state)
{
  (void)state;
  static const char replacements[] = "a\0b";
  uint32_t units[UNITS];
  make_table(units);
  spm_writer model = make_model();
  spm_add_table(&model, sizeof units, units, UNITS, replacements, sizeof replacements);
  expect_good_model(&model);

  /* What the table claims as the size of its index. */
  static const uint32_t wrong_sizes[] = {0, 3, sizeof units + 1, sizeof units + 8, 0xFFFFFFFC, 0xFFFFFFFF};
  for (size_t i = 0; i < sizeof wrong_sizes / sizeof wrong_sizes[0]; i++) {
    model = make_model();
    spm_add_table(&model, wrong_sizes[i], units, UNITS, replacements, sizeof replacements);
    expect_bad_writer(&model, "the normalisation table says");
  }

  static const struct {
    size_t unit;
    uint32_t value;
    size_t replacements_size;
  } damages[] = {
      {0, 512u << 10, 4},                                /* the children lie beyond the end */
      {0, 0x3FFFFFu << 10, 4},                           /* far beyond */
      {0, 0x3FFFFFu << 10 | 0x200, 4},                   /* farther still */
      {UNIT_A, 512u << 10 | 'A', 4},                     /* the grandchildren do */
      {UNIT_A, (uint32_t)(UNIT_A ^ 256) << 10 | 'A', 4}, /* A leads to A, which leads to A */
      {VALUE_A, 0x80000000u | 4, 4},                     /* a replacement beyond the end */
      {VALUE_A, 0xFFFFFFFFu, 4},
      {VALUE_A, 0x80000000u, 1}, /* a replacement without an end */
      {VALUE_A, 0x80000000u, 0}, /* no replacements */
  };
  for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
    make_table(units);
    units[damages[i].unit] = damages[i].value;
    model = make_model();
    spm_add_table(&model, sizeof units, units, UNITS, replacements, damages[i].replacements_size);
    expect_bad_writer(&model, "the index of the normalisation table is damaged");
  }
}

/* A real model cut at many places: an error or a model, never a crash. */
static void test_truncated_model(void **state)
{
  (void)state;
  tsr_file file;
  assert_int_equal(tsr_file_read(path_in(recorded_model, "source.spm"), &file), TSR_OK);
  for (size_t cut = 0; cut < file.size; cut += cut < 64 ? 1 : 9973) {
    unsigned char *bytes = malloc(cut + !cut);
    assert_non_null(bytes);
    memcpy(bytes, file.bytes, cut);
    tsr_sentencepiece *model;
    tsr_status status = tsr_sentencepiece_parse("cut.spm", bytes, cut, &model);
    assert_true(status == TSR_OK || status == TSR_ERR_FORMAT);
    tsr_sentencepiece_close(model);
    free(bytes);
  }
  tsr_file_free(&file);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Marian's tokenizer
 */
static tsr_status open_marian(const char *folder, const tsr_transformer_config *config, tsr_tokenizer **tokenizer)
{
  return tsr_tokenizer_open_kind(folder, tsr_tokenizer_kind_find("marian"), config, tokenizer);
}

static tsr_tokenizer *open_recorded(void)
{
  const tsr_transformer_config config = {TSR_SIZED(tsr_transformer_config), .source_vocabulary = 5001,
                                         .target_vocabulary = 5001, .eos_id = 0};
  tsr_tokenizer *tokenizer;
  assert_int_equal(open_marian(recorded_model, &config, &tokenizer), TSR_OK);
  return tokenizer;
}

#define MARK "\xE2\x96\x81"

static void test_encode(void **state)
{
  (void)state;
  tsr_tokenizer *tokenizer = open_recorded();
  static const struct {
    const char *text;
    size_t size;
    const char *tokens;
  } cases[] = {
#define CASE(text, tokens) {text, sizeof text - 1, tokens}
      CASE("", "</s>"),
      CASE(" \t\n ", "</s>"),
      CASE("I like you.", MARK "I " MARK "like " MARK "you . </s>"),
      CASE("I like</s> you.<pad>", MARK "I " MARK "like </s> " MARK "you . <pad> </s>"),
      CASE("<unk>", "<unk> </s>"),
      CASE("</s", MARK " <unk> / s </s>"),
      /* Codes: unknown to this vocabulary, so <unk>; elsewhere than at the start they vanish. */
      CASE(">>fra<< I", "<unk> " MARK "I </s>"),
      CASE(">>fra<<I", "<unk> " MARK "I </s>"),
      CASE("I >>fra<< you", MARK "I " MARK "you </s>"),
      CASE(">>a<< I >>b<< you", "<unk> " MARK "you </s>"),
      CASE(">>a<<\nI >>b<< you", "<unk> " MARK "I " MARK "you </s>"),
      CASE("I\n>>a<< you", MARK "I " MARK "you </s>"),
      CASE("<pad>>>a<< I", "<pad> <unk> " MARK "I </s>"),
      CASE(">>a<<", "<unk> </s>"),
      CASE(">>>a<<<", "<unk> </s>"),
      /* What is no code: nothing between, not closed, another line between. */
      CASE(">><< I", MARK " <unk> " MARK "I </s>"),
      CASE(">>a", MARK " <unk> a </s>"),
      CASE("<<a>>", MARK " <unk> a <unk> </s>"),
      CASE(">>a\n<<", MARK " <unk> a " MARK " <unk> </s>"),
      /* Invalid UTF-8 and NUL */
      CASE("I \xFF like", MARK "I " MARK " <unk> " MARK "like </s>"),
      CASE("\xE2\x96", MARK " <unk> </s>"),
      CASE("\x80\x81\xC0\xAF\xED\xA0\x80\xF8\x88\x80\x80\x80", MARK " <unk> </s>"),
      CASE(">>\xFF<<", "<unk> </s>"),
#undef CASE
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    expect_tokens(tokenizer, TSR_SIDE_SOURCE, cases[i].text, cases[i].size, cases[i].tokens);
  }

  int32_t *ids;
  int32_t n_ids;
  assert_int_equal(tsr_tokenizer_encode(tokenizer, "a\0b", 3, &ids, &n_ids), TSR_OK);
  tsr_free(ids);
  assert_int_equal(tsr_tokenizer_encode(tokenizer, "", (size_t)1 << 40, &ids, &n_ids), TSR_ERR_ARGUMENT);
  assert_string_equal(tsr_tokenizer_token(tokenizer, 1, 0), "</s>");
  assert_string_equal(tsr_tokenizer_token(tokenizer, 2, 0), "");
  assert_string_equal(tsr_tokenizer_token(tokenizer, 0, 5001), "");
  tsr_tokenizer_close(tokenizer);
}

/* Long texts in which a slow search for codes would show. */
static void test_long_text(void **state)
{
  (void)state;
  tsr_tokenizer *tokenizer = open_recorded();
  const size_t size = TEST_IS_SANITIZED ? 20000 : 200000;
  char *text = malloc(size);
  assert_non_null(text);
  memset(text, '>', size);
  int32_t *ids;
  int32_t n_ids;
  assert_int_equal(tsr_tokenizer_encode(tokenizer, text, size, &ids, &n_ids), TSR_OK);
  tsr_free(ids);
  memset(text, '<', size);
  assert_int_equal(tsr_tokenizer_encode(tokenizer, text, size, &ids, &n_ids), TSR_OK);
  tsr_free(ids);
  free(text);
  tsr_tokenizer_close(tokenizer);
}

static void test_decode(void **state)
{
  (void)state;
  tsr_tokenizer *tokenizer = open_recorded();
  static const char *const tokens[] = {"<pad>", MARK, MARK "I", "<unk>", MARK "you", MARK "!", MARK, "</s>", "<pad>"};
  int32_t ids[sizeof tokens / sizeof tokens[0]];
  const int32_t n_ids = (int32_t)(sizeof tokens / sizeof tokens[0]);
  tsr_vocabulary *vocabulary;
  assert_int_equal(tsr_vocabulary_open(path_in(recorded_model, "vocab.json"), 5001, &vocabulary), TSR_OK);
  for (int32_t i = 0; i < n_ids; i++) {
    assert_int_equal(tsr_vocabulary_require(vocabulary, tokens[i], &ids[i]), TSR_OK);
  }
  tsr_vocabulary_close(vocabulary);

  char *text;
  assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, n_ids, &text), TSR_OK);
  assert_string_equal(text, "I you !");
  tsr_free(text);
  assert_int_equal(tsr_tokenizer_decode(tokenizer, NULL, 0, &text), TSR_OK);
  assert_string_equal(text, "");
  tsr_free(text);
  assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, -1, &text), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_tokenizer_decode(tokenizer, NULL, 1, &text), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_tokenizer_decode(NULL, ids, 1, &text), TSR_ERR_ARGUMENT);
  const int32_t outside[] = {5001, -1, INT32_MAX};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(tsr_tokenizer_decode(tokenizer, &outside[i], 1, &text), TSR_ERR_ARGUMENT);
    assert_null(text);
    assert_message_has("outside the vocabulary of 5001 tokens");
  }
  tsr_tokenizer_close(tokenizer);
}

/* The recorded translations: the ids give the lines. */
static void test_decode_recorded(void **state)
{
  (void)state;
  tsr_tokenizer *tokenizer = open_recorded();
  json_error_t error;
  json_t *recorded = json_load_file(path_in(recorded_model, "recorded/test.beam4.json"), 0, &error);
  FILE *lines = fopen(path_in(recorded_model, "recorded/test.beam4.fr"), "r");
  assert_non_null(recorded);
  assert_non_null(lines);
  assert_int_equal(json_array_size(recorded), 1000);
  size_t index;
  json_t *row;
  json_array_foreach(recorded, index, row)
  {
    int32_t ids[256];
    const json_t *list = json_object_get(row, "ids");
    const size_t n_ids = json_array_size(list);
    assert_true(n_ids <= sizeof ids / sizeof ids[0]);
    for (size_t i = 0; i < n_ids; i++) {
      ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    }
    char expected[4096];
    assert_non_null(fgets(expected, sizeof expected, lines));
    expected[strcspn(expected, "\n")] = 0;
    char *text;
    assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, (int32_t)n_ids, &text), TSR_OK);
    assert_string_equal(text, expected);
    tsr_free(text);
  }
  fclose(lines);
  json_decref(recorded);
  tsr_tokenizer_close(tokenizer);
}

/* A folder with two vocabularies, and what can be wrong with a folder. */
static void test_folders(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  tsr_transformer_config config = {TSR_SIZED(tsr_transformer_config), .source_vocabulary = 6, .target_vocabulary = 5,
                                   .eos_id = 0};
  tsr_tokenizer *tokenizer;
  assert_int_equal(open_marian(folder, &config, &tokenizer), TSR_ERR_IO);
  assert_message_has("source.spm: cannot be opened");
  copy_file(path_in(recorded_model, "source.spm"), path_in(folder, "source.spm"));
  assert_int_equal(open_marian(folder, &config, &tokenizer), TSR_ERR_IO);
  assert_message_has("target.spm: cannot be opened");
  copy_file(path_in(recorded_model, "target.spm"), path_in(folder, "target.spm"));
  assert_int_equal(open_marian(folder, &config, &tokenizer), TSR_ERR_IO);
  assert_message_has("vocab.json: cannot be opened");

  static const char *const bad_vocabularies[][2] = {
      {"{\"<unk>\":1,\"<pad>\":2}", "vocab.json: token \"</s>\" is missing"},
      {"{\"</s>\":1,\"<pad>\":2}", "vocab.json: token \"<unk>\" is missing"},
      {"{\"</s>\":0,\"<unk>\":1,\"x\":6}", "vocab.json: token \"x\": the id 6 is beyond"},
      {"{\"</s>\":3,\"<unk>\":1}", "eos_token_id is 0"},
  };
  for (size_t i = 0; i < sizeof bad_vocabularies / sizeof bad_vocabularies[0]; i++) {
    write_text(path_in(folder, "vocab.json"), bad_vocabularies[i][0]);
    assert_int_equal(open_marian(folder, &config, &tokenizer), TSR_ERR_FORMAT);
    assert_null(tokenizer);
    assert_message_has(bad_vocabularies[i][1]);
  }

  write_text(path_in(folder, "vocab.json"), "{\"</s>\":1,\"<unk>\":2,\"" MARK "I\":3,\"" MARK "you\":5}");
  write_text(path_in(folder, "tokenizer_config.json"), "{\"separate_vocabs\":true}");
  assert_int_equal(open_marian(folder, &config, &tokenizer), TSR_ERR_IO);
  assert_message_has("target_vocab.json: cannot be opened");
  write_text(path_in(folder, "target_vocab.json"), "{\"</s>\":0,\"<unk>\":1,\"<pad>\":2,\"" MARK "Je\":4}");
  assert_int_equal(open_marian(folder, &config, &tokenizer), TSR_OK);
  int32_t *ids;
  int32_t n_ids;
  assert_int_equal(tsr_tokenizer_encode(tokenizer, "I you we", 8, &ids, &n_ids), TSR_OK);
  const int32_t source_ids[] = {3, 5, 2, 1};
  assert_int_equal(n_ids, 4);
  assert_memory_equal(ids, source_ids, sizeof source_ids);
  tsr_free(ids);
  assert_int_equal(tsr_tokenizer_encode_target(tokenizer, "Je", 2, &ids, &n_ids), TSR_OK);
  const int32_t target_ids[] = {4, 0};
  assert_int_equal(n_ids, 2);
  assert_memory_equal(ids, target_ids, sizeof target_ids);
  char *text;
  assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, n_ids, &text), TSR_OK);
  assert_string_equal(text, "Je");
  tsr_free(text);
  tsr_free(ids);
  const int32_t beyond = 5; /* a source token, but no target token */
  assert_int_equal(tsr_tokenizer_decode(tokenizer, &beyond, 1, &text), TSR_ERR_ARGUMENT);
  tsr_tokenizer_close(tokenizer);

  /* Without a model no id may be missing. */
  assert_int_equal(tsr_tokenizer_open_folder(folder, &tokenizer), TSR_ERR_FORMAT);
  assert_message_has("is beyond the model's vocabulary of 4 tokens");
  write_text(path_in(folder, "vocab.json"), "{\"</s>\":1,\"<unk>\":2,\"" MARK "I\":0}");
  write_text(path_in(folder, "target_vocab.json"), "{\"</s>\":3,\"<unk>\":1,\"<pad>\":2,\"" MARK "Je\":0}");
  assert_int_equal(tsr_tokenizer_open_folder(folder, &tokenizer), TSR_OK);
  tsr_tokenizer_info info;
  assert_int_equal(tsr_tokenizer_get_info(tokenizer, &info), TSR_OK);
  const tsr_tokenizer_info expected = {.source_vocabulary = 3,
                                       .target_vocabulary = 4,
                                       .source_pad_id = -1,
                                       .target_pad_id = 2,
                                       .eos_id = 3,
                                       .unk_id = 1,
                                       .forced_bos_id = -1,
                                       .decoder_start_id = -1};
  assert_memory_equal(&info, &expected, sizeof info);
  tsr_tokenizer_close(tokenizer);

  static const char *const bad_options[][2] = {
      {"{\"separate_vocabs\":\"yes\"}", "tokenizer_config.json: key \"separate_vocabs\": expected true or false"},
      {"{\"eos_token\":7}", "tokenizer_config.json: key \"eos_token\": expected a text, found 7"},
      {"{\"unk_token\":{\"text\":\"<unk>\"}}", "key \"unk_token\": expected a text"},
      {"{", "tokenizer_config.json: line 1"},
      {"{\"eos_token\":{\"content\":\"<end>\"}}", "vocab.json: token \"<end>\" is missing"},
  };
  for (size_t i = 0; i < sizeof bad_options / sizeof bad_options[0]; i++) {
    write_text(path_in(folder, "tokenizer_config.json"), bad_options[i][0]);
    assert_int_equal(open_marian(folder, &config, &tokenizer), TSR_ERR_FORMAT);
    assert_message_has(bad_options[i][1]);
  }

  /* One vocabulary for two tables: the larger one bounds its ids. */
  write_text(path_in(folder, "tokenizer_config.json"), "{}");
  write_text(path_in(folder, "vocab.json"), "{\"</s>\":0,\"<unk>\":1,\"" MARK "Je\":7}");
  config.target_vocabulary = 8;
  assert_int_equal(open_marian(folder, &config, &tokenizer), TSR_OK);
  assert_int_equal(tsr_tokenizer_decode(tokenizer, &(int32_t){7}, 1, &text), TSR_OK);
  assert_string_equal(text, "Je");
  tsr_free(text);
  tsr_tokenizer_close(tokenizer);
  remove_temporary_folder(folder);
  tsr_tokenizer_close(NULL);
}

static void expect_ids(const json_t *expected, const int32_t *ids, int32_t n_ids, const char *text)
{
  int equal = json_array_size(expected) == (size_t)n_ids;
  for (int32_t i = 0; i < n_ids && equal; i++) {
    equal = json_integer_value(json_array_get(expected, (size_t)i)) == ids[i];
  }
  if (!equal) {
    fail_msg("other ids than recorded: \"%s\"", text);
  }
}

/* One list of ids and one of texts, made by the original from the same texts. */
static void compare_side(const tsr_tokenizer *tokenizer, int32_t side, const json_t *texts, const json_t *all_ids,
                         const json_t *all_decoded)
{
  for (size_t i = 0; i < json_array_size(all_ids); i++) {
    const json_t *text = json_array_get(texts, i);
    int32_t *ids;
    int32_t n_ids;
    assert_int_equal(
        tsr_tokenizer_encode_side(tokenizer, side, json_string_value(text), json_string_length(text), &ids, &n_ids),
        TSR_OK);
    expect_ids(json_array_get(all_ids, i), ids, n_ids, json_string_value(text));
    char *decoded;
    assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, n_ids, &decoded), TSR_OK);
    assert_string_equal(decoded, json_string_value(json_array_get(all_decoded, i)));
    tsr_free(decoded);
    tsr_free(ids);
  }
}

static void test_recorded(void **state)
{
  (void)state;
  json_error_t error;
  json_t *recorded = json_load_file(path_in(recordings, "hf_golden.json"), JSON_ALLOW_NUL, &error);
  assert_non_null(recorded);
  const json_t *marian = json_object_get(recorded, "marian");
  const tsr_transformer_config config = {TSR_SIZED(tsr_transformer_config), .source_vocabulary = 1084,
                                         .target_vocabulary = 1084, .eos_id = 0};
  tsr_tokenizer *tokenizer;
  assert_int_equal(open_marian(path_in(recordings, "marian"), &config, &tokenizer), TSR_OK);
  const json_t *texts = json_object_get(marian, "texts");
  assert_int_equal(json_array_size(json_object_get(marian, "input_ids")), 59);
  assert_int_equal(json_array_size(json_object_get(marian, "target_input_ids")), 52);
  compare_side(tokenizer, TSR_SIDE_SOURCE, texts, json_object_get(marian, "input_ids"),
               json_object_get(marian, "decoded_skip_special"));
  compare_side(tokenizer, TSR_SIDE_TARGET, texts, json_object_get(marian, "target_input_ids"),
               json_object_get(marian, "target_decoded_skip_special"));
  tsr_tokenizer_close(tokenizer);
  json_decref(recorded);
}

static tsr_status collect_piece(void *user, const char *piece, size_t size)
{
  return json_array_append_new(user, json_stringn(piece, size)) == 0 ? TSR_OK : TSR_ERR_INTERNAL;
}

/* The model's own ids stand for these pieces; what it does not know has the id of <unk>. */
static void expect_pieces_of_ids(const tsr_sentencepiece *model, const json_t *ids, const json_t *pieces)
{
  assert_int_equal(json_array_size(ids), json_array_size(pieces));
  for (size_t i = 0; i < json_array_size(ids); i++) {
    const char *piece = tsr_sentencepiece_piece(model, (int32_t)json_integer_value(json_array_get(ids, i)));
    if (strcmp(piece, "<unk>") != 0) {
      assert_string_equal(piece, json_string_value(json_array_get(pieces, i)));
    }
  }
}

/* Models of every kind pass the check, and give the recorded pieces. */
static void test_recorded_pieces(void **state)
{
  (void)state;
  json_error_t error;
  json_t *recorded = json_load_file(path_in(recordings, "spm_golden.json"), JSON_ALLOW_NUL, &error);
  assert_non_null(recorded);
  const json_t *texts = json_object_get(recorded, "texts");
  const char *name;
  json_t *results;
  json_object_foreach(json_object_get(recorded, "spm"), name, results)
  {
    char file[128];
    snprintf(file, sizeof file, "%s.model", name);
    tsr_sentencepiece *model;
    tsr_file mapped;
    assert_int_equal(tsr_file_read(path_in(recordings, file), &mapped), TSR_OK);
    assert_int_equal(tsr_sentencepiece_parse(file, mapped.bytes, mapped.size, &model), TSR_OK);
    tsr_file_free(&mapped);
    const json_t *pieces = json_object_get(results, "pieces");
    assert_int_equal(tsr_sentencepiece_count(model), json_integer_value(json_object_get(results, "vocab_size")));
    for (size_t i = 0; i < json_array_size(pieces); i++) {
      const json_t *text = json_array_get(texts, i);
      json_t *found = json_array();
      assert_int_equal(
          tsr_sentencepiece_encode(model, json_string_value(text), json_string_length(text), collect_piece, found),
          TSR_OK);
      assert_true(json_equal(found, json_array_get(pieces, i)));
      expect_pieces_of_ids(model, json_array_get(json_object_get(results, "ids"), i), found);
      json_decref(found);
    }
    tsr_sentencepiece_close(model);
  }
  json_decref(recorded);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vocabulary),      cmocka_unit_test(test_bad_vocabularies),
      cmocka_unit_test(test_bad_pieces),      cmocka_unit_test(test_bad_tables),
      cmocka_unit_test(test_truncated_model), cmocka_unit_test(test_encode),
      cmocka_unit_test(test_long_text),       cmocka_unit_test(test_decode),
      cmocka_unit_test(test_decode_recorded), cmocka_unit_test(test_folders),
      cmocka_unit_test(test_recorded),        cmocka_unit_test(test_recorded_pieces),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

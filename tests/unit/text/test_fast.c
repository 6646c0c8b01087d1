/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer.json: files made here of the recorded tokenizers' own files give the recorded ids; what this build has
 * nothing for is named.
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
#include "core/text/base64.h"
#include "core/text/message.h"
#include "core/text/tokenizer.h"
#include "core/text/vocabulary.h"
#include "tests/support/temporary.h"
#include "tests/support/tokens.h"

#define MARK "\xE2\x96\x81"

/* ------------------------------------------------------------------------------------------------------------------
 * A SentencePiece model, read
 */
typedef struct model {
  tsr_file file;
  char pieces[1024][64];
  double scores[1024];
  size_t n;
  const unsigned char *table;
  size_t table_size;
} model;

static uint64_t read_number(const unsigned char **at)
{
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    unsigned char byte = *(*at)++;
    value |= (uint64_t)(byte & 0x7F) << shift;
    if (!(byte & 0x80)) {
      return value;
    }
  }
}

/* Calls itself for the parts: pieces (1) and the normaliser (3), in which 1, 2 are texts. inside: the part, 0: none. */
static void read_fields(model *m, const unsigned char *at, const unsigned char *end, int inside)
{
  while (at < end) {
    uint64_t tag = read_number(&at);
    uint64_t size = (tag & 7) == 2 ? read_number(&at) : (tag & 7) == 5 ? 4 : 0;
    if ((tag & 7) == 0) {
      (void)read_number(&at);
    }
    if (inside == 0 && tag == (1 << 3 | 2)) {
      assert_true(m->n < 1024);
      m->scores[m->n] = 0;
      read_fields(m, at, at + size, 1);
      m->n++;
    } else if (inside == 0 && tag == (3 << 3 | 2)) {
      read_fields(m, at, at + size, 3);
    } else if (inside == 1 && tag == (1 << 3 | 2)) {
      assert_true(size < 64);
      memcpy(m->pieces[m->n], at, size);
      m->pieces[m->n][size] = '\0';
    } else if (inside == 1 && tag == (2 << 3 | 5)) {
      float score;
      memcpy(&score, at, sizeof score);
      m->scores[m->n] = (double)score;
    } else if (inside == 3 && tag == (2 << 3 | 2)) {
      m->table = at;
      m->table_size = size;
    }
    at += size;
  }
}

static model *read_model(const char *path)
{
  model *m = calloc(1, sizeof *m);
  assert_non_null(m);
  assert_int_equal(tsr_file_read(path, &m->file), TSR_OK);
  const unsigned char *bytes = m->file.bytes;
  read_fields(m, bytes, bytes + m->file.size, 0);
  return m;
}

static void finish_model(model *m)
{
  tsr_file_free(&m->file);
  free(m);
}

static json_t *base64(const unsigned char *bytes, size_t size)
{
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *text = malloc(size / 3 * 4 + 8);
  assert_non_null(text);
  size_t used = 0;
  for (size_t i = 0; i < size; i += 3) {
    uint32_t bits =
        (uint32_t)bytes[i] << 16 | (uint32_t)(i + 1 < size ? bytes[i + 1] : 0) << 8 | (i + 2 < size ? bytes[i + 2] : 0);
    for (int k = 0; k < 4; k++) {
      text[used++] = i + (size_t)k > size ? '=' : alphabet[bits >> (18 - 6 * k) & 63];
    }
  }
  json_t *value = json_stringn(text, used);
  free(text);
  return value;
}

/* ------------------------------------------------------------------------------------------------------------------
 * tokenizer.json
 */
static json_t *make_normalizer(const model *m)
{
  return json_pack("{s:s, s:[{s:s, s:o}, {s:s, s:b, s:b}, {s:s, s:{s:s}, s:s}]}", "type", "Sequence", "normalizers",
                   "type", "Precompiled", "precompiled_charsmap", base64(m->table, m->table_size), "type", "Strip",
                   "strip_left", 0, "strip_right", 1, "type", "Replace", "pattern", "Regex", " {2,}", "content", MARK);
}

static void add_token(json_t *list, int id, const char *content, int strips)
{
  json_array_append_new(list,
                        json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", id, "content", content, "single_word", 0,
                                  "lstrip", strips & 1, "rstrip", strips & 2, "normalized", 0, "special", 1));
}

static json_t *make_t5(const model *m, const char *scheme)
{
  json_t *vocab = json_array();
  json_t *added = json_array();
  for (size_t i = 0; i < m->n; i++) {
    json_array_append_new(vocab, json_pack("[s, f]", m->pieces[i], m->scores[i]));
  }
  for (int i = 0; i < 3; i++) {
    add_token(added, i, m->pieces[i], 0);
  }
  for (int k = 99; k >= 0; k--) {
    char token[32];
    snprintf(token, sizeof token, "<extra_id_%d>", k);
    add_token(added, (int)json_array_size(vocab), token, 3);
    json_array_append_new(vocab, json_pack("[s, f]", token, 0.0));
  }
  return json_pack("{s:o, s:o, s:{s:s, s:s, s:s}, s:{s:s, s:i, s:o}, s:{s:s, s:[{s:{s:s}}, {s:{s:s}}], s:{s:{s:[i]}}}}",
                   "added_tokens", added, "normalizer", make_normalizer(m), "pre_tokenizer", "type", "Metaspace",
                   "replacement", MARK, "prepend_scheme", scheme, "model", "type", "Unigram", "unk_id", 2, "vocab",
                   vocab, "post_processor", "type", "TemplateProcessing", "single", "Sequence", "id", "A",
                   "SpecialToken", "id", "</s>", "special_tokens", "</s>", "ids", 1);
}

static int piece_index(const model *m, const char *text, size_t size)
{
  for (size_t i = 0; i < m->n; i++) {
    if (strlen(m->pieces[i]) == size && memcmp(m->pieces[i], text, size) == 0) {
      return (int)i;
    }
  }
  return -1;
}

/* All pairs of pieces that make a piece, in the order of the pieces. */
static json_t *make_merges(const model *m, int as_pairs)
{
  json_t *merges = json_array();
  for (size_t i = 3; i < m->n; i++) {
    size_t size = strlen(m->pieces[i]);
    for (size_t at = 1; at < size; at++) {
      if (piece_index(m, m->pieces[i], at) < 3 || piece_index(m, m->pieces[i] + at, size - at) < 3) {
        continue;
      }
      char left[64];
      char both[130];
      snprintf(left, sizeof left, "%.*s", (int)at, m->pieces[i]);
      snprintf(both, sizeof both, "%s %s", left, m->pieces[i] + at);
      json_array_append_new(merges, as_pairs ? json_pack("[s, s]", left, m->pieces[i] + at) : json_string(both));
    }
  }
  return merges;
}

static json_t *make_nllb(const model *m, const json_t *languages, int as_pairs)
{
  static const char *const fixed[] = {"<s>", "<pad>", "</s>", "<unk>"};
  json_t *vocab = json_object();
  json_t *added = json_array();
  for (int i = 0; i < 4; i++) {
    json_object_set_new(vocab, fixed[i], json_integer(i));
    add_token(added, i, fixed[i], 0);
  }
  for (size_t i = 3; i < m->n; i++) {
    json_object_set_new(vocab, m->pieces[i], json_integer((json_int_t)i + 1));
  }
  const char *id;
  json_t *token;
  json_object_foreach((json_t *)languages, id, token)
  {
    if (atoi(id) > 3) {
      add_token(added, atoi(id), json_string_value(token), strcmp(json_string_value(token), "<mask>") == 0);
    }
  }
  return json_pack("{s:o, s:o, s:{s:s, s:[{s:s}, {s:s, s:s, s:b}]}, s:{s:s, s:s, s:b, s:o, s:o}, s:n}", "added_tokens",
                   added, "normalizer", make_normalizer(m), "pre_tokenizer", "type", "Sequence", "pretokenizers",
                   "type", "WhitespaceSplit", "type", "Metaspace", "replacement", MARK, "add_prefix_space", 1, "model",
                   "type", "BPE", "unk_token", "<unk>", "fuse_unk", 1, "vocab", vocab, "merges",
                   make_merges(m, as_pairs), "post_processor");
}

static json_t *make_bart(const char *folder)
{
  json_error_t error;
  json_t *vocab = json_load_file(path_in(folder, "vocab.json"), 0, &error);
  FILE *file = fopen(path_in(folder, "merges.txt"), "r");
  json_t *merges = json_array();
  json_t *added = json_array();
  char line[256];
  assert_non_null(vocab);
  assert_non_null(file);
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = '\0';
    if (line[0] && line[0] != '#') {
      json_array_append_new(merges, json_string(line));
    }
  }
  fclose(file);
  static const char *const tokens[] = {"<s>", "<pad>", "</s>", "<unk>", "<mask>"};
  for (int i = 0; i < 5; i++) {
    add_token(added, (int)json_integer_value(json_object_get(vocab, tokens[i])), tokens[i], i == 4);
  }
  return json_pack("{s:o, s:n, s:{s:s, s:b, s:b}, s:{s:s, s:o, s:o}, s:{s:s, s:[s, i], s:[s, i]}}", "added_tokens",
                   added, "normalizer", "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 1,
                   "model", "type", "BPE", "vocab", vocab, "merges", merges, "post_processor", "type",
                   "RobertaProcessing", "sep", "</s>", 2, "cls", "<s>", 0);
}

/* Writes the file, takes it, and compares with what was recorded under `name`. */
static void expect_recorded(json_t *file, const char *class, const json_t *recorded, const char *name)
{
  char *folder = make_temporary_folder();
  assert_non_null(file);
  assert_int_equal(json_dump_file(file, path_in(folder, "tokenizer.json"), JSON_REAL_PRECISION(9)), 0);
  json_decref(file);
  char options[128];
  snprintf(options, sizeof options, "{\"tokenizer_class\":\"%s\"}", class);
  write_text(path_in(folder, "tokenizer_config.json"), options);
  tsr_tokenizer *tokenizer;
  if (tsr_tokenizer_open_folder(folder, &tokenizer) != TSR_OK) {
    fail_msg("%s: %s", name, tsr_error_message());
  }
  const json_t *golden = json_object_get(recorded, name);
  const json_t *texts = json_object_get(golden, "texts");
  for (size_t i = 0; i < json_array_size(texts); i++) {
    const json_t *text = json_array_get(texts, i);
    const json_t *expected = json_array_get(json_object_get(golden, "input_ids"), i);
    int32_t *ids;
    int32_t n_ids;
    assert_int_equal(tsr_tokenizer_encode(tokenizer, json_string_value(text), json_string_length(text), &ids, &n_ids),
                     TSR_OK);
    json_t *found = json_array();
    for (int32_t k = 0; k < n_ids; k++) {
      json_array_append_new(found, json_integer(ids[k]));
    }
    if (!json_equal(found, expected)) {
      char *shown = json_dumps(found, 0);
      char *wanted = json_dumps(expected, 0);
      fail_msg("%s (%s): \"%s\": %s, recorded is %s", name, class, json_string_value(text), shown, wanted);
    }
    json_decref(found);
    char *decoded;
    assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, n_ids, &decoded), TSR_OK);
    assert_string_equal(decoded, json_string_value(json_array_get(json_object_get(golden, "decoded_skip_special"), i)));
    tsr_free(decoded);
    tsr_free(ids);
  }
  tsr_tokenizer_close(tokenizer);
  remove_temporary_folder(folder);
}

static const char recordings[] = TESSERA_SOURCE_ROOT "/tests/data/goldens/tokenizers";

static void test_recorded(void **state)
{
  (void)state;
  json_error_t error;
  json_t *recorded = json_load_file(path_in(recordings, "hf_golden.json"), JSON_ALLOW_NUL, &error);
  json_t *languages = json_load_file(path_in(recordings, "nllb/added_tokens_by_id.json"), 0, &error);
  assert_non_null(recorded);
  assert_non_null(languages);
  model *t5 = read_model(path_in(recordings, "t5/spiece.model"));
  model *nllb = read_model(path_in(recordings, "nllb/sentencepiece.bpe.model"));
  expect_recorded(make_t5(t5, "always"), "T5TokenizerFast", recorded, "t5_legacy");
  expect_recorded(make_t5(t5, "first"), "T5Tokenizer", recorded, "t5_new");
  expect_recorded(make_nllb(nllb, languages, 0), "NllbTokenizerFast", recorded, "nllb_eng_Latn");
  expect_recorded(make_nllb(nllb, languages, 1), "NllbTokenizer", recorded, "nllb_eng_Latn");
  char bart[sizeof recordings + sizeof "/bart"];
  snprintf(bart, sizeof bart, "%s/bart", recordings);
  expect_recorded(make_bart(bart), "BartTokenizerFast", recorded, "bart");
  expect_recorded(make_bart(bart), "PreTrainedTokenizerFast", recorded, "bart");
  finish_model(t5);
  finish_model(nllb);
  json_decref(languages);
  json_decref(recorded);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Small files
 */
static void test_base64(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    const char *bytes; /* NULL: refused */
  } cases[] = {
      {"", ""},        {"Zg==", "f"},  {"Zm8=", "fo"}, {"Zm9v", "foo"}, {"Zm9vYg", "foob"}, {"+/+/", "\xFB\xFF\xBF"},
      {"Zm9vY", NULL}, {"Zm 9", NULL}, {"=", ""},      {"Z===", NULL},  {"Zm9-", NULL},     {"====", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    unsigned char bytes[32];
    size_t n_bytes;
    int good = tsr_base64_decode(cases[i].text, strlen(cases[i].text), bytes, &n_bytes);
    assert_int_equal(good, cases[i].bytes != NULL);
    if (good) {
      assert_int_equal(n_bytes, strlen(cases[i].bytes));
      assert_memory_equal(bytes, cases[i].bytes, n_bytes);
    }
  }
}

#define ADDED                                                                                                          \
  "\"added_tokens\":[{\"id\":0,\"content\":\"</"                                                                       \
  "s>\",\"special\":true},{\"id\":1,\"content\":\"<unk>\",\"special\":true}]"
#define UNIGRAM                                                                                                        \
  "\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"</s>\",0],[\"<unk>\",0],[\"" MARK                        \
  "\",-2],[\"a\",-2.5],[\"" MARK "a\",-1]]}"
#define METASPACE "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"" MARK "\"}"
#define BPE(merges)                                                                                                    \
  "\"model\":{\"type\":\"BPE\",\"unk_token\":\"<unk>\",\"vocab\":{\"</s>\":0,\"<unk>\":1,\"a\":2,\"b\":3,\"" MARK      \
  "\":4,\"ab\":5},\"merges\":[" merges "]}"

static tsr_status open_text(const char *folder, const char *text, tsr_tokenizer **tokenizer)
{
  write_text(path_in(folder, "tokenizer.json"), text);
  return tsr_tokenizer_open_folder(folder, tokenizer);
}

static void expect_file(const char *folder, const char *file, const char *text, const char *expected)
{
  tsr_tokenizer *tokenizer;
  if (open_text(folder, file, &tokenizer) != TSR_OK) {
    fail_msg("%s: %s", file, tsr_error_message());
  }
  assert_string_equal(tsr_tokenizer_kind_name(tokenizer), "fast");
  expect_tokens(tokenizer, TSR_SIDE_SOURCE, text, strlen(text), expected);
  tsr_tokenizer_close(tokenizer);
}

static void test_small(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  expect_file(folder, "{" ADDED "," UNIGRAM "," METASPACE "}", "a a</s>a", MARK "a " MARK "a </s> " MARK "a");
  expect_file(folder, "{" ADDED "," UNIGRAM ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":\"never\"}}",
              "aa a", "a a " MARK "a");
  expect_file(folder, "{" ADDED "," UNIGRAM ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":\"first\"}}",
              "a</s>a", MARK "a </s> a");
  /* Runs of blanks stay where nothing collapses them. */
  expect_file(folder, "{" ADDED "," UNIGRAM "," METASPACE "}", "a  a", MARK "a " MARK " " MARK "a");
  expect_file(folder, "{" ADDED "," BPE("\"a b\"") "," METASPACE "}", "ab b", MARK " ab " MARK " b");
  /* WhitespaceSplit takes tabs, no-break blanks and the like for blanks, too, as here no table makes them such. */
#define SPLIT(parts) ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[" parts "]}}"
#define ALWAYS       "{\"type\":\"Metaspace\",\"prepend_scheme\":\"always\"}"
  expect_file(folder, "{" ADDED "," UNIGRAM SPLIT("{\"type\":\"WhitespaceSplit\"}," ALWAYS),
              "a\ta\xC2\xA0 a\xE3\x80\x80"
              "a</s>\x1C",
              MARK "a " MARK "a " MARK "a " MARK "a </s> " MARK " <unk>");
  expect_file(folder,
              "{" ADDED "," UNIGRAM ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"\"}" SPLIT(
                  "{\"type\":\"WhitespaceSplit\"}," ALWAYS),
              "a\ta", MARK "a " MARK "a");
  expect_file(folder, "{" ADDED "," UNIGRAM SPLIT(ALWAYS), "a\ta", MARK "a <unk> a");
#undef ALWAYS
#undef SPLIT
  /* What has no token is an <unk> a character, unless the model fuses them. */
  expect_file(folder, "{" ADDED "," BPE("\"a b\"") "," METASPACE "}", "z\xC3\xA9 b", MARK " <unk> <unk> " MARK " b");
  expect_file(folder, "{" ADDED "," BPE("\"a b\"],\"fuse_unk\":true,\"x\":[") "," METASPACE "}", "z\xC3\xA9 b",
              MARK " <unk> " MARK " b");
  expect_file(folder,
              "{" ADDED
              "," BPE("[\"a\",\"b\"]") ",\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"post_processor\":{\"type\":"
                                       "\"Sequence\",\"processors\":[{\"type\":\"ByteLevel\"},{\"type\":"
                                       "\"TemplateProcessing\",\"single\":[{"
                                       "\"SpecialToken\":{\"id\":\"x\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_"
                                       "tokens\":{\"x\":{\"ids\":[0,0]}}}]}}",
              "abc", "</s> </s> ab <unk>");
  remove_temporary_folder(folder);
}

/* A Unigram model with a piece for each byte: characters that it does not have become bytes, and these become
 * characters again. */
static void test_byte_fallback(void **state)
{
  (void)state;
  static const char text[] = "a\xF0\x9F\x98\x80 \xC3\xA9\xE4\xBD\xA0";
  json_t *vocab = json_pack("[[s, i], [s, i], [s, i], [s, f]]", "</s>", 0, "<unk>", 0, MARK, -2, "a", -2.5);
  for (int byte = 0; byte < 256; byte++) {
    char piece[8];
    snprintf(piece, sizeof piece, "<0x%02X>", (unsigned)byte);
    json_array_append_new(vocab, json_pack("[s, i]", piece, 0));
  }
  json_t *added = json_array();
  add_token(added, 0, "</s>", 0);
  json_t *root = json_pack("{s:o, s:{s:s, s:i, s:b, s:o}, s:{s:s, s:s}}", "added_tokens", added, "model", "type",
                           "Unigram", "unk_id", 1, "byte_fallback", 1, "vocab", vocab, "pre_tokenizer", "type",
                           "Metaspace", "replacement", MARK);
  char *file = json_dumps(root, 0);
  char *folder = make_temporary_folder();
  expect_file(folder, file, text, MARK " a <0xF0> <0x9F> <0x98> <0x80> " MARK " <0xC3> <0xA9> <0xE4> <0xBD> <0xA0>");
  tsr_tokenizer *tokenizer;
  assert_int_equal(tsr_tokenizer_open_folder(folder, &tokenizer), TSR_OK);
  static const int32_t ids[] = {2, 3,        4 + 0xF0, 4 + 0x9F, 4 + 0x98, 4 + 0x80,
                                2, 4 + 0xC3, 4 + 0xA9, 4 + 0xE4, 4 + 0xBD, 4 + 0xA0};
  char *decoded;
  assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, sizeof ids / sizeof ids[0], &decoded), TSR_OK);
  assert_string_equal(decoded, text);
  tsr_free(decoded);
  tsr_tokenizer_close(tokenizer);
  remove_temporary_folder(folder);
  free(file);
  json_decref(root);
}

static void test_refused(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    const char *fragment;
    tsr_status status;
  } cases[] = {
      {"{\"model\":{\"type\":\"WordPiece\"}}",
       "key \"model\": expected the type \"Unigram\" or \"BPE\", found \"WordPiece\"", TSR_ERR_UNSUPPORTED},
      {"{}", "key \"model\": expected the type", TSR_ERR_UNSUPPORTED},
      {"{\"model\":{\"type\":\"Unigram\",\"vocab\":{}}}", "a Unigram model needs a list \"vocab\"", TSR_ERR_FORMAT},
      {"{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\"],[\"</s>\",0],[\"<unk>\",0]]}}",
       "piece 0: expected [\"piece\", score]", TSR_ERR_FORMAT},
      {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"</s>\",0],[\"<unk>\",0]]}}", "a number \"unk_id\"",
       TSR_ERR_FORMAT},
      {"{" ADDED "," UNIGRAM ",\"normalizer\":{\"type\":\"NFKC\"}}",
       "key \"normalizer\": this build does not support {\"type\":\"NFKC\"}", TSR_ERR_UNSUPPORTED},
      {"{" ADDED "," UNIGRAM "," METASPACE
       ",\"normalizer\":{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}}",
       "does not support {\"type\":\"Strip\"", TSR_ERR_UNSUPPORTED},
      {"{" ADDED "," UNIGRAM
       ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Replace\",\"pattern\":{"
       "\"String\":\" \"},\"content\":\"" MARK
       "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"b\"}]}}",
       "does not support {\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"}", TSR_ERR_UNSUPPORTED},
      {"{" ADDED "," UNIGRAM ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"!\"}}",
       "\"precompiled_charsmap\": not base64", TSR_ERR_FORMAT},
      {"{" ADDED "," UNIGRAM ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"////////\"}}",
       "the normalisation table says", TSR_ERR_FORMAT},
      {"{" ADDED "," UNIGRAM ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"prepend_scheme\":\"sometimes\"}}",
       "key \"pre_tokenizer\"", TSR_ERR_UNSUPPORTED},
      {"{" ADDED "," UNIGRAM "," METASPACE ",\"post_processor\":{\"type\":\"Other\"}}",
       "key \"post_processor\": expected TemplateProcessing or RobertaProcessing", TSR_ERR_UNSUPPORTED},
      {"{" ADDED "," UNIGRAM "," METASPACE
       ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}]}}",
       "has no ids among \"special_tokens\"", TSR_ERR_FORMAT},
      {"{" ADDED "," UNIGRAM "," METASPACE ",\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"x\",9]}}",
       "expected ids of the vocabulary", TSR_ERR_FORMAT},
      {"{" ADDED "," BPE("\"b b\"") "," METASPACE "}", "the merge \"b b\" makes no token", TSR_ERR_FORMAT},
      {"{" ADDED "," BPE("\"a b\"],\"dropout\":0.1,\"x\":[") "," METASPACE "}",
       "key \"dropout\": expected none, found 0.1", TSR_ERR_UNSUPPORTED},
      {"{" ADDED "," BPE("") "," METASPACE "}", "whose merges (0) are not all pairs", TSR_ERR_UNSUPPORTED},
      {"{" ADDED "," BPE("\"ab\"") "," METASPACE "}", "expected merges \"a b\" or", TSR_ERR_FORMAT},
      {"{" ADDED "," BPE("7") ",\"pre_tokenizer\":{\"type\":\"ByteLevel\"}}",
       "expected \"a b\" or [\"a\", \"b\"], found 7", TSR_ERR_FORMAT},
      {"{" ADDED "," BPE("\"a b\"") ",\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"use_regex\":false}}",
       "key \"pre_tokenizer\": expected ByteLevel alone", TSR_ERR_UNSUPPORTED},
      {"{\"added_tokens\":[{\"id\":-1,\"content\":\"x\"}]," UNIGRAM "}", "added token \"x\": expected an id",
       TSR_ERR_FORMAT},
      {"{\"added_tokens\":[{\"id\":2}]," UNIGRAM "}", "key \"added_tokens\": expected tokens", TSR_ERR_FORMAT},
  };
  char *folder = make_temporary_folder();
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tsr_tokenizer *tokenizer;
    tsr_status status = open_text(folder, cases[i].text, &tokenizer);
    if (status != cases[i].status) {
      fail_msg("%s: status %d: %s", cases[i].text, (int)status, tsr_error_message());
    }
    assert_null(tokenizer);
    assert_message_has("tokenizer.json: ");
    assert_message_has(cases[i].fragment);
  }
  remove_temporary_folder(folder);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Gemma: a mark for each blank and none before the text, bytes, and runs of blanks that are added tokens, too
 */
enum { GEMMA_BYTES = 4, GEMMA_PIECES = GEMMA_BYTES + 256 };
static const char *const gemma_pieces[] = {MARK, "a", "b", "ab", MARK "a", MARK "ab", MARK MARK};
enum { GEMMA_COUNT = sizeof gemma_pieces / sizeof gemma_pieces[0], GEMMA_CHARACTERS = 3 };
static const char *const gemma_fixed[] = {"<pad>", "<eos>", "<bos>", "<unk>"};

static const char *gemma_piece(int id, char text[16])
{
  if (id < GEMMA_BYTES) {
    return gemma_fixed[id];
  }
  snprintf(text, 16, "<0x%02X>", (unsigned)(id - GEMMA_BYTES));
  return id < GEMMA_PIECES ? text : gemma_pieces[id - GEMMA_PIECES];
}

static json_t *make_gemma(void)
{
  json_t *vocab = json_object();
  json_t *added = json_array();
  char text[16];
  for (int id = 0; id < GEMMA_PIECES + GEMMA_COUNT; id++) {
    json_object_set_new(vocab, gemma_piece(id, text), json_integer(id));
  }
  for (int id = 0; id < GEMMA_BYTES; id++) {
    add_token(added, id, gemma_fixed[id], 0);
  }
  json_array_append_new(added,
                        json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", GEMMA_PIECES + 6, "content", MARK MARK,
                                  "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 0));
  json_t *merges =
      json_pack("[[s, s], [s, s], [s, s], [s, s], [s, s]]", "a", "b", MARK, "a", MARK, "ab", MARK "a", "b", MARK, MARK);
  return json_pack("{s:o, s:{s:s, s:{s:s}, s:s}, s:{s:s, s:{s:s}, s:s, s:b}, s:{s:s, s:s, s:b, s:b, s:o, s:o}, "
                   "s:{s:s, s:[{s:{s:s}}, {s:{s:s}}], s:{s:{s:[i]}}}}",
                   "added_tokens", added, "normalizer", "type", "Replace", "pattern", "String", " ", "content", MARK,
                   "pre_tokenizer", "type", "Split", "pattern", "String", " ", "behavior", "MergedWithPrevious",
                   "invert", 0, "model", "type", "BPE", "unk_token", "<unk>", "fuse_unk", 1, "byte_fallback", 1,
                   "vocab", vocab, "merges", merges, "post_processor", "type", "TemplateProcessing", "single",
                   "SpecialToken", "id", "<bos>", "Sequence", "id", "A", "special_tokens", "<bos>", "ids", 2);
}

/* The same as a SentencePiece model. */
static void write_gemma(const char *path)
{
  tsr_message made = {0}, trainer = {0}, normalizer = {0};
  char text[16];
  for (int id = 0; id < GEMMA_PIECES + GEMMA_COUNT; id++) {
    const char *piece = gemma_piece(id, text);
    const int type = id == 3             ? TSR_PIECE_UNKNOWN
                     : id < GEMMA_BYTES  ? TSR_PIECE_CONTROL
                     : id < GEMMA_PIECES ? TSR_PIECE_BYTE
                                         : TSR_PIECE_NORMAL;
    const float score = id < GEMMA_PIECES + GEMMA_CHARACTERS ? -99.0f : (float)(GEMMA_PIECES - id);
    tsr_message_piece(&made, piece, strlen(piece), type == TSR_PIECE_NORMAL ? score : 0.0f, type);
  }
  tsr_message_varint(&trainer, TSR_TRAINER_TYPE, TSR_TYPE_BPE);
  tsr_message_varint(&trainer, TSR_TRAINER_BYTE_FALLBACK, 1);
  tsr_message_bytes(&made, TSR_MODEL_TRAINER, trainer.bytes, trainer.size);
  tsr_message_varint(&normalizer, TSR_NORMALIZER_DUMMY_PREFIX, 0);
  tsr_message_varint(&normalizer, TSR_NORMALIZER_REMOVE_BLANKS, 0);
  tsr_message_bytes(&made, TSR_MODEL_NORMALIZER, normalizer.bytes, normalizer.size);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(made.bytes, 1, made.size, file), made.size);
  assert_int_equal(fclose(file), 0);
  tsr_message_finish(&made);
  tsr_message_finish(&trainer);
  tsr_message_finish(&normalizer);
}

static void test_gemma(void **state)
{
  enum { A = GEMMA_PIECES + 1, B, AB, MARK_A, MARK_AB, MARKS, MOST = 8 };
  static const struct {
    const char *text;
    int32_t n, ids[MOST];
  } rows[] = {{"ab ab", 3, {2, AB, MARK_AB}}, {" a", 2, {2, MARK_A}},
              {"a  b", 4, {2, A, MARKS, B}},  {"b\xC3\xA9", 4, {2, B, GEMMA_BYTES + 0xC3, GEMMA_BYTES + 0xA9}},
              {"a<eos>", 3, {2, A, 1}},       {"", 1, {2}}};
  (void)state;
  for (int form = 0; form < 4; form++) { /* of tokenizer.model and tokenizer.json: <bos> before, then <eos> behind */
    char *folder = make_temporary_folder();
    tsr_tokenizer *tokenizer;
    const int ends = form >= 2;
    if (form % 2 == 0) {
      json_t *file = make_gemma();
      assert_non_null(file);
      assert_int_equal(json_dump_file(file, path_in(folder, "tokenizer.json"), 0), 0);
      json_decref(file);
    } else {
      write_gemma(path_in(folder, "tokenizer.model"));
    }
    write_text(path_in(folder, "tokenizer_config.json"),
               ends ? "{\"tokenizer_class\":\"GemmaTokenizer\",\"add_bos_token\":false,\"add_eos_token\":true}"
                    : "{\"tokenizer_class\":\"GemmaTokenizerFast\"}");
    if (tsr_tokenizer_open_folder(folder, &tokenizer) != TSR_OK) {
      fail_msg("form %d: %s", form, tsr_error_message());
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
      const int32_t *expected = rows[i].ids + ends, wanted = rows[i].n - ends;
      int32_t *ids;
      int32_t n;
      assert_int_equal(tsr_tokenizer_encode(tokenizer, rows[i].text, strlen(rows[i].text), &ids, &n), TSR_OK);
      if (n != wanted + ends || memcmp(ids, expected, (size_t)wanted * sizeof *ids) != 0 || (ends && ids[n - 1] != 1)) {
        fail_msg("form %d, \"%s\": %d ids, the second %d", form, rows[i].text, (int)n, n > 1 ? (int)ids[1] : -1);
      }
      char *text;
      assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, n, &text), TSR_OK);
      assert_string_equal(text, i == 1 || i == 4 ? "a" : rows[i].text); /* blanks at the ends are left out */
      tsr_free(text);
      tsr_free(ids);
    }
    tsr_tokenizer_close(tokenizer);
    /* A text cannot begin with a token that there is not. */
    write_text(path_in(folder, "tokenizer_config.json"),
               "{\"tokenizer_class\":\"GemmaTokenizer\",\"bos_token\":\"<nope>\",\"add_bos_token\":true}");
    assert_int_equal(tsr_tokenizer_open_folder(folder, &tokenizer), TSR_ERR_FORMAT);
    assert_message_has("token \"<nope>\" is missing");
    remove_temporary_folder(folder);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gemma), cmocka_unit_test(test_recorded),      cmocka_unit_test(test_base64),
      cmocka_unit_test(test_small), cmocka_unit_test(test_byte_fallback), cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

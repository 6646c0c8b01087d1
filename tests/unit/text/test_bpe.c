/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-level BPE: words, merging, every character there and back, and files that are broken.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/utf8.h"
#include "core/text/bpe.h"
#include "core/text/tokenizer.h"
#include "tests/support/temporary.h"
#include "tests/support/tokens.h"

/* The lengths of words, as the original's regular expression finds them. */
static void test_words(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    size_t words[32];
  } cases[] = {
      {"It's they'll  we've I'd I'm don't 'tis rock'n'roll 'S",
       {2, 2, 5, 3, 1, 3, 3, 2, 2, 2, 2, 4, 2, 2, 3, 5, 1, 1, 1, 4, 2, 1}},
      {"a  b   c\012\012d \011 e  ", {1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}},
      {"   lead", {2, 5}},
      {"\302\240\302\240x \343\200\200y", {2, 2, 1, 1, 3, 1}},
      {"x1y22 \302\275\342\221\242 \342\205\247\331\243", {1, 1, 1, 2, 6, 6}},
      {"l'\303\251t\303\251 na\303\257ve \357\254\201n \303\237 \307\205 \312\260", {1, 1, 5, 7, 5, 3, 3, 3}},
      {"e\314\201 \340\271\204\340\270\227\340\270\242 \340\244\225\340\245\215\340\244\267\340\244\277",
       {1, 2, 10, 4, 3, 3, 3}},
      {"\344\275\240\345\245\275\357\274\214\344\270\226\347\225\214\343\200\202 \357\274\221\357\274\222",
       {6, 3, 6, 3, 7}},
      {"\360\237\230\200 \360\237\221\250\342\200\215\360\237\221\251 \357\273\277bom \302\255", {4, 12, 4, 3, 3}},
      {"\034\035 a\302\205b\341\240\216c\342\200\213d", {2, 2, 2, 1, 3, 1, 3, 1}},
      {"''s 'sx ''", {2, 1, 2, 2, 3}},
      {"$1,000.50!\077...", {1, 1, 1, 3, 1, 2, 5}},
      {"\342\200\250\342\200\251 \015\012", {9}},
      {"tab\011end \011", {3, 1, 3, 2}},
      {"\360\235\237\216\360\220\214\260\360\237\207\253", {4, 4, 4}},
      {"a\356\200\200b\315\270c", {1, 3, 1, 2, 1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    size_t size = strlen(cases[i].text);
    size_t at = 0;
    for (int word = 0; at < size; word++) {
      size_t length = tsr_bpe_word(cases[i].text + at, size - at);
      if (length != cases[i].words[word]) {
        fail_msg("text %zu, word %d: %zu bytes, expected %zu", i, word, length, cases[i].words[word]);
      }
      at += length;
    }
    assert_int_equal(at, size);
  }
}

static tsr_status join_piece(void *user, const char *piece, size_t size)
{
  char *text = user;
  if (text[0]) {
    strcat(text, " ");
  }
  strncat(text, piece, size);
  return TSR_OK;
}

static void expect_pieces(const char *merges, const char *text, const char *expected)
{
  tsr_bpe *bpe;
  assert_int_equal(tsr_bpe_parse("merges.txt", merges, strlen(merges), &bpe), TSR_OK);
  tsr_segmenter segmenter = tsr_bpe_segmenter(bpe);
  char found[1024] = "";
  assert_int_equal(segmenter.methods->encode(segmenter.state, text, strlen(text), join_piece, found), TSR_OK);
  assert_string_equal(found, expected);
  tsr_segmenter_close(segmenter);
}

#define BLANK "\xC4\xA0" /* U+0120 */

static void test_merging(void **state)
{
  (void)state;
  expect_pieces("", "ab a", "a b " BLANK " a");
  expect_pieces("#version: 0.2\na b\nab c\n", "abcab", "abc ab");
  /* The order of the merges decides, not that of the text; the same pair is merged from the left. */
  expect_pieces("b c\na b\n", "abc", "a bc");
  expect_pieces("a a\n", "aaaaa", "aa aa a");
  expect_pieces("a a\naa aa\n", "aaaaaaa", "aaaa aa a");
  expect_pieces("a a\naa a\n", "aaaaaaa", "aa aa aaa");
  /* A pair that is listed twice counts as the later one. */
  expect_pieces("a b\nb c\na b\n", "abc", "a bc");
  expect_pieces("\xC3\x83 \xC2\xA9\n" BLANK " x\r\n\n", "\xC3\xA9 x x", "\xC3\x83\xC2\xA9 " BLANK "x " BLANK "x");
  /* What is no UTF-8 is read as U+FFFD, whose bytes are EF BF BD. */
  expect_pieces("", "\xFF", "\xC3\xAF \xC2\xBF \xC2\xBD");
}

static void test_long_words(void **state)
{
  (void)state;
  enum { SIZE = 100000 };
  static const char merges[] = "a a\naa aa\naaaa aaaa\naaaaaaaa aaaaaaaa\n";
  char *text = malloc(SIZE);
  assert_non_null(text);
  memset(text, 'a', SIZE);
  tsr_bpe *bpe;
  assert_int_equal(tsr_bpe_parse("merges.txt", merges, sizeof merges - 1, &bpe), TSR_OK);
  tsr_segmenter segmenter = tsr_bpe_segmenter(bpe);
  char *found = calloc(2, SIZE);
  assert_non_null(found);
  assert_int_equal(segmenter.methods->encode(segmenter.state, text, 1000, join_piece, found), TSR_OK);
  assert_int_equal(strlen(found), 1000 + 1000 / 16); /* 62 pieces of 16 letters, one of 8 */
  tsr_segmenter_close(segmenter);
  free(found);
  free(text);
}

static void test_broken_merges(void **state)
{
  (void)state;
  static const char *const bad[][2] = {
      {"a\n", "merges.txt: line 1: expected two tokens"},
      {"a b\nab \n", "merges.txt: line 2: expected two tokens"},
      {" b\n", "line 1: expected two tokens"},
      {"a b c\n", "line 1: expected two tokens"},
      {"a b\n#version: 0.2\nx\n", "line 3: expected two tokens"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    tsr_bpe *bpe;
    assert_int_equal(tsr_bpe_parse("merges.txt", bad[i][0], strlen(bad[i][0]), &bpe), TSR_ERR_FORMAT);
    assert_null(bpe);
    assert_message_has(bad[i][1]);
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * A folder
 */
/* Every byte's character, and three merges. */
static void write_folder(const char *folder, const char *options)
{
  char vocabulary[8192];
  int used = snprintf(vocabulary, sizeof vocabulary, "{\"<s>\":0,\"<pad>\":1,\"</s>\":2,\"<unk>\":3,\"<mask>\":4");
  int id = 5;
  for (uint32_t c = 0x21; c < 0x144; c++) {
    if ((c > 0x7E && c < 0xA1) || c == 0xAD) {
      continue;
    }
    char text[8] = "";
    tsr_utf8_encode(c, text);
    used += snprintf(vocabulary + used, sizeof vocabulary - (size_t)used, ",\"%s%s\":%d",
                     c == '"' || c == '\\' ? "\\" : "", text, id++);
  }
  assert_int_equal(id, 5 + 256);
  snprintf(vocabulary + used, sizeof vocabulary - (size_t)used, ",\"ab\":%d,\"" BLANK "ab\":%d}", id, id + 1);
  write_text(path_in(folder, "vocab.json"), vocabulary);
  write_text(path_in(folder, "merges.txt"), "#version: 0.2\na b\n" BLANK " ab\nx w\n");
  write_text(path_in(folder, "tokenizer_config.json"), options);
}

static void expect_text(const tsr_tokenizer *tokenizer, const char *text, const char *expected)
{
  expect_tokens(tokenizer, TSR_SIDE_SOURCE, text, strlen(text), expected);
}

/* Every character in a text with words, numbers and blanks comes back. */
static void expect_all_characters(const tsr_tokenizer *tokenizer)
{
  enum { STEP = 4096 };
  char text[STEP * TSR_UTF8_LONGEST + 1];
  for (uint32_t first = 1; first < 0x110000; first += STEP) {
    size_t size = 0;
    for (uint32_t c = first; c < first + STEP && c < 0x110000; c++) {
      if (c < 0xD800 || c > 0xDFFF) {
        size += tsr_utf8_encode(c, text + size);
      }
    }
    text[size] = '\0';
    int32_t *ids;
    int32_t n_ids;
    char *decoded;
    assert_int_equal(tsr_tokenizer_encode(tokenizer, text, size, &ids, &n_ids), TSR_OK);
    assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, n_ids, &decoded), TSR_OK);
    assert_string_equal(decoded, text);
    tsr_free(decoded);
    tsr_free(ids);
  }
}

static void expect_decoded(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n_ids, const char *expected)
{
  char *text;
  assert_int_equal(tsr_tokenizer_decode(tokenizer, ids, n_ids, &text), TSR_OK);
  assert_string_equal(text, expected);
  tsr_free(text);
}

static void test_folder(void **state)
{
  (void)state;
  char *folder = make_temporary_folder();
  write_folder(folder, "{\"tokenizer_class\":\"BartTokenizerFast\"}");
  tsr_tokenizer *tokenizer;
  assert_int_equal(tsr_tokenizer_open_folder(folder, &tokenizer), TSR_OK);
  expect_text(tokenizer, "", "<s> </s>");
  expect_text(tokenizer, "ab ab <mask> b", "<s> ab " BLANK "ab <mask> " BLANK " b </s>");
  expect_text(tokenizer, "xw</s>", "<s> <unk> </s> </s>"); /* merged to what the vocabulary lacks */
  expect_all_characters(tokenizer);
  /* Half a character; special tokens are left out; an id without a token. */
  int32_t *ids;
  int32_t n_ids;
  assert_int_equal(tsr_tokenizer_encode(tokenizer, "\xF0\x9F\x98\x80", 4, &ids, &n_ids), TSR_OK);
  assert_int_equal(n_ids, 6);
  expect_decoded(tokenizer, ids, n_ids, "\xF0\x9F\x98\x80");
  expect_decoded(tokenizer, ids, 4, "\xEF\xBF\xBD");
  expect_decoded(tokenizer, ids + 2, 3, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  tsr_free(ids);
  tsr_tokenizer_close(tokenizer);

  write_folder(folder, "{\"add_prefix_space\":true}");
  assert_int_equal(tsr_tokenizer_open_folder(folder, &tokenizer), TSR_OK);
  assert_string_equal(tsr_tokenizer_kind_name(tokenizer), "bart");
  expect_text(tokenizer, "ab", "<s> " BLANK "ab </s>");
  expect_text(tokenizer, " ab", "<s> " BLANK "ab </s>");
  expect_text(tokenizer, "<pad>ab", "<s> <pad> ab </s>");
  tsr_tokenizer_close(tokenizer);

  write_text(path_in(folder, "merges.txt"), "ab\n");
  assert_int_equal(tsr_tokenizer_open_folder(folder, &tokenizer), TSR_ERR_FORMAT);
  assert_message_has("merges.txt: line 1: expected two tokens with a blank between");
  remove_temporary_folder(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_words),         cmocka_unit_test(test_merging), cmocka_unit_test(test_long_words),
      cmocka_unit_test(test_broken_merges), cmocka_unit_test(test_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

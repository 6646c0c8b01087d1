/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of tokens: texts of a tokenizer made here, whose tokens are the bytes and some merges.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "core/base/utf8.h"
#include "tessera/speech.h"
#include "tests/support/temporary.h"

/* Bytes are the ids of text as they are numbered; then these, and the special tokens. */
enum { HELLO = 256, WORLD, MARKS, SPECIALS };

/* The character that stands for a byte. */
static size_t write_character(char *to, int byte)
{
  const int is_printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
  uint32_t character = (uint32_t)byte;
  if (!is_printable) {
    character = 0x100;
    for (int other = 0; other < byte; other++) {
      character += !((other >= '!' && other <= '~') || (other >= 0xA1 && other != 0xAD));
    }
  }
  return tsr_utf8_encode(character, to);
}

static int setup(void **state)
{
  static const char *const specials[] = {"endoftext",  "startoftranscript", "en",           "translate",
                                         "transcribe", "startofprev",       "notimestamps", "0.00"};
  char *folder = make_temporary_folder();
  char *text = malloc(1 << 16);
  assert_non_null(text);
  size_t size = (size_t)sprintf(text, "{");
  for (int byte = 0; byte < 256; byte++) {
    char character[TSR_UTF8_LONGEST];
    const size_t length = write_character(character, byte);
    const int is_escaped = byte == '"' || byte == '\\';
    size += (size_t)sprintf(text + size, "\"%s%.*s\":%d,", is_escaped ? "\\" : "", (int)length, character, byte);
  }
  size += (size_t)sprintf(text + size, "\"\xC4\xA0hello\":%d,\"\xC4\xA0world\":%d,\"?!\":%d", HELLO, WORLD, MARKS);
  for (int i = 0; i < 8; i++) {
    size += (size_t)sprintf(text + size, ",\"<|%s|>\":%d", specials[i], SPECIALS + i);
  }
  strcpy(text + size, "}");
  write_text(path_in(folder, "vocab.json"), text);
  write_text(path_in(folder, "merges.txt"), "#version: 0.2\n");
  tsr_tokenizer *tokenizer;
  if (tsr_tokenizer_open_as(folder, "whisper", &tokenizer) != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  *state = tokenizer;
  free(text);
  remove_temporary_folder(folder);
  return 0;
}

static int teardown(void **state)
{
  tsr_tokenizer_close(*state);
  return 0;
}

enum { MOST = 256 };

/* Token i begins at i seconds and has the probability 1 / (i + 1). The words in brackets, each with its tokens' first
 * and number, its times, and the tokens whose mean its probability is. */
static void expect_words(const tsr_tokenizer *tokenizer, const char *language, const int32_t *tokens, int32_t n,
                         const char *expected)
{
  double times[MOST + 1];
  float probabilities[MOST];
  for (int32_t i = 0; i <= n; i++) {
    times[i] = i;
    if (i < n) {
      probabilities[i] = 1.0f / (float)(i + 1);
    }
  }
  tsr_speech_word *words;
  int32_t n_words;
  assert_int_equal(tsr_speech_words(tokenizer, language, tokens, n, times, probabilities, &words, &n_words), TSR_OK);
  char found[4096] = "";
  for (int32_t i = 0; i < n_words; i++) {
    const tsr_speech_word *w = &words[i];
    sprintf(found + strlen(found), "[%s]%d+%d@%g-%g ", w->text, (int)w->first, (int)w->n_tokens, w->start, w->end);
    double sum = 0.0;
    for (int32_t k = (int32_t)w->start; k < (int32_t)w->end; k++) {
      sum += (double)probabilities[k];
    }
    assert_true(fabs(w->probability - sum / (w->end - w->start)) < 1e-6);
  }
  assert_string_equal(found, expected);
  tsr_free(words);
  assert_int_equal(tsr_speech_words(tokenizer, language, tokens, n, times, NULL, &words, &n_words), TSR_OK);
  for (int32_t i = 0; i < n_words; i++) {
    assert_true(fabs(words[i].probability - 1.0) < 1e-9);
  }
  tsr_free(words);
}

/* The same of a text, a token a byte. */
static void expect_of_text(const tsr_tokenizer *tokenizer, const char *language, const char *text, const char *expected)
{
  int32_t tokens[MOST];
  const int32_t n = (int32_t)strlen(text);
  for (int32_t i = 0; i < n; i++) {
    tokens[i] = (unsigned char)text[i];
  }
  expect_words(tokenizer, language, tokens, n, expected);
}

static void test_spaced(void **state)
{
  const tsr_tokenizer *t = *state;
  expect_of_text(t, "en", "", "");
  expect_of_text(t, "en", "ab cd", "[ab]0+2@0-2 [ cd]2+3@2-5 ");
  expect_of_text(t, NULL, " ab", "[ ab]0+3@0-3 ");
  expect_of_text(t, "en", "caf\xC3\xA9 x", "[caf\xC3\xA9]0+5@0-5 [ x]5+2@5-7 ");
  /* Marks join, and leave times alone. */
  expect_of_text(t, "en", "ab, cd.", "[ab,]0+3@0-2 [ cd.]3+4@3-6 ");
  expect_of_text(t, "en", "ab (cd)", "[ab]0+2@0-2 [ (cd)]2+5@3-6 ");
  expect_of_text(t, "en", "a...", "[a...]0+4@0-1 ");
  expect_of_text(t, "en", "a-b", "[a]0+1@0-1 [-b]1+2@1-3 "); /* a mark begins a word */
  expect_of_text(t, "en",
                 "a \xE2\x80\x9C"
                 "b\xE2\x80\x9D",
                 "[a]0+1@0-1 [ \xE2\x80\x9C"
                 "b\xE2\x80\x9D]1+8@1-9 ");
  expect_of_text(t, "en", "a ", "[a]0+1@0-1 [ ]1+1@1-2 ");
  expect_of_text(t, "en", "$5", "[$5]0+2@0-2 ");
}

static void test_characters(void **state)
{
  const tsr_tokenizer *t = *state;
  static const char *const languages[] = {"zh", "ja", "th", "lo", "my", "yue"};
  for (size_t i = 0; i < sizeof languages / sizeof languages[0]; i++) {
    expect_of_text(t, languages[i], "\xE4\xBD\xA0\xE5\xA5\xBD", "[\xE4\xBD\xA0]0+3@0-3 [\xE5\xA5\xBD]3+3@3-6 ");
  }
  expect_of_text(t, "ko", "\xE4\xBD\xA0\xE5\xA5\xBD", "[\xE4\xBD\xA0\xE5\xA5\xBD]0+6@0-6 ");
  expect_of_text(t, "zh", "\xE5\xA5\xBD\xE3\x80\x82", "[\xE5\xA5\xBD\xE3\x80\x82]0+6@0-3 ");
}

static void test_broken(void **state)
{
  const tsr_tokenizer *t = *state;
  expect_of_text(t, "zh", "\xE4\xBDx", "[\xEF\xBF\xBD]0+2@0-2 [x]2+1@2-3 ");
  expect_of_text(t, "zh", "x\xE4\xBD", "[x]0+1@0-1 [\xEF\xBF\xBD]1+2@1-3 ");
  expect_of_text(t, "en", " a\xFF\xFE", "[ a\xEF\xBF\xBD\xEF\xBF\xBD]0+4@0-4 ");
}

static void test_special(void **state)
{
  const tsr_tokenizer *t = *state;
  /* Timestamps part words, and marks do not join beyond them; ids that are no tokens say nothing. */
  const int32_t tokens[] = {SPECIALS + 7, HELLO, '.', SPECIALS + 9, SPECIALS + 9, '.', WORLD, MARKS, 5000, SPECIALS};
  expect_words(t, "en", tokens, 10, "[ hello.]1+2@1-2 [.]5+1@5-6 [ world?!]6+2@6-8 ");
  const int32_t nothing[] = {-1, SPECIALS, -5};
  expect_words(t, "en", nothing, 3, "");
}

static void test_arguments(void **state)
{
  const tsr_tokenizer *t = *state;
  const double times[] = {0.0, 1.0};
  const int32_t tokens[] = {'a'};
  tsr_speech_word *words;
  int32_t n;
  assert_int_equal(tsr_speech_words(NULL, NULL, tokens, 1, times, NULL, &words, &n), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_words(t, NULL, NULL, 1, times, NULL, &words, &n), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_words(t, NULL, tokens, -1, times, NULL, &words, &n), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_speech_words(t, NULL, tokens, 1, NULL, NULL, &words, &n), TSR_ERR_ARGUMENT);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_spaced),  cmocka_unit_test(test_characters), cmocka_unit_test(test_broken),
      cmocka_unit_test(test_special), cmocka_unit_test(test_arguments),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}

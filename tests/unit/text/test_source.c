/* SPDX-License-Identifier: Apache-2.0
 *
 * Source texts as a model takes them: whole, cut, parted, refused, and none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tessera/text.h"

static const char recorded_model[] = TESSERA_SOURCE_ROOT "/tests/data/marian-en-fr";
enum { EOS = 0 };

static int setup(void **state)
{
  tsr_tokenizer *tokenizer = NULL;
  assert_int_equal(tsr_tokenizer_open_folder(recorded_model, &tokenizer), TSR_OK);
  *state = tokenizer;
  return 0;
}

static int teardown(void **state)
{
  tsr_tokenizer_close(*state);
  return 0;
}

static void prepare(const tsr_tokenizer *tokenizer, const char *text, int32_t most, int32_t how, tsr_source *source)
{
  if (tsr_source_prepare(tokenizer, text, strlen(text), most, how, source) != TSR_OK) {
    fail_msg("'%.40s': %s", text, tsr_error_message());
  }
}

/* Each part fits and ends as a sentence does; decoded they are `expected`, a bar between two. */
static void check_parts(const tsr_tokenizer *tokenizer, const tsr_source *source, int32_t most, const char *expected)
{
  char all[1024] = "";
  for (int32_t i = 0; i < source->n_parts; i++) {
    char *text = NULL;
    assert_true(source->n_ids[i] <= most);
    assert_int_equal(source->ids[i][source->n_ids[i] - 1], EOS);
    assert_int_equal(tsr_tokenizer_decode(tokenizer, source->ids[i], source->n_ids[i], &text), TSR_OK);
    snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i > 0 ? "|" : "", text);
    tsr_free(text);
  }
  assert_string_equal(all, expected);
}

static void test_whole(void **state)
{
  static const char text[] = "The museum is worth visiting.";
  for (int32_t how = TSR_LONG_CUT; how <= TSR_LONG_ERROR; how++) {
    tsr_source source;
    int32_t *ids, n_ids;
    assert_int_equal(tsr_tokenizer_encode(*state, text, strlen(text), &ids, &n_ids), TSR_OK);
    prepare(*state, text, n_ids, how, &source);
    assert_int_equal(source.n_tokens, n_ids);
    assert_int_equal(source.n_parts, 1);
    assert_int_equal(source.n_ids[0], n_ids);
    assert_memory_equal(source.ids[0], ids, (size_t)n_ids * sizeof *ids);
    tsr_source_finish(&source);
    tsr_free(ids);
  }
}

/* No text: nothing, white space of every kind, what the tokenizer takes for nothing. */
static void test_nothing(void **state)
{
  static const char *const texts[] = {"",        " ", "\t \r\v\f", "\xC2\xA0\xE3\x80\x80\xE2\x80\xA8", "\xE2\x80\x8B",
                                      "\x01\x02"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    tsr_source source;
    prepare(*state, texts[i], 1, TSR_LONG_ERROR, &source);
    assert_int_equal(source.n_parts, 0);
    tsr_source_finish(&source);
  }
}

static void test_cut(void **state)
{
  static const char text[] = "The museum is worth visiting.";
  tsr_source source;
  int32_t *ids, n_ids;
  assert_int_equal(tsr_tokenizer_encode(*state, text, strlen(text), &ids, &n_ids), TSR_OK);
  for (int32_t most = 1; most < n_ids; most++) {
    prepare(*state, text, most, TSR_LONG_CUT, &source);
    assert_int_equal(source.n_tokens, n_ids);
    assert_int_equal(source.n_parts, 1);
    assert_int_equal(source.n_ids[0], most);
    assert_memory_equal(source.ids[0], ids, (size_t)(most - 1) * sizeof *ids);
    assert_int_equal(source.ids[0][most - 1], EOS);
    tsr_source_finish(&source);
  }
  tsr_free(ids);
}

static void test_refused(void **state)
{
  tsr_source source;
  assert_int_equal(tsr_source_prepare(*state, "a b c d e f g", 13, 4, TSR_LONG_ERROR, &source), TSR_ERR_ARGUMENT);
  assert_non_null(strstr(tsr_error_message(), "tokens; the model takes at most 4"));
  assert_int_equal(source.n_parts, 0);
  assert_int_equal(tsr_source_prepare(NULL, "a", 1, 4, 0, &source), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_source_prepare(*state, NULL, 1, 4, 0, &source), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_source_prepare(*state, "a", 1, 0, 0, &source), TSR_ERR_ARGUMENT);
  assert_int_equal(tsr_source_prepare(*state, "a", 1, 4, 3, &source), TSR_ERR_ARGUMENT);
}

/* Behind sentences, else clauses, else words, else characters. */
static void test_places(void **state)
{
  static const struct {
    const char *text;
    int32_t most;
    const char *parts;
  } rows[] = {
      {"He is here. She is not. They are.", 11, "He is here. She is not.|They are."},
      {"He said \"no.\" She said yes. I left.", 14, "He said \"no.\" She said yes.|I left."},
      {"He said \"no.\" She said yes. I left.", 8, "He said \"no.\"|She said yes.|I left."},
      {"It is 3.14 or so, is it not, he said", 13, "It is 3.14 or so,|is it not, he said"},
      {"the man and the woman and the child", 6, "the man and the|woman and the child"},
      {"  two   words  ", 2, "two|words"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    tsr_source source;
    prepare(*state, rows[i].text, rows[i].most, TSR_LONG_SPLIT, &source);
    check_parts(*state, &source, rows[i].most, rows[i].parts);
    tsr_source_finish(&source);
  }
}

/* Nowhere to part it, bytes that are no UTF-8, characters of several tokens: it ends, and every part fits. */
static void test_hard(void **state)
{
  static const char *const units[] = {"x",     "\xE6\x97\xA5", "\xF0\x9F\x98\x80", "\xFF",   "\x80",
                                      "a\xC3", ". ",           "\xE3\x80\x82",     "no end "};
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    char text[4096] = "";
    for (size_t at = 0; at + strlen(units[i]) < 2000; at += strlen(units[i])) {
      memcpy(text + at, units[i], strlen(units[i]) + 1);
    }
    for (int32_t most = 1; most < 300; most = 3 * most + 1) {
      tsr_source source;
      prepare(*state, text, most, TSR_LONG_SPLIT, &source);
      assert_true(source.n_parts > 0);
      for (int32_t k = 0; k < source.n_parts; k++) {
        assert_true(source.n_ids[k] >= 1 && source.n_ids[k] <= most);
      }
      tsr_source_finish(&source);
    }
  }
}

/* 20,000 tokens: every word is in some part, in order, and no part is small. */
static void test_long(void **state)
{
  enum { WORDS = 20000, MOST = 256 };
  char *text = calloc(WORDS, 8), *at = text;
  assert_non_null(text);
  for (int32_t i = 0; i < WORDS; i++) {
    at += sprintf(at, i % 9 == 8 ? "dog. " : "house ");
  }
  tsr_source source;
  prepare(*state, text, MOST, TSR_LONG_SPLIT, &source);
  assert_true(source.n_tokens > WORDS && source.n_parts > 1);
  int32_t words = 0;
  for (int32_t i = 0; i < source.n_parts; i++) {
    char *part = NULL;
    assert_true(source.n_ids[i] <= MOST && (source.n_ids[i] > MOST / 2 || i + 1 == source.n_parts));
    assert_int_equal(tsr_tokenizer_decode(*state, source.ids[i], source.n_ids[i], &part), TSR_OK);
    for (char *word = strtok(part, " "); word; word = strtok(NULL, " "), words++) {
      assert_string_equal(word, words % 9 == 8 ? "dog." : "house");
    }
    tsr_free(part);
  }
  assert_int_equal(words, WORDS);
  tsr_source_finish(&source);
  free(text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole),   cmocka_unit_test(test_nothing), cmocka_unit_test(test_cut),
      cmocka_unit_test(test_refused), cmocka_unit_test(test_places),  cmocka_unit_test(test_hard),
      cmocka_unit_test(test_long),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8, and the readers of text corpora.
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
#include "core/text/corpus.h"
#include "tests/unit/temporary.h"

static void assert_message_has(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment))
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
}

static void assert_text(const char *text, size_t size, const char *expected)
{
  if (size != strlen(expected) || memcmp(text, expected, size) != 0)
    fail_msg("found \"%.*s\", expected \"%s\"", (int)size, text, expected);
}

/* ------------------------------------------------------------------------------------------------------------------
 * UTF-8
 */
static void test_utf8(void **state)
{
  (void)state;
  for (uint32_t c = 0; c < 0x110000; c++) {
    char text[TSR_UTF8_LONGEST];
    size_t size = tsr_utf8_encode(c, text);
    size_t length;
    int surrogate = c >= 0xD800 && c < 0xE000;
    assert_int_equal(tsr_utf8_is_valid(text, size), !surrogate);
    assert_int_equal(tsr_utf8_decode(text, size, &length), surrogate ? TSR_REPLACEMENT_CHARACTER : c);
    assert_int_equal(length, surrogate ? 1 : size);
  }

  /* As Python's decode("utf-8", "replace") has it: one U+FFFD for each longest beginning of a character. */
  static const struct {
    const char *dirty;
    const char *clean;
  } cases[] = {
      {"a\xFFz", "a\xEF\xBF\xBDz"},
      {"\xC3", "\xEF\xBF\xBD"},
      {"\xE2\x82z", "\xEF\xBF\xBDz"},
      {"\xE2\x82", "\xEF\xBF\xBD"},
      {"\xF0\x9F\x98\xC3\xA9", "\xEF\xBF\xBD\xC3\xA9"},
      {"\xC0\xAF", "\xEF\xBF\xBD\xEF\xBF\xBD"},                 /* overlong */
      {"\xE0\x9F\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* overlong */
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* a surrogate */
      {"\xF4\x90\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"}, /* beyond U+10FFFF */
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char clean[32];
    size_t size = tsr_utf8_clean(cases[i].dirty, strlen(cases[i].dirty), clean);
    assert_text(clean, size, cases[i].clean);
    assert_false(tsr_utf8_is_valid(cases[i].dirty, strlen(cases[i].dirty)));
    assert_true(tsr_utf8_is_valid(clean, size));
  }
  assert_true(tsr_utf8_is_valid("twelve ASCII\xC3\xA9 and more", 23));
  assert_false(tsr_utf8_is_valid("twelve ASCII, \xC3", 15));
}

static void test_spaces(void **state)
{
  (void)state;
  static const uint32_t spaces[] = {0x09,   0x0A,   0x0B,   0x0C,   0x0D,   0x1C,   0x1D,   0x1E,   0x1F,   0x20,
                                    0x85,   0xA0,   0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006,
                                    0x2007, 0x2008, 0x2009, 0x200A, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000};
  size_t next = 0;
  for (uint32_t c = 0; c < 0x110000; c++) {
    int expected = next < sizeof spaces / sizeof spaces[0] && spaces[next] == c;
    assert_int_equal(tsr_is_space(c), expected);
    next += (size_t)expected;
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Plain text and TSV
 */
static char *folder;

static int make_folder(void **state)
{
  (void)state;
  folder = make_temporary_folder();
  return 0;
}

static int remove_folder(void **state)
{
  (void)state;
  remove_temporary_folder(folder);
  return 0;
}

static tsr_text_file *view(const char *text, size_t size)
{
  tsr_text_file *file;
  assert_int_equal(tsr_text_file_view("text", text, size, TSR_TEXT_SOURCE, &file), TSR_OK);
  return file;
}

static void assert_next(tsr_text_file *file, const char *expected, int64_t number)
{
  tsr_sentence sentence;
  int32_t end;
  assert_int_equal(tsr_text_file_next(file, &sentence, &end), TSR_OK);
  assert_false(end);
  assert_text(sentence.text, sentence.size, expected);
  assert_int_equal(sentence.number, number);
}

static void assert_end(tsr_text_file *file)
{
  tsr_sentence sentence;
  int32_t end;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(tsr_text_file_next(file, &sentence, &end), TSR_OK);
    assert_true(end);
  }
  tsr_text_file_close(file);
}

static void test_lines(void **state)
{
  (void)state;
  static const char text[] = "\xEF\xBB\xBFone\r\n\ntwo \rthree\r\r\n caf\xE9\n\xEF\xBB\xBFlast";
  tsr_text_file *file = view(text, strlen(text));
  assert_next(file, "one", 1);
  assert_next(file, "", 2);
  assert_next(file, "two \rthree\r", 3);
  assert_next(file, " caf\xEF\xBF\xBD", 4);
  assert_next(file, "\xEF\xBB\xBFlast", 5);
  assert_end(file);

  assert_end(view("", 0));
  assert_end(view("\xEF\xBB\xBF", 3));
  file = view("\n", 1);
  assert_next(file, "", 1);
  assert_end(file);
  file = view("\xEF\xBB", 2);
  assert_next(file, "\xEF\xBF\xBD", 1);
  assert_end(file);
  file = view("\r", 1);
  assert_next(file, "\r", 1);
  assert_end(file);

  tsr_sentence sentence;
  int32_t end;
  file = view("a\0b\n", 4);
  assert_int_equal(tsr_text_file_next(file, &sentence, &end), TSR_OK);
  assert_int_equal(sentence.size, 3);
  assert_memory_equal(sentence.text, "a\0b", 3);
  assert_end(file);
}

/* Lines of all lengths around the sizes of the reader's buffer, and the longest one. */
static void test_long_lines(void **state)
{
  (void)state;
  const char *path = path_in(folder, "long");
  static const size_t lengths[] = {1, 65535, 65536, 65537, 10, 131071, 200000, 0, 1000000, 3, TSR_LINE_LIMIT, 7};
  enum { N = sizeof lengths / sizeof lengths[0] };
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  for (size_t i = 0; i < N; i++) {
    for (size_t k = 0; k < lengths[i]; k++)
      fputc('a' + (int)((k + i) % 23), out);
    fputs(i % 2 ? "\r\n" : "\n", out);
  }
  for (size_t k = 0; k <= TSR_LINE_LIMIT; k++)
    fputc('x', out);
  fputs("\nafter\n", out);
  fclose(out);

  tsr_text_file *file;
  tsr_sentence sentence;
  int32_t end;
  assert_int_equal(tsr_text_file_open(path, TSR_TEXT_SOURCE, &file), TSR_OK);
  for (size_t i = 0; i < N; i++) {
    assert_int_equal(tsr_text_file_next(file, &sentence, &end), TSR_OK);
    assert_false(end);
    assert_int_equal(sentence.size, lengths[i]);
    int differing = 0;
    for (size_t k = 0; k < lengths[i]; k++)
      differing += sentence.text[k] != 'a' + (int)((k + i) % 23);
    assert_int_equal(differing, 0);
  }
  for (int i = 0; i < 2; i++) {
    assert_int_equal(tsr_text_file_next(file, &sentence, &end), TSR_ERR_FORMAT);
    assert_message_has("long:13: ");
  }
  tsr_text_file_close(file);
}

static tsr_corpus *open_corpus(const char *source, const char *target)
{
  const char *second = target ? path_in(folder, "target") : NULL;
  const char *first = path_in(folder, "source");
  write_text(first, source);
  if (target)
    write_text(second, target);
  tsr_corpus *corpus;
  assert_int_equal(tsr_corpus_open(&(tsr_corpus_files){.source = first, .target = second}, &corpus), TSR_OK);
  return corpus;
}

static void assert_pair(tsr_corpus *corpus, const char *source, const char *target, int64_t number)
{
  tsr_corpus_pair pair;
  int32_t end;
  assert_int_equal(tsr_corpus_next(corpus, &pair, &end), TSR_OK);
  assert_false(end);
  assert_text(pair.source, pair.source_size, source);
  assert_text(pair.target, pair.target_size, target);
  assert_int_equal(pair.number, number);
}

static void assert_corpus_ends(tsr_corpus *corpus)
{
  tsr_corpus_pair pair;
  int32_t end;
  assert_int_equal(tsr_corpus_next(corpus, &pair, &end), TSR_OK);
  assert_true(end);
  tsr_corpus_close(corpus);
}

static void assert_corpus_breaks(tsr_corpus *corpus, const char *message)
{
  tsr_corpus_pair pair;
  int32_t end;
  assert_int_equal(tsr_corpus_next(corpus, &pair, &end), TSR_ERR_FORMAT);
  assert_message_has(message);
  tsr_corpus_close(corpus);
}

static void test_pairs(void **state)
{
  (void)state;
  tsr_corpus *corpus = open_corpus("one\ntwo\n\nfour", "un\r\ndeux\n\nquatre\n");
  assert_pair(corpus, "one", "un", 1);
  assert_pair(corpus, "two", "deux", 2);
  assert_pair(corpus, "", "", 3);
  assert_pair(corpus, "four", "quatre", 4);
  assert_corpus_ends(corpus);
  assert_corpus_ends(open_corpus("", ""));

  corpus = open_corpus("one\ntwo\n", "un\n");
  assert_pair(corpus, "one", "un", 1);
  assert_corpus_breaks(corpus, "source has more sentences than ");
  corpus = open_corpus("one\n", "un\n\n");
  assert_pair(corpus, "one", "un", 1);
  assert_corpus_breaks(corpus, "target has more sentences than ");
  assert_message_has("which ends after 1:");
  assert_corpus_breaks(open_corpus("", "un\n"), "which ends after 0:");
}

static void test_tsv(void **state)
{
  (void)state;
  tsr_corpus *corpus = open_corpus("one\tun\r\ntwo\tdeux\t2\tb\n\t\n\tx\nfour\t", NULL);
  assert_pair(corpus, "one", "un", 1);
  assert_pair(corpus, "two", "deux", 2);
  assert_pair(corpus, "", "", 3);
  assert_pair(corpus, "", "x", 4);
  assert_pair(corpus, "four", "", 5);
  assert_corpus_ends(corpus);
  corpus = open_corpus("one\tun\ntwo deux\n", NULL);
  assert_pair(corpus, "one", "un", 1);
  assert_corpus_breaks(corpus, "source:2: ");
  assert_corpus_breaks(open_corpus("\n", NULL), "source:1: ");
}

/* From every position on, the rest of the corpus is what it was. */
static void check_positions(const char *source, const char *target, int32_t n)
{
  enum { ROOM = 8 };
  tsr_corpus_position positions[ROOM + 1];
  char *expected[ROOM];
  tsr_corpus_pair pair;
  int32_t end;
  assert_true(n <= ROOM);
  tsr_corpus *corpus = open_corpus(source, target);
  for (int32_t i = 0; i <= n; i++) {
    tsr_corpus_tell(corpus, &positions[i]);
    assert_int_equal(positions[i].number, i);
    assert_int_equal(tsr_corpus_next(corpus, &pair, &end), TSR_OK);
    assert_int_equal(end, i == n);
    if (!end) {
      expected[i] = calloc(1, pair.source_size + pair.target_size + 2);
      assert_non_null(expected[i]);
      memcpy(expected[i], pair.source, pair.source_size);
      expected[i][pair.source_size] = '\t';
      memcpy(expected[i] + pair.source_size + 1, pair.target, pair.target_size);
    }
  }
  for (int32_t from = n; from >= 0; from--) {
    assert_int_equal(tsr_corpus_seek(corpus, &positions[from]), TSR_OK);
    for (int32_t i = from; i < n; i++) {
      assert_int_equal(tsr_corpus_next(corpus, &pair, &end), TSR_OK);
      assert_false(end);
      assert_int_equal(pair.number, i + 1);
      assert_memory_equal(pair.source, expected[i], pair.source_size);
      assert_memory_equal(pair.target, expected[i] + pair.source_size + 1, pair.target_size);
    }
    assert_int_equal(tsr_corpus_next(corpus, &pair, &end), TSR_OK);
    assert_true(end);
  }
  for (int32_t i = 0; i < n; i++)
    free(expected[i]);
  tsr_corpus_close(corpus);
}

static void test_positions(void **state)
{
  (void)state;
  check_positions("\xEF\xBB\xBFone\r\n\ntwo\nthree", "un\n\xFF\n\n\xEF\xBB\xBFtrois\n", 4);
  check_positions("\xEF\xBB\xBFone\tun\r\n\t\ntwo\tdeux\nthree\ttrois", NULL, 4);
  check_positions("", "", 0);

  /* A file that is shorter than it was, or whose lines end elsewhere. */
  tsr_corpus *corpus = open_corpus("one\ntwo\n", "un\ndeux\n");
  assert_int_equal(tsr_corpus_seek(corpus, &(tsr_corpus_position){.source = 20, .target = 8, .number = 2}), TSR_ERR_IO);
  assert_message_has("source: holds 8 bytes");
  assert_int_equal(tsr_corpus_seek(corpus, &(tsr_corpus_position){.source = 8, .target = 7, .number = 2}), TSR_ERR_IO);
  assert_message_has("target: no line begins at byte 7");
  assert_int_equal(tsr_corpus_seek(corpus, &(tsr_corpus_position){.source = -1}), TSR_ERR_IO);
  assert_int_equal(tsr_corpus_seek(corpus, &(tsr_corpus_position){0}), TSR_OK);
  assert_pair(corpus, "one", "un", 1);
  tsr_corpus_close(corpus);
}

static void test_missing(void **state)
{
  (void)state;
  tsr_corpus *corpus;
  assert_int_equal(tsr_corpus_open(&(tsr_corpus_files){.source = path_in(folder, "nowhere")}, &corpus), TSR_ERR_IO);
  assert_null(corpus);
  assert_message_has("nowhere: cannot be opened");
  assert_int_equal(tsr_corpus_open(&(tsr_corpus_files){.source = folder}, &corpus), TSR_ERR_IO);
  assert_message_has("found a folder");
  assert_int_equal(tsr_corpus_open(&(tsr_corpus_files){0}, &corpus), TSR_ERR_ARGUMENT);
  tsr_corpus_close(NULL);
  tsr_text_file_close(NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_utf8),       cmocka_unit_test(test_spaces),  cmocka_unit_test(test_lines),
      cmocka_unit_test(test_long_lines), cmocka_unit_test(test_pairs),   cmocka_unit_test(test_tsv),
      cmocka_unit_test(test_positions),  cmocka_unit_test(test_missing),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

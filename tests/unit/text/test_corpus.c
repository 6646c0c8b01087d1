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
#include "core/text/character_reference.h"
#include "tessera/corpus.h"
#include "tessera/text.h"
#include "tests/support/temporary.h"

static void assert_message_has(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
  }
}

static void assert_text(const char *text, size_t size, const char *expected)
{
  if (size != strlen(expected) || memcmp(text, expected, size) != 0) {
    fail_msg("found \"%.*s\", expected \"%s\"", (int)size, text, expected);
  }
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
  tsr_corpus_sentence sentence;
  int32_t end;
  assert_int_equal(tsr_text_file_next(file, &sentence, &end), TSR_OK);
  assert_false(end);
  assert_text(sentence.text, sentence.size, expected);
  assert_int_equal(sentence.number, number);
}

static void assert_end(tsr_text_file *file)
{
  tsr_corpus_sentence sentence;
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

  tsr_corpus_sentence sentence;
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
    for (size_t k = 0; k < lengths[i]; k++) {
      fputc('a' + (int)((k + i) % 23), out);
    }
    fputs(i % 2 ? "\r\n" : "\n", out);
  }
  for (size_t k = 0; k <= TSR_LINE_LIMIT; k++) {
    fputc('x', out);
  }
  fputs("\nafter\n", out);
  fclose(out);

  tsr_text_file *file;
  tsr_corpus_sentence sentence;
  int32_t end;
  assert_int_equal(tsr_text_file_open(path, TSR_TEXT_SOURCE, &file), TSR_OK);
  for (size_t i = 0; i < N; i++) {
    assert_int_equal(tsr_text_file_next(file, &sentence, &end), TSR_OK);
    assert_false(end);
    assert_int_equal(sentence.size, lengths[i]);
    int differing = 0;
    for (size_t k = 0; k < lengths[i]; k++) {
      differing += sentence.text[k] != 'a' + (int)((k + i) % 23);
    }
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
  if (target) {
    write_text(second, target);
  }
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

static void assert_column(const tsr_corpus *corpus, int32_t column, const char *expected)
{
  const char *text;
  size_t size;
  tsr_corpus_column(corpus, column, &text, &size);
  assert_int_equal(size, strlen(expected));
  assert_memory_equal(text, expected, size);
}

/* What stands behind the pair. */
static void test_columns(void **state)
{
  (void)state;
  tsr_corpus *corpus = open_corpus("one\tun\r\ntwo\tdeux\tfr\t\tlast\r\nthree\ttrois\t\n", NULL);
  assert_pair(corpus, "one", "un", 1);
  assert_column(corpus, 3, "");
  assert_pair(corpus, "two", "deux", 2);
  assert_column(corpus, 3, "fr");
  assert_column(corpus, 4, "");
  assert_column(corpus, 5, "last");
  assert_column(corpus, 6, "");
  assert_pair(corpus, "three", "trois", 3);
  assert_column(corpus, 3, "");
  assert_column(corpus, 4, "");
  assert_corpus_ends(corpus);
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
  for (int32_t i = 0; i < n; i++) {
    free(expected[i]);
  }
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

/* ------------------------------------------------------------------------------------------------------------------
 * SGM and XML
 */
static const char sgm[] =
    "\xEF\xBB\xBF<srcset setid=\"newstest\" srclang=\"any\">\r\n"
    "<!-- <seg id=\"0\">none</seg> - -- -->\n"
    "<DOC docid='a.1' genre=\"news\" origlang=\"en\">\n"
    "<hl>\n<seg id=\"1\">A &lt; B &amp; C &quot;d&quot; &apos;</seg>\n</hl>\n"
    "<p>\n<SEG ID=2 >  R&D, a < b > c;&nosuch; &#xE9;&#233;&eacute;&nbsp;&#0; </Seg>\n"
    "<seg   id = '3'>two\r\n \tlines &#10; more\xFF</seg  ><seg id=\"4\"></seg>\n<seg id=\"5\"/>\n"
    "</p>\n</DOC>\n< text 1<2 <doc docid=\"b\"><segment>no</segment><seg>&amp;amp; <b>bold</b> "
    "&euro;</seg></doc></srcset>\n";

static void assert_segment(tsr_text_file *file, const char *expected, const char *id)
{
  tsr_corpus_sentence sentence;
  int32_t end;
  assert_int_equal(tsr_text_file_next(file, &sentence, &end), TSR_OK);
  assert_false(end);
  assert_text(sentence.text, sentence.size, expected);
  assert_string_equal(sentence.id, id);
}

static void test_sgm(void **state)
{
  (void)state;
  tsr_text_file *file = view(sgm, sizeof sgm - 1);
  assert_segment(file, "A < B & C \"d\" '", "1");
  assert_segment(file, "R&D, a < b > c;&nosuch; \xC3\xA9\xC3\xA9\xC3\xA9\xC2\xA0\xEF\xBF\xBD", "2");
  assert_segment(file, "two lines more\xEF\xBF\xBD", "3");
  assert_segment(file, "", "4");
  assert_segment(file, "", "5");
  assert_segment(file, "&amp; <b>bold</b> \xE2\x82\xAC", "");
  assert_end(file);

  /* By its name, whatever it begins with; and plain text is no markup. */
  tsr_corpus_sentence sentence;
  int32_t end;
  static const char text[] = "<seg id=\"1\">x</seg>\n";
  assert_int_equal(tsr_text_file_view("a.SGM", text, strlen(text), TSR_TEXT_SOURCE, &file), TSR_OK);
  assert_segment(file, "x", "1");
  assert_end(file);
  file = view(text, strlen(text));
  assert_next(file, "<seg id=\"1\">x</seg>", 1);
  assert_end(file);
  assert_int_equal(tsr_text_file_view(".sgm", text, strlen(text), TSR_TEXT_SOURCE, &file), TSR_OK);
  assert_next(file, "<seg id=\"1\">x</seg>", 1);
  assert_end(file);
  assert_int_equal(tsr_text_file_view("a.xml", "", 0, TSR_TEXT_SOURCE, &file), TSR_OK);
  assert_int_equal(tsr_text_file_next(file, &sentence, &end), TSR_ERR_FORMAT);
  assert_message_has("a.xml: expected segments");
  tsr_text_file_close(file);
}

static void test_broken_sgm(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    const char *message;
  } cases[] = {
      {"<refset>\n\n<seg id=\"1\">a\n<seg id=\"2\">b</seg>", "text:3: expected </seg>"},
      {"<refset><doc>\n<seg id=\"1\">a\n</doc>", "text:2: expected </seg>"},
      {"<refset>\n<seg>a", "text:2: expected </seg>"},
      {"<refset>\n<seg>a</seg", "text:2: expected > at the end of </seg>"},
      {"<refset>\n\n<seg id=1", "text:3: expected > at the end of the tag"},
      {"<refset>\n<!-- <seg>a</seg> --", "expected --> at the end of a comment"},
      {"<refset></refset>", "text: expected segments"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    tsr_text_file *file = view(cases[i].text, strlen(cases[i].text));
    tsr_corpus_sentence sentence;
    int32_t end;
    assert_int_equal(tsr_text_file_next(file, &sentence, &end), TSR_ERR_FORMAT);
    assert_message_has(cases[i].message);
    tsr_text_file_close(file);
  }
}

/* Markup that does not fit into the reader's window, cut by it anywhere. */
static void test_large_sgm(void **state)
{
  (void)state;
  const char *path = path_in(folder, "large.sgm");
  enum { N = 3000 };
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  fputs("<tstset>", out);
  for (int i = 0; i < N; i++) {
    fprintf(out, "<!--%*s--><p a='%*s'>%*s<seg id=\"%d\">%*s&amp;%d</seg>", i % 301, "-", i % 97, "", i % 53, "<", i,
            i % 211, "x", i);
  }
  fclose(out);
  tsr_text_file *file;
  assert_int_equal(tsr_text_file_open(path, TSR_TEXT_SOURCE, &file), TSR_OK);
  for (int i = 0; i < N; i++) {
    char text[32];
    char id[16];
    snprintf(text, sizeof text, "x&%d", i);
    snprintf(id, sizeof id, "%d", i);
    assert_segment(file, text, id);
  }
  assert_end(file);
}

static const char xml[] =
    "<?xml version='1.0' encoding='utf-8'?>\n<dataset id=\"t\">\n"
    "<doc id=\"1\" origlang=\"en\"><src lang=\"en\"><p><seg id=\"1\">one</seg>\n"
    "<seg id=\"2\">two</seg></p></src>\n"
    "<ref lang=\"fr\" translator=\"A\"><p><seg id=\"1\">un</seg><seg id=\"2\">deux</seg></p></ref>\n"
    "<ref lang=\"fr\" translator=\"B\"><seg id=\"1\">1</seg><seg id=\"2\">2</seg></ref>\n"
    "<hyp system=\"S\"><seg id=\"1\">u</seg><seg id=\"2\">d</seg></hyp></doc>\n"
    "<doc id=\"2\" testsuite=\"x\"><src><seg id=\"1\">no</seg></src></doc>\n"
    "<doc id=\"3\"><src><seg id=\"1\">three</seg></src><ref><seg id=\"1\">trois</seg></ref>"
    "<hyp><seg id=\"1\">t</seg></hyp></doc></dataset>\n";

static void test_markup_pairs(void **state)
{
  (void)state;
  tsr_corpus *corpus = open_corpus(xml, NULL);
  assert_pair(corpus, "one", "un", 1);
  assert_pair(corpus, "two", "deux", 2);
  assert_pair(corpus, "three", "trois", 3);
  assert_corpus_ends(corpus);
  check_positions(xml, NULL, 3);
  check_positions(sgm, "\n\nthree\n\n\nsix", 6);

  /* A system's output of the same file. */
  const char *path = path_in(folder, "all.xml");
  write_text(path, xml);
  tsr_corpus_files files = {.source = path, .target = path, .part = TSR_TEXT_HYPOTHESIS};
  assert_int_equal(tsr_corpus_open(&files, &corpus), TSR_OK);
  assert_pair(corpus, "u", "un", 1);
  assert_pair(corpus, "d", "deux", 2);
  assert_pair(corpus, "t", "trois", 3);
  assert_corpus_ends(corpus);

  corpus = open_corpus("<srcset><seg id=\"1\">one</seg><seg id=\"2\">two</seg></srcset>",
                       "<refset><seg id=\"1\">un</seg><seg id=\"3\">trois</seg></refset>");
  assert_pair(corpus, "one", "un", 1);
  assert_corpus_breaks(corpus, "segment 2 has the id 2 in ");
  assert_corpus_breaks(open_corpus("<srcset><seg>one</seg></srcset>", NULL), "source: expected <src> and <ref>");
  corpus =
      open_corpus("<dataset><doc><src><seg>a</seg><seg>b</seg></src><ref><seg>c</seg></ref></doc></dataset>", NULL);
  assert_pair(corpus, "a", "c", 1);
  assert_corpus_breaks(corpus, "there are more sources than references, which end after 1:");

  /* A position in a file that has changed. */
  corpus = open_corpus("<srcset><seg>one</seg><seg>two</seg>", "un\ndeux\n");
  assert_int_equal(tsr_corpus_seek(corpus, &(tsr_corpus_position){.source = 9, .target = 3, .number = 1}), TSR_ERR_IO);
  assert_message_has("source: no segment ends at byte 9");
  tsr_corpus_close(corpus);
}

static void test_character_references(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    size_t length; /* 0: none */
    uint32_t code_point;
  } cases[] = {
      {"&amp;x", 5, '&'},
      {"&yuml;", 6, 0xFF},
      {"&nbsp;", 6, 0xA0},
      {"&Eacute;", 8, 0xC9},
      {"&hellip;", 8, 0x2026},
      {"&#65;", 5, 'A'},
      {"&#x1F600;", 9, 0x1F600},
      {"&#X1f600;", 9, 0x1F600},
      {"&#0000000065;", 13, 'A'},
      {"&#0;", 4, 0xFFFD},
      {"&#xD800;", 8, 0xFFFD},
      {"&#1114112;", 10, 0xFFFD},
      {"&#99999999999;", 14, 0xFFFD},
      {"&", 0, 0},
      {"&;", 0, 0},
      {"&amp", 0, 0},
      {"&AMP;", 0, 0},
      {"&am;", 0, 0},
      {"&#;", 0, 0},
      {"&#x;", 0, 0},
      {"&#a;", 0, 0},
      {"&#-1;", 0, 0},
      {"&a b;", 0, 0},
      {"& #65;", 0, 0},
      {"&abcdefghijklmnopqrst;", 0, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint32_t code_point = 0;
    size_t length = tsr_character_reference(cases[i].text, strlen(cases[i].text), &code_point);
    assert_int_equal(length, cases[i].length);
    assert_int_equal(code_point, cases[i].code_point);
  }
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
      cmocka_unit_test(test_utf8),
      cmocka_unit_test(test_spaces),
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_long_lines),
      cmocka_unit_test(test_pairs),
      cmocka_unit_test(test_tsv),
      cmocka_unit_test(test_columns),
      cmocka_unit_test(test_positions),
      cmocka_unit_test(test_sgm),
      cmocka_unit_test(test_broken_sgm),
      cmocka_unit_test(test_large_sgm),
      cmocka_unit_test(test_markup_pairs),
      cmocka_unit_test(test_character_references),
      cmocka_unit_test(test_missing),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

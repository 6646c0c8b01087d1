/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that gzip or zstd compressed: they read as what was compressed, or as an error.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tessera/corpus.h"
#include "tests/support/compress.h"
#include "tests/support/temporary.h"

static const compression formats[] = {COMPRESSION_GZIP, COMPRESSION_ZSTD};
static const char *const names[] = {"text.gz", "text.zst"};
enum { FORMATS = 2, STEP = 97 /* between two cuts */ };

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

static void assert_message_has(const char *fragment)
{
  if (!strstr(tsr_error_message(), fragment)) {
    fail_msg("the message \"%s\" lacks \"%s\"", tsr_error_message(), fragment);
  }
}

/* ------------------------------------------------------------------------------------------------------------------
 * Bytes
 */
typedef struct bytes {
  char *data;
  size_t size;
} bytes;

static void append(bytes *b, const void *data, size_t size)
{
  b->data = realloc(b->data, b->size + size + 1);
  assert_non_null(b->data);
  memcpy(b->data + b->size, data, size);
  b->size += size;
  b->data[b->size] = '\0';
}

static void append_packed(bytes *b, compression format, const void *text, size_t size)
{
  size_t packed;
  unsigned char *data = compress_bytes(format, text, size, &packed);
  append(b, data, packed);
  free(data);
}

/* Lines of many lengths, some longer than a window of the reader, of letters that hardly compress. */
static bytes make_text(int lines)
{
  bytes text = {0};
  uint32_t draw = 1;
  for (int i = 0; i < lines; i++) {
    char number[16];
    append(&text, number, (size_t)snprintf(number, sizeof number, "%d ", i));
    size_t length = i == lines / 2 ? 70000 : (size_t)(i * 37 % 301);
    char *letters = malloc(length + 1);
    assert_non_null(letters);
    for (size_t k = 0; k < length; k++) {
      draw = draw * 1664525u + 1013904223u;
      letters[k] = (char)('!' + (draw >> 24) % 90);
    }
    letters[length] = '\n';
    append(&text, letters, length + 1);
    free(letters);
  }
  return text;
}

/* ------------------------------------------------------------------------------------------------------------------
 * Reading
 */
/* Reads on from `*at` of the text; returns how that ended. What is read must be the text's lines. */
static tsr_status read_on(tsr_text_file *file, const bytes *text, size_t *at)
{
  tsr_corpus_sentence sentence;
  int32_t end;
  tsr_status status;
  while ((status = tsr_text_file_next(file, &sentence, &end)) == TSR_OK && !end) {
    assert_true(*at + sentence.size + 1 <= text->size);
    assert_memory_equal(sentence.text, text->data + *at, sentence.size);
    *at += sentence.size + 1;
    assert_int_equal(text->data[*at - 1], '\n');
    assert_int_equal(tsr_text_file_tell(file), *at);
  }
  return status;
}

static void assert_reads(tsr_text_file *file, const bytes *text)
{
  size_t at = 0;
  assert_int_equal(read_on(file, text, &at), TSR_OK);
  assert_int_equal(at, text->size);
}

static tsr_text_file *view(const char *name, const bytes *packed)
{
  tsr_text_file *file;
  assert_int_equal(tsr_text_file_view(name, packed->data, packed->size, TSR_TEXT_SOURCE, &file), TSR_OK);
  return file;
}

/* In memory and as a file: both read as the text, twice. */
static void assert_both_read(const char *name, const bytes *packed, const bytes *text)
{
  const char *path = path_in(folder, name);
  write_file(path, packed->data, packed->size);
  tsr_text_file *files[2] = {view(name, packed)};
  assert_int_equal(tsr_text_file_open(path, TSR_TEXT_SOURCE, &files[1]), TSR_OK);
  for (int i = 0; i < 2; i++) {
    assert_reads(files[i], text);
    assert_int_equal(tsr_text_file_seek(files[i], 0, 0), TSR_OK);
    assert_reads(files[i], text);
    tsr_text_file_close(files[i]);
  }
}

/* Reads until an error, which must come; then the message is there. Returns how much of the text came before it. */
static size_t assert_breaks(const char *name, const bytes *packed, const bytes *text, tsr_status expected)
{
  tsr_text_file *file;
  tsr_status status = tsr_text_file_view(name, packed->data, packed->size, TSR_TEXT_SOURCE, &file);
  size_t at = 0;
  for (int again = 0; again < 2 && file; again++) {
    at = 0;
    status = read_on(file, text, &at);
    assert_int_equal(read_on(file, text, &at), status);
    if (status != expected) {
      fail_msg("%s: %zu bytes read as if the file were whole", name, packed->size);
    }
    assert_int_equal(tsr_text_file_seek(file, 0, 0), TSR_OK);
  }
  assert_int_equal(status, expected);
  tsr_text_file_close(file);
  assert_message_has(name);
  return at;
}

static void test_whole(void **state)
{
  (void)state;
  bytes text = make_text(2000);
  bytes nothing = {0};
  for (int f = 0; f < FORMATS; f++) {
    if (!has_compression(formats[f])) {
      continue;
    }
    bytes packed = {0};
    append_packed(&packed, formats[f], text.data, text.size);
    assert_both_read(names[f], &packed, &text);
    assert_both_read("named-otherwise", &packed, &text);
    free(packed.data);

    packed = (bytes){0};
    append_packed(&packed, formats[f], "", 0);
    assert_both_read(names[f], &packed, &nothing);
    free(packed.data);
  }
  free(text.data);
}

/* Members and frames behind one another, empty ones and what zstd skips among them, cut in the middle of lines. */
static void test_concatenated(void **state)
{
  (void)state;
  static const unsigned char skippable[] = {0x5A, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 'a', '\n', 'b'};
  bytes text = make_text(900);
  for (int f = 0; f < FORMATS; f++) {
    if (!has_compression(formats[f])) {
      continue;
    }
    int is_zstd = formats[f] == COMPRESSION_ZSTD;
    bytes packed = {0};
    for (size_t at = 0, size = 1; at < text.size; at += size, size = size * 3 + 1) {
      size = size < text.size - at ? size : text.size - at;
      append(&packed, skippable, is_zstd ? sizeof skippable : 0);
      append_packed(&packed, formats[f], text.data + at, size);
      append_packed(&packed, formats[f], "", 0);
    }
    append(&packed, skippable, is_zstd ? sizeof skippable : 0);
    assert_both_read(names[f], &packed, &text);
    free(packed.data);
  }
  free(text.data);
}

static void test_cut_off(void **state)
{
  (void)state;
  bytes text = make_text(300);
  for (int f = 0; f < FORMATS; f++) {
    if (!has_compression(formats[f])) {
      continue;
    }
    bytes packed = {0};
    append_packed(&packed, formats[f], text.data, text.size / 3);
    size_t second = packed.size;
    append_packed(&packed, formats[f], text.data + text.size / 3, text.size - text.size / 3);
    for (size_t size = packed.size - 1, at = 0; size > 0; at++, size = size > STEP ? size - STEP : size - 1) {
      /* A block of its own, so that sanitizers see what is read behind it. */
      bytes cut = {0};
      append(&cut, packed.data, size);
      cut.data = realloc(cut.data, size);
      assert_non_null(cut.data);
      if (size != second) {
        assert_breaks(names[f], &cut, &text, TSR_ERR_FORMAT);
      }
      free(cut.data);
    }
    packed.size = second + 40;
    assert_breaks(names[f], &packed, &text, TSR_ERR_FORMAT);
    char expected[128];
    snprintf(expected, sizeof expected, "begins at compressed byte %zu, and the file ends at byte %zu", second,
             second + 40);
    assert_message_has(expected);
    assert_message_has(f == 0 ? "in the middle of a gzip member" : "in the middle of a zstd frame");
    packed.size = 0;
    assert_breaks(names[f], &packed, &text, TSR_ERR_FORMAT);
    assert_message_has("found 0 bytes");
    free(packed.data);
  }
  free(text.data);
}

/* A changed bit is an error, but for those that say nothing about the content: in the headers, and the last of gzip's
 * data, which fill a byte. */
static void test_damaged(void **state)
{
  (void)state;
  enum { GZIP_HEADER = 10, GZIP_TRAILER = 8, ZSTD_DESCRIPTOR = 5 };
  bytes text = make_text(300);
  for (int f = 0; f < FORMATS; f++) {
    if (!has_compression(formats[f])) {
      continue;
    }
    bytes packed = {0};
    append_packed(&packed, formats[f], text.data, text.size);
    size_t begin = f == 0 ? GZIP_HEADER : ZSTD_DESCRIPTOR;
    for (size_t at = begin; at < packed.size - GZIP_TRAILER - 1; at += STEP) {
      packed.data[at] ^= 0x10;
      tsr_text_file *file;
      tsr_status status = tsr_text_file_view(names[f], packed.data, packed.size, TSR_TEXT_SOURCE, &file);
      tsr_corpus_sentence sentence;
      for (int32_t end = 0; status == TSR_OK && !end;) {
        status = tsr_text_file_next(file, &sentence, &end);
      }
      if (status != TSR_ERR_FORMAT) {
        fail_msg("%s: byte %zu of %zu was changed unseen", names[f], at, packed.size);
      }
      assert_message_has(names[f]);
      tsr_text_file_close(file);
      packed.data[at] ^= 0x10;
    }
    size_t checksum = packed.size - (f == 0 ? GZIP_TRAILER : 1);
    packed.data[checksum] ^= 1;
    assert_breaks(names[f], &packed, &text, TSR_ERR_FORMAT);
    assert_message_has("that begins at compressed byte 0 is broken at byte ");
    assert_message_has(f == 0 ? "incorrect data check" : "hecksum");
    packed.data[checksum] ^= 1;
    append(&packed, "and so on", 9);
    assert_int_equal(assert_breaks(names[f], &packed, &text, TSR_ERR_FORMAT), text.size);
    free(packed.data);
  }
  free(text.data);
}

static void test_positions(void **state)
{
  (void)state;
  enum { LINES = 400 };
  bytes text = make_text(LINES);
  int64_t begins[LINES + 1] = {0};
  for (int i = 0; i < LINES; i++) {
    const char *feed = memchr(text.data + begins[i], '\n', text.size - (size_t)begins[i]);
    begins[i + 1] = feed - text.data + 1;
  }
  for (int f = 0; f < FORMATS; f++) {
    if (!has_compression(formats[f])) {
      continue;
    }
    bytes packed = {0};
    append_packed(&packed, formats[f], text.data, text.size / 2);
    append_packed(&packed, formats[f], text.data + text.size / 2, text.size - text.size / 2);
    const char *path = path_in(folder, names[f]);
    write_file(path, packed.data, packed.size);
    tsr_text_file *files[2] = {view(names[f], &packed)};
    assert_int_equal(tsr_text_file_open(path, TSR_TEXT_SOURCE, &files[1]), TSR_OK);
    for (int side = 0; side < 2; side++) {
      for (int i = 0; i < 60; i++) {
        int line = i * 7919 % (LINES + 1);
        assert_int_equal(tsr_text_file_seek(files[side], begins[line], line), TSR_OK);
        assert_int_equal(tsr_text_file_tell(files[side]), begins[line]);
        tsr_corpus_sentence sentence;
        int32_t end;
        for (int k = line; k < LINES && k < line + 3; k++) {
          assert_int_equal(tsr_text_file_next(files[side], &sentence, &end), TSR_OK);
          assert_false(end);
          assert_int_equal(sentence.number, k + 1);
          assert_int_equal(sentence.size, begins[k + 1] - begins[k] - 1);
          assert_memory_equal(sentence.text, text.data + begins[k], sentence.size);
        }
      }
      assert_int_equal(tsr_text_file_seek(files[side], begins[7] + 1, 7), TSR_ERR_IO);
      assert_message_has("no line begins at byte ");
      assert_int_equal(tsr_text_file_seek(files[side], begins[LINES] + 2, LINES), TSR_ERR_IO);
      assert_message_has("bytes, but byte ");
      assert_int_equal(tsr_text_file_seek(files[side], -1, 0), TSR_ERR_IO);
      assert_int_equal(tsr_text_file_seek(files[side], 0, 0), TSR_OK);
      assert_reads(files[side], &text);
      tsr_text_file_close(files[side]);
    }
    free(packed.data);
  }
  free(text.data);
}

/* What a text may begin with, a corpus of a compressed and a plain file, and segments. */
static void test_contents(void **state)
{
  (void)state;
  static const char source[] = "\xEF\xBB\xBFone\r\ntwo\n";
  static const char sgm[] = "<refset><seg id=\"1\">un</seg>\n<seg id=\"2\">deux</seg></refset>";
  static const char *const expected[2][2] = {{"one", "un"}, {"two", "deux"}};
  bytes packed = {0};
  append_packed(&packed, COMPRESSION_GZIP, source, strlen(source));
  const char *source_path = path_in(folder, "source.gz");
  write_file(source_path, packed.data, packed.size);
  const char *target_path = path_in(folder, "target");
  static const char *const targets[] = {"un\ndeux\n", sgm};
  for (int i = 0; i < 2; i++) {
    write_text(target_path, targets[i]);
    tsr_corpus *corpus;
    tsr_corpus_files files = {.source = source_path, .target = target_path};
    assert_int_equal(tsr_corpus_open(&files, &corpus), TSR_OK);
    tsr_corpus_pair pair;
    tsr_corpus_position position = {0};
    int32_t end;
    for (int k = 0; k < 4; k++) {
      assert_int_equal(tsr_corpus_next(corpus, &pair, &end), TSR_OK);
      assert_false(end);
      assert_int_equal(pair.number, k % 2 + 1);
      assert_memory_equal(pair.source, expected[k % 2][0], pair.source_size);
      assert_memory_equal(pair.target, expected[k % 2][1], pair.target_size);
      if (k == 1) {
        assert_int_equal(tsr_corpus_seek(corpus, &position), TSR_OK);
      }
    }
    assert_int_equal(tsr_corpus_next(corpus, &pair, &end), TSR_OK);
    assert_true(end);
    tsr_corpus_close(corpus);
  }

  /* Segments by what the name says without its last ending. */
  static const char bare[] = "<seg id=\"1\">x</seg>";
  free(packed.data);
  packed = (bytes){0};
  append_packed(&packed, COMPRESSION_GZIP, bare, strlen(bare));
  tsr_text_file *file = view("a.SGM.gz", &packed);
  tsr_corpus_sentence sentence;
  int32_t end;
  assert_int_equal(tsr_text_file_next(file, &sentence, &end), TSR_OK);
  assert_int_equal(sentence.size, 1);
  assert_string_equal(sentence.id, "1");
  tsr_text_file_close(file);
  free(packed.data);
}

/* Headers of zstd with the windows that are allowed and the next one; a build without zstd refuses both. */
static void test_windows(void **state)
{
  (void)state;
  static const bytes nothing = {0};
  unsigned char frame[] = {0x28, 0xB5, 0x2F, 0xFD, 0, 17 << 3 /* 2^27 */, 1, 0, 0};
  bytes packed = {(char *)frame, sizeof frame};
  if (!has_compression(COMPRESSION_ZSTD)) {
    assert_breaks("a.zst", &packed, &nothing, TSR_ERR_UNSUPPORTED);
    assert_message_has("built without libzstd");
    return;
  }
  assert_both_read("a.zst", &packed, &nothing);
  frame[5] = 18 << 3;
  assert_breaks("a.zst", &packed, &nothing, TSR_ERR_FORMAT);
  assert_message_has("a window of more than 128 MiB");
}

/* A text that is no compressed one although it begins so. */
static void test_plain(void **state)
{
  (void)state;
  static const char *const texts[] = {"\x1F\n", "(\xC2\xB5/\n", "P*M\n", "(\n"};
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    bytes text = {(char *)texts[i], strlen(texts[i])};
    assert_both_read("plain", &text, &text);
  }
}

#ifndef _WIN32
static void test_pipe(void **state)
{
  (void)state;
  bytes text = make_text(50);
  text.size = 3000;
  while (text.data[text.size - 1] != '\n') {
    text.size--;
  }
  for (int f = 0; f < FORMATS; f++) {
    if (!has_compression(formats[f])) {
      continue;
    }
    bytes packed = {0};
    append_packed(&packed, formats[f], text.data, text.size);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], packed.data, packed.size), packed.size);
    close(ends[1]);
    char path[32];
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    tsr_text_file *file;
    assert_int_equal(tsr_text_file_open(path, TSR_TEXT_SOURCE, &file), TSR_OK);
    assert_reads(file, &text);
    tsr_text_file_close(file);
    close(ends[0]);
    free(packed.data);
  }
  free(text.data);
}
#endif

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole),   cmocka_unit_test(test_concatenated), cmocka_unit_test(test_cut_off),
      cmocka_unit_test(test_damaged), cmocka_unit_test(test_positions),    cmocka_unit_test(test_contents),
      cmocka_unit_test(test_windows), cmocka_unit_test(test_plain),
#ifndef _WIN32
      cmocka_unit_test(test_pipe),
#endif
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

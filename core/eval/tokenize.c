/* SPDX-License-Identifier: Apache-2.0
 *
 * The tokenizer 13a, as the passes over the text by which mteval-v13a.pl defines it.
 *
 * The passes are substitutions from left to right; what one has replaced, the next one sees. They work on bytes: only
 * ASCII characters are looked for, and the bytes of others are never ASCII.
 */
#include <stdint.h>
#include <string.h>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/eval/words.h"

/* The end of the text without the white space that it ends with. */
static size_t without_trailing_space(const char *text, size_t size)
{
  while (size > 0) {
    size_t at = size - 1;
    while (at > 0 && ((unsigned char)text[at] & 0xC0) == 0x80) {
      at--;
    }
    size_t length;
    if (!tsr_is_space(tsr_utf8_decode(text + at, size - at, &length))) {
      break;
    }
    size = at;
  }
  return size;
}

/* Replaces each `from` by the shorter `to`, in place; returns the new size. */
static size_t substitute(char *text, size_t size, const char *from, const char *to)
{
  size_t n_from = strlen(from);
  size_t n_to = strlen(to);
  size_t used = 0;
  size_t read = 0;
  while (read < size) {
    const char *found = memchr(text + read, from[0], size - read);
    size_t at = found ? (size_t)(found - text) : size;
    memmove(text + used, text + read, at - read);
    used += at - read;
    read = at;
    if (read == size) {
      break;
    }
    if (size - read >= n_from && memcmp(text + read, from, n_from) == 0) {
      memcpy(text + used, to, n_to);
      used += n_to;
      read += n_from;
    } else {
      text[used++] = text[read++];
    }
  }
  return used;
}

static int is_digit(char c)
{
  return c >= '0' && c <= '9';
}

static int is_point(char c)
{
  return c == '.' || c == ',';
}

/* ASCII punctuation but ' , - . and the space. */
static int is_separator(char c)
{
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

static size_t put_apart(char *to, char c)
{
  to[0] = ' ';
  to[1] = c;
  to[2] = ' ';
  return 3;
}

/* c -> " c " for separators. */
static size_t split_separators(const char *text, size_t size, char *to)
{
  size_t used = 0;
  for (size_t i = 0; i < size; i++) {
    if (is_separator(text[i])) {
      used += put_apart(to + used, text[i]);
    } else {
      to[used++] = text[i];
    }
  }
  return used;
}

static int point_after_other(char a, char b)
{
  return !is_digit(a) && is_point(b);
}

static int hyphen_after_digit(char a, char b)
{
  return is_digit(a) && b == '-';
}

/* ab -> "a b " where the pair matches; the next one begins behind it. */
static size_t split_second(const char *text, size_t size, char *to, int (*matches)(char a, char b))
{
  size_t used = 0;
  for (size_t i = 0; i < size; i++) {
    to[used++] = text[i];
    if (i + 1 < size && matches(text[i], text[i + 1])) {
      used += put_apart(to + used, text[++i]);
    }
  }
  return used;
}

/* ab -> " a b" for a point or comma before anything but a digit. */
static size_t split_points_before_others(const char *text, size_t size, char *to)
{
  size_t used = 0;
  for (size_t i = 0; i < size; i++) {
    if (i + 1 < size && is_point(text[i]) && !is_digit(text[i + 1])) {
      used += put_apart(to + used, text[i]);
      to[used++] = text[++i];
    } else {
      to[used++] = text[i];
    }
  }
  return used;
}

tsr_status tsr_tokenize_13a(tsr_text_buffer buffers[2], const char *text, size_t size, const char **tokens,
                            size_t *tokens_size)
{
  size = without_trailing_space(text, size);
  if (size > (SIZE_MAX - 2) / 81) {
    return tsr_fail_memory(SIZE_MAX);
  }
  TSR_TRY(tsr_text_buffer_reserve(&buffers[0], size + 2));
  char *line = buffers[0].bytes;
  line[0] = ' ';
  if (size > 0) {
    memcpy(line + 1, text, size);
  }
  size = substitute(line + 1, size, "<skipped>", "");
  size = substitute(line + 1, size, "-\n", "");
  size = substitute(line + 1, size, "\n", " ");
  size = substitute(line + 1, size, "&quot;", "\"");
  size = substitute(line + 1, size, "&amp;", "&");
  size = substitute(line + 1, size, "&lt;", "<");
  size = substitute(line + 1, size, "&gt;", ">");
  line[1 + size] = ' ';
  size += 2;

  /* A pass writes at most three bytes for one. */
  TSR_TRY(tsr_text_buffer_reserve(&buffers[1], 3 * size));
  size = split_separators(buffers[0].bytes, size, buffers[1].bytes);
  TSR_TRY(tsr_text_buffer_reserve(&buffers[0], 3 * size));
  size = split_second(buffers[1].bytes, size, buffers[0].bytes, point_after_other);
  TSR_TRY(tsr_text_buffer_reserve(&buffers[1], 3 * size));
  size = split_points_before_others(buffers[0].bytes, size, buffers[1].bytes);
  TSR_TRY(tsr_text_buffer_reserve(&buffers[0], 3 * size));
  size = split_second(buffers[1].bytes, size, buffers[0].bytes, hyphen_after_digit);
  *tokens = buffers[0].bytes;
  *tokens_size = size;
  return TSR_OK;
}

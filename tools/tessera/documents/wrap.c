/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/documents/wrap.h"

#include <string.h>

/* The bytes of a tag at text; 0: there is none. */
static size_t tag_size(const char *text, size_t size)
{
  if (size < 3 || text[0] != '<' || doc_is_blank(text[1])) {
    return 0;
  }
  const char *close = memchr(text, '>', size < 200 ? size : 200);
  return close ? (size_t)(close - text) + 1 : 0;
}

/* The end of the word at `at`, which may have tags within it, and its characters. */
static size_t word_end(const char *text, size_t at, size_t size, size_t *width)
{
  *width = 0;
  while (at < size && !doc_is_blank(text[at])) {
    size_t tag = tag_size(text + at, size - at);
    if (tag > 0) {
      at += tag;
      continue;
    }
    *width += ((unsigned char)text[at] & 0xC0) != 0x80;
    at++;
  }
  return at;
}

size_t doc_width(const char *text, size_t size)
{
  size_t sum = 0;
  for (size_t at = 0; at < size;) {
    size_t width, end = word_end(text, at, size, &width);
    sum += width + (end < size);
    at = end < size ? end + 1 : end;
  }
  return sum;
}

/* Wraps; counts lines alone where out is NULL. */
static size_t wrap(doc_buffer *out, const char *text, size_t size, size_t most, const char *end)
{
  size_t lines = 1, used = 0;
  for (size_t at = 0; at < size;) {
    size_t width, close = word_end(text, at, size, &width);
    int begins = used > 0 && used + 1 + width > most;
    lines += begins;
    if (out && at > 0) {
      doc_buffer_text(out, begins ? end : " ");
    }
    if (out) {
      doc_buffer_add(out, text + at, close - at);
    }
    used = begins ? width : used + width + (used > 0);
    at = close;
    while (at < size && doc_is_blank(text[at])) {
      at++;
    }
  }
  return lines;
}

void doc_wrap(doc_buffer *out, const char *text, size_t size, size_t width, const char *end)
{
  wrap(out, text, size, width, end);
}

size_t doc_even_width(const char *text, size_t size, size_t lines)
{
  size_t low = 1, high = doc_width(text, size) + 1;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (wrap(NULL, text, size, middle, "") <= lines) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

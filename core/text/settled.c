/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/settled.h"
#include "core/base/utf8.h"

/* Thai to Myanmar, Khmer, and from the radicals of Chinese on, less U+FFFD: words do not end with blanks there. */
static int is_without_blanks(uint32_t point)
{
  enum { REPLACEMENT = 0xFFFD };
  return (point >= 0x0E00 && point < 0x10A0) || (point >= 0x1780 && point < 0x1800) ||
         (point >= 0x2E80 && point < 0xA4D0) || (point >= 0xF900 && point < 0xFB00) ||
         (point >= 0xFF00 && point < REPLACEMENT) || (point >= 0x20000 && point < 0x40000);
}

size_t tsr_text_settled(const char *text, size_t size)
{
  size_t settled = 0;
  for (size_t at = 0, length = 0; at < size; at += length) {
    uint32_t point = tsr_utf8_decode(text + at, size - at, &length);
    if (point == ' ') {
      settled = at;
    } else if (is_without_blanks(point)) {
      settled = at + length;
    }
  }
  return settled;
}

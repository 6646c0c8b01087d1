/* SPDX-License-Identifier: Apache-2.0 */
#include "core/base/utf8.h"
#include "tessera/text.h"

#include <string.h>

/* Like tsr_utf8_decode, but returns 0xFFFFFFFF for an error. */
static const uint32_t invalid = 0xFFFFFFFFu;

static uint32_t decode(const unsigned char *at, size_t size, size_t *length)
{
  *length = 1;
  if (at[0] < 0x80) {
    return at[0];
  }
  if (at[0] < 0xC2 || at[0] > 0xF4) {
    return invalid;
  }
  size_t wanted = at[0] >= 0xF0 ? 4 : at[0] >= 0xE0 ? 3 : 2;
  /* The second byte's range shuts out overlong forms, surrogates and what lies beyond U+10FFFF. */
  unsigned char low = at[0] == 0xE0 ? 0xA0 : at[0] == 0xF0 ? 0x90 : 0x80;
  unsigned char high = at[0] == 0xED ? 0x9F : at[0] == 0xF4 ? 0x8F : 0xBF;
  uint32_t code_point = at[0] & (0x7Fu >> wanted);
  for (size_t i = 1; i < wanted; i++) {
    if (i == size || at[i] < low || at[i] > high) {
      return invalid;
    }
    code_point = code_point << 6 | (at[i] & 0x3Fu);
    *length = i + 1;
    low = 0x80;
    high = 0xBF;
  }
  return code_point;
}

uint32_t tsr_utf8_decode(const char *text, size_t size, size_t *length)
{
  uint32_t code_point = decode((const unsigned char *)text, size, length);
  return code_point == invalid ? (uint32_t)TSR_REPLACEMENT_CHARACTER : code_point;
}

size_t tsr_utf8_encode(uint32_t code_point, char text[TSR_UTF8_LONGEST])
{
  if (code_point < 0x80) {
    text[0] = (char)code_point;
    return 1;
  }
  size_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
  for (size_t i = length - 1; i > 0; i--) {
    text[i] = (char)(0x80u | (code_point & 0x3Fu));
    code_point >>= 6;
  }
  text[0] = (char)((0xF00u >> length & 0xFFu) | code_point);
  return length;
}

/* Bytes before the first that is not ASCII. */
static size_t count_ascii(const char *text, size_t size)
{
  size_t i = 0;
  for (uint64_t word; i + sizeof word <= size; i += sizeof word) {
    memcpy(&word, text + i, sizeof word);
    if (word & UINT64_C(0x8080808080808080)) {
      break;
    }
  }
  while (i < size && (unsigned char)text[i] < 0x80) {
    i++;
  }
  return i;
}

int tsr_utf8_is_valid(const char *text, size_t size)
{
  size_t length;
  for (size_t i = count_ascii(text, size); i < size; i += length) {
    if (decode((const unsigned char *)text + i, size - i, &length) == invalid) {
      return 0;
    }
  }
  return 1;
}

size_t tsr_utf8_clean(const char *text, size_t size, char *clean)
{
  size_t used = 0;
  size_t length;
  for (size_t i = 0; i < size; i += length) {
    used += tsr_utf8_encode(tsr_utf8_decode(text + i, size - i, &length), clean + used);
  }
  return used;
}

int tsr_is_space(uint32_t c)
{
  if (c < 0x80) {
    return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  }
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

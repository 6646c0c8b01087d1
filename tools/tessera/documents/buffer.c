/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/documents/buffer.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

static int make_room(doc_buffer *buffer, size_t more)
{
  if (buffer->failed || more > SIZE_MAX / 4 - buffer->size) {
    buffer->failed = 1;
    return 0;
  }
  size_t wanted = buffer->size + more + 1;
  if (wanted > buffer->room) {
    size_t room = buffer->room ? buffer->room : 64;
    while (room < wanted) {
      room *= 2;
    }
    char *bytes = realloc(buffer->bytes, room);
    if (!bytes) {
      buffer->failed = 1;
      return 0;
    }
    buffer->bytes = bytes;
    buffer->room = room;
  }
  return 1;
}

void doc_buffer_add(doc_buffer *buffer, const void *bytes, size_t size)
{
  if (make_room(buffer, size)) {
    if (size > 0) {
      memcpy(buffer->bytes + buffer->size, bytes, size);
    }
    buffer->size += size;
    buffer->bytes[buffer->size] = '\0';
  }
}

void doc_buffer_text(doc_buffer *buffer, const char *text)
{
  doc_buffer_add(buffer, text, strlen(text));
}

void doc_buffer_char(doc_buffer *buffer, char c)
{
  doc_buffer_add(buffer, &c, 1);
}

void doc_buffer_finish(doc_buffer *buffer)
{
  free(buffer->bytes);
  *buffer = (doc_buffer){0};
}

tsr_status doc_no_memory(void)
{
  return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "out of memory for a document");
}

tsr_status doc_buffer_check(const doc_buffer *buffer)
{
  return buffer->failed ? doc_no_memory() : TSR_OK;
}

tsr_status doc_buffer_take(doc_buffer *buffer, char **bytes, size_t *size)
{
  doc_buffer_add(buffer, "", 0);
  tsr_status status = doc_buffer_check(buffer);
  if (status == TSR_OK) {
    *bytes = buffer->bytes;
    *size = buffer->size;
    *buffer = (doc_buffer){0};
  }
  return status;
}

void *doc_grow(void *array, size_t n, size_t *room, size_t element)
{
  if (array && n < *room) {
    return array;
  }
  size_t wanted = n < 8 ? 16 : 2 * n;
  if (wanted > SIZE_MAX / element) {
    return NULL;
  }
  void *grown = realloc(array, wanted * element);
  if (grown) {
    *room = wanted;
  }
  return grown;
}

size_t doc_utf8(const char *text, size_t size, int32_t *character)
{
  utf8proc_int32_t found = -1;
  utf8proc_ssize_t most = size < 4 ? (utf8proc_ssize_t)size : 4;
  utf8proc_ssize_t n = most > 0 ? utf8proc_iterate((const utf8proc_uint8_t *)text, most, &found) : 0;
  *character = n > 0 ? found : 0xFFFD;
  return n > 0 ? (size_t)n : 0;
}

void doc_buffer_utf8(doc_buffer *buffer, int32_t character)
{
  utf8proc_uint8_t bytes[4];
  utf8proc_ssize_t n = utf8proc_codepoint_valid(character) ? utf8proc_encode_char(character, bytes) : 0;
  if (n > 0) {
    doc_buffer_add(buffer, bytes, (size_t)n);
  } else {
    doc_buffer_text(buffer, "\xEF\xBF\xBD");
  }
}

size_t doc_utf8_check(const char *text, size_t size)
{
  size_t at = 0;
  while (at < size) {
    int32_t character;
    size_t n = (unsigned char)text[at] < 0x80 ? 1 : doc_utf8(text + at, size - at, &character);
    if (n == 0) {
      break;
    }
    at += n;
  }
  return at;
}

int doc_is_blank(char c)
{
  return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

/* Scripts that put no blanks between words. */
static int is_ideograph(int32_t c)
{
  return (c >= 0x0E00 && c <= 0x0EFF) || (c >= 0x1000 && c <= 0x109F) || (c >= 0x1780 && c <= 0x17FF) ||
         (c >= 0x3040 && c <= 0x30FF) || (c >= 0x3400 && c <= 0x9FFF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x20000 && c <= 0x3FFFF);
}

int32_t doc_class(int32_t c)
{
  if (c < 0x80) {
    return doc_is_blank((char)c) ? DOC_SPACE : isalpha(c) ? DOC_LETTER : isdigit(c) ? DOC_DIGIT : DOC_MARK;
  }
  switch (utf8proc_category(c)) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
    return is_ideograph(c) ? DOC_IDEOGRAPH : DOC_LETTER;
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_CF:
    return DOC_JOINED;
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_NO:
    return DOC_DIGIT;
  case UTF8PROC_CATEGORY_ZS:
  case UTF8PROC_CATEGORY_ZL:
  case UTF8PROC_CATEGORY_ZP:
    return DOC_SPACE;
  default:
    return DOC_MARK;
  }
}

int doc_is_lower(int32_t character)
{
  return utf8proc_category(character) == UTF8PROC_CATEGORY_LL;
}

int doc_has_letter(const char *text, size_t size)
{
  for (size_t at = 0; at < size;) {
    int32_t character;
    size_t n = doc_utf8(text + at, size - at, &character);
    int32_t class = doc_class(character);
    if (n > 0 && (class == DOC_LETTER || class == DOC_IDEOGRAPH)) {
      return 1;
    }
    at += n > 0 ? n : 1;
  }
  return 0;
}

int doc_starts(const char *text, size_t size, const char *word)
{
  size_t length = strlen(word);
  if (size < length) {
    return 0;
  }
  for (size_t i = 0; i < length; i++) {
    if (tolower((unsigned char)text[i]) != word[i]) {
      return 0;
    }
  }
  return 1;
}

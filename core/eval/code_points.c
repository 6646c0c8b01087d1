/* SPDX-License-Identifier: Apache-2.0 */
#include "core/eval/code_points.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "core/base/status.h"
#include "core/base/utf8.h"

enum { CAPITAL_SIGMA = 0x3A3, SMALL_SIGMA = 0x3C3, FINAL_SIGMA = 0x3C2, CAPITAL_I_WITH_DOT = 0x130, DOT_ABOVE = 0x307 };

tsr_status tsr_code_points_reserve(tsr_code_points *text, size_t room)
{
  if (room <= text->room) {
    return TSR_OK;
  }
  room = room / 2 < text->room ? 2 * text->room : room;
  uint32_t *at = room <= SIZE_MAX / sizeof *at ? realloc(text->at, room * sizeof *at) : NULL;
  if (!at) {
    return tsr_fail_memory(room);
  }
  text->at = at;
  text->room = room;
  return TSR_OK;
}

tsr_status tsr_code_points_add(tsr_code_points *text, uint32_t c)
{
  TSR_TRY(tsr_code_points_reserve(text, text->n + 1));
  text->at[text->n++] = c;
  return TSR_OK;
}

tsr_status tsr_code_points_append(tsr_code_points *text, const uint32_t *at, size_t n)
{
  if (n > 0) {
    TSR_TRY(tsr_code_points_reserve(text, text->n + n));
    memcpy(text->at + text->n, at, n * sizeof *at);
    text->n += n;
  }
  return TSR_OK;
}

tsr_status tsr_code_points_append_ascii(tsr_code_points *text, const char *ascii)
{
  return tsr_code_points_append_utf8(text, ascii, strlen(ascii));
}

tsr_status tsr_code_points_append_utf8(tsr_code_points *text, const char *bytes, size_t size)
{
  TSR_TRY(tsr_code_points_reserve(text, text->n + size));
  size_t length;
  for (size_t i = 0; i < size; i += length) {
    text->at[text->n++] = tsr_utf8_decode(bytes + i, size - i, &length);
  }
  return TSR_OK;
}

static utf8proc_category_t category(uint32_t c)
{
  return utf8proc_category((utf8proc_int32_t)c);
}

int tsr_is_decimal(uint32_t c)
{
  return category(c) == UTF8PROC_CATEGORY_ND;
}

int tsr_is_word(uint32_t c)
{
  utf8proc_category_t found = category(c);
  return (found >= UTF8PROC_CATEGORY_LU && found <= UTF8PROC_CATEGORY_LO) ||
         (found >= UTF8PROC_CATEGORY_ND && found <= UTF8PROC_CATEGORY_NO) || c == '_';
}

uint32_t tsr_decimal_value(uint32_t c)
{
  /* The digits of a script follow each other from 0 to 9, and what stands before a 0 is another script's 9 or none. */
  uint32_t value = 0;
  while (value < c && tsr_is_decimal(c - value - 1)) {
    value++;
  }
  return value % 10;
}

int tsr_is_nonspacing_mark(uint32_t c)
{
  return category(c) == UTF8PROC_CATEGORY_MN;
}

int tsr_is_sign(uint32_t c)
{
  utf8proc_category_t found = category(c);
  return (found >= UTF8PROC_CATEGORY_MN && found <= UTF8PROC_CATEGORY_ME) ||
         (found >= UTF8PROC_CATEGORY_PC && found <= UTF8PROC_CATEGORY_SO);
}

int tsr_is_grapheme_break(uint32_t before, uint32_t after, int32_t *state)
{
  return utf8proc_grapheme_break_stateful((utf8proc_int32_t)before, (utf8proc_int32_t)after, state);
}

/* ---- lower case -------------------------------------------------------------------------------------------------- */

/* Unicode's property Case_Ignorable. */
static int is_case_ignorable(uint32_t c)
{
  switch (category(c)) {
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_SK:
    return 1;
  default:
    break;
  }
  switch (c) { /* points and quotes within words */
  case '\'':
  case '.':
  case ':':
  case 0xB7:
  case 0x387:
  case 0x55F:
  case 0x5F4:
  case 0x2018:
  case 0x2019:
  case 0x2024:
  case 0x2027:
  case 0xFE13:
  case 0xFE52:
  case 0xFE55:
  case 0xFF07:
  case 0xFF0E:
  case 0xFF1A:
    return 1;
  default:
    return 0;
  }
}

/* Unicode's property Cased, of characters that are not Case_Ignorable. */
static int is_cased(uint32_t c)
{
  utf8proc_category_t found = category(c);
  utf8proc_int32_t point = (utf8proc_int32_t)c;
  return found == UTF8PROC_CATEGORY_LU || found == UTF8PROC_CATEGORY_LL || found == UTF8PROC_CATEGORY_LT ||
         utf8proc_toupper(point) != point || utf8proc_tolower(point) != point || c == 0xAA || c == 0xBA ||
         (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

/* 1 if the first character after text[i] that is not Case_Ignorable is Cased. *end: where it stands, or the end. */
static int is_before_cased(const tsr_code_points *text, size_t i, size_t *end)
{
  size_t at = i + 1;
  while (at < text->n && is_case_ignorable(text->at[at])) {
    at++;
  }
  *end = at;
  return at < text->n && is_cased(text->at[at]);
}

tsr_status tsr_code_points_lower(const tsr_code_points *text, tsr_code_points *result)
{
  result->n = 0;
  int after_cased = 0; /* the last character that is not Case_Ignorable is Cased */
  int before_cased = 0;
  size_t known = 0; /* where before_cased was found; it holds up to there */
  for (size_t i = 0; i < text->n; i++) {
    uint32_t c = text->at[i];
    uint32_t lower = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    if (c == CAPITAL_SIGMA) {
      if (i >= known) {
        before_cased = is_before_cased(text, i, &known);
      }
      lower = after_cased && !before_cased ? FINAL_SIGMA : SMALL_SIGMA;
    }
    if (c == CAPITAL_I_WITH_DOT) {
      TSR_TRY(tsr_code_points_add(result, 'i'));
      lower = DOT_ABOVE;
    }
    TSR_TRY(tsr_code_points_add(result, lower));
    if (!is_case_ignorable(c)) {
      after_cased = is_cased(c);
    }
  }
  return TSR_OK;
}

/* ---- normal forms ------------------------------------------------------------------------------------------------ */

static uint64_t combining_class(uint32_t c)
{
  return (uint64_t)utf8proc_get_property((utf8proc_int32_t)c)->combining_class;
}

static int compare_keys(const void *left, const void *right)
{
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

/* Sorts marks by their combining class, those of one class in their order. utf8proc's own way takes quadratic time. */
static tsr_status sort_marks(uint32_t *marks, size_t n)
{
  enum { POINT_BITS = 21, CLASS_SHIFT = 56 };
  uint64_t *keys = malloc(n * sizeof *keys);
  if (!keys) {
    return tsr_fail_memory(n * sizeof *keys);
  }
  for (size_t i = 0; i < n; i++) {
    keys[i] = combining_class(marks[i]) << CLASS_SHIFT | (uint64_t)i << POINT_BITS | marks[i];
  }
  qsort(keys, n, sizeof *keys, compare_keys);
  for (size_t i = 0; i < n; i++) {
    marks[i] = (uint32_t)(keys[i] & ((1u << POINT_BITS) - 1));
  }
  free(keys);
  return TSR_OK;
}

static tsr_status order_marks(tsr_code_points *text)
{
  size_t n;
  for (size_t i = 0; i < text->n; i += n) {
    int is_sorted = 1;
    uint64_t last = 0;
    for (n = 0; i + n < text->n; n++) {
      uint64_t next = combining_class(text->at[i + n]);
      if (next == 0) {
        break;
      }
      is_sorted &= next >= last;
      last = next;
    }
    if (!is_sorted) {
      TSR_TRY(sort_marks(text->at + i, n));
    }
    n += n == 0;
  }
  return TSR_OK;
}

tsr_status tsr_code_points_decompose(const tsr_code_points *text, tsr_code_points *result)
{
  enum { LONGEST = 32 }; /* code points that one may become; Unicode has none above 18 */
  result->n = 0;
  for (size_t i = 0; i < text->n; i++) {
    utf8proc_int32_t parts[LONGEST];
    int boundary_class = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)text->at[i], parts, LONGEST,
                                                 UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, &boundary_class);
    if (n < 0 || n > LONGEST) {
      return tsr_fail(TSR_ERR_INTERNAL, "U+%04X has no decomposition", (unsigned)text->at[i]);
    }
    for (utf8proc_ssize_t p = 0; p < n; p++) {
      TSR_TRY(tsr_code_points_add(result, (uint32_t)parts[p]));
    }
  }
  return order_marks(result);
}

tsr_status tsr_code_points_compose(tsr_code_points *text)
{
  if (text->n == 0) {
    return TSR_OK;
  }
  utf8proc_ssize_t n = utf8proc_normalize_utf32((utf8proc_int32_t *)text->at, (utf8proc_ssize_t)text->n,
                                                UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  if (n < 0) {
    return tsr_fail(TSR_ERR_INTERNAL, "normal form NFKC: %s", utf8proc_errmsg(n));
  }
  text->n = (size_t)n;
  return TSR_OK;
}

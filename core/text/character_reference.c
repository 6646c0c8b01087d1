/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/character_reference.h"

#include <string.h>

#include "core/base/utf8.h"

enum { LONGEST = 16 }; /* "&#0001114111;" and some zeros more */

/* U+00A0 and up. */
static const char *const latin_1[] = {
    "nbsp",   "iexcl",  "cent",   "pound",  "curren", "yen",    "brvbar", "sect",   "uml",    "copy",   "ordf",
    "laquo",  "not",    "shy",    "reg",    "macr",   "deg",    "plusmn", "sup2",   "sup3",   "acute",  "micro",
    "para",   "middot", "cedil",  "sup1",   "ordm",   "raquo",  "frac14", "frac12", "frac34", "iquest", "Agrave",
    "Aacute", "Acirc",  "Atilde", "Auml",   "Aring",  "AElig",  "Ccedil", "Egrave", "Eacute", "Ecirc",  "Euml",
    "Igrave", "Iacute", "Icirc",  "Iuml",   "ETH",    "Ntilde", "Ograve", "Oacute", "Ocirc",  "Otilde", "Ouml",
    "times",  "Oslash", "Ugrave", "Uacute", "Ucirc",  "Uuml",   "Yacute", "THORN",  "szlig",  "agrave", "aacute",
    "acirc",  "atilde", "auml",   "aring",  "aelig",  "ccedil", "egrave", "eacute", "ecirc",  "euml",   "igrave",
    "iacute", "icirc",  "iuml",   "eth",    "ntilde", "ograve", "oacute", "ocirc",  "otilde", "ouml",   "divide",
    "oslash", "ugrave", "uacute", "ucirc",  "uuml",   "yacute", "thorn",  "yuml",
};
_Static_assert(sizeof latin_1 / sizeof latin_1[0] == 96, "Latin-1 has 96 characters from U+00A0 on");

static const struct {
  const char *name;
  uint32_t code_point;
} others[] = {
    {"amp", '&'},       {"lt", '<'},        {"gt", '>'},       {"quot", '"'},     {"apos", '\''},
    {"ndash", 0x2013},  {"mdash", 0x2014},  {"lsquo", 0x2018}, {"rsquo", 0x2019}, {"sbquo", 0x201A},
    {"ldquo", 0x201C},  {"rdquo", 0x201D},  {"bdquo", 0x201E}, {"bull", 0x2022},  {"hellip", 0x2026},
    {"lsaquo", 0x2039}, {"rsaquo", 0x203A}, {"euro", 0x20AC},  {"trade", 0x2122}, {"OElig", 0x152},
    {"oelig", 0x153},   {"Scaron", 0x160},  {"scaron", 0x161}, {"ensp", 0x2002},  {"emsp", 0x2003},
    {"thinsp", 0x2009}, {"zwnj", 0x200C},   {"zwj", 0x200D},   {"minus", 0x2212},
};

static int equals(const char *name, size_t size, const char *expected)
{
  return strlen(expected) == size && memcmp(name, expected, size) == 0;
}

/* 0 if the name is not known. */
static uint32_t find_name(const char *name, size_t size)
{
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
    if (equals(name, size, others[i].name)) {
      return others[i].code_point;
    }
  }
  for (uint32_t i = 0; i < sizeof latin_1 / sizeof latin_1[0]; i++) {
    if (equals(name, size, latin_1[i])) {
      return 0xA0 + i;
    }
  }
  return 0;
}

/* The value of a digit; 16 for what is none. */
static uint32_t digit(char c)
{
  if (c >= '0' && c <= '9') {
    return (uint32_t)(c - '0');
  }
  if (c >= 'a' && c <= 'f') {
    return (uint32_t)(c - 'a') + 10;
  }
  return c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10 : 16;
}

/* "233" or "xE9"; 0 if it is no number, else a character. */
static uint32_t parse_number(const char *text, size_t size)
{
  uint32_t base = size > 0 && (text[0] == 'x' || text[0] == 'X') ? 16 : 10;
  size_t begin = base == 16;
  uint32_t value = 0;
  if (size == begin) {
    return 0;
  }
  for (size_t i = begin; i < size; i++) {
    uint32_t next = digit(text[i]);
    if (next >= base) {
      return 0;
    }
    if (value < 0x110000) {
      value = value * base + next;
    }
  }
  int character = value > 0 && value < 0x110000 && (value < 0xD800 || value > 0xDFFF);
  return character ? value : TSR_REPLACEMENT_CHARACTER;
}

size_t tsr_character_reference(const char *text, size_t size, uint32_t *code_point)
{
  size_t seen = size < LONGEST ? size : LONGEST;
  const char *semicolon = memchr(text, ';', seen);
  if (!semicolon) {
    return 0;
  }
  size_t length = (size_t)(semicolon - text);
  if (length < 2) {
    return 0;
  }
  uint32_t found = text[1] == '#' ? parse_number(text + 2, length - 2) : find_name(text + 1, length - 1);
  if (found == 0) {
    return 0;
  }
  *code_point = found;
  return length + 1;
}

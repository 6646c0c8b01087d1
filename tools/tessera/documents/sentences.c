/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/documents/sentences.h"

#include <string.h>

#include "tools/tessera/documents/buffer.h"

/* Words whose full stop ends no sentence, in the languages that are written so. */
static const char *const abbreviations[] = {
    "abs",  "al",   "approx", "art",  "av", "bd",  "bzw", "ca",  "cf",  "dept", "dr", "ed",  "eds",  "est", "etc",
    "evtl", "ex",   "fig",    "figs", "fr", "gen", "ggf", "hr",  "hrn", "ing",  "jr", "lic", "lt",   "max", "min",
    "mio",  "mlle", "mm",     "mme",  "mr", "mrs", "ms",  "mt",  "nr",  "no",   "op", "pp",  "prof", "rev", "sec",
    "sen",  "sgt",  "sr",     "sra",  "st", "str", "tel", "usw", "vgl", "vol",  "vs", NULL};

/* A full stop at `at`: 1 if the word before it is an abbreviation, an initial, a number of a list. */
static int is_abbreviation(const char *text, size_t begin, size_t at)
{
  size_t word = at;
  int has_stop = 0, is_number = 1;
  while (word > begin && text[word - 1] != ' ' && text[word - 1] != '(') {
    word--;
    has_stop |= text[word] == '.';
    is_number &= text[word] >= '0' && text[word] <= '9';
  }
  size_t size = at - word, letters = 0;
  for (size_t i = word; i < at; i++) {
    letters += ((unsigned char)text[i] & 0xC0) != 0x80;
  }
  if (letters == 0 || has_stop || (letters == 1 && !is_number)) {
    return 1;
  }
  if (is_number && word == begin) { /* "1. First .." */
    return 1;
  }
  for (int i = 0; abbreviations[i]; i++) {
    if (strlen(abbreviations[i]) == size && doc_starts(text + word, size, abbreviations[i])) {
      return 1;
    }
  }
  return 0;
}

static int is_closing(int32_t c)
{
  return c == '"' || c == '\'' || c == ')' || c == ']' || c == 0xBB || c == 0x201D || c == 0x2019 || c == 0x300D ||
         c == 0x300F;
}

/* 1 if a sentence can begin there: with no lower-case letter. */
static int can_begin(const char *text, size_t at, size_t end)
{
  int32_t character;
  while (at < end) {
    size_t n = doc_utf8(text + at, end - at, &character);
    int32_t class = doc_class(character);
    if (class != DOC_MARK && class != DOC_SPACE) {
      return class != DOC_LETTER || !doc_is_lower(character);
    }
    at += n > 0 ? n : 1;
  }
  return 0;
}

size_t doc_sentence_end(const char *text, size_t begin, size_t end)
{
  for (size_t at = begin; at < end;) {
    int32_t character;
    size_t mark = at, n = doc_utf8(text + at, end - at, &character);
    at += n > 0 ? n : 1;
    int is_wide = character == 0x3002 || character == 0xFF01 || character == 0xFF1F;
    if (!is_wide && character != '.' && character != '!' && character != '?' && character != 0x2026 &&
        character != 0x0964) {
      continue;
    }
    int32_t next;
    size_t behind = at, length;
    while (behind < end && (length = doc_utf8(text + behind, end - behind, &next)) > 0 &&
           (is_closing(next) || next == '.' || next == '!' || next == '?' || next == 0xFF01 || next == 0xFF1F)) {
      behind += length;
    }
    if (behind >= end) {
      return end;
    }
    if (is_wide || (text[behind] == ' ' && can_begin(text, behind, end) &&
                    (character != '.' || behind > at || !is_abbreviation(text, begin, mark)))) {
      return behind;
    }
    at = behind;
  }
  return end;
}

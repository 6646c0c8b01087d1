/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts as code points: lower case, compatibility normal forms, and what Unicode says of a character.
 */
#ifndef TESSERA_CORE_CODE_POINTS_H
#define TESSERA_CORE_CODE_POINTS_H

#include <stddef.h>
#include <stdint.h>

#include "tessera/status.h"

/* A growing text. Zero it; free(at) ends it. */
typedef struct tsr_code_points {
  uint32_t *at; /* [n] */
  size_t n;
  size_t room;
} tsr_code_points;

/* Room for at least `room` code points; what was there stays. */
tsr_status tsr_code_points_reserve(tsr_code_points *text, size_t room) TSR_MUST_CHECK;

tsr_status tsr_code_points_add(tsr_code_points *text, uint32_t c) TSR_MUST_CHECK;
tsr_status tsr_code_points_append(tsr_code_points *text, const uint32_t *at, size_t n) TSR_MUST_CHECK;
tsr_status tsr_code_points_append_ascii(tsr_code_points *text, const char *ascii) TSR_MUST_CHECK;

/* Appends a text in UTF-8; what is not UTF-8 becomes U+FFFD. */
tsr_status tsr_code_points_append_utf8(tsr_code_points *text, const char *bytes, size_t size) TSR_MUST_CHECK;

/* Each of the following writes `text` anew into `result`, another one. */

/* Lower case as Unicode's full mapping has it: U+0130 becomes two characters, and a sigma that ends a word its form. */
tsr_status tsr_code_points_lower(const tsr_code_points *text, tsr_code_points *result) TSR_MUST_CHECK;

/* Normal form NFKD, in time proportional to the length but for sorting the marks of one character. */
tsr_status tsr_code_points_decompose(const tsr_code_points *text, tsr_code_points *result) TSR_MUST_CHECK;

/* From NFKD to NFKC, in place. */
tsr_status tsr_code_points_compose(tsr_code_points *text) TSR_MUST_CHECK;

/* Letters, numbers and _. */
int tsr_is_word(uint32_t c);

/* Digits of any script, and the value of one. */
int tsr_is_decimal(uint32_t c);
uint32_t tsr_decimal_value(uint32_t c);

int tsr_is_nonspacing_mark(uint32_t c);

/* Marks, symbols, punctuation. */
int tsr_is_sign(uint32_t c);

/* 1 if a user-perceived character (an extended grapheme cluster) ends between the two. *state is 0 at the beginning. */
int tsr_is_grapheme_break(uint32_t before, uint32_t after, int32_t *state);

#endif

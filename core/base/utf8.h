/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8, and what Unicode calls white space.
 */
#ifndef TESSERA_CORE_UTF8_H
#define TESSERA_CORE_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum { TSR_REPLACEMENT_CHARACTER = 0xFFFD, TSR_UTF8_LONGEST = 4 };

/* The code point at `text`, size >= 1 bytes of which are there, and in *length the bytes that it takes. Where the bytes
 * are no UTF-8: TSR_REPLACEMENT_CHARACTER, with the bytes up to where it went wrong, at least one ("maximal subparts",
 * as the Unicode standard recommends). Bytes that say U+FFFD are told from errors by tsr_utf8_is_valid. */
uint32_t tsr_utf8_decode(const char *text, size_t size, size_t *length);

/* Writes a code point (below 0x110000, no surrogate) to `text`; returns its bytes, 1 to 4. */
size_t tsr_utf8_encode(uint32_t code_point, char text[TSR_UTF8_LONGEST]);

int tsr_utf8_is_valid(const char *text, size_t size);

/* 1 for what separates words: the characters that Python's str.split() takes for white space, U+001C to U+001F among
 * them, zero width spaces not. */
int tsr_is_space(uint32_t code_point);

#endif

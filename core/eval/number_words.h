/* SPDX-License-Identifier: Apache-2.0
 *
 * The English words that belong to numbers.
 */
#ifndef TESSERA_CORE_NUMBER_WORDS_H
#define TESSERA_CORE_NUMBER_WORDS_H

#include <stddef.h>
#include <stdint.h>

typedef enum tsr_word_kind {
  ZERO,
  ONES,        /* 1 to 19, and "zeroth" */
  TENS,        /* 20, 30 .. 90 */
  MULTIPLIER,  /* a power of ten */
  NUMBER_SIGN, /* before a number */
  CURRENCY,    /* after a number, and written before it */
  PER,         /* of "per cent" */
  PERCENT,
  AND,
  REPEAT, /* the next digit, two or three times */
  POINT
} tsr_word_kind;

typedef struct tsr_number_word {
  const char *name;
  tsr_word_kind kind;
  uint32_t value;     /* a number; of MULTIPLIER the exponent of ten; of NUMBER_SIGN and CURRENCY the character */
  const char *suffix; /* of ordinals and plurals, which end the number; or NULL */
} tsr_number_word;

/* The row of a word in lower case; NULL if it belongs to no number. Static. */
const tsr_number_word *tsr_find_number_word(const uint32_t *at, size_t n);

/* 1 if the n code points are those of `ascii`. */
int tsr_is_ascii(const uint32_t *at, size_t n, const char *ascii);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers in English: from words to digits, as Whisper's normaliser writes them.
 */
#ifndef TESSERA_CORE_NUMBERS_H
#define TESSERA_CORE_NUMBERS_H

#include "core/eval/code_points.h"

/* Writes `text`, which is in lower case, anew into `result`: its words apart by one space, and numbers as digits.
 * "twenty-first" is two words to it: whoever calls has made a space of the hyphen. The text is changed on the way. */
tsr_status tsr_write_numbers(tsr_code_points *text, tsr_code_points *result) TSR_MUST_CHECK;

/* Where the word ends that begins at text[begin]: before white space, or at the text's end. */
size_t tsr_end_of_word(const tsr_code_points *text, size_t begin);

#endif

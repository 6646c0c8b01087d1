/* SPDX-License-Identifier: Apache-2.0
 *
 * Which word was meant.
 */
#ifndef TESSERA_TOOLS_NEAREST_H
#define TESSERA_TOOLS_NEAREST_H

#include <stdint.h>

/* Letters to be put in, left out or changed to make one word of another (Levenshtein 1966). Words are cut at 63. */
int32_t tsr_words_apart(const char *a, const char *b);

#endif

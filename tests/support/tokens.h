/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of tokenizers share.
 */
#ifndef TESSERA_TESTS_TOKENS_H
#define TESSERA_TESTS_TOKENS_H

#include "core/text/tokenizer.h"

/* The thread's error message contains the fragment. */
void assert_message_has(const char *fragment);

void copy_file(const char *from, const char *to);

/* A text of that side gives these tokens, blanks between. */
void expect_tokens(const tsr_tokenizer *tokenizer, int32_t side, const char *text, size_t size, const char *expected);

#endif

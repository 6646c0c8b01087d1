/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences of a paragraph: most models were trained on one at a time, and leave out what follows the first.
 */
#ifndef TESSERA_TOOLS_DOCUMENTS_SENTENCES_H
#define TESSERA_TOOLS_DOCUMENTS_SENTENCES_H

#include <stddef.h>

/* The end of the sentence that begins at `begin`: behind its mark, before the blank. In doubt it goes on. */
size_t doc_sentence_end(const char *text, size_t begin, size_t end);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Text with tags, in lines again.
 */
#ifndef TESSERA_TOOLS_DOCUMENTS_WRAP_H
#define TESSERA_TOOLS_DOCUMENTS_WRAP_H

#include "tools/tessera/documents/buffer.h"

/* Characters that a reader sees: without tags. */
size_t doc_width(const char *text, size_t size);

/* Adds text with `end` in the place of blanks, so that lines have `width` characters at most, where words allow. */
void doc_wrap(doc_buffer *out, const char *text, size_t size, size_t width, const char *end);

/* The least width with which the text has so many lines, or fewer. */
size_t doc_even_width(const char *text, size_t size, size_t lines);

#endif

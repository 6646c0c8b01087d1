/* SPDX-License-Identifier: Apache-2.0
 *
 * Markdown within a paragraph, as tokens of markup: emphasis and links are elements, code and addresses verbatim,
 * images and notes points.
 */
#ifndef TESSERA_TOOLS_DOCUMENTS_INLINE_H
#define TESSERA_TOOLS_DOCUMENTS_INLINE_H

#include "tools/tessera/documents/html.h"

/* Adds a paragraph, which ends with a NUL and stays. *index as in doc_html_add; *breaks: 1: it has a line break that is
 * meant. */
tsr_status doc_inline_add(doc_html *html, const char *text, size_t size, doc_batch *batch, int32_t *index,
                          int *breaks) TSR_MUST_CHECK;

#endif

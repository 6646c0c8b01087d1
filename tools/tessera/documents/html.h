/* SPDX-License-Identifier: Apache-2.0
 *
 * HTML and XHTML: paragraphs out, translated paragraphs in, every other byte as it was.
 */
#ifndef TESSERA_TOOLS_DOCUMENTS_HTML_H
#define TESSERA_TOOLS_DOCUMENTS_HTML_H

#include "tools/tessera/documents/block.h"
#include "tools/tessera/documents/markup.h"

typedef struct doc_html doc_html;

/* Reads paragraphs, and asks the batch for them. The bytes outlive *html, which the caller frees also after an error.
 */
tsr_status doc_html_read(const char *bytes, size_t size, int32_t is_xml, doc_batch *batch,
                         doc_html **html) TSR_MUST_CHECK;

/* How a text is written that has tags, but is no HTML. */
enum {
  DOC_HTML_PLAIN = 1,        /* '&' and '<' stand for themselves */
  DOC_HTML_PLACEHOLDERS = 2, /* %s, {0} and their like stay what they are */
  DOC_HTML_TIMES = 4,        /* <00:01.000> is a tag */
  DOC_HTML_MARKDOWN = 8      /* a backslash hides what a character means; '&' and '<' stand for themselves */
};

/* For texts that stand in something else: makes an empty one, and adds a paragraph whose tags are all inline. *index:
 * its number; -1: there is nothing to translate. */
tsr_status doc_html_new(int32_t flags, doc_html **html) TSR_MUST_CHECK;
tsr_status doc_html_add(doc_html *html, const char *text, size_t size, doc_batch *batch, int32_t *index) TSR_MUST_CHECK;

/* The same where the caller has found the tokens. classes: DOC_INLINE, DOC_BREAK, or DOC_SKIPPED for what is verbatim.
 */
tsr_status doc_html_add_tokens(doc_html *html, const doc_token *tokens, const int32_t *classes, size_t n,
                               doc_batch *batch, int32_t *index) TSR_MUST_CHECK;

/* Passes over an element that is not translated, whose start tag was read: *token becomes all of it. */
void doc_html_skip(doc_tokens *tokens, doc_token *token);

/* When the batch was translated: adds a paragraph's translation to `out`; *changed: 0: it is as before, and nothing was
 * added. */
tsr_status doc_html_get(doc_html *html, int32_t index, const doc_batch *batch, doc_buffer *out,
                        int *changed) TSR_MUST_CHECK;

/* When the batch was translated: adds the whole to `out`. */
tsr_status doc_html_write(doc_html *html, const doc_batch *batch, doc_buffer *out) TSR_MUST_CHECK;

/* 1 after doc_html_write if something is another text than before. */
int doc_html_is_changed(const doc_html *html);

/* Takes NULL. */
void doc_html_free(doc_html *html);

#endif

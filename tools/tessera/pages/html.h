/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages that need nothing else: one HTML file, without a network and without a library. Functions that return int
 * return exit codes, as in message.h.
 */
#ifndef TESSERA_TOOLS_HTML_H
#define TESSERA_TOOLS_HTML_H

#include <stdio.h>

#include "tools/tessera/common/json.h"

/* A page that is being written: it becomes a file as a whole, or not at all. */
typedef struct tsr_cli_page {
  FILE *out; /* to print into */
  char *text;
  size_t size;
} tsr_cli_page;

/* After success, end it with tsr_cli_page_close. */
int tsr_cli_page_open(tsr_cli_page *page);

/* Puts the page into a file, in place of an old one, if `code` is TSR_EXIT_OK, and frees it in any case. Returns
 * `code`, or what writing gave. */
int tsr_cli_page_close(tsr_cli_page *page, const char *path, int code);

/* What comes before the page's own: its title, the style that all pages have (page.css), and the page's own, which is
 * written as it is. style may be NULL. */
void tsr_cli_html_begin(FILE *out, const char *title, const char *style);
void tsr_cli_html_end(FILE *out);

/* A text as the content of an element or of a quoted attribute; what is not UTF-8 becomes U+FFFD. */
void tsr_cli_html_text(FILE *out, const char *text);

/* JSON for the page's scripts, in an element with that id: no text in it can end the element. Releases root; NULL is a
 * failed allocation. flags: jansson's. */
int tsr_cli_html_json(FILE *out, const char *id, json_t *root, size_t flags);

#endif

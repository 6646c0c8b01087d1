/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON on stdout.
 */
#ifndef TESSERA_TOOLS_JSON_H
#define TESSERA_TOOLS_JSON_H

#include <stddef.h>

#include <jansson.h>

/* Prints `root` with a newline and releases it; NULL is a failed allocation. flags: jansson's, such as JSON_INDENT(2);
 * 0: one line. */
int tsr_cli_json_print(json_t *root, size_t flags);

/* A JSON string of bytes from anywhere: what is not UTF-8 becomes U+FFFD. */
json_t *tsr_cli_json_text(const char *text, size_t size);

/* A JSON number; null for NaN and infinities. */
json_t *tsr_cli_json_real(double value);

#endif

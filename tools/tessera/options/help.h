/* SPDX-License-Identifier: Apache-2.0
 *
 * Help texts, made from the tables of commands: on paper of TSR_HELP_WIDTH columns, and as JSON.
 */
#ifndef TESSERA_TOOLS_HELP_H
#define TESSERA_TOOLS_HELP_H

#include <jansson.h>

#include "tools/tessera/options/options.h"

enum { TSR_HELP_WIDTH = 100 };

/* Prints a text that begins in `column`, its further lines behind `indent` blanks, and ends the line. A newline within
 * the text stays one. */
void tsr_help_fill(FILE *out, const char *text, int column, int indent);

/* Prints paragraphs, which empty lines separate. A line that begins with a blank is printed as it is; others are
 * filled. */
void tsr_help_paragraphs(FILE *out, const char *text);

/* Prints a command's help text. Exit code. */
int tsr_help_print(const tsr_command *command, FILE *out);

/* What that text says, for programs; NULL: out of memory. */
json_t *tsr_help_json(const tsr_command *command);

#endif

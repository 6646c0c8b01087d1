/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of the source in the place of unknown tokens of its translation.
 */
#ifndef TESSERA_TOOLS_UNKNOWN_H
#define TESSERA_TOOLS_UNKNOWN_H

#include "tools/tessera/text/translator.h"

/* A source: its text, and its tokens as the search read them. */
typedef struct unknown_source {
  const char *text; /* NULL: only the tokens are known, for they are a part of it */
  size_t size;
  const int32_t *ids;
  int32_t n_ids;
} unknown_source;

/* The text of a hypothesis that has its attention. In the place of an unknown token stands the source's word that it
 * attended to most, without punctuation at its ends: what lies between blanks, found by counting the tokens that begin
 * a word; where these are not as many as the words, the word's tokens as they are. Free *text with tsr_free. */
int unknown_text(const translator *t, const unknown_source *source, const tsr_hypothesis *hypothesis, char **text);

#endif

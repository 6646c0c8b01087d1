/* SPDX-License-Identifier: Apache-2.0
 *
 * Words of the source in the place of unknown tokens of its translation.
 */
#ifndef TESSERA_TOOLS_UNKNOWN_H
#define TESSERA_TOOLS_UNKNOWN_H

#include "tools/tessera/text/translator.h"

/* The text of a translation that has its attention, and whose answer has the tokens of the source. In the place of an
 * unknown token stands the source's word that it attended to most, without punctuation at its ends: what lies between
 * blanks, found by counting the tokens that begin a word; where these are not as many as the words, or the text was
 * parted, the word's tokens as they are. Free *text with tsr_free. */
int unknown_text(const translator *t, const translation *found, char **text);

#endif

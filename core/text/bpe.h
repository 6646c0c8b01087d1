/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-level byte pair encoding, as GPT-2 and BART have it: a text is split into words, whose bytes, each written as a
 * printable character, are merged pair by pair. Any text comes back byte by byte.
 */
#ifndef TESSERA_CORE_BPE_H
#define TESSERA_CORE_BPE_H

#include <jansson.h>

#include "core/text/segmenter.h"

typedef struct tsr_bpe tsr_bpe;

/* Reads merges.txt from memory that may go afterwards: pairs of tokens, one a line, the first to be merged first; a
 * first line "#version ..." is passed over. `name` stands for the file in messages. *bpe is the caller's until
 * tsr_bpe_close; immutable: any number of threads. Errors: TSR_ERR_FORMAT, TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_bpe_parse(const char *name, const void *bytes, size_t size, tsr_bpe **bpe) TSR_MUST_CHECK;

/* The same from a JSON list of "a b" or of ["a", "b"]. */
tsr_status tsr_bpe_read(const char *name, const json_t *merges, tsr_bpe **bpe) TSR_MUST_CHECK;
void tsr_bpe_close(tsr_bpe *bpe); /* takes NULL */

/* It as a segmenter, which owns it. */
tsr_segmenter tsr_bpe_segmenter(tsr_bpe *bpe);

/* The bytes of the word that a text, which is valid UTF-8 and not empty, begins with: 's 't 're 've 'm 'll 'd; letters,
 * numbers or signs with at most one blank before them; white space up to the last of a run. */
size_t tsr_bpe_word(const char *text, size_t size);

/* The bytes that a piece is written for, at most strlen(piece), not NUL-terminated; 0xFF stands for a NUL. Returns how
 * many. */
size_t tsr_bpe_bytes(const char *piece, char *bytes);

#endif

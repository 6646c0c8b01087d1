/* SPDX-License-Identifier: Apache-2.0
 *
 * A block's translation as units, the least that a tag can enclose: words, and single characters of what is none.
 */
#ifndef TESSERA_TOOLS_DOCUMENTS_UNITS_H
#define TESSERA_TOOLS_DOCUMENTS_UNITS_H

#include "tools/tessera/documents/block.h"

typedef struct doc_unit {
  size_t begin; /* in the translation */
  size_t end;
  size_t from;     /* the place in the block's text that it was made from; of one that nothing tells, its neighbour's */
  int32_t is_word; /* 0: punctuation */
  int32_t is_made; /* 1: `from` is told by the alignment */
  int32_t is_pinned; /* 1: found by its text */
  int32_t leaf;      /* the innermost element (or what is verbatim) that encloses that place; -1: none */
  int32_t owner;     /* that encloses it here; -1: none */
  size_t link;       /* the first link that touches it */
  size_t n_links;
} doc_unit;

/* Zero it. */
typedef struct doc_units {
  doc_buffer text; /* the whole translation */
  doc_unit *units;
  size_t n;
  size_t room;
  tsr_document_link *links; /* in order, of the whole texts */
  size_t n_links;
  int32_t *leaves; /* [bytes of the block's text] the innermost piece at each */
  int32_t changed;
} doc_units;

/* Puts the translations of the segments together, finds units, and what each was made from. Finish it also after an
 * error. */
tsr_status doc_units_make(const doc_block *block, const doc_batch *batch, doc_units *units) TSR_MUST_CHECK;
void doc_units_finish(doc_units *units);

#endif

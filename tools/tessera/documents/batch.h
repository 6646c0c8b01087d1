/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of a document, each once, and their translations.
 */
#ifndef TESSERA_TOOLS_DOCUMENTS_BATCH_H
#define TESSERA_TOOLS_DOCUMENTS_BATCH_H

#include "tools/tessera/documents/buffer.h"
#include "tools/tessera/documents/documents.h"

typedef struct doc_entry {
  char *text;
  size_t size;
  uint64_t hash;
  char *target; /* NULL until it is translated */
  size_t target_size;
  tsr_document_link *links; /* in the order of the translation */
  size_t n_links;
} doc_entry;

/* Zero it, but for has_paragraphs. */
typedef struct doc_batch {
  doc_entry *entries;
  size_t n;
  size_t room;
  int32_t has_paragraphs; /* 1: whole ones are handed over, not their sentences */
  int32_t *slots;         /* by hash: 1 + an entry */
  size_t n_slots;
} doc_batch;

/* Adds a text, UTF-8 without blanks at its ends. *entry: where its translation will be. */
tsr_status doc_batch_add(doc_batch *batch, const char *text, size_t size, int32_t *entry) TSR_MUST_CHECK;

/* Translates all. A translation has no blanks at its ends, none but spaces within it, and is that of the text itself
 * where a model gave nothing. */
tsr_status doc_batch_run(doc_batch *batch, const tsr_document_translator *translator) TSR_MUST_CHECK;

void doc_batch_finish(doc_batch *batch);

#endif

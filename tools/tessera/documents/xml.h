/* SPDX-License-Identifier: Apache-2.0
 *
 * Trees of libxml2: no network, no entities but XML's own. And the paragraphs of a package, an archive of such trees.
 */
#ifndef TESSERA_TOOLS_DOCUMENTS_XML_H
#define TESSERA_TOOLS_DOCUMENTS_XML_H

#include <libxml/tree.h>

#include "tools/tessera/documents/archive.h"
#include "tools/tessera/documents/block.h"

/* what: for messages. Free *tree with xmlFreeDoc. */
tsr_status doc_xml_read(const char *bytes, size_t size, const char *what, xmlDoc **tree) TSR_MUST_CHECK;
tsr_status doc_xml_write(xmlDoc *tree, doc_buffer *out) TSR_MUST_CHECK;

/* An entry of an archive as a tree. */
tsr_status doc_xml_entry(doc_archive *archive, const doc_job *job, int32_t index, xmlDoc **tree) TSR_MUST_CHECK;

/* 1 if it is an element of that name, and of one of the namespaces, which NULL ends. */
int doc_xml_is(const xmlNode *node, const char *const *spaces, const char *name);

/* An attribute's value, whatever its namespace; NULL: there is none. Free it with xmlFree. */
char *doc_xml_attribute(const xmlNode *node, const char *name);

/* Adds all text within a node. */
void doc_xml_text(const xmlNode *node, doc_buffer *text);

/* A copy with its attributes, and with `deep` its children, in the namespaces of the same tree; NULL: no memory. */
xmlNode *doc_xml_copy(const xmlNode *node, int deep);

/* ---- packages ---- */

/* What a piece or a style of a paragraph is; the format's. */
typedef struct doc_item {
  int32_t kind;
  xmlNode *node;
  xmlNode *last;  /* of siblings that belong together; or the node of the text */
  xmlNode *inner; /* what encloses the content; or the run */
  xmlNode *close; /* siblings that end it */
  xmlNode *close_last;
} doc_item;

typedef struct doc_paragraph {
  xmlNode *node;
  size_t part;
  doc_block block;
  doc_item *items; /* by the tags and styles of the block */
  size_t n_items;
  size_t items_room;
} doc_paragraph;

/* Adds an item; -1: no memory. */
int32_t doc_item_add(doc_paragraph *paragraph, const doc_item *item);

typedef struct doc_package_kind {
  /* Sets is_chosen for each entry that has text. */
  tsr_status (*choose)(const doc_job *job, doc_archive *archive, char *is_chosen);
  int (*is_paragraph)(const xmlNode *node);
  int (*is_skipped)(const xmlNode *node); /* with all that is in it */
  tsr_status (*read)(doc_paragraph *paragraph);
  /* Writes what comes of it; `holder` has the old children, and takes what is left over. */
  tsr_status (*write)(doc_paragraph *paragraph, const doc_placement *placement, xmlNode *holder);
} doc_package_kind;

tsr_status doc_package_translate(doc_job *job, const doc_package_kind *kind) TSR_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/documents/xml.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <libxml/parser.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

static int has(const char *bytes, size_t size, const char *word)
{
  size_t length = strlen(word);
  const char *at = bytes, *end = bytes + size;
  while ((size_t)(end - at) >= length && (at = memchr(at, word[0], (size_t)(end - at) - length + 1)) != NULL) {
    if (memcmp(at, word, length) == 0) {
      return 1;
    }
    at++;
  }
  return 0;
}

tsr_status doc_xml_read(const char *bytes, size_t size, const char *what, xmlDoc **tree)
{
  enum { LARGEST = 1 << 26 };
  *tree = NULL;
  if (size > LARGEST) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %zu bytes of XML are more than the limit of %d", what, size, (int)LARGEST);
  }
  if (has(bytes, size, "<!DOCTYPE") || has(bytes, size, "<!ENTITY")) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: a document type with entities of its own is refused", what);
  }
  pthread_once(&once, xmlInitParser);
  xmlResetLastError();
  xmlDoc *made = xmlReadMemory(bytes, (int)size, NULL, NULL, XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING);
  if (!made) {
    const xmlError *error = xmlGetLastError();
    if (error && error->code == XML_ERR_NO_MEMORY) {
      return doc_no_memory();
    }
    const char *message = error && error->message ? error->message : "no XML";
    return tsr_fail(TSR_ERR_FORMAT, "%s, line %d: %.*s", what, error ? error->line : 1, (int)strcspn(message, "\n"),
                    message);
  }
  if (made->intSubset) {
    xmlFreeDoc(made);
    return tsr_fail(TSR_ERR_FORMAT, "%s: a document type with entities of its own is refused", what);
  }
  *tree = made;
  return TSR_OK;
}

tsr_status doc_xml_write(xmlDoc *tree, doc_buffer *out)
{
  xmlChar *bytes = NULL;
  int size = 0;
  xmlDocDumpMemoryEnc(tree, &bytes, &size, "UTF-8");
  if (!bytes) {
    return doc_no_memory();
  }
  doc_buffer_add(out, bytes, (size_t)size);
  xmlFree(bytes);
  return doc_buffer_check(out);
}

tsr_status doc_xml_entry(doc_archive *archive, const doc_job *job, int32_t index, xmlDoc **tree)
{
  doc_buffer bytes = {0}, what = {0};
  *tree = NULL;
  doc_buffer_text(&what, job->name);
  doc_buffer_text(&what, ": ");
  doc_buffer_text(&what, doc_archive_name(archive, index));
  tsr_status status = doc_buffer_check(&what);
  if (status == TSR_OK) {
    status = doc_archive_read(archive, index, &bytes);
  }
  if (status == TSR_OK) {
    status = doc_xml_read(bytes.size > 0 ? bytes.bytes : "", bytes.size, what.bytes, tree);
  }
  doc_buffer_finish(&bytes);
  doc_buffer_finish(&what);
  return status;
}

int doc_xml_is(const xmlNode *node, const char *const *spaces, const char *name)
{
  if (node->type != XML_ELEMENT_NODE || !node->ns || !node->ns->href || strcmp((const char *)node->name, name) != 0) {
    return 0;
  }
  for (int i = 0; spaces[i]; i++) {
    if (strcmp((const char *)node->ns->href, spaces[i]) == 0) {
      return 1;
    }
  }
  return 0;
}

char *doc_xml_attribute(const xmlNode *node, const char *name)
{
  for (xmlAttr *a = node->properties; a; a = a->next) {
    if (strcmp((const char *)a->name, name) == 0) {
      return (char *)xmlNodeListGetString(node->doc, a->children, 1);
    }
  }
  return NULL;
}

void doc_xml_text(const xmlNode *node, doc_buffer *text)
{
  xmlChar *content = xmlNodeGetContent(node);
  if (content) {
    doc_buffer_text(text, (const char *)content);
    xmlFree(content);
  }
}

xmlNode *doc_xml_copy(const xmlNode *node, int deep)
{
  xmlNode *made = xmlNewDocNode(node->doc, node->ns, node->name, NULL);
  if (!made) {
    return NULL;
  }
  for (xmlAttr *a = node->properties; a; a = a->next) {
    xmlChar *value = xmlNodeListGetString(node->doc, a->children, 1);
    xmlAttr *copy = xmlNewNsProp(made, a->ns, a->name, value ? value : (const xmlChar *)"");
    xmlFree(value);
    if (!copy) {
      xmlFreeNode(made);
      return NULL;
    }
  }
  for (xmlNode *child = deep ? node->children : NULL; child; child = child->next) {
    xmlNode *copy = child->type == XML_ELEMENT_NODE ? doc_xml_copy(child, 1) : xmlNewDocText(node->doc, child->content);
    if (!copy || !xmlAddChild(made, copy)) {
      xmlFreeNode(copy);
      xmlFreeNode(made);
      return NULL;
    }
  }
  return made;
}

/* ---- packages ---------------------------------------------------------------------------------------------------- */

typedef struct part {
  int32_t entry;
  xmlDoc *tree;
  int32_t is_changed;
} part;

typedef struct package {
  doc_job *job;
  const doc_package_kind *kind;
  doc_archive *archive;
  part *parts;
  size_t n_parts;
  size_t parts_room;
  doc_paragraph *paragraphs;
  size_t n_paragraphs;
  size_t paragraphs_room;
} package;

int32_t doc_item_add(doc_paragraph *paragraph, const doc_item *item)
{
  doc_item *items = doc_grow(paragraph->items, paragraph->n_items, &paragraph->items_room, sizeof *items);
  if (!items || paragraph->n_items >= INT32_MAX - 1) {
    paragraph->items = items ? items : paragraph->items;
    paragraph->block.failed = 1;
    return -1;
  }
  paragraph->items = items;
  items[paragraph->n_items] = *item;
  return (int32_t)paragraph->n_items++;
}

static tsr_status add_paragraph(package *p, xmlNode *node)
{
  doc_paragraph *list = doc_grow(p->paragraphs, p->n_paragraphs, &p->paragraphs_room, sizeof *list);
  if (!list) {
    return doc_no_memory();
  }
  p->paragraphs = list;
  doc_paragraph *paragraph = &list[p->n_paragraphs++];
  *paragraph = (doc_paragraph){.node = node, .part = p->n_parts - 1};
  doc_block_begin(&paragraph->block);
  tsr_status status = p->kind->read(paragraph);
  if (status == TSR_OK && doc_has_letter(paragraph->block.text.bytes, paragraph->block.text.size)) {
    return doc_block_ask(&paragraph->block, &p->job->batch);
  }
  int failed = paragraph->block.failed || paragraph->block.text.failed;
  doc_block_finish(&paragraph->block);
  free(paragraph->items);
  p->n_paragraphs--;
  return status == TSR_OK && failed ? doc_no_memory() : status;
}

/* Paragraphs in the order of the document, those within others behind them. */
static tsr_status read_tree(package *p, xmlNode *root)
{
  tsr_status status = TSR_OK;
  xmlNode *node = root;
  while (node && status == TSR_OK) {
    int enters = node->type == XML_ELEMENT_NODE && !p->kind->is_skipped(node);
    if (enters && p->kind->is_paragraph(node)) {
      status = add_paragraph(p, node);
    }
    if (enters && node->children) {
      node = node->children;
      continue;
    }
    while (node && node != root && !node->next) {
      node = node->parent;
    }
    node = node && node != root ? node->next : NULL;
  }
  return status;
}

static tsr_status read_parts(package *p)
{
  int32_t n = doc_archive_count(p->archive);
  char *is_chosen = calloc((size_t)n + 1, 1);
  tsr_status status = is_chosen ? p->kind->choose(p->job, p->archive, is_chosen) : doc_no_memory();
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    if (!is_chosen[i]) {
      continue;
    }
    part *parts = doc_grow(p->parts, p->n_parts, &p->parts_room, sizeof *parts);
    if (!parts) {
      status = doc_no_memory();
      break;
    }
    p->parts = parts;
    parts[p->n_parts] = (part){.entry = i};
    status = doc_xml_entry(p->archive, p->job, i, &parts[p->n_parts++].tree);
    if (status == TSR_OK) {
      status = read_tree(p, xmlDocGetRootElement(parts[p->n_parts - 1].tree));
    }
  }
  free(is_chosen);
  return status;
}

static tsr_status write_paragraph(package *p, doc_paragraph *paragraph)
{
  doc_placement placement = {0};
  tsr_status status = doc_block_place(&paragraph->block, &p->job->batch, &placement);
  if (status == TSR_OK && placement.changed) {
    xmlDoc *tree = p->parts[paragraph->part].tree;
    xmlNode *holder = xmlNewDocNode(tree, NULL, (const xmlChar *)"holder", NULL);
    status = holder ? p->kind->write(paragraph, &placement, holder) : doc_no_memory();
    if (status == TSR_OK && xmlReconciliateNs(tree, paragraph->node) < 0) {
      status = doc_no_memory();
    }
    xmlFreeNode(holder);
    p->parts[paragraph->part].is_changed = 1;
  }
  doc_placement_finish(&placement);
  return status;
}

static tsr_status write_parts(package *p)
{
  tsr_status status = TSR_OK;
  /* From the last on: what lies within a paragraph is written before the paragraph moves it. */
  for (size_t i = p->n_paragraphs; i-- > 0 && status == TSR_OK;) {
    status = write_paragraph(p, &p->paragraphs[i]);
  }
  for (size_t i = 0; i < p->n_parts && status == TSR_OK; i++) {
    doc_buffer bytes = {0};
    if (p->parts[i].is_changed) {
      status = doc_xml_write(p->parts[i].tree, &bytes);
      if (status == TSR_OK) {
        status = doc_archive_replace(p->archive, p->parts[i].entry, &bytes);
      }
    }
    doc_buffer_finish(&bytes);
  }
  return status;
}

tsr_status doc_package_translate(doc_job *job, const doc_package_kind *kind)
{
  package p = {.job = job, .kind = kind};
  tsr_status status = doc_archive_open(job, &p.archive);
  if (status == TSR_OK) {
    status = read_parts(&p);
  }
  if (status == TSR_OK) {
    status = doc_job_translate(job);
  }
  if (status == TSR_OK) {
    status = write_parts(&p);
  }
  if (status == TSR_OK) {
    status = doc_archive_write(p.archive, &job->out);
  }
  for (size_t i = 0; i < p.n_paragraphs; i++) {
    doc_block_finish(&p.paragraphs[i].block);
    free(p.paragraphs[i].items);
  }
  for (size_t i = 0; i < p.n_parts; i++) {
    xmlFreeDoc(p.parts[i].tree);
  }
  free(p.paragraphs);
  free(p.parts);
  doc_archive_close(p.archive);
  return status;
}

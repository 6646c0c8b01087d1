/* SPDX-License-Identifier: Apache-2.0
 *
 * .odt and .odp: paragraphs and headings, with spans, links, notes and frames in them.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/documents/xml.h"

static const char *const texts[] = {"urn:oasis:names:tc:opendocument:xmlns:text:1.0", NULL};

static int is_text(const xmlNode *node, const char *name)
{
  return doc_xml_is(node, texts, name);
}

static int is_among(const xmlNode *node, const char *const *names)
{
  for (int i = 0; names[i]; i++) {
    if (is_text(node, names[i])) {
      return 1;
    }
  }
  return 0;
}

static int is_paragraph(const xmlNode *node)
{
  return is_text(node, "p") || is_text(node, "h");
}

static int is_skipped(const xmlNode *node)
{
  return is_text(node, "tracked-changes");
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* What stands in text, and is none of it. */
static int is_anchor(const xmlNode *node)
{
  static const char *const names[] = {"note",
                                      "bookmark",
                                      "bookmark-start",
                                      "bookmark-end",
                                      "change",
                                      "change-start",
                                      "change-end",
                                      "reference-mark-start",
                                      "reference-mark",
                                      "reference-mark-end",
                                      "soft-page-break",
                                      "alphabetical-index-mark",
                                      "toc-mark",
                                      "toc-mark-start",
                                      "toc-mark-end",
                                      "user-index-mark",
                                      "alphabetical-index-mark-start",
                                      "alphabetical-index-mark-end",
                                      NULL};
  return !doc_xml_is(node, texts, (const char *)node->name) || is_among(node, names);
}

static int is_many_blanks(const xmlNode *node)
{
  char *count = is_text(node, "s") ? doc_xml_attribute(node, "c") : NULL;
  int many = count && strcmp(count, "1") != 0;
  xmlFree(count);
  return many;
}

static void read_content(doc_paragraph *p, xmlNode *parent, int depth);

static void read_element(doc_paragraph *p, xmlNode *node, int depth)
{
  static const char *const elements[] = {"span", "a", "meta", NULL};
  int32_t item = doc_item_add(p, &(doc_item){.node = node});
  if (is_among(node, elements) && depth < DOC_DEPTH / 2 && doc_block_enter(&p->block, item) >= 0) {
    read_content(p, node, depth + 1);
    doc_block_leave(&p->block);
  } else if (is_text(node, "tab") || is_many_blanks(node)) {
    doc_block_cut(&p->block);
    doc_block_point(&p->block, item, 1);
  } else if (is_text(node, "line-break") || is_text(node, "s")) {
    doc_block_point(&p->block, item, 1);
  } else if (is_anchor(node)) {
    doc_block_point(&p->block, item, 0);
  } else { /* fields: dates, numbers, references */
    doc_buffer text = {0};
    doc_xml_text(node, &text);
    doc_block_verbatim(&p->block, item, text.bytes ? text.bytes : "", text.size);
    p->block.failed |= text.failed;
    doc_buffer_finish(&text);
  }
}

static void read_content(doc_paragraph *p, xmlNode *parent, int depth)
{
  for (xmlNode *n = parent->children; n; n = n->next) {
    if (n->type == XML_TEXT_NODE || n->type == XML_CDATA_SECTION_NODE) {
      const char *text = n->content ? (const char *)n->content : "";
      doc_block_text(&p->block, text, strlen(text));
    } else if (n->type == XML_ELEMENT_NODE) {
      read_element(p, n, depth);
    } else { /* comments */
      doc_block_point(&p->block, doc_item_add(p, &(doc_item){.node = n}), 0);
    }
  }
}

static tsr_status read_paragraph(doc_paragraph *p)
{
  read_content(p, p->node, 0);
  return TSR_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void empty(xmlNode *node, xmlNode *holder)
{
  for (xmlNode *c = node->children, *next; c; c = next) {
    next = c->next;
    xmlUnlinkNode(c);
    xmlAddChild(holder, c);
  }
}

static tsr_status put(xmlNode *parent, xmlNode *node)
{
  xmlUnlinkNode(node);
  return xmlAddChild(parent, node) ? TSR_OK : doc_no_memory();
}

static tsr_status write_paragraph(doc_paragraph *p, const doc_placement *placement, xmlNode *holder)
{
  xmlNode *at = p->node;
  tsr_status status = TSR_OK;
  empty(at, holder);
  for (size_t i = 0; i < placement->n_events && status == TSR_OK; i++) {
    const doc_event *event = &placement->events[i];
    xmlNode *node = event->kind == DOC_TEXT ? NULL : p->items[event->tag].node;
    if (event->kind == DOC_TEXT) {
      xmlNode *text = xmlNewDocTextLen(at->doc, (const xmlChar *)placement->text.bytes + event->begin,
                                       (int)(event->end - event->begin));
      status = text && xmlAddChild(at, text) ? TSR_OK : doc_no_memory();
    } else if (event->kind == DOC_CLOSE) {
      at = at->parent;
    } else {
      status = put(at, node);
      if (event->kind == DOC_OPEN && status == TSR_OK) {
        empty(node, holder);
        at = node;
      }
    }
  }
  return status;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

/* The type that the archive tells; an encrypted one says so in its manifest. */
static tsr_status check(const doc_job *job, doc_archive *archive)
{
  doc_buffer type = {0}, manifest = {0};
  int32_t at = doc_archive_find(archive, "mimetype"), list = doc_archive_find(archive, "META-INF/manifest.xml");
  tsr_status status = at >= 0 ? doc_archive_read(archive, at, &type) : TSR_OK;
  if (status == TSR_OK && list >= 0) {
    status = doc_archive_read(archive, list, &manifest);
  }
  if (status == TSR_OK && manifest.size > 0 && strstr(manifest.bytes, "encryption-data")) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: the document is encrypted; remove the password first", job->name);
  } else if (status == TSR_OK && !doc_starts(type.bytes, type.size, "application/vnd.oasis.opendocument.")) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: expected the mimetype of an OpenDocument file, found '%.60s'", job->name,
                      type.size > 0 ? type.bytes : "");
  } else if (status == TSR_OK && doc_archive_find(archive, "content.xml") < 0) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: there is no content.xml, which an OpenDocument file has", job->name);
  }
  doc_buffer_finish(&type);
  doc_buffer_finish(&manifest);
  return status;
}

static tsr_status choose(const doc_job *job, doc_archive *archive, char *is_chosen)
{
  static const char *const names[] = {"content.xml", "styles.xml", NULL}; /* these have headers and footers */
  tsr_status status = check(job, archive);
  for (int i = 0; names[i] && status == TSR_OK; i++) {
    int32_t index = doc_archive_find(archive, names[i]);
    if (index >= 0) {
      is_chosen[index] = 1;
    }
  }
  return status;
}

tsr_status doc_format_opendocument(doc_job *job)
{
  static const doc_package_kind kind = {choose, is_paragraph, is_skipped, read_paragraph, write_paragraph};
  return doc_package_translate(job, &kind);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * .docx and .pptx: paragraphs of runs. A run's properties are the style of its words; what else stands in a run is a
 * point that keeps its run. Text boxes, headers, notes, comments, charts and diagrams have paragraphs, too.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/documents/xml.h"

static const char *const words[] = {"http://schemas.openxmlformats.org/wordprocessingml/2006/main",
                                    "http://purl.oclc.org/ooxml/wordprocessingml/main", NULL};
static const char *const drawings[] = {"http://schemas.openxmlformats.org/drawingml/2006/main",
                                       "http://purl.oclc.org/ooxml/drawingml/main", NULL};

enum {
  STYLE,     /* node: a run, last: its text's element */
  SIBLINGS,  /* node .. last: whole children of a paragraph */
  CHILD,     /* node: a child of the run `inner` */
  CONTAINER, /* node: an element, inner: it, or what in it encloses the runs */
  FIELD      /* node .. last: a field up to its result, close .. close_last: its end */
};

static int is_word(const xmlNode *node, const char *name)
{
  return doc_xml_is(node, words, name);
}

static int is_either(const xmlNode *node, const char *name)
{
  return is_word(node, name) || doc_xml_is(node, drawings, name);
}

static int is_paragraph(const xmlNode *node)
{
  return is_either(node, "p");
}

static int is_skipped(const xmlNode *node)
{
  return is_word(node, "del") || is_word(node, "moveFrom");
}

static int is_among(const xmlNode *node, const char *const *names)
{
  for (int i = 0; names[i]; i++) {
    if (is_word(node, names[i])) {
      return 1;
    }
  }
  return 0;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static const xmlNode *properties_of(const xmlNode *run)
{
  for (const xmlNode *c = run->children; c; c = c->next) {
    if (is_either(c, "rPr")) {
      return c;
    }
  }
  return NULL;
}

static int is_same_text(const xmlChar *a, const xmlChar *b)
{
  return strcmp(a ? (const char *)a : "", b ? (const char *)b : "") == 0;
}

/* 1 if two elements (NULL: none) say the same. */
static int is_same_tree(const xmlNode *a, const xmlNode *b)
{
  if (!a || !b) {
    return a == b;
  }
  if (a->type != b->type || !is_same_text(a->name, b->name) || !is_same_text(a->content, b->content)) {
    return 0;
  }
  if (a->type != XML_ELEMENT_NODE) {
    return 1;
  }
  const xmlAttr *x = a->properties, *y = b->properties;
  for (; x && y; x = x->next, y = y->next) {
    const xmlNode *v = x->children, *w = y->children;
    if (!is_same_text(x->name, y->name) || !is_same_text(v ? v->content : NULL, w ? w->content : NULL)) {
      return 0;
    }
  }
  if (x || y) {
    return 0;
  }
  const xmlNode *c = a->children, *d = b->children;
  for (; c && d; c = c->next, d = d->next) {
    if (!is_same_tree(c, d)) {
      return 0;
    }
  }
  return c == d;
}

/* The style of a run: that of one before it with the same properties, or its own. */
static int32_t style_of(doc_paragraph *p, xmlNode *run, xmlNode *text)
{
  enum { LOOKS = 24 };
  const xmlNode *properties = properties_of(run);
  int32_t looks = 0;
  for (size_t i = p->n_items; i-- > 0 && looks < LOOKS;) {
    if (p->items[i].kind == STYLE) {
      looks++;
      if (is_same_tree(properties_of(p->items[i].node), properties)) {
        return (int32_t)i;
      }
    }
  }
  return doc_item_add(p, &(doc_item){.kind = STYLE, .node = run, .last = text});
}

static void add_text(doc_paragraph *p, xmlNode *run, xmlNode *text)
{
  doc_buffer content = {0};
  doc_xml_text(text, &content);
  doc_block_style(&p->block, style_of(p, run, text));
  doc_block_text(&p->block, content.bytes, content.size);
  p->block.failed |= content.failed;
  doc_buffer_finish(&content);
}

/* A run with one child beside its properties moves as a whole. */
static int is_single(const xmlNode *run)
{
  int n = 0;
  for (const xmlNode *c = run->children; c; c = c->next) {
    n += c->type == XML_ELEMENT_NODE && !is_either(c, "rPr");
  }
  return n == 1;
}

static void read_run(doc_paragraph *p, xmlNode *run)
{
  static const char *const tabs[] = {"tab", "ptab", NULL}, *const breaks[] = {"br", "cr", NULL};
  for (xmlNode *c = run->children; c; c = c->next) {
    if (c->type != XML_ELEMENT_NODE || is_either(c, "rPr") || is_word(c, "lastRenderedPageBreak") ||
        is_word(c, "softHyphen")) {
      continue;
    }
    if (is_either(c, "t")) {
      add_text(p, run, c);
    } else if (is_word(c, "noBreakHyphen")) {
      doc_block_text(&p->block, "\xE2\x80\x91", 3);
    } else {
      int is_tab = is_among(c, tabs);
      doc_item item = {.kind = CHILD, .node = c, .inner = run};
      if (is_single(run)) {
        item = (doc_item){.kind = SIBLINGS, .node = run, .last = run};
      }
      if (is_tab) {
        doc_block_cut(&p->block);
      }
      doc_block_point(&p->block, doc_item_add(p, &item), is_tab || is_among(c, breaks));
    }
  }
}

/* The type of the first field character within a run: 'b'egin, 's'eparate, 'e'nd; 0: it has none. */
static char field_mark(const xmlNode *run)
{
  char found = 0;
  for (const xmlNode *c = is_word(run, "r") ? run->children : NULL; c && !found; c = c->next) {
    char *type = is_word(c, "fldChar") ? doc_xml_attribute(c, "fldCharType") : NULL;
    found = type ? type[0] : 0;
    xmlFree(type);
  }
  return found;
}

/* A complex field that begins in this run: the runs that part it from its result, and that end it. */
static int find_field(xmlNode *run, xmlNode **separate, xmlNode **end)
{
  int depth = 0;
  *separate = *end = NULL;
  if (field_mark(run) != 'b' || !is_single(run)) {
    return 0;
  }
  for (xmlNode *n = run; n; n = n->next) {
    char mark = field_mark(n);
    depth += mark == 'b';
    if (mark == 's' && depth == 1) {
      *separate = n;
    }
    depth -= mark == 'e';
    if (depth == 0) {
      *end = n;
      return 1;
    }
  }
  return 0;
}

/* A link's result is text like other text; that of others is not. */
static int is_link(xmlNode *run, const xmlNode *separate)
{
  int found = 0;
  for (xmlNode *n = run; n && n != separate && !found; n = n->next) {
    xmlChar *code = xmlNodeGetContent(n);
    found = code && strstr((const char *)code, "HYPERLINK");
    xmlFree(code);
  }
  return found;
}

static void read_content(doc_paragraph *p, xmlNode *first, const xmlNode *end, int depth);

/* Returns the field's last run. */
static xmlNode *read_field(doc_paragraph *p, xmlNode *run, xmlNode *separate, xmlNode *end, int depth)
{
  doc_buffer text = {0};
  if (separate && is_link(run, separate)) {
    int32_t item = doc_item_add(p, &(doc_item){FIELD, run, separate, NULL, end, end});
    int32_t element = doc_block_enter(&p->block, item);
    if (element >= 0) {
      read_content(p, separate->next, end, depth + 1);
      doc_block_leave(&p->block);
      return end;
    }
  }
  for (xmlNode *n = separate; n && n != end; n = n->next) {
    doc_xml_text(n, &text);
  }
  int32_t item = doc_item_add(p, &(doc_item){.kind = SIBLINGS, .node = run, .last = end});
  doc_block_verbatim(&p->block, item, text.bytes ? text.bytes : "", text.size);
  p->block.failed |= text.failed;
  doc_buffer_finish(&text);
  return end;
}

static xmlNode *inner_of(xmlNode *node)
{
  static const char *const names[] = {"hyperlink", "ins", "moveTo", "smartTag", "customXml", "dir", "bdo", NULL};
  if (is_among(node, names)) {
    return node;
  }
  for (xmlNode *c = is_word(node, "sdt") ? node->children : NULL; c; c = c->next) {
    if (is_word(c, "sdtContent")) {
      return c;
    }
  }
  return NULL;
}

static void read_other(doc_paragraph *p, xmlNode *node, int depth)
{
  xmlNode *inner = depth < DOC_DEPTH / 2 ? inner_of(node) : NULL;
  if (inner) {
    int32_t item = doc_item_add(p, &(doc_item){.kind = CONTAINER, .node = node, .inner = inner});
    if (doc_block_enter(&p->block, item) >= 0) {
      read_content(p, inner->children, NULL, depth + 1);
      doc_block_leave(&p->block);
      return;
    }
  }
  int32_t item = doc_item_add(p, &(doc_item){.kind = SIBLINGS, .node = node, .last = node});
  if (is_word(node, "fldSimple") || doc_xml_is(node, drawings, "fld")) {
    doc_buffer text = {0};
    doc_xml_text(node, &text);
    doc_block_verbatim(&p->block, item, text.bytes ? text.bytes : "", text.size);
    p->block.failed |= text.failed;
    doc_buffer_finish(&text);
  } else {
    doc_block_point(&p->block, item, doc_xml_is(node, drawings, "br"));
  }
}

/* What stays in its place: a paragraph's own properties, and those within a container. */
static int stays(const xmlNode *node)
{
  static const char *const names[] = {"pPr", "smartTagPr", "customXmlPr", NULL};
  return is_among(node, names) || doc_xml_is(node, drawings, "pPr") || doc_xml_is(node, drawings, "endParaRPr");
}

static void read_content(doc_paragraph *p, xmlNode *first, const xmlNode *end, int depth)
{
  for (xmlNode *n = first; n && n != end; n = n->next) {
    xmlNode *separate, *close;
    if (n->type != XML_ELEMENT_NODE || stays(n) || is_word(n, "proofErr")) {
      continue;
    }
    if (find_field(n, &separate, &close)) {
      n = read_field(p, n, separate, close, depth);
    } else if (is_either(n, "r")) {
      read_run(p, n);
    } else {
      read_other(p, n, depth);
    }
  }
}

static tsr_status read_paragraph(doc_paragraph *p)
{
  read_content(p, p->node->children, NULL, 0);
  return TSR_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* Where children go: before `before`, or at the end. */
typedef struct place {
  xmlNode *parent;
  xmlNode *before;
} place;

static tsr_status put(const place *at, xmlNode *node)
{
  xmlUnlinkNode(node);
  xmlNode *put = at->before ? xmlAddPrevSibling(at->before, node) : xmlAddChild(at->parent, node);
  return put ? TSR_OK : doc_no_memory();
}

static tsr_status put_siblings(const place *at, xmlNode *first, const xmlNode *last)
{
  tsr_status status = TSR_OK;
  for (xmlNode *n = first, *next; n && status == TSR_OK; n = n == last ? NULL : next) {
    next = n->next;
    status = put(at, n);
  }
  return status;
}

/* Takes the children of a paragraph or a container away, but those that stay. */
static void empty(xmlNode *node, xmlNode *holder, place *at)
{
  *at = (place){.parent = node};
  for (xmlNode *c = node->children, *next; c; c = next) {
    next = c->next;
    if (!stays(c)) {
      xmlUnlinkNode(c);
      xmlAddChild(holder, c);
    } else if (doc_xml_is(c, drawings, "endParaRPr")) {
      at->before = c;
    }
  }
}

/* An empty run like another. */
static xmlNode *make_run(const place *at, const xmlNode *like)
{
  const xmlNode *properties = properties_of(like);
  xmlNode *run = xmlNewDocNode(like->doc, like->ns, like->name, NULL);
  xmlNode *copy = run && properties ? doc_xml_copy(properties, 1) : NULL;
  int failed = !run || (properties && (!copy || !xmlAddChild(run, copy)));
  if (failed || put(at, run) != TSR_OK) {
    xmlFreeNode(run);
    return NULL;
  }
  return run;
}

static tsr_status put_text(const place *at, const doc_item *style, const char *bytes, size_t size)
{
  xmlNode *run = make_run(at, style->node);
  xmlNode *text = run ? xmlNewDocNode(run->doc, style->last->ns, style->last->name, NULL) : NULL;
  if (!text || !xmlAddChild(run, text)) {
    xmlFreeNode(text);
    return doc_no_memory();
  }
  xmlNode *content = xmlNewDocTextLen(run->doc, (const xmlChar *)bytes, (int)size);
  if (!content || !xmlAddChild(text, content)) {
    xmlFreeNode(content);
    return doc_no_memory();
  }
  if (is_word(text, "t") && size > 0 && (bytes[0] == ' ' || bytes[size - 1] == ' ')) {
    xmlNodeSetSpacePreserve(text, 1);
  }
  return TSR_OK;
}

static tsr_status put_item(const place *at, const doc_item *item)
{
  if (item->kind != CHILD) {
    tsr_status status = put_siblings(at, item->node, item->last);
    return status == TSR_OK && item->kind == FIELD ? put_siblings(at, item->close, item->close_last) : status;
  }
  xmlNode *run = make_run(at, item->inner);
  return run ? put(&(place){.parent = run}, item->node) : doc_no_memory();
}

static tsr_status write_event(doc_paragraph *p, const doc_placement *placement, const doc_event *event, place *stack,
                              int *depth, xmlNode *holder)
{
  const doc_item *item = &p->items[event->kind == DOC_TEXT ? event->style : event->tag];
  const place *at = &stack[*depth];
  switch (event->kind) {
  case DOC_TEXT:
    return put_text(at, item, placement->text.bytes + event->begin, event->end - event->begin);
  case DOC_OPEN: {
    if (item->kind == FIELD) {
      stack[*depth + 1] = *at;
      ++*depth;
      return put_siblings(at, item->node, item->last);
    }
    tsr_status status = put(at, item->node);
    empty(item->inner, holder, &stack[++*depth]);
    return status;
  }
  case DOC_CLOSE:
    --*depth;
    return item->kind == FIELD ? put_siblings(&stack[*depth], item->close, item->close_last) : TSR_OK;
  default:
    return put_item(at, item);
  }
}

static tsr_status write_paragraph(doc_paragraph *p, const doc_placement *placement, xmlNode *holder)
{
  place stack[DOC_DEPTH + 2];
  int depth = 0;
  empty(p->node, holder, &stack[0]);
  tsr_status status = TSR_OK;
  for (size_t i = 0; i < placement->n_events && status == TSR_OK; i++) {
    status = write_event(p, placement, &placement->events[i], stack, &depth, holder);
  }
  return status;
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static int ends_with(const char *text, const char *end)
{
  size_t size = strlen(text), length = strlen(end);
  return size >= length && strcmp(text + size - length, end) == 0;
}

/* 1 if parts of a content type have text for readers. */
static int has_text(const char *type)
{
  static const char *const ends[] = {".document.main+xml", ".template.main+xml",
                                     ".header+xml",        ".footer+xml",
                                     ".footnotes+xml",     ".endnotes+xml",
                                     "ml.comments+xml",    ".slide+xml",
                                     ".notesSlide+xml",    ".chart+xml",
                                     ".diagramData+xml",   ".diagramDrawing+xml",
                                     ".main+xml",          NULL};
  for (int i = 0; ends[i]; i++) {
    if (ends_with(type, ends[i])) {
      return 1;
    }
  }
  return 0;
}

static tsr_status choose(const doc_job *job, doc_archive *archive, char *is_chosen)
{
  int is_slides = doc_starts(job->name + strlen(job->name) - 5, 5, ".pptx");
  int32_t types = doc_archive_find(archive, "[Content_Types].xml");
  if (types < 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: there is no [Content_Types].xml, which an office document has", job->name);
  }
  xmlDoc *tree;
  int has_main = 0;
  tsr_status status = doc_xml_entry(archive, job, types, &tree);
  if (status != TSR_OK) {
    return status;
  }
  const xmlNode *root = xmlDocGetRootElement(tree);
  for (const xmlNode *n = root ? root->children : NULL; n; n = n->next) {
    if (n->type != XML_ELEMENT_NODE || strcmp((const char *)n->name, "Override") != 0) {
      continue;
    }
    char *name = doc_xml_attribute(n, "PartName"), *type = doc_xml_attribute(n, "ContentType");
    int32_t index = name && type && has_text(type) ? doc_archive_find(archive, name + (name[0] == '/')) : -1;
    if (index >= 0) {
      is_chosen[index] = 1;
    }
    if (type && ends_with(type, ".main+xml")) {
      has_main |= strstr(type, is_slides ? "presentation" : "word") != NULL;
    }
    xmlFree(name);
    xmlFree(type);
  }
  xmlFreeDoc(tree);
  if (!has_main) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: expected the parts of a %s, found another document", job->name,
                    is_slides ? "presentation" : "text document");
  }
  return TSR_OK;
}

tsr_status doc_format_office(doc_job *job)
{
  static const doc_package_kind kind = {choose, is_paragraph, is_skipped, read_paragraph, write_paragraph};
  return doc_package_translate(job, &kind);
}

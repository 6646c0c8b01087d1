/* SPDX-License-Identifier: Apache-2.0
 *
 * .epub: the XHTML files that the book's package lists. All else stays as it is.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/documents/html.h"
#include "tools/tessera/documents/xml.h"

/* A page of the book. */
typedef struct page {
  int32_t entry;
  doc_buffer bytes;
  doc_html *html;
} page;

typedef struct book {
  doc_job *job;
  doc_archive *archive;
  page *pages;
  size_t n;
  size_t room;
} book;

static tsr_status add_page(book *b, int32_t entry)
{
  page *pages = doc_grow(b->pages, b->n, &b->room, sizeof *pages);
  if (!pages) {
    return doc_no_memory();
  }
  b->pages = pages;
  for (size_t i = 0; i < b->n; i++) {
    if (pages[i].entry == entry) {
      return TSR_OK;
    }
  }
  page *made = &pages[b->n++];
  *made = (page){.entry = entry};
  tsr_status status = doc_archive_read(b->archive, entry, &made->bytes);
  if (status != TSR_OK) {
    return status;
  }
  const char *name = doc_archive_name(b->archive, entry);
  doc_buffer_add(&made->bytes, "", 0);
  size_t bad = doc_utf8_check(made->bytes.bytes, made->bytes.size);
  if (bad < made->bytes.size) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %s: byte %zu is 0x%02X, which is no UTF-8", b->job->name, name, bad,
                    (unsigned)(unsigned char)made->bytes.bytes[bad]);
  }
  if (strstr(made->bytes.bytes, "<!ENTITY")) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: %s: a document type with entities of its own is refused", b->job->name, name);
  }
  return doc_html_read(made->bytes.bytes, made->bytes.size, 1, &b->job->batch, &made->html);
}

/* A path relative to the folder of another: %20 and its like are undone, and "." and "..". */
static void resolve(const char *base, const char *path, doc_buffer *out)
{
  const char *slash = strrchr(base, '/');
  doc_buffer_add(out, base, path[0] == '/' || !slash ? 0 : (size_t)(slash + 1 - base));
  path += path[0] == '/';
  while (*path && *path != '#' && !out->failed) {
    if (strncmp(path, "../", 3) == 0) {
      size_t at = out->size > 0 ? out->size - 1 : 0;
      while (at > 0 && out->bytes[at - 1] != '/') {
        at--;
      }
      out->size = at;
      path += 3;
      continue;
    }
    if (strncmp(path, "./", 2) == 0) {
      path += 2;
      continue;
    }
    for (; *path && *path != '#'; path++) {
      char digits[3] = {path[0] == '%' ? path[1] : '\0', path[0] == '%' && path[1] ? path[2] : '\0', '\0'};
      char *end;
      long value = digits[1] ? strtol(digits, &end, 16) : 0;
      if (value > 0 && end == digits + 2) {
        doc_buffer_char(out, (char)value);
        path += 2;
      } else {
        doc_buffer_char(out, *path);
      }
      if (*path == '/') {
        path++;
        break;
      }
    }
  }
  doc_buffer_add(out, "", 0);
}

/* The first element of that name below a node, in any namespace; NULL: there is none. */
static const xmlNode *find_element(const xmlNode *root, const char *name)
{
  const xmlNode *node = root;
  while (node) {
    if (node->type == XML_ELEMENT_NODE && strcmp((const char *)node->name, name) == 0) {
      return node;
    }
    if (node->type == XML_ELEMENT_NODE && node->children) {
      node = node->children;
      continue;
    }
    while (node && node != root && !node->next) {
      node = node->parent;
    }
    node = node && node != root ? node->next : NULL;
  }
  return NULL;
}

/* The pages of a package's manifest. */
static tsr_status read_manifest(book *b, const char *package, const xmlNode *root)
{
  const xmlNode *manifest = root ? find_element(root, "manifest") : NULL;
  tsr_status status = TSR_OK;
  for (const xmlNode *n = manifest ? manifest->children : NULL; n && status == TSR_OK; n = n->next) {
    char *href = n->type == XML_ELEMENT_NODE ? doc_xml_attribute(n, "href") : NULL;
    char *type = href ? doc_xml_attribute(n, "media-type") : NULL;
    if (type && (strcmp(type, "application/xhtml+xml") == 0 || strcmp(type, "text/html") == 0)) {
      doc_buffer path = {0};
      resolve(package, href, &path);
      status = doc_buffer_check(&path);
      int32_t entry = status == TSR_OK ? doc_archive_find(b->archive, path.bytes) : -1;
      if (entry >= 0) {
        status = add_page(b, entry);
      } else if (status == TSR_OK && !strstr(href, "://")) {
        status = tsr_fail(TSR_ERR_FORMAT, "%s: %s lists %s, which is not there", b->job->name, package, path.bytes);
      }
      doc_buffer_finish(&path);
    }
    xmlFree(href);
    xmlFree(type);
  }
  return status == TSR_OK && !manifest ? tsr_fail(TSR_ERR_FORMAT, "%s: %s has no manifest", b->job->name, package)
                                       : status;
}

static tsr_status read_package(book *b, const char *path)
{
  int32_t index = doc_archive_find(b->archive, path);
  xmlDoc *tree = NULL;
  if (index < 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: META-INF/container.xml names %s, which is not there", b->job->name, path);
  }
  tsr_status status = doc_xml_entry(b->archive, b->job, index, &tree);
  if (status == TSR_OK) {
    status = read_manifest(b, path, xmlDocGetRootElement(tree));
  }
  xmlFreeDoc(tree);
  return status;
}

/* Fonts may be obfuscated; pages that are encrypted cannot be read. */
static tsr_status check_encryption(const book *b)
{
  doc_buffer list = {0};
  int32_t index = doc_archive_find(b->archive, "META-INF/encryption.xml");
  tsr_status status = index >= 0 ? doc_archive_read(b->archive, index, &list) : TSR_OK;
  if (status == TSR_OK && list.size > 0 && (strstr(list.bytes, "xhtml") || strstr(list.bytes, ".html"))) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: the book's pages are encrypted", b->job->name);
  }
  doc_buffer_finish(&list);
  return status;
}

static tsr_status read_book(book *b)
{
  int32_t index = doc_archive_find(b->archive, "META-INF/container.xml");
  if (index < 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: there is no META-INF/container.xml, which a book has", b->job->name);
  }
  xmlDoc *tree = NULL;
  tsr_status status = check_encryption(b);
  if (status == TSR_OK) {
    status = doc_xml_entry(b->archive, b->job, index, &tree);
  }
  if (status != TSR_OK) {
    return status;
  }
  const xmlNode *root = xmlDocGetRootElement(tree);
  const xmlNode *file = root ? find_element(root, "rootfile") : NULL;
  char *path = file ? doc_xml_attribute(file, "full-path") : NULL;
  status = path ? read_package(b, path)
                : tsr_fail(TSR_ERR_FORMAT, "%s: META-INF/container.xml names no package", b->job->name);
  xmlFree(path);
  xmlFreeDoc(tree);
  return status;
}

static tsr_status write_book(book *b)
{
  tsr_status status = TSR_OK;
  for (size_t i = 0; i < b->n && status == TSR_OK; i++) {
    doc_buffer text = {0};
    status = doc_html_write(b->pages[i].html, &b->job->batch, &text);
    if (status == TSR_OK && doc_html_is_changed(b->pages[i].html)) {
      status = doc_archive_replace(b->archive, b->pages[i].entry, &text);
    }
    doc_buffer_finish(&text);
  }
  return status == TSR_OK ? doc_archive_write(b->archive, &b->job->out) : status;
}

tsr_status doc_format_epub(doc_job *job)
{
  book b = {.job = job};
  tsr_status status = doc_archive_open(job, &b.archive);
  if (status == TSR_OK) {
    status = read_book(&b);
  }
  if (status == TSR_OK) {
    status = doc_job_translate(job);
  }
  if (status == TSR_OK) {
    status = write_book(&b);
  }
  for (size_t i = 0; i < b.n; i++) {
    doc_html_free(b.pages[i].html);
    doc_buffer_finish(&b.pages[i].bytes);
  }
  free(b.pages);
  doc_archive_close(b.archive);
  return status;
}

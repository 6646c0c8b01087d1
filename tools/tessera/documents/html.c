/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/documents/html.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Elements that are open at once, of which an end tag finds its own. */
enum { MOST_OPEN = 200 };

/* A piece's bytes: a tag, what is verbatim, or a pair of tags. */
typedef struct slice {
  const char *open;
  size_t open_size;
  const char *close; /* NULL: it has no end tag */
  size_t close_size;
  const char *name; /* of an element */
  size_t name_size;
} slice;

/* A character that is written as a reference in this paragraph. */
typedef struct reference {
  int32_t character;
  const char *text;
  size_t size;
} reference;

typedef struct segment {
  const char *begin;
  const char *end;
  doc_block block;
  size_t first_reference; /* of the page's */
  size_t n_references;
} segment;

/* A token that stands within text. */
typedef struct part {
  doc_token token;
  int32_t class; /* DOC_* of markup.h, of tags; DOC_SKIPPED: the whole element */
  int32_t mate;  /* of a start tag: its end tag, or -1: none; of an end tag: its start tag, -1: none, -2: the end of one
                    that another's end tag had ended */
} part;

struct doc_html {
  const char *bytes;
  size_t size;
  int32_t is_xml;
  int32_t flags;    /* DOC_HTML_* */
  int32_t is_ascii; /* the page says that it is no UTF-8 */
  int32_t is_changed;
  segment *segments;
  size_t n_segments;
  size_t segments_room;
  slice *slices;
  size_t n_slices;
  size_t slices_room;
  reference *references;
  size_t n_references;
  size_t references_room;
  part *parts; /* of the paragraph that is read */
  size_t n_parts;
  size_t parts_room;
};

void doc_html_free(doc_html *html)
{
  if (html) {
    for (size_t i = 0; i < html->n_segments; i++) {
      doc_block_finish(&html->segments[i].block);
    }
    free(html->segments);
    free(html->slices);
    free(html->references);
    free(html->parts);
    free(html);
  }
}

int doc_html_is_changed(const doc_html *html)
{
  return html->is_changed;
}

/* ---- tags and their ends ----------------------------------------------------------------------------------------- */

static int is_same_name(const doc_token *a, const doc_token *b)
{
  if (a->name_size != b->name_size) {
    return 0;
  }
  for (size_t i = 0; i < a->name_size; i++) {
    if ((a->name[i] | 0x20) != (b->name[i] | 0x20)) {
      return 0;
    }
  }
  return 1;
}

static int is_tag(const part *p, int32_t kind)
{
  return p->token.kind == kind && p->class == DOC_INLINE && !p->token.is_empty;
}

/* Finds the element that an end tag ends. The elements within it that have no end end there, too; where their end tags
 * come later, they belong to them (orphans). */
static void close_element(part *parts, int32_t at, int32_t *open, int32_t *n_open, int32_t *orphans, int32_t *n_orphans)
{
  int32_t i = *n_open;
  while (i > 0 && !is_same_name(&parts[open[i - 1]].token, &parts[at].token)) {
    i--;
  }
  if (i > 0) {
    for (int32_t k = i; k < *n_open && *n_orphans < MOST_OPEN; k++) {
      orphans[(*n_orphans)++] = open[k];
    }
    *n_open = i - 1;
    parts[open[i - 1]].mate = at;
    parts[at].mate = open[i - 1];
    return;
  }
  for (i = *n_orphans; i > 0; i--) {
    if (is_same_name(&parts[orphans[i - 1]].token, &parts[at].token)) {
      parts[orphans[i - 1]].mate = at;
      parts[at].mate = -2;
      memmove(orphans + i - 1, orphans + i, (size_t)(*n_orphans - i) * sizeof *orphans);
      --*n_orphans;
      return;
    }
  }
}

static void find_mates(part *parts, size_t n)
{
  int32_t open[MOST_OPEN], orphans[MOST_OPEN], n_open = 0, n_orphans = 0;
  for (size_t i = 0; i < n; i++) {
    parts[i].mate = -1;
    if (is_tag(&parts[i], DOC_TOKEN_START) && n_open < MOST_OPEN) {
      open[n_open++] = (int32_t)i;
    } else if (is_tag(&parts[i], DOC_TOKEN_END)) {
      close_element(parts, (int32_t)i, open, &n_open, orphans, &n_orphans);
    }
  }
}

/* ---- a paragraph ------------------------------------------------------------------------------------------------- */

static tsr_status add_slice(doc_html *html, const char *open, size_t size, int32_t *tag)
{
  slice *slices = doc_grow(html->slices, html->n_slices, &html->slices_room, sizeof *slices);
  if (!slices || html->n_slices >= INT32_MAX - 1) {
    html->slices = slices ? slices : html->slices;
    return doc_no_memory();
  }
  html->slices = slices;
  slices[html->n_slices] = (slice){.open = open, .open_size = size};
  *tag = (int32_t)html->n_slices++;
  return TSR_OK;
}

static tsr_status add_point(doc_html *html, doc_block *block, const char *text, size_t size, int32_t breaks)
{
  int32_t tag = -1;
  tsr_status status = size > 0 ? add_slice(html, text, size, &tag) : TSR_OK;
  if (size > 0 && status == TSR_OK) {
    doc_block_point(block, tag, breaks);
  }
  return status;
}

/* The first writing of a character counts. */
static tsr_status note_reference(doc_html *html, segment *s, int32_t character, const char *text, size_t size)
{
  enum { MOST = 64 };
  for (size_t i = s->first_reference; i < html->n_references; i++) {
    if (html->references[i].character == character) {
      return TSR_OK;
    }
  }
  reference *references = doc_grow(html->references, html->n_references, &html->references_room, sizeof *references);
  if (!references) {
    return doc_no_memory();
  }
  html->references = references;
  if (s->n_references < MOST) {
    references[html->n_references++] = (reference){character, text, size};
    s->n_references++;
  }
  return TSR_OK;
}

/* The bytes of what looks like a reference, but is not known. */
static size_t unknown_reference(const char *text, size_t size)
{
  size_t at = 1;
  while (at < size && at < 40 && doc_class((unsigned char)text[at]) >= DOC_LETTER && (unsigned char)text[at] < 0x80) {
    at++;
  }
  return at > 1 && at < size && text[at] == ';' ? at + 1 : 0;
}

/* What stays as it is at `text`: an address, a placeholder, the time of a word; 0: there is none. */
static size_t find_kept(const doc_html *html, const char *text, size_t size)
{
  size_t n = 0;
  if (text[0] == 'h' || text[0] == 'w' || text[0] == 'm' || text[0] == 'H' || text[0] == 'W') {
    n = doc_address(text, size);
  } else if (html->flags & DOC_HTML_PLACEHOLDERS) {
    n = doc_placeholder(text, size);
  }
  if (text[0] == '<' && (html->flags & DOC_HTML_TIMES)) {
    size_t end = 1;
    while (end < size && strchr("0123456789:.", text[end]) && text[end]) {
      end++;
    }
    n = end > 1 && end < size && text[end] == '>' ? end + 1 : 0;
  }
  return n;
}

static tsr_status add_kept(doc_html *html, segment *s, const char *text, size_t size)
{
  int32_t tag = -1;
  tsr_status status = add_slice(html, text, size, &tag);
  if (status == TSR_OK && text[0] == '<') {
    doc_block_point(&s->block, tag, 0);
  } else if (status == TSR_OK) {
    doc_block_verbatim(&s->block, tag, text, size);
  }
  return status;
}

/* A character reference, or an '&' that begins none. */
static tsr_status add_reference(doc_html *html, segment *s, const char *text, size_t size, size_t *taken)
{
  int32_t character;
  size_t n = doc_reference(text, size, &character);
  if (n > 0) {
    doc_buffer utf8 = {0};
    doc_buffer_utf8(&utf8, character);
    tsr_status status = doc_buffer_check(&utf8);
    if (status == TSR_OK) {
      doc_block_text(&s->block, utf8.bytes, utf8.size);
      status = note_reference(html, s, character, text, n);
    }
    doc_buffer_finish(&utf8);
    *taken = n;
    return status;
  }
  *taken = unknown_reference(text, size);
  if (*taken > 0) {
    return add_kept(html, s, text, *taken);
  }
  *taken = 1;
  doc_block_text(&s->block, text, 1);
  return TSR_OK;
}

/* What begins at `text`, up to what is no plain text. */
static tsr_status add_some_text(doc_html *html, segment *s, const char *text, size_t size, size_t *taken)
{
  int is_plain = (html->flags & DOC_HTML_PLAIN) != 0;
  size_t n = find_kept(html, text, size);
  if (n > 0) {
    *taken = n;
    return add_kept(html, s, text, n);
  }
  if (text[0] == '&' && !is_plain) {
    return add_reference(html, s, text, size, taken);
  }
  int has_escapes = (html->flags & DOC_HTML_MARKDOWN) != 0;
  if (has_escapes && size > 1 && text[0] == '\\' && ispunct((unsigned char)text[1])) {
    *taken = 2;
    doc_block_text(&s->block, text + 1, 1);
    return note_reference(html, s, (unsigned char)text[1], text, 2);
  }
  for (n = 1; n < size && (text[n] != '&' || is_plain) && (text[n] != '\\' || !has_escapes); n++) {
    int is_within = isalnum((unsigned char)text[n - 1]) && isalnum((unsigned char)text[n]);
    if (!is_within && find_kept(html, text + n, size - n) > 0) {
      break;
    }
  }
  *taken = n;
  doc_block_text(&s->block, text, n);
  return TSR_OK;
}

static tsr_status add_text(doc_html *html, segment *s, const char *text, size_t size)
{
  tsr_status status = TSR_OK;
  while (size > 0 && status == TSR_OK) {
    size_t taken = size;
    status = add_some_text(html, s, text, size, &taken);
    text += taken;
    size -= taken;
  }
  return status;
}

/* An element that is not translated: its text helps to translate what is around it. */
static tsr_status add_skipped(doc_html *html, doc_block *block, const doc_token *token)
{
  doc_tokens inner = {.at = token->begin, .end = token->begin + token->size, .is_xml = html->is_xml};
  doc_buffer text = {0};
  doc_token next;
  while (doc_token_next(&inner, &next)) {
    for (size_t at = 0; next.kind == DOC_TOKEN_TEXT && at < next.size && text.size < 200;) {
      int32_t character;
      size_t n = next.begin[at] == '&' ? doc_reference(next.begin + at, next.size - at, &character) : 0;
      if (n > 0) {
        doc_buffer_utf8(&text, character);
      } else {
        doc_buffer_char(&text, next.begin[at]);
      }
      at += n > 0 ? n : 1;
    }
  }
  if (html->flags & DOC_HTML_MARKDOWN) { /* `code`, <address> */
    size_t begin = 0, end = token->size;
    while (begin < end && strchr("`<", token->begin[begin])) {
      begin++;
    }
    while (end > begin && strchr("`>", token->begin[end - 1])) {
      end--;
    }
    text.size = 0;
    doc_buffer_add(&text, token->begin + begin, end - begin);
  }
  int32_t tag = -1;
  tsr_status status = doc_buffer_check(&text);
  if (status == TSR_OK) {
    status = add_slice(html, token->begin, token->size, &tag);
  }
  if (status == TSR_OK) {
    doc_block_verbatim(block, tag, text.bytes, text.size);
  }
  doc_buffer_finish(&text);
  return status;
}

static tsr_status add_start(doc_html *html, doc_block *block, const part *p)
{
  const doc_token *token = &p->token;
  int32_t tag = -1;
  tsr_status status = add_slice(html, token->begin, token->size, &tag);
  if (status != TSR_OK) {
    return status;
  }
  slice *s = &html->slices[tag];
  s->name = token->name;
  s->name_size = token->name_size;
  if (p->mate >= 0) {
    s->close = html->parts[p->mate].token.begin;
    s->close_size = html->parts[p->mate].token.size;
  }
  if (doc_block_enter(block, tag) < 0) {
    doc_block_point(block, tag, 0); /* too deep: its end tag is a point, too */
  }
  return TSR_OK;
}

/* 1 if the element that this part began is open. */
static int is_open(const doc_html *html, const doc_block *block, const doc_token *token)
{
  for (int32_t i = block->open; i >= 0; i = block->pieces[i].parent) {
    if (html->slices[block->pieces[i].tag].open == token->begin) {
      return 1;
    }
  }
  return 0;
}

static tsr_status add_end(doc_html *html, doc_block *block, const part *p)
{
  if (p->mate == -2) { /* it is written where the element ends */
    return TSR_OK;
  }
  if (p->mate < 0 || !is_open(html, block, &html->parts[p->mate].token)) {
    return add_point(html, block, p->token.begin, p->token.size, 0);
  }
  const char *begin = html->parts[p->mate].token.begin;
  int is_last = 0;
  while (!is_last && block->open >= 0) {
    is_last = html->slices[block->pieces[block->open].tag].open == begin;
    doc_block_leave(block);
  }
  return TSR_OK;
}

/* 1 if a part is what a text is made of. */
static int has_content(const part *p)
{
  if (p->token.kind != DOC_TOKEN_TEXT) {
    return p->class == DOC_SKIPPED;
  }
  for (size_t i = 0; i < p->token.size; i++) {
    if (!doc_is_blank(p->token.begin[i])) {
      return 1;
    }
  }
  return 0;
}

/* Text of which the blanks at the beginning or end of the paragraph stay what they are. */
static tsr_status add_outer_text(doc_html *html, segment *s, const doc_token *token, int is_first, int is_last)
{
  const char *begin = token->begin, *end = begin + token->size;
  while (is_first && begin < end && doc_is_blank(*begin)) {
    begin++;
  }
  const char *close = end;
  while (is_last && close > begin && doc_is_blank(close[-1])) {
    close--;
  }
  tsr_status status = add_point(html, &s->block, token->begin, (size_t)(begin - token->begin), 0);
  if (status == TSR_OK) {
    status = add_text(html, s, begin, (size_t)(close - begin));
  }
  return status == TSR_OK ? add_point(html, &s->block, close, (size_t)(end - close), 0) : status;
}

static tsr_status add_part(doc_html *html, segment *s, size_t i, size_t first, size_t last)
{
  const part *p = &html->parts[i];
  const doc_token *token = &p->token;
  const part *before = i > 0 ? p - 1 : NULL;
  if (token->kind == DOC_TOKEN_TEXT) {
    return i < first || i > last ? add_point(html, &s->block, token->begin, token->size, 0)
                                 : add_outer_text(html, s, token, i == first, i == last);
  }
  if (p->class == DOC_SKIPPED) {
    return add_skipped(html, &s->block, token);
  }
  if (is_tag(p, DOC_TOKEN_START)) {
    if (before && is_tag(before, DOC_TOKEN_END) && is_same_name(&before->token, token)) {
      doc_block_cut(&s->block); /* <a>Home</a><a>News</a> */
    }
    return add_start(html, &s->block, p);
  }
  if (is_tag(p, DOC_TOKEN_END)) {
    return add_end(html, &s->block, p);
  }
  int breaks = token->kind != DOC_TOKEN_OTHER && p->class == DOC_BREAK;
  if (breaks && before && before->token.kind != DOC_TOKEN_TEXT && before->class == DOC_BREAK) {
    doc_block_cut(&s->block); /* <br><br> */
  }
  return add_point(html, &s->block, token->begin, token->size, breaks);
}

/* 1 if there is something to translate. */
static int has_own_letters(const doc_block *block)
{
  size_t at = 0;
  for (size_t i = 0; i < block->n_pieces; i++) {
    const doc_piece *piece = &block->pieces[i];
    if (piece->kind == DOC_VERBATIM) {
      if (doc_has_letter(block->text.bytes + at, piece->begin - at)) {
        return 1;
      }
      at = piece->end;
    }
  }
  return at < block->text.size && doc_has_letter(block->text.bytes + at, block->text.size - at);
}

/* Makes a paragraph of the parts that were read, if they have text. */
static tsr_status end_paragraph(doc_html *html, doc_batch *batch)
{
  size_t n = html->n_parts, first = 0, last = n;
  html->n_parts = 0;
  while (first < n && !has_content(&html->parts[first])) {
    first++;
  }
  if (first == n) {
    return TSR_OK;
  }
  do {
    last--;
  } while (!has_content(&html->parts[last]));
  segment *segments = doc_grow(html->segments, html->n_segments, &html->segments_room, sizeof *segments);
  if (!segments) {
    return doc_no_memory();
  }
  html->segments = segments;
  segment *s = &segments[html->n_segments];
  *s = (segment){.begin = html->parts[0].token.begin,
                 .end = html->parts[n - 1].token.begin + html->parts[n - 1].token.size,
                 .first_reference = html->n_references};
  doc_block_begin(&s->block);
  find_mates(html->parts, n);
  tsr_status status = TSR_OK;
  for (size_t i = 0; i < n && status == TSR_OK; i++) {
    status = add_part(html, s, i, first, last);
  }
  if (status == TSR_OK && (s->block.failed || s->block.text.failed)) {
    status = doc_no_memory();
  }
  if (status == TSR_OK && has_own_letters(&s->block)) {
    html->n_segments++;
    return doc_block_ask(&s->block, batch);
  }
  doc_block_finish(&s->block);
  return status;
}

/* ---- a page ------------------------------------------------------------------------------------------------------ */

static int may_lack_end(const doc_token *token)
{
  static const char *const names[] = {"dd", "dt", "li", "option", "p", "td", "th", "tr", NULL};
  for (int i = 0; names[i]; i++) {
    if (doc_token_is(token, names[i])) {
      return 1;
    }
  }
  return 0;
}

/* 1 if `next` ends, without being part of it, an element whose end tag may be missing. depth: of blocks within it. */
static int ends_without_tag(const doc_token *start, const doc_token *next, int32_t depth)
{
  if (depth > 0 || !may_lack_end(start)) {
    return 0;
  }
  if (next->kind == DOC_TOKEN_START) {
    return is_same_name(start, next) || (doc_token_is(start, "p") && doc_token_class(next) == DOC_BLOCK);
  }
  return next->kind == DOC_TOKEN_END && !is_same_name(start, next) && doc_token_class(next) == DOC_BLOCK;
}

void doc_html_skip(doc_tokens *tokens, doc_token *token)
{
  doc_token start = *token, next;
  int32_t depth = 0, blocks = 0;
  int lacks_end = may_lack_end(&start);
  for (;;) {
    doc_tokens before = *tokens;
    if (!doc_token_next(tokens, &next)) {
      break;
    }
    if (ends_without_tag(&start, &next, blocks)) {
      *tokens = before;
      break;
    }
    int is_same = (next.kind == DOC_TOKEN_START || next.kind == DOC_TOKEN_END) && is_same_name(&start, &next);
    if (is_same && next.kind == DOC_TOKEN_END && depth == 0 && blocks == 0) {
      break;
    }
    if (is_same && !lacks_end) {
      depth += next.kind == DOC_TOKEN_END ? -1 : !next.is_empty || !tokens->is_xml;
    } else if (lacks_end && next.name && !may_lack_end(&next) && doc_token_class(&next) == DOC_BLOCK &&
               !next.is_empty) {
      blocks += next.kind == DOC_TOKEN_START ? 1 : -1;
      blocks = blocks < 0 ? 0 : blocks;
    }
  }
  token->size = (size_t)(tokens->at - token->begin);
}

/* A page that names another character set, and has none but ASCII's: it stays so. */
static void note_charset(doc_html *html, const doc_token *token)
{
  const char *value;
  size_t size;
  if (!doc_token_is(token, "meta")) {
    return;
  }
  if (!doc_token_attribute(token, "charset", &value, &size)) {
    if (!doc_token_attribute(token, "content", &value, &size)) {
      return;
    }
    const char *found = NULL;
    for (size_t i = 0; i + 8 < size && !found; i++) {
      found = doc_starts(value + i, size - i, "charset=") ? value + i + 8 : NULL;
    }
    if (!found) {
      return;
    }
    size -= (size_t)(found - value);
    value = found;
  }
  html->is_ascii = !doc_starts(value, size, "utf-8") && !doc_starts(value, size, "utf8");
}

static tsr_status add_token(doc_html *html, const doc_token *token, int32_t class)
{
  part *parts = doc_grow(html->parts, html->n_parts, &html->parts_room, sizeof *parts);
  if (!parts || html->n_parts >= INT32_MAX - 1) {
    html->parts = parts ? parts : html->parts;
    return doc_no_memory();
  }
  html->parts = parts;
  parts[html->n_parts++] = (part){.token = *token, .class = class};
  return TSR_OK;
}

static tsr_status read_token(doc_html *html, doc_tokens *tokens, doc_token *token, int *is_title, doc_batch *batch)
{
  if (token->kind == DOC_TOKEN_TEXT || token->kind == DOC_TOKEN_OTHER) {
    return add_token(html, token, DOC_INLINE);
  }
  if (token->kind == DOC_TOKEN_RAW) {
    token->kind = DOC_TOKEN_TEXT;
    return *is_title ? add_token(html, token, DOC_INLINE) : TSR_OK;
  }
  int32_t class = doc_token_class(token);
  *is_title = token->kind == DOC_TOKEN_START && doc_token_is(token, "title");
  if (token->kind == DOC_TOKEN_START) {
    note_charset(html, token);
    if (doc_token_is_skipped(token)) {
      doc_html_skip(tokens, token);
      class = class == DOC_BLOCK ? DOC_BLOCK : DOC_SKIPPED;
    }
  } else if (class == DOC_SKIPPED) {
    class = DOC_INLINE; /* an end tag alone */
  }
  return class == DOC_BLOCK ? end_paragraph(html, batch) : add_token(html, token, class);
}

tsr_status doc_html_read(const char *bytes, size_t size, int32_t is_xml, doc_batch *batch, doc_html **html)
{
  doc_html *made = calloc(1, sizeof *made);
  *html = made;
  if (!made) {
    return doc_no_memory();
  }
  made->bytes = bytes;
  made->size = size;
  made->is_xml = is_xml;
  int has_mark = size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0;
  doc_tokens tokens = {.at = bytes + (has_mark ? 3 : 0), .end = bytes + size, .is_xml = is_xml};
  doc_token token;
  int is_title = 0;
  tsr_status status = TSR_OK;
  while (status == TSR_OK && doc_token_next(&tokens, &token)) {
    status = read_token(made, &tokens, &token, &is_title, batch);
  }
  return status == TSR_OK ? end_paragraph(made, batch) : status;
}

tsr_status doc_html_new(int32_t flags, doc_html **html)
{
  *html = calloc(1, sizeof **html);
  if (!*html) {
    return doc_no_memory();
  }
  (*html)->flags = flags;
  return TSR_OK;
}

tsr_status doc_html_add(doc_html *html, const char *text, size_t size, doc_batch *batch, int32_t *index)
{
  doc_tokens tokens = {.at = text, .end = text + size, .is_xml = 1};
  doc_token token;
  size_t before = html->n_segments;
  tsr_status status = TSR_OK;
  while (status == TSR_OK && doc_token_next(&tokens, &token)) {
    int is_break = token.name && doc_token_class(&token) == DOC_BREAK;
    status = add_token(html, &token, is_break ? DOC_BREAK : DOC_INLINE);
  }
  status = status == TSR_OK ? end_paragraph(html, batch) : status;
  *index = status == TSR_OK && html->n_segments > before ? (int32_t)before : -1;
  return status;
}

tsr_status doc_html_add_tokens(doc_html *html, const doc_token *tokens, const int32_t *classes, size_t n,
                               doc_batch *batch, int32_t *index)
{
  size_t before = html->n_segments;
  tsr_status status = TSR_OK;
  for (size_t i = 0; i < n && status == TSR_OK; i++) {
    status = add_token(html, &tokens[i], classes[i]);
  }
  status = status == TSR_OK ? end_paragraph(html, batch) : status;
  *index = status == TSR_OK && html->n_segments > before ? (int32_t)before : -1;
  return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_plain(const doc_html *html, const char *text, size_t size, doc_buffer *out)
{
  if (html->flags & (DOC_HTML_PLAIN | DOC_HTML_MARKDOWN)) {
    doc_buffer_add(out, text, size);
  } else {
    doc_escape(out, text, size, html->is_ascii);
  }
}

/* Text, with the references that the paragraph has. */
static void write_text(const doc_html *html, const segment *s, const char *text, size_t size, doc_buffer *out)
{
  size_t from = 0;
  for (size_t at = 0; at < size && s->n_references > 0;) {
    int32_t character;
    size_t n = doc_utf8(text + at, size - at, &character);
    n = n > 0 ? n : 1;
    for (size_t i = s->first_reference; i < s->first_reference + s->n_references; i++) {
      const reference *r = &html->references[i];
      if (r->character == character) {
        write_plain(html, text + from, at - from, out);
        doc_buffer_add(out, r->text, r->size);
        from = at + n;
        break;
      }
    }
    at += n;
  }
  write_plain(html, text + from, size - from, out);
}

static void write_close(const slice *s, int is_last, doc_buffer *out)
{
  if (s->close) {
    doc_buffer_add(out, s->close, s->close_size);
  } else if (!is_last) { /* what follows would be in the element, too */
    doc_buffer_text(out, "</");
    doc_buffer_add(out, s->name, s->name_size);
    doc_buffer_char(out, '>');
  }
}

static void write_placement(const doc_html *html, const segment *s, const doc_placement *placement, doc_buffer *out)
{
  size_t n = placement->n_events, last = n;
  while (last > 0 && placement->events[last - 1].kind == DOC_CLOSE) {
    last--;
  }
  for (size_t i = 0; i < n; i++) {
    const doc_event *event = &placement->events[i];
    if (event->kind == DOC_TEXT) {
      write_text(html, s, placement->text.bytes + event->begin, event->end - event->begin, out);
    } else if (event->kind == DOC_CLOSE) {
      write_close(&html->slices[event->tag], i >= last, out);
    } else {
      doc_buffer_add(out, html->slices[event->tag].open, html->slices[event->tag].open_size);
    }
  }
}

tsr_status doc_html_get(doc_html *html, int32_t index, const doc_batch *batch, doc_buffer *out, int *changed)
{
  segment *s = &html->segments[index];
  doc_placement placement = {0};
  tsr_status status = doc_block_place(&s->block, batch, &placement);
  *changed = status == TSR_OK && placement.changed;
  if (*changed) {
    write_placement(html, s, &placement, out);
  }
  doc_placement_finish(&placement);
  return status;
}

tsr_status doc_html_write(doc_html *html, const doc_batch *batch, doc_buffer *out)
{
  const char *at = html->bytes;
  html->is_ascii &= !html->is_xml;
  for (size_t i = 0; i < html->size && html->is_ascii; i++) {
    html->is_ascii = (unsigned char)html->bytes[i] < 0x80;
  }
  tsr_status status = TSR_OK;
  for (size_t i = 0; i < html->n_segments && status == TSR_OK; i++) {
    const segment *s = &html->segments[i];
    doc_buffer text = {0};
    int changed;
    status = doc_html_get(html, (int32_t)i, batch, &text, &changed);
    if (changed) {
      doc_buffer_add(out, at, (size_t)(s->begin - at));
      doc_buffer_add(out, text.bytes, text.size);
      out->failed |= text.failed;
      at = s->end;
      html->is_changed = 1;
    }
    doc_buffer_finish(&text);
  }
  doc_buffer_add(out, at, (size_t)(html->bytes + html->size - at));
  return status == TSR_OK ? doc_buffer_check(out) : status;
}

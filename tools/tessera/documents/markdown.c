/* SPDX-License-Identifier: Apache-2.0
 *
 * .md: headings, paragraphs, items of lists, quotes and cells of tables are texts. Code, front matter, rules, targets
 * of links and definitions stay. Blocks of HTML are pages of their own.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/documents/formats.h"
#include "tools/tessera/documents/html.h"
#include "tools/tessera/documents/inline.h"
#include "tools/tessera/documents/wrap.h"

/* A text, and what of the file it replaces. */
typedef struct piece {
  const char *begin;
  const char *end;
  char *text;     /* its lines without what stands before them; NULL: a block of HTML */
  doc_html *html; /* of such */
  int32_t index;  /* of the paragraph */
  char *prefix;   /* of the lines behind the first, with the end of a line before it */
  size_t width;   /* of the longest line; 0: there is one */
  int32_t breaks;
} piece;

typedef struct markdown {
  doc_job *job;
  doc_html *html;
  piece *pieces;
  size_t n;
  size_t room;
  /* The paragraph that is read. */
  const char *begin; /* NULL: none */
  const char *end;
  doc_buffer text;
  doc_buffer prefix;
  size_t width;
  int32_t n_lines;
  /* The block of code, HTML or front matter that is read. */
  char fence;
  size_t fence_size;
  const char *page; /* HTML */
  const char *page_end;
  const char *page_mark; /* that ends it; NULL: a blank line does */
  int32_t in_table;
  int32_t in_list;
  int32_t after_blank;
} markdown;

static tsr_status add_piece(markdown *m, const piece *made)
{
  piece *pieces = doc_grow(m->pieces, m->n, &m->room, sizeof *pieces);
  if (!pieces) {
    free(made->text);
    free(made->prefix);
    doc_html_free(made->html);
    return doc_no_memory();
  }
  m->pieces = pieces;
  pieces[m->n++] = *made;
  return TSR_OK;
}

/* Takes the texts for a piece, and reads it. */
static tsr_status add_text(markdown *m, const char *begin, const char *end, doc_buffer *text, doc_buffer *prefix)
{
  piece made = {.begin = begin, .end = end, .width = m->n_lines > 1 ? m->width : 0};
  size_t size, prefix_size;
  tsr_status status = doc_buffer_take(text, &made.text, &size);
  if (status == TSR_OK) {
    status = doc_buffer_take(prefix, &made.prefix, &prefix_size);
  }
  int breaks = 0;
  if (status == TSR_OK) {
    status = doc_inline_add(m->html, made.text, size, &m->job->batch, &made.index, &breaks);
  }
  made.breaks = breaks;
  if (status != TSR_OK) {
    free(made.text);
    free(made.prefix);
    return status;
  }
  return add_piece(m, &made); /* the paragraph needs its bytes, even if it is not translated */
}

static tsr_status end_paragraph(markdown *m)
{
  tsr_status status = m->begin ? add_text(m, m->begin, m->end, &m->text, &m->prefix) : TSR_OK;
  doc_buffer_finish(&m->text);
  doc_buffer_finish(&m->prefix);
  m->begin = NULL;
  m->width = 0;
  m->n_lines = 0;
  m->in_table = 0;
  return status;
}

static tsr_status end_page(markdown *m)
{
  piece made = {.begin = m->page, .end = m->page_end, .index = -1};
  if (!m->page) {
    return TSR_OK;
  }
  m->page = NULL;
  tsr_status status = doc_html_read(made.begin, (size_t)(made.end - made.begin), 0, &m->job->batch, &made.html);
  if (status != TSR_OK) {
    doc_html_free(made.html);
    return status;
  }
  return add_piece(m, &made);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static const char *pass_blanks(const char *at, const char *end)
{
  while (at < end && (*at == ' ' || *at == '\t')) {
    at++;
  }
  return at;
}

/* Behind "- ", "3. " and what marks a task; `at` if there is none. */
static const char *pass_item(const char *at, const char *end)
{
  const char *mark = at;
  while (mark < end && isdigit((unsigned char)*mark) && mark - at < 9) {
    mark++;
  }
  int is_number = mark > at && mark < end && (*mark == '.' || *mark == ')');
  if (!is_number && !(mark == at && at < end && strchr("-*+", *at) && *at)) {
    return at;
  }
  mark++;
  if (mark < end && *mark != ' ' && *mark != '\t') {
    return at;
  }
  mark = pass_blanks(mark, end);
  if (end - mark > 3 && mark[0] == '[' && strchr(" xX", mark[1]) && mark[2] == ']' && mark[3] == ' ') {
    mark = pass_blanks(mark + 3, end);
  }
  return mark;
}

/* Behind all marks of quotes and items. *is_item: there is one of an item. */
static const char *pass_marks(const char *at, const char *end, int *is_item)
{
  *is_item = 0;
  for (;;) {
    const char *next = pass_blanks(at, end);
    if (next < end && *next == '>') {
      at = next + 1;
      continue;
    }
    const char *item = pass_item(next, end);
    if (item == next) {
      return next;
    }
    *is_item = 1;
    at = item;
  }
}

/* ***, ---, ===: of one character and blanks. */
static int is_rule(const char *at, const char *end)
{
  int n = 0;
  char c = at < end ? *at : '\0';
  for (; at < end; at++) {
    if (*at != c && !doc_is_blank(*at)) {
      return 0;
    }
    n += *at == c;
  }
  return n >= 1 && (c == '=' || c == '-' || (n >= 3 && (c == '*' || c == '_')));
}

/* |---|:--:| */
static int is_table_rule(const char *at, const char *end)
{
  int bars = 0, dashes = 0;
  for (; at < end; at++) {
    if (!doc_is_blank(*at) && *at != '|' && *at != '-' && *at != ':') {
      return 0;
    }
    bars += *at == '|';
    dashes += *at == '-';
  }
  return bars > 0 && dashes > 0;
}

/* [name]: target */
static int is_definition(const char *at, const char *end)
{
  const char *close = at < end && *at == '[' ? memchr(at, ']', (size_t)(end - at)) : NULL;
  return close && close + 1 < end && close[1] == ':' && at[1] != '^';
}

static tsr_status add_cells(markdown *m, const char *at, const char *end)
{
  tsr_status status = TSR_OK;
  while (at < end && status == TSR_OK) {
    const char *close = at;
    while (close < end && *close != '|') {
      close += *close == '\\' && close + 1 < end ? 2 : 1;
    }
    const char *begin = pass_blanks(at, close), *last = close;
    while (last > begin && doc_is_blank(last[-1])) {
      last--;
    }
    doc_buffer text = {0}, prefix = {0};
    doc_buffer_add(&text, begin, (size_t)(last - begin));
    if (last > begin) {
      status = add_text(m, begin, last, &text, &prefix);
    }
    doc_buffer_finish(&text);
    doc_buffer_finish(&prefix);
    at = close < end ? close + 1 : end;
  }
  return status;
}

/* A line of a paragraph: `content` .. without what stands before it. */
static void add_line(markdown *m, const doc_line *line, const char *content)
{
  const char *end = line->begin + line->size;
  if (!m->begin) {
    m->begin = content;
  } else {
    doc_buffer_char(&m->text, '\n');
    if (m->n_lines == 1) {
      doc_buffer_text(&m->prefix, line->full > line->size + 1 ? "\r\n" : "\n");
      doc_buffer_add(&m->prefix, line->begin, (size_t)(content - line->begin));
    }
  }
  doc_buffer_add(&m->text, content, (size_t)(end - content));
  size_t width = doc_width(content, (size_t)(end - content));
  m->width = width > m->width ? width : m->width;
  m->end = end;
  m->n_lines++;
}

/* # Heading # */
static tsr_status add_heading(markdown *m, const doc_line *line, const char *at)
{
  const char *end = line->begin + line->size;
  while (at < end && *at == '#') {
    at++;
  }
  at = pass_blanks(at, end);
  while (end > at && doc_is_blank(end[-1])) {
    end--;
  }
  const char *close = end;
  while (close > at && close[-1] == '#') {
    close--;
  }
  if (close < end && close > at && doc_is_blank(close[-1])) {
    end = close;
    while (end > at && doc_is_blank(end[-1])) {
      end--;
    }
  }
  doc_line inner = {.begin = at, .size = (size_t)(end - at), .full = (size_t)(end - at) + 1};
  add_line(m, &inner, at);
  return end_paragraph(m);
}

static int is_heading(const char *at, const char *end)
{
  int n = 0;
  while (at < end && *at == '#') {
    at++;
    n++;
  }
  return n >= 1 && n <= 6 && (at == end || doc_is_blank(*at));
}

static int begins_fence(const char *at, const char *end)
{
  return end - at >= 3 && (*at == '`' || *at == '~') && at[1] == *at && at[2] == *at &&
         (*at == '~' || !memchr(at + 3, '`', (size_t)(end - at) - 3) || at[3] == '`');
}

/* A block of HTML begins with a tag or a comment that does not stand within text. */
static int begins_page(markdown *m, const char *at, const char *end)
{
  doc_tokens tokens = {.at = at, .end = end};
  doc_token token;
  m->page_mark = NULL;
  if (at >= end || *at != '<' || !doc_token_next(&tokens, &token) || token.kind == DOC_TOKEN_TEXT) {
    return 0;
  }
  if (token.kind == DOC_TOKEN_OTHER) {
    m->page_mark = doc_starts(at, (size_t)(end - at), "<!--") ? "-->" : NULL;
    return 1;
  }
  m->page_mark = doc_token_is(&token, "script")  ? "</script"
                 : doc_token_is(&token, "style") ? "</style"
                 : doc_token_is(&token, "pre")   ? "</pre"
                                                 : NULL;
  return doc_token_class(&token) == DOC_BLOCK;
}

static int contains(const doc_line *line, const char *mark)
{
  for (size_t i = 0; i < line->size; i++) {
    if (doc_starts(line->begin + i, line->size - i, mark)) {
      return 1;
    }
  }
  return 0;
}

/* A line within code, front matter or HTML; *done: 1. */
static tsr_status read_enclosed(markdown *m, const doc_line *line, const char *content, int *done)
{
  const char *end = line->begin + line->size;
  *done = 1;
  if (m->fence) {
    size_t n = 0;
    while (content + n < end && content[n] == m->fence) {
      n++;
    }
    if (n >= m->fence_size && pass_blanks(content + n, end) == end) {
      m->fence = 0;
    }
    return TSR_OK;
  }
  if (m->page) {
    int is_blank = pass_blanks(line->begin, end) == end;
    if (!m->page_mark && is_blank) {
      return end_page(m);
    }
    m->page_end = end;
    return m->page_mark && contains(line, m->page_mark) ? end_page(m) : TSR_OK;
  }
  *done = 0;
  return TSR_OK;
}

/* What begins a block of its own; *done: 1 if the line does. */
static tsr_status read_beginning(markdown *m, const doc_line *line, const char *at, int *done)
{
  const char *end = line->begin + line->size;
  *done = 1;
  if (begins_fence(at, end)) {
    m->fence = *at;
    m->fence_size = 0;
    while (at + m->fence_size < end && at[m->fence_size] == *at) {
      m->fence_size++;
    }
    return end_paragraph(m);
  }
  if (is_heading(at, end)) {
    tsr_status status = end_paragraph(m);
    return status == TSR_OK ? add_heading(m, line, at) : status;
  }
  if (is_rule(at, end) || is_definition(at, end)) {
    return end_paragraph(m);
  }
  if (!m->begin && begins_page(m, at, end)) {
    m->page = at;
    m->page_end = end;
    return m->page_mark && contains(line, m->page_mark) ? end_page(m) : TSR_OK;
  }
  *done = 0;
  return TSR_OK;
}

/* A line of a table, or the one before the rule that makes it one. */
static tsr_status read_table(markdown *m, const doc_line *line, const char *at, int *done)
{
  const char *end = line->begin + line->size;
  *done = 1;
  if (m->in_table) {
    return add_cells(m, at, end);
  }
  if (m->n_lines == 1 && is_table_rule(at, end)) {
    const char *begin = m->begin, *close = m->end;
    doc_buffer_finish(&m->text);
    m->begin = NULL;
    m->n_lines = 0;
    m->in_table = 1;
    return add_cells(m, begin, close);
  }
  *done = 0;
  return TSR_OK;
}

static tsr_status read_line(markdown *m, const doc_line *line)
{
  const char *end = line->begin + line->size;
  int is_item, done;
  const char *at = pass_marks(line->begin, end, &is_item);
  if (is_rule(pass_blanks(line->begin, end), end)) {
    at = pass_blanks(line->begin, end);
    is_item = 0;
  }
  tsr_status status = read_enclosed(m, line, m->fence ? pass_blanks(at, end) : at, &done);
  if (done || status != TSR_OK) {
    return status;
  }
  if (at == end) {
    m->after_blank = 1;
    return end_paragraph(m);
  }
  int is_code = m->after_blank && !m->begin && !m->in_list && !is_item &&
                (end - line->begin > 4 && memcmp(line->begin, "    ", 4) == 0);
  if (is_code || (*line->begin == '\t' && !m->begin && !m->in_list)) {
    return TSR_OK;
  }
  m->in_list = is_item || (m->in_list && (!m->after_blank || doc_is_blank(*line->begin)));
  m->after_blank = 0;
  status = read_table(m, line, at, &done);
  if (!done && status == TSR_OK) {
    status = read_beginning(m, line, at, &done);
  }
  if (done || status != TSR_OK) {
    return status;
  }
  if (is_item) {
    status = end_paragraph(m);
  }
  if (*at == '[' && end - at > 1 && at[1] == '^') { /* [^1]: a note */
    const char *close = memchr(at, ']', (size_t)(end - at));
    at = close && close + 1 < end && close[1] == ':' ? pass_blanks(close + 2, end) : at;
  }
  add_line(m, line, at);
  return status;
}

/* Lines that a file begins with between two of ---. */
static void pass_front(const doc_job *job, doc_line *line)
{
  doc_line at = *line;
  if (!doc_next_line(job, &at) || at.size != 3 || memcmp(at.begin, "---", 3) != 0) {
    return;
  }
  while (doc_next_line(job, &at)) {
    if (at.size == 3 && (memcmp(at.begin, "---", 3) == 0 || memcmp(at.begin, "...", 3) == 0)) {
      *line = at;
      return;
    }
  }
}

static tsr_status read_lines(markdown *m)
{
  doc_line line = {0};
  tsr_status status = TSR_OK;
  m->after_blank = 1;
  pass_front(m->job, &line);
  while (status == TSR_OK && doc_next_line(m->job, &line)) {
    doc_line inner = line;
    if (line.number == 1 && line.size >= 3 && memcmp(line.begin, "\xEF\xBB\xBF", 3) == 0) {
      inner.begin += 3;
      inner.size -= 3;
      inner.full -= 3;
    }
    status = read_line(m, &inner);
  }
  if (status == TSR_OK) {
    status = end_paragraph(m);
  }
  return status == TSR_OK ? end_page(m) : status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

/* In lines of the width that it had, or with the ends of lines that are meant. */
static void write_lines(const piece *p, const doc_buffer *text, doc_buffer *out)
{
  const char *prefix = p->prefix[0] ? p->prefix : "\n";
  if (!p->breaks) {
    doc_wrap(out, text->bytes, text->size, p->width > 0 ? p->width : SIZE_MAX / 2, prefix);
    return;
  }
  for (size_t i = 0; i < text->size; i++) {
    if (text->bytes[i] == '\n') {
      doc_buffer_text(out, prefix);
    } else {
      doc_buffer_char(out, text->bytes[i]);
    }
  }
}

static tsr_status write_piece(markdown *m, piece *p, doc_buffer *text, int *changed)
{
  doc_buffer raw = {0};
  *changed = 0;
  if (p->html) {
    tsr_status status = doc_html_write(p->html, &m->job->batch, text);
    *changed = status == TSR_OK && doc_html_is_changed(p->html);
    return status;
  }
  if (p->index < 0) {
    return TSR_OK;
  }
  tsr_status status = doc_html_get(m->html, p->index, &m->job->batch, &raw, changed);
  if (status == TSR_OK && *changed) {
    status = doc_buffer_check(&raw);
    write_lines(p, &raw, text);
  }
  doc_buffer_finish(&raw);
  return status;
}

static tsr_status write_pieces(markdown *m)
{
  doc_buffer *out = &m->job->out;
  const char *at = m->job->bytes;
  tsr_status status = TSR_OK;
  for (size_t i = 0; i < m->n && status == TSR_OK; i++) {
    doc_buffer text = {0};
    int changed;
    status = write_piece(m, &m->pieces[i], &text, &changed);
    if (changed) {
      doc_buffer_add(out, at, (size_t)(m->pieces[i].begin - at));
      doc_buffer_add(out, text.bytes, text.size);
      out->failed |= text.failed;
      at = m->pieces[i].end;
    }
    doc_buffer_finish(&text);
  }
  doc_buffer_add(out, at, (size_t)(m->job->bytes + m->job->size - at));
  return status;
}

tsr_status doc_format_markdown(doc_job *job)
{
  markdown m = {.job = job};
  tsr_status status = doc_html_new(DOC_HTML_MARKDOWN, &m.html);
  if (status == TSR_OK) {
    status = read_lines(&m);
  }
  if (status == TSR_OK) {
    status = doc_job_translate(job);
  }
  if (status == TSR_OK) {
    status = write_pieces(&m);
  }
  for (size_t i = 0; i < m.n; i++) {
    free(m.pieces[i].text);
    free(m.pieces[i].prefix);
    doc_html_free(m.pieces[i].html);
  }
  free(m.pieces);
  doc_buffer_finish(&m.text);
  doc_buffer_finish(&m.prefix);
  doc_html_free(m.html);
  return status;
}

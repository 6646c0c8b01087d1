/* SPDX-License-Identifier: Apache-2.0
 *
 * .po: msgid into msgstr, where that is empty or fuzzy. Translations that are there stay, and so do the header and
 * obsolete entries. An entry that was fuzzy is not any more. Each line of a message is a text.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/documents/formats.h"
#include "tools/tessera/documents/html.h"

/* A line of a message. */
typedef struct piece {
  char *text; /* with its blanks; the paragraph's bytes */
  size_t size;
  int32_t index; /* of the paragraph; -1: it stays */
  int32_t is_last;
} piece;

/* What is replaced in the file: a msgstr by pieces, or a comment by another. */
typedef struct change {
  const char *begin;
  const char *end;
  const char *keyword; /* "msgstr[0]" */
  size_t keyword_size;
  const char *line_end;
  size_t first; /* of the pieces */
  size_t n;
} change;

/* A string of an entry. */
typedef struct string {
  doc_buffer text;
  const char *begin; /* of its keyword */
  const char *end;   /* of its last line, without its end */
  const char *keyword;
  size_t keyword_size;
  const char *line_end;
  int is_there;
} string;

enum { CONTEXT, ID, PLURAL, N_STRINGS, MOST_FORMS = 8 };

typedef struct entry {
  string strings[N_STRINGS];
  string forms[MOST_FORMS];
  int32_t n_forms;
  const char *flags; /* the comment with "fuzzy"; NULL: none */
  const char *flags_end;
  string *open; /* that goes on in the next line; NULL: none */
} entry;

typedef struct catalogue {
  doc_job *job;
  doc_html *html;
  entry entry;
  change *changes;
  size_t n_changes;
  size_t changes_room;
  piece *pieces;
  size_t n_pieces;
  size_t pieces_room;
  int64_t n_entries;
} catalogue;

static tsr_status refuse(const catalogue *c, const doc_line *line, const char *expected)
{
  int shown = line->size > 60 ? 60 : (int)line->size;
  return tsr_fail(TSR_ERR_FORMAT, "%s, line %lld: expected %s, found '%.*s'", c->job->name, (long long)line->number,
                  expected, shown, line->begin);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static void clear_entry(entry *e)
{
  for (int i = 0; i < N_STRINGS; i++) {
    doc_buffer_finish(&e->strings[i].text);
  }
  for (int i = 0; i < MOST_FORMS; i++) {
    doc_buffer_finish(&e->forms[i].text);
  }
  *e = (entry){0};
}

/* Copies lines, for they are read as a paragraph, whose bytes have to stay. */
static tsr_status add_piece(catalogue *c, const char *text, size_t size, int is_last)
{
  piece *pieces = doc_grow(c->pieces, c->n_pieces, &c->pieces_room, sizeof *pieces);
  char *copy = malloc(size + 1);
  c->pieces = pieces ? pieces : c->pieces;
  if (!pieces || !copy) {
    free(copy);
    return doc_no_memory();
  }
  memcpy(copy, text, size);
  copy[size] = '\0';
  piece *p = &pieces[c->n_pieces++];
  *p = (piece){.text = copy, .size = size, .index = -1, .is_last = is_last};
  return doc_html_add(c->html, copy, size, &c->job->batch, &p->index);
}

static tsr_status add_change(catalogue *c, const change *made)
{
  change *changes = doc_grow(c->changes, c->n_changes, &c->changes_room, sizeof *changes);
  if (!changes) {
    return doc_no_memory();
  }
  c->changes = changes;
  changes[c->n_changes++] = *made;
  return TSR_OK;
}

/* Has `form` say what `source` says. */
static tsr_status translate_string(catalogue *c, const string *source, const string *form)
{
  change made = {form->begin, form->end, form->keyword, form->keyword_size, form->line_end, c->n_pieces, 0};
  const char *at = source->text.bytes, *end = at + source->text.size;
  tsr_status status = TSR_OK;
  while (at < end && status == TSR_OK) {
    const char *close = memchr(at, '\n', (size_t)(end - at));
    status = add_piece(c, at, (size_t)((close ? close : end) - at), !close);
    at = close ? close + 1 : end;
  }
  made.n = c->n_pieces - made.first;
  return status == TSR_OK ? add_change(c, &made) : status;
}

static int is_translated(const entry *e)
{
  for (int32_t i = 0; i < e->n_forms; i++) {
    if (e->forms[i].text.size == 0) {
      return 0;
    }
  }
  return 1;
}

static tsr_status end_entry(catalogue *c)
{
  entry *e = &c->entry;
  const string *id = &e->strings[ID];
  int is_header = id->text.size == 0 && !e->strings[CONTEXT].is_there;
  tsr_status status = TSR_OK;
  for (int i = 0; i < N_STRINGS; i++) {
    status = status == TSR_OK ? doc_buffer_check(&e->strings[i].text) : status;
  }
  for (int32_t i = 0; i < e->n_forms; i++) {
    status = status == TSR_OK ? doc_buffer_check(&e->forms[i].text) : status;
  }
  if (status == TSR_OK && id->is_there && !is_header && id->text.size > 0 && (e->flags || !is_translated(e))) {
    if (e->flags) {
      status = add_change(c, &(change){.begin = e->flags, .end = e->flags_end});
    }
    for (int32_t i = 0; i < e->n_forms && status == TSR_OK; i++) {
      const string *source = i > 0 && e->strings[PLURAL].is_there ? &e->strings[PLURAL] : id;
      if (e->flags || e->forms[i].text.size == 0) {
        status = translate_string(c, source, &e->forms[i]);
      }
    }
  }
  c->n_entries += id->is_there;
  clear_entry(e);
  return status;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

/* "text": its bytes; 0: it is none. */
static int read_quoted(const char *at, const char *end, doc_buffer *text)
{
  while (at < end && (*at == ' ' || *at == '\t')) {
    at++;
  }
  while (end > at && doc_is_blank(end[-1])) {
    end--;
  }
  if (end - at < 2 || *at != '"' || end[-1] != '"') {
    return 0;
  }
  doc_buffer_add(text, "", 0);
  for (at++, end--; at < end; at++) {
    if (*at == '"') {
      return 0;
    }
    if (*at != '\\') {
      doc_buffer_char(text, *at);
      continue;
    }
    if (++at == end) {
      return 0;
    }
    const char *found = strchr("nrtabfv", *at);
    doc_buffer_char(text, found && *at ? "\n\r\t\a\b\f\v"[found - "nrtabfv"] : *at);
  }
  return 1;
}

/* The string that a line's keyword begins; NULL: there is none, or too many. */
static string *find_string(entry *e, const doc_line *line, size_t *keyword)
{
  static const char *const names[] = {"msgctxt", "msgid", "msgid_plural"};
  size_t n = 0;
  while (n < line->size && !doc_is_blank(line->begin[n]) && line->begin[n] != '"') {
    n++;
  }
  *keyword = n;
  for (int i = 0; i < N_STRINGS; i++) {
    if (n == strlen(names[i]) && memcmp(line->begin, names[i], n) == 0) {
      return &e->strings[i];
    }
  }
  int is_form = n >= 6 && memcmp(line->begin, "msgstr", 6) == 0 &&
                (n == 6 || (n >= 9 && line->begin[6] == '[' && line->begin[n - 1] == ']'));
  return is_form && e->n_forms < MOST_FORMS ? &e->forms[e->n_forms++] : NULL;
}

static int has_fuzzy(const doc_line *line)
{
  for (size_t i = 2; i + 5 <= line->size; i++) {
    char before = line->begin[i - 1], behind = i + 5 < line->size ? line->begin[i + 5] : ',';
    if (memcmp(line->begin + i, "fuzzy", 5) == 0 && (doc_is_blank(before) || before == ',') &&
        (doc_is_blank(behind) || behind == ',')) {
      return 1;
    }
  }
  return 0;
}

static tsr_status read_keyword(catalogue *c, const doc_line *line)
{
  entry *e = &c->entry;
  int is_next = doc_starts(line->begin, line->size, "msgctxt") ||
                (doc_starts(line->begin, line->size, "msgid") && !doc_starts(line->begin, line->size, "msgid_"));
  if (is_next && e->strings[ID].is_there) { /* without a blank line before it; its comments are the new one's */
    entry comments = {.flags = e->n_forms > 0 ? NULL : e->flags, .flags_end = e->flags_end};
    tsr_status status = end_entry(c);
    if (status != TSR_OK) {
      return status;
    }
    *e = comments;
  }
  size_t keyword;
  string *s = find_string(e, line, &keyword);
  if (!s || s->is_there) {
    return refuse(c, line, "msgctxt, msgid, msgid_plural, msgstr, a comment or a text in quotes");
  }
  if (s >= e->forms && s < e->forms + MOST_FORMS && !e->strings[ID].is_there) {
    return refuse(c, line, "a msgid before its msgstr");
  }
  *s = (string){.begin = line->begin,
                .end = line->begin + line->size,
                .keyword = line->begin,
                .keyword_size = keyword,
                .line_end = line->full > line->size + 1 ? "\r\n" : "\n",
                .is_there = 1};
  e->open = s;
  return read_quoted(line->begin + keyword, line->begin + line->size, &s->text)
             ? TSR_OK
             : refuse(c, line, "a text in quotes behind the keyword");
}

static tsr_status read_line(catalogue *c, const doc_line *line)
{
  entry *e = &c->entry;
  const char *at = line->begin, *end = at + line->size;
  while (at < end && (*at == ' ' || *at == '\t')) {
    at++;
  }
  if (at == end) {
    return end_entry(c);
  }
  if (*at == '#') {
    tsr_status status = e->n_forms > 0 ? end_entry(c) : TSR_OK;
    if (at + 1 < end && at[1] == ',' && has_fuzzy(&(doc_line){.begin = at, .size = (size_t)(end - at)})) {
      e->flags = line->begin;
      e->flags_end = line->begin + line->full;
    }
    e->open = NULL;
    return status;
  }
  if (*at == '"') {
    if (!e->open || !read_quoted(at, end, &e->open->text)) {
      return refuse(c, line, "a keyword, or a text in quotes that is continued");
    }
    e->open->end = end;
    return TSR_OK;
  }
  return read_keyword(c, &(doc_line){at, (size_t)(end - at), line->full - (size_t)(at - line->begin), line->number});
}

static tsr_status read_catalogue(catalogue *c)
{
  doc_line line = {0};
  tsr_status status = TSR_OK;
  while (status == TSR_OK && doc_next_line(c->job, &line)) {
    doc_line inner = line;
    if (line.number == 1 && line.size >= 3 && memcmp(line.begin, "\xEF\xBB\xBF", 3) == 0) {
      inner.begin += 3;
      inner.size -= 3;
      inner.full -= 3;
    }
    status = read_line(c, &inner);
  }
  if (status == TSR_OK) {
    status = end_entry(c);
  }
  if (status == TSR_OK && c->n_entries == 0) {
    status = tsr_fail(TSR_ERR_FORMAT, "%s: there is no msgid", c->job->name);
  }
  return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_escaped(const char *text, size_t size, doc_buffer *out)
{
  static const char plain[] = "\n\r\t\a\b\f\v\"\\", escaped[] = "nrtabfv\"\\";
  for (size_t i = 0; i < size; i++) {
    const char *found = text[i] ? strchr(plain, text[i]) : NULL;
    if (found) {
      doc_buffer_char(out, '\\');
    }
    doc_buffer_char(out, found ? escaped[found - plain] : text[i]);
  }
}

/* The comment without "fuzzy"; nothing, if it has no other flag. */
static void write_flags(const change *made, doc_buffer *out)
{
  doc_buffer flags = {0};
  const char *end = made->end;
  while (end > made->begin && doc_is_blank(end[-1])) {
    end--;
  }
  const char *at = memchr(made->begin, ',', (size_t)(end - made->begin));
  while (at && at < end) {
    const char *close = memchr(at + 1, ',', (size_t)(end - at - 1));
    close = close ? close : end;
    const char *word = at + 1, *word_end = close;
    while (word < word_end && doc_is_blank(*word)) {
      word++;
    }
    while (word_end > word && doc_is_blank(word_end[-1])) {
      word_end--;
    }
    if (word_end > word && !(word_end - word == 5 && memcmp(word, "fuzzy", 5) == 0)) {
      doc_buffer_text(&flags, ", ");
      doc_buffer_add(&flags, word, (size_t)(word_end - word));
    }
    at = close < end ? close : NULL;
  }
  if (flags.size > 0) {
    doc_buffer_char(out, '#');
    doc_buffer_add(out, flags.bytes, flags.size);
    doc_buffer_add(out, end, (size_t)(made->end - end));
  }
  out->failed |= flags.failed;
  doc_buffer_finish(&flags);
}

static tsr_status write_piece(catalogue *c, const piece *p, doc_buffer *out)
{
  doc_buffer text = {0};
  int changed = 0;
  tsr_status status = p->index >= 0 ? doc_html_get(c->html, p->index, &c->job->batch, &text, &changed) : TSR_OK;
  doc_buffer_char(out, '"');
  write_escaped(changed ? text.bytes : p->text, changed ? text.size : p->size, out);
  doc_buffer_text(out, p->is_last ? "\"" : "\\n\"");
  out->failed |= text.failed;
  doc_buffer_finish(&text);
  return status;
}

static tsr_status write_change(catalogue *c, const change *made, doc_buffer *out)
{
  tsr_status status = TSR_OK;
  if (!made->keyword) {
    write_flags(made, out);
    return TSR_OK;
  }
  doc_buffer_add(out, made->keyword, made->keyword_size);
  doc_buffer_text(out, made->n > 1 ? " \"\"" : " ");
  for (size_t i = 0; i < made->n && status == TSR_OK; i++) {
    if (made->n > 1) {
      doc_buffer_text(out, made->line_end);
    }
    status = write_piece(c, &c->pieces[made->first + i], out);
  }
  return status;
}

tsr_status doc_format_catalogue(doc_job *job)
{
  catalogue c = {.job = job};
  tsr_status status = doc_html_new(DOC_HTML_PLAIN | DOC_HTML_PLACEHOLDERS, &c.html);
  if (status == TSR_OK) {
    status = read_catalogue(&c);
  }
  if (status == TSR_OK) {
    status = doc_job_translate(job);
  }
  const char *at = job->bytes;
  for (size_t i = 0; i < c.n_changes && status == TSR_OK; i++) {
    doc_buffer_add(&job->out, at, (size_t)(c.changes[i].begin - at));
    status = write_change(&c, &c.changes[i], &job->out);
    at = c.changes[i].end;
  }
  doc_buffer_add(&job->out, at, (size_t)(job->bytes + job->size - at));
  clear_entry(&c.entry);
  for (size_t i = 0; i < c.n_pieces; i++) {
    free(c.pieces[i].text);
  }
  free(c.pieces);
  free(c.changes);
  doc_html_free(c.html);
  return status;
}

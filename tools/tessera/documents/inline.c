/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/documents/inline.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPEN = 32, MOST_BACKTICKS = 16, LONGEST_LINK = 2000 };

/* A run of *, _ or ~ that has its other end. */
typedef struct mark {
  size_t at;
  size_t size;
  int32_t is_end;
  int32_t is_paired;
} mark;

typedef struct scan {
  const char *text;
  size_t size;
  doc_token *tokens;
  int32_t *classes;
  size_t n;
  size_t tokens_room;
  size_t classes_room;
  mark *marks;
  size_t n_marks;
  size_t marks_room;
  char has_no_end[MOST_BACKTICKS]; /* runs of so many backticks */
  size_t ends[MOST_OPEN];          /* of links that are open */
  size_t end_sizes[MOST_OPEN];
  int32_t n_ends;
  size_t from; /* text that has no token yet */
  int breaks;
  int failed;
} scan;

static void add_token(scan *s, int32_t kind, int32_t class, size_t at, size_t size, const char *name, size_t name_size)
{
  doc_token *tokens = doc_grow(s->tokens, s->n, &s->tokens_room, sizeof *tokens);
  s->tokens = tokens ? tokens : s->tokens;
  int32_t *classes = doc_grow(s->classes, s->n, &s->classes_room, sizeof *classes);
  s->classes = classes ? classes : s->classes;
  if (!tokens || !classes) {
    s->failed = 1;
    return;
  }
  tokens[s->n] = (doc_token){.kind = kind, .begin = s->text + at, .size = size, .name = name, .name_size = name_size};
  classes[s->n++] = class;
}

/* A token, and the text before it. Returns what is behind it. */
static size_t add(scan *s, int32_t kind, int32_t class, size_t at, size_t size, const char *name, size_t name_size)
{
  if (at > s->from) {
    add_token(s, DOC_TOKEN_TEXT, DOC_INLINE, s->from, at - s->from, NULL, 0);
  }
  if (size > 0) {
    add_token(s, kind, class, at, size, name, name_size);
  }
  s->from = at + size;
  return s->from;
}

static size_t run_size(const scan *s, size_t at)
{
  size_t n = 0;
  while (at + n < s->size && s->text[at + n] == s->text[at]) {
    n++;
  }
  return n;
}

/* ---- emphasis ---------------------------------------------------------------------------------------------------- */

static int is_word(const scan *s, size_t at)
{
  return at < s->size && (isalnum((unsigned char)s->text[at]) || (unsigned char)s->text[at] >= 0x80);
}

static int is_blank(const scan *s, size_t at)
{
  return at >= s->size || doc_is_blank(s->text[at]);
}

/* Code, whose end has as many backticks; behind it, or 0. */
static size_t code_end(scan *s, size_t at)
{
  size_t n = run_size(s, at);
  if (n >= MOST_BACKTICKS || s->has_no_end[n]) {
    return 0;
  }
  for (size_t i = at + n; i < s->size; i++) {
    if (s->text[i] == '`') {
      size_t found = run_size(s, i);
      if (found == n) {
        return i + n;
      }
      i += found - 1;
    }
  }
  s->has_no_end[n] = 1;
  return 0;
}

static void add_mark(scan *s, size_t at, size_t size)
{
  mark *marks = doc_grow(s->marks, s->n_marks, &s->marks_room, sizeof *marks);
  if (!marks) {
    s->failed = 1;
    return;
  }
  s->marks = marks;
  marks[s->n_marks++] = (mark){.at = at, .size = size};
}

/* Pairs the runs of *, _ and ~. */
static void pair_marks(scan *s)
{
  size_t open[MOST_OPEN], n_open = 0;
  for (size_t i = 0; i < s->size;) {
    char c = s->text[i];
    size_t n = c == '\\' ? 2 : 1;
    if (c == '`') {
      size_t end = code_end(s, i);
      i = end > 0 ? end : i + run_size(s, i);
      continue;
    }
    if (c != '*' && c != '_' && c != '~') {
      i += n;
      continue;
    }
    n = run_size(s, i);
    int inner = c != '_' || i == 0 || !is_word(s, i - 1) || !is_word(s, i + n);
    int can_open = !is_blank(s, i + n) && inner, can_close = i > 0 && !is_blank(s, i - 1) && inner;
    if (n <= 3 && (c != '~' || n == 2) && (can_open || can_close)) {
      size_t k = can_close ? n_open : 0;
      while (k > 0 && (s->marks[open[k - 1]].size != n || s->text[s->marks[open[k - 1]].at] != c)) {
        k--;
      }
      add_mark(s, i, n);
      if (k > 0 && !s->failed) {
        s->marks[open[k - 1]].is_paired = s->marks[s->n_marks - 1].is_paired = 1;
        s->marks[s->n_marks - 1].is_end = 1;
        n_open = k - 1;
      } else if (can_open && n_open < MOST_OPEN && !s->failed) {
        open[n_open++] = s->n_marks - 1;
      }
    }
    i += n;
  }
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

/* Behind the bracket that closes the one at `at`; 0: there is none. */
static size_t close_bracket(const scan *s, size_t at, char open, char close)
{
  int depth = 0;
  size_t end = at + LONGEST_LINK < s->size ? at + LONGEST_LINK : s->size;
  for (size_t i = at; i < end; i++) {
    if (s->text[i] == '\\') {
      i++;
    } else if (s->text[i] == open) {
      depth++;
    } else if (s->text[i] == close && --depth == 0) {
      return i + 1;
    }
  }
  return 0;
}

/* What follows the text of a link that ends at `at`, behind its bracket: (target), [name]; its end, or 0. */
static size_t target_end(const scan *s, size_t at)
{
  if (at < s->size && s->text[at] == '(') {
    return close_bracket(s, at, '(', ')');
  }
  if (at + 1 < s->size && s->text[at] == '[' && s->text[at + 1] != ']') {
    return close_bracket(s, at, '[', ']');
  }
  return 0;
}

/* At '[' or '!['. Returns what is behind it; 0: it is text. */
static size_t read_link(scan *s, size_t at)
{
  int is_image = s->text[at] == '!';
  size_t text = close_bracket(s, at + (size_t)is_image, '[', ']');
  if (text == 0) {
    return 0;
  }
  size_t end = target_end(s, text);
  if (is_image || s->text[at + 1] == '^') { /* an image, or a note's number */
    return add(s, DOC_TOKEN_OTHER, DOC_INLINE, at, (end > 0 ? end : text) - at, NULL, 0);
  }
  if (end == 0) {
    int is_name = text < s->size && s->text[text] == '['; /* [name][] */
    return is_name ? add(s, DOC_TOKEN_START, DOC_SKIPPED, at, text + 2 - at, NULL, 0) : 0;
  }
  if (s->n_ends == MOST_OPEN) {
    return add(s, DOC_TOKEN_START, DOC_SKIPPED, at, end - at, NULL, 0);
  }
  s->ends[s->n_ends] = text - 1;
  s->end_sizes[s->n_ends++] = end - text + 1;
  return add(s, DOC_TOKEN_START, DOC_INLINE, at, 1, "[", 1);
}

/* <address>, or a tag of HTML. Returns what is behind it; 0: it is text. */
static size_t read_angle(scan *s, size_t at)
{
  const char *close = memchr(s->text + at, '>', s->size - at);
  size_t size = close ? (size_t)(close - s->text) - at + 1 : 0;
  if (size > 4 && !memchr(s->text + at, ' ', size) && memchr(s->text + at, '/', size) != s->text + at + 1 &&
      (memchr(s->text + at, ':', size) || memchr(s->text + at, '@', size))) {
    return add(s, DOC_TOKEN_START, DOC_SKIPPED, at, size, NULL, 0);
  }
  doc_tokens tokens = {.at = s->text + at, .end = s->text + s->size, .is_xml = 1};
  doc_token token;
  if (!doc_token_next(&tokens, &token) || token.kind == DOC_TOKEN_TEXT) {
    return 0;
  }
  if (token.kind == DOC_TOKEN_START && doc_token_is_skipped(&token)) {
    doc_html_skip(&tokens, &token);
    return add(s, DOC_TOKEN_START, DOC_SKIPPED, at, token.size, NULL, 0);
  }
  int is_point = token.is_empty || (token.name && doc_token_class(&token) >= DOC_VOID);
  int32_t class = token.name && doc_token_class(&token) == DOC_BREAK ? DOC_BREAK : DOC_INLINE;
  int32_t kind = is_point && class == DOC_INLINE ? DOC_TOKEN_OTHER : token.kind;
  return add(s, kind, class, at, token.size, token.name, token.name_size);
}

/* A line's end that is meant, at blanks or a backslash. */
static size_t read_break(scan *s, size_t at)
{
  size_t end = at + 1;
  while (s->text[at] == ' ' && end < s->size && s->text[end] == ' ') {
    end++;
  }
  if (end >= s->size || s->text[end] != '\n' || (s->text[at] == ' ' && end - at < 2)) {
    return 0;
  }
  s->breaks = 1;
  return add(s, DOC_TOKEN_START, DOC_BREAK, at, end + 1 - at, "br", 2);
}

static size_t read_special(scan *s, size_t at)
{
  size_t end, left = s->size - at;
  switch (s->text[at]) {
  case '\\':
    end = read_break(s, at);
    return end > 0 ? end : at + (left > 1 ? 2 : 1);
  case ' ':
    return read_break(s, at);
  case '`':
    end = code_end(s, at);
    return end > 0 ? add(s, DOC_TOKEN_START, DOC_SKIPPED, at, end - at, NULL, 0) : at + run_size(s, at);
  case '<':
    return read_angle(s, at);
  case '!':
    return left > 1 && s->text[at + 1] == '[' ? read_link(s, at) : 0;
  case '[':
    return read_link(s, at);
  case 'h':
  case 'w':
    return at == 0 || !is_word(s, at - 1)
               ? doc_address(s->text + at, left) > 0 ? at + doc_address(s->text + at, left) : 0
               : 0;
  default:
    return 0;
  }
}

static void read_all(scan *s)
{
  size_t next = 0;
  for (size_t at = 0; at < s->size && !s->failed;) {
    while (next < s->n_marks && s->marks[next].at < at) {
      next++;
    }
    if (s->n_ends > 0 && at >= s->ends[s->n_ends - 1]) {
      s->n_ends--;
      if (at == s->ends[s->n_ends]) {
        at = add(s, DOC_TOKEN_END, DOC_INLINE, at, s->end_sizes[s->n_ends], "[", 1);
      }
      continue;
    }
    if (next < s->n_marks && s->marks[next].at == at && s->marks[next].is_paired) {
      const mark *m = &s->marks[next];
      at = add(s, m->is_end ? DOC_TOKEN_END : DOC_TOKEN_START, DOC_INLINE, at, m->size, s->text + at, m->size);
      continue;
    }
    size_t end = read_special(s, at);
    at = end > 0 ? end : at + 1;
  }
  add(s, DOC_TOKEN_TEXT, DOC_INLINE, s->size, 0, NULL, 0);
}

tsr_status doc_inline_add(doc_html *html, const char *text, size_t size, doc_batch *batch, int32_t *index, int *breaks)
{
  scan s = {.text = text, .size = size};
  pair_marks(&s);
  read_all(&s);
  *breaks = s.breaks;
  tsr_status status = s.failed ? doc_no_memory() : doc_html_add_tokens(html, s.tokens, s.classes, s.n, batch, index);
  free(s.tokens);
  free(s.classes);
  free(s.marks);
  return status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/documents/markup.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include <libxml/HTMLparser.h>

/* ---- names ------------------------------------------------------------------------------------------------------- */

static const char *const blocks[] = {
    "address",  "article",  "aside",  "audio",     "base",     "basefont",   "blockquote", "body",    "button",
    "canvas",   "caption",  "center", "col",       "colgroup", "datalist",   "dd",         "details", "dialog",
    "dir",      "div",      "dl",     "dt",        "fieldset", "figcaption", "figure",     "footer",  "form",
    "frame",    "frameset", "h1",     "h2",        "h3",       "h4",         "h5",         "h6",      "head",
    "header",   "hgroup",   "hr",     "html",      "iframe",   "legend",     "li",         "link",    "listing",
    "main",     "menu",     "meta",   "nav",       "noembed",  "noframes",   "noscript",   "object",  "ol",
    "optgroup", "option",   "p",      "plaintext", "pre",      "script",     "search",     "section", "select",
    "style",    "summary",  "table",  "tbody",     "td",       "template",   "tfoot",      "th",      "thead",
    "title",    "tr",       "ul",     "video",     "xmp",      NULL};
static const char *const breaks[] = {"br", "img", "input", "embed", "keygen", "area", NULL};
static const char *const voids[] = {"wbr", "source", "track", "param", NULL};
/* Without an end tag, wherever they stand. */
static const char *const empty_blocks[] = {"base", "basefont", "col", "frame", "hr", "link", "meta", NULL};
static const char *const skipped[] = {
    "audio", "canvas", "code",   "iframe", "kbd", "listing",  "math", "noembed", "noframes", "object", "plaintext",
    "pre",   "samp",   "script", "style",  "svg", "textarea", "tt",   "var",     "video",    "xmp",    NULL};
/* Their content has no tags. */
static const char *const raws[] = {"iframe",   "noembed", "noframes", "script", "style",
                                   "textarea", "title",   "xmp",      NULL};

int doc_token_is(const doc_token *token, const char *name)
{
  return token->name_size == strlen(name) && doc_starts(token->name, token->name_size, name);
}

static int is_among(const doc_token *token, const char *const *names)
{
  for (int i = 0; names[i]; i++) {
    if (doc_token_is(token, names[i])) {
      return 1;
    }
  }
  return 0;
}

int32_t doc_token_class(const doc_token *token)
{
  if (is_among(token, breaks)) {
    return DOC_BREAK;
  }
  if (is_among(token, voids)) {
    return DOC_VOID;
  }
  if (is_among(token, blocks)) {
    return DOC_BLOCK;
  }
  return is_among(token, skipped) ? DOC_SKIPPED : DOC_INLINE;
}

static int has_word(const char *text, size_t size, const char *word)
{
  size_t length = strlen(word);
  for (size_t at = 0; at + length <= size; at++) {
    if (doc_starts(text + at, size - at, word) && (at == 0 || doc_is_blank(text[at - 1])) &&
        (at + length == size || doc_is_blank(text[at + length]))) {
      return 1;
    }
  }
  return 0;
}

int doc_token_is_skipped(const doc_token *token)
{
  const char *value;
  size_t size;
  if (token->is_empty || is_among(token, breaks) || is_among(token, voids) || is_among(token, empty_blocks)) {
    return 0;
  }
  if (is_among(token, skipped)) {
    return 1;
  }
  if (doc_token_attribute(token, "translate", &value, &size) && size == 2 && doc_starts(value, size, "no")) {
    return 1;
  }
  return doc_token_attribute(token, "class", &value, &size) && has_word(value, size, "notranslate");
}

/* ---- tokens ------------------------------------------------------------------------------------------------------ */

static int is_name(char c)
{
  return !doc_is_blank(c) && c != '/' && c != '>' && c != '<' && c != '=' && c != '"' && c != '\'' && c != '\0';
}

/* Behind the end of what begins at `at` and ends with `mark`; the end of the input where that is missing. */
static const char *find_end(const char *at, const char *end, const char *mark)
{
  size_t size = strlen(mark);
  for (; (size_t)(end - at) >= size; at++) {
    if (memcmp(at, mark, size) == 0) {
      return at + size;
    }
  }
  return end;
}

/* Behind the '>' of the tag whose name ends at `at`; NULL: there is none. Quotes hide one, if they have an end. */
static const char *find_tag_end(const doc_tokens *tokens, const char *at)
{
  while (at < tokens->end && *at != '>') {
    if ((*at == '"' || *at == '\'') && !tokens->ignores_quotes) {
      const char *before = at - 1;
      while (doc_is_blank(*before)) {
        before--;
      }
      const char *close = *before == '=' ? memchr(at + 1, *at, (size_t)(tokens->end - at - 1)) : NULL;
      at = close ? close : at;
    }
    at++;
  }
  return at < tokens->end ? at + 1 : NULL;
}

/* A tag, or 0: it is text. */
static int read_tag(doc_tokens *tokens, doc_token *token)
{
  const char *at = tokens->at + 1;
  token->kind = DOC_TOKEN_START;
  if (at < tokens->end && *at == '/') {
    token->kind = DOC_TOKEN_END;
    at++;
  }
  if (at >= tokens->end || !(isalpha((unsigned char)*at) || (tokens->is_xml && (*at == '_' || *at & 0x80)))) {
    return 0;
  }
  token->name = at;
  while (at < tokens->end && is_name(*at)) {
    at++;
  }
  token->name_size = (size_t)(at - token->name);
  const char *close = tokens->has_no_ends ? NULL : find_tag_end(tokens, at);
  if (!close && !tokens->ignores_quotes) { /* from here on quotes hide nothing, else each tag would look for its end */
    tokens->ignores_quotes = 1;
    close = find_tag_end(tokens, at);
  }
  if (!close) {
    tokens->has_no_ends = 1;
    return 0;
  }
  token->size = (size_t)(close - token->begin);
  token->is_empty = close[-2] == '/' && close - 2 >= at;
  return 1;
}

/* Comments and their like; 0: it is none. */
static int read_other(const doc_tokens *tokens, doc_token *token)
{
  const char *at = tokens->at, *end = tokens->end, *close;
  size_t left = (size_t)(end - at);
  if (left >= 4 && memcmp(at, "<!--", 4) == 0) {
    int is_closed = left >= 5 && at[4] == '>'; /* <!--> is a whole comment */
    close = is_closed ? at + 5 : find_end(at + 4, end, "-->");
  } else if (left >= 9 && memcmp(at, "<![CDATA[", 9) == 0) {
    close = find_end(at + 9, end, "]]>");
  } else if (left >= 2 && at[1] == '?') {
    close = find_end(at + 2, end, tokens->is_xml ? "?>" : ">");
  } else if (left >= 2 && at[1] == '!') {
    close = find_end(at + 2, end, ">");
  } else {
    return 0;
  }
  token->kind = DOC_TOKEN_OTHER;
  token->size = (size_t)(close - at);
  return 1;
}

/* The content of an element without tags, up to its end tag. */
static void read_raw(doc_tokens *tokens, doc_token *token)
{
  size_t length = strlen(tokens->raw);
  const char *at = tokens->at;
  for (; at < tokens->end; at++) {
    size_t left = (size_t)(tokens->end - at);
    if (left > length + 2 && at[0] == '<' && at[1] == '/' && doc_starts(at + 2, left - 2, tokens->raw) &&
        !is_name(at[2 + length])) {
      break;
    }
  }
  token->kind = DOC_TOKEN_RAW;
  token->size = (size_t)(at - tokens->at);
  tokens->raw[0] = '\0';
}

static void note_raw(doc_tokens *tokens, const doc_token *token)
{
  if (tokens->is_xml || token->kind != DOC_TOKEN_START) {
    return;
  }
  for (int i = 0; raws[i]; i++) {
    if (doc_token_is(token, raws[i])) {
      snprintf(tokens->raw, sizeof tokens->raw, "%s", raws[i]);
    }
  }
}

int doc_token_next(doc_tokens *tokens, doc_token *token)
{
  *token = (doc_token){.kind = DOC_TOKEN_TEXT, .begin = tokens->at};
  if (tokens->raw[0]) {
    read_raw(tokens, token);
    if (token->size > 0) {
      tokens->at += token->size;
      return 1;
    }
  }
  if (tokens->at >= tokens->end) {
    return 0;
  }
  if (*tokens->at == '<' && (read_other(tokens, token) || read_tag(tokens, token))) {
    note_raw(tokens, token);
    tokens->at += token->size;
    return 1;
  }
  const char *next = memchr(tokens->at + 1, '<', (size_t)(tokens->end - tokens->at - 1));
  *token = (doc_token){.kind = DOC_TOKEN_TEXT, .begin = tokens->at};
  token->size = (size_t)((next ? next : tokens->end) - tokens->at);
  tokens->at += token->size;
  return 1;
}

/* Reads a value, quoted or not, and returns what is behind it. */
static const char *read_value(const char *at, const char *end, const char **value, size_t *size)
{
  const char *close;
  if (at < end && (*at == '"' || *at == '\'')) {
    *value = at + 1;
    close = memchr(at + 1, *at, (size_t)(end - at - 1));
    close = close ? close : end;
    *size = (size_t)(close - *value);
    return close < end ? close + 1 : end;
  }
  *value = at;
  while (at < end && !doc_is_blank(*at)) {
    at++;
  }
  *size = (size_t)(at - *value);
  return at;
}

int doc_token_attribute(const doc_token *token, const char *name, const char **value, size_t *size)
{
  const char *at = token->name + token->name_size, *end = token->begin + token->size - 1;
  size_t length = strlen(name);
  if (token->kind != DOC_TOKEN_START) {
    return 0;
  }
  while (at < end) {
    if (!is_name(*at)) {
      at++;
      continue;
    }
    const char *found = at;
    while (at < end && is_name(*at)) {
      at++;
    }
    int is_wanted = (size_t)(at - found) == length && doc_starts(found, length, name);
    const char *equals = at;
    while (equals < end && doc_is_blank(*equals)) {
      equals++;
    }
    *value = at;
    *size = 0;
    if (equals < end && *equals == '=') {
      at = equals + 1;
      while (at < end && doc_is_blank(*at)) {
        at++;
      }
      at = read_value(at, end, value, size);
    }
    if (is_wanted) {
      return 1;
    }
  }
  return 0;
}

/* ---- characters -------------------------------------------------------------------------------------------------- */

static size_t read_number(const char *text, size_t size, int32_t *character)
{
  size_t at = 2;
  int32_t base = 10, value = 0;
  if (at < size && (text[at] == 'x' || text[at] == 'X')) {
    base = 16;
    at++;
  }
  size_t first = at;
  for (; at < size && at - first < 8 && isxdigit((unsigned char)text[at]); at++) {
    int32_t digit = isdigit((unsigned char)text[at]) ? text[at] - '0' : tolower((unsigned char)text[at]) - 'a' + 10;
    if (digit >= base) {
      break;
    }
    value = value > 0x110000 ? value : value * base + digit;
  }
  if (at == first || at >= size || text[at] != ';' || value == 0 || value >= 0x110000 ||
      (value >= 0xD800 && value < 0xE000)) {
    return 0;
  }
  *character = value;
  return at + 1;
}

size_t doc_reference(const char *text, size_t size, int32_t *character)
{
  char name[16];
  size_t n = 0;
  if (size > 2 && text[1] == '#') {
    return read_number(text, size, character);
  }
  while (n < sizeof name - 1 && n + 1 < size && isalnum((unsigned char)text[n + 1])) {
    name[n] = text[n + 1];
    n++;
  }
  name[n] = '\0';
  if (n == 0 || n + 1 >= size || text[n + 1] != ';') {
    return 0;
  }
  const htmlEntityDesc *found = htmlEntityLookup((const xmlChar *)name);
  if (!found && strcmp(name, "apos") != 0) {
    return 0;
  }
  *character = found ? (int32_t)found->value : '\'';
  return n + 2;
}

size_t doc_address(const char *text, size_t size)
{
  size_t at = 0;
  if (!doc_starts(text, size, "http://") && !doc_starts(text, size, "https://") && !doc_starts(text, size, "www.") &&
      !doc_starts(text, size, "mailto:")) {
    return 0;
  }
  while (at < size && (unsigned char)text[at] > ' ' && (unsigned char)text[at] < 0x7F && !strchr("<>\"'`", text[at])) {
    at++;
  }
  while (at > 0 && strchr(".,;:!?)]}*_~|", text[at - 1])) { /* of the sentence around it */
    at--;
  }
  return at > 8 ? at : 0;
}

/* {..} and (..) with a short name between. */
static size_t read_braces(const char *text, size_t size, char open, char close)
{
  size_t at = 1;
  if (size == 0 || text[0] != open) {
    return 0;
  }
  while (at < size && at < 64 && (isalnum((unsigned char)text[at]) || strchr("_.:,-!<>=#@", text[at]))) {
    at++;
  }
  return at < size && text[at] == close ? at + 1 : 0;
}

/* Behind '%': the rest of a conversion as printf and its like have it. */
static size_t read_conversion(const char *text, size_t size)
{
  size_t at = 0;
  while (at < size && strchr("0123456789$#+-'.*I", text[at]) && text[at]) {
    at++;
  }
  size_t digits = at;
  while (at < size && strchr("hlLqjzt", text[at]) && text[at]) {
    at++;
  }
  if (at < size && text[at] && strchr("diouxXeEfFgGaAcCsSpnm@", text[at]) &&
      (at + 1 == size || !isalpha((unsigned char)text[at + 1]))) {
    return at + 1;
  }
  return digits > 0 && isdigit((unsigned char)text[0]) && isdigit((unsigned char)text[digits - 1]) ? digits : 0;
}

size_t doc_placeholder(const char *text, size_t size)
{
  size_t n;
  if (size < 2) {
    return 0;
  }
  if (text[0] == '{') {
    return read_braces(text, size, '{', '}');
  }
  if (text[0] != '%' && text[0] != '$') {
    return 0;
  }
  if ((n = read_braces(text + 1, size - 1, '{', '}')) > 0) {
    return n + 1;
  }
  if (text[0] == '$') {
    return 0;
  }
  if (text[1] == '%') {
    return 2;
  }
  if ((n = read_braces(text + 1, size - 1, '(', ')')) > 0) {
    return n + 1 + (n + 1 < size && isalpha((unsigned char)text[n + 1]));
  }
  n = read_conversion(text + 1, size - 1);
  return n > 0 ? n + 1 : 0;
}

void doc_escape(doc_buffer *out, const char *text, size_t size, int32_t ascii)
{
  for (size_t at = 0; at < size;) {
    int32_t character;
    size_t n = doc_utf8(text + at, size - at, &character);
    n = n > 0 ? n : 1;
    if (character == '&' || character == '<' || character == '>') {
      doc_buffer_text(out, character == '&' ? "&amp;" : character == '<' ? "&lt;" : "&gt;");
    } else if (ascii && character >= 0x80) {
      char number[16];
      snprintf(number, sizeof number, "&#%d;", (int)character);
      doc_buffer_text(out, number);
    } else {
      doc_buffer_add(out, text + at, n);
    }
    at += n;
  }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/parameters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "tessera/text.h"
#include "tools/tessera/serve/multipart.h"

/* More of them than any client sends; each costs an allocation. */
enum { MOST_PARAMETERS = 100000 };

static const char no_json[] = "Invalid JSON format";
static const char no_form[] = "Invalid form data";
static const char too_many[] = "Invalid request: too many parameters";

typedef struct reader {
  parameters *list;
  const char *problem;
} reader;

static int bad(reader *r, const char *problem)
{
  r->problem = problem;
  return PARAMETERS_BAD;
}

static void free_parameter(parameter *one)
{
  free(one->name);
  free(one->value);
  free(one->file_name);
}

void parameters_finish(parameters *list)
{
  for (int32_t i = 0; i < list->n; i++) {
    free_parameter(&list->items[i]);
  }
  free(list->items);
  *list = (parameters){0};
}

/* Text that is UTF-8 and has no NUL: what is not becomes U+FFFD. */
static char *clean_text(const char *text, size_t size, size_t *clean_size)
{
  char *clean = size > (SIZE_MAX - 1) / 3 ? NULL : malloc(size * 3 + 1);
  if (!clean) {
    return NULL;
  }
  size_t used = tsr_utf8_clean(text, size, clean);
  for (char *nul; (nul = memchr(clean, '\0', used)) != NULL;) {
    *nul = ' ';
  }
  clean[used] = '\0';
  char *smaller = realloc(clean, used + 1);
  *clean_size = used;
  return smaller ? smaller : clean;
}

static char *copy_bytes(const char *bytes, size_t size)
{
  char *copy = malloc(size + 1);
  if (copy) {
    memcpy(copy, bytes, size);
    copy[size] = '\0';
  }
  return copy;
}

/* Adds a value of any bytes. */
static int add(reader *r, const char *name, size_t name_size, const char *value, size_t size, int32_t kind,
               int32_t is_element, const char *file_name)
{
  parameters *list = r->list;
  if (list->n == MOST_PARAMETERS) {
    return bad(r, too_many);
  }
  if (list->n == list->room) {
    int32_t room = list->room ? 2 * list->room : 8;
    parameter *items = realloc(list->items, (size_t)room * sizeof *items);
    if (!items) {
      return PARAMETERS_NO_MEMORY;
    }
    list->items = items;
    list->room = room;
  }
  size_t name_used = 0;
  parameter one = {.kind = kind, .is_element = is_element, .size = size};
  one.name = clean_text(name, name_size, &name_used);
  one.value = kind == PARAMETER_FILE ? copy_bytes(value, size) : clean_text(value, size, &one.size);
  if (file_name) {
    size_t used = 0;
    one.file_name = clean_text(file_name, strlen(file_name), &used);
  }
  if (!one.name || !one.value || (file_name && !one.file_name)) {
    free_parameter(&one);
    return PARAMETERS_NO_MEMORY;
  }
  list->items[list->n++] = one;
  return PARAMETERS_OK;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

static int add_json(reader *r, const char *name, const json_t *value, int32_t is_element)
{
  char number[64];
  size_t name_size = strlen(name);
  switch (json_typeof(value)) {
  case JSON_STRING:
    return add(r, name, name_size, json_string_value(value), json_string_length(value), PARAMETER_TEXT, is_element,
               NULL);
  case JSON_INTEGER:
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    return add(r, name, name_size, number, strlen(number), PARAMETER_NUMBER, is_element, NULL);
  case JSON_REAL:
    snprintf(number, sizeof number, "%.17g", json_real_value(value));
    return add(r, name, name_size, number, strlen(number), PARAMETER_NUMBER, is_element, NULL);
  case JSON_TRUE:
  case JSON_FALSE:
    return add(r, name, name_size, json_is_true(value) ? "true" : "false", json_is_true(value) ? 4 : 5,
               PARAMETER_BOOLEAN, is_element, NULL);
  case JSON_NULL: /* as if it were not there; in a list it is something */
    return is_element ? add(r, name, name_size, "", 0, PARAMETER_OTHER, is_element, NULL) : PARAMETERS_OK;
  default:
    return add(r, name, name_size, "", 0, PARAMETER_OTHER, is_element, NULL);
  }
}

static int read_json(reader *r, const char *body, size_t size)
{
  json_error_t error;
  json_t *root = json_loadb(body, size, JSON_ALLOW_NUL, &error);
  if (!json_is_object(root)) {
    json_decref(root);
    return bad(r, no_json);
  }
  int code = PARAMETERS_OK;
  const char *name;
  json_t *value;
  json_object_foreach(root, name, value)
  {
    if (json_is_array(value)) {
      for (size_t i = 0; i < json_array_size(value) && code == PARAMETERS_OK; i++) {
        code = add_json(r, name, json_array_get(value, i), 1);
      }
    } else if (code == PARAMETERS_OK) {
      code = add_json(r, name, value, 0);
    }
  }
  json_decref(root);
  return code;
}

/* ---- urlencoded -------------------------------------------------------------------------------------------------- */

static int hex(char c)
{
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

/* Into `out`, with room for `size` bytes; returns the bytes written. A % without two digits stands for itself. */
static size_t decode(const char *text, size_t size, char *out)
{
  size_t used = 0;
  for (size_t i = 0; i < size; i++) {
    if (text[i] == '%' && size - i > 2 && hex(text[i + 1]) >= 0 && hex(text[i + 2]) >= 0) {
      out[used++] = (char)(hex(text[i + 1]) << 4 | hex(text[i + 2]));
      i += 2;
    } else {
      out[used++] = text[i] == '+' ? ' ' : text[i];
    }
  }
  return used;
}

static int read_pairs(reader *r, const char *text, size_t size)
{
  char *room = malloc(size + 1);
  int code = room ? PARAMETERS_OK : PARAMETERS_NO_MEMORY;
  for (size_t at = 0; at < size && code == PARAMETERS_OK;) {
    const char *pair = text + at;
    const char *end = memchr(pair, '&', size - at);
    size_t length = end ? (size_t)(end - pair) : size - at;
    const char *equals = memchr(pair, '=', length);
    size_t name_size = equals ? (size_t)(equals - pair) : length;
    size_t name_used = decode(pair, name_size, room);
    size_t value_used = equals ? decode(equals + 1, length - name_size - 1, room + name_used) : 0;
    if (length > 0) {
      code = add(r, room, name_used, room + name_used, value_used, PARAMETER_TEXT, 0, NULL);
    }
    at += length + 1;
  }
  free(room);
  return code;
}

/* ---- multipart --------------------------------------------------------------------------------------------------- */

static int read_multipart(reader *r, const char *content_type, const char *body, size_t size)
{
  char delimiter[MULTIPART_BOUNDARY_ROOM + 4];
  if (!multipart_delimiter(content_type, delimiter)) {
    return bad(r, no_form);
  }
  size_t mark = strlen(delimiter);
  const char *end = body + size;
  /* The first one may stand at the very beginning, without a line's end before it. `at`: behind a delimiter. */
  int is_first = size >= mark - 2 && memcmp(body, delimiter + 2, mark - 2) == 0;
  const char *found = is_first ? NULL : multipart_find(body, size, delimiter, mark);
  const char *at = is_first ? body + mark - 2 : found ? found + mark : NULL;
  for (int code = PARAMETERS_OK;;) {
    if (!at) {
      return bad(r, no_form);
    }
    if (end - at >= 2 && at[0] == '-' && at[1] == '-') {
      return code;
    }
    while (at < end && (*at == ' ' || *at == '\t')) {
      at++;
    }
    if (end - at < 2 || at[0] != '\r' || at[1] != '\n') {
      return bad(r, no_form);
    }
    at += 2;
    multipart_part one;
    size_t headers = multipart_headers(at, (size_t)(end - at), &one);
    const char *value = at + headers;
    /* A part without a value: its delimiter begins with the empty line's end. */
    const char *next = headers ? multipart_find(value - 2, (size_t)(end - value) + 2, delimiter, mark) : NULL;
    if (!next) {
      return bad(r, no_form);
    }
    size_t length = next < value ? 0 : (size_t)(next - value);
    code = add(r, one.name, strlen(one.name), value, length, one.is_file ? PARAMETER_FILE : PARAMETER_TEXT, 0,
               one.is_file ? one.file_name : NULL);
    if (code != PARAMETERS_OK) {
      return code;
    }
    at = next + mark;
  }
}

/* ---- all --------------------------------------------------------------------------------------------------------- */

static int is_type(const char *content_type, const char *name)
{
  size_t size = strlen(name);
  return strncasecmp(content_type, name, size) == 0 && strchr("; \t", content_type[size]) != NULL;
}

/* What a body looks like that no header describes, or another than it is: some clients leave it out. */
static int looks_like_json(const char *body, size_t size)
{
  size_t at = 0;
  while (at < size && strchr(" \t\r\n", body[at]) && body[at]) {
    at++;
  }
  return at < size && body[at] == '{';
}

static int read_body(reader *r, const char *content_type, const char *body, size_t size)
{
  if (is_type(content_type, "application/json")) {
    return read_json(r, body, size);
  }
  if (is_type(content_type, "multipart/form-data")) {
    return read_multipart(r, content_type, body, size);
  }
  if (is_type(content_type, "application/x-www-form-urlencoded")) {
    return read_pairs(r, body, size);
  }
  return looks_like_json(body, size) ? read_json(r, body, size) : read_pairs(r, body, size);
}

int parameters_read(const char *content_type, const char *body, size_t size, const char *query, parameters *list,
                    const char **problem)
{
  *list = (parameters){0};
  reader r = {.list = list};
  int code = PARAMETERS_OK;
  if (size > 0) {
    code = read_body(&r, content_type ? content_type : "", body, size);
  }
  if (code == PARAMETERS_OK && query) {
    code = read_pairs(&r, query, strlen(query));
  }
  *problem = code == PARAMETERS_NO_MEMORY ? "The server is out of memory" : r.problem;
  return code;
}

int parameters_add(parameters *list, const char *name, const char *value, size_t size)
{
  reader r = {.list = list};
  return add(&r, name, strlen(name), value, size, PARAMETER_TEXT, 0, NULL);
}

const parameter *parameters_find(const parameters *list, const char *name)
{
  for (int32_t i = 0; i < list->n; i++) {
    if (strcmp(list->items[i].name, name) == 0) {
      return &list->items[i];
    }
  }
  return NULL;
}

const char *parameters_text(const parameters *list, const char *name)
{
  const parameter *one = parameters_find(list, name);
  return one && (one->kind == PARAMETER_TEXT || one->kind == PARAMETER_NUMBER) ? one->value : "";
}

int parameters_integer(const parameters *list, const char *name, int64_t *value)
{
  const parameter *one = parameters_find(list, name);
  if (!one) {
    return 1;
  }
  char *end = NULL;
  double number = strtod(one->value, &end);
  if (end == one->value || *end != '\0' || !(number >= -9e15 && number <= 9e15) || number != (double)(int64_t)number) {
    return 0;
  }
  *value = (int64_t)number;
  return 1;
}

int parameters_flag(const parameters *list, const char *name)
{
  const parameter *one = parameters_find(list, name);
  return one && (strcasecmp(one->value, "true") == 0 || strcmp(one->value, "1") == 0 ||
                 strcasecmp(one->value, "yes") == 0 || strcasecmp(one->value, "on") == 0);
}

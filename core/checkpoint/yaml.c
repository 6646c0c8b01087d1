/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/yaml.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"

enum { MAX_DEPTH = 32 };

typedef struct reader {
  const char *name;
  yaml_parser_t parser;
  int depth;
} reader;

static tsr_status fail_at(const reader *r, const yaml_mark_t *mark, const char *what)
{
  return tsr_fail(TSR_ERR_FORMAT, "%s:%zu: %s", r->name, mark->line + 1, what);
}

/* The event is to be deleted after success. */
static tsr_status next(reader *r, yaml_event_t *event)
{
  if (yaml_parser_parse(&r->parser, event)) {
    return TSR_OK;
  }
  if (r->parser.error == YAML_MEMORY_ERROR) {
    return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "%s: out of memory", r->name);
  }
  const yaml_mark_t *mark = r->parser.error == YAML_READER_ERROR ? &r->parser.mark : &r->parser.problem_mark;
  return fail_at(r, mark, r->parser.problem ? r->parser.problem : "no YAML");
}

static int is_one_of(const char *text, const char *const *words)
{
  for (; *words; words++) {
    if (strcmp(text, *words) == 0) {
      return 1;
    }
  }
  return 0;
}

/* A number as YAML's core schema has it, or NULL: hexadecimal ones and those with underscores stay texts. */
static json_t *number(const char *text)
{
  const char *digits = text + (*text == '-' || *text == '+');
  char *end = NULL;
  if (digits[0] == 0 || strspn(digits, "0123456789.eE+-") != strlen(digits)) {
    return NULL;
  }
  if (strspn(digits, "0123456789") == strlen(digits)) {
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    return errno == 0 ? json_integer(whole) : NULL;
  }
  double real = strtod(text, &end);
  return *end == 0 && isfinite(real) ? json_real(real) : NULL;
}

static json_t *plain_scalar(const char *text, size_t size)
{
  static const char *const nothing[] = {"", "~", "null", "Null", "NULL", NULL};
  static const char *const yes[] = {"true", "True", "TRUE", NULL};
  static const char *const no[] = {"false", "False", "FALSE", NULL};
  if (strlen(text) == size) {
    if (is_one_of(text, nothing)) {
      return json_null();
    }
    if (is_one_of(text, yes) || is_one_of(text, no)) {
      return json_boolean(is_one_of(text, yes));
    }
    json_t *made = number(text);
    if (made) {
      return made;
    }
  }
  return json_stringn(text, size);
}

static tsr_status read_value(reader *r, const yaml_event_t *event, json_t **value);

static tsr_status read_scalar(const reader *r, const yaml_event_t *event, json_t **value)
{
  const char *text = (const char *)event->data.scalar.value;
  size_t size = event->data.scalar.length;
  if (event->data.scalar.tag || event->data.scalar.anchor) {
    return fail_at(r, &event->start_mark, "tags and anchors are not read here");
  }
  *value = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? plain_scalar(text, size) : json_stringn(text, size);
  return *value ? TSR_OK : fail_at(r, &event->start_mark, "a text that is not UTF-8");
}

/* Items up to the end of the sequence. */
static tsr_status fill_sequence(reader *r, json_t *list)
{
  for (;;) {
    yaml_event_t event;
    TSR_TRY(next(r, &event));
    int ends = event.type == YAML_SEQUENCE_END_EVENT;
    json_t *item = NULL;
    tsr_status status = ends ? TSR_OK : read_value(r, &event, &item);
    yaml_event_delete(&event);
    if (ends || status != TSR_OK) {
      return status;
    }
    if (json_array_append_new(list, item) != 0) {
      return tsr_fail_memory(sizeof(json_t));
    }
  }
}

/* Sets the key of `event` to the value that follows. */
static tsr_status read_pair(reader *r, const yaml_event_t *event, json_t *object)
{
  if (event->type != YAML_SCALAR_EVENT || event->data.scalar.tag || event->data.scalar.anchor) {
    return fail_at(r, &event->start_mark, "expected a scalar as a key");
  }
  const char *key = (const char *)event->data.scalar.value;
  if (strlen(key) != event->data.scalar.length) {
    return fail_at(r, &event->start_mark, "a key with a NUL character");
  }
  if (json_object_get(object, key)) {
    return tsr_fail(TSR_ERR_FORMAT, "%s:%zu: the key %s is there twice", r->name, event->start_mark.line + 1,
                    tsr_quote(key).text);
  }
  yaml_event_t after;
  json_t *value = NULL;
  TSR_TRY(next(r, &after));
  tsr_status status = read_value(r, &after, &value);
  yaml_event_delete(&after);
  TSR_TRY(status);
  return json_object_set_new(object, key, value) == 0 ? TSR_OK
                                                      : fail_at(r, &event->start_mark, "a key that is not UTF-8");
}

static tsr_status fill_mapping(reader *r, json_t *object)
{
  for (;;) {
    yaml_event_t event;
    TSR_TRY(next(r, &event));
    int ends = event.type == YAML_MAPPING_END_EVENT;
    tsr_status status = ends ? TSR_OK : read_pair(r, &event, object);
    yaml_event_delete(&event);
    if (ends || status != TSR_OK) {
      return status;
    }
  }
}

/* The value that `event` begins; *value is NULL after an error. */
static tsr_status read_value(reader *r, const yaml_event_t *event, json_t **value)
{
  *value = NULL;
  if (event->type == YAML_SCALAR_EVENT) {
    return read_scalar(r, event, value);
  }
  if (event->type != YAML_MAPPING_START_EVENT && event->type != YAML_SEQUENCE_START_EVENT) {
    return fail_at(r, &event->start_mark, "expected a scalar, a list or a mapping (aliases are not read here)");
  }
  if (r->depth == MAX_DEPTH) {
    return fail_at(r, &event->start_mark, "too many lists and mappings within one another");
  }
  int is_mapping = event->type == YAML_MAPPING_START_EVENT;
  json_t *made = is_mapping ? json_object() : json_array();
  if (!made) {
    return tsr_fail_memory(sizeof *made);
  }
  r->depth++;
  tsr_status status = is_mapping ? fill_mapping(r, made) : fill_sequence(r, made);
  r->depth--;
  if (status != TSR_OK) {
    json_decref(made);
    return status;
  }
  *value = made;
  return TSR_OK;
}

static tsr_status expect(reader *r, yaml_event_type_t type, const char *what)
{
  yaml_event_t event;
  TSR_TRY(next(r, &event));
  tsr_status status = event.type == type ? TSR_OK : fail_at(r, &event.start_mark, what);
  yaml_event_delete(&event);
  return status;
}

static tsr_status read_document(reader *r, json_t **root)
{
  TSR_TRY(expect(r, YAML_STREAM_START_EVENT, "no YAML"));
  TSR_TRY(expect(r, YAML_DOCUMENT_START_EVENT, "the file is empty"));
  yaml_event_t event;
  TSR_TRY(next(r, &event));
  tsr_status status = event.type == YAML_MAPPING_START_EVENT
                          ? read_value(r, &event, root)
                          : fail_at(r, &event.start_mark, "expected a mapping of keys to values");
  yaml_event_delete(&event);
  TSR_TRY(status);
  TSR_TRY(expect(r, YAML_DOCUMENT_END_EVENT, "expected the end of the document"));
  return expect(r, YAML_STREAM_END_EVENT, "expected one document");
}

tsr_status tsr_yaml_parse(const char *name, const void *text, size_t size, json_t **root)
{
  reader r = {.name = name};
  *root = NULL;
  if (!yaml_parser_initialize(&r.parser)) {
    return tsr_fail_memory(sizeof r.parser);
  }
  yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&r.parser, text, size);
  tsr_status status = read_document(&r, root);
  yaml_parser_delete(&r.parser);
  if (status != TSR_OK) {
    json_decref(*root);
    *root = NULL;
  }
  return status;
}

tsr_status tsr_yaml_open(const char *path, tsr_config *config)
{
  *config = (tsr_config){0};
  tsr_file file;
  TSR_TRY(tsr_file_read(path, &file));
  json_t *root = NULL;
  tsr_status status = tsr_yaml_parse(path, file.bytes, file.size, &root);
  tsr_file_free(&file);
  TSR_TRY(status);
  config->root = root;
  config->path = strdup(path);
  if (!config->path) {
    tsr_config_finish(config);
    return tsr_fail_memory(strlen(path) + 1);
  }
  return TSR_OK;
}

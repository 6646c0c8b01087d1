/* SPDX-License-Identifier: Apache-2.0
 *
 * Recipes in YAML.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <yaml.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/train/recipe.h"

/* A file being read. */
typedef struct reader {
  const char *path;
  recipe_assignments *list;
  int32_t first; /* of the assignments that this file makes */
  yaml_parser_t parser;
} reader;

enum { WHERE_ROOM = 512 };

static int line_of(const yaml_event_t *event)
{
  return (int)event->start_mark.line + 1;
}

static int fail_at(const reader *r, const yaml_event_t *event, const char *expected)
{
  tsr_cli_error("%s:%d: expected %s", r->path, line_of(event), expected);
  return TSR_EXIT_INPUT;
}

static int next(reader *r, yaml_event_t *event)
{
  if (yaml_parser_parse(&r->parser, event)) {
    return TSR_EXIT_OK;
  }
  tsr_cli_error("%s:%d: %s", r->path, (int)r->parser.problem_mark.line + 1,
                r->parser.problem ? r->parser.problem : "no YAML");
  return TSR_EXIT_INPUT;
}

static const char *text_of(const yaml_event_t *event)
{
  return (const char *)event->data.scalar.value;
}

static int take_pair(reader *r, const yaml_event_t *name, const yaml_event_t *value)
{
  int32_t key = recipe_key_find(text_of(name));
  char where[WHERE_ROOM];
  if (key < 0) {
    tsr_cli_error("%s:%d: there is no key '%s'; the nearest is '%s'", r->path, line_of(name), text_of(name),
                  recipe_key_nearest(text_of(name)));
    return TSR_EXIT_INPUT;
  }
  for (int32_t i = r->first; i < r->list->n; i++) {
    if (r->list->items[i].key == key) {
      tsr_cli_error("%s:%d: the key '%s' was there before", r->path, line_of(name), text_of(name));
      return TSR_EXIT_INPUT;
    }
  }
  if (strlen(text_of(value)) != value->data.scalar.length) {
    return fail_at(r, value, "a text without NUL");
  }
  snprintf(where, sizeof where, "%s:%d: %s", r->path, line_of(value), text_of(name));
  return recipe_note(r->list, key, text_of(value), where);
}

/* The pairs of a mapping up to its end. depth: 0 for the file's own, 1 for a section's. */
static int read_mapping(reader *r, int depth)
{
  for (;;) {
    yaml_event_t name, value;
    int code = next(r, &name);
    if (code != TSR_EXIT_OK) {
      return code;
    }
    if (name.type != YAML_SCALAR_EVENT) {
      int is_end = name.type == YAML_MAPPING_END_EVENT;
      code = is_end ? TSR_EXIT_OK : fail_at(r, &name, "a key");
      yaml_event_delete(&name);
      return code;
    }
    code = next(r, &value);
    if (code == TSR_EXIT_OK) {
      if (value.type == YAML_SCALAR_EVENT) {
        code = take_pair(r, &name, &value);
      } else if (value.type == YAML_MAPPING_START_EVENT && depth == 0) {
        code = read_mapping(r, depth + 1);
      } else {
        tsr_cli_error("%s:%d: %s: expected a number or a text", r->path, line_of(&name), text_of(&name));
        code = TSR_EXIT_INPUT;
      }
      yaml_event_delete(&value);
    }
    yaml_event_delete(&name);
    if (code != TSR_EXIT_OK) {
      return code;
    }
  }
}

/* An event that has to come now. */
static int expect(reader *r, yaml_event_type_t type, const char *what)
{
  yaml_event_t event;
  int code = next(r, &event);
  if (code == TSR_EXIT_OK) {
    code = event.type == type ? TSR_EXIT_OK : fail_at(r, &event, what);
    yaml_event_delete(&event);
  }
  return code;
}

static int read_file(reader *r)
{
  static const char keys[] = "keys and values";
  int code = expect(r, YAML_STREAM_START_EVENT, keys);
  if (code == TSR_EXIT_OK) {
    code = expect(r, YAML_DOCUMENT_START_EVENT, keys);
  }
  if (code == TSR_EXIT_OK) {
    code = expect(r, YAML_MAPPING_START_EVENT, keys);
  }
  if (code == TSR_EXIT_OK) {
    code = read_mapping(r, 0);
  }
  if (code == TSR_EXIT_OK) {
    code = expect(r, YAML_DOCUMENT_END_EVENT, "the end");
  }
  return code == TSR_EXIT_OK ? expect(r, YAML_STREAM_END_EVENT, "one document") : code;
}

int recipe_read(const char *path, recipe_assignments *list)
{
  reader r = {.path = path, .list = list, .first = list->n};
  FILE *file = fopen(path, "rb");
  if (!file) {
    tsr_cli_error("%s: cannot be opened: %s", path, strerror(errno));
    return TSR_EXIT_INPUT;
  }
  int code;
  if (yaml_parser_initialize(&r.parser)) {
    yaml_parser_set_input_file(&r.parser, file);
    code = read_file(&r);
    yaml_parser_delete(&r.parser);
  } else {
    code = tsr_cli_no_memory();
  }
  fclose(file);
  return code;
}

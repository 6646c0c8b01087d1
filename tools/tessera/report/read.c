/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports from files, whoever wrote these: what is no report is refused; a report has the members that are used here.
 */
#include <string.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/report/report.h"

typedef struct member {
  const char *name;
  json_type type;
} member;

static int refuse(const char *path, const char *where, const char *what)
{
  tsr_cli_error("report: %s: %s%s%s; is it the JSON file of `tessera report`?", path, where, where[0] ? ": " : "",
                what);
  return TSR_EXIT_INPUT;
}

static int check_members(const char *path, const char *where, const json_t *object, const member *members)
{
  char what[96];
  for (const member *m = members; m->name; m++) {
    const json_t *value = json_object_get(object, m->name);
    if (!value || (json_typeof(value) != m->type && !(m->type == JSON_REAL && json_is_integer(value)))) {
      snprintf(what, sizeof what, "'%s' is missing or of another type", m->name);
      return refuse(path, where, what);
    }
  }
  return TSR_EXIT_OK;
}

static int check_part(const char *path, const json_t *part)
{
  static const member members[] = {{"name", JSON_STRING},    {"state", JSON_STRING}, {"words", JSON_STRING},
                                   {"results", JSON_OBJECT}, {"errors", JSON_ARRAY}, {"cut", JSON_ARRAY},
                                   {"seconds", JSON_REAL},   {NULL, JSON_NULL}};
  int code = check_members(path, "a part", part, members);
  if (code == TSR_EXIT_OK && report_state_of(report_text(part, "state")) == REPORT_STATES) {
    return refuse(path, report_text(part, "name"), "an unknown state");
  }
  return code;
}

static int check_device(const char *path, const json_t *device)
{
  static const member members[] = {{"name", JSON_STRING},  {"device", JSON_STRING}, {"driver", JSON_STRING},
                                   {"state", JSON_STRING}, {"words", JSON_STRING},  {"parts", JSON_ARRAY},
                                   {NULL, JSON_NULL}};
  size_t i;
  json_t *part;
  int code = check_members(path, "a device", device, members);
  if (code == TSR_EXIT_OK && report_state_of(report_text(device, "state")) == REPORT_STATES) {
    return refuse(path, report_text(device, "name"), "an unknown state");
  }
  json_array_foreach(json_object_get(device, "parts"), i, part)
  {
    code = code == TSR_EXIT_OK ? check_part(path, part) : code;
  }
  return code;
}

int report_read(const char *path, json_t **report)
{
  static const member members[] = {{"tessera", JSON_STRING}, {"date", JSON_STRING},    {"system", JSON_OBJECT},
                                   {"minutes", JSON_REAL},   {"problems", JSON_ARRAY}, {"devices", JSON_ARRAY},
                                   {NULL, JSON_NULL}};
  char what[160];
  json_error_t error;
  size_t i;
  json_t *device, *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  *report = root;
  if (!root) {
    snprintf(what, sizeof what, "line %d, column %d: %.120s", error.line, error.column, error.text);
    return refuse(path, "", error.line > 0 ? what : error.text);
  }
  const json_t *format = json_object_get(root, "format");
  if (!json_is_integer(format)) {
    return refuse(path, "", "it has no 'format'");
  }
  if (json_integer_value(format) != REPORT_FORMAT) {
    tsr_cli_error("report: %s: it has format %lld; this program reads format %d", path,
                  (long long)json_integer_value(format), REPORT_FORMAT);
    return TSR_EXIT_INPUT;
  }
  int code = check_members(path, "", root, members);
  json_array_foreach(json_object_get(root, "devices"), i, device)
  {
    code = code == TSR_EXIT_OK ? check_device(path, device) : code;
  }
  return code;
}

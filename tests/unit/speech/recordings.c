/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/speech/recordings.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/goldens.h"

static char checked[4096]; /* the folder of the model that is checked */

const char *recorded_file(const char *name)
{
  static char path[8192];
  snprintf(path, sizeof path, "%s/%s", checked, name);
  return path;
}

static json_t *load(const char *name)
{
  json_error_t error;
  json_t *root = json_load_file(recorded_file(name), 0, &error);
  if (!root) {
    fail_msg("%s: %s", recorded_file(name), error.text);
  }
  return root;
}

int32_t for_each_recording(void (*check)(json_t *golden))
{
  const char *folder = golden_path(TESSERA_SOURCE_ROOT, "speech/models");
  DIR *entries = folder ? opendir(folder) : NULL;
  if (!entries) {
    return 0;
  }
  char models[2048];
  int32_t n = 0;
  snprintf(models, sizeof models, "%s", folder);
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.') {
      continue;
    }
    snprintf(checked, sizeof checked, "%s/%s", models, entry->d_name);
    json_t *golden = load("golden.json");
    json_object_set_new(golden, "config.json", load("config.json"));
    check(golden);
    json_decref(golden);
    n++;
  }
  closedir(entries);
  return n;
}

int32_t model_number(const json_t *golden, const char *key)
{
  const json_t *number = json_object_get(json_object_get(golden, "config.json"), key);
  if (!json_is_integer(number)) {
    fail_msg("%s: has no %s", recorded_file("config.json"), key);
  }
  return (int32_t)json_integer_value(number);
}

int32_t vocabulary_id(const json_t *golden, const char *key)
{
  const json_t *id = json_object_get(json_object_get(golden, "vocabulary"), key);
  if (!json_is_integer(id)) {
    fail_msg("golden.json: the vocabulary has no %s", key);
  }
  return (int32_t)json_integer_value(id);
}

void read_ids(const json_t *list, int32_t to[MOST_IDS], int32_t *n)
{
  assert_true(json_is_array(list) && json_array_size(list) <= MOST_IDS);
  *n = (int32_t)json_array_size(list);
  for (int32_t i = 0; i < *n; i++) {
    to[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
  }
}

int call_has(const json_t *recorded, const char *text)
{
  const char *call = json_string_value(json_object_get(recorded, "call"));
  assert_non_null(call);
  return strstr(call, text) != NULL;
}

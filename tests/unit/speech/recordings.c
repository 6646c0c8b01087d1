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

void for_each_recording(void (*check)(json_t *golden))
{
  const char *folder = golden_path(TESSERA_SOURCE_ROOT, "speech/models");
  DIR *entries = folder ? opendir(folder) : NULL;
  if (!folder) {
    return;
  }
  assert_non_null(entries);
  char models[4096];
  snprintf(models, sizeof models, "%s", folder);
  for (struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.') {
      continue;
    }
    char path[8192];
    snprintf(path, sizeof path, "%s/%s/golden.json", models, entry->d_name);
    json_error_t error;
    json_t *golden = json_load_file(path, 0, &error);
    if (!golden) {
      fail_msg("%s: %s", path, error.text);
    }
    check(golden);
    json_decref(golden);
  }
  closedir(entries);
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/decoder_yml.h"

#include <stdlib.h>

#include "core/base/status.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"
#include "core/checkpoint/yaml.h"

static const char settings_name[] = "decoder.yml";

int tsr_marian_npz_is(const char *folder)
{
  char *settings = tsr_path_join(folder, settings_name);
  char *config = tsr_path_join(folder, "config.json");
  int found = settings && config && tsr_path_exists(settings) && !tsr_path_exists(config);
  free(settings);
  free(config);
  return found;
}

/* Each of a list's entries has to be a file beside decoder.yml: a path could reach any file of the machine. */
static tsr_status check_files(const tsr_config *settings, const char *key, size_t wanted, const char *why)
{
  const json_t *list = json_object_get(settings->root, key);
  if (!json_is_array(list) || json_array_size(list) == 0) {
    return tsr_fail(TSR_ERR_FORMAT, "%s: key '%s': expected a list of files, found %s", settings->path, key,
                    tsr_json_show(list).text);
  }
  for (size_t i = 0; i < json_array_size(list); i++) {
    const char *name = json_string_value(json_array_get(list, i));
    if (!name || !tsr_path_is_plain(name)) {
      return tsr_fail(TSR_ERR_FORMAT, "%s: key '%s': expected the names of files in the same folder, found %s",
                      settings->path, key, tsr_json_show(json_array_get(list, i)).text);
    }
  }
  if (json_array_size(list) != wanted) {
    return tsr_fail(TSR_ERR_UNSUPPORTED, "%s: key '%s' lists %zu files; %s", settings->path, key, json_array_size(list),
                    why);
  }
  return TSR_OK;
}

tsr_status tsr_marian_npz_settings(const char *folder, tsr_config *settings)
{
  *settings = (tsr_config){0};
  char *path = tsr_path_join(folder, settings_name);
  tsr_status status = path ? tsr_yaml_open(path, settings) : TSR_ERR_OUT_OF_MEMORY;
  free(path);
  if (status == TSR_OK) {
    status = check_files(settings, "models", 1, "this build decodes with one model, not with several");
  }
  if (status == TSR_OK) {
    status = check_files(settings, "vocabs", 2, "this build knows models with one source and one target");
  }
  if (status != TSR_OK) {
    tsr_config_finish(settings);
  }
  return status;
}

tsr_status tsr_marian_npz_file(const char *folder, const tsr_config *settings, const char *key, int32_t index,
                               char **path)
{
  *path = tsr_path_join(folder, json_string_value(json_array_get(json_object_get(settings->root, key), (size_t)index)));
  return *path ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/file.h"
#include "core/checkpoint/json.h"

tsr_status tsr_config_parse(const char *name, const char *text, size_t size, tsr_config *config)
{
  *config = (tsr_config){0};
  TSR_TRY(tsr_json_parse(name, text, size, &config->root));
  config->path = strdup(name);
  if (!config->path) {
    tsr_config_finish(config);
    return tsr_fail_memory(strlen(name) + 1);
  }
  return TSR_OK;
}

tsr_status tsr_config_open(const char *path, tsr_config *config)
{
  *config = (tsr_config){0};
  tsr_file file;
  TSR_TRY(tsr_file_read(path, &file));
  tsr_status status = tsr_config_parse(path, file.bytes, file.size, config);
  tsr_file_free(&file);
  return status;
}

void tsr_config_finish(tsr_config *config)
{
  json_decref(config->root);
  free(config->path);
  *config = (tsr_config){0};
}

int tsr_config_has(const tsr_config *config, const char *key)
{
  const json_t *value = json_object_get(config->root, key);
  return value && !json_is_null(value);
}

tsr_status tsr_config_status(const tsr_config *config)
{
  return config->status == TSR_OK ? TSR_OK : tsr_fail(config->status, "%s", config->message);
}

/* The value to be read, or NULL where the default stays. */
static const json_t *lookup(const tsr_config *config, const char *key)
{
  return config->status == TSR_OK && tsr_config_has(config, key) ? json_object_get(config->root, key) : NULL;
}

static void reject(tsr_config *config, const char *key, const char *expected, const json_t *found)
{
  config->status = TSR_ERR_FORMAT;
  snprintf(config->message, sizeof config->message, "%s: key %s: expected %s, found %s", config->path,
           tsr_quote(key).text, expected, tsr_json_show(found).text);
}

void tsr_config_int(tsr_config *config, const char *key, int64_t low, int64_t high, int32_t *value)
{
  const json_t *found = lookup(config, key);
  if (!found) {
    return;
  }
  int64_t low32 = low > INT32_MIN ? low : INT32_MIN;
  int64_t high32 = high < INT32_MAX ? high : INT32_MAX;
  if (json_is_integer(found) && json_integer_value(found) >= low32 && json_integer_value(found) <= high32) {
    *value = (int32_t)json_integer_value(found);
    return;
  }
  char expected[96];
  snprintf(expected, sizeof expected, "an integer from %" PRId64 " to %" PRId64, low32, high32);
  reject(config, key, expected, found);
}

void tsr_config_float(tsr_config *config, const char *key, double low, double high, float *value)
{
  const json_t *found = lookup(config, key);
  if (!found) {
    return;
  }
  double low32 = low > -FLT_MAX ? low : -FLT_MAX;
  double high32 = high < FLT_MAX ? high : FLT_MAX;
  double number = json_number_value(found);
  if (json_is_number(found) && number >= low32 && number <= high32) {
    *value = (float)number;
    return;
  }
  char expected[96];
  snprintf(expected, sizeof expected, "a number from %g to %g", low32, high32);
  reject(config, key, expected, found);
}

void tsr_config_bool(tsr_config *config, const char *key, int32_t *value)
{
  const json_t *found = lookup(config, key);
  if (!found) {
    return;
  }
  if (json_is_boolean(found)) {
    *value = json_is_true(found);
  } else {
    reject(config, key, "true or false", found);
  }
}

void tsr_config_text(tsr_config *config, const char *key, const char **value)
{
  const json_t *found = lookup(config, key);
  if (!found) {
    return;
  }
  if (json_is_string(found)) {
    *value = json_string_value(found);
  } else {
    reject(config, key, "a text", found);
  }
}

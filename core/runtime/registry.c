/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime: which backends and devices there are, and how a name chooses one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/platform/paths.h"
#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/runtime/internal.h"
#include "core/runtime/plugins.h"

/* tsr_folder_fn: finds the plugins of a folder for a runtime. */
static tsr_status search_folder(void *context, const char *folder, int expected)
{
  tsr_runtime *runtime = context;
  char *name = tsr_arena_text(&runtime->texts, folder);
  const char **slot = name ? tsr_list_add(&runtime->folders, sizeof(char *)) : NULL;
  if (!slot) {
    return tsr_fail_memory(strlen(folder) + 1);
  }
  *slot = name;
  tsr_plugin_search(runtime, name, expected);
  return TSR_OK;
}

tsr_status tsr_runtime_create(const tsr_runtime_options *given, tsr_runtime **out)
{
  if (!out) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_runtime_create: runtime must not be NULL");
  }
  *out = NULL;
  TSR_TRY(tsr_log_check());
  tsr_runtime_options options;
  TSR_TRY(TSR_SIZED_READ(tsr_runtime_options, path, given, &options));
  tsr_runtime *runtime = calloc(1, sizeof *runtime);
  if (!runtime) {
    return tsr_fail_memory(sizeof *runtime);
  }
  pthread_mutex_init(&runtime->loading, NULL);
  pthread_mutex_init(&runtime->lock, NULL);
  pthread_mutex_init(&runtime->spares, NULL);

  for (const char *const *path = options.plugins; path && *path; path++) {
    tsr_status status = tsr_plugin_load(runtime, *path);
    if (status != TSR_OK) {
      tsr_problem_add(runtime, *path, status);
    }
  }
  tsr_status status = tsr_plugin_folders(options.path, search_folder, runtime);
  if (status != TSR_OK) {
    tsr_runtime_destroy(runtime);
    return status;
  }
  *out = runtime;
  return TSR_OK;
}

void tsr_runtime_destroy(tsr_runtime *runtime)
{
  if (!runtime) {
    return;
  }
  for (size_t i = 0; i < sizeof runtime->fallbacks / sizeof runtime->fallbacks[0]; i++) {
    tsr_device_close(runtime->fallbacks[i]);
  }
  tsr_backend_entry **entries = runtime->backends.items;
  for (int32_t i = runtime->backends.count - 1; i >= 0; i--) {
    tsr_backend_unload(entries[i]);
  }
  tsr_waiting_plugin *waiting = runtime->waiting.items;
  for (int32_t i = 0; i < runtime->waiting.count; i++) {
    free(waiting[i].path);
  }
  tsr_list_finish(&runtime->waiting);
  tsr_list_finish(&runtime->backends);
  tsr_list_finish(&runtime->devices);
  tsr_list_finish(&runtime->problems);
  tsr_list_finish(&runtime->options);
  tsr_list_finish(&runtime->folders);
  tsr_arena_finish(&runtime->texts);
  pthread_mutex_destroy(&runtime->loading);
  pthread_mutex_destroy(&runtime->lock);
  pthread_mutex_destroy(&runtime->spares);
  free(runtime);
}

/* A list's length, read under the lock, once every plugin that was found has been loaded. All a caller can tell of that
 * is the time it takes, so const is kept. */
static int32_t count_of(const tsr_runtime *runtime, const tsr_list *list)
{
  pthread_mutex_t *lock = &((tsr_runtime *)runtime)->lock;
  tsr_plugins_load((tsr_runtime *)runtime, NULL);
  pthread_mutex_lock(lock);
  int32_t count = list->count;
  pthread_mutex_unlock(lock);
  return count;
}

/* Copies element `index` of a list, likewise. 0 if there is none. */
static int element_of(const tsr_runtime *runtime, const tsr_list *list, int32_t index, void *element, size_t size)
{
  pthread_mutex_t *lock = &((tsr_runtime *)runtime)->lock;
  tsr_plugins_load((tsr_runtime *)runtime, NULL);
  pthread_mutex_lock(lock);
  int found = index >= 0 && index < list->count;
  if (found) {
    memcpy(element, (const char *)list->items + (size_t)index * size, size);
  }
  pthread_mutex_unlock(lock);
  return found;
}

int32_t tsr_runtime_device_count(const tsr_runtime *runtime)
{
  return runtime ? count_of(runtime, &runtime->devices) : 0;
}

tsr_status tsr_runtime_device_info_sized(const tsr_runtime *runtime, int32_t index, tsr_device_info *info, size_t size)
{
  tsr_found_device found;
  if (!runtime || !info || !element_of(runtime, &runtime->devices, index, &found, sizeof found)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_runtime_device_info: there is no device %d", (int)index);
  }
  tsr_device_info known = {
      .backend = found.backend->table.name,
      .description = found.backend->table.description,
      .path = found.backend->path,
      .properties = found.properties,
  };
  memcpy(known.name, found.name, sizeof known.name);
  size_t before = offsetof(tsr_device_info, properties);
  if (size < sizeof known && size > before) {
    known.properties.struct_size = (uint32_t)(size - before);
  }
  tsr_sized_fill(&known, sizeof known, info, size);
  return TSR_OK;
}

int32_t tsr_runtime_problem_count(const tsr_runtime *runtime)
{
  return runtime ? count_of(runtime, &runtime->problems) : 0;
}

tsr_status tsr_runtime_problem_sized(const tsr_runtime *runtime, int32_t index, tsr_problem *problem, size_t size)
{
  tsr_problem found;
  if (!runtime || !problem || !element_of(runtime, &runtime->problems, index, &found, sizeof found)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_runtime_problem: there is no problem %d", (int)index);
  }
  tsr_sized_fill(&found, sizeof found, problem, size);
  return TSR_OK;
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Names
 */

tsr_status tsr_fail_no_device(tsr_runtime *runtime, const char *what)
{
  char text[1900] = "";
  pthread_mutex_lock(&runtime->lock);
  const tsr_found_device *devices = runtime->devices.items;
  for (int32_t i = 0; i < runtime->devices.count; i++) {
    tsr_text_append(text, sizeof text, "%s%s (%.60s)", i ? ", " : "; found: ", devices[i].name,
                    devices[i].properties.name);
  }
  if (runtime->devices.count == 0) {
    tsr_text_append(text, sizeof text, "; no device was found");
  }
  tsr_backend_entry *const *backends = runtime->backends.items;
  for (int32_t i = 0; i < runtime->backends.count; i++) {
    int has_device = 0;
    for (int32_t j = 0; j < runtime->devices.count; j++) {
      has_device |= devices[j].backend == backends[i];
    }
    if (!has_device) {
      tsr_text_append(text, sizeof text, "; backend %s has no device", backends[i]->table.name);
    }
  }
  const char *const *folders = runtime->folders.items;
  for (int32_t i = 0; i < runtime->folders.count; i++) {
    tsr_text_append(text, sizeof text, "%s%s", i ? ", " : "; searched for backends: ", folders[i]);
  }
  const tsr_problem *problems = runtime->problems.items;
  for (int32_t i = 0; i < runtime->problems.count; i++) {
    tsr_text_append(text, sizeof text, "%s%s", i ? "; " : "; not usable: ", problems[i].message);
  }
  pthread_mutex_unlock(&runtime->lock);
  return tsr_fail(TSR_ERR_NO_DEVICE, "%s%s", what, text);
}

static tsr_backend_entry *find_backend(tsr_runtime *runtime, const char *name)
{
  tsr_backend_entry *found = NULL;
  pthread_mutex_lock(&runtime->lock);
  tsr_backend_entry *const *backends = runtime->backends.items;
  for (int32_t i = 0; i < runtime->backends.count && !found; i++) {
    found = strcmp(backends[i]->table.name, name) == 0 ? backends[i] : NULL;
  }
  pthread_mutex_unlock(&runtime->lock);
  return found;
}

tsr_backend_entry *tsr_runtime_backend(tsr_runtime *runtime, const char *name)
{
  tsr_backend_entry *found = find_backend(runtime, name);
  if (!found) {
    tsr_plugins_load(runtime, name);
    found = find_backend(runtime, name);
  }
  if (!found) {
    tsr_plugins_load(runtime, NULL);
    found = find_backend(runtime, name);
  }
  return found;
}

/* Finds a device "backend:index" among the backends that are loaded. 0 if there is none. */
static int find_loaded(tsr_runtime *runtime, const char *name, tsr_found_device *found)
{
  int is_found = 0;
  pthread_mutex_lock(&runtime->lock);
  const tsr_found_device *devices = runtime->devices.items;
  for (int32_t i = 0; i < runtime->devices.count && !is_found; i++) {
    if (strcmp(devices[i].name, name) == 0) {
      *found = devices[i];
      is_found = 1;
    }
  }
  pthread_mutex_unlock(&runtime->lock);
  return is_found;
}

/* Finds "backend:index" or "backend"; loads that backend alone, if it is to be found under its name. 0 if there is
 * none. */
static int find_device(tsr_runtime *runtime, const char *name, tsr_found_device *found)
{
  char full[sizeof found->name];
  int length = snprintf(full, sizeof full, strchr(name, ':') ? "%s" : "%s:0", name);
  if (length < 0 || (size_t)length >= sizeof full) {
    return 0;
  }
  if (find_loaded(runtime, full, found)) {
    return 1;
  }
  char backend[sizeof full];
  snprintf(backend, sizeof backend, "%.*s", (int)strcspn(full, ":"), full);
  tsr_plugins_load(runtime, backend);
  if (find_loaded(runtime, full, found)) {
    return 1;
  }
  tsr_plugins_load(runtime, NULL);
  return find_loaded(runtime, full, found);
}

/* Place of a device type in auto's preference, 0 the best; -1: only by name. */
static int auto_rank(int32_t type)
{
  static const int32_t order[] = {TSR_DEVICE_DISCRETE_GPU, TSR_DEVICE_INTEGRATED_GPU, TSR_DEVICE_VIRTUAL_GPU,
                                  TSR_DEVICE_CPU, TSR_DEVICE_REFERENCE};
  for (int i = 0; i < (int)(sizeof order / sizeof order[0]); i++) {
    if (order[i] == type) {
      return i;
    }
  }
  return -1;
}

/* The first device of that rank from *from on, an index that is moved past it. 0 if there is none. */
static int next_of_rank(tsr_runtime *runtime, int rank, int32_t *from, tsr_found_device *found)
{
  while (element_of(runtime, &runtime->devices, (*from)++, found, sizeof *found)) {
    if (auto_rank(found->properties.type) == rank) {
      return 1;
    }
  }
  return 0;
}

/* A backend that does not start because of what the user set is not passed over: that would be another device than the
 * user's settings are meant for, and nobody would know. */
static tsr_status check_settings(tsr_runtime *runtime)
{
  tsr_problem problem;
  for (int32_t i = 0; element_of(runtime, &runtime->problems, i, &problem, sizeof problem); i++) {
    if (problem.status == TSR_ERR_ARGUMENT) {
      return tsr_fail(TSR_ERR_NO_DEVICE, "%s", problem.message);
    }
  }
  return TSR_OK;
}

/* Says why no device is better than the reference. `refused`: the messages of those that did not open. */
static void warn_of_reference(tsr_runtime *runtime, const char *name, const char *refused)
{
  char text[1500] = "";
  const char *between = "";
  tsr_problem problem;
  tsr_found_device found;
  if (refused[0]) {
    tsr_text_append(text, sizeof text, "%s", refused);
    between = "; ";
  }
  for (int32_t i = 0; element_of(runtime, &runtime->problems, i, &problem, sizeof problem); i++) {
    tsr_text_append(text, sizeof text, "%s%s", between, problem.message);
    between = "; ";
  }
  for (int32_t i = 0; element_of(runtime, &runtime->devices, i, &found, sizeof found); i++) {
    if (auto_rank(found.properties.type) < 0) {
      tsr_text_append(text, sizeof text, "%s%s (%.60s) is used only if it is named", between, found.name,
                      found.properties.name);
      between = "; ";
    }
  }
  const char *folder;
  if (!text[0]) {
    tsr_text_append(text, sizeof text, "there is no other backend");
    for (int32_t i = 0; element_of(runtime, &runtime->folders, i, &folder, sizeof folder); i++) {
      tsr_text_append(text, sizeof text, "%s%s", i ? ", " : " in ", folder);
    }
  }
  tsr_log(TSR_LOG_WARNING, "'auto' chooses %s, which is slow, because there is no better device: %s", name, text);
}

static int is_among(const char *name, const char *const *names, int32_t n)
{
  for (int32_t i = 0; i < n; i++) {
    if (strcmp(name, names[i]) == 0) {
      return 1;
    }
  }
  return 0;
}

/* The best device that opens and is not among the n left out. One that does not open is passed over with a warning,
 * unless the user's settings are why. */
static tsr_status open_auto(tsr_runtime *runtime, const char *const *left_out, int32_t n_left_out, tsr_device **device)
{
  TSR_TRY(check_settings(runtime));
  tsr_status status = TSR_OK;
  char refused[1000] = "";
  for (int rank = 0; rank <= auto_rank(TSR_DEVICE_REFERENCE); rank++) {
    tsr_found_device found;
    for (int32_t from = 0; next_of_rank(runtime, rank, &from, &found);) {
      if (is_among(found.name, left_out, n_left_out)) {
        continue;
      }
      status = tsr_device_open_found(runtime, &found, device);
      if (status == TSR_OK && rank == auto_rank(TSR_DEVICE_REFERENCE) && n_left_out == 0) {
        warn_of_reference(runtime, found.name, refused);
      }
      if (status == TSR_OK || status == TSR_ERR_ARGUMENT || status == TSR_ERR_IO) {
        return status;
      }
      tsr_text_append(refused, sizeof refused, "%s%s", refused[0] ? "; " : "", tsr_error_message());
      tsr_log(TSR_LOG_WARNING, "%s; trying the next device", tsr_error_message());
    }
  }
  if (status != TSR_OK) {
    return status; /* of the last one */
  }
  return tsr_fail_no_device(runtime, "there is no device that 'auto' may choose");
}

tsr_status tsr_device_open(tsr_runtime *runtime, const char *name, tsr_device **device)
{
  if (!runtime || !device) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_device_open: runtime and device must not be NULL");
  }
  *device = NULL;
  const char *origin = "";
  if (!name) {
    name = getenv("TESSERA_DEVICE");
    origin = " (from TESSERA_DEVICE)";
  }
  if (!name || !*name || strcmp(name, "auto") == 0) {
    return open_auto(runtime, NULL, 0, device);
  }
  tsr_found_device found;
  if (find_device(runtime, name, &found)) {
    return tsr_device_open_found(runtime, &found, device);
  }
  char what[200];
  snprintf(what, sizeof what, "there is no device '%.80s'%s%s", name, origin,
           strchr(name, ',') ? ", and several are not taken here" : "");
  return tsr_fail_no_device(runtime, what);
}

tsr_status tsr_device_open_other(tsr_runtime *runtime, const char *const *names, int32_t n, tsr_device **device)
{
  if (!runtime || !device || n < 0 || (n > 0 && !names)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_device_open_other: runtime, names and device are needed");
  }
  *device = NULL;
  return open_auto(runtime, names, n, device);
}

tsr_device *tsr_runtime_fallback(tsr_runtime *runtime, int which)
{
  static const char *const names[] = {"cpu", "reference"};
  tsr_found_device found;
  pthread_mutex_lock(&runtime->spares);
  tsr_device **device = &runtime->fallbacks[which];
  if (!*device && find_device(runtime, names[which], &found) &&
      tsr_device_open_found(runtime, &found, device) != TSR_OK) {
    tsr_log(TSR_LOG_WARNING, "%s; it cannot serve as the fallback device", tsr_error_message());
  }
  tsr_device *opened = *device;
  pthread_mutex_unlock(&runtime->spares);
  return opened;
}

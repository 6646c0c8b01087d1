/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins: found, loaded, checked, started. Whatever goes wrong with one is told, undone, and harms nothing else.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/platform/paths.h"
#include "core/base/status.h"
#include "core/runtime/internal.h"
#include "core/runtime/plugins.h"

#define FILE_PREFIX "libtessera-backend-"
#define FILE_SUFFIX TSR_LIBRARY_SUFFIX

enum {
  MAX_NAME = 48,     /* of a backend, so that "name:index" fits a device's name */
  MAX_DEVICES = 4096 /* of one backend: a number beyond is a fault, not a machine */
};

/* A table may end after its last required slot: what follows has defaults. */
#define SIZE_OF_1_0 offsetof(tsr_backend, profile)

/* The slots that a backend must fill. */
static const tsr_slot_place required_slots[] = {
    {"start", offsetof(tsr_backend, start)},
    {"stop", offsetof(tsr_backend, stop)},
    {"device_count", offsetof(tsr_backend, device_count)},
    {"device_properties", offsetof(tsr_backend, device_properties)},
    {"device_open", offsetof(tsr_backend, device_open)},
    {"device_close", offsetof(tsr_backend, device_close)},
    {"buffer_create", offsetof(tsr_backend, buffer_create)},
    {"buffer_destroy", offsetof(tsr_backend, buffer_destroy)},
    {"buffer_write", offsetof(tsr_backend, buffer_write)},
    {"buffer_read", offsetof(tsr_backend, buffer_read)},
    {"supports", offsetof(tsr_backend, supports)},
    {"compile", offsetof(tsr_backend, compile)},
    {"executable_destroy", offsetof(tsr_backend, executable_destroy)},
    {"run", offsetof(tsr_backend, run)},
    {"wait", offsetof(tsr_backend, wait)},
};

void tsr_problem_add(tsr_runtime *runtime, const char *path, tsr_status status)
{
  const char *message = tsr_error_message();
  pthread_mutex_lock(&runtime->lock);
  char *path_copy = tsr_arena_text(&runtime->texts, path);
  char *message_copy = tsr_arena_text(&runtime->texts, message);
  tsr_problem *problem = path_copy && message_copy ? tsr_list_add(&runtime->problems, sizeof *problem) : NULL;
  if (problem) {
    *problem = (tsr_problem){.path = path_copy, .message = message_copy, .status = status};
  }
  pthread_mutex_unlock(&runtime->lock);
  tsr_log(problem ? TSR_LOG_DEBUG : TSR_LOG_WARNING, "%s", message);
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Checking what a plugin says of itself
 */

static int is_backend_name(const char *name)
{
  size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-");
  return length > 0 && length <= MAX_NAME && name[length] == '\0' && strcmp(name, "auto") != 0;
}

/* Copies the table of a plugin into entry->table. Messages do not name the file. */
static tsr_status take_table(tsr_backend_entry *entry, const tsr_backend *table)
{
  if (table->abi_major != TSR_ABI_MAJOR) {
    return tsr_fail(TSR_ERR_PLUGIN,
                    "built for version %u of the plugin interface, but this program uses version %u: get the plugin's "
                    "release for this version of Tessera",
                    (unsigned)table->abi_major, (unsigned)TSR_ABI_MAJOR);
  }
  if (table->struct_size < SIZE_OF_1_0) {
    return tsr_fail(TSR_ERR_PLUGIN,
                    "its table of functions has %u bytes, version 1.0 has at least %zu: the plugin sets struct_size "
                    "wrongly, or was built from a damaged header",
                    (unsigned)table->struct_size, (size_t)SIZE_OF_1_0);
  }
  size_t size = table->struct_size < sizeof(tsr_backend) ? table->struct_size : sizeof(tsr_backend);
  memcpy(&entry->table, table, size);
  table = &entry->table;

  if (!table->name || !is_backend_name(table->name)) {
    tsr_status status = tsr_fail(TSR_ERR_PLUGIN,
                                 "the backend's name is '%.60s': 1 to %d of a-z, 0-9, '_' and '-' are allowed, and "
                                 "not 'auto'",
                                 table->name ? table->name : "(NULL)", MAX_NAME);
    entry->table.name = NULL;
    return status;
  }
  if (!table->description) {
    return tsr_fail(TSR_ERR_PLUGIN, "backend '%s' has no description (NULL)", table->name);
  }

  char missing[512];
  tsr_slots_missing(table, required_slots, sizeof required_slots / sizeof required_slots[0], missing, sizeof missing);
  if (missing[0]) {
    return tsr_fail(TSR_ERR_PLUGIN, "backend '%s' lacks what every backend must have: %s", table->name, missing);
  }

  char what[MAX_NAME + 16];
  snprintf(what, sizeof what, "backend '%s' was", table->name);
  return tsr_build_flags_check(what, table->build_flags);
}

/* The file of the backend of that name, or NULL if there is none. */
static const char *path_of_backend(tsr_runtime *runtime, const char *name)
{
  const char *path = NULL;
  pthread_mutex_lock(&runtime->lock);
  tsr_backend_entry **entries = runtime->backends.items;
  for (int32_t i = 0; i < runtime->backends.count && !path; i++) {
    if (strcmp(entries[i]->table.name, name) == 0) {
      path = entries[i]->path;
    }
  }
  pthread_mutex_unlock(&runtime->lock);
  return path;
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Starting
 */

/* What a plugin from before 1.5 does not say, and what one may leave open. */
static void fill_defaults(tsr_device_properties *properties)
{
  int is_cpu = properties->type == TSR_DEVICE_CPU || properties->type == TSR_DEVICE_REFERENCE;
  if (properties->buffer_alignment < 16) {
    properties->buffer_alignment = 16;
  }
  if (properties->rows_at_once == 0) {
    properties->rows_at_once = is_cpu ? 1 : 32;
  }
  if (properties->state_types == 0 && !is_cpu && properties->features & TSR_FEATURE_F16_STORAGE) {
    properties->state_types = 1u << TSR_F16 | 1u << TSR_BF16;
  }
  properties->state_types |= 1u << TSR_F32;
}

static tsr_status fill_device(tsr_backend_entry *entry, uint32_t index, tsr_found_device *found)
{
  *found = (tsr_found_device){.backend = entry, .index = index};
  tsr_device_properties *properties = &found->properties;
  properties->struct_size = sizeof *properties;
  snprintf(found->name, sizeof found->name, "%s:%u", entry->table.name, (unsigned)index);
  TSR_TRY(TSR_SLOT(found->name, &entry->table, device_properties, entry->context, index, properties));
  properties->struct_size = sizeof *properties;
  properties->name[sizeof properties->name - 1] = '\0';
  properties->driver[sizeof properties->driver - 1] = '\0';
  uint32_t alignment = properties->buffer_alignment;
  if (alignment & (alignment - 1)) {
    return tsr_fail(TSR_ERR_PLUGIN, "%s: buffer_alignment is %u, which is no power of two: a fault of the backend",
                    found->name, (unsigned)alignment);
  }
  fill_defaults(properties);
  return TSR_OK;
}

/* Starts the backend and lists its devices in `devices`; a device without properties becomes a problem. */
static tsr_status start_backend(tsr_backend_entry *entry, tsr_list *devices)
{
  const char *name = entry->table.name;
  TSR_TRY(TSR_SLOT(name, &entry->table, start, &entry->host, &entry->context));
  entry->started = 1;
  TSR_TRY(tsr_extensions_take(entry));
  uint32_t count = 0;
  TSR_TRY(TSR_SLOT(name, &entry->table, device_count, entry->context, &count));
  if (count > MAX_DEVICES) {
    return tsr_fail(TSR_ERR_PLUGIN, "%s: device_count gives %u devices: a fault of the backend", name, (unsigned)count);
  }
  for (uint32_t i = 0; i < count; i++) {
    tsr_found_device *found = tsr_list_add(devices, sizeof *found);
    if (!found) {
      return TSR_ERR_OUT_OF_MEMORY;
    }
    tsr_status status = fill_device(entry, i, found);
    if (status != TSR_OK) {
      devices->count--;
      tsr_problem_add(entry->runtime, entry->path, status);
    }
  }
  return TSR_OK;
}

/* Hands the entry and its devices to the runtime. */
static tsr_status enlist(tsr_runtime *runtime, tsr_backend_entry *entry, const tsr_list *devices)
{
  tsr_status status = TSR_OK;
  pthread_mutex_lock(&runtime->lock);
  int32_t n_devices = runtime->devices.count;
  for (int32_t i = 0; i < devices->count && status == TSR_OK; i++) {
    if (!tsr_list_add(&runtime->devices, sizeof(tsr_found_device))) {
      status = TSR_ERR_OUT_OF_MEMORY;
    }
  }
  tsr_backend_entry **slot = status == TSR_OK ? tsr_list_add(&runtime->backends, sizeof(tsr_backend_entry *)) : NULL;
  if (slot) {
    *slot = entry;
    tsr_found_device *all = runtime->devices.items;
    int32_t at = n_devices; /* behind the devices of backends that were found before */
    while (at > 0 && all[at - 1].backend->order > entry->order) {
      at--;
    }
    if (devices->count > 0) {
      memmove(all + at + devices->count, all + at, (size_t)(n_devices - at) * sizeof *all);
      memcpy(all + at, devices->items, (size_t)devices->count * sizeof *all);
    }
  } else {
    status = TSR_ERR_OUT_OF_MEMORY;
    runtime->devices.count = n_devices;
  }
  pthread_mutex_unlock(&runtime->lock);
  return status;
}

void tsr_backend_unload(tsr_backend_entry *entry)
{
  if (entry->started) {
    TSR_VOID_SLOT(entry->table.name, &entry->table, stop, entry->context);
  }
  if (entry->library) {
    dlclose(entry->library);
  }
  pthread_mutex_destroy(&entry->opening);
  free(entry->path);
  free(entry);
}

static void load_waiting(tsr_runtime *runtime, const char *name);

/* Starts a backend and adds its devices. library and path: of the plugin, or NULL and "". On success the library
 * belongs to the runtime. */
static tsr_status adopt(tsr_runtime *runtime, tsr_backend_query_fn query, void *library, const char *path,
                        int32_t order)
{
  tsr_status status = TSR_OK;
  tsr_list devices = {0};
  tsr_backend_entry *entry = calloc(1, sizeof *entry);
  char *path_copy = malloc(strlen(path) + 1);
  if (!entry || !path_copy) {
    free(entry);
    free(path_copy);
    return tsr_fail_memory(sizeof *entry);
  }
  strcpy(path_copy, path);
  entry->path = path_copy;
  entry->runtime = runtime;
  entry->order = order;
  pthread_mutex_init(&entry->opening, NULL);
  tsr_host_init(entry);

  tsr_slot_enter();
  const tsr_backend *table = query(TSR_ABI_MAJOR, &entry->host);
  status = tsr_slot_leave(table ? path : "the plugin refuses to work here (its query function returned NULL)",
                          TSR_BACKEND_QUERY_NAME, table ? TSR_OK : TSR_ERR_PLUGIN);
  if (status != TSR_OK) {
    goto done;
  }
  status = take_table(entry, table);
  if (status != TSR_OK) {
    goto done;
  }
  if (!library) { /* of a plugin that was found before and has this name, that one is used */
    load_waiting(runtime, entry->table.name);
  }
  const char *other = path_of_backend(runtime, entry->table.name);
  if (other) {
    status = tsr_fail(TSR_ERR_PLUGIN, "a backend named '%s' was found before%s%s; the first one is used",
                      entry->table.name, other[0] ? " in " : ", linked into the program", other);
    goto done;
  }
  status = start_backend(entry, &devices);
  if (status != TSR_OK) {
    goto done;
  }
  status = enlist(runtime, entry, &devices);
done:
  tsr_list_finish(&devices);
  if (status != TSR_OK) {
    entry->library = NULL; /* stays the caller's */
    tsr_backend_unload(entry);
  } else {
    entry->library = library;
  }
  return status;
}

tsr_status tsr_runtime_register(tsr_runtime *runtime, tsr_backend_query_fn query)
{
  if (!runtime || !query) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_runtime_register: runtime and query must not be NULL");
  }
  pthread_mutex_lock(&runtime->loading);
  tsr_status status = adopt(runtime, query, NULL, "", runtime->n_found++);
  tsr_fail_context(status, "a backend linked into the program");
  if (status != TSR_OK) {
    tsr_problem_add(runtime, "", status);
  }
  pthread_mutex_unlock(&runtime->loading);
  return status;
}

/* ---------------------------------------------------------------------------------------------------------------------
 * Files
 */

/* 1 if a backend came from that file. */
static int is_loaded(tsr_runtime *runtime, const char *path)
{
  int loaded = 0;
  pthread_mutex_lock(&runtime->lock);
  tsr_backend_entry **entries = runtime->backends.items;
  for (int32_t i = 0; i < runtime->backends.count; i++) {
    loaded |= strcmp(entries[i]->path, path) == 0;
  }
  pthread_mutex_unlock(&runtime->lock);
  return loaded;
}

static tsr_status load_file(tsr_runtime *runtime, const char *path, int32_t order)
{
  tsr_backend_query_fn query;
  void *library, *function;
  TSR_TRY(tsr_library_open(path, "backend", TSR_BACKEND_QUERY_NAME, &library, &function));
  memcpy(&query, &function, sizeof query);
  tsr_status status = adopt(runtime, query, library, path, order);
  if (status != TSR_OK) {
    dlclose(library);
  }
  return status;
}

/* tsr_plugin_load with the lock `loading` held. */
static tsr_status load(tsr_runtime *runtime, const char *path, int32_t order)
{
  char *real = realpath(path, NULL);
  if (!real) {
    return tsr_fail(errno == ENOMEM ? TSR_ERR_OUT_OF_MEMORY : TSR_ERR_IO, "%s: cannot be opened: %s", path,
                    strerror(errno));
  }
  tsr_status status = TSR_OK;
  if (!is_loaded(runtime, real)) {
    status = tsr_fail_context(load_file(runtime, real, order), "%s", path);
  }
  free(real);
  return status;
}

tsr_status tsr_plugin_load(tsr_runtime *runtime, const char *path)
{
  pthread_mutex_lock(&runtime->loading);
  tsr_status status = load(runtime, path, runtime->n_found++);
  pthread_mutex_unlock(&runtime->loading);
  return status;
}

/* 1 if the file is named after that backend, whatever it turns out to be. */
static int is_named(const char *path, const char *name)
{
  const char *file = tsr_path_name(path) + strlen(FILE_PREFIX);
  size_t length = strlen(file) - strlen(FILE_SUFFIX);
  return strlen(name) == length && memcmp(file, name, length) == 0;
}

/* tsr_plugins_load with the lock `loading` held. */
static void load_waiting(tsr_runtime *runtime, const char *name)
{
  tsr_waiting_plugin *plugins = runtime->waiting.items;
  for (int32_t i = 0; i < runtime->waiting.count; i++) {
    tsr_waiting_plugin *plugin = &plugins[i];
    if (!plugin->path || (name && !is_named(plugin->path, name))) {
      continue;
    }
    tsr_status status = load(runtime, plugin->path, plugin->order);
    if (status != TSR_OK) {
      tsr_problem_add(runtime, plugin->path, status);
    }
    free(plugin->path);
    plugin->path = NULL;
  }
  if (!name) {
    runtime->waiting.count = 0;
  }
}

void tsr_plugins_load(tsr_runtime *runtime, const char *name)
{
  pthread_mutex_lock(&runtime->loading);
  load_waiting(runtime, name);
  pthread_mutex_unlock(&runtime->loading);
}

static int is_plugin_name(const char *name)
{
  size_t length = strlen(name), prefix = strlen(FILE_PREFIX), suffix = strlen(FILE_SUFFIX);
  return length > prefix + suffix && strncmp(name, FILE_PREFIX, prefix) == 0 &&
         strcmp(name + length - suffix, FILE_SUFFIX) == 0;
}

static int by_text(const void *left, const void *right)
{
  return strcmp(*(char *const *)left, *(char *const *)right);
}

/* The paths of the folder's plugins, sorted, each the caller's to free. */
static tsr_status list_plugins(const char *folder, tsr_list *paths)
{
  DIR *directory = opendir(folder);
  if (!directory) {
    return tsr_fail(TSR_ERR_IO, "%s: cannot be searched for backends: %s", folder, strerror(errno));
  }
  tsr_status status = TSR_OK;
  for (const struct dirent *file; status == TSR_OK && (file = readdir(directory));) {
    if (!is_plugin_name(file->d_name)) {
      continue;
    }
    size_t size = strlen(folder) + strlen(file->d_name) + 2;
    char *path = malloc(size);
    char **slot = path ? tsr_list_add(paths, sizeof(char *)) : NULL;
    if (slot) {
      snprintf(path, size, "%s/%s", folder, file->d_name);
      *slot = path;
    } else {
      free(path);
      status = tsr_fail_memory(size);
    }
  }
  closedir(directory);
  if (paths->count > 0) {
    qsort(paths->items, (size_t)paths->count, sizeof(char *), by_text);
  }
  return status;
}

void tsr_plugin_search(tsr_runtime *runtime, const char *folder, int expected)
{
  tsr_list paths = {0};
  tsr_status status = TSR_OK;
  if (!tsr_path_is_absolute(folder)) {
    status = tsr_fail(TSR_ERR_ARGUMENT,
                      "%s: a folder to search for backends must begin with " TSR_PATH_ROOT
                      ": the working directory is never searched",
                      folder);
  } else {
    status = list_plugins(folder, &paths);
  }
  if (status != TSR_OK && (expected || status != TSR_ERR_IO)) {
    tsr_problem_add(runtime, folder, status);
  }
  char **path = paths.items;
  pthread_mutex_lock(&runtime->loading);
  for (int32_t i = 0; i < paths.count; i++) {
    tsr_waiting_plugin *plugin = tsr_list_add(&runtime->waiting, sizeof *plugin);
    if (plugin) {
      *plugin = (tsr_waiting_plugin){.path = path[i], .order = runtime->n_found++};
    } else {
      tsr_problem_add(runtime, path[i], TSR_ERR_OUT_OF_MEMORY);
      free(path[i]);
    }
  }
  pthread_mutex_unlock(&runtime->loading);
  tsr_list_finish(&paths);
}

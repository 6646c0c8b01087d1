/* SPDX-License-Identifier: Apache-2.0
 *
 * What the host offers to plugins, and how what they report joins what they return.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/runtime/internal.h"

/* The slot that the calling thread is in. */
static _Thread_local struct {
  int depth;
  int reported;
  char message[1024];
} current;

_Static_assert(offsetof(tsr_backend_entry, host) == 0, "report and option find the entry by the host's address");

static void report(const tsr_host *host, int32_t level, const char *message)
{
  const tsr_backend_entry *entry = (const tsr_backend_entry *)(const void *)host;
  if (!message) {
    message = "";
  }
  if (level == TSR_LOG_ERROR && current.depth > 0) {
    snprintf(current.message, sizeof current.message, "%s", message);
    current.reported = current.message[0] != '\0';
    return;
  }
  if (level < TSR_LOG_ERROR || level > TSR_LOG_DEBUG) {
    level = TSR_LOG_INFO;
  }
  tsr_log(level, "%s: %s", entry->table.name ? entry->table.name : entry->path, message);
}

void tsr_slot_enter(void)
{
  current.depth++;
  current.reported = 0;
}

tsr_status tsr_slot_leave(const char *who, const char *slot, int32_t result)
{
  int reported = current.reported;
  current.depth--;
  current.reported = 0;
  if (result == TSR_OK) {
    if (reported) {
      tsr_log(TSR_LOG_WARNING, "%s: %s (reported by %s, which succeeded)", who, current.message, slot);
    }
    return TSR_OK;
  }
  if (result < TSR_OK || result > TSR_ERR_INTERNAL) {
    return tsr_fail(TSR_ERR_PLUGIN, "%s: %s returned %d, which is no status code: a fault of the backend%s%s", who,
                    slot, (int)result, reported ? "; it said: " : "", reported ? current.message : "");
  }
  if (reported) {
    return tsr_fail(result, "%s: %s", who, current.message);
  }
  return tsr_fail(result, "%s: %s failed with %s and gave no reason: a fault of the backend", who, slot,
                  tsr_status_name(result));
}

/* The options' entry of that name, made if there is none; NULL without memory. The runtime's lock is held. */
static tsr_option_entry *option_entry(tsr_runtime *runtime, const char *name)
{
  tsr_option_entry *entries = runtime->options.items;
  for (int32_t i = 0; i < runtime->options.count; i++) {
    if (strcmp(entries[i].name, name) == 0) {
      return &entries[i];
    }
  }
  char *copy = tsr_arena_text(&runtime->texts, name);
  tsr_option_entry *entry = copy ? tsr_list_add(&runtime->options, sizeof *entry) : NULL;
  if (entry) {
    entry->name = copy;
  }
  return entry;
}

/* getenv of TESSERA_NAME: upper case, with '_' for what is neither a letter nor a digit. */
static const char *option_environment(const char *name)
{
  char variable[128] = "TESSERA_";
  size_t at = strlen(variable);
  for (; *name; name++) {
    if (at + 1 == sizeof variable) {
      return NULL;
    }
    variable[at++] = isalnum((unsigned char)*name) ? (char)toupper((unsigned char)*name) : '_';
  }
  variable[at] = '\0';
  return getenv(variable);
}

/* Values stay valid until the runtime goes, so those of the environment, which may change, are copied. */
static const char *option(const tsr_host *host, const char *name)
{
  tsr_runtime *runtime = ((const tsr_backend_entry *)(const void *)host)->runtime;
  if (!name || !*name) {
    return NULL;
  }
  pthread_mutex_lock(&runtime->lock);
  const char *value = NULL;
  tsr_option_entry *entry = option_entry(runtime, name);
  if (entry && entry->value) {
    value = entry->value;
  } else if (entry) {
    value = option_environment(name);
    if (value && (!entry->environment || strcmp(entry->environment, value) != 0)) {
      entry->environment = tsr_arena_text(&runtime->texts, value);
    }
    value = value ? entry->environment : NULL;
  }
  pthread_mutex_unlock(&runtime->lock);
  return value;
}

void tsr_host_init(tsr_backend_entry *entry)
{
  entry->host = (tsr_host){
      .struct_size = sizeof(tsr_host),
      .abi_major = TSR_ABI_MAJOR,
      .abi_minor = TSR_ABI_MINOR,
      .report = report,
      .option = option,
  };
}

tsr_status tsr_runtime_option(tsr_runtime *runtime, const char *name, const char *value)
{
  if (!runtime || !name || !*name) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_runtime_option: an option needs a runtime and a name");
  }
  tsr_status status = TSR_OK;
  pthread_mutex_lock(&runtime->lock);
  tsr_option_entry *entry = option_entry(runtime, name);
  char *copy = entry && value ? tsr_arena_text(&runtime->texts, value) : NULL;
  if (!entry || (value && !copy)) {
    status = tsr_fail_memory(strlen(name) + (value ? strlen(value) : 0));
  } else {
    entry->value = copy;
  }
  pthread_mutex_unlock(&runtime->lock);
  return status;
}

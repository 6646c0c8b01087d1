/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins that break the interface, one way each. The build compiles this file with one BREAK_ macro per plugin;
 * without any, the plugin is sound until an option of the host tells it what to do (see misbehave below). What works in
 * it is the template backend's, linked in as template_query.
 */
#define TSR_BACKEND_QUERY template_query
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/backend.h"

#if defined(BREAK_NO_SYMBOL)
#define QUERY not_the_name_that_is_looked_for
#else
#define QUERY tessera_backend_query
#endif

__attribute__((visibility("default"))) const tsr_backend *QUERY(uint32_t host_abi_major, const tsr_host *host);

static const tsr_host *host_now; /* the tests have one runtime at a time that holds this plugin */
static const tsr_backend *sound;

/* Options, as host->option gives them:
 *   fail_slot    the name of a slot that returns an error
 *   fail_status  the number it returns; default TSR_ERR_DEVICE_MEMORY
 *   fail_silent  set: without a message
 *   null_slot    the name of a slot that succeeds without an object
 * Returns the status for `slot`, and 1 in *null where it must return no object. */
static int32_t misbehave(const char *slot, int *null)
{
  const char *null_slot = host_now->option(host_now, "null_slot");
  *null = null_slot && strcmp(null_slot, slot) == 0;
  const char *fail_slot = host_now->option(host_now, "fail_slot");
  if (!fail_slot || strcmp(fail_slot, slot) != 0) {
    return TSR_OK;
  }
  if (!host_now->option(host_now, "fail_silent")) {
    char message[100];
    snprintf(message, sizeof message, "%s was told to fail", slot);
    host_now->report(host_now, TSR_LOG_ERROR, message);
  }
  const char *status = host_now->option(host_now, "fail_status");
  return status ? (int32_t)strtol(status, NULL, 10) : TSR_ERR_DEVICE_MEMORY;
}

/* Slots that fail when told to, and otherwise do what the template does. */
#define BREAKABLE(slot, arguments, names) BREAKABLE_MAKER(slot, &no_object, arguments, names)
/* Likewise of a slot that makes an object: an error leaves in its place what nobody may use. */
#define BREAKABLE_MAKER(slot, object, arguments, names)                                                                \
  static int32_t broken_##slot arguments                                                                               \
  {                                                                                                                    \
    int null;                                                                                                          \
    void *no_object = NULL;                                                                                            \
    (void)no_object;                                                                                                   \
    int32_t status = misbehave(#slot, &null);                                                                          \
    if (status != TSR_OK)                                                                                              \
      memset(object, 0xff, sizeof *(object));                                                                          \
    return status != TSR_OK || null ? status : sound->slot names;                                                      \
  }
BREAKABLE(start, (const tsr_host *host, void **context), (host, context))
BREAKABLE(device_count, (void *context, uint32_t *count), (context, count))
BREAKABLE(device_properties, (void *context, uint32_t index, tsr_device_properties *properties),
          (context, index, properties))
BREAKABLE_MAKER(device_open, device, (void *context, uint32_t index, tsr_backend_device **device),
                (context, index, device))
BREAKABLE_MAKER(buffer_create, buffer,
                (tsr_backend_device * device, uint64_t size, int32_t usage, tsr_backend_buffer **buffer),
                (device, size, usage, buffer))
BREAKABLE(buffer_write, (tsr_backend_buffer * buffer, uint64_t offset, uint64_t size, const void *bytes),
          (buffer, offset, size, bytes))
BREAKABLE(buffer_read, (tsr_backend_buffer * buffer, uint64_t offset, uint64_t size, void *bytes),
          (buffer, offset, size, bytes))
BREAKABLE_MAKER(compile, executable,
                (tsr_backend_device * device, const tsr_compile_args *args, tsr_backend_executable **executable),
                (device, args, executable))
BREAKABLE(run, (tsr_backend_executable * executable), (executable))
BREAKABLE(wait, (tsr_backend_executable * executable), (executable))

/* The template leaves these out. */
static int32_t broken_profile(tsr_backend_executable *executable, uint64_t *nanoseconds)
{
  (void)executable;
  nanoseconds[0] = 1;
  int null;
  return misbehave("profile", &null);
}

static int32_t broken_counters(tsr_backend_device *device, tsr_device_counters *counters)
{
  (void)device;
  counters->runs = 1;
  int null;
  return misbehave("counters", &null);
}

/* Names a slot and its place in the table. */
#define SLOT(slot)                                                                                                     \
  {                                                                                                                    \
#slot, offsetof(tsr_backend, slot)                                                                                 \
  }
static const struct {
  const char *name;
  size_t offset;
} slots[] = {
    SLOT(start),
    SLOT(stop),
    SLOT(device_count),
    SLOT(device_properties),
    SLOT(device_open),
    SLOT(device_close),
    SLOT(buffer_create),
    SLOT(buffer_destroy),
    SLOT(buffer_write),
    SLOT(buffer_read),
    SLOT(supports),
    SLOT(compile),
    SLOT(executable_destroy),
    SLOT(run),
    SLOT(wait),
};

/* An extension of two variants that are one, which the template leaves out. Options: missing_variants_slot, the name of
 * a slot that is NULL; variants: "small" for a table that ends too early, "negative" for a number of variants,
 * "nameless" for a variant without a name. */
static const char *variants_name(int32_t variant)
{
  const char *fault = host_now->option(host_now, "variants");
  return variant == 2 && fault && strcmp(fault, "nameless") == 0 ? NULL : variant == 1 ? "one.plain" : "one.other";
}

static int32_t forced;

static void variants_force(tsr_backend_device *device, int32_t variant)
{
  (void)device;
  forced = variant;
}

static int32_t variants_of(tsr_backend_device *device, const tsr_program_desc *program, int32_t line)
{
  (void)device, (void)program, (void)line;
  return forced > 0 ? forced : 1;
}

static int32_t variants_class(tsr_backend_device *device, const tsr_program_desc *program, int32_t line, char *text,
                              uint32_t text_size)
{
  (void)device, (void)program, (void)line;
  snprintf(text, text_size, "all");
  return 1;
}

static int32_t variants_remember(tsr_backend_device *device, const tsr_program_desc *program, int32_t line,
                                 int32_t variant)
{
  (void)device, (void)program, (void)line, (void)variant;
  int null;
  return misbehave("remember", &null);
}

static int32_t variants_save(tsr_backend_device *device)
{
  (void)device;
  int null;
  return misbehave("save", &null);
}

#define VARIANTS_SLOT(slot)                                                                                            \
  {                                                                                                                    \
#slot, offsetof(tsr_variants_extension, slot)                                                                      \
  }
static const struct {
  const char *name;
  size_t offset;
} variants_slots[] = {
    VARIANTS_SLOT(name),     VARIANTS_SLOT(force),    VARIANTS_SLOT(variant_of),
    VARIANTS_SLOT(class_of), VARIANTS_SLOT(remember), VARIANTS_SLOT(save),
};

static const void *broken_get_extension(void *context, const char *name)
{
  static tsr_variants_extension variants;
  (void)context;
  if (strcmp(name, TSR_VARIANTS_EXTENSION) != 0) {
    return NULL;
  }
  variants = (tsr_variants_extension){
      sizeof variants, 2, variants_name, variants_force, variants_of, variants_class, variants_remember, variants_save};
  const char *missing = host_now->option(host_now, "missing_variants_slot"),
             *fault = host_now->option(host_now, "variants");
  for (size_t i = 0; i < sizeof variants_slots / sizeof variants_slots[0]; i++) {
    if (missing && strcmp(missing, variants_slots[i].name) == 0) {
      memset((char *)&variants + variants_slots[i].offset, 0, sizeof variants.save);
    }
  }
  if (fault && strcmp(fault, "small") == 0) {
    variants.struct_size = offsetof(tsr_variants_extension, save);
  }
  if (fault && strcmp(fault, "negative") == 0) {
    variants.count = -1;
  }
  return &variants;
}

/* A table as a later minor version will have it: longer than the host knows. */
static struct {
  tsr_backend table;
  void *unknown[4];
} late;

const tsr_backend *QUERY(uint32_t host_abi_major, const tsr_host *host)
{
  host_now = host;
  sound = template_query(host_abi_major, host);
  late.table = *sound;
  tsr_backend *table = &late.table;
  memset(late.unknown, 0xff, sizeof late.unknown);
  table->name = "broken";
  table->start = broken_start;
  table->device_count = broken_device_count;
  table->device_properties = broken_device_properties;
  table->device_open = broken_device_open;
  table->buffer_create = broken_buffer_create;
  table->buffer_write = broken_buffer_write;
  table->buffer_read = broken_buffer_read;
  table->compile = broken_compile;
  table->run = broken_run;
  table->wait = broken_wait;
  table->profile = broken_profile;
  table->counters = broken_counters;
  table->get_extension = broken_get_extension;
#if defined(BREAK_MAJOR)
  table->abi_major = TSR_ABI_MAJOR + 1;
#elif defined(BREAK_SHORT_TABLE)
  table->struct_size = offsetof(tsr_backend, wait);
#elif defined(BREAK_NAME)
  table->name = "Bad Name";
#elif defined(BREAK_NO_NAME)
  table->name = NULL;
#elif defined(BREAK_NO_DESCRIPTION)
  table->description = NULL;
#elif defined(BREAK_SANITIZER)
  table->build_flags = TSR_BUILD_TSAN;
#elif defined(BREAK_OLDER)
  /* The slots beyond the end hold what must not be read. */
  table->struct_size = offsetof(tsr_backend, profile);
  memset(&table->profile, 0xff, sizeof *table - offsetof(tsr_backend, profile));
#elif defined(BREAK_NEWER)
  table->struct_size = sizeof late;
  table->abi_minor = TSR_ABI_MINOR + 1;
#elif defined(BREAK_REFUSAL)
  host->report(host, TSR_LOG_ERROR, "this machine has no such thing");
#elif defined(BREAK_NOISE)
  host->report(host, TSR_LOG_ERROR, NULL);
  host->report(host, 99, "a level that is none");
  host->report(host, -1, "another");
  host->report(host, TSR_LOG_ERROR, "an error, and yet all is well");
  (void)host->option(host, NULL);
  (void)host->option(host, "");
#endif
  const char *missing = host->option(host, "missing_slot");
  for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
    if (missing && strcmp(missing, slots[i].name) == 0) {
      memset((char *)table + slots[i].offset, 0, sizeof table->start);
    }
  }
#if defined(BREAK_NULL_QUERY) || defined(BREAK_REFUSAL)
  return NULL;
#else
  return table;
#endif
}

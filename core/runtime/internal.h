/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of core/runtime share.
 *
 * Locks, in the order in which they are taken: runtime.spares, runtime.loading, a claim (claim.c), a device's lock (two
 * of them: lowest address first), runtime.lock. No slot is called under runtime.lock.
 */
#ifndef TESSERA_CORE_RUNTIME_INTERNAL_H
#define TESSERA_CORE_RUNTIME_INTERNAL_H

#include <pthread.h>

#include "core/base/arena.h"
#include "tessera/runtime.h"

/* A backend that was loaded and started. */
typedef struct tsr_backend_entry {
  tsr_host host; /* first: report and option find the entry by its address */
  tsr_runtime *runtime;
  tsr_backend table;                      /* of full size; optional slots may be NULL */
  char *path;                             /* the plugin's file, links resolved; "" if linked in */
  void *library;                          /* of dlopen; NULL if linked in */
  void *context;                          /* of start */
  const tsr_variants_extension *variants; /* checked, or NULL: it has none */
  const tsr_kernels_extension *kernels;   /* likewise */
  const tsr_fusion_extension *fusion;     /* likewise */
  const tsr_commands_extension *commands; /* likewise */
  const tsr_plan_extension *plan;         /* likewise */
  const tsr_runs_extension *runs;         /* likewise */
  int started;                            /* 1: stop is due */
  int32_t order;                          /* devices are listed by the order in which their backends were found */
  pthread_mutex_t opening;                /* serialises device_open and device_close */
} tsr_backend_entry;

typedef struct tsr_found_device {
  tsr_backend_entry *backend;
  uint32_t index;
  char name[64];
  tsr_device_properties properties;
} tsr_found_device;

/* A plugin that was found and not needed so far. */
typedef struct tsr_waiting_plugin {
  char *path; /* NULL: it was loaded since */
  int32_t order;
} tsr_waiting_plugin;

typedef struct tsr_option_entry {
  const char *name;
  const char *value;       /* set by the caller, or NULL */
  const char *environment; /* the last value of TESSERA_NAME that was handed out, or NULL */
} tsr_option_entry;

/* A growable array: elements of one type, the pointer kept by its owner. */
typedef struct tsr_list {
  void *items;
  int32_t count, capacity;
} tsr_list;

struct tsr_runtime {
  pthread_mutex_t loading;  /* one plugin is loaded at a time; guards the next two */
  tsr_list waiting;         /* of tsr_waiting_plugin */
  int32_t n_found;          /* plugins and registered backends so far */
  pthread_mutex_t lock;     /* guards what follows */
  tsr_list backends;        /* of tsr_backend_entry * */
  tsr_list devices;         /* of tsr_found_device */
  tsr_list problems;        /* of tsr_problem */
  tsr_list options;         /* of tsr_option_entry */
  tsr_list folders;         /* of const char *: what was searched */
  tsr_arena texts;          /* of problems, options and folders */
  pthread_mutex_t spares;   /* guards the next */
  tsr_device *fallbacks[2]; /* cpu and reference, opened when first needed */
};

struct tsr_device {
  tsr_runtime *runtime;
  tsr_backend_entry *backend;
  char name[64];
  tsr_device_properties properties;
  tsr_backend_device *handle;
  int is_concurrent;         /* it has concurrent runs */
  pthread_mutex_t lock;      /* held during each call of a slot with this device or its objects; of one that is
                                concurrent: guards what follows, and who uses its executables and buffers */
  pthread_cond_t released;   /* a claim on a concurrent device was given back */
  tsr_executable *in_flight; /* executables with a run that was not waited for; linked by next_in_flight */
};

struct tsr_buffer {
  tsr_device *device;
  tsr_backend_buffer *handle; /* NULL if size is 0 */
  int64_t size;
  int32_t users; /* on a concurrent device: claims that read it, or -1: one that writes it */
};

/* list.c ----------------------------------------------------------------------------------------------------------- */

/* A zeroed element at the end, or NULL without memory (the thread's message is set). */
void *tsr_list_add(tsr_list *list, size_t element_size);
void tsr_list_finish(tsr_list *list);

/* Formats at the end of `text` (of `size` bytes), cutting what does not fit. */
void tsr_text_append(char *text, size_t size, const char *format, ...) TSR_PRINTF(3, 4);

/* host.c ----------------------------------------------------------------------------------------------------------- */

/* Fills entry->host. */
void tsr_host_init(tsr_backend_entry *entry);

/* Around each call of a slot: what the plugin reports in between becomes the message of the error. `who` stands before
 * it: a device's or a backend's name. A result that is no status code is TSR_ERR_PLUGIN. */
void tsr_slot_enter(void);
tsr_status tsr_slot_leave(const char *who, const char *slot, int32_t result);

/* Calls a slot, giving a tsr_status. */
#define TSR_SLOT(who, table, slot, ...)    (tsr_slot_enter(), tsr_slot_leave((who), #slot, (table)->slot(__VA_ARGS__)))
#define TSR_DEVICE_SLOT(device, slot, ...) TSR_SLOT((device)->name, &(device)->backend->table, slot, __VA_ARGS__)

/* Calls a slot that returns nothing. */
#define TSR_VOID_SLOT(who, table, slot, ...)                                                                           \
  (tsr_slot_enter(), (table)->slot(__VA_ARGS__), (void)tsr_slot_leave((who), #slot, TSR_OK))
#define TSR_DEVICE_VOID_SLOT(device, slot, ...)                                                                        \
  TSR_VOID_SLOT((device)->name, &(device)->backend->table, slot, __VA_ARGS__)

/* loader.c --------------------------------------------------------------------------------------------------------- */

/* Loads the plugin in the file `path` (a path, never a bare name to search for), starts it and adds its devices. A file
 * that is loaded already is passed over. Errors leave no trace. */
tsr_status tsr_plugin_load(tsr_runtime *runtime, const char *path);

/* Finds the plugins of a folder, for tsr_plugins_load. `expected`: 1 if its absence is a problem. */
void tsr_plugin_search(tsr_runtime *runtime, const char *folder, int expected);

/* Loads those that were found and not loaded yet: all (name NULL), or the files named after a backend. Failures become
 * problems. */
void tsr_plugins_load(tsr_runtime *runtime, const char *name);

/* Stops the backend, unloads its library, frees the entry. */
void tsr_backend_unload(tsr_backend_entry *entry);

/* Records the calling thread's message as a problem. */
void tsr_problem_add(tsr_runtime *runtime, const char *path, tsr_status status);

/* extensions.c ----------------------------------------------------------------------------------------------------- */

/* A slot's name and its place in a table of functions. */
typedef struct tsr_slot_place {
  const char *name;
  size_t offset;
} tsr_slot_place;

/* Writes the names of those slots of the table that are NULL, "" if none is. All function pointers have one size and
 * one null representation (POSIX). */
void tsr_slots_missing(const void *table, const tsr_slot_place *slots, size_t n_slots, char *text, size_t text_size);

/* Sets the extensions of a backend that has started. TSR_ERR_PLUGIN: one of them is not whole. */
tsr_status tsr_extensions_take(tsr_backend_entry *entry);

/* device.c --------------------------------------------------------------------------------------------------------- */

tsr_status tsr_device_open_found(tsr_runtime *runtime, const tsr_found_device *found, tsr_device **out);

/* Around calls of slots that touch no object which another thread may know: the device's lock, where it needs one. */
void tsr_device_enter(tsr_device *device);
void tsr_device_leave(tsr_device *device);

/* 1 if the device executes the line. Within tsr_device_enter or a claim. */
int tsr_device_supports_line(tsr_device *device, const tsr_program_desc *description, int32_t line);

/* claim.c ---------------------------------------------------------------------------------------------------------- */

/* Waits for the runs in flight that use the buffer (NULL: for all). The device's lock is held. On a concurrent device
 * the claim did so already, and nothing happens. */
tsr_status tsr_device_settle(tsr_device *device, const tsr_backend_buffer *buffer);

/* buffer.c --------------------------------------------------------------------------------------------------------- */

/* tsr_buffer_create and _destroy within tsr_device_enter or a claim. `what` stands in the message: "the
 * temporaries". */
tsr_status tsr_buffer_create_locked(tsr_device *device, int64_t size, int32_t usage, const char *what,
                                    tsr_buffer **out);
void tsr_buffer_destroy_locked(tsr_buffer *buffer);

/* registry.c ------------------------------------------------------------------------------------------------------- */

/* The backend of that name, started if it was not yet; NULL: there is none, or it cannot be used. */
tsr_backend_entry *tsr_runtime_backend(tsr_runtime *runtime, const char *name);

/* TSR_ERR_NO_DEVICE: `what`, what was found, and what was tried. */
tsr_status tsr_fail_no_device(tsr_runtime *runtime, const char *what);

/* The runtime's own device on `cpu` (which 0) or `reference` (which 1), opened when first asked for; NULL if there is
 * none or it does not open. */
tsr_device *tsr_runtime_fallback(tsr_runtime *runtime, int which);

#endif

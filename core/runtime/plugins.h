/* SPDX-License-Identifier: Apache-2.0
 *
 * Where plugins of every kind are looked for, and how their files are opened.
 */
#ifndef TESSERA_CORE_RUNTIME_PLUGINS_H
#define TESSERA_CORE_RUNTIME_PLUGINS_H

#include "tessera/status.h"

/* A folder, in the order in which folders are searched. expected: 1 if its absence is a problem. An error ends the
 * search. */
typedef tsr_status (*tsr_folder_fn)(void *context, const char *folder, int expected);

/* Calls visit for each folder of `path`; NULL: for those of TESSERA_BACKEND_PATH, then the folder beside the library,
 * then the install directory. Errors: those of visit, TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_plugin_folders(const char *path, tsr_folder_fn visit, void *context) TSR_MUST_CHECK;

/* Where a plugin was looked for. */
typedef struct tsr_plugin_place {
  char file[4096];     /* that was found, or "" */
  char searched[1024]; /* the folders, for a message */
} tsr_plugin_place;

/* Looks for libtessera-NAME.so in the folders of `path`, as above; the first counts. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_plugin_find(const char *path, const char *name, tsr_plugin_place *search) TSR_MUST_CHECK;

/* Opens a plugin's file and finds the function that it has to export. *library: for dlclose, the caller's; NULL after
 * an error. kind: "backend", for the message. The message does not name the file. Errors: TSR_ERR_PLUGIN. */
tsr_status tsr_library_open(const char *path, const char *kind, const char *symbol, void **library,
                            void **function) TSR_MUST_CHECK;

/* Checks that the flags of a plugin, TSR_BUILD_*, go with this library's: a sanitizer of the program may watch a plugin
 * without one; the other way round nothing is watched in order. what: "backend 'cpu' was". */
tsr_status tsr_build_flags_check(const char *what, uint32_t flags) TSR_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins of every kind share: the folders that are searched, and the opening of a file.
 */
#define _GNU_SOURCE /* dladdr */

#include "core/runtime/plugins.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/platform/paths.h"
#include "core/base/status.h"

/* ---- folders ----------------------------------------------------------------------------------------------------- */

/* Folders with TSR_LIST_SEPARATOR between. An empty part means the working directory elsewhere; here it means
 * nothing. */
static tsr_status visit_path(const char *path, tsr_folder_fn visit, void *context)
{
  while (path) {
    const size_t length = strcspn(path, TSR_LIST_SEPARATOR);
    if (length > 0) {
      char *folder = malloc(length + 1);
      if (!folder) {
        return tsr_fail_memory(length + 1);
      }
      memcpy(folder, path, length);
      folder[length] = '\0';
      tsr_status status = visit(context, folder, 1);
      free(folder);
      TSR_TRY(status);
    }
    path = path[length] ? path + length + 1 : NULL;
  }
  return TSR_OK;
}

/* The folder `tessera` beside the library, wherever it was moved to; "" if there is none. */
static void find_beside(char *folder, size_t size)
{
  static const char here_within = 0;
  Dl_info library;
  struct stat here, installed;
  const char *name = dladdr(&here_within, &library) ? library.dli_fname : "";
  const size_t end = tsr_path_folder_size(name);
  int n = end > 0 ? snprintf(folder, size, "%.*s/tessera", (int)end, name) : 0;
  int is_folder = n > 0 && (size_t)n < size && stat(folder, &here) == 0 && S_ISDIR(here.st_mode);
  if (!is_folder ||
      (stat(TSR_PLUGIN_DIR, &installed) == 0 && installed.st_dev == here.st_dev && installed.st_ino == here.st_ino)) {
    folder[0] = '\0';
  }
}

tsr_status tsr_plugin_folders(const char *path, tsr_folder_fn visit, void *context)
{
  char beside[4096];
  if (path) {
    return visit_path(path, visit, context);
  }
  TSR_TRY(visit_path(getenv("TESSERA_BACKEND_PATH"), visit, context));
  find_beside(beside, sizeof beside);
  if (beside[0]) {
    TSR_TRY(visit(context, beside, 0));
  }
  /* Of a library that was built on another system, this may be no folder of its own system. */
  return tsr_path_is_absolute(TSR_PLUGIN_DIR) ? visit(context, TSR_PLUGIN_DIR, 0) : TSR_OK;
}

typedef struct look {
  const char *name;
  tsr_plugin_place *search;
} look;

/* tsr_folder_fn: the first folder that has the file. */
static tsr_status look_into(void *context, const char *folder, int expected)
{
  const look *l = context;
  tsr_plugin_place *s = l->search;
  struct stat found;
  char path[sizeof s->file];
  (void)expected;
  const int n = snprintf(path, sizeof path, "%s/libtessera-%s" TSR_LIBRARY_SUFFIX, folder, l->name);
  const size_t used = strlen(s->searched);
  snprintf(s->searched + used, sizeof s->searched - used, "%s%s", used > 0 ? ", " : "", folder);
  if (!s->file[0] && tsr_path_is_absolute(folder) && n > 0 && (size_t)n < sizeof path && stat(path, &found) == 0) {
    memcpy(s->file, path, (size_t)n + 1);
  }
  return TSR_OK;
}

tsr_status tsr_plugin_find(const char *path, const char *name, tsr_plugin_place *search)
{
  look l = {name, search};
  search->file[0] = search->searched[0] = '\0';
  TSR_TRY(tsr_plugin_folders(path, look_into, &l));
  if (!search->searched[0]) {
    strcpy(search->searched, "no folder");
  }
  return TSR_OK;
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static const char *sanitizer_name(uint32_t flags)
{
  return flags & TSR_BUILD_ASAN ? "AddressSanitizer" : "ThreadSanitizer";
}

tsr_status tsr_build_flags_check(const char *what, uint32_t flags)
{
  uint32_t clash = flags & ~(uint32_t)TSR_BUILD_FLAGS & (TSR_BUILD_ASAN | TSR_BUILD_TSAN);
  if (clash) {
    return tsr_fail(TSR_ERR_PLUGIN, "%s built with %s, this program was not: build both with the same b_sanitize", what,
                    sanitizer_name(clash));
  }
  return TSR_OK;
}

/* The runtime of a sanitizer ends the process when a plugin brings it along; so this is told before loading. The name
 * of the runtime stands in the file, in the list of the libraries that it needs. */
static tsr_status check_sanitizers(const char *path)
{
  static const struct {
    uint32_t flag;
    const char *library;
  } runtimes[] = {{TSR_BUILD_ASAN, "libasan.so."}, {TSR_BUILD_TSAN, "libtsan.so."}};
  enum { OVERLAP = 16, BLOCK = 1 << 16 };
  uint32_t found = 0;
  FILE *file = fopen(path, "rb");
  char *block = malloc(OVERLAP + BLOCK);
  if (file && block) {
    size_t kept = 0, n;
    while ((n = fread(block + kept, 1, BLOCK, file)) > 0) {
      size_t size = kept + n;
      for (size_t i = 0; i < sizeof runtimes / sizeof runtimes[0]; i++) {
        size_t length = strlen(runtimes[i].library);
        for (const char *at = block; size >= length && (at = memchr(at, 'l', (size_t)(block + size - length + 1 - at)));
             at++) {
          if (memcmp(at, runtimes[i].library, length) == 0) {
            found |= runtimes[i].flag;
            break;
          }
        }
      }
      kept = size < OVERLAP ? size : OVERLAP;
      memmove(block, block + size - kept, kept);
    }
  }
  free(block);
  if (file) {
    fclose(file);
  }
  return tsr_build_flags_check("was", found);
}

/* Whether the loader had no memory, and says something else: of a file that can be read, that it is missing; or what it
 * could not create. (glibc's does.) */
static int lacked_memory(const char *path, const char *reason)
{
  const int is_missing = strncmp(reason, path, strlen(path)) == 0 && strstr(reason, strerror(ENOENT));
  return strstr(reason, "cannot create shared object descriptor") || (is_missing && access(path, R_OK) == 0);
}

tsr_status tsr_library_open(const char *path, const char *kind, const char *symbol, void **library, void **function)
{
  *library = *function = NULL;
  TSR_TRY(check_sanitizers(path));
  *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!*library) {
    const char *reason = dlerror();
    if (!reason) {
      reason = "no reason given";
    }
    int is_sanitized = strstr(reason, "__asan_") || strstr(reason, "__tsan_") || strstr(reason, "__ubsan_");
    return tsr_fail(TSR_ERR_PLUGIN, "cannot be loaded as a shared object of this machine: %s%s", reason,
                    is_sanitized ? " (a sanitizer's: build the plugin with the same b_sanitize as this program)"
                    : lacked_memory(path, reason) ? " (the system's loader lacked memory)"
                                                  : "");
  }
  *function = dlsym(*library, symbol);
  if (!*function) {
    dlclose(*library);
    *library = NULL;
    return tsr_fail(TSR_ERR_PLUGIN, "exports no symbol %s: no Tessera %s, or built with the symbol hidden", symbol,
                    kind);
  }
  return TSR_OK;
}

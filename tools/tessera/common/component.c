/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "tools/tessera/common/component.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"

enum { PATH_ROOM = 4096 };

/* Why a component may not be there. */
typedef struct needs {
  const char *component; /* also the name of the build's option */
  const char *lacks;     /* what an installation without it does not do */
  const char *libraries;
  const char *packages; /* Debian's */
} needs;

static const needs all_needs[] = {
    {"documents", "translates no documents", "libxml2 and libzip", "libxml2-dev, libzip-dev"},
    {"png", "draws no PNG", "cairo and pango", "libpango1.0-dev"},
    {"serve", "has no server", "libmicrohttpd, libcld2, nettle and the component documents",
     "libmicrohttpd-dev, libcld2-dev, nettle-dev"},
};
enum { N_NEEDS = sizeof all_needs / sizeof all_needs[0] };

static int not_there(const char *component)
{
  for (int i = 0; i < N_NEEDS; i++) {
    const needs *n = &all_needs[i];
    if (strcmp(n->component, component) == 0) {
      tsr_cli_error("this installation of tessera %s: the file libtessera-component-%s.so is not there. Tessera is "
                    "built with it where %s are found (Debian: %s; meson setup -D%s=enabled)",
                    n->lacks, component, n->libraries, n->packages, component);
    }
  }
  return TSR_EXIT_INPUT;
}

/* Writes the path of the file: beside the program, as in its build folder; in the folder of libraries beside that of
 * the program, wherever both were moved to; or where it was installed. Returns 0 if there is none. */
static int find_file(const char *component, char *path, size_t size)
{
  char self[PATH_ROOM];
  const char *const places[] = {"", TSR_COMPONENTS_BESIDE "/"};
  if (path_of_program(self, sizeof self)) {
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
      int length = snprintf(path, size, "%s/%slibtessera-component-%s.so", self, places[i], component);
      if (length > 0 && (size_t)length < size && path_exists(path)) {
        return 1;
      }
    }
  }
  snprintf(path, size, "%s/libtessera-component-%s.so", TSR_COMPONENTS_INSTALLED, component);
  return path_exists(path);
}

int tsr_component_is_there(const char *component, const char *symbol)
{
  char path[2 * PATH_ROOM];
  return dlsym(RTLD_DEFAULT, symbol) || find_file(component, path, sizeof path);
}

int tsr_component_find(const char *component, const char *symbol, void **found)
{
  char path[2 * PATH_ROOM];
  *found = dlsym(RTLD_DEFAULT, symbol);
  if (*found) {
    return TSR_EXIT_OK;
  }
  if (!find_file(component, path, sizeof path)) {
    return not_there(component);
  }
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    tsr_cli_error("%s: cannot be loaded: %s", path, dlerror());
    return TSR_EXIT_INPUT;
  }
  const char *version = dlsym(library, "tsr_component_version");
  *found = dlsym(library, symbol);
  if (!version || strcmp(version, TSR_VERSION) != 0 || !*found) {
    tsr_cli_error("%s: is no component of this program, tessera " TSR_VERSION "%s%s", path,
                  version ? ", but of tessera " : "", version ? version : "");
    dlclose(library);
    return TSR_EXIT_INPUT;
  }
  return TSR_EXIT_OK;
}

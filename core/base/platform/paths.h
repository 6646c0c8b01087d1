/* SPDX-License-Identifier: Apache-2.0
 *
 * How the system writes paths. Everywhere '/' stands between the names of a path; Windows takes '\' as well.
 */
#ifndef TESSERA_CORE_BASE_PLATFORM_PATHS_H
#define TESSERA_CORE_BASE_PLATFORM_PATHS_H

#include <stddef.h>
#include <string.h>

#ifdef _WIN32
#define TSR_PATH_SEPARATORS    "/\\"
#define TSR_PATH_ROOT          "a drive, as C:/ is one" /* what an absolute path begins with, in words */
#define TSR_LIST_SEPARATOR     ";"                      /* between the folders of a variable of the environment */
#define TSR_LIBRARY_SUFFIX     ".dll"
#define TSR_CACHE_VARIABLE     "LOCALAPPDATA" /* names the folder of a user's caches, with TSR_CACHE_BELOW behind it */
#define TSR_CACHE_BELOW        ""
#define TSR_HOME_VARIABLE      "USERPROFILE" /* names the user's folder */
#define TSR_TEMPORARY          "."
#define TSR_TEMPORARY_VARIABLE "TMP" /* names the folder of temporary files; without it, TSR_TEMPORARY */
#else
#define TSR_PATH_SEPARATORS    "/"
#define TSR_PATH_ROOT          "'/'"
#define TSR_LIST_SEPARATOR     ":"
#define TSR_LIBRARY_SUFFIX     ".so"
#define TSR_CACHE_VARIABLE     "HOME"
#define TSR_CACHE_BELOW        "/.cache"
#define TSR_HOME_VARIABLE      "HOME"
#define TSR_TEMPORARY          "/tmp"
#define TSR_TEMPORARY_VARIABLE "TMPDIR"
#endif

static inline int tsr_path_is_separator(char c)
{
  return c != '\0' && strchr(TSR_PATH_SEPARATORS, c) != NULL;
}

/* The last name of a path. */
static inline const char *tsr_path_name(const char *path)
{
  const char *name = path;
  for (; *path; path++) {
    if (tsr_path_is_separator(*path)) {
      name = path + 1;
    }
  }
  return name;
}

/* How much of a path its folder takes, without a separator behind it but for that of a root: 0 without a folder, 1 for
 * "/", 3 for "C:/". */
static inline size_t tsr_path_folder_size(const char *path)
{
  const size_t size = (size_t)(tsr_path_name(path) - path);
  return size > 1 && path[size - 2] != ':' ? size - 1 : size;
}

/* 1 for a path that does not begin in the working directory. */
static inline int tsr_path_is_absolute(const char *path)
{
#ifdef _WIN32
  const int has_drive = ((path[0] >= 'A' && path[0] <= 'Z') || (path[0] >= 'a' && path[0] <= 'z')) && path[1] == ':';
  return has_drive ? tsr_path_is_separator(path[2]) : tsr_path_is_separator(path[0]) && tsr_path_is_separator(path[1]);
#else
  return path[0] == '/';
#endif
}

#endif

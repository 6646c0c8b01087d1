/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/common/path.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/platform/paths.h"

int path_exists(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0;
}

int path_is_writable(const char *path)
{
  if (path_exists(path)) {
    return access(path, W_OK) == 0;
  }
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
  int fine = folder && access(folder, W_OK) == 0;
  int reason = folder ? errno : ENOMEM;
  free(folder);
  errno = fine ? 0 : reason;
  return fine;
}

int path_is_folder(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

char *path_join(const char *folder, const char *name)
{
  const size_t size = strlen(folder), room = size + strlen(name) + 2;
  char *path = malloc(room);
  if (path) {
    snprintf(path, room, "%s%s%s", folder, size > 0 && folder[size - 1] != '/' ? "/" : "", name);
  }
  return path;
}

int path_of_program(char *path, size_t size)
{
  ssize_t length = readlink("/proc/self/exe", path, size);
  if (length <= 0 || (size_t)length >= size) {
    return 0;
  }
  path[length] = '\0';
  return strchr(path, '/') != NULL;
}

char *path_in_temporary(const char *name)
{
  const char *folder = getenv(TSR_TEMPORARY_VARIABLE);
  return path_join(folder && folder[0] ? folder : TSR_TEMPORARY, name);
}

/* What lies in it, and all below. Returns 0, or an errno. */
static int empty(const char *folder)
{
  DIR *entries = opendir(folder);
  int failed = entries ? 0 : errno;
  for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;) {
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
      continue;
    }
    char *path = path_join(folder, entry->d_name);
    const int here = path ? path_remove_all(path) : ENOMEM;
    failed = failed ? failed : here;
    free(path);
  }
  if (entries) {
    closedir(entries);
  }
  return failed;
}

int path_remove_all(const char *path)
{
  struct stat status;
  if (lstat(path, &status) != 0) {
    return errno;
  }
  const int failed = S_ISDIR(status.st_mode) ? empty(path) : 0;
  if (failed) {
    return failed;
  }
  return (S_ISDIR(status.st_mode) ? rmdir(path) : unlink(path)) == 0 ? 0 : errno;
}

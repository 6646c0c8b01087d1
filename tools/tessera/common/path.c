/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/common/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int path_exists(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0;
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

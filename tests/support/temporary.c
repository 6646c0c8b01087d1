/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void stop(const char *what, const char *path)
{
  fprintf(stderr, "%s: %s: %s\n", path, what, strerror(errno));
  abort();
}

char *make_temporary_folder(void)
{
  const char *parent = getenv("TMPDIR");
  char *folder = strdup(path_in(parent && parent[0] ? parent : "/tmp", "tessera-test-XXXXXX"));
  if (!folder || !mkdtemp(folder)) {
    stop("cannot be made", folder ? folder : "");
  }
  return folder;
}

void remove_temporary_folder(char *folder)
{
  DIR *listing = opendir(folder);
  if (!listing) {
    stop("cannot be listed", folder);
  }
  const struct dirent *entry;
  while ((entry = readdir(listing))) {
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
      remove(path_in(folder, entry->d_name));
    }
  }
  closedir(listing);
  rmdir(folder);
  free(folder);
}

const char *path_in(const char *folder, const char *name)
{
  static char paths[4][4096];
  static unsigned next;
  char *path = paths[next++ % 4];
  if (snprintf(path, sizeof paths[0], "%s/%s", folder, name) >= (int)sizeof paths[0]) {
    stop("the path is too long", folder);
  }
  return path;
}

void write_file(const char *path, const void *bytes, size_t size)
{
  FILE *file = fopen(path, "wb");
  if (!file || (size > 0 && fwrite(bytes, 1, size, file) != size) || fclose(file) != 0) {
    stop("cannot be written", path);
  }
}

void write_text(const char *path, const char *text)
{
  write_file(path, text, strlen(text));
}

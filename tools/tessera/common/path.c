/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* program_invocation_name */

#include "tools/tessera/common/path.h"

#include <errno.h>
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

enum { PATH_ROOM = 4096, MOST_WORDS = 128, WORD_BYTES = 1 << 14 };

/* The words of the command line up to the program's own name: the loader, its options, the program. Returns how many;
 * 0: no loader stands in front, or the system does not tell. */
static int words_of_loader(const char *program, char *bytes, const char **words)
{
#ifdef __GLIBC__
  const char *base = strrchr(program, '/');
  FILE *file = base && strncmp(base, "/ld", 3) == 0 ? fopen("/proc/self/cmdline", "r") : NULL;
  size_t size = file ? fread(bytes, 1, WORD_BYTES - 1, file) : 0;
  int n = 0;
  if (file) {
    fclose(file);
  }
  bytes[size] = '\0';
  for (size_t at = 0; at < size && n < MOST_WORDS; at += strlen(bytes + at) + 1) {
    words[n++] = bytes + at;
    if (strcmp(bytes + at, program_invocation_name) == 0) {
      return n;
    }
  }
#else
  (void)program, (void)bytes, (void)words;
#endif
  return 0;
}

void path_execute_again(const char *const *arguments)
{
  static char bytes[WORD_BYTES];
  const char *words[2 * MOST_WORDS];
  char program[PATH_ROOM];
  if (!path_of_program(program, sizeof program)) {
    errno = ENOENT;
    return;
  }
  int n = words_of_loader(program, bytes, words);
  if (n == 0) {
    execv(program, (char *const *)arguments);
    return;
  }
  for (int i = 1; arguments[i] && n + 1 < 2 * MOST_WORDS; i++) {
    words[n++] = arguments[i];
  }
  words[n] = NULL;
  execv(program, (char *const *)words);
}

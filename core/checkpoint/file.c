/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/platform/paths.h"
#include "core/base/status.h"

static tsr_status check_regular(const char *path, int descriptor, struct stat *info)
{
  if (fstat(descriptor, info) != 0) {
    return tsr_fail(TSR_ERR_IO, "%s: cannot be examined: %s", path, strerror(errno));
  }
  if (S_ISDIR(info->st_mode)) {
    return tsr_fail(TSR_ERR_IO, "%s: expected a file, found a folder", path);
  }
  if (!S_ISREG(info->st_mode)) {
    return tsr_fail(TSR_ERR_IO, "%s: expected a regular file, found a device or a pipe", path);
  }
  if ((uint64_t)info->st_size >= SIZE_MAX) {
    return tsr_fail(TSR_ERR_IO, "%s: larger than this machine's address space", path);
  }
  return TSR_OK;
}

tsr_status tsr_file_open(const char *path, int *descriptor, struct stat *info)
{
  /* Without O_NONBLOCK, opening a pipe would wait for a writer. */
  *descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (*descriptor < 0) {
    return tsr_fail(TSR_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  }
  tsr_status status = check_regular(path, *descriptor, info);
  if (status != TSR_OK) {
    close(*descriptor);
    *descriptor = -1;
  }
  return status;
}

/* Up to `size` bytes; fewer where the file ends before. */
static tsr_status read_bytes(const char *path, int descriptor, char *bytes, size_t size, size_t *n_read)
{
  *n_read = 0;
  while (*n_read < size) {
    ssize_t n = read(descriptor, bytes + *n_read, size - *n_read);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return tsr_fail(TSR_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    }
    if (n == 0) {
      break;
    }
    *n_read += (size_t)n;
  }
  return TSR_OK;
}

tsr_status tsr_file_read(const char *path, tsr_file *file)
{
  *file = (tsr_file){0};
  int descriptor = -1;
  struct stat info;
  TSR_TRY(tsr_file_open(path, &descriptor, &info));
  size_t size = (size_t)info.st_size;
  char *bytes = malloc(size + 1);
  size_t n_read = 0;
  tsr_status status = bytes ? read_bytes(path, descriptor, bytes, size, &n_read) : tsr_fail_memory(size + 1);
  if (status == TSR_OK && n_read < size) {
    status =
        tsr_fail(TSR_ERR_IO, "%s: the file ends at byte %zu and had %zu bytes when it was opened: something writes it",
                 path, n_read, size);
  }
  close(descriptor);
  if (status != TSR_OK) {
    free(bytes);
    return status;
  }
  *file = (tsr_file){.bytes = bytes, .size = size};
  return TSR_OK;
}

void tsr_file_free(tsr_file *file)
{
  free((void *)file->bytes);
  *file = (tsr_file){0};
}

tsr_status tsr_folder_expect(const char *path, const char *what)
{
  struct stat status;
  if (stat(path, &status) != 0) {
    /* Names of a hub, such as Helsinki-NLP/opus-mt-en-de, look like a path. */
    return errno == ENOENT
               ? tsr_fail(TSR_ERR_IO, "%s: there is no such folder; expected %s: nothing is downloaded", path, what)
               : tsr_fail(TSR_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  }
  return S_ISDIR(status.st_mode) ? TSR_OK : tsr_fail(TSR_ERR_IO, "%s: expected %s, found a file", path, what);
}

int tsr_path_is_folder(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

int tsr_path_exists(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0;
}

int tsr_path_is_plain(const char *name)
{
  return name[0] != 0 && name[0] != '.' && !strchr(name, '/') && !strchr(name, '\\');
}

char *tsr_path_join(const char *folder, const char *name)
{
  size_t folder_size = strlen(folder);
  size_t name_size = strlen(name);
  char *path = malloc(folder_size + name_size + 2);
  if (!path) {
    (void)tsr_fail_memory(folder_size + name_size + 2);
    return NULL;
  }
  memcpy(path, folder, folder_size);
  if (folder_size > 0 && !tsr_path_is_separator(folder[folder_size - 1])) {
    path[folder_size++] = '/';
  }
  memcpy(path + folder_size, name, name_size + 1);
  return path;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/status.h"

static const char nothing[1];

static tsr_status map_open_file(const char *path, int descriptor, tsr_file *file)
{
  struct stat status;
  if (fstat(descriptor, &status) != 0) {
    return tsr_fail(TSR_ERR_IO, "%s: cannot be examined: %s", path, strerror(errno));
  }
  if (S_ISDIR(status.st_mode)) {
    return tsr_fail(TSR_ERR_IO, "%s: expected a file, found a folder", path);
  }
  if (!S_ISREG(status.st_mode)) {
    return tsr_fail(TSR_ERR_IO, "%s: expected a regular file, found a device or a pipe", path);
  }
  if ((uint64_t)status.st_size > SIZE_MAX) {
    return tsr_fail(TSR_ERR_IO, "%s: larger than this machine's address space", path);
  }

  file->size = (size_t)status.st_size;
  file->bytes = nothing;
  if (file->size == 0) {
    return TSR_OK;
  }
  void *bytes = mmap(NULL, file->size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (bytes == MAP_FAILED) {
    *file = (tsr_file){0};
    return tsr_fail(TSR_ERR_IO, "%s: cannot be mapped: %s", path, strerror(errno));
  }
  file->bytes = bytes;
  return TSR_OK;
}

tsr_status tsr_file_map(const char *path, tsr_file *file)
{
  *file = (tsr_file){0};
  /* Without O_NONBLOCK, opening a pipe would wait for a writer. */
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return tsr_fail(TSR_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  }
  tsr_status status = map_open_file(path, descriptor, file);
  close(descriptor);
  return status;
}

void tsr_file_unmap(tsr_file *file)
{
  if (file->size > 0) {
    munmap((void *)file->bytes, file->size);
  }
  *file = (tsr_file){0};
}

void tsr_file_release(const tsr_file *file)
{
  if (file->size > 0) {
    (void)madvise((void *)file->bytes, file->size, MADV_DONTNEED);
  }
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
  if (folder_size > 0 && folder[folder_size - 1] != '/') {
    path[folder_size++] = '/';
  }
  memcpy(path + folder_size, name, name_size + 1);
  return path;
}

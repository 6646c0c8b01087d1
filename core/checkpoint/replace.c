/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/platform/paths.h"
#include "core/base/status.h"
#include "core/checkpoint/file.h"

enum { WRITE_AT_ONCE = 1 << 30 }; /* bytes; Linux takes less than 2^31 in one call */

static tsr_status fail_here(const char *path, const char *what)
{
  const char *hint = errno == ENOSPC || errno == EDQUOT ? "; free some space, or choose another folder" : "";
  return tsr_fail(TSR_ERR_IO, "%s: cannot be %s: %s%s", path, what, strerror(errno), hint);
}

/* 1 if the name still stands for the open file: between opening and locking, its writer may have renamed it. */
static int is_same_file(const char *name, int descriptor)
{
  struct stat named, opened;
  return lstat(name, &named) == 0 && fstat(descriptor, &opened) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

/* Opens and locks the temporary. *again: 1 if its name came to stand for another file meanwhile. */
static tsr_status open_temporary(tsr_replacement *replacement, int *again)
{
  *again = 0;
  int descriptor = open(replacement->temporary, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (descriptor < 0) {
    return fail_here(replacement->temporary, "opened for writing");
  }
  struct stat status;
  tsr_status result = TSR_OK;
  /* A file system without locks has to do without them. */
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    result = tsr_fail(TSR_ERR_IO, "%s: another process, or another thread, is writing this file", replacement->path);
  } else if (!is_same_file(replacement->temporary, descriptor)) {
    *again = 1;
  } else if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    result = tsr_fail(TSR_ERR_IO, "%s: expected a regular file; remove it first", replacement->temporary);
  } else if (ftruncate(descriptor, 0) != 0) {
    result = fail_here(replacement->temporary, "emptied");
  }
  if (result != TSR_OK || *again) {
    close(descriptor);
  } else {
    replacement->descriptor = descriptor;
  }
  return result;
}

tsr_status tsr_replacement_begin(const char *path, tsr_replacement *replacement)
{
  *replacement = (tsr_replacement){.path = path, .descriptor = -1};
  size_t room = strlen(path) + sizeof TSR_PARTIAL_SUFFIX;
  replacement->temporary = malloc(room);
  if (!replacement->temporary) {
    return tsr_fail_memory(room);
  }
  snprintf(replacement->temporary, room, "%s%s", path, TSR_PARTIAL_SUFFIX);
  int again;
  tsr_status status;
  do {
    status = open_temporary(replacement, &again);
  } while (again);
  if (status != TSR_OK) {
    free(replacement->temporary);
    *replacement = (tsr_replacement){0};
  }
  return status;
}

tsr_status tsr_replacement_write(tsr_replacement *replacement, const void *bytes, size_t size)
{
  const char *next = bytes;
  while (size > 0) {
    ssize_t written = write(replacement->descriptor, next, size < WRITE_AT_ONCE ? size : WRITE_AT_ONCE);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return fail_here(replacement->path, "written");
    }
    next += written;
    size -= (size_t)written;
  }
  return TSR_OK;
}

/* Brings a folder's names to the disk. A file system that has no such notion answers EINVAL. */
static tsr_status sync_folder(const char *path)
{
  const size_t size = tsr_path_folder_size(path);
  char *folder = size > 0 ? strndup(path, size) : strdup(".");
  if (!folder) {
    return tsr_fail_memory(strlen(path));
  }
  int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  tsr_status status = TSR_OK;
  if (descriptor < 0 || (fsync(descriptor) != 0 && errno != EINVAL)) {
    status = fail_here(folder, "synced");
  }
  if (descriptor >= 0) {
    close(descriptor);
  }
  free(folder);
  return status;
}

tsr_status tsr_replacement_commit(tsr_replacement *replacement)
{
  tsr_status status = TSR_OK;
  if (fsync(replacement->descriptor) != 0) {
    status = fail_here(replacement->path, "brought to the disk");
  } else if (rename(replacement->temporary, replacement->path) != 0) {
    status = fail_here(replacement->path, "replaced");
  }
  if (status != TSR_OK) {
    tsr_replacement_abandon(replacement);
    return status;
  }
  status = sync_folder(replacement->path);
  close(replacement->descriptor);
  free(replacement->temporary);
  *replacement = (tsr_replacement){0};
  return status;
}

void tsr_replacement_abandon(tsr_replacement *replacement)
{
  if (!replacement->temporary) {
    return;
  }
  unlink(replacement->temporary); /* before the lock goes with the descriptor */
  close(replacement->descriptor);
  free(replacement->temporary);
  *replacement = (tsr_replacement){0};
}

tsr_status tsr_file_replace(const char *path, const void *bytes, size_t size)
{
  tsr_replacement replacement;
  TSR_TRY(tsr_replacement_begin(path, &replacement));
  tsr_status status = tsr_replacement_write(&replacement, bytes, size);
  if (status == TSR_OK) {
    status = tsr_replacement_commit(&replacement);
  }
  tsr_replacement_abandon(&replacement);
  return status;
}

tsr_status tsr_folder_make(const char *path)
{
  char *part = strdup(path);
  if (!part) {
    return tsr_fail_memory(strlen(path) + 1);
  }
  tsr_status status = TSR_OK;
  for (char *end = part; *end && status == TSR_OK;) {
    end += strspn(end, TSR_PATH_SEPARATORS);
    end += strcspn(end, TSR_PATH_SEPARATORS);
    char kept = *end;
    *end = '\0';
    if (mkdir(part, 0777) != 0) {
      int refused = errno;
      if (!tsr_path_is_folder(part)) {
        errno = refused;
        status = fail_here(part, "made a folder");
      }
    }
    *end = kept;
  }
  free(part);
  return status;
}

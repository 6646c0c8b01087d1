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

enum {
  WRITE_AT_ONCE = 1 << 30, /* bytes; Linux takes less than 2^31 in one call */
  BUFFER = 1 << 16
};

struct tsr_file_writer {
  char *path;
  char *temporary;
  int descriptor;
  size_t used; /* bytes of the buffer that are not written yet */
  char buffer[BUFFER];
};

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
static tsr_status open_temporary(tsr_file_writer *writer, int *again)
{
  *again = 0;
  int descriptor = open(writer->temporary, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (descriptor < 0) {
    return fail_here(writer->temporary, "opened for writing");
  }
  struct stat status;
  tsr_status result = TSR_OK;
  /* A file system without locks has to do without them. */
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    result = tsr_fail(TSR_ERR_BUSY, "%s: another process, or another thread, is writing this file", writer->path);
  } else if (!is_same_file(writer->temporary, descriptor)) {
    *again = 1;
  } else if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    result = tsr_fail(TSR_ERR_IO, "%s: expected a regular file; remove it first", writer->temporary);
  } else if (ftruncate(descriptor, 0) != 0) {
    result = fail_here(writer->temporary, "emptied");
  }
  if (result != TSR_OK || *again) {
    close(descriptor);
  } else {
    writer->descriptor = descriptor;
  }
  return result;
}

static void destroy(tsr_file_writer *writer)
{
  if (writer->descriptor >= 0) {
    close(writer->descriptor);
  }
  free(writer->temporary);
  free(writer->path);
  free(writer);
}

tsr_status tsr_file_writer_open(const char *path, tsr_file_writer **writer)
{
  *writer = NULL;
  tsr_file_writer *w = malloc(sizeof *w);
  if (!w) {
    return tsr_fail_memory(sizeof *w);
  }
  size_t room = strlen(path) + sizeof TSR_PARTIAL_SUFFIX;
  w->descriptor = -1;
  w->used = 0;
  w->path = strdup(path);
  w->temporary = malloc(room);
  tsr_status status = w->path && w->temporary ? TSR_OK : tsr_fail_memory(room);
  if (status == TSR_OK) {
    snprintf(w->temporary, room, "%s%s", path, TSR_PARTIAL_SUFFIX);
  }
  for (int again = 1; again && status == TSR_OK;) {
    status = open_temporary(w, &again);
  }
  if (status != TSR_OK) {
    destroy(w);
    return status;
  }
  *writer = w;
  return TSR_OK;
}

static tsr_status write_through(const tsr_file_writer *writer, const char *bytes, size_t size)
{
  while (size > 0) {
    ssize_t written = write(writer->descriptor, bytes, size < WRITE_AT_ONCE ? size : WRITE_AT_ONCE);
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return fail_here(writer->path, "written");
    }
    bytes += written;
    size -= (size_t)written;
  }
  return TSR_OK;
}

static tsr_status flush(tsr_file_writer *writer)
{
  size_t used = writer->used;
  writer->used = 0;
  return write_through(writer, writer->buffer, used);
}

tsr_status tsr_file_writer_write(tsr_file_writer *writer, const void *bytes, size_t size)
{
  if (size > BUFFER - writer->used) {
    TSR_TRY(flush(writer));
  }
  if (size >= BUFFER) {
    return write_through(writer, bytes, size);
  }
  if (size > 0) {
    memcpy(writer->buffer + writer->used, bytes, size);
    writer->used += size;
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

tsr_status tsr_file_writer_commit(tsr_file_writer **writer)
{
  tsr_file_writer *w = *writer;
  *writer = NULL;
  tsr_status status = flush(w);
  if (status == TSR_OK && fsync(w->descriptor) != 0) {
    status = fail_here(w->path, "brought to the disk");
  } else if (status == TSR_OK && rename(w->temporary, w->path) != 0) {
    status = fail_here(w->path, "replaced");
  }
  if (status != TSR_OK) {
    tsr_file_writer_abandon(w);
    return status;
  }
  status = sync_folder(w->path);
  destroy(w);
  return status;
}

void tsr_file_writer_abandon(tsr_file_writer *writer)
{
  if (writer) {
    unlink(writer->temporary); /* before the lock goes with the descriptor */
    destroy(writer);
  }
}

tsr_status tsr_file_replace(const char *path, const void *bytes, size_t size)
{
  tsr_file_writer *writer;
  TSR_TRY(tsr_file_writer_open(path, &writer));
  tsr_status status = tsr_file_writer_write(writer, bytes, size);
  if (status == TSR_OK) {
    return tsr_file_writer_commit(&writer);
  }
  tsr_file_writer_abandon(writer);
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/audio/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/platform/paths.h"
#include "core/base/status.h"

enum { BLOCK = 1 << 16, PATH_ROOM = 4096, MOST_SEEN = 1 << 20 };

static tsr_status fail_io(const tsr_source *source, const char *what)
{
  return tsr_fail(TSR_ERR_IO, "%s: %s: %s", source->name, what, strerror(errno));
}

tsr_status tsr_source_open(const char *path, tsr_source *source)
{
  const int is_input = strcmp(path, "-") == 0;
  *source = (tsr_source){.name = is_input ? "standard input" : path, .size = -1, .is_owned = !is_input};
  source->descriptor = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (source->descriptor < 0) {
    source->is_owned = 0;
    return fail_io(source, "cannot be opened");
  }
  struct stat facts;
  tsr_status status = TSR_OK;
  if (fstat(source->descriptor, &facts) != 0) {
    status = fail_io(source, "cannot be read");
  } else if (S_ISDIR(facts.st_mode)) {
    status = tsr_fail(TSR_ERR_IO, "%s: expected a file, found a folder", source->name);
  } else if (S_ISREG(facts.st_mode)) {
    source->base = lseek(source->descriptor, 0, SEEK_CUR); /* standard input may have been read before */
    source->size = facts.st_size > source->base ? facts.st_size - source->base : 0;
  }
  if (status != TSR_OK) {
    tsr_source_close(source);
  }
  return status;
}

void tsr_source_view(const char *name, const void *bytes, size_t size, tsr_source *source)
{
  *source = (tsr_source){.name = name, .descriptor = -1, .bytes = bytes, .size = (int64_t)size};
}

void tsr_source_give(const char *name, const tsr_audio_source *given, tsr_source *source)
{
  *source = (tsr_source){.name = name, .descriptor = -1, .given = *given, .size = given->seek ? given->size : -1};
}

void tsr_source_close(tsr_source *source)
{
  if (source->is_owned) {
    close(source->descriptor);
    source->is_owned = 0;
  }
  free(source->seen);
  source->seen = NULL;
  source->n_seen = 0;
}

/* From where the bytes come from, whatever was looked at. */
static tsr_status take(tsr_source *source, void *bytes, size_t size, size_t *got)
{
  *got = 0;
  if (source->given.read) {
    TSR_TRY(source->given.read(source->given.context, bytes, size, got));
    if (*got > size) {
      return tsr_fail(TSR_ERR_ARGUMENT, "%s: its function gave %zu bytes where %zu were asked for", source->name, *got,
                      size);
    }
    return TSR_OK;
  }
  if (source->descriptor < 0) {
    const size_t left = (size_t)(source->size - source->at);
    *got = size < left ? size : left;
    if (*got > 0) {
      memcpy(bytes, source->bytes + source->at, *got);
    }
    return TSR_OK;
  }
  ssize_t count;
  do {
    count = read(source->descriptor, bytes, size);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    return fail_io(source, "cannot be read");
  }
  *got = (size_t)count;
  return TSR_OK;
}

/* Keeps what a pipe brought, up to MOST_SEEN bytes of it; with more it lets all go. */
static tsr_status keep_seen(tsr_source *source, const void *bytes, size_t n)
{
  if (source->size >= 0 || source->is_settled || source->at > source->n_seen || n == 0) {
    return TSR_OK;
  }
  const size_t all = (size_t)source->n_seen + n;
  unsigned char *seen = all <= MOST_SEEN ? realloc(source->seen, all) : NULL;
  if (!seen) {
    free(source->seen);
    source->seen = NULL;
    source->n_seen = 0;
    return all <= MOST_SEEN ? tsr_fail_memory(all) : TSR_OK;
  }
  memcpy(seen + source->n_seen, bytes, n);
  source->seen = seen;
  source->n_seen = (int64_t)all;
  return TSR_OK;
}

tsr_status tsr_source_read(tsr_source *source, void *bytes, size_t size, size_t *got)
{
  if (source->at < source->n_seen) {
    const size_t left = (size_t)(source->n_seen - source->at);
    *got = size < left ? size : left;
    memcpy(bytes, source->seen + source->at, *got);
  } else {
    TSR_TRY(take(source, bytes, size, got));
    TSR_TRY(keep_seen(source, bytes, *got));
  }
  source->at += (int64_t)*got;
  return TSR_OK;
}

tsr_status tsr_source_seek(tsr_source *source, int64_t offset)
{
  if (offset < 0 || offset > source->size) {
    return tsr_fail(TSR_ERR_IO, "%s: holds %lld bytes, but byte %lld is wanted", source->name, (long long)source->size,
                    (long long)offset);
  }
  if (source->given.seek) {
    TSR_TRY(source->given.seek(source->given.context, offset));
  } else if (source->descriptor >= 0 && lseek(source->descriptor, (off_t)(source->base + offset), SEEK_SET) < 0) {
    return fail_io(source, "cannot be sought");
  }
  source->at = offset;
  return TSR_OK;
}

tsr_status tsr_source_restart(tsr_source *source)
{
  if (source->size >= 0) {
    return tsr_source_seek(source, 0);
  }
  if (source->is_settled || source->at > source->n_seen) {
    return TSR_ERR_UNSUPPORTED;
  }
  source->at = 0;
  return TSR_OK;
}

void tsr_source_settle(tsr_source *source)
{
  source->is_settled = 1;
}

/* A file that goes when its descriptor is closed. */
static tsr_status open_temporary(const tsr_source *source, int *descriptor)
{
  char path[PATH_ROOM];
  const char *folder = getenv(TSR_TEMPORARY_VARIABLE);
  const int n = snprintf(path, sizeof path, "%s/tessera-sound-XXXXXX", folder && *folder ? folder : TSR_TEMPORARY);
  if (n < 0 || (size_t)n >= sizeof path) {
    return tsr_fail(TSR_ERR_IO, "%s: the folder of temporary files has too long a name", source->name);
  }
  *descriptor = mkstemp(path);
  if (*descriptor < 0) {
    return tsr_fail(TSR_ERR_IO, "%s: a copy of it, %s, cannot be made: %s", source->name, path, strerror(errno));
  }
  (void)unlink(path);
  return TSR_OK;
}

static tsr_status write_all(const tsr_source *source, int descriptor, const unsigned char *bytes, size_t size)
{
  while (size > 0) {
    const ssize_t count = write(descriptor, bytes, size);
    if (count < 0 && errno != EINTR) {
      return fail_io(source, "cannot be copied to a temporary file");
    }
    if (count > 0) {
      bytes += count;
      size -= (size_t)count;
    }
  }
  return TSR_OK;
}

static tsr_status copy_all(tsr_source *source, int descriptor)
{
  unsigned char *block = malloc(BLOCK);
  if (!block) {
    return tsr_fail_memory(BLOCK);
  }
  tsr_status status = TSR_OK;
  for (size_t got = 1; got > 0 && status == TSR_OK;) {
    status = tsr_source_read(source, block, BLOCK, &got);
    if (status == TSR_OK) {
      status = write_all(source, descriptor, block, got);
    }
  }
  free(block);
  return status;
}

tsr_status tsr_source_keep(tsr_source *source)
{
  int copy;
  TSR_TRY(open_temporary(source, &copy));
  const tsr_status status = copy_all(source, copy);
  if (status != TSR_OK) {
    close(copy);
    return status;
  }
  tsr_source_close(source);
  *source = (tsr_source){.name = source->name, .descriptor = copy, .is_owned = 1, .size = source->at};
  return tsr_source_seek(source, 0);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/status.h"

enum { CHUNK = 1 << 16 };

static tsr_status set_name(tsr_stream *stream, const char *name)
{
  *stream = (tsr_stream){.descriptor = -1};
  stream->name = strdup(name);
  return stream->name ? TSR_OK : tsr_fail_memory(strlen(name) + 1);
}

tsr_status tsr_stream_open(const char *path, tsr_stream *stream)
{
  TSR_TRY(set_name(stream, path));
  tsr_status status = TSR_OK;
  struct stat facts;
  stream->descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (stream->descriptor < 0) {
    status = tsr_fail(TSR_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
  } else if (fstat(stream->descriptor, &facts) == 0 && S_ISDIR(facts.st_mode)) {
    status = tsr_fail(TSR_ERR_IO, "%s: expected a file, found a folder", path);
  }
  if (status != TSR_OK) {
    tsr_stream_finish(stream);
  }
  return status;
}

tsr_status tsr_stream_view(const char *name, const void *bytes, size_t size, tsr_stream *stream)
{
  TSR_TRY(set_name(stream, name));
  stream->window = bytes;
  stream->end = size;
  stream->at_end = 1;
  return TSR_OK;
}

void tsr_stream_finish(tsr_stream *stream)
{
  if (stream->name && stream->descriptor >= 0) {
    close(stream->descriptor);
  }
  free(stream->name);
  free(stream->buffer);
  *stream = (tsr_stream){.descriptor = -1};
}

/* Room for a chunk after `end`: what is unread moves to the front where that gives it, else the buffer doubles. */
static tsr_status make_room(tsr_stream *stream)
{
  size_t unread = stream->end - stream->begin;
  if (stream->room - stream->end >= CHUNK) {
    return TSR_OK;
  }
  if (stream->begin > 0 && stream->room - unread >= CHUNK && unread <= stream->room / 2) {
    memmove(stream->buffer, stream->buffer + stream->begin, unread);
  } else {
    size_t room = stream->room < CHUNK ? 2 * (size_t)CHUNK : 2 * stream->room;
    char *buffer = malloc(room);
    if (!buffer) {
      return tsr_fail_memory(room);
    }
    if (unread > 0) {
      memcpy(buffer, stream->buffer + stream->begin, unread);
    }
    free(stream->buffer);
    stream->buffer = buffer;
    stream->window = buffer;
    stream->room = room;
  }
  stream->begin = 0;
  stream->end = unread;
  return TSR_OK;
}

tsr_status tsr_stream_fill(tsr_stream *stream)
{
  if (stream->at_end) {
    return TSR_OK;
  }
  TSR_TRY(make_room(stream));
  ssize_t got;
  do {
    got = read(stream->descriptor, stream->buffer + stream->end, CHUNK);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    return tsr_fail(TSR_ERR_IO, "%s: cannot be read: %s", stream->name, strerror(errno));
  }
  stream->end += (size_t)got;
  stream->at_end = got == 0;
  return TSR_OK;
}

void tsr_stream_skip(tsr_stream *stream, size_t size)
{
  stream->begin += size;
  stream->offset += (int64_t)size;
}

tsr_status tsr_stream_seek(tsr_stream *stream, int64_t offset)
{
  if (stream->descriptor < 0) {
    int64_t size = stream->offset + (int64_t)(stream->end - stream->begin);
    if (offset < 0 || offset > size) {
      return tsr_fail(TSR_ERR_IO, "%s: holds %lld bytes, but byte %lld is wanted", stream->name, (long long)size,
                      (long long)offset);
    }
    stream->begin = (size_t)offset;
  } else {
    struct stat facts;
    if (fstat(stream->descriptor, &facts) == 0 && S_ISREG(facts.st_mode) && (offset < 0 || offset > facts.st_size)) {
      return tsr_fail(TSR_ERR_IO, "%s: holds %lld bytes, but byte %lld is wanted", stream->name,
                      (long long)facts.st_size, (long long)offset);
    }
    if (lseek(stream->descriptor, (off_t)offset, SEEK_SET) < 0) {
      return tsr_fail(TSR_ERR_IO, "%s: cannot be read again from byte %lld: %s", stream->name, (long long)offset,
                      strerror(errno));
    }
    stream->begin = 0;
    stream->end = 0;
    stream->at_end = 0;
  }
  stream->offset = offset;
  return TSR_OK;
}

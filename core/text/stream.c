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

/* What is in the window turns out to be compressed bytes: they are the next to be decompressed. */
static tsr_status unpack_window(tsr_stream *stream)
{
  tsr_compressed *c = &stream->compressed;
  c->next = stream->window;
  c->left = stream->end;
  c->at_end = stream->at_end;
  if (stream->descriptor >= 0) {
    size_t room = CHUNK + TSR_COMPRESSED_MARK; /* fewer bytes than a mark, and then a whole chunk */
    stream->packed = malloc(room);
    if (!stream->packed) {
      return tsr_fail_memory(room);
    }
    memcpy(stream->packed, stream->window, c->left);
    c->next = stream->packed;
  }
  stream->end = 0;
  stream->at_end = 0;
  return TSR_OK;
}

/* Finds out at the beginning whether the stream is compressed. */
static tsr_status detect(tsr_stream *stream)
{
  while (stream->end < TSR_COMPRESSED_MARK && !stream->at_end) {
    TSR_TRY(tsr_stream_fill(stream));
  }
  TSR_TRY(tsr_compressed_begin(stream->name, stream->window, stream->end, &stream->compressed));
  return stream->compressed.codec ? unpack_window(stream) : TSR_OK;
}

static tsr_status open_file(tsr_stream *stream)
{
  struct stat facts;
  stream->descriptor = open(stream->name, O_RDONLY | O_CLOEXEC);
  if (stream->descriptor < 0) {
    return tsr_fail(TSR_ERR_IO, "%s: cannot be opened: %s", stream->name, strerror(errno));
  }
  if (fstat(stream->descriptor, &facts) == 0 && S_ISDIR(facts.st_mode)) {
    return tsr_fail(TSR_ERR_IO, "%s: expected a file, found a folder", stream->name);
  }
  return detect(stream);
}

tsr_status tsr_stream_open(const char *path, tsr_stream *stream)
{
  TSR_TRY(set_name(stream, path));
  tsr_status status = open_file(stream);
  if (status != TSR_OK) {
    tsr_stream_finish(stream);
  }
  return status;
}

tsr_status tsr_stream_view(const char *name, const void *bytes, size_t size, tsr_stream *stream)
{
  TSR_TRY(set_name(stream, name));
  stream->bytes = bytes;
  stream->size = size;
  stream->window = bytes;
  stream->end = size;
  stream->at_end = 1;
  tsr_status status = detect(stream);
  if (status != TSR_OK) {
    tsr_stream_finish(stream);
  }
  return status;
}

void tsr_stream_finish(tsr_stream *stream)
{
  if (stream->name && stream->descriptor >= 0) {
    close(stream->descriptor);
  }
  tsr_compressed_finish(&stream->compressed);
  free(stream->name);
  free(stream->buffer);
  free(stream->packed);
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

/* Reads at most a chunk of the file as it is. *got is 0 at its end. */
static tsr_status read_chunk(tsr_stream *stream, char *chunk, size_t *got)
{
  ssize_t count;
  do {
    count = read(stream->descriptor, chunk, CHUNK);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    return tsr_fail(TSR_ERR_IO, "%s: cannot be read: %s", stream->name, strerror(errno));
  }
  *got = (size_t)count;
  return TSR_OK;
}

/* Decompresses at most a chunk. *got is 0 at the end of the text. */
static tsr_status decompress_chunk(tsr_stream *stream, char *chunk, size_t *got)
{
  tsr_compressed *c = &stream->compressed;
  do {
    if (c->left == 0 && !c->at_end) {
      TSR_TRY(read_chunk(stream, stream->packed, &c->left));
      c->next = stream->packed;
      c->at_end = c->left == 0;
    }
    TSR_TRY(tsr_compressed_read(c, chunk, CHUNK, got));
  } while (*got == 0 && !(c->left == 0 && c->at_end));
  return TSR_OK;
}

tsr_status tsr_stream_fill(tsr_stream *stream)
{
  if (stream->at_end) {
    return TSR_OK;
  }
  TSR_TRY(make_room(stream));
  size_t got;
  char *chunk = stream->buffer + stream->end;
  TSR_TRY(stream->compressed.codec ? decompress_chunk(stream, chunk, &got) : read_chunk(stream, chunk, &got));
  stream->end += got;
  stream->at_end = got == 0;
  return TSR_OK;
}

void tsr_stream_skip(tsr_stream *stream, size_t size)
{
  stream->begin += size;
  stream->offset += (int64_t)size;
}

static tsr_status fail_beyond(const tsr_stream *stream, int64_t size, int64_t offset)
{
  return tsr_fail(TSR_ERR_IO, "%s: holds %lld bytes, but byte %lld is wanted", stream->name, (long long)size,
                  (long long)offset);
}

/* Nothing is in the window; what comes next is at `offset`. */
static void drop_window(tsr_stream *stream, int64_t offset)
{
  stream->begin = 0;
  stream->end = 0;
  stream->at_end = 0;
  stream->offset = offset;
}

/* The next bytes that are read are those at an offset of the file as it is. */
static tsr_status seek_file(tsr_stream *stream, int64_t offset)
{
  if (lseek(stream->descriptor, (off_t)offset, SEEK_SET) < 0) {
    return tsr_fail(TSR_ERR_IO, "%s: cannot be read again from byte %lld: %s", stream->name, (long long)offset,
                    strerror(errno));
  }
  drop_window(stream, offset);
  return TSR_OK;
}

/* Back to the text's beginning. */
static tsr_status restart_compressed(tsr_stream *stream)
{
  tsr_compressed *c = &stream->compressed;
  if (stream->descriptor >= 0) {
    TSR_TRY(seek_file(stream, 0));
    tsr_compressed_restart(c);
  } else {
    tsr_compressed_restart(c);
    c->next = stream->bytes;
    c->left = stream->size;
    c->at_end = 1;
    drop_window(stream, 0);
  }
  return TSR_OK;
}

static tsr_status seek_compressed(tsr_stream *stream, int64_t offset)
{
  if (offset < 0) {
    return tsr_fail(TSR_ERR_IO, "%s: has no byte %lld", stream->name, (long long)offset);
  }
  if (offset < stream->offset && stream->offset - offset <= (int64_t)stream->begin) {
    stream->begin -= (size_t)(stream->offset - offset);
    stream->offset = offset;
  } else if (offset < stream->offset) {
    TSR_TRY(restart_compressed(stream));
  }
  while (stream->offset < offset) {
    size_t unread = stream->end - stream->begin;
    int64_t wanted = offset - stream->offset;
    if (unread == 0 && stream->at_end) {
      return fail_beyond(stream, stream->offset, offset);
    }
    tsr_stream_skip(stream, (int64_t)unread < wanted ? unread : (size_t)wanted);
    if (stream->offset < offset) {
      TSR_TRY(tsr_stream_fill(stream));
    }
  }
  return TSR_OK;
}

tsr_status tsr_stream_seek(tsr_stream *stream, int64_t offset)
{
  if (stream->compressed.codec) {
    return seek_compressed(stream, offset);
  }
  if (stream->descriptor < 0) {
    int64_t size = (int64_t)stream->size;
    if (offset < 0 || offset > size) {
      return fail_beyond(stream, size, offset);
    }
    stream->begin = (size_t)offset;
    stream->offset = offset;
    return TSR_OK;
  }
  struct stat facts;
  if (fstat(stream->descriptor, &facts) == 0 && S_ISREG(facts.st_mode) && (offset < 0 || offset > facts.st_size)) {
    return fail_beyond(stream, facts.st_size, offset);
  }
  return seek_file(stream, offset);
}

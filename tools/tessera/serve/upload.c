/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/upload.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "tools/tessera/common/path.h"

static int refuse(upload *u, int status, const char *format, ...) TSR_PRINTF(3, 4);
static int refuse(upload *u, int status, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(u->problem, sizeof u->problem, format, arguments);
  va_end(arguments);
  u->status = status;
  return 0;
}

/* A file that goes when its descriptor is closed. The client's name of it is never used. */
static int open_file(upload *u)
{
  char *path = path_in_temporary("tessera-upload-XXXXXX");
  if (!path) {
    return refuse(u, 500, "The server is out of memory");
  }
  u->descriptor = mkstemp(path);
  const int is_open = u->descriptor >= 0;
  const int failed = errno;
  if (is_open) {
    (void)unlink(path);
  }
  free(path);
  return is_open || refuse(u, 500, "The file cannot be kept: %s", strerror(failed));
}

static int begin_part(void *user, const multipart_part *part)
{
  upload *u = user;
  u->is_file = part->is_file;
  memcpy(u->name, part->name, sizeof u->name);
  u->value_size = 0;
  if (part->is_file) {
    if (strcmp(part->name, "file") != 0 || u->has_file) {
      return refuse(u, 400, "Invalid request: one file is expected, with the name 'file'");
    }
    u->has_file = 1;
    return open_file(u);
  }
  if (strcmp(part->name, "file") == 0) {
    return refuse(u, 400, "Invalid request: 'file' has no filename, so it is no file");
  }
  if (++u->n_fields > UPLOAD_MOST_FIELDS) {
    return refuse(u, 400, "Invalid request: more than %d fields", UPLOAD_MOST_FIELDS);
  }
  return 1;
}

static int keep_file(upload *u, const char *bytes, size_t size)
{
  while (size > 0) {
    const ssize_t count = write(u->descriptor, bytes, size);
    if (count < 0 && errno != EINTR) {
      return refuse(u, 500, "The file cannot be kept: %s", strerror(errno));
    }
    if (count > 0) {
      bytes += count;
      size -= (size_t)count;
      u->size += count;
    }
  }
  return 1;
}

static int take_bytes(void *user, const char *bytes, size_t size)
{
  upload *u = user;
  if (u->is_file) {
    return keep_file(u, bytes, size);
  }
  if (u->fields_size + size > UPLOAD_FIELDS) {
    return refuse(u, 413, "The fields of the form have more than %d bytes", UPLOAD_FIELDS);
  }
  if (!u->value && !(u->value = malloc(UPLOAD_FIELDS))) {
    return refuse(u, 500, "The server is out of memory");
  }
  memcpy(u->value + u->value_size, bytes, size);
  u->value_size += size;
  u->fields_size += size;
  return 1;
}

static int end_part(void *user)
{
  upload *u = user;
  if (u->is_file) {
    return 1;
  }
  const int code = parameters_add(u->fields, u->name, u->value_size > 0 ? u->value : "", u->value_size);
  return code == PARAMETERS_OK || refuse(u, code, "The server is out of memory");
}

int upload_begin(upload *u, const char *content_type, parameters *fields)
{
  static const char form[] = "multipart/form-data";
  const multipart_handlers handlers = {.begin = begin_part, .bytes = take_bytes, .end = end_part, .user = u};
  *u = (upload){.fields = fields, .descriptor = -1};
  return content_type && strncasecmp(content_type, form, sizeof form - 1) == 0 &&
         multipart_begin(&u->reader, content_type, &handlers);
}

int upload_take(upload *u, const char *bytes, size_t size)
{
  if (!u->status && multipart_take(&u->reader, bytes, size) == MULTIPART_BAD) {
    (void)refuse(u, 400, "Invalid form data");
  }
  return u->status == 0;
}

int upload_end(upload *u)
{
  if (!u->status && u->reader.outcome != MULTIPART_DONE) {
    (void)refuse(u, 400, "Invalid form data: it ends before its last delimiter");
  }
  return u->status == 0;
}

void upload_finish(upload *u)
{
  if (u->descriptor >= 0) {
    close(u->descriptor);
  }
  free(u->value);
  u->descriptor = -1;
  u->value = NULL;
}

static tsr_status read_file(void *context, void *bytes, size_t size, size_t *got)
{
  upload *u = context;
  ssize_t count;
  if (u->is_over && u->is_over(u->user)) {
    return tsr_fail(TSR_ERR_CANCELLED, "nobody waits for it any more");
  }
  do {
    count = pread(u->descriptor, bytes, size, (off_t)u->at);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    return tsr_fail(TSR_ERR_IO, "the file cannot be read: %s", strerror(errno));
  }
  *got = (size_t)count;
  u->at += count;
  return TSR_OK;
}

static tsr_status seek_file(void *context, int64_t offset)
{
  ((upload *)context)->at = offset;
  return TSR_OK;
}

tsr_audio_source upload_source(upload *u)
{
  u->at = 0;
  return (tsr_audio_source){.read = read_file, .seek = seek_file, .context = u, .size = u->size};
}

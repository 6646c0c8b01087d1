/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/source.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/status.h"
#include "core/checkpoint/file.h"

tsr_source tsr_source_of_memory(const char *path, const void *bytes, size_t size)
{
  return (tsr_source){.path = path, .bytes = bytes, .size = size, .descriptor = -1};
}

static int is_file(const tsr_source *source)
{
  return source->descriptor >= 0 && source->size > 0;
}

tsr_status tsr_source_open(const char *path, tsr_source *source)
{
  static const unsigned char nothing[1];
  struct stat info;
  *source = tsr_source_of_memory(path, nothing, 0);
  int descriptor = -1;
  TSR_TRY(tsr_file_open(path, &descriptor, &info));
  void *bytes =
      info.st_size > 0 ? mmap(NULL, (size_t)info.st_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
  if (info.st_size > 0 && bytes == MAP_FAILED) {
    close(descriptor);
    return tsr_fail_memory((size_t)info.st_size);
  }
  source->descriptor = descriptor;
  source->size = (size_t)info.st_size;
  source->modified = info.st_mtim;
  if (source->size > 0) {
    source->bytes = bytes;
  }
  return TSR_OK;
}

void tsr_source_forget(tsr_source *source)
{
  if (is_file(source) && source->bytes) {
    munmap((void *)source->bytes, source->size);
    source->bytes = NULL;
  }
}

void tsr_source_close(tsr_source *source)
{
  tsr_source_forget(source);
  if (source->path && source->descriptor >= 0) {
    close(source->descriptor);
  }
  *source = (tsr_source){.descriptor = -1};
}

/* The pages that hold a range of bytes. */
static unsigned char *pages_of(const tsr_source *source, uint64_t at, uint64_t count, size_t *size)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t lead = (size_t)at % page;
  *size = lead + (size_t)count;
  return (unsigned char *)source->bytes + at - lead;
}

tsr_status tsr_source_need(const tsr_source *source, uint64_t at, uint64_t count)
{
  if (!is_file(source) || count == 0) {
    return TSR_OK;
  }
  size_t size = 0;
  unsigned char *pages = pages_of(source, at, count, &size);
  if (mprotect(pages, size, PROT_READ | PROT_WRITE) != 0) {
    return tsr_fail_memory(size);
  }
  return tsr_source_read(source, at, count, (unsigned char *)source->bytes + at);
}

void tsr_source_drop(const tsr_source *source, uint64_t at, uint64_t count)
{
  if (is_file(source) && count > 0) {
    size_t size = 0;
    unsigned char *pages = pages_of(source, at, count, &size);
    (void)madvise(pages, size, MADV_DONTNEED);
  }
}

tsr_status tsr_source_read(const tsr_source *source, uint64_t at, uint64_t count, void *out)
{
  enum { MOST = 1 << 30 }; /* what one call takes on every system */
  unsigned char *to = out;
  while (count > 0) {
    ssize_t n = pread(source->descriptor, to, count < MOST ? (size_t)count : (size_t)MOST, (off_t)at);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return tsr_fail(TSR_ERR_IO, "%s: cannot be read: %s", source->path, strerror(errno));
    }
    if (n == 0) {
      return tsr_fail(TSR_ERR_IO,
                      "%s: the file ends at byte %" PRIu64
                      " and had %zu bytes when it was opened: something writes it; try again when that is done",
                      source->path, at, source->size);
    }
    to += n;
    at += (uint64_t)n;
    count -= (uint64_t)n;
  }
  return TSR_OK;
}

tsr_status tsr_source_check(const tsr_source *source)
{
  struct stat info;
  if (!source->path || source->descriptor < 0) {
    return TSR_OK;
  }
  if (fstat(source->descriptor, &info) != 0) {
    return tsr_fail(TSR_ERR_IO, "%s: cannot be examined: %s", source->path, strerror(errno));
  }
  if ((uint64_t)info.st_size != source->size || info.st_mtim.tv_sec != source->modified.tv_sec ||
      info.st_mtim.tv_nsec != source->modified.tv_nsec) {
    return tsr_fail(TSR_ERR_IO, "%s: the file was written to while it was read: try again when that is done",
                    source->path);
  }
  return TSR_OK;
}

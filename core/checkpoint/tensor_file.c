/* SPDX-License-Identifier: Apache-2.0 */
#include "core/checkpoint/tensor_file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/status.h"
#include "core/checkpoint/file.h"

tsr_tensor_file tsr_tensor_file_of_memory(const char *path, const void *bytes, size_t size)
{
  return (tsr_tensor_file){.path = path, .bytes = bytes, .size = size, .descriptor = -1};
}

static int is_file(const tsr_tensor_file *file)
{
  return file->descriptor >= 0 && file->size > 0;
}

tsr_status tsr_tensor_file_open(const char *path, tsr_tensor_file *file)
{
  static const unsigned char nothing[1];
  struct stat info;
  *file = tsr_tensor_file_of_memory(path, nothing, 0);
  int descriptor = -1;
  TSR_TRY(tsr_file_open(path, &descriptor, &info));
  void *bytes =
      info.st_size > 0 ? mmap(NULL, (size_t)info.st_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
  if (info.st_size > 0 && bytes == MAP_FAILED) {
    close(descriptor);
    return tsr_fail_memory((size_t)info.st_size);
  }
  file->descriptor = descriptor;
  file->size = (size_t)info.st_size;
  file->modified = info.st_mtim;
  if (file->size > 0) {
    file->bytes = bytes;
  }
  return TSR_OK;
}

void tsr_tensor_file_forget(tsr_tensor_file *file)
{
  if (is_file(file) && file->bytes) {
    munmap((void *)file->bytes, file->size);
    file->bytes = NULL;
  }
}

void tsr_tensor_file_close(tsr_tensor_file *file)
{
  tsr_tensor_file_forget(file);
  if (file->path && file->descriptor >= 0) {
    close(file->descriptor);
  }
  *file = (tsr_tensor_file){.descriptor = -1};
}

/* The pages that hold a range of bytes. */
static unsigned char *pages_of(const tsr_tensor_file *file, uint64_t at, uint64_t count, size_t *size)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t lead = (size_t)at % page;
  *size = lead + (size_t)count;
  return (unsigned char *)file->bytes + at - lead;
}

tsr_status tsr_tensor_file_need(const tsr_tensor_file *file, uint64_t at, uint64_t count)
{
  if (!is_file(file) || count == 0) {
    return TSR_OK;
  }
  size_t size = 0;
  unsigned char *pages = pages_of(file, at, count, &size);
  if (mprotect(pages, size, PROT_READ | PROT_WRITE) != 0) {
    return tsr_fail_memory(size);
  }
  return tsr_tensor_file_read(file, at, count, (unsigned char *)file->bytes + at);
}

void tsr_tensor_file_drop(const tsr_tensor_file *file, uint64_t at, uint64_t count)
{
  if (is_file(file) && count > 0) {
    size_t size = 0;
    unsigned char *pages = pages_of(file, at, count, &size);
    (void)madvise(pages, size, MADV_DONTNEED);
  }
}

tsr_status tsr_tensor_file_read(const tsr_tensor_file *file, uint64_t at, uint64_t count, void *out)
{
  enum { MOST = 1 << 30 }; /* what one call takes on every system */
  unsigned char *to = out;
  while (count > 0) {
    ssize_t n = pread(file->descriptor, to, count < MOST ? (size_t)count : (size_t)MOST, (off_t)at);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return tsr_fail(TSR_ERR_IO, "%s: cannot be read: %s", file->path, strerror(errno));
    }
    if (n == 0) {
      return tsr_fail(TSR_ERR_IO,
                      "%s: the file ends at byte %" PRIu64
                      " and had %zu bytes when it was opened: something writes it; try again when that is done",
                      file->path, at, file->size);
    }
    to += n;
    at += (uint64_t)n;
    count -= (uint64_t)n;
  }
  return TSR_OK;
}

tsr_status tsr_tensor_file_check(const tsr_tensor_file *file)
{
  struct stat info;
  if (!file->path || file->descriptor < 0) {
    return TSR_OK;
  }
  if (fstat(file->descriptor, &info) != 0) {
    return tsr_fail(TSR_ERR_IO, "%s: cannot be examined: %s", file->path, strerror(errno));
  }
  if ((uint64_t)info.st_size != file->size || info.st_mtim.tv_sec != file->modified.tv_sec ||
      info.st_mtim.tv_nsec != file->modified.tv_nsec) {
    return tsr_fail(TSR_ERR_IO, "%s: the file was written to while it was read: try again when that is done",
                    file->path);
  }
  return TSR_OK;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory in pages.
 */
#include <windows.h>

#include "core/base/platform/windows/internal.h"
#include <sys/mman.h>

static int failed(void)
{
  win_set_errno(GetLastError());
  return -1;
}

void *win_mmap(void *where, size_t size, int protection, int flags, int descriptor, int64_t offset)
{
  (void)where, (void)descriptor, (void)offset;
  if (!(flags & MAP_ANONYMOUS)) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  void *bytes = protection == PROT_NONE ? VirtualAlloc(NULL, size, MEM_RESERVE, PAGE_NOACCESS)
                                        : VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  if (!bytes) {
    (void)failed();
    return MAP_FAILED;
  }
  return bytes;
}

int win_munmap(void *bytes, size_t size)
{
  (void)size;
  return VirtualFree(bytes, 0, MEM_RELEASE) ? 0 : failed();
}

int win_mprotect(void *bytes, size_t size, int protection)
{
  if (protection == PROT_NONE) {
    DWORD before;
    return VirtualProtect(bytes, size, PAGE_NOACCESS, &before) ? 0 : failed();
  }
  return VirtualAlloc(bytes, size, MEM_COMMIT, protection & PROT_WRITE ? PAGE_READWRITE : PAGE_READONLY) ? 0 : failed();
}

int win_madvise(void *bytes, size_t size, int advice)
{
  if (advice != MADV_DONTNEED) {
    return 0;
  }
  return VirtualFree(bytes, size, MEM_DECOMMIT) && VirtualAlloc(bytes, size, MEM_COMMIT, PAGE_READWRITE) ? 0 : failed();
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Anonymous memory in pages. What PROT_NONE reserves takes no memory until mprotect makes it readable.
 */
#ifndef TESSERA_CORE_BASE_PLATFORM_WINDOWS_MMAN_H
#define TESSERA_CORE_BASE_PLATFORM_WINDOWS_MMAN_H

#include <stddef.h>
#include <stdint.h>

enum { PROT_NONE = 0, PROT_READ = 1, PROT_WRITE = 2 };
enum { MAP_PRIVATE = 2, MAP_ANONYMOUS = 0x20 };
enum { MADV_DONTNEED = 4, MADV_HUGEPAGE = 14 };
#define MAP_FAILED ((void *)-1)

void *win_mmap(void *where, size_t size, int protection, int flags, int descriptor, int64_t offset);
int win_munmap(void *bytes, size_t size); /* the whole of what win_mmap returned */
int win_mprotect(void *bytes, size_t size, int protection);
int win_madvise(void *bytes, size_t size, int advice); /* MADV_DONTNEED: the pages are zeros again */
#define mmap     win_mmap
#define munmap   win_munmap
#define mprotect win_mprotect
#define madvise  win_madvise

#endif

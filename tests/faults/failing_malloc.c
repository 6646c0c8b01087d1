/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded before a program: allocation number TESSERA_FAIL_AT (from 1 on) fails, with TESSERA_FAIL_ALL=1 each one from
 * there on. At the end of a process that was not ended by a signal, the number of allocations goes to the file
 * TESSERA_FAIL_COUNT, if that is set.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* glibc's own names of what is replaced here. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t nmemb, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

#define EXPORT __attribute__((visibility("default")))

static atomic_long count;
static long fail_at;
static int fail_all;
static const char *count_file;

__attribute__((constructor)) static void start(void)
{
  const char *at = getenv("TESSERA_FAIL_AT");
  const char *all = getenv("TESSERA_FAIL_ALL");
  count_file = getenv("TESSERA_FAIL_COUNT");
  fail_all = all && strcmp(all, "1") == 0;
  fail_at = at ? strtol(at, NULL, 10) : 0;
  atomic_store(&count, 0);
}

__attribute__((destructor)) static void finish(void)
{
  char text[32];
  int descriptor = count_file ? open(count_file, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
  if (descriptor >= 0) {
    int length = snprintf(text, sizeof text, "%ld\n", atomic_load(&count));
    if (write(descriptor, text, (size_t)length) != length) {
      _exit(99);
    }
    close(descriptor);
  }
}

static int fails(void)
{
  long number = atomic_fetch_add(&count, 1) + 1;
  if (fail_at > 0 && (number == fail_at || (fail_all && number > fail_at))) {
    errno = ENOMEM;
    return 1;
  }
  return 0;
}

EXPORT void *malloc(size_t size)
{
  return fails() ? NULL : __libc_malloc(size);
}

EXPORT void *calloc(size_t nmemb, size_t size)
{
  return fails() ? NULL : __libc_calloc(nmemb, size);
}

EXPORT void *realloc(void *ptr, size_t size)
{
  return fails() ? NULL : __libc_realloc(ptr, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
  return fails() ? NULL : __libc_memalign(alignment, size);
}

EXPORT int posix_memalign(void **memptr, size_t alignment, size_t size)
{
  void *memory = fails() ? NULL : __libc_memalign(alignment, size);
  if (!memory) {
    return ENOMEM;
  }
  *memptr = memory;
  return 0;
}

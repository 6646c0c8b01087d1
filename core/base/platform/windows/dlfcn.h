/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared libraries, as POSIX opens them.
 */
#ifndef TESSERA_CORE_BASE_PLATFORM_WINDOWS_DLFCN_H
#define TESSERA_CORE_BASE_PLATFORM_WINDOWS_DLFCN_H

enum { RTLD_NOW = 2, RTLD_LOCAL = 0, RTLD_NOLOAD = 8 };
#define RTLD_DEFAULT ((void *)0) /* the running program */

typedef struct {
  const char *dli_fname; /* valid until the thread's next call of dladdr */
} Dl_info;

void *win_dlopen(const char *path, int flags);
void *win_dlsym(void *library, const char *name);
int win_dlclose(void *library);
char *win_dlerror(void); /* of the calling thread; NULL: nothing failed since it was asked last */
int win_dladdr(const void *address, Dl_info *info);
#define dlopen  win_dlopen
#define dlsym   win_dlsym
#define dlclose win_dlclose
#define dlerror win_dlerror
#define dladdr  win_dladdr

#endif

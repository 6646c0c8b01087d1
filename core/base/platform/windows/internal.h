/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this room share. They are compiled without posix.h's names: `open` is the C library's there.
 */
#ifndef TESSERA_CORE_BASE_PLATFORM_WINDOWS_INTERNAL_H
#define TESSERA_CORE_BASE_PLATFORM_WINDOWS_INTERNAL_H

#include <wchar.h>

/* Sets errno after a call of Windows that failed with that code. */
void win_set_errno(unsigned long code);

/* The name of a file as Windows takes it, of any length; /dev/null is NUL. The caller frees it; NULL: errno tells. */
wchar_t *win_path(const char *path);

wchar_t *win_wide(const char *text);   /* the caller frees it; NULL: errno tells */
char *win_narrow(const wchar_t *text); /* the caller frees it; NULL: errno tells */
char *win_plain_path(wchar_t *path);   /* as win_narrow, with '/', without "\\?\" */

/* What a process has used; process: its HANDLE. */
struct rusage;
int win_usage_of(void *process, struct rusage *usage);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns of names.
 */
#ifndef TESSERA_CORE_BASE_PLATFORM_WINDOWS_FNMATCH_H
#define TESSERA_CORE_BASE_PLATFORM_WINDOWS_FNMATCH_H

enum { FNM_NOMATCH = 1 };

/* As in a shell: * for any characters, ? for one, [a-z] for one of a set, [!a-z] for one not of it, \ before one that
 * stands for itself. flags: 0. */
int win_fnmatch(const char *pattern, const char *text, int flags);
#define fnmatch win_fnmatch

#endif

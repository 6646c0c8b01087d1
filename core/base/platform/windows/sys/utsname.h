/* SPDX-License-Identifier: Apache-2.0
 *
 * The system's name and version.
 */
#ifndef TESSERA_CORE_BASE_PLATFORM_WINDOWS_UTSNAME_H
#define TESSERA_CORE_BASE_PLATFORM_WINDOWS_UTSNAME_H

struct utsname {
  char sysname[16];
  char release[64]; /* "10.0.19045" */
  char machine[16];
};

int win_uname(struct utsname *system);
#define uname win_uname

#endif

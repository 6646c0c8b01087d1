/* SPDX-License-Identifier: Apache-2.0
 *
 * The user's name.
 */
#ifndef TESSERA_CORE_BASE_PLATFORM_WINDOWS_PWD_H
#define TESSERA_CORE_BASE_PLATFORM_WINDOWS_PWD_H

struct passwd {
  char *pw_name;
};

struct passwd *win_getpwuid(unsigned user); /* user: 0; NULL: not known */
#define getpwuid win_getpwuid

#endif

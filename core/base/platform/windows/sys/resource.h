/* SPDX-License-Identifier: Apache-2.0
 *
 * What the process has used.
 */
#ifndef TESSERA_CORE_BASE_PLATFORM_WINDOWS_RESOURCE_H
#define TESSERA_CORE_BASE_PLATFORM_WINDOWS_RESOURCE_H

#include <sys/time.h>

enum { RUSAGE_SELF = 0 };

struct rusage {
  struct timeval ru_utime, ru_stime;
  long ru_maxrss; /* KiB */
};

int win_getrusage(int who, struct rusage *usage);
#define getrusage win_getrusage

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/serve/clock.h"

double clock_seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

struct timespec clock_until(double seconds)
{
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  long long nanoseconds = at.tv_nsec + (long long)(seconds * 1e9);
  at.tv_sec += (time_t)(nanoseconds / 1000000000);
  at.tv_nsec = (long)(nanoseconds % 1000000000);
  return at;
}

void clock_condition(pthread_cond_t *condition)
{
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attributes);
  pthread_condattr_destroy(&attributes);
}

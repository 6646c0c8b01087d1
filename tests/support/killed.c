/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/killed.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#ifndef _WIN32
#include <sys/wait.h>
#endif
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tessera/philox.h"

#ifdef _WIN32

/* A process cannot be copied there: tools/cross/check kills a program instead. */
void killed_lap(int laps)
{
  (void)laps;
}

void kill_at_work(killed_fn work, void *context, uint32_t seed)
{
  (void)work, (void)context, (void)seed;
  skip();
}

#else

void killed_lap(int laps)
{
  if (write(laps, "", 1) != 1) {
    _exit(2);
  }
}

static double now(void)
{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

void kill_at_work(killed_fn work, void *context, uint32_t seed)
{
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  double begin = now();
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    work(context, ends[1]);
    _exit(1);
  }
  close(ends[1]);
  char lap;
  ssize_t laps = read(ends[0], &lap, 1);
  double seconds = now() - begin;
  uint32_t random[4];
  tsr_philox4x32((const uint32_t[4]){seed}, (const uint32_t[2]){2026}, random);
  double share = (double)random[0] / 4294967296.0;
  usleep((useconds_t)(2e6 * share * (seconds < 0.2 ? seconds : 0.2)));
  kill(child, SIGKILL);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  close(ends[0]);
  assert_true(laps == 1 && WIFSIGNALED(status));
}

#endif

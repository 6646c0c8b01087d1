/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded before the server: a thread that has given an answer, and woken the one that sends it, waits SLOW_ANSWER_MS
 * milliseconds behind each of the next locks that it lets go, as a thread does that has to wait for a processor. Where
 * the program ends while such a thread still waits, its exit code is 99.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { PAUSES = 12, STILL_WAITS = 99 };

static int (*wake)(int descriptor, eventfd_t value);
static int (*let_go)(pthread_mutex_t *lock);
static struct timespec pause_after;
static _Thread_local int left; /* pauses that this thread has still to make */
static atomic_int n_waiting;

__attribute__((constructor)) static void start(void)
{
  const char *text = getenv("SLOW_ANSWER_MS");
  const long ms = text ? strtol(text, NULL, 10) : 0;
  pause_after = (struct timespec){ms / 1000, ms % 1000 * 1000000};
  *(void **)&wake = dlsym(RTLD_NEXT, "eventfd_write");
}

__attribute__((destructor)) static void end(void)
{
  if (atomic_load(&n_waiting) > 0) {
    _exit(STILL_WAITS);
  }
}

__attribute__((visibility("default"))) int eventfd_write(int descriptor, eventfd_t value)
{
  left = gettid() != getpid() ? PAUSES : 0; /* the first thread wakes the other when the server ends */
  return wake(descriptor, value);
}

__attribute__((visibility("default"))) int pthread_mutex_unlock(pthread_mutex_t *lock)
{
  if (!let_go) { /* locks are used before `start` */
    *(void **)&let_go = dlsym(RTLD_NEXT, "pthread_mutex_unlock");
  }
  const int status = let_go(lock);
  if (left > 0) {
    left--;
    atomic_fetch_add(&n_waiting, 1);
    nanosleep(&pause_after, NULL);
    atomic_fetch_sub(&n_waiting, 1);
  }
  return status;
}

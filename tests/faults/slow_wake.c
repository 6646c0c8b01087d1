/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded before a program: who waits for a condition looks at it again after SLOW_WAKE_MS milliseconds, whether it was
 * woken or not, as a thread does that has to wait for a processor.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static struct timespec pause_between;

__attribute__((constructor)) static void start(void)
{
  const char *text = getenv("SLOW_WAKE_MS");
  const long ms = text ? strtol(text, NULL, 10) : 0;
  pause_between = (struct timespec){ms / 1000, ms % 1000 * 1000000};
}

__attribute__((visibility("default"))) int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock)
{
  (void)condition;
  pthread_mutex_unlock(lock);
  nanosleep(&pause_between, NULL);
  return pthread_mutex_lock(lock);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded before a program: who received bytes from a socket waits SLOW_RECEIVE_MS milliseconds before it goes on,
 * as a thread does that has to wait for a processor.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

static ssize_t (*receive)(int socket, void *bytes, size_t size, int flags);
static struct timespec pause_after;

__attribute__((constructor)) static void start(void)
{
  const char *text = getenv("SLOW_RECEIVE_MS");
  long ms = text ? strtol(text, NULL, 10) : 0;
  pause_after = (struct timespec){ms / 1000, ms % 1000 * 1000000};
  *(void **)&receive = dlsym(RTLD_NEXT, "recv");
}

__attribute__((visibility("default"))) ssize_t recv(int socket, void *bytes, size_t size, int flags)
{
  ssize_t got = receive(socket, bytes, size, flags);
  if (got > 0 && !(flags & MSG_PEEK)) {
    nanosleep(&pause_after, NULL);
  }
  return got;
}

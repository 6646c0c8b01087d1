/* SPDX-License-Identifier: Apache-2.0
 *
 * Loaded before the server: ends it if the first thread takes a socket from those that another thread waits for, which
 * libmicrohttpd does not bear.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

__attribute__((visibility("default"))) int epoll_ctl(int list, int operation, int socket, struct epoll_event *event)
{
  int (*control)(int, int, int, struct epoll_event *);
  *(void **)&control = dlsym(RTLD_NEXT, "epoll_ctl");
  if (operation == EPOLL_CTL_DEL && gettid() == getpid()) {
    abort();
  }
  return control(list, operation, socket, event);
}

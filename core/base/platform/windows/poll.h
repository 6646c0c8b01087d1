/* SPDX-License-Identifier: Apache-2.0
 *
 * Waiting for pipes that can be read.
 */
#ifndef TESSERA_CORE_BASE_PLATFORM_WINDOWS_POLL_H
#define TESSERA_CORE_BASE_PLATFORM_WINDOWS_POLL_H

enum { POLLIN = 1, POLLERR = 8, POLLHUP = 16 };

struct pollfd {
  int fd; /* a pipe's end; negative: none */
  short events;
  short revents;
};

int win_poll(struct pollfd *pipes, unsigned n, int milliseconds);
#define poll win_poll

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * How a process that posix_spawn started has ended.
 */
#ifndef TESSERA_CORE_BASE_PLATFORM_WINDOWS_WAIT_H
#define TESSERA_CORE_BASE_PLATFORM_WINDOWS_WAIT_H

#include <sys/resource.h>
#include <sys/types.h>

enum { WNOHANG = 1 };

#define WIFEXITED(how)   (((how)&0x7f) == 0)
#define WEXITSTATUS(how) ((how) >> 8 & 0xff)
#define WIFSIGNALED(how) (((how)&0x7f) != 0)
#define WTERMSIG(how)    ((how)&0x7f)

/* usage: NULL, or what the process has used. */
pid_t win_wait4(pid_t process, int *how, int options, struct rusage *usage);
#define wait4                        win_wait4
#define waitpid(process, how, flags) win_wait4(process, how, flags, NULL)

#endif

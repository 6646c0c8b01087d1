/* SPDX-License-Identifier: Apache-2.0
 *
 * Other programs, started with streams of the caller's choice.
 */
#ifndef TESSERA_CORE_BASE_PLATFORM_WINDOWS_SPAWN_H
#define TESSERA_CORE_BASE_PLATFORM_WINDOWS_SPAWN_H

#include <sys/types.h>

enum { POSIX_SPAWN_SETPGROUP = 2 };

typedef struct {
  int source[3]; /* of its standard streams; -1: the caller's own */
} win_spawn_streams;

typedef struct {
  short flags;
} win_spawn_attributes;

int win_spawn_streams_init(win_spawn_streams *streams);
int win_spawn_streams_add(win_spawn_streams *streams, int from, int to); /* to: 0, 1, 2 */

/* program: its path. With POSIX_SPAWN_SETPGROUP the process and all that it starts are a group, which ends when the
 * caller ends. Returns 0, or an errno. */
int win_spawn(pid_t *process, const char *program, const win_spawn_streams *streams,
              const win_spawn_attributes *attributes, char *const *words, char *const *environment);

#define posix_spawn_file_actions_t          win_spawn_streams
#define posix_spawn_file_actions_init       win_spawn_streams_init
#define posix_spawn_file_actions_adddup2    win_spawn_streams_add
#define posix_spawn_file_actions_destroy(x) ((void)(x))
#define posix_spawnattr_t                   win_spawn_attributes
#define posix_spawnattr_init(x)             ((x)->flags = 0)
#define posix_spawnattr_setflags(x, wanted) ((x)->flags = (wanted), 0)
#define posix_spawnattr_destroy(x)          ((void)(x))
#define posix_spawn                         win_spawn

#endif

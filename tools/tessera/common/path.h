/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of files.
 */
#ifndef TESSERA_TOOLS_PATH_H
#define TESSERA_TOOLS_PATH_H

#include <stddef.h>

int path_exists(const char *path); /* 1 also for a folder */
int path_is_folder(const char *path);

/* "folder/name", allocated; the caller frees it. NULL: memory ran out. */
char *path_join(const char *folder, const char *name);

/* Writes the path of the running program, which holds a '/'. Returns 0 where the system does not tell it, or where it
 * has `size` bytes or more. */
int path_of_program(char *path, size_t size);

/* Replaces this process by the program anew. arguments: the first is its name, NULL ends them. If a dynamic loader was
 * started with the program's path (as tools/lab/with does), it is again, with the same options. Returns after a failure
 * alone, with errno. */
void path_execute_again(const char *const *arguments);

#endif

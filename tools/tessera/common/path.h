/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of files.
 */
#ifndef TESSERA_TOOLS_PATH_H
#define TESSERA_TOOLS_PATH_H

#include <stddef.h>

int path_exists(const char *path); /* 1 also for a folder */

/* 1 if the file may be written, or made in its folder; otherwise errno says why not. */
int path_is_writable(const char *path);
int path_is_folder(const char *path);

/* "folder/name", allocated; the caller frees it. NULL: memory ran out. */
char *path_join(const char *folder, const char *name);

/* Writes the path of the running program, which holds a '/'. Returns 0 where the system does not tell it, or where it
 * has `size` bytes or more. */
int path_of_program(char *path, size_t size);

/* "folder/name" in the folder for temporary files, allocated; the caller frees it. NULL: memory ran out. */
char *path_in_temporary(const char *name);

/* Removes a file, or a folder with all that lies in it; follows no link. Returns 0, or an errno. */
int path_remove_all(const char *path);

#endif

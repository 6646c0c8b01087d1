/* SPDX-License-Identifier: Apache-2.0
 *
 * Paths of files.
 */
#ifndef TESSERA_TOOLS_PATH_H
#define TESSERA_TOOLS_PATH_H

int path_exists(const char *path); /* 1 also for a folder */
int path_is_folder(const char *path);

/* "folder/name", allocated; the caller frees it. NULL: memory ran out. */
char *path_join(const char *folder, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder that lives as long as a test.
 */
#ifndef TESSERA_TESTS_TEMPORARY_H
#define TESSERA_TESTS_TEMPORARY_H

#include <stddef.h>

/* Makes a folder under TMPDIR (default /tmp). *folder is freed by remove_temporary_folder. */
char *make_temporary_folder(void);

/* Removes the folder with the files in it, and frees the name. */
void remove_temporary_folder(char *folder);

/* "folder/name"; valid until the fourth call after this one. */
const char *path_in(const char *folder, const char *name);

void write_file(const char *path, const void *bytes, size_t size);
void write_text(const char *path, const char *text);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Files as read-only memory, and paths.
 */
#ifndef TESSERA_CORE_FILE_H
#define TESSERA_CORE_FILE_H

#include "tessera/status.h"

typedef struct tsr_file {
  const void *bytes; /* NULL only after tsr_file_unmap: an empty file has an address too */
  size_t size;
} tsr_file;

/* Maps a whole regular file. The content must not shrink while it is mapped. Call tsr_file_unmap after success. Errors:
 * TSR_ERR_IO (not there, a folder, no permission), naming the file. */
tsr_status tsr_file_map(const char *path, tsr_file *file) TSR_MUST_CHECK;
void tsr_file_unmap(tsr_file *file); /* takes a zeroed one */

/* Gives back the memory that its pages take for now; they are read again when they are needed. Takes a zeroed one. */
void tsr_file_release(const tsr_file *file);

int tsr_path_is_folder(const char *path);
int tsr_path_exists(const char *path); /* 1 also for a folder */

/* 1 for the name of a file that lies in the folder it is looked for in: no path, and not hidden. A name with a folder in
 * it could reach any file of the machine. */
int tsr_path_is_plain(const char *name);

/* "folder/name", allocated; the caller frees it. NULL without memory, the message being set. */
char *tsr_path_join(const char *folder, const char *name);

#endif

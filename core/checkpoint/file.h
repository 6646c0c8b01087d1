/* SPDX-License-Identifier: Apache-2.0
 *
 * Files as memory, and paths.
 */
#ifndef TESSERA_CORE_FILE_H
#define TESSERA_CORE_FILE_H

#include <sys/stat.h>

#include "tessera/status.h"

typedef struct tsr_file {
  const void *bytes; /* NULL only after tsr_file_free: an empty file has an address too */
  size_t size;
} tsr_file;

/* Reads a whole regular file into memory; a file of tensors is better opened as a tsr_tensor_file. Call tsr_file_free
 * after
 * success. Errors: TSR_ERR_IO (not there, a folder, no permission), naming the file; TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_file_read(const char *path, tsr_file *file) TSR_MUST_CHECK;
void tsr_file_free(tsr_file *file); /* takes a zeroed one */

/* Opens a regular file for reading, never waiting for a pipe's writer; *descriptor is the caller's to close after
 * success.
 * Errors: TSR_ERR_IO, naming the file. */
tsr_status tsr_file_open(const char *path, int *descriptor, struct stat *info) TSR_MUST_CHECK;

/* TSR_OK if there is such a folder. `what`: "a model's folder", for the message. Errors: TSR_ERR_IO, naming the path,
 * which is not there, or a file. */
tsr_status tsr_folder_expect(const char *path, const char *what) TSR_MUST_CHECK;

int tsr_path_is_folder(const char *path);
int tsr_path_exists(const char *path); /* 1 also for a folder */

/* 1 for the name of a file that lies in the folder it is looked for in: no path, and not hidden. A name with a folder
 * in it could reach any file of the machine. */
int tsr_path_is_plain(const char *name);

/* "folder/name", allocated; the caller frees it. NULL without memory, the message being set. */
char *tsr_path_join(const char *folder, const char *name);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/files.h: files that replace others in one step. The library writes models and checkpoints like that: under a
 * temporary name in the same folder, synced, renamed. A machine or a program that stops at any moment leaves the old
 * file or the new one, never a part of it.
 *
 * The temporary file of PATH is PATH.partial. Its writer holds a lock on it, which ends with the process. So the next
 * writer overwrites what a killed process left, and if two write the same file at once, one is refused.
 */
#ifndef TESSERA_FILES_H
#define TESSERA_FILES_H

#include "tessera/status.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a whole file. Any thread. Errors: TSR_ERR_IO (no such folder, no permission, no space is left), naming the
 * file; TSR_ERR_BUSY (another process, or another thread, writes the file). The old file stands, unless it was only the
 * folder that could not be synced. */
TSR_API tsr_status tsr_file_replace(const char *path, const void *bytes, size_t size) TSR_MUST_CHECK;

/* The same for a file that is written piece by piece. One thread at a time. */
typedef struct tsr_file_writer tsr_file_writer;

/* Opens the temporary file, empty. *writer is the caller's until it is committed or abandoned. Errors: TSR_ERR_IO (as
 * above), naming the file; TSR_ERR_BUSY (another process, or another writer of this one, writes the file). */
TSR_API tsr_status tsr_file_writer_open(const char *path, tsr_file_writer **writer) TSR_MUST_CHECK;

/* Appends `size` bytes. Errors: TSR_ERR_IO (no space is left), naming the file; the writer is then to be abandoned. */
TSR_API tsr_status tsr_file_writer_write(tsr_file_writer *writer, const void *bytes, size_t size) TSR_MUST_CHECK;

/* Brings the bytes to the disk and puts them in the file's place. Frees the writer in any case, and makes *writer NULL.
 * On an error the temporary file is removed, and the old file stands, unless it was only the folder that could not be
 * synced. */
TSR_API tsr_status tsr_file_writer_commit(tsr_file_writer **writer) TSR_MUST_CHECK;

/* Removes the temporary file and frees the writer; the old file stands. Takes NULL. */
TSR_API void tsr_file_writer_abandon(tsr_file_writer *writer);

/* Makes a folder, and those above it, where they are missing. Any thread. Errors: TSR_ERR_IO, naming the folder. */
TSR_API tsr_status tsr_folder_make(const char *path) TSR_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif

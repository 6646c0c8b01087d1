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

/* Writes a whole file. Any thread. Errors: TSR_ERR_IO (no such folder, no permission, no space is left, another process
 * writes the file), naming the file; the old one stands, unless it was only the folder that could not be synced. */
TSR_API tsr_status tsr_file_replace(const char *path, const void *bytes, size_t size) TSR_MUST_CHECK;

/* Makes a folder, and those above it, where they are missing. Any thread. Errors: TSR_ERR_IO, naming the folder. */
TSR_API tsr_status tsr_folder_make(const char *path) TSR_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif

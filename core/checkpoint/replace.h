/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that take the place of others in one step: written under a temporary name in the same folder, synced, renamed.
 * A machine or a program that stops at any moment leaves the old file or the new one, never a part of it.
 *
 * The temporary of PATH is PATH.partial. Its writer holds a lock on it, which ends with the process: what a killed one
 * left is overwritten by the next, and of two that write the same file at once one is refused.
 */
#ifndef TESSERA_CORE_REPLACE_H
#define TESSERA_CORE_REPLACE_H

#include "tessera/status.h"

#define TSR_PARTIAL_SUFFIX ".partial"

typedef struct tsr_replacement {
  const char *path; /* of the file to be; the caller's */
  char *temporary;  /* NULL: nothing is under way */
  int descriptor;
} tsr_replacement;

/* Opens the temporary, empty. `path` outlives *replacement, which is to be committed or abandoned after success.
 * Errors: TSR_ERR_IO (no such folder, no permission, another process writes the file), naming the file. */
tsr_status tsr_replacement_begin(const char *path, tsr_replacement *replacement) TSR_MUST_CHECK;

/* Appends `size` bytes. Errors: TSR_ERR_IO (no space is left), naming the file; the replacement is to be abandoned. */
tsr_status tsr_replacement_write(tsr_replacement *replacement, const void *bytes, size_t size) TSR_MUST_CHECK;

/* Brings the bytes to the disk and puts them in the file's place. The replacement is over in any case: on an error the
 * temporary is removed, and the old file stands, unless it was only the folder that could not be synced. */
tsr_status tsr_replacement_commit(tsr_replacement *replacement) TSR_MUST_CHECK;

/* Removes the temporary; the old file stands. Takes one that is over. */
void tsr_replacement_abandon(tsr_replacement *replacement);

/* A whole file in one call. Errors: TSR_ERR_IO. */
tsr_status tsr_file_replace(const char *path, const void *bytes, size_t size) TSR_MUST_CHECK;

/* Makes a folder, and those above it, where they are missing. Errors: TSR_ERR_IO. */
tsr_status tsr_folder_make(const char *path) TSR_MUST_CHECK;

#endif

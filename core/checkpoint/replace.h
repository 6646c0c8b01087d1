/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/files.h for files that are written piece by piece.
 */
#ifndef TESSERA_CORE_REPLACE_H
#define TESSERA_CORE_REPLACE_H

#include "tessera/files.h"

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

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of tensors while it is read, or the same bytes in memory.
 *
 * Files are not mapped: a file that shrinks under a mapping ends the program by a signal. Instead the addresses of the
 * whole file are reserved, and readers of its head ask for the bytes that they are about to look at; elements of
 * tensors are read to where they go. A file that became shorter, or that was written to meanwhile, is an error that
 * names it.
 */
#ifndef TESSERA_CORE_TENSOR_FILE_H
#define TESSERA_CORE_TENSOR_FILE_H

#include <time.h>

#include "tessera/status.h"

typedef struct tsr_tensor_file {
  const char *path; /* for messages; the caller's */
  const unsigned char
      *bytes; /* [size]; of a file: addresses, with what was asked for; NULL after tsr_tensor_file_forget */
  size_t size;
  int descriptor;           /* -1: all of it is in memory */
  struct timespec modified; /* of the file, when it was opened */
} tsr_tensor_file;

/* Bytes in the caller's memory. */
tsr_tensor_file tsr_tensor_file_of_memory(const char *path, const void *bytes, size_t size);

/* Opens a regular file; `path` outlives it. To be closed after success. Errors: TSR_ERR_IO, TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_tensor_file_open(const char *path, tsr_tensor_file *file) TSR_MUST_CHECK;
void tsr_tensor_file_close(tsr_tensor_file *file); /* takes a zeroed one */

/* Makes bytes at .. at+count-1, which lie within the file, readable at file->bytes + at. Errors: TSR_ERR_IO (the file
 * has become shorter, or cannot be read), TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_tensor_file_need(const tsr_tensor_file *file, uint64_t at, uint64_t count) TSR_MUST_CHECK;

/* Gives back the memory of bytes that were asked for, for good; and that of all, with the addresses. Memory of the
 * caller's stays as it is. */
void tsr_tensor_file_drop(const tsr_tensor_file *file, uint64_t at, uint64_t count);
void tsr_tensor_file_forget(tsr_tensor_file *file);

/* Copies bytes of a file to memory. Any thread. Errors: TSR_ERR_IO. */
tsr_status tsr_tensor_file_read(const tsr_tensor_file *file, uint64_t at, uint64_t count, void *out) TSR_MUST_CHECK;

/* TSR_ERR_IO if the file has another size or time of modification than when it was opened: what was read of it is then
 * part old, part new. */
tsr_status tsr_tensor_file_check(const tsr_tensor_file *file) TSR_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of records that this machine writes and reads back. Functions that return int return exit codes.
 */
#ifndef TESSERA_TOOLS_CORPUS_SPOOL_H
#define TESSERA_TOOLS_CORPUS_SPOOL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Zero it. */
typedef struct spool {
  char *path;
  FILE *file;
} spool;

/* Opens folder/NAME-NNN, empty, or to be read from its beginning. Finish it after a failure, too. */
int spool_create(spool *s, const char *folder, const char *name, int32_t number);
int spool_open(spool *s, const char *folder, const char *name, int32_t number);

/* Closes a file that was written; tells what could not be. */
int spool_close(spool *s);

/* Brings what was written to the disk. */
int spool_sync(spool *s);
void spool_finish(spool *s); /* takes a zeroed one */

/* Closes and removes it. */
void spool_remove(spool *s);

/* Tells that a file is not what was written; returns the exit code for that. */
int spool_fail(const spool *s);

/* The path of folder/NAME-NNN; to be freed. NULL: memory ran out. */
char *spool_path(const char *folder, const char *name, int32_t number);

int spool_put(spool *s, const void *bytes, size_t size);

/* A text has less than 2^32 bytes. */
int spool_put_text(spool *s, const char *text, size_t size);

/* *got is 0 at the end. A file that ends within a record is an error. */
int spool_get(spool *s, void *bytes, size_t size, int *got);

typedef struct spool_text {
  char *bytes; /* allocated; not NUL-terminated */
  size_t size;
  size_t room;
} spool_text;

/* The next text; at the end of the file, an error. */
int spool_get_text(spool *s, spool_text *text);

#endif

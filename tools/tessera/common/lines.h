/* SPDX-License-Identifier: Apache-2.0
 *
 * Text in and out, line by line. Functions that return int return exit codes (message.h).
 */
#ifndef TESSERA_TOOLS_LINES_H
#define TESSERA_TOOLS_LINES_H

#include <stdint.h>
#include <stdio.h>

typedef struct tsr_cli_lines {
  const char *name; /* for messages: the path, or "standard input" */
  FILE *file;
  char *text;     /* the line that was read last, without its end; NUL-terminated, but may contain NUL bytes */
  size_t size;    /* its bytes */
  size_t room;    /* allocated */
  int64_t number; /* of the line, from 1 */
} tsr_cli_lines;

/* path: a file; NULL or "-": standard input. Borrowed. Finish it after success only. */
int tsr_cli_lines_open(tsr_cli_lines *lines, const char *path);
void tsr_cli_lines_finish(tsr_cli_lines *lines);

/* The path of an input for who reads it by itself: "-" is standard input; NULL stays NULL. */
const char *tsr_cli_path(const char *name);

/* Reads the next line, of any length; LF, CR LF and the end of the file end one; bytes are passed on as they are, but
 * for a byte order mark at the beginning, which is left out. *got is 0 at the end. A file that begins as UTF-16, or as
 * one that is compressed or no text, is refused. */
int tsr_cli_lines_next(tsr_cli_lines *lines, int *got);

/* Before long work whose result is a file: says so if the file is not there and cannot be made. NULL: there is none. */
int tsr_cli_check_output(const char *path);

/* Flushes stdout; if something could not be written, says so. */
int tsr_cli_flush(void);

/* Prints a text as one line: what would end it within the text becomes a blank. */
void tsr_cli_put_line(const char *text);

#endif

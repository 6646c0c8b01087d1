/* SPDX-License-Identifier: Apache-2.0
 *
 * What the subcommands of `tessera` share: exit codes, messages, options, devices, text input, tables, JSON, progress.
 *
 * Functions below that return int return one of the exit codes: TSR_EXIT_OK, or another after they printed the reason. All
 * of it is for one thread.
 */
#ifndef TESSERA_TOOLS_COMMON_H
#define TESSERA_TOOLS_COMMON_H

#include <getopt.h>
#include <jansson.h>
#include <stdio.h>

#include "tessera/runtime.h"

/* Documented in README.md and in `tessera --help`; never renumbered. */
enum {
  TSR_EXIT_OK = 0,
  TSR_EXIT_MISMATCH = 1, /* a check found a difference */
  TSR_EXIT_USAGE = 2,    /* the command line is wrong */
  TSR_EXIT_INPUT = 3,    /* a file, a model or a text is missing or bad, or output could not be written */
  TSR_EXIT_DEVICE = 4,   /* a device or a backend is missing or failed */
  TSR_EXIT_MEMORY = 5,   /* host memory ran out */
  TSR_EXIT_INTERNAL = 6  /* a mistake of the program */
};

/* ------------------------------------------------------------------------------------------------------------------
 * Messages: "tessera: ..." on stderr
 */
void tsr_cli_error(const char *format, ...) TSR_PRINTF(1, 2);
void tsr_cli_warning(const char *format, ...) TSR_PRINTF(1, 2);

/* The exit code that stands for a status. */
int tsr_cli_exit_code(tsr_status status);

/* Prints the thread's error message and returns the exit code of `status`; TSR_OK prints nothing. */
int tsr_cli_fail(tsr_status status);

/* The same where a file was read: what this build does not support is then the input's fault, not the device's. */
int tsr_cli_fail_input(tsr_status status);

/* Prints "tessera: COMMAND: ..." and where help is to be had; returns TSR_EXIT_USAGE. */
int tsr_cli_usage(const char *command, const char *format, ...) TSR_PRINTF(2, 3);

/* Reports allocation failure; returns TSR_EXIT_MEMORY. */
int tsr_cli_no_memory(void);

/* ------------------------------------------------------------------------------------------------------------------
 * Options
 */

/* getopt_long without its own messages: returns an option's `val`, -1 at the end, or '?' after an error was printed
 * (return TSR_EXIT_USAGE then). Every option is long; of short ones only -h exists, and tells as 'h'. */
int tsr_cli_option(int argc, char **argv, const struct option *options);

/* The same for all of a command line: hands each option, its value and `wish` to `take`, until that returns another exit code than
 * TSR_EXIT_OK, and returns the last one. --help ends it, too, without `take`, and sets *help to 1; else *help stays as it is. For
 * '?' `take` returns TSR_EXIT_USAGE. */
typedef int (*tsr_cli_take_fn)(int option, char *value, void *wish);
int tsr_cli_options(int argc, char **argv, const struct option *options, tsr_cli_take_fn take, void *wish, int *help);

/* Prints help to stdout; returns TSR_EXIT_OK. */
int tsr_cli_help(const char *text);

/* A subcommand that keeps what it works with in one struct, its session. */
typedef struct tsr_cli_command {
  size_t session_size;
  int (*parse)(int argc, char **argv, void *session, int *finished); /* *finished: help was printed */
  int (*run)(void *session);
  void (*finish)(void *session); /* after a failure too */
} tsr_cli_command;

/* Makes a zeroed session, parses, runs and finishes it; returns the exit code. */
int tsr_cli_run(const tsr_cli_command *command, int argc, char **argv);

/* A whole decimal number, low .. high. `what` names it in the message, as the user typed it ("--beam"). */
int tsr_cli_integer(const char *command, const char *what, const char *text, int64_t low, int64_t high, int64_t *value);

/* The same into an int32_t. */
int tsr_cli_int32(const char *command, const char *what, const char *text, int32_t low, int32_t high, int32_t *value);

/* A finite number, low .. high. */
int tsr_cli_number(const char *command, const char *what, const char *text, double low, double high, double *value);

/* "f32", "f16", "bf16", "int8" (TSR_I8). */
int tsr_cli_precision(const char *command, const char *what, const char *text, tsr_dtype *value);

/* Such a name; "stored" for 0. */
const char *tsr_cli_precision_name(tsr_dtype value);

/* Splits "a,b,c"; empty parts are errors. *parts holds *n strings in one allocation: free(*parts). */
int tsr_cli_list(const char *command, const char *what, const char *text, char ***parts, int32_t *n);

/* ------------------------------------------------------------------------------------------------------------------
 * Devices
 */

/* The runtime with the backends that were found: those of TESSERA_BACKEND_PATH and of the install directory; a program
 * that runs from its build directory finds those built beside it. */
int tsr_cli_runtime(tsr_runtime **runtime);

/* Opens a device by name; NULL: TESSERA_DEVICE, else "auto". */
int tsr_cli_device(tsr_runtime *runtime, const char *name, tsr_device **device);

/* "discrete GPU" and so on for TSR_DEVICE_*. Static. */
const char *tsr_cli_device_type(int32_t type);

/* ------------------------------------------------------------------------------------------------------------------
 * Text input, line by line
 */
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

/* Reads the next line, of any length; LF, CR LF and the end of the file end one; bytes are passed on as they are, but for
 * a byte order mark at the beginning, which is left out. *got is 0 at the end. */
int tsr_cli_lines_next(tsr_cli_lines *lines, int *got);

/* ------------------------------------------------------------------------------------------------------------------
 * Output
 */

/* Flushes stdout; if something could not be written, says so. */
int tsr_cli_flush(void);

/* Prints a text as one line: what would end it within the text becomes a blank. */
void tsr_cli_put_line(const char *text);

/* Prints `root` with a newline and releases it; NULL is a failed allocation. flags: jansson's, such as JSON_INDENT(2);
 * 0: one line. */
int tsr_cli_json_print(json_t *root, size_t flags);

/* A JSON string of bytes from anywhere: what is not UTF-8 becomes U+FFFD. */
json_t *tsr_cli_json_text(const char *text, size_t size);

/* A JSON number; null for NaN and infinities. */
json_t *tsr_cli_json_real(double value);

/* A table of text: columns as wide as their widest cell, two spaces between. Zero it, add cells row by row, print. */
enum { TSR_TABLE_COLUMNS = 16 };
typedef struct tsr_cli_table {
  int32_t n_columns; /* 1 .. TSR_TABLE_COLUMNS */
  unsigned right;    /* bit c: column c is aligned to the right */
  char **cells;      /* [n_cells], row by row */
  size_t n_cells;
  size_t room;
  int failed; /* an allocation failed: print says so */
} tsr_cli_table;
void tsr_cli_table_init(tsr_cli_table *table, int32_t n_columns, unsigned right);
void tsr_cli_table_cell(tsr_cli_table *table, const char *format, ...) TSR_PRINTF(2, 3);
int tsr_cli_table_print(const tsr_cli_table *table, FILE *out);
void tsr_cli_table_finish(tsr_cli_table *table);

/* "1,234,567": writes into text (at least 32 bytes) and returns it. */
char *tsr_cli_grouped(int64_t value, char *text);

/* "1.5 MiB" and so on: writes into text (at least 32 bytes) and returns it. */
char *tsr_cli_bytes(uint64_t bytes, char *text);

/* A bar on stderr for long work, drawn only if stderr is a terminal, at most ten times a second. */
typedef struct tsr_cli_progress {
  const char *what; /* "translating"; borrowed */
  int shown;        /* stderr is a terminal */
  int drawn;        /* a bar stands on the line */
  double start;     /* seconds */
  double last;
} tsr_cli_progress;
void tsr_cli_progress_start(tsr_cli_progress *progress, const char *what);

/* done of total; total 0: unknown, then only the count is shown. */
void tsr_cli_progress_update(tsr_cli_progress *progress, int64_t done, int64_t total);

/* Wipes the bar; call it before anything else is printed, too. */
void tsr_cli_progress_clear(tsr_cli_progress *progress);

/* Monotonic seconds. */
double tsr_cli_seconds(void);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of the command line, and their values.
 */
#ifndef TESSERA_TOOLS_OPTIONS_H
#define TESSERA_TOOLS_OPTIONS_H

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>

#include "tessera/tensor.h"
#include "tools/tessera/common/message.h"

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

#endif

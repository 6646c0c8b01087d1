/* SPDX-License-Identifier: Apache-2.0
 *
 * For commands whose options are no table yet: getopt_long by hand.
 */
#ifndef TESSERA_TOOLS_LOOP_H
#define TESSERA_TOOLS_LOOP_H

#include <getopt.h>
#include <stddef.h>
#include <stdint.h>

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

/* Splits "a,b,c"; empty parts are errors. *parts holds *n strings in one allocation: free(*parts). */
int tsr_cli_list(const char *command, const char *what, const char *text, char ***parts, int32_t *n);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Exit codes, and messages on stderr: "tessera: ...".
 */
#ifndef TESSERA_TOOLS_MESSAGE_H
#define TESSERA_TOOLS_MESSAGE_H

#include "tessera/status.h"

/* Documented in README.md and in `tessera --help`; never renumbered. */
enum {
  TSR_EXIT_OK = 0,
  TSR_EXIT_MISMATCH = 1, /* a check found a difference */
  TSR_EXIT_USAGE = 2,    /* the command line is wrong */
  TSR_EXIT_INPUT = 3,    /* a file, a model or a text is missing or bad, or output could not be written */
  TSR_EXIT_DEVICE = 4,   /* a device, a backend or a plugin is missing or failed */
  TSR_EXIT_MEMORY = 5,   /* host memory ran out */
  TSR_EXIT_INTERNAL = 6  /* a mistake of the program */
};

void tsr_cli_error(const char *format, ...) TSR_PRINTF(1, 2);
void tsr_cli_warning(const char *format, ...) TSR_PRINTF(1, 2);

/* For one of several processes that do the same: messages of a rank above 0 begin with it, and its errors are told
 * after three seconds, in which a lower rank may tell the same error and end all. */
void tsr_cli_message_rank(int32_t rank);

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

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/common/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static int32_t own_rank;

void tsr_cli_message_rank(int32_t rank)
{
  own_rank = rank;
}

/* 0 if somebody ends this process meanwhile. */
static int wait_for_lower_ranks(void)
{
  static const struct timespec while_ends = {.tv_sec = 3};
  return own_rank == 0 || nanosleep(&while_ends, NULL) == 0;
}

static void print_message(const char *prefix, const char *format, va_list arguments)
{
  fputs(prefix, stderr);
  if (own_rank > 0) {
    fprintf(stderr, "rank %d: ", (int)own_rank);
  }
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
}

void tsr_cli_error(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  if (wait_for_lower_ranks()) {
    print_message("tessera: ", format, arguments);
  }
  va_end(arguments);
}

void tsr_cli_warning(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  print_message("tessera: warning: ", format, arguments);
  va_end(arguments);
}

int tsr_cli_exit_code(tsr_status status)
{
  switch (status) {
  case TSR_OK:
    return TSR_EXIT_OK;
  case TSR_ERR_ARGUMENT:
    return TSR_EXIT_USAGE;
  case TSR_ERR_SHAPE:
  case TSR_ERR_DTYPE:
  case TSR_ERR_IO:
  case TSR_ERR_FORMAT:
  case TSR_ERR_BUSY:
    return TSR_EXIT_INPUT;
  case TSR_ERR_UNSUPPORTED:
  case TSR_ERR_DEVICE_MEMORY:
  case TSR_ERR_DEVICE_LOST:
  case TSR_ERR_NOT_FINITE:
  case TSR_ERR_NO_DEVICE:
  case TSR_ERR_PLUGIN:
    return TSR_EXIT_DEVICE;
  case TSR_ERR_OUT_OF_MEMORY:
    return TSR_EXIT_MEMORY;
  default:
    return TSR_EXIT_INTERNAL;
  }
}

int tsr_cli_fail(tsr_status status)
{
  if (status == TSR_OK) {
    return TSR_EXIT_OK;
  }
  const char *message = tsr_error_message();
  tsr_cli_error("%s", message[0] ? message : tsr_status_name(status));
  return tsr_cli_exit_code(status);
}

int tsr_cli_fail_input(tsr_status status)
{
  int code = tsr_cli_fail(status);
  return status == TSR_ERR_UNSUPPORTED ? TSR_EXIT_INPUT : code;
}

int tsr_cli_usage(const char *command, const char *format, ...)
{
  va_list arguments;
  if (!wait_for_lower_ranks()) {
    return TSR_EXIT_USAGE;
  }
  va_start(arguments, format);
  if (command) {
    fprintf(stderr, "tessera: %s: ", command);
    print_message("", format, arguments);
    fprintf(stderr, "Try 'tessera help %s'.\n", command);
  } else {
    print_message("tessera: ", format, arguments);
    fputs("Try 'tessera help'.\n", stderr);
  }
  va_end(arguments);
  return TSR_EXIT_USAGE;
}

int tsr_cli_no_memory(void)
{
  tsr_cli_error("out of memory");
  return TSR_EXIT_MEMORY;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tools/tessera/commands.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/options/options.h"

typedef struct command {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *summary;
  const tsr_command *table; /* instead of all these */
} command;

static int run_help(int argc, char **argv);

/* In the order of the help text. A subcommand is a row here and a file beside this one. */
static const command commands[] = {
    {.table = &tsr_command_devices},
    {.table = &tsr_command_translate},
    {.table = &tsr_command_eval},
    {.table = &tsr_command_score},
    {.table = &tsr_command_tokenize},
    {.table = &tsr_command_vocab},
    {.table = &tsr_command_train},
    {.table = &tsr_command_plot},
    {.table = &tsr_command_check},
    {.table = &tsr_command_golden},
    {.table = &tsr_command_compare},
    {.table = &tsr_command_attention},
    {.table = &tsr_command_trace},
    {.table = &tsr_command_profile},
    {.table = &tsr_command_info},
    {.table = &tsr_command_program},
    {"bench", tsr_cmd_bench, "measure speed: of a model, of the machine, of translating from start to end"},
    {.table = &tsr_command_tune},
    {"help", run_help, "print this text, or with a command's name its own"},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static const char usage_head[] =
    "Usage: tessera COMMAND [OPTION]...\n"
    "\n"
    "Runs and trains encoder-decoder Transformers on GPUs (Vulkan) and CPUs, and checks that two\n"
    "backends compute the same.\n"
    "\n"
    "Commands:\n";

static const char usage_tail[] = "\n"
                                 "  --version  print the version\n"
                                 "  --help     print this text\n"
                                 "\n"
                                 "`tessera help COMMAND` and `tessera COMMAND --help` tell about one command.\n"
                                 "\n"
                                 "Devices are named BACKEND:INDEX (vulkan:0, reference); `auto` takes the best one.\n"
                                 "\n"
                                 "Environment:\n"
                                 "  TESSERA_DEVICE        the device when --device is not given (else: auto)\n"
                                 "  TESSERA_BACKEND_PATH  folders to search for backends, colon-separated\n"
                                 "  TESSERA_LOG           error, warning (default), info or debug: messages on stderr\n"
                                 "\n"
                                 "Exit codes:\n"
                                 "  0  success\n"
                                 "  1  a check found a difference\n"
                                 "  2  the command line is wrong\n"
                                 "  3  a file, a model or a text is missing or bad, or output could not be written\n"
                                 "  4  a device or a backend is missing or failed\n"
                                 "  5  out of memory\n"
                                 "  6  an internal error; please report it\n";

static const char *command_name(const command *c)
{
  return c->table ? c->table->name : c->name;
}

static int print_usage(void)
{
  fputs(usage_head, stdout);
  for (int i = 0; i < N_COMMANDS; i++) {
    printf("  %-9s  %s\n", command_name(&commands[i]),
           commands[i].table ? commands[i].table->summary : commands[i].summary);
  }
  fputs(usage_tail, stdout);
  return TSR_EXIT_OK;
}

static const command *find_command(const char *name)
{
  for (int i = 0; i < N_COMMANDS; i++) {
    if (strcmp(command_name(&commands[i]), name) == 0) {
      return &commands[i];
    }
  }
  return NULL;
}

static int unknown_command(const char *name)
{
  fprintf(stderr, "tessera: unknown command '%s'; the commands are", name);
  for (int i = 0; i < N_COMMANDS; i++) {
    fprintf(stderr, "%s %s", i > 0 ? "," : "", command_name(&commands[i]));
  }
  fputc('\n', stderr);
  return TSR_EXIT_USAGE;
}

static int run_help(int argc, char **argv)
{
  if (argc < 2 || strcmp(argv[1], "--help") == 0) {
    return print_usage();
  }
  if (argc > 2) {
    return tsr_cli_usage(NULL, "help takes one command's name");
  }
  const command *found = find_command(argv[1]);
  if (!found) {
    return unknown_command(argv[1]);
  }
  char help[] = "--help";
  char *help_argv[] = {argv[1], help, NULL};
  return found->table ? tsr_command_run(found->table, 2, help_argv) : found->run(2, help_argv);
}

static int run(int argc, char **argv)
{
  if (argc < 2) {
    return tsr_cli_usage(NULL, "a command is missing");
  }
  const char *name = argv[1];
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
    return print_usage();
  }
  if (strcmp(name, "--version") == 0) {
    puts("tessera " TSR_VERSION);
    return TSR_EXIT_OK;
  }
  const command *found = find_command(name);
  if (!found) {
    return unknown_command(name);
  }
  int code = tsr_cli_fail(tsr_log_check());
  if (code != TSR_EXIT_OK) {
    return code;
  }
  return found->table ? tsr_command_run(found->table, argc - 1, argv + 1) : found->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
  int code = run(argc, argv);
  int flushed = tsr_cli_flush();
  return code != TSR_EXIT_OK ? code : flushed;
}

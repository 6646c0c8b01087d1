/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "tools/tessera/commands.h"
#include "tools/tessera/common/child.h"
#include "tools/tessera/common/component.h"
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/memory.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/options/environment.h"
#include "tools/tessera/options/help.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/programs/operators.h"

static const tsr_command command_help;
static const tsr_command in_documents = {.name = "document", .summary = TSR_DOCUMENT_SUMMARY, .component = "documents"};
static const tsr_command in_serve = {.name = "serve", .summary = TSR_SERVE_SUMMARY, .component = "serve"};

/* In the order of the help text. */
/* clang-format off */
static const tsr_command *const commands[] = {
    &tsr_command_devices,
    &tsr_command_translate,
    &tsr_command_transcribe,
    &tsr_command_translate_corpus,
    &in_documents,
    &tsr_command_eval,
    &tsr_command_score,
    &tsr_command_tokenize,
    &tsr_command_shuffle,
    &tsr_command_vocab,
    &tsr_command_train,
    &tsr_command_plot,
    &tsr_command_check,
    &tsr_command_golden,
    &tsr_command_compare,
    &tsr_command_attention,
    &tsr_command_trace,
    &tsr_command_profile,
    &tsr_command_info,
    &tsr_command_convert,
    &tsr_command_program,
    &tsr_command_plan,
    &tsr_command_bench,
    &tsr_command_tune,
    &tsr_command_report,
    &in_serve,
    &command_help,
    NULL,
};
/* clang-format on */

static const tsr_command tessera = {.name = "tessera", .commands = commands};

static const char usage_head[] =
    "Usage: tessera COMMAND [OPTION]...\n"
    "\n"
    "Runs and trains encoder-decoder Transformers on GPUs (Vulkan) and CPUs, and checks that two\n"
    "backends compute the same.\n"
    "\n"
    "Commands:\n";

static const char usage_more[] = "\n"
                                 "  --version  print the version\n"
                                 "  --help     print this text\n"
                                 "\n"
                                 "`tessera help COMMAND` and `tessera COMMAND --help` explain one command.\n"
                                 "\n"
                                 "Devices are named BACKEND:INDEX (vulkan:0, reference); `auto` chooses the best one.\n"
                                 "\n"
                                 "Environment (`tessera help environment` lists more):\n";

/* By their numbers: TSR_EXIT_* */
static const char *const exit_codes[] = {
    "success",
    "a check found a difference",
    "the command line is wrong",
    "a file, a model or a text is missing or bad, or output could not be written",
    "a device, a backend or a plugin is missing or failed",
    "out of memory",
    "an internal error; please report it",
};
enum { N_EXIT_CODES = sizeof exit_codes / sizeof exit_codes[0] };

static int print_usage(void)
{
  int width = 0;
  for (int i = 0; commands[i]; i++) {
    const int size = (int)strlen(commands[i]->name);
    width = size > width ? size : width;
  }
  fputs(usage_head, stdout);
  for (int i = 0; commands[i]; i++) {
    printf("  %-*s  %s\n", width, commands[i]->name, commands[i]->summary);
  }
  fputs(usage_more, stdout);
  tsr_environment_print(stdout, 1);
  puts("\nExit codes:");
  for (int i = 0; i < N_EXIT_CODES; i++) {
    printf("  %d  %s\n", i, exit_codes[i]);
  }
  return TSR_EXIT_OK;
}

static int unknown_command(const char *name)
{
  fprintf(stderr, "tessera: unknown command '%s'; the commands are", name);
  for (int i = 0; commands[i]; i++) {
    fprintf(stderr, "%s %s", i > 0 ? "," : "", commands[i]->name);
  }
  fputc('\n', stderr);
  return TSR_EXIT_USAGE;
}

/* The name of a command's table in its component. */
typedef struct symbol {
  char name[64];
} symbol;

static symbol symbol_of(const tsr_command *command)
{
  symbol s;
  snprintf(s.name, sizeof s.name, "tsr_command_%s", command->name);
  return s;
}

/* Replaces a command that lies in a component by the one there. Exit code. */
static int open_component(const tsr_command **command)
{
  void *found = NULL;
  if (!(*command)->component) {
    return TSR_EXIT_OK;
  }
  int code = tsr_component_find((*command)->component, symbol_of(*command).name, &found);
  *command = found;
  return code;
}

/* ---- help -------------------------------------------------------------------------------------------------------- */

typedef struct help_request {
  tsr_names names; /* of a command, and of one in it */
  int as_json;
} help_request;

static json_t *exit_codes_json(void)
{
  json_t *list = json_array();
  for (int i = 0; i < N_EXIT_CODES; i++) {
    json_array_append_new(list, json_pack("{s:i, s:s}", "code", i, "meaning", exit_codes[i]));
  }
  return list;
}

static int print_json(void)
{
  json_t *list = json_array();
  for (int i = 0; commands[i]; i++) {
    const tsr_command *command = commands[i];
    if (command->component && !tsr_component_is_there(command->component, symbol_of(command).name)) {
      continue;
    }
    int code = open_component(&command);
    if (code == TSR_EXIT_OK && json_array_append_new(list, tsr_help_json(command)) != 0) {
      code = tsr_cli_no_memory();
    }
    if (code != TSR_EXIT_OK) {
      json_decref(list);
      return code;
    }
  }
  return tsr_cli_json_print(json_pack("{s:o, s:o, s:o, s:o}", "commands", list, "environment", tsr_environment_json(),
                                      "exit_codes", exit_codes_json(), "operators", tsr_operators_json()),
                            JSON_INDENT(1));
}

static int run_help(void *opaque)
{
  const help_request *r = opaque;
  const tsr_command *found = &tessera;
  if (r->as_json) {
    return r->names.n == 0 ? print_json() : tsr_cli_usage(NULL, "help --json tells about all commands");
  }
  if (r->names.n == 1 && strcmp(r->names.values[0], "environment") == 0) {
    tsr_environment_print(stdout, 0);
    return TSR_EXIT_OK;
  }
  if (r->names.n == 1 && strcmp(r->names.values[0], "operators") == 0) {
    tsr_operators_print(stdout);
    return TSR_EXIT_OK;
  }
  for (int32_t i = 0; i < r->names.n; i++) {
    const tsr_command *inner = tsr_command_find(found, r->names.values[i]);
    if (!inner) {
      char names[256];
      return i == 0 ? unknown_command(r->names.values[i])
             : found->commands
                 ? tsr_cli_usage(NULL, "unknown command '%s %s'; the commands of %s: %s", found->name,
                                 r->names.values[i], found->name, tsr_command_list(found, names, sizeof names))
                 : tsr_cli_usage(NULL, "help takes one command's name");
    }
    int code = open_component(&inner);
    if (code != TSR_EXIT_OK) {
      return code;
    }
    found = inner;
  }
  return found == &tessera ? print_usage() : tsr_help_print(found, stdout);
}

static const tsr_option help_rows[] = {
    {"json", NULL, TSR_OPTION_FLAG, TSR_FIELD(help_request, as_json), .low = 1,
     .help = "print all help as one JSON object: commands with their options, environment, exit codes and operators"},
    {NULL},
};

static const tsr_option_table help_options = {.rows = help_rows};
static const tsr_operand help_operands[] = {
    {"COMMAND", TSR_OPTION_TEXT, offsetof(help_request, names), .optional = 1, .repeats = 1},
    {NULL},
};

static const tsr_command command_help = {
    .name = "help",
    .summary = "print this text, or the text of one command",
    .usage = "[COMMAND]\n"
             "environment\n"
             "operators\n"
             "--json",
    .intro = "Explains all commands, or one: `tessera help translate`, `tessera help bench ops`; or the environment "
             "variables that the project reads; or the operators that programs are made of.",
    .options = &help_options,
    .operands = help_operands,
    .session_size = sizeof(help_request),
    .run = run_help,
};

/* ------------------------------------------------------------------------------------------------------------------ */

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
  if (name[0] == '-') {
    return tsr_cli_usage(NULL, "'%s' stands before the command; only --help and --version may", name);
  }
  const tsr_command *found = tsr_command_find(&tessera, name);
  if (!found) {
    return unknown_command(name);
  }
  int code = tsr_cli_fail(tsr_log_check());
  code = code == TSR_EXIT_OK ? open_component(&found) : code;
  return code == TSR_EXIT_OK ? tsr_command_run(found, argc - 1, argv + 1) : code;
}

int main(int argc, char **argv)
{
  child_begin(&argc, argv);
  tsr_cli_memory_init();
  int code = run(argc, argv);
  int flushed = tsr_cli_flush();
  return code != TSR_EXIT_OK ? code : flushed;
}

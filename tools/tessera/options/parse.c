/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/options/help.h"
#include "tools/tessera/options/nearest.h"
#include "tools/tessera/options/options.h"
#include "tools/tessera/options/store.h"

enum { NAME_ROOM = 64, FIRST = 256 /* what getopt returns for the first option: no letter */ };

/* A command line being read. */
typedef struct reader {
  const tsr_command *command;
  tsr_option_list list;
  void *session;
  char *presets; /* copies of all presets, which sessions borrow */
  int has_model; /* --model was given */
} reader;

const tsr_command *tsr_command_find(const tsr_command *command, const char *name)
{
  for (int32_t i = 0; command->commands && command->commands[i]; i++) {
    if (strcmp(command->commands[i]->name, name) == 0) {
      return command->commands[i];
    }
  }
  return NULL;
}

const char *tsr_command_list(const tsr_command *command, char *text, size_t size)
{
  size_t used = 0;
  text[0] = '\0';
  for (int32_t i = 0; command->commands && command->commands[i] && used < size; i++) {
    used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", command->commands[i]->name);
  }
  return text;
}

const char *tsr_command_title(const tsr_command *command)
{
  return command->parent ? command->parent : command->name;
}

static int take(const reader *r, const tsr_option_entry *entry, char *text)
{
  char what[NAME_ROOM];
  snprintf(what, sizeof what, "--%s", entry->row.name);
  const tsr_option_given given = {.command = tsr_command_title(r->command),
                                  .what = what,
                                  .row = &entry->row,
                                  .index = entry->index,
                                  .place = (char *)r->session + entry->offset};
  tsr_option_take function = entry->row.take ? entry->row.take : entry->table->take;
  return function ? function(&given, text) : tsr_option_store(&given, text);
}

/* What an option is before the command line is read. */
static int take_presets(reader *r)
{
  size_t size = 1;
  for (int32_t i = 0; i < r->list.n; i++) {
    const char *preset = r->list.entries[i].row.preset;
    size += preset ? strlen(preset) + 1 : 0;
  }
  char *copy = r->presets = malloc(size);
  int code = copy ? TSR_EXIT_OK : tsr_cli_no_memory();
  for (int32_t i = 0; i < r->list.n && code == TSR_EXIT_OK; i++) {
    const tsr_option_entry *entry = &r->list.entries[i];
    if (entry->row.preset && !entry->table->take) {
      strcpy(copy, entry->row.preset);
      code = take(r, entry, copy);
      copy += strlen(entry->row.preset) + 1;
    }
  }
  return code;
}

/* ---- getopt ------------------------------------------------------------------------------------------------------ */

static struct option *make_options(const tsr_option_list *list)
{
  struct option *options = calloc((size_t)list->n + 2, sizeof *options);
  for (int32_t i = 0; options && i < list->n; i++) {
    const tsr_option *row = &list->entries[i].row;
    int has = row->kind == TSR_OPTION_FLAG     ? no_argument
              : row->kind == TSR_OPTION_SWITCH ? optional_argument
                                               : required_argument;
    options[i] = (struct option){.name = row->name, .has_arg = has, .val = FIRST + i};
  }
  if (options) {
    options[list->n] = (struct option){.name = "help", .has_arg = no_argument, .val = 'h'};
  }
  return options;
}

/* A word that is no option, and not the beginning of one alone: names those that begin so, or the nearest. */
static int refuse_name(const reader *r, const char *word)
{
  const char *name = tsr_command_title(r->command), *nearest = "help";
  char typed[NAME_ROOM], several[256] = "";
  size_t used = 0;
  int32_t n = 0;
  snprintf(typed, sizeof typed, "%.*s", (int)strcspn(word + 2, "="), word + 2);
  for (int32_t i = 0; i <= r->list.n; i++) {
    const char *other = i < r->list.n ? r->list.entries[i].row.name : "help";
    nearest = tsr_words_apart(typed, other) < tsr_words_apart(typed, nearest) ? other : nearest;
    if (strncmp(other, typed, strlen(typed)) == 0 && used < sizeof several) {
      used += (size_t)snprintf(several + used, sizeof several - used, "%s--%s", n++ > 0 ? ", " : "", other);
    }
  }
  if (n > 1) {
    return tsr_cli_usage(name, "more than one option begins with --%s: %s", typed, several);
  }
  if (tsr_words_apart(typed, nearest) > 1 + (int32_t)strlen(typed) / 3) {
    return tsr_cli_usage(name, "there is no option --%s", typed);
  }
  return tsr_cli_usage(name, "there is no option --%s; the nearest is --%s", typed, nearest);
}

/* After getopt_long returned '?' or ':'. */
static int refuse(const reader *r, int why, const char *word)
{
  const char *name = tsr_command_title(r->command);
  if (why == ':') {
    return tsr_cli_usage(name, "option %s needs a value", word);
  }
  if (optopt != 0 && strncmp(word, "--", 2) == 0) {
    return tsr_cli_usage(name, "option %s takes no value", word);
  }
  if (optopt != 0) {
    return tsr_cli_usage(name, "there is no option -%c", optopt);
  }
  return refuse_name(r, word);
}

/* Keeps the option for a command that wants to know what was given. */
static int keep(const reader *r, const tsr_option_entry *entry, const char *text)
{
  if (r->command->given == 0) {
    return TSR_EXIT_OK;
  }
  json_t **given = (json_t **)(void *)((char *)r->session + r->command->given);
  json_t *value = text ? tsr_cli_json_text(text, strlen(text)) : json_true();
  *given = *given ? *given : json_object();
  return json_object_set_new(*given, entry->row.name, value) == 0 ? TSR_EXIT_OK : tsr_cli_no_memory();
}

static int take_options(reader *r, int argc, char **argv, int *help)
{
  struct option *options = make_options(&r->list);
  int code = options ? TSR_EXIT_OK : tsr_cli_no_memory();
  opterr = 0;
  for (int option; code == TSR_EXIT_OK && !*help && (option = getopt_long(argc, argv, ":h", options, NULL)) != -1;) {
    if (option == 'h') {
      *help = 1;
    } else if (option < FIRST) {
      code = refuse(r, option, argv[optind - 1]);
    } else {
      const tsr_option_entry *entry = &r->list.entries[option - FIRST];
      code = keep(r, entry, optarg);
      code = code == TSR_EXIT_OK ? take(r, entry, optarg) : code;
      r->has_model |= strcmp(entry->row.name, "model") == 0;
      if (entry->table->has_given) {
        ((char *)r->session)[entry->offset + entry->table->given + (size_t)entry->index] = 1;
      }
    }
  }
  free(options);
  return code;
}

/* ---- operands ---------------------------------------------------------------------------------------------------- */

/* Where the command's model is one of its options, and was not given: it may be the word that is refused. */
static const char *model_hint(const reader *r)
{
  int has = 0;
  for (int32_t i = 0; i < r->list.n; i++) {
    has |= strcmp(r->list.entries[i].row.name, "model") == 0;
  }
  return has && !r->has_model ? "; a model is named by --model FOLDER" : "";
}

static int refuse_operand(const reader *r, const char *word)
{
  const tsr_command *command = r->command;
  const char *name = tsr_command_title(command);
  if (command->commands && !command->operands) {
    char names[256];
    return tsr_cli_usage(name, "unknown command '%s %s'; the commands of %s: %s%s", name, word, name,
                         tsr_command_list(command, names, sizeof names), model_hint(r));
  }
  if (!command->operands) {
    return tsr_cli_usage(name, "takes no argument, but '%s' is given", word);
  }
  return command->takes ? tsr_cli_usage(name, "takes %s, but '%s' is given, too%s", command->takes, word, model_hint(r))
                        : tsr_cli_usage(name, "%s", command->missing);
}

static int take_operands(const reader *r, int n, char **words)
{
  const tsr_command *command = r->command;
  int i = 0;
  for (const tsr_operand *operand = command->operands; operand && operand->name; operand++) {
    void *field = (char *)r->session + operand->offset;
    if (i == n && !operand->optional) {
      return tsr_cli_usage(tsr_command_title(command), "%s", command->missing);
    }
    if (!operand->repeats && i < n) {
      *(const char **)field = words[i++];
    }
    for (; operand->repeats && i < n; i++) {
      int code = tsr_names_add(tsr_command_title(command), operand->name, words[i], field);
      if (code != TSR_EXIT_OK) {
        return code;
      }
    }
  }
  return i < n ? refuse_operand(r, words[i]) : TSR_EXIT_OK;
}

/* ---- a command --------------------------------------------------------------------------------------------------- */

static int read_line(reader *r, int argc, char **argv, int *help)
{
  int code = tsr_option_list_make(r->command->options, &r->list);
  if (code == TSR_EXIT_OK) {
    code = take_presets(r);
  }
  if (code == TSR_EXIT_OK) {
    code = take_options(r, argc, argv, help);
  }
  if (code == TSR_EXIT_OK && !*help) {
    code = take_operands(r, argc - optind, argv + optind);
  }
  if (code == TSR_EXIT_OK && !*help && r->command->check) {
    code = r->command->check(r->session);
  }
  return code;
}

int tsr_command_run(const tsr_command *command, int argc, char **argv)
{
  const tsr_command *inner = argc > 1 ? tsr_command_find(command, argv[1]) : NULL;
  if (inner) {
    return tsr_command_run(inner, argc - 1, argv + 1);
  }
  reader r = {.command = command, .session = calloc(1, command->session_size)};
  if (!r.session) {
    return tsr_cli_no_memory();
  }
  if (command->initial) {
    memcpy(r.session, command->initial, command->session_size);
  }
  int help = 0;
  int code = read_line(&r, argc, argv, &help);
  tsr_option_list_finish(&r.list);
  if (code == TSR_EXIT_OK && help) {
    code = tsr_help_print(command, stdout);
  } else if (code == TSR_EXIT_OK) {
    code = command->run(r.session);
  }
  if (command->finish) {
    command->finish(r.session);
  }
  free(r.presets);
  free(r.session);
  return code;
}

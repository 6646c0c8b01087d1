/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/options/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/message.h"

int tsr_cli_option(int argc, char **argv, const struct option *options)
{
  opterr = 0;
  int result = getopt_long(argc, argv, ":h", options, NULL);
  if (result != '?' && result != ':') {
    return result;
  }
  const char *word = argv[optind - 1];
  if (result == ':') {
    tsr_cli_usage(argv[0], "option %s needs a value", word);
  } else if (optopt != 0 && strncmp(word, "--", 2) == 0) {
    tsr_cli_usage(argv[0], "option %s takes no value", word);
  } else if (optopt != 0) {
    tsr_cli_usage(argv[0], "there is no option -%c", optopt);
  } else {
    tsr_cli_usage(argv[0], "there is no option %s, or more than one begins so", word);
  }
  return '?';
}

int tsr_cli_options(int argc, char **argv, const struct option *options, tsr_cli_take_fn take, void *wish, int *help)
{
  int code = TSR_EXIT_OK;
  for (int option; code == TSR_EXIT_OK && (option = tsr_cli_option(argc, argv, options)) != -1;) {
    if (option == 'h') {
      *help = 1;
      return TSR_EXIT_OK;
    }
    code = take(option, optarg, wish);
  }
  return code;
}

int tsr_cli_help(const char *text)
{
  fputs(text, stdout);
  return TSR_EXIT_OK;
}

int tsr_cli_run(const tsr_cli_command *command, int argc, char **argv)
{
  void *session = calloc(1, command->session_size);
  if (!session) {
    return tsr_cli_no_memory();
  }
  int finished = 0;
  int code = command->parse(argc, argv, session, &finished);
  if (code == TSR_EXIT_OK && !finished) {
    code = command->run(session);
  }
  command->finish(session);
  free(session);
  return code;
}

int tsr_cli_list(const char *command, const char *what, const char *text, char ***parts, int32_t *n)
{
  int32_t count = 1;
  for (const char *at = text; *at; at++) {
    count += *at == ',';
  }
  size_t length = strlen(text) + 1;
  char **list = malloc((size_t)count * sizeof *list + length);
  if (!list) {
    return tsr_cli_no_memory();
  }
  char *copy = (char *)(list + count);
  memcpy(copy, text, length);
  for (int32_t i = 0; i < count; i++) {
    list[i] = copy;
    copy += strcspn(copy, ",");
    int empty = copy == list[i];
    *copy++ = '\0';
    if (empty) {
      free(list);
      return tsr_cli_usage(command, "%s: '%s' has an empty part", what, text);
    }
  }
  *parts = list;
  *n = count;
  return TSR_EXIT_OK;
}

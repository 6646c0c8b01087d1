/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/options/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int tsr_cli_integer(const char *command, const char *what, const char *text, int64_t low, int64_t high, int64_t *value)
{
  char *end = NULL;
  errno = 0;
  long long parsed = strtoll(text, &end, 10);
  if (end == text || *end != '\0') {
    return tsr_cli_usage(command, "%s: '%s' is not a whole number", what, text);
  }
  if (errno == ERANGE || parsed < low || parsed > high) {
    return tsr_cli_usage(command, "%s: %s is outside %lld .. %lld", what, text, (long long)low, (long long)high);
  }
  *value = parsed;
  return TSR_EXIT_OK;
}

int tsr_cli_int32(const char *command, const char *what, const char *text, int32_t low, int32_t high, int32_t *value)
{
  int64_t wide = 0;
  int code = tsr_cli_integer(command, what, text, low, high, &wide);
  if (code == TSR_EXIT_OK) {
    *value = (int32_t)wide;
  }
  return code;
}

int tsr_cli_number(const char *command, const char *what, const char *text, double low, double high, double *value)
{
  char *end = NULL;
  errno = 0;
  double parsed = strtod(text, &end);
  if (end == text || *end != '\0' || !isfinite(parsed)) {
    return tsr_cli_usage(command, "%s: '%s' is not a number", what, text);
  }
  if (parsed < low || parsed > high) {
    return tsr_cli_usage(command, "%s: %s is outside %g .. %g", what, text, low, high);
  }
  *value = parsed;
  return TSR_EXIT_OK;
}

static const struct {
  const char *name;
  tsr_dtype dtype;
} precisions[] = {{"f32", TSR_F32}, {"f16", TSR_F16}, {"bf16", TSR_BF16}, {"int8", TSR_I8}};
enum { N_PRECISIONS = sizeof precisions / sizeof precisions[0] };

const char *tsr_cli_precision_name(tsr_dtype value)
{
  for (size_t i = 0; i < N_PRECISIONS; i++) {
    if (precisions[i].dtype == value) {
      return precisions[i].name;
    }
  }
  return "stored";
}

int tsr_cli_precision(const char *command, const char *what, const char *text, tsr_dtype *value)
{
  for (size_t i = 0; i < N_PRECISIONS; i++) {
    if (strcmp(text, precisions[i].name) == 0) {
      *value = precisions[i].dtype;
      return TSR_EXIT_OK;
    }
  }
  return tsr_cli_usage(command, "%s: '%s' is none of f32, f16, bf16, int8", what, text);
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

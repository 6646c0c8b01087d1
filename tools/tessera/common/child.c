/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* environ, pipe2, program_invocation_name */

#include "tools/tessera/common/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "tools/tessera/common/path.h"

enum { PATH_ROOM = 4096, MOST_WORDS = 128, WORD_BYTES = 1 << 14 };

/* Stands in front of the arguments of a child that ends with its parent, whose number follows. */
static const char mark[] = "--ends-with-parent=";
enum { MARK_ROOM = sizeof mark + 20 };

/* ---- the arguments ----------------------------------------------------------------------------------------------- */

/* The words of the command line up to the program's own name: the loader, its options, the program. Returns how many;
 * 0: no loader stands in front, or the system does not tell. */
static int words_of_loader(const char *program, char *bytes, const char **words)
{
#ifdef __GLIBC__
  const char *base = strrchr(program, '/');
  FILE *file = base && strncmp(base, "/ld", 3) == 0 ? fopen("/proc/self/cmdline", "r") : NULL;
  size_t size = file ? fread(bytes, 1, WORD_BYTES - 1, file) : 0;
  int n = 0;
  if (file) {
    fclose(file);
  }
  bytes[size] = '\0';
  for (size_t at = 0; at < size && n < MOST_WORDS; at += strlen(bytes + at) + 1) {
    words[n++] = bytes + at;
    if (strcmp(bytes + at, program_invocation_name) == 0) {
      return n;
    }
  }
#else
  (void)program, (void)bytes, (void)words;
#endif
  return 0;
}

/* ---- the environment --------------------------------------------------------------------------------------------- */

/* 1 if `entry`, "NAME=value", is of a name that variables have. */
static int is_replaced(const char *entry, const char *const *variables)
{
  for (size_t i = 0; variables && variables[i]; i += 2) {
    const size_t length = strlen(variables[i]);
    if (strncmp(entry, variables[i], length) == 0 && entry[length] == '=') {
      return 1;
    }
  }
  return 0;
}

/* This process's with `variables`: one allocation, to be freed; NULL: no memory. */
static char **make_environment(const char *const *variables)
{
  char **old = environ;
  size_t n = 1, bytes = 0;
  for (size_t i = 0; old && old[i]; i++) {
    n++;
  }
  for (size_t i = 0; variables && variables[i]; i += 2) {
    n++;
    bytes += strlen(variables[i]) + strlen(variables[i + 1]) + 2;
  }
  char **entries = malloc(n * sizeof *entries + bytes);
  if (!entries) {
    return NULL;
  }
  char *text = (char *)(entries + n);
  n = 0;
  for (size_t i = 0; old && old[i]; i++) {
    if (!is_replaced(old[i], variables)) {
      entries[n++] = old[i];
    }
  }
  for (size_t i = 0; variables && variables[i]; i += 2) {
    entries[n++] = text;
    text += sprintf(text, "%s=%s", variables[i], variables[i + 1]) + 1;
  }
  entries[n] = NULL;
  return entries;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

static int spawn(const child_setup *setup, const char *program, const char **words, char **environment, pid_t *child)
{
  posix_spawn_file_actions_t streams;
  posix_spawnattr_t attributes;
  int failed = posix_spawn_file_actions_init(&streams);
  if (failed) {
    return failed;
  }
  failed = posix_spawnattr_init(&attributes);
  if (failed) {
    posix_spawn_file_actions_destroy(&streams);
    return failed;
  }
  failed = posix_spawn_file_actions_adddup2(&streams, setup->input, STDIN_FILENO);
  failed = failed ? failed : posix_spawn_file_actions_adddup2(&streams, setup->output, STDOUT_FILENO);
  failed = failed ? failed : posix_spawn_file_actions_adddup2(&streams, setup->errors, STDERR_FILENO);
  if (setup->is_bound && !failed) {
    failed = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  }
  if (!failed) {
    failed = posix_spawn(child, program, &streams, &attributes, (char *const *)words, environment);
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&streams);
  return failed;
}

int child_start(const child_setup *setup, pid_t *child)
{
  static char bytes[WORD_BYTES];
  const char *words[2 * MOST_WORDS];
  char program[PATH_ROOM], marked[MARK_ROOM];
  if (!path_of_program(program, sizeof program)) {
    return ENOENT;
  }
  int n = words_of_loader(program, bytes, words);
  if (n == 0) {
    words[n++] = setup->words[0];
  }
  if (setup->is_bound) {
    snprintf(marked, sizeof marked, "%s%lld", mark, (long long)getpid());
    words[n++] = marked;
  }
  for (int i = 1; setup->words[i]; i++) {
    if (n + 1 == 2 * MOST_WORDS) {
      return E2BIG;
    }
    words[n++] = setup->words[i];
  }
  words[n] = NULL;
  char **environment = make_environment(setup->variables);
  int failed = environment ? spawn(setup, program, words, environment, child) : ENOMEM;
  free(environment);
  return failed;
}

int child_pipe(int ends[2])
{
  return pipe2(ends, O_CLOEXEC) == 0 ? 0 : errno;
}

void child_begin(int *argc, char **argv)
{
  if (*argc < 2 || strncmp(argv[1], mark, sizeof mark - 1) != 0) {
    return;
  }
#ifdef __linux__
  const long long parent = strtoll(argv[1] + sizeof mark - 1, NULL, 10);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) {
    raise(SIGTERM); /* it ended before */
  }
#endif
  for (int i = 1; i < *argc; i++) {
    argv[i] = argv[i + 1];
  }
  (*argc)--;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * This program as a process of its own, measured from outside.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/child.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/progress.h"

void bench_add_words(bench_command *command, const char *option, const char *value)
{
  command->words[command->n++] = option;
  if (value) {
    command->words[command->n++] = value;
  }
}

/* Returns 0, or an errno. */
static int start(const bench_command *command, int output, pid_t *child)
{
  /* Where the pipelines of the Vulkan backend, and what drivers keep, go. */
  const char *const caches[] = {"XDG_CACHE_HOME", "MESA_SHADER_CACHE_DIR"};
  enum { CACHES = sizeof caches / sizeof caches[0] };
  const char *variables[2 * (CACHES + 1) + 1];
  char threads[BENCH_NUMBER];
  int n = 0;
  for (int i = 0; i < CACHES && command->cache; i++) {
    variables[n++] = caches[i];
    variables[n++] = command->cache;
  }
  if (command->threads > 0) {
    snprintf(threads, sizeof threads, "%d", (int)command->threads);
    variables[n++] = BENCH_THREADS_VARIABLE;
    variables[n++] = threads;
  }
  variables[n] = NULL;
  const child_setup setup = {.words = command->words,
                             .variables = variables,
                             .input = STDIN_FILENO,
                             .output = output,
                             .errors = STDERR_FILENO};
  return child_start(&setup, child);
}

/* Reads to the end; *first is when the first line had ended. Returns the lines. */
static int64_t read_lines(int input, double *first)
{
  static char text[1 << 16];
  int64_t lines = 0;
  for (ssize_t got; (got = read(input, text, sizeof text)) > 0 || (got < 0 && errno == EINTR);) {
    for (ssize_t i = 0; i < got; i++) {
      if (text[i] == '\n' && lines++ == 0) {
        *first = tsr_cli_seconds();
      }
    }
  }
  return lines;
}

int bench_run(const bench_command *command, bench_outcome *result)
{
  int ends[2], how = 0;
  struct rusage usage;
  pid_t pid = 0;
  *result = (bench_outcome){0};
  int failed = child_pipe(ends);
  if (failed) {
    tsr_cli_error("bench: pipe: %s", strerror(failed));
    return TSR_EXIT_INTERNAL;
  }
  fflush(NULL);
  double begin = tsr_cli_seconds(), first = begin;
  failed = start(command, ends[1], &pid);
  close(ends[1]);
  int64_t lines = failed ? 0 : read_lines(ends[0], &first);
  close(ends[0]);
  if (!failed && wait4(pid, &how, 0, &usage) < 0) {
    failed = errno;
  }
  if (failed) {
    tsr_cli_error("bench: the program cannot be started again: %s", strerror(failed));
    return TSR_EXIT_INTERNAL;
  }
  *result = (bench_outcome){.whole = tsr_cli_seconds() - begin,
                            .first = first - begin,
                            .lines = lines,
                            .peak_memory = (int64_t)usage.ru_maxrss * 1024};
  if (!WIFEXITED(how)) {
    tsr_cli_error("bench: the program was ended by signal %d", WTERMSIG(how));
    return TSR_EXIT_INTERNAL;
  }
  return WEXITSTATUS(how);
}

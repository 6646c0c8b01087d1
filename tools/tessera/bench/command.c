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
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/common/progress.h"

void bench_add_words(bench_command *command, const char *option, const char *value)
{
  command->words[command->n++] = option;
  if (value) {
    command->words[command->n++] = value;
  }
}

/* Where the pipelines of the Vulkan backend, and what drivers keep, go. */
static int set_cache(const char *folder)
{
  return folder && (setenv("XDG_CACHE_HOME", folder, 1) != 0 || setenv("MESA_SHADER_CACHE_DIR", folder, 1) != 0)
             ? tsr_cli_no_memory()
             : TSR_EXIT_OK;
}

/* In the new process. */
static void become(const bench_command *command, int output)
{
  if (bench_set_threads(command->threads) == TSR_EXIT_OK && set_cache(command->cache) == TSR_EXIT_OK &&
      dup2(output, STDOUT_FILENO) >= 0) {
    close(output);
    path_execute_again(command->words);
    tsr_cli_error("bench: the program cannot be started again: %s", strerror(errno));
  }
  _exit(TSR_EXIT_INTERNAL);
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
  *result = (bench_outcome){0};
  if (pipe(ends) != 0) {
    tsr_cli_error("bench: pipe: %s", strerror(errno));
    return TSR_EXIT_INTERNAL;
  }
  fflush(NULL);
  double start = tsr_cli_seconds(), first = start;
  pid_t pid = fork();
  if (pid == 0) {
    close(ends[0]);
    become(command, ends[1]);
  }
  close(ends[1]);
  int64_t lines = pid > 0 ? read_lines(ends[0], &first) : 0;
  close(ends[0]);
  if (pid < 0 || wait4(pid, &how, 0, &usage) < 0) {
    tsr_cli_error("bench: a process could not be run: %s", strerror(errno));
    return TSR_EXIT_MEMORY;
  }
  *result = (bench_outcome){.whole = tsr_cli_seconds() - start,
                            .first = first - start,
                            .lines = lines,
                            .peak_memory = (int64_t)usage.ru_maxrss * 1024};
  if (!WIFEXITED(how)) {
    tsr_cli_error("bench: the program was ended by signal %d", WTERMSIG(how));
    return TSR_EXIT_INTERNAL;
  }
  return WEXITSTATUS(how);
}

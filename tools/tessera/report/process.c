/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/report/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/path.h"
#include "tools/tessera/common/progress.h"

enum { OUT, ERR, STREAMS, PIECE = 1 << 16 };

void report_words_add(report_words *words, ...)
{
  va_list list;
  va_start(list, words);
  for (const char *word; (word = va_arg(list, const char *)) != NULL && words->n + 1 < REPORT_WORDS;) {
    words->words[words->n++] = word;
  }
  va_end(list);
}

/* ---- the new process --------------------------------------------------------------------------------------------- */

/* A group of its own: what it starts ends with it. It ends with this program, too. */
static void become(const report_words *words, const char *folder, int out, int err)
{
  const char *arguments[REPORT_WORDS + 2] = {"tessera"};
  int nothing = open("/dev/null", O_RDONLY);
  memcpy(arguments + 1, words->words, (size_t)words->n * sizeof arguments[0]);
  setpgid(0, 0);
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
  if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
      dup2(err, STDERR_FILENO) >= 0 && setenv("TMPDIR", folder, 1) == 0) {
    path_execute_again(arguments);
    tsr_cli_error("report: the program cannot be started again: %s", strerror(errno));
  }
  _exit(TSR_EXIT_INTERNAL);
}

/* ---- what it says ------------------------------------------------------------------------------------------------ */

typedef struct stream {
  int file; /* -1: at its end */
  char *text;
  size_t size, room;
} stream;

/* Reads what is there. Returns 0 without memory. */
static int take(stream *s)
{
  if (s->room - s->size < PIECE + 1) {
    char *moved = realloc(s->text, 2 * s->room + PIECE + 1);
    if (!moved) {
      return 0;
    }
    s->text = moved;
    s->room = 2 * s->room + PIECE + 1;
  }
  ssize_t got = read(s->file, s->text + s->size, PIECE);
  if (got > 0) {
    s->size += (size_t)got;
  } else if (got == 0 || errno != EINTR) {
    close(s->file);
    s->file = -1;
  }
  s->text[s->size] = '\0';
  return 1;
}

/* Reads both to their ends. Returns 0 if the time was over before, or memory ran out. */
static int listen_to(stream *streams, double end)
{
  while (streams[OUT].file >= 0 || streams[ERR].file >= 0) {
    struct pollfd ready[STREAMS] = {{.fd = streams[OUT].file, .events = POLLIN},
                                    {.fd = streams[ERR].file, .events = POLLIN}};
    double left = end - tsr_cli_seconds();
    if (left <= 0.0 || (poll(ready, STREAMS, (int)(1e3 * left) + 1) < 0 && errno != EINTR)) {
      return 0;
    }
    for (int i = 0; i < STREAMS; i++) {
      if ((ready[i].revents & (POLLIN | POLLHUP | POLLERR)) && !take(&streams[i])) {
        return 0;
      }
    }
  }
  return 1;
}

/* The last lines as one; "tessera: " stands in front of none. */
static void keep_message(const stream *err, char *message)
{
  static const char name[] = "tessera: ";
  const char *text = err->text ? err->text : "";
  size_t used = 0, size = err->size;
  while (size > 0 && text[size - 1] == '\n') {
    size--;
  }
  size_t from = size > REPORT_MESSAGE - 1 ? size - (REPORT_MESSAGE - 1) : 0;
  for (size_t i = from; i < size; i++) {
    if ((i == 0 || text[i - 1] == '\n') && strncmp(text + i, name, sizeof name - 1) == 0) {
      i += sizeof name - 2;
      continue;
    }
    message[used++] = text[i] == '\n' || text[i] == '\r' || text[i] == '\033' ? ' ' : text[i];
  }
  message[used] = '\0';
}

/* ---- its end ----------------------------------------------------------------------------------------------------- */

/* Waits for the end of a process. One that was killed, but hangs in a driver, is left to itself after a while. Returns
 * its number; 0: it is still there. */
static pid_t wait_for(pid_t pid, int was_killed, int *how)
{
  enum { TRIALS = 100, PAUSE_MS = 50 };
  pid_t ended = 0;
  for (int i = 0; ended == 0 && i < TRIALS; i++) {
    do {
      ended = waitpid(pid, how, was_killed ? WNOHANG : 0);
    } while (ended < 0 && errno == EINTR);
    if (ended == 0) {
      nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
    }
  }
  return ended;
}

/* ---- both -------------------------------------------------------------------------------------------------------- */

static int open_pipes(int ends[STREAMS][2])
{
  if (pipe(ends[OUT]) != 0) {
    return 0;
  }
  if (pipe(ends[ERR]) != 0) {
    close(ends[OUT][0]);
    close(ends[OUT][1]);
    return 0;
  }
  for (int i = 0; i < STREAMS; i++) {
    fcntl(ends[i][0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[i][1], F_SETFD, FD_CLOEXEC);
  }
  return 1;
}

int report_process_run(const report_words *words, double seconds, const char *folder, report_outcome *outcome)
{
  int ends[STREAMS][2], how = 0;
  double start = tsr_cli_seconds();
  *outcome = (report_outcome){.code = -1};
  if (!open_pipes(ends)) {
    tsr_cli_error("report: a process cannot be started: %s", strerror(errno));
    return TSR_EXIT_INTERNAL;
  }
  tsr_cli_flush();
  pid_t pid = fork();
  if (pid == 0) {
    become(words, folder, ends[OUT][1], ends[ERR][1]);
  }
  close(ends[OUT][1]);
  close(ends[ERR][1]);
  stream streams[STREAMS] = {{.file = ends[OUT][0]}, {.file = ends[ERR][0]}};
  int heard = pid > 0 && listen_to(streams, start + seconds);
  if (pid > 0 && !heard) {
    outcome->timed_out = 1;
    kill(-pid, SIGKILL);
    kill(pid, SIGKILL); /* it may not have made its group yet */
  }
  pid_t ended = pid > 0 ? wait_for(pid, outcome->timed_out, &how) : -1;
  for (int i = 0; i < STREAMS; i++) {
    if (streams[i].file >= 0) {
      close(streams[i].file);
    }
  }
  if (ended > 0 && WIFEXITED(how) && !outcome->timed_out) {
    outcome->code = WEXITSTATUS(how);
  } else if (ended > 0 && WIFSIGNALED(how)) {
    outcome->signal = WTERMSIG(how);
  }
  keep_message(&streams[ERR], outcome->message);
  outcome->out = streams[OUT].text;
  outcome->size = streams[OUT].size;
  outcome->seconds = tsr_cli_seconds() - start;
  free(streams[ERR].text);
  if (pid < 0) {
    tsr_cli_error("report: a process cannot be started: %s", strerror(errno));
    return TSR_EXIT_MEMORY;
  }
  return TSR_EXIT_OK;
}

void report_outcome_finish(report_outcome *outcome)
{
  free(outcome->out);
  outcome->out = NULL;
}

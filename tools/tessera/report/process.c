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

#include "core/base/platform/paths.h"
#include "tools/tessera/common/child.h"
#include "tools/tessera/common/lines.h"
#include "tools/tessera/common/message.h"
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

/* Returns 0, or an errno. */
static int start(const report_words *words, const char *folder, const int *streams, pid_t *child)
{
  const char *arguments[REPORT_WORDS + 2] = {"tessera"};
  const char *const variables[] = {TSR_TEMPORARY_VARIABLE, folder, NULL};
  memcpy(arguments + 1, words->words, (size_t)words->n * sizeof arguments[0]);
  int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (nothing < 0) {
    return errno;
  }
  const child_setup setup = {.words = arguments,
                             .variables = variables,
                             .input = nothing,
                             .output = streams[OUT],
                             .errors = streams[ERR],
                             .is_bound = 1};
  int failed = child_start(&setup, child);
  close(nothing);
  return failed;
}

/* ---- its end ----------------------------------------------------------------------------------------------------- */

typedef struct process {
  pid_t number;
  int ended; /* 1: `how` tells how */
  int how;
} process;

/* 1 if it has ended. options: of waitpid. */
static int has_ended(process *one, int options)
{
  pid_t ended = 0;
  do {
    ended = one->ended ? one->number : waitpid(one->number, &one->how, options);
  } while (ended < 0 && errno == EINTR);
  one->ended = ended > 0;
  return one->ended;
}

/* Of one that was killed: one that hangs in a driver is left to itself after a while. */
static void wait_for_killed(process *one)
{
  enum { TRIALS = 100, PAUSE_MS = 50 };
  for (int i = 0; !has_ended(one, WNOHANG) && i < TRIALS; i++) {
    nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
  }
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

/* Reads both to their ends, or until the process has ended and nothing comes any more: what it started may keep them
 * open. Returns 0 if the time was over before, or memory ran out. */
static int listen_to(stream *streams, process *one, double end)
{
  static const double pause = 0.2;
  while (streams[OUT].file >= 0 || streams[ERR].file >= 0) {
    struct pollfd ready[STREAMS] = {{.fd = streams[OUT].file, .events = POLLIN},
                                    {.fd = streams[ERR].file, .events = POLLIN}};
    const double left = end - tsr_cli_seconds();
    const int is_over = has_ended(one, WNOHANG);
    const int n = left > 0.0 ? poll(ready, STREAMS, (int)(1e3 * (left < pause ? left : pause)) + 1) : -1;
    if (n == 0 && is_over) {
      return 1;
    }
    if (left <= 0.0 || (n < 0 && errno != EINTR)) {
      return 0;
    }
    for (int i = 0; i < STREAMS && n > 0; i++) {
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

/* ---- both -------------------------------------------------------------------------------------------------------- */

static int open_pipes(int ends[STREAMS][2])
{
  int failed = child_pipe(ends[OUT]);
  if (failed) {
    return failed;
  }
  failed = child_pipe(ends[ERR]);
  if (failed) {
    close(ends[OUT][0]);
    close(ends[OUT][1]);
  }
  return failed;
}

static int cannot_start(int number)
{
  tsr_cli_error("report: a process cannot be started: %s", strerror(number));
  return number == ENOMEM || number == EAGAIN ? TSR_EXIT_MEMORY : TSR_EXIT_INTERNAL;
}

/* What the process says and how it ends, until `end`. */
static void follow(process *one, stream *streams, double end, report_outcome *outcome)
{
  if (listen_to(streams, one, end)) {
    has_ended(one, 0);
  } else {
    outcome->timed_out = 1;
    kill(-one->number, SIGKILL);
    wait_for_killed(one);
  }
  if (one->ended && WIFEXITED(one->how) && !outcome->timed_out) {
    outcome->code = WEXITSTATUS(one->how);
  } else if (one->ended && WIFSIGNALED(one->how)) {
    outcome->signal = WTERMSIG(one->how);
  }
}

int report_process_run(const report_words *words, double seconds, const char *folder, report_outcome *outcome)
{
  int ends[STREAMS][2];
  process one = {0};
  double begin = tsr_cli_seconds();
  *outcome = (report_outcome){.code = -1};
  int failed = open_pipes(ends);
  if (failed) {
    return cannot_start(failed);
  }
  tsr_cli_flush();
  failed = start(words, folder, (const int[STREAMS]){ends[OUT][1], ends[ERR][1]}, &one.number);
  close(ends[OUT][1]);
  close(ends[ERR][1]);
  stream streams[STREAMS] = {{.file = ends[OUT][0]}, {.file = ends[ERR][0]}};
  if (!failed) {
    follow(&one, streams, begin + seconds, outcome);
  }
  for (int i = 0; i < STREAMS; i++) {
    if (streams[i].file >= 0) {
      close(streams[i].file);
    }
  }
  keep_message(&streams[ERR], outcome->message);
  outcome->out = streams[OUT].text;
  outcome->size = streams[OUT].size;
  outcome->seconds = tsr_cli_seconds() - begin;
  free(streams[ERR].text);
  return failed ? cannot_start(failed) : TSR_EXIT_OK;
}

void report_outcome_finish(report_outcome *outcome)
{
  free(outcome->out);
  outcome->out = NULL;
}

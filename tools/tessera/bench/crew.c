/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that measure: how they are started and asked, and what they begin with.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/child.h"
#include "tools/tessera/common/message.h"

enum { PAUSE_MS = 50 }; /* OpenBLAS' threads spin for about 20 ms */

/* By their numbers: bench_work. */
static const struct {
  bench_body body;
  size_t size; /* of its task */
} works[] = {
    [BENCH_DESCRIBE] = {bench_describe_body, sizeof(bench_device_task)},
    [BENCH_MEMORY] = {bench_memory_body, sizeof(bench_memory_task)},
    [BENCH_MODEL] = {bench_model_body, sizeof(bench_model_task)},
    [BENCH_PRODUCT] = {bench_product_body, sizeof(bench_product_task)},
    [BENCH_OP] = {bench_op_body, sizeof(bench_op_task)},
    [BENCH_TILES] = {bench_tiles_body, sizeof(int32_t)},
};
enum { WORKS = sizeof works / sizeof works[0] };

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

/* All of `size` bytes; 0 if the other side is gone. */
static int receive(int from, void *bytes, size_t size)
{
  for (size_t done = 0; done < size;) {
    ssize_t got = read(from, (char *)bytes + done, size - done);
    if (got <= 0 && !(got < 0 && errno == EINTR)) {
      return 0;
    }
    done += got > 0 ? (size_t)got : 0;
  }
  return 1;
}

/* Likewise. */
static int transmit(int to, const void *bytes, size_t size)
{
  void (*before)(int) = signal(SIGPIPE, SIG_IGN);
  size_t done = 0;
  for (ssize_t sent = 0; done < size && (sent >= 0 || errno == EINTR); done += sent > 0 ? (size_t)sent : 0) {
    sent = write(to, (const char *)bytes + done, size - done);
  }
  signal(SIGPIPE, before);
  return done == size;
}

/* ---- the crew ---------------------------------------------------------------------------------------------------- */

int bench_crew_init(bench_crew *crew, int32_t room)
{
  *crew = (bench_crew){.room = room, .processes = calloc((size_t)room, sizeof *crew->processes)};
  return crew->processes ? TSR_EXIT_OK : tsr_cli_no_memory();
}

/* Waits for the end of a process, and returns its exit code. */
static int end_process(bench_process *process)
{
  int how = 0;
  close(process->requests);
  close(process->replies);
  pid_t ended;
  do {
    ended = waitpid(process->pid, &how, 0);
  } while (ended < 0 && errno == EINTR);
  process->pid = 0;
  if (ended > 0 && WIFEXITED(how)) {
    return WEXITSTATUS(how);
  }
  tsr_cli_error("bench: a measuring process was ended by signal %d", ended > 0 ? WTERMSIG(how) : 0);
  return TSR_EXIT_INTERNAL;
}

void bench_crew_finish(bench_crew *crew)
{
  for (int32_t i = 0; i < crew->n; i++) {
    if (crew->processes[i].pid > 0) {
      end_process(&crew->processes[i]);
    }
  }
  free(crew->processes);
  *crew = (bench_crew){0};
}

static int open_pipes(int requests[2], int replies[2])
{
  int failed = child_pipe(requests);
  if (failed) {
    return failed;
  }
  failed = child_pipe(replies);
  if (failed) {
    close(requests[0]);
    close(requests[1]);
  }
  return failed;
}

int bench_crew_start(bench_crew *crew, bench_work work, const void *task)
{
  static const char *const words[] = {"tessera", "bench", BENCH_WORKER, NULL};
  int requests[2], replies[2];
  pid_t pid = 0;
  int failed = open_pipes(requests, replies);
  if (!failed) {
    const child_setup setup = {.words = words, .input = requests[0], .output = replies[1], .errors = STDERR_FILENO};
    fflush(NULL);
    failed = child_start(&setup, &pid);
    close(requests[0]);
    close(replies[1]);
    if (failed) {
      close(requests[1]);
      close(replies[0]);
    }
  }
  if (failed) {
    tsr_cli_error("bench: the program cannot be started again: %s", strerror(failed));
    return failed == ENOMEM || failed == EAGAIN ? TSR_EXIT_MEMORY : TSR_EXIT_INTERNAL;
  }
  bench_process *process = &crew->processes[crew->n++];
  *process = (bench_process){.pid = pid, .requests = requests[1], .replies = replies[0]};
  const int32_t number = work;
  /* If it is gone, bench_crew_ask tells. */
  if (transmit(process->requests, &number, sizeof number)) {
    transmit(process->requests, task, works[work].size);
  }
  return TSR_EXIT_OK;
}

int bench_crew_ask(bench_crew *crew, int32_t index, int32_t request, void *reply, size_t size)
{
  bench_process *process = &crew->processes[index];
  nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
  if (transmit(process->requests, &request, sizeof request) && receive(process->replies, reply, size)) {
    return TSR_EXIT_OK;
  }
  int code = end_process(process);
  if (code == TSR_EXIT_OK) {
    tsr_cli_error("bench: a measuring process ended early");
    return TSR_EXIT_INTERNAL;
  }
  return code;
}

/* ---- one of it --------------------------------------------------------------------------------------------------- */

static int to_crew = -1; /* where the replies go */

int bench_next(int32_t *request)
{
  return receive(STDIN_FILENO, request, sizeof *request);
}

void bench_reply(const void *reply, size_t size)
{
  transmit(to_crew, reply, size); /* if nobody listens, bench_next tells */
}

void bench_give(char *text, size_t room, const char *given)
{
  snprintf(text, room, "%s", given ? given : "");
}

const char *bench_given(const char *text)
{
  return text[0] ? text : NULL;
}

int64_t bench_peak_memory(void)
{
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

/* What libraries print goes where messages go. */
static int take_stdout(void)
{
  to_crew = dup(STDOUT_FILENO);
  if (to_crew >= 0 && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) {
    return TSR_EXIT_OK;
  }
  tsr_cli_error("bench: a stream cannot be opened: %s", strerror(errno));
  return TSR_EXIT_INTERNAL;
}

static int run_worker(void *opaque)
{
  (void)opaque;
  int32_t work = -1;
  if (!receive(STDIN_FILENO, &work, sizeof work) || work < 0 || work >= WORKS) {
    return tsr_cli_usage("bench", "%s is for `tessera bench` itself", BENCH_WORKER);
  }
  void *task = malloc(works[work].size);
  int code = task ? take_stdout() : tsr_cli_no_memory();
  if (code == TSR_EXIT_OK && receive(STDIN_FILENO, task, works[work].size)) {
    code = works[work].body(task);
  }
  free(task);
  return code;
}

const tsr_command bench_worker = {
    .name = BENCH_WORKER,
    .intro = "Measures what `tessera bench`, which starts it, asks for on its standard input.",
    .parent = "bench",
    .session_size = 1,
    .run = run_worker,
};

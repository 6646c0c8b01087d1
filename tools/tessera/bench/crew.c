/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/tessera/bench/bench.h"
#include "tools/tessera/common/message.h"

enum { PAUSE_MS = 50 }; /* OpenBLAS' threads spin for about 20 ms */

int bench_crew_init(bench_crew *crew, int32_t room)
{
  *crew = (bench_crew){.room = room, .processes = calloc((size_t)room, sizeof *crew->processes)};
  return crew->processes ? TSR_EXIT_OK : tsr_cli_no_memory();
}

/* Waits for the end of a process, and returns its exit code. */
static int end_process(bench_process *process)
{
  int how = 0;
  close(process->channel);
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

int bench_crew_start(bench_crew *crew, bench_body body, const void *task)
{
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
    tsr_cli_error("bench: socketpair: %s", strerror(errno));
    return TSR_EXIT_INTERNAL;
  }
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    /* So that each process sees the end when this one is gone. */
    for (int32_t i = 0; i < crew->n; i++) {
      close(crew->processes[i].channel);
    }
    close(ends[0]);
    exit(body(task, ends[1]));
  }
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    tsr_cli_error("bench: fork: %s", strerror(errno));
    return TSR_EXIT_MEMORY;
  }
  crew->processes[crew->n++] = (bench_process){.pid = pid, .channel = ends[0]};
  return TSR_EXIT_OK;
}

/* All of `size` bytes; 0 if the other side is gone. */
static int receive(int channel, void *bytes, size_t size)
{
  for (size_t done = 0; done < size;) {
    ssize_t got = recv(channel, (char *)bytes + done, size - done, 0);
    if (got <= 0 && !(got < 0 && errno == EINTR)) {
      return 0;
    }
    done += got > 0 ? (size_t)got : 0;
  }
  return 1;
}

static int transmit(int channel, const void *bytes, size_t size)
{
  for (size_t done = 0; done < size;) {
    ssize_t sent = send(channel, (const char *)bytes + done, size - done, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) {
      return 0;
    }
    done += sent > 0 ? (size_t)sent : 0;
  }
  return 1;
}

int bench_crew_ask(bench_crew *crew, int32_t index, int32_t request, void *reply, size_t size)
{
  bench_process *process = &crew->processes[index];
  nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
  if (transmit(process->channel, &request, sizeof request) && receive(process->channel, reply, size)) {
    return TSR_EXIT_OK;
  }
  int code = end_process(process);
  if (code == TSR_EXIT_OK) {
    tsr_cli_error("bench: a measuring process ended early");
    return TSR_EXIT_INTERNAL;
  }
  return code;
}

int bench_next(int channel, int32_t *request)
{
  return receive(channel, request, sizeof *request);
}

void bench_reply(int channel, const void *reply, size_t size)
{
  transmit(channel, reply, size); /* if nobody listens, bench_next tells */
}

int64_t bench_peak_memory(void)
{
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

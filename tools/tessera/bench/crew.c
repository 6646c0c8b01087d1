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
#include "tools/tessera/common/json.h"
#include "tools/tessera/common/message.h"
#include "tools/tessera/common/table.h"
#include "tools/tessera/options/options.h"

enum { PAUSE_MS = 50 }; /* OpenBLAS' threads spin for about 20 ms */

/* ---- processes --------------------------------------------------------------------------------------------------- */

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

int bench_set_threads(int32_t threads)
{
  char text[16];
  snprintf(text, sizeof text, "%d", (int)threads);
  return threads == 0 || setenv("TESSERA_THREADS", text, 1) == 0 ? TSR_EXIT_OK : tsr_cli_no_memory();
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

static int compare_doubles(const void *left, const void *right)
{
  double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

bench_summary bench_summarise(double *values, int32_t n)
{
  qsort(values, (size_t)n, sizeof *values, compare_doubles);
  double median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return (bench_summary){.median = median, .least = values[0], .most = values[n - 1]};
}

void bench_count_cell(tsr_cli_table *table, int32_t count)
{
  if (count > 0) {
    tsr_cli_table_cell(table, "%d", (int)count);
  } else {
    tsr_cli_table_cell(table, "-");
  }
}

json_t *bench_summary_json(const bench_summary *summary, double factor)
{
  return json_pack("{s:f, s:f, s:f}", "median", factor * summary->median, "min", factor * summary->least, "max",
                   factor * summary->most);
}

char *bench_date(char *text)
{
  time_t now = time(NULL);
  struct tm utc;
  if (!gmtime_r(&now, &utc) || strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0) {
    text[0] = '\0';
  }
  return text;
}

void bench_describe(const tsr_device *device, bench_device_text *text)
{
  const tsr_device_properties *properties = tsr_device_get_properties(device);
  snprintf(text->device, sizeof text->device, "%s", tsr_device_name(device));
  snprintf(text->name, sizeof text->name, "%s", properties->name);
  snprintf(text->driver, sizeof text->driver, "%s", properties->driver);
}

json_t *bench_device_json(json_t *root, const bench_device_text *text)
{
  char date[32];
  if (root) {
    json_object_set_new(root, "device", json_string(text->device));
    json_object_set_new(root, "device_name", tsr_cli_json_text(text->name, strlen(text->name)));
    json_object_set_new(root, "driver", tsr_cli_json_text(text->driver, strlen(text->driver)));
    json_object_set_new(root, "date", json_string(bench_date(date)));
  }
  return root;
}

const char bench_missing_file[] = "--model FOLDER and one file of sentences are needed";

void bench_choose_device(tsr_names *devices)
{
  if (devices->n == 0) {
    devices->n = 1;
  }
}

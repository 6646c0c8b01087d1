/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend `paced`: what the backend in the file PACED_OVER computes, on a device that takes PACED_US microseconds for
 * each line, in which the host's processors are free. So it shows what the host does meanwhile, as on a card, where
 * there is none.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tessera/backend.h"

enum { MOST = 4096 };

static tsr_backend table;
static const tsr_backend *real;
static double pace;    /* seconds of a line */
static double free_at; /* when the device will have done all that it was given */
static struct {
  tsr_backend_executable *executable;
  int32_t n_lines;
  double done_at;
} known[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int find(const tsr_backend_executable *executable)
{
  for (int i = 0; i < MOST; i++) {
    if (known[i].executable == executable) {
      return i;
    }
  }
  return 0;
}

static int32_t properties(void *context, uint32_t index, tsr_device_properties *p)
{
  const int32_t status = real->device_properties(context, index, p);
  p->type = TSR_DEVICE_DISCRETE_GPU;
  p->concurrent_runs = 0;
  p->runs_in_hand = 2;
  return status;
}

static int32_t compile(tsr_backend_device *device, const tsr_compile_args *args, tsr_backend_executable **executable)
{
  const int32_t status = real->compile(device, args, executable);
  pthread_mutex_lock(&lock);
  if (status == TSR_OK) {
    const int i = find(NULL);
    known[i].executable = *executable;
    known[i].n_lines = args->program->n_lines;
  }
  pthread_mutex_unlock(&lock);
  return status;
}

static void destroy(tsr_backend_executable *executable)
{
  pthread_mutex_lock(&lock);
  if (executable) {
    known[find(executable)].executable = NULL;
  }
  pthread_mutex_unlock(&lock);
  real->executable_destroy(executable);
}

static int32_t run(tsr_backend_executable *executable)
{
  const double begin = now();
  const int32_t status = real->run(executable);
  pthread_mutex_lock(&lock);
  const int i = find(executable);
  free_at = (free_at > begin ? free_at : begin) + pace * known[i].n_lines;
  known[i].done_at = free_at;
  pthread_mutex_unlock(&lock);
  return status;
}

static int32_t wait_for(tsr_backend_executable *executable)
{
  pthread_mutex_lock(&lock);
  const double left = known[find(executable)].done_at - now();
  pthread_mutex_unlock(&lock);
  if (left > 0) {
    const struct timespec nap = {.tv_sec = (time_t)left, .tv_nsec = (long)((left - (double)(time_t)left) * 1e9)};
    nanosleep(&nap, NULL);
  }
  return real->wait(executable);
}

const tsr_backend *TSR_BACKEND_QUERY(uint32_t host_abi_major, const tsr_host *host)
{
  const char *file = getenv("PACED_OVER"), *microseconds = getenv("PACED_US");
  void *library = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
  void *address = library ? dlsym(library, "tessera_backend_query") : NULL;
  tsr_backend_query_fn query;
  if (!address) {
    return NULL;
  }
  memcpy(&query, &address, sizeof query);
  real = query(host_abi_major, host);
  if (!real) {
    return NULL;
  }
  memcpy(&table, real, real->struct_size < sizeof table ? real->struct_size : sizeof table);
  pace = microseconds ? strtod(microseconds, NULL) * 1e-6 : 0;
  table.name = "paced";
  table.description = "a device that takes its time";
  table.device_properties = properties;
  table.compile = compile;
  table.executable_destroy = destroy;
  table.run = run;
  table.wait = wait_for;
  return &table;
}

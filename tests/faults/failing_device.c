/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend whose plugin REFERENCE names, as a backend `failing` with GPUs, so that `auto` takes them first: as many
 * as TESSERA_FAILING_DEVICES says (1), each of which is lost with run number TESSERA_FAILING_RUNS (never, if that is
 * not set) of it. Where TESSERA_FAILING_WHILE names a file, the devices are lost while it exists: runs fail and
 * devices cannot be opened, and each time that one is to be opened the seconds of a steady clock are added to the
 * file. Where TESSERA_FAILING_SLOW names a file, the device that was opened first takes no data as long as it exists,
 * and writes into the file when it begins to wait. With TESSERA_FAILING_AHEAD=1 steps run ahead of the host, and the
 * run that loses the device is found out when it is waited for.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/over_reference.h"

static const tsr_backend *sound;
static const tsr_host *services;
static long last_run, is_ahead;
static long n_runs; /* of the device that was opened last */
static const tsr_backend_device *first_opened;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static long number_of(const char *name, long otherwise)
{
  const char *text = services->option(services, name);
  return text ? strtol(text, NULL, 10) : otherwise;
}

static int32_t start(const tsr_host *host, void **context)
{
  services = host;
  last_run = number_of("FAILING_RUNS", 0);
  is_ahead = number_of("FAILING_AHEAD", 0);
  return sound->start(host, context);
}

static int32_t device_count(void *context, uint32_t *count)
{
  (void)context;
  *count = (uint32_t)number_of("FAILING_DEVICES", 1);
  return TSR_OK;
}

static int32_t device_properties(void *context, uint32_t index, tsr_device_properties *properties)
{
  (void)index;
  const int32_t status = sound->device_properties(context, 0, properties);
  properties->type = TSR_DEVICE_DISCRETE_GPU;
  if (is_ahead) {
    properties->concurrent_runs = 0;
    properties->runs_in_hand = 2;
  }
  return status;
}

/* 1 while the file is there. */
static int is_gone(int is_opened)
{
  const char *name = services->option(services, "FAILING_WHILE");
  FILE *file = name ? fopen(name, is_opened ? "r+" : "r") : NULL;
  if (file && is_opened) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    fseek(file, 0, SEEK_END);
    fprintf(file, "%ld.%03ld\n", (long)now.tv_sec, now.tv_nsec / 1000000);
  }
  if (file) {
    fclose(file);
  }
  return file != NULL;
}

/* Waits while the file exists that an option names, and writes into it first. `name`: of the option, or NULL. */
static void hang_while(const char *name)
{
  const char *path = name ? services->option(services, name) : NULL;
  FILE *file = path ? fopen(path, "r+") : NULL; /* which makes none */
  if (file) {
    fputs("waits\n", file);
    fclose(file);
  }
  while (path && access(path, F_OK) == 0) {
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
  }
}

static int32_t device_open(void *context, uint32_t index, tsr_backend_device **device)
{
  (void)index;
  hang_while("FAILING_OPENING");
  if (is_gone(1)) {
    services->report(services, TSR_LOG_ERROR, "the device is not there");
    return TSR_ERR_DEVICE_LOST;
  }
  pthread_mutex_lock(&lock);
  n_runs = 0;
  pthread_mutex_unlock(&lock);
  const int32_t status = sound->device_open(context, 0, device);
  pthread_mutex_lock(&lock);
  first_opened = first_opened ? first_opened : *device;
  pthread_mutex_unlock(&lock);
  return status;
}

static int32_t buffer_create(tsr_backend_device *device, uint64_t size, int32_t usage, tsr_backend_buffer **buffer)
{
  pthread_mutex_lock(&lock);
  const int is_first = device == first_opened;
  pthread_mutex_unlock(&lock);
  hang_while(is_first ? "FAILING_SLOW" : NULL);
  return sound->buffer_create(device, size, usage, buffer);
}

/* 1 once the device is lost. `runs`: how many runs this call is. */
static int count(long runs)
{
  pthread_mutex_lock(&lock);
  n_runs += runs;
  const int is_lost = (last_run > 0 && n_runs >= last_run) || is_gone(0);
  pthread_mutex_unlock(&lock);
  return is_lost;
}

static int32_t check(long runs)
{
  const int is_lost = count(runs);
  if (is_lost) {
    services->report(services, TSR_LOG_ERROR, "the device stopped answering");
  }
  return is_lost ? TSR_ERR_DEVICE_LOST : TSR_OK;
}

static int32_t run(tsr_backend_executable *executable)
{
  if (is_ahead) {
    return count(1) ? TSR_OK : sound->run(executable);
  }
  const int32_t status = check(1);
  return status == TSR_OK ? sound->run(executable) : status;
}

static int32_t wait(tsr_backend_executable *executable)
{
  const int32_t status = check(0);
  return status == TSR_OK ? sound->wait(executable) : status;
}

static int32_t buffer_read(tsr_backend_buffer *buffer, uint64_t offset, uint64_t size, void *bytes)
{
  const int32_t status = check(0);
  return status == TSR_OK ? sound->buffer_read(buffer, offset, size, bytes) : status;
}

const tsr_backend *tessera_backend_query(uint32_t host_abi_major, const tsr_host *host)
{
  static tsr_backend table;
  sound = query_reference(host_abi_major, host);
  if (!sound) {
    return NULL;
  }
  table = *sound;
  table.name = "failing";
  table.start = start;
  table.device_count = device_count;
  table.device_properties = device_properties;
  table.device_open = device_open;
  table.buffer_create = buffer_create;
  table.run = run;
  table.wait = wait;
  table.buffer_read = buffer_read;
  return &table;
}

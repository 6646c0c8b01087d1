/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/tessera/check/workers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/tessera/common/message.h"

struct check_workers {
  tsr_runtime *runtime;
  check_device *reference, *const *devices;
  int32_t n_devices;
  uint64_t seed;
  pthread_t *threads;
  int32_t n_threads;
  pthread_mutex_t lock;    /* of what follows */
  pthread_cond_t changed;  /* any of it */
  check_unit *first, *end; /* those that nobody took yet, as they were given */
  check_unit *unbegun;     /* the first of them that no thread has */
  int32_t n_ready;         /* threads that run units, or will once their devices are open */
  int32_t is_ending;
};

check_try *check_unit_add(check_unit *unit)
{
  check_try *tries = realloc(unit->tries, ((size_t)unit->n_tries + 1) * sizeof(*tries));

  if (!tries) {
    return NULL;
  }
  unit->tries = tries;
  tries[unit->n_tries] = (check_try){0};
  return &tries[unit->n_tries++];
}

void check_unit_destroy(check_unit *unit)
{
  if (unit) {
    tsr_program_destroy(unit->program);
    free(unit->tries);
    free(unit);
  }
}

static void fail(check_result *result, tsr_status status)
{
  result->verdict = CHECK_FAILED;
  snprintf(result->message, sizeof(result->message), "%s: %.900s", tsr_status_name(status), tsr_error_message());
}

static void run_unit(check_unit *unit, uint64_t seed, check_device *reference, check_device *const *devices)
{
  check_oracle *oracle = NULL;

  for (int32_t i = 0; i < unit->n_tries; i++) {
    check_try *one = &unit->tries[i];
    check_device *device = devices[one->device];
    if (!one->is_run) {
      continue;
    }
    tsr_status status = tsr_device_force_variant(device->device, one->variant);
    if (!status && !oracle) {
      status = check_oracle_create(unit->test, seed, reference, &oracle);
    }
    if (status) {
      fail(&one->result, status);
    } else {
      check_oracle_try(oracle, device, &one->result);
    }
  }
  check_oracle_destroy(oracle);
}

/* ---- a thread ---------------------------------------------------------------------------------------------------- */

/* The devices of one thread. */
typedef struct thread_devices {
  check_device reference;
  check_device *devices;
  check_device **pointers; /* to them */
} thread_devices;

static tsr_status open_devices(const check_workers *w, thread_devices *mine)
{
  *mine = (thread_devices){.devices = calloc((size_t)w->n_devices + 1, sizeof(*mine->devices)),
                           .pointers = calloc((size_t)w->n_devices + 1, sizeof(*mine->pointers))};
  tsr_status status = mine->devices && mine->pointers ? TSR_OK : TSR_ERR_OUT_OF_MEMORY;

  if (!status) {
    status = check_device_open(&mine->reference, w->runtime, tsr_device_name(w->reference->device));
  }
  for (int32_t i = 0; i < w->n_devices && !status; i++) {
    mine->pointers[i] = &mine->devices[i];
    status = check_device_open(&mine->devices[i], w->runtime, tsr_device_name(w->devices[i]->device));
  }
  return status;
}

static void close_devices(const check_workers *w, thread_devices *mine)
{
  for (int32_t i = 0; mine->devices && i < w->n_devices; i++) {
    check_device_finish(&mine->devices[i]);
  }
  check_device_finish(&mine->reference);
  free(mine->devices);
  free(mine->pointers);
}

static void *work(void *opaque)
{
  check_workers *w = opaque;
  thread_devices mine;
  const tsr_status status = open_devices(w, &mine);

  pthread_mutex_lock(&w->lock);
  while (!status && !w->is_ending) {
    check_unit *unit = w->unbegun;
    if (!unit) {
      pthread_cond_wait(&w->changed, &w->lock);
      continue;
    }
    w->unbegun = unit->next;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    run_unit(unit, w->seed, &mine.reference, mine.pointers);
    pthread_mutex_lock(&w->lock);
    unit->is_over = 1;
    pthread_cond_broadcast(&w->changed);
  }
  w->n_ready--;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
  close_devices(w, &mine);
  return NULL;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

int check_workers_create(tsr_runtime *runtime, check_device *reference, check_device *const *devices, int32_t n_devices,
                         uint64_t seed, int32_t n_threads, check_workers **workers)
{
  check_workers *w = calloc(1, sizeof(*w));

  *workers = w;
  if (!w) {
    return tsr_cli_no_memory();
  }
  *w = (check_workers){
      .runtime = runtime, .reference = reference, .devices = devices, .n_devices = n_devices, .seed = seed};
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->changed, NULL);
  w->threads = calloc((size_t)n_threads + 1, sizeof(*w->threads));
  if (!w->threads) {
    return tsr_cli_no_memory();
  }
  pthread_mutex_lock(&w->lock);
  while (w->n_threads < n_threads && pthread_create(&w->threads[w->n_threads], NULL, work, w) == 0) {
    w->n_threads++;
  }
  w->n_ready = w->n_threads;
  pthread_mutex_unlock(&w->lock);
  return TSR_EXIT_OK;
}

void check_workers_destroy(check_workers *w)
{
  if (!w) {
    return;
  }
  pthread_mutex_lock(&w->lock);
  w->is_ending = 1;
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
  for (int32_t i = 0; i < w->n_threads; i++) {
    pthread_join(w->threads[i], NULL);
  }
  for (check_unit *unit = w->first, *next; unit; unit = next) {
    next = unit->next;
    check_unit_destroy(unit);
  }
  pthread_cond_destroy(&w->changed);
  pthread_mutex_destroy(&w->lock);
  free(w->threads);
  free(w);
}

/* Runs in this thread what no other one will. */
static void run_left_over(check_workers *w)
{
  for (; w->n_ready == 0 && w->unbegun; w->unbegun = w->unbegun->next) {
    run_unit(w->unbegun, w->seed, w->reference, w->devices);
    w->unbegun->is_over = 1;
  }
}

void check_workers_give(check_workers *w, check_unit *unit)
{
  unit->next = NULL;
  pthread_mutex_lock(&w->lock);
  while (w->unbegun && w->n_ready > 0) {
    pthread_cond_wait(&w->changed, &w->lock);
  }
  if (w->first) {
    w->end->next = unit;
  } else {
    w->first = unit;
  }
  w->end = unit;
  w->unbegun = w->unbegun ? w->unbegun : unit;
  run_left_over(w);
  pthread_cond_broadcast(&w->changed);
  pthread_mutex_unlock(&w->lock);
}

check_unit *check_workers_take(check_workers *w, int32_t is_patient)
{
  pthread_mutex_lock(&w->lock);
  check_unit *unit = w->first;
  while (unit && !unit->is_over && is_patient) {
    run_left_over(w);
    if (!unit->is_over) {
      pthread_cond_wait(&w->changed, &w->lock);
    }
  }
  if (unit && unit->is_over) {
    w->first = unit->next;
  } else {
    unit = NULL;
  }
  pthread_mutex_unlock(&w->lock);
  return unit;
}

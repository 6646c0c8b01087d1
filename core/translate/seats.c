/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/generate/batches.h"
#include "core/translate/translate.h"

enum { CACHE = 64 /* compiled programs: batches that are joined have many sizes */ };

int32_t tsr_is_of_device(tsr_status status)
{
  return status == TSR_ERR_DEVICE_LOST || status == TSR_ERR_DEVICE_MEMORY || status == TSR_ERR_PLUGIN;
}

/* Another device may be chosen where nobody named one. */
static int32_t is_auto(const char *name)
{
  const char *wanted = name ? name : getenv("TESSERA_DEVICE");
  return !wanted || !*wanted || strcmp(wanted, "auto") == 0;
}

/* Its weights, and a transformer for each thread. */
static tsr_status load(const tsr_translator *t, tsr_seat *seat)
{
  /* What is searched together has few sizes. A worker that calls tsr_generate may use its own transformer alone: the
   * siblings are the other workers'. */
  const tsr_transformer_options options = {TSR_SIZED(tsr_transformer_options),
                                           .weights = t->options.weights,
                                           .strict = t->options.strict,
                                           .cache = t->options.static_batches ? 0 : CACHE,
                                           .workers = 1,
                                           .n_others = seat->n_devices - 1,
                                           .others = seat->devices + 1,
                                           .profile = t->options.profile};
  TSR_TRY(tsr_transformer_create(t->model, seat->device, &options, &seat->transformer));
  for (int32_t i = 0; i < seat->n_workers; i++) {
    TSR_TRY(tsr_transformer_sibling(seat->transformer, i, &seat->workers[i].transformer));
    seat->workers[i].counted = (tsr_work){0};
  }
  int32_t concurrent = (int32_t)tsr_device_get_properties(seat->device)->concurrent_runs;
  int32_t wanted = t->options.workers > 0 ? t->options.workers : concurrent > 1 ? concurrent : 1;
  seat->n_used = wanted < seat->n_workers ? wanted : seat->n_workers;
  int64_t weights = tsr_transformer_weights_size(seat->transformer);
  seat->best_batch = tsr_search_is_frugal(seat->transformer) ? tsr_best_batch(weights) : 0;
  seat->least_rows = seat->best_batch > 0 ? 1 : tsr_least_rows(weights);
  seat->limit = 0;
  seat->last = NULL;
  return TSR_OK;
}

static void unload(tsr_seat *seat)
{
  tsr_transformer_destroy(seat->transformer);
  for (int32_t i = 0; i < seat->n_devices; i++) {
    tsr_device_close(seat->devices[i]);
  }
  seat->transformer = NULL;
  seat->device = NULL;
  seat->n_devices = 0;
}

/* After one of its devices was opened into seat->devices. */
static void take_device(tsr_seat *seat)
{
  seat->n_devices++;
  seat->device = seat->devices[0];
}

/* Opens what auto would choose without those that failed. The one on the seat is one of them; the error that it gave is
 * the thread's. */
static tsr_status open_other(tsr_translator *t, tsr_seat *seat)
{
  const char *names[TSR_MAX_SEATS];
  if (t->n_failed == TSR_MAX_SEATS) {
    return tsr_fail(TSR_ERR_NO_DEVICE, "%d devices have failed", TSR_MAX_SEATS);
  }
  snprintf(t->failed[t->n_failed++], sizeof t->failed[0], "%s", tsr_device_name(seat->device));
  for (int32_t i = 0; i < t->n_failed; i++) {
    names[i] = t->failed[i];
  }
  unload(seat);
  TSR_TRY(tsr_device_open_other(t->runtime, names, t->n_failed, &seat->devices[0]));
  take_device(seat);
  tsr_log(TSR_LOG_WARNING, "going on with %s", tsr_device_name(seat->device));
  return TSR_OK;
}

/* Loads the model; where that fails by the device's fault, on another one. */
static tsr_status load_somewhere(tsr_translator *t, tsr_seat *seat)
{
  for (;;) {
    tsr_status status = load(t, seat);
    if (status == TSR_OK || !seat->is_auto || !tsr_is_of_device(status)) {
      return status;
    }
    tsr_log(TSR_LOG_WARNING, "%s", tsr_error_message());
    TSR_TRY(open_other(t, seat));
  }
}

/* names: [n]; more than one if the model is split. */
static tsr_status open_seat(tsr_translator *t, const char *const *names, int32_t n_names, tsr_seat *seat)
{
  seat->is_auto = n_names == 1 && is_auto(names[0]) && !t->options.profile;
  for (int32_t i = 0; i < n_names; i++) {
    TSR_TRY(tsr_device_open(t->runtime, names[i], &seat->devices[i]));
    take_device(seat);
  }
  int32_t concurrent = (int32_t)tsr_device_get_properties(seat->device)->concurrent_runs;
  int32_t n = t->options.workers > 0 ? t->options.workers : concurrent > 1 ? concurrent : 1;
  seat->workers = calloc((size_t)n, sizeof *seat->workers);
  if (!seat->workers) {
    return tsr_fail_memory((size_t)n * sizeof *seat->workers);
  }
  seat->n_workers = n;
  for (int32_t i = 0; i < n; i++) {
    seat->workers[i] = (tsr_worker){.translator = t, .seat = seat, .index = i};
    pthread_mutex_init(&seat->workers[i].tell, NULL);
  }
  return load_somewhere(t, seat);
}

tsr_status tsr_seats_open(tsr_translator *t)
{
  if (!t->options.runtime) {
    TSR_TRY(tsr_runtime_create(NULL, &t->own_runtime));
  }
  t->runtime = t->options.runtime ? t->options.runtime : t->own_runtime;
  static const char *const any = NULL;
  const char *const *names = t->options.n_devices > 0 ? t->options.devices : &any;
  const int32_t n = t->options.n_devices > 0 ? t->options.n_devices : 1, at_once = t->options.split ? n : 1;
  for (int32_t i = 0; i < n; i += at_once) {
    t->n_seats++;
    TSR_TRY(open_seat(t, names + i, at_once, &t->seats[i / at_once]));
  }
  TSR_TRY(tsr_alignment_choose(t, t->seats[0].workers[0].transformer));
  return t->options.static_batches ? TSR_OK : tsr_seats_start(t);
}

tsr_status tsr_seats_start(tsr_translator *t)
{
  for (int32_t i = 0; i < t->n_seats; i++) {
    for (int32_t k = 0; k < t->seats[i].n_workers; k++) {
      tsr_worker *w = &t->seats[i].workers[k];
      if (!w->is_thread && pthread_create(&w->thread, NULL, tsr_worker_run, w) != 0) {
        return tsr_fail(TSR_ERR_OUT_OF_MEMORY, "a thread that searches cannot be started");
      }
      w->is_thread = 1;
    }
  }
  return TSR_OK;
}

void tsr_seats_close(tsr_translator *t)
{
  for (int32_t i = 0; i < t->n_seats; i++) {
    tsr_seat *seat = &t->seats[i];
    for (int32_t k = 0; k < seat->n_workers; k++) {
      if (seat->workers[k].is_thread) {
        pthread_join(seat->workers[k].thread, NULL);
      }
      pthread_mutex_destroy(&seat->workers[k].tell);
      free(seat->workers[k].active);
    }
    unload(seat);
    free(seat->message);
    free(seat->workers);
  }
  tsr_runtime_destroy(t->own_runtime);
}

int32_t tsr_seat_is_free(const tsr_seat *seat)
{
  int32_t n_running = 0;
  for (int32_t i = 0; i < seat->n_workers; i++) {
    n_running += seat->workers[i].class != NULL;
  }
  return !seat->is_dead && !seat->is_held && seat->failure == TSR_OK && n_running == 0;
}

/* The seat to hold now, or NULL. *n_alive: how many may be held some time. */
static tsr_seat *find_free(tsr_translator *t, tsr_seat *wanted, int32_t *n_alive)
{
  tsr_seat *found = NULL;
  *n_alive = 0;
  for (int32_t i = 0; i < t->n_seats; i++) {
    tsr_seat *seat = &t->seats[i];
    if (!wanted || wanted == seat) {
      *n_alive += !seat->is_dead;
      found = !found && tsr_seat_is_free(seat) ? seat : found;
    }
  }
  return found;
}

/* Counts a thread among those that wait for a seat, or no more. */
static void announce(tsr_translator *t, const tsr_seat *wanted, int32_t more)
{
  for (int32_t i = 0; i < t->n_seats; i++) {
    t->seats[i].n_holders += !wanted || wanted == &t->seats[i] ? more : 0;
  }
}

tsr_status tsr_seat_hold(tsr_translator *t, tsr_seat *wanted, tsr_seat **held)
{
  int32_t n_alive;
  announce(t, wanted, 1);
  tsr_seat *found = find_free(t, wanted, &n_alive);
  while (!found && n_alive > 0 && !t->is_closing) {
    pthread_cond_wait(&t->changed, &t->lock);
    found = find_free(t, wanted, &n_alive);
  }
  announce(t, wanted, -1);
  tsr_status status = TSR_OK;
  if (t->is_closing) {
    status = tsr_fail(TSR_ERR_CANCELLED, "the translator is being closed");
  } else if (n_alive == 0) {
    status = tsr_fail(t->status != TSR_OK ? t->status : TSR_ERR_NO_DEVICE, "the device failed: %s",
                      t->message ? t->message : "another one goes on in its place");
  } else {
    found->n_holders++;
    found->is_held = 1;
    *held = found;
  }
  pthread_cond_broadcast(&t->more); /* the other seats may go on */
  return status;
}

void tsr_seat_release(tsr_translator *t, tsr_seat *seat)
{
  seat->is_held = 0;
  seat->n_holders--;
  pthread_cond_broadcast(&t->more);
  pthread_cond_broadcast(&t->changed);
}

/* No device is left: nothing that waits will ever run. */
static void give_all_up(tsr_translator *t, tsr_status status, tsr_job **answers)
{
  t->status = status;
  t->message = strdup(tsr_error_message());
  for (tsr_job *job = t->oldest, *newer; job; job = newer) {
    newer = job->newer;
    tsr_job_give_up(t, job, status, answers);
  }
}

void tsr_seat_replace(tsr_translator *t, tsr_seat *seat, tsr_job **answers)
{
  tsr_status status = seat->failure;
  if (seat->is_auto && !t->is_closing) {
    pthread_mutex_unlock(&t->lock);
    tsr_log(TSR_LOG_WARNING, "%s", seat->message ? seat->message : tsr_status_name(status));
    pthread_mutex_lock(&t->replacing);
    status = open_other(t, seat);
    status = status == TSR_OK ? load_somewhere(t, seat) : status;
    pthread_mutex_unlock(&t->replacing);
    pthread_mutex_lock(&t->lock);
  } else {
    (void)tsr_fail(status, "%s", seat->message ? seat->message : tsr_status_name(status));
  }
  free(seat->message);
  seat->message = NULL;
  seat->failure = TSR_OK;
  seat->n_stopped = 0;
  seat->n_replaced++;
  memset(seat->shown, 0, sizeof seat->shown);
  seat->is_dead = status != TSR_OK;
  int32_t n_alive = 0;
  for (int32_t i = 0; i < t->n_seats; i++) {
    n_alive += !t->seats[i].is_dead;
  }
  if (n_alive == 0) {
    give_all_up(t, status, answers);
  }
  pthread_cond_broadcast(&t->more);
  pthread_cond_broadcast(&t->changed);
  if (n_alive > 0 && seat->is_dead && !t->is_closing) {
    pthread_mutex_unlock(&t->lock);
    tsr_log(TSR_LOG_WARNING, "%s; going on without it", tsr_error_message());
    pthread_mutex_lock(&t->lock);
  }
}

/* With `replacing`: device `index`, and whether it failed; NULL: it is among those that gave their place away, or there
 * are not so many. *index is counted down by those before. */
static tsr_device *find_device(tsr_translator *t, int32_t *index, int32_t *is_lost)
{
  tsr_device *found = NULL;
  pthread_mutex_lock(&t->lock);
  for (int32_t i = 0; i < t->n_seats && !found; i++) {
    const tsr_seat *seat = &t->seats[i];
    for (int32_t k = 0; k < seat->n_devices && !found; k++) {
      if ((*index)-- == 0) {
        found = seat->devices[k];
        *is_lost = seat->is_dead || seat->failure != TSR_OK;
      }
    }
  }
  pthread_mutex_unlock(&t->lock);
  return found;
}

tsr_status tsr_translator_get_device_sized(tsr_translator *translator, int32_t index, tsr_translator_device *info,
                                           size_t size)
{
  tsr_translator *t = translator;
  if (!t || !info || index < 0) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_get_device: translator and info are needed, and an index");
  }
  tsr_translator_device found = {.is_lost = 1};
  tsr_device_counters counters = {TSR_SIZED(tsr_device_counters)};
  tsr_status status = TSR_OK;
  int32_t left = index;
  pthread_mutex_lock(&t->replacing);
  tsr_device *device = find_device(t, &left, &found.is_lost);
  if (device) {
    snprintf(found.name, sizeof found.name, "%s", tsr_device_name(device));
    found.type = tsr_device_get_properties(device)->type;
    status = tsr_device_get_counters(device, &counters);
    found.bytes_in_use = (int64_t)counters.bytes_in_use;
  } else if (left < t->n_failed) {
    snprintf(found.name, sizeof found.name, "%s", t->failed[left]);
  } else {
    status = tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_get_device: the translator has no device %d", (int)index);
  }
  pthread_mutex_unlock(&t->replacing);
  tsr_sized_fill(&found, sizeof found, info, size);
  return status;
}

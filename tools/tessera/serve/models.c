/* SPDX-License-Identifier: Apache-2.0
 *
 * Translators and transcribers: opened when a text or a sound needs one, closed when others need the memory. Where
 * their devices fail, others are opened in their place, and the devices tried again.
 */
#include "tools/tessera/serve/models.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/serve/clock.h"
#include "tools/tessera/serve/devices.h"
#include "tools/tessera/serve/instance.h"
#include "tools/tessera/serve/model_set.h"
#include "tools/tessera/serve/models_private.h"

static const double look_pause = 1.0;
static const double longest_end = 5.0; /* that a driver is waited for when the server ends */

/* ---- the threads ------------------------------------------------------------------------------------------------- */

static void add_statistics(tsr_translator_statistics *sum, const tsr_translator_statistics *one)
{
  sum->answered += one->answered;
  sum->failed += one->failed;
  sum->waiting += one->waiting;
  sum->running += one->running;
  sum->joined += one->joined;
  sum->batches += one->batches;
  sum->source_tokens += one->source_tokens;
  sum->target_tokens += one->target_tokens;
  sum->step_runs += one->step_runs;
  sum->encode_runs += one->encode_runs;
  sum->step_seconds += one->step_seconds;
  sum->encode_seconds += one->encode_seconds;
  sum->rows += one->rows;
  sum->devices += one->devices;
  sum->workers += one->workers;
}

/* With the lock, which is given up meanwhile. Returns 1 if something was closed. */
static int close_one(models *m)
{
  instance *by = m->closing;
  if (!by) {
    return 0;
  }
  m->closing = by->next;
  pthread_mutex_unlock(&m->lock);
  tsr_translator_statistics last = {0};
  if (by->translator) {
    tsr_translator_measure(by->translator, &last);
  }
  last.waiting = last.running = 0;
  last.devices = last.workers = 0;
  const int64_t bytes = by->bytes;
  instance_free(by);
  pthread_mutex_lock(&m->lock);
  m->n_instances--;
  m->retired_bytes -= bytes;
  add_statistics(&m->statistics.translators, &last);
  return 1;
}

/* With the lock. Closes the models that were not used for longest, until there will be room for a model. Returns 0 if
 * there is none yet: others are still being opened or closed. */
static int make_room(models *m, const model *wanted)
{
  const int64_t most = m->settings->memory << 20;
  while (most > 0) {
    int64_t open = 0;
    model *oldest = NULL;
    for (model *one = m->all; one; one = one->after) {
      open += one->open || one->is_opening ? one->bytes : 0;
      if (one->open && !one->is_opening && (!oldest || one->used < oldest->used)) {
        oldest = one;
      }
    }
    if (open + wanted->bytes <= most || !oldest) {
      const int64_t taken = open + m->retired_bytes;
      return taken == 0 || taken + wanted->bytes <= most;
    }
    models_retire(oldest);
    m->statistics.evicted++;
  }
  return 1;
}

/* With the lock. */
static void take_instance(models *m, model *of, instance *by)
{
  by->model = of;
  by->bytes = of->bytes;
  of->open = by;
  m->n_instances++;
  m->looked_at = 0.0; /* the devices have changed */
}

static segment *take_waiting(model *of)
{
  segment *waiting = of->first;
  of->first = of->last = NULL;
  return waiting;
}

/* With the lock, which is given up meanwhile. */
static void open_model(models *m, model *of)
{
  instance *by = NULL;
  of->is_opening = 1;
  of->references++;
  while (close_one(m)) {
  }
  const serve_settings *settings = m->settings;
  char lost[DEVICE_NAME_ROOM];
  strcpy(lost, of->lost);
  int where = of->is_avoiding && clock_seconds() < of->retry_at ? INSTANCE_OTHERS : INSTANCE_SOMEWHERE;
  pthread_mutex_unlock(&m->lock);
  tsr_status status = instance_open(m, of, settings, m->runtime, where, &by);
  if (status == TSR_OK && lost[0] && !instance_uses(by, lost)) {
    atomic_store(&by->has_lost, 1);
  }
  char *problem = status == TSR_OK ? NULL : strdup(tsr_error_message());
  int is_lasting = status != TSR_OK && !instance_is_about_device(status);
  pthread_mutex_lock(&m->lock);
  of->is_opening = 0;
  of->is_avoiding = 0;
  free(of->problem);
  of->problem = problem;
  segment *waiting = NULL;
  if (status == TSR_OK) {
    take_instance(m, of, by);
    of->is_given_up = 0;
    of->used = clock_seconds();
    m->statistics.opened++;
    waiting = of->hears ? NULL : take_waiting(of);
    pthread_cond_broadcast(&m->sounds);
    for (segment *s = waiting; s; s = s->next) {
      instance_hold(by);
    }
    if (!atomic_load(&by->has_lost)) {
      of->lost[0] = '\0';
    } else if (where == INSTANCE_SOMEWHERE) {
      models_note_failure(m, of);
    }
  } else {
    models_note_failure(m, of);
    of->is_given_up = is_lasting;
    tsr_cli_error("%s cannot be opened: %s", of->folder, problem ? problem : tsr_status_name(status));
    waiting = is_lasting ? take_waiting(of) : NULL;
  }
  pthread_mutex_unlock(&m->lock);
  while (waiting) {
    segment *s = waiting;
    waiting = s->next;
    if (by) {
      instance_submit(by, s);
    } else {
      segment_finish(s, SEGMENT_REFUSED, NULL);
    }
  }
  pthread_mutex_lock(&m->lock);
  of->references--;
}

/* With the lock, which is given up meanwhile: a translator that goes on without a device that was asked for gives way
 * to one that has it, as soon as it can be opened. */
static void open_better(models *m, model *of)
{
  instance *by = NULL;
  of->is_opening = 1;
  of->references++;
  const serve_settings *settings = m->settings;
  char lost[DEVICE_NAME_ROOM];
  strcpy(lost, of->lost);
  pthread_mutex_unlock(&m->lock);
  tsr_status status = instance_open(m, of, settings, m->runtime, INSTANCE_ASKED, &by);
  if (status == TSR_OK && lost[0] && !instance_uses(by, lost)) { /* auto has taken another one again */
    instance_free(by);
    status = TSR_ERR_NO_DEVICE;
  }
  pthread_mutex_lock(&m->lock);
  of->is_opening = 0;
  of->references--;
  if (status != TSR_OK) {
    of->retry_at = clock_seconds() + models_next_pause(of);
    return;
  }
  tsr_cli_warning("%s: its device is there again", of->name);
  models_retire(of);
  take_instance(m, of, by);
  pthread_cond_broadcast(&m->sounds);
  of->lost[0] = '\0';
}

/* With the lock, which is given up meanwhile: texts had to begin anew. That may have been for memory alone, which the
 * translator has seen to; else it goes on without a device. */
static void find_failure(models *m, model *of)
{
  instance *by = of->open;
  char lost[DEVICE_NAME_ROOM];
  atomic_store(&by->has_restarted, 0);
  if (atomic_load(&by->has_lost)) {
    return;
  }
  instance_hold(by);
  of->references++;
  pthread_mutex_unlock(&m->lock);
  int has_failed = instance_failed_device(by, lost);
  pthread_mutex_lock(&m->lock);
  if (has_failed && of->open == by && !atomic_exchange(&by->has_lost, 1)) {
    models_note_failure(m, of);
    strcpy(of->lost, lost);
  }
  of->references--;
  instance_release(by);
}

/* With the lock, which is given up meanwhile. */
static void look_at_devices(models *m)
{
  device_list found = {.n = 0};
  instance *list = NULL;
  m->is_looking = 1;
  for (model *of = m->all; of; of = of->after) {
    if (of->open) {
      instance_hold(of->open);
      of->open->looked_at = list;
      list = of->open;
      strcpy(list->lost, of->lost);
    }
  }
  pthread_mutex_unlock(&m->lock);
  for (const instance *by = list; by; by = by->looked_at) {
    devices_note(&found, by);
  }
  for (const instance *by = list; by; by = by->looked_at) {
    if (atomic_load(&by->has_lost)) {
      devices_note_lost(&found, by->lost, by->settings);
    }
  }
  pthread_mutex_lock(&m->lock);
  while (list) {
    instance *by = list;
    list = by->looked_at;
    instance_release(by);
  }
  m->devices = found;
  m->looked_at = clock_seconds();
  m->is_looking = 0;
}

/* With the lock, which is given up meanwhile: texts that have waited too long, or that nobody waits for.
 * Returns 1 if there was one. */
static int drop_late(models *m, model *of, double now)
{
  segment *late = NULL, *last = NULL;
  for (segment **at = &of->first; *at;) {
    segment *s = *at;
    if (s->deadline <= now || s->is_cancelled(s)) {
      *at = s->next;
      s->next = late;
      late = s;
    } else {
      last = s;
      at = &s->next;
    }
  }
  of->last = last;
  if (!late) {
    return 0;
  }
  of->references++;
  pthread_mutex_unlock(&m->lock);
  while (late) {
    segment *s = late;
    late = s->next;
    segment_finish(s, s->is_cancelled(s) ? SEGMENT_CANCELLED : SEGMENT_LATE, NULL);
  }
  pthread_mutex_lock(&m->lock);
  of->references--;
  return 1;
}

/* With the lock. Models that no set has any more. Returns 1 if there was one. */
static int drop_unused(models *m)
{
  for (model **at = &m->all; *at; at = &(*at)->after) {
    model *of = *at;
    if (of->references == 0) {
      *at = of->after;
      models_retire(of);
      model_free(of);
      return 1;
    }
  }
  return 0;
}

/* With the lock, which may be given up meanwhile. Returns 1 if something was done, after which the list may be
 * another. */
static int work_once(models *m)
{
  if (close_one(m) || drop_unused(m)) {
    return 1;
  }
  double now = clock_seconds();
  model *next = NULL;
  for (model *of = m->all; of; of = of->after) {
    if (of->is_opening) {
      continue;
    }
    if (of->first && !of->open && (of->is_avoiding || now >= of->retry_at) &&
        (!next || of->waits_since < next->waits_since)) {
      next = of;
    }
    if (of->open && atomic_load(&of->open->has_restarted)) {
      find_failure(m, of);
      return 1;
    }
    if (of->open && atomic_load(&of->open->has_lost) && now >= of->retry_at) {
      open_better(m, of);
      return 1;
    }
  }
  /* The one that has waited longest: among models that push each other out, each has its turn. */
  if (next && make_room(m, next)) {
    open_model(m, next);
    return 1;
  }
  if (!m->is_looking && now - m->looked_at > look_pause) {
    look_at_devices(m);
    return 1;
  }
  return 0;
}

/* With the lock. The thread has nothing more to do. */
static void *end_thread(models *m)
{
  m->n_running--;
  pthread_cond_broadcast(&m->stops);
  pthread_cond_broadcast(&m->work); /* what ended this one ends those like it */
  pthread_mutex_unlock(&m->lock);
  return NULL;
}

static void *run(void *user)
{
  models *m = user;
  pthread_mutex_lock(&m->lock);
  while (!m->is_stopping || m->all || m->n_instances > 0) {
    int was_busy = m->is_stopping ? drop_unused(m) || close_one(m) : work_once(m);
    if (!was_busy) {
      struct timespec until = clock_until(0.1);
      pthread_cond_timedwait(&m->work, &m->lock, &until);
    }
  }
  return end_thread(m);
}

/* With the lock, which may be given up meanwhile. Returns 1 if there was one. */
static int drop_late_of_any(models *m)
{
  double now = clock_seconds();
  for (model *of = m->all; of; of = of->after) {
    if (drop_late(m, of, now)) {
      return 1; /* the list may be another now */
    }
  }
  return 0;
}

/* A thread that never calls a driver: texts end in time although all openings hang. */
static void *run_late(void *user)
{
  models *m = user;
  pthread_mutex_lock(&m->lock);
  while (!m->is_stopping || m->all) { /* texts that nobody waits for any more keep their models */
    if (!drop_late_of_any(m)) {
      struct timespec until = clock_until(0.1);
      pthread_cond_timedwait(&m->stops, &m->lock, &until);
    }
  }
  return end_thread(m);
}

/* ---- sets -------------------------------------------------------------------------------------------------------- */

models *models_create(tsr_runtime *runtime)
{
  models *m = calloc(1, sizeof *m);
  if (!m) {
    return NULL;
  }
  m->runtime = runtime;
  pthread_mutex_init(&m->lock, NULL);
  clock_condition(&m->work);
  clock_condition(&m->stops);
  clock_condition(&m->sounds);
  pthread_mutex_lock(&m->lock);
  while (m->n_threads < THREADS &&
         pthread_create(&m->threads[m->n_threads], NULL, m->n_threads < OPENERS ? run : run_late, m) == 0) {
    m->n_threads++;
  }
  m->n_running = m->n_threads;
  pthread_mutex_unlock(&m->lock);
  if (m->n_threads < THREADS) {
    (void)models_destroy(m);
    return NULL;
  }
  return m;
}

static void release_set(models *m, model_set *set)
{
  if (set && --set->references == 0) {
    for (int32_t i = 0; i < set->n_models; i++) {
      set->models[i]->references--;
    }
    model_set_free(set);
    pthread_cond_signal(&m->work);
  }
}

typedef struct old_models {
  models *models;
  int are_alike;
} old_models;

/* A model that is being looked for lives: the set of now has it. */
static model *find_old(void *user, const char *folder, uint64_t stamp)
{
  const old_models *old = user;
  const model_set *set = old->are_alike ? old->models->set : NULL;
  for (int32_t i = 0; set && i < set->n_models; i++) {
    if (set->models[i]->stamp == stamp && strcmp(set->models[i]->folder, folder) == 0) {
      return set->models[i];
    }
  }
  return NULL;
}

int models_read(models *m, const serve_config *config)
{
  model_set *set = NULL;
  old_models old = {m, serve_settings_open_alike(m->settings, &config->settings)};
  int code = model_set_read(&config->settings, find_old, &old, &set);
  if (code != TSR_EXIT_OK) {
    for (int32_t i = 0; set && i < set->n_models; i++) {
      if (set->models[i]->references == 0) {
        model_free(set->models[i]);
      }
    }
    model_set_free(set);
    return code;
  }
  pthread_mutex_lock(&m->lock);
  set->references = 1;
  for (int32_t i = 0; i < set->n_models; i++) {
    model *of = set->models[i];
    if (of->references++ == 0) {
      of->after = m->all;
      m->all = of;
    }
    of->is_given_up = 0; /* what was wrong may be mended */
    of->retry_at = of->open ? of->retry_at : 0.0;
  }
  model_set *before = m->set;
  m->set = set;
  m->settings = &config->settings;
  release_set(m, before);
  pthread_mutex_unlock(&m->lock);
  return TSR_EXIT_OK;
}

model_set *models_hold(models *m)
{
  pthread_mutex_lock(&m->lock);
  model_set *set = m->set;
  set->references++;
  pthread_mutex_unlock(&m->lock);
  return set;
}

void models_release(models *m, model_set *set)
{
  pthread_mutex_lock(&m->lock);
  release_set(m, set);
  pthread_mutex_unlock(&m->lock);
}

/* With the lock. Which driver hangs. */
static void tell_hanging(const models *m)
{
  int is_told = 0;
  for (const model *of = m->all; of; of = of->after) {
    if (of->is_opening) {
      tsr_cli_warning("%s: its device did not finish opening within %g seconds; the server ends without it", of->name,
                      longest_end);
      is_told = 1;
    }
  }
  if (!is_told) {
    tsr_cli_warning("a device did not finish within %g seconds; the server ends without it", longest_end);
  }
}

int models_destroy(models *m)
{
  if (!m) {
    return 1;
  }
  pthread_mutex_lock(&m->lock);
  m->is_stopping = 1;
  release_set(m, m->set);
  m->set = NULL;
  pthread_cond_broadcast(&m->work);
  pthread_cond_broadcast(&m->stops);
  struct timespec until = clock_until(longest_end);
  while (m->n_running > 0 && pthread_cond_timedwait(&m->stops, &m->lock, &until) == 0) {
  }
  int has_ended = m->n_running == 0;
  if (!has_ended) {
    tell_hanging(m);
  }
  pthread_mutex_unlock(&m->lock);
  if (!has_ended) {
    return 0;
  }
  for (int32_t i = 0; i < m->n_threads; i++) {
    pthread_join(m->threads[i], NULL);
  }
  pthread_cond_destroy(&m->work);
  pthread_cond_destroy(&m->stops);
  pthread_cond_destroy(&m->sounds);
  pthread_mutex_destroy(&m->lock);
  free(m);
  return 1;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

void models_measure(models *m, models_statistics *statistics)
{
  pthread_mutex_lock(&m->lock);
  *statistics = m->statistics;
  statistics->n_models = m->set->n_models;
  statistics->open_bytes = m->retired_bytes;
  for (const model *of = m->all; of; of = of->after) {
    if (of->open) {
      tsr_translator_statistics one = {0};
      if (of->open->translator) {
        tsr_translator_measure(of->open->translator, &one);
      }
      add_statistics(&statistics->translators, &one);
      statistics->n_open++;
      statistics->open_bytes += of->open->bytes;
    }
  }
  pthread_mutex_unlock(&m->lock);
}

json_t *models_describe(models *m)
{
  json_t *list = json_array();
  pthread_mutex_lock(&m->lock);
  for (int32_t i = 0; i < m->set->n_models; i++) {
    const model *of = m->set->models[i];
    const char *state = of->open ? "open" : of->is_opening ? "opening" : of->problem ? "failed" : "closed";
    json_array_append_new(list, json_pack("{s:s%, s:s, s:I, s:i, s:i, s:b}", "name", of->name, strlen(of->name),
                                          "state", state, "bytes", (json_int_t)of->bytes, "sources", (int)of->n_sources,
                                          "targets", (int)of->n_targets, "hears", of->hears != 0));
  }
  pthread_mutex_unlock(&m->lock);
  return list;
}

void models_devices(models *m, device_list *devices)
{
  pthread_mutex_lock(&m->lock);
  *devices = m->devices;
  pthread_mutex_unlock(&m->lock);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What models.c, which opens and closes translators, and segments.c, which hands them texts, share.
 */
#ifndef TESSERA_SERVE_MODELS_PRIVATE_H
#define TESSERA_SERVE_MODELS_PRIVATE_H

#include <pthread.h>

#include "tools/tessera/serve/devices.h"
#include "tools/tessera/serve/models.h"

enum { OPENERS = 3, THREADS = OPENERS + 1 };

struct models {
  pthread_mutex_t lock;
  pthread_cond_t work;
  pthread_cond_t stops;
  pthread_cond_t sounds; /* a sound waits, or a model of speech is to end */
  pthread_t threads[THREADS];
  int32_t n_threads; /* that were started */
  int32_t n_running;
  int is_stopping;
  tsr_runtime *runtime;
  const serve_settings *settings; /* of the last models_read */
  model_set *set;
  model *all; /* alive */
  instance *closing;
  int32_t n_instances;          /* that were models' and are not closed: a thread may still have one in hand */
  int64_t retired_bytes;        /* of translators that are no model's any more, and are not closed */
  models_statistics statistics; /* of what is closed, and counts */
  device_list devices;          /* as they were looked at last */
  double looked_at;
  int is_looking;
};

/* ---- segments.c; `locked`: with the lock of the models ---- */

void instance_hold(instance *by);
void instance_release(instance *by); /* locked; whose last reference it was is closed later */
void models_retire(model *m);        /* locked. Texts that it has in hand are finished; nobody gets it any more */

/* Devices of the instance failed: its model gets another one, at once on other devices. Without the lock. */
void models_lose(instance *by, const char *message);

/* locked: devices of the model failed. They are tried again after a pause, which grows as long as they do not last. */
void models_note_failure(models *m, model *of);
double models_next_pause(model *of); /* locked; seconds */

/* Hands the text to the translator, which is held for it, or finishes it. Without the lock, likewise the next. */
void instance_submit(instance *by, segment *s);
void segment_finish(segment *s, int outcome, const tsr_translation *answer);
/* It comes back, for its instance does not go on. */
void segment_try_again(segment *s);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The way of a text: to the translator of its model, or to those that wait for one, and back, again where a device
 * fails.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "tools/tessera/common/message.h"
#include "tools/tessera/serve/clock.h"
#include "tools/tessera/serve/instance.h"
#include "tools/tessera/serve/model_set.h"
#include "tools/tessera/serve/models_private.h"

enum { MOST_TRIES = 8 };
static const double first_pause = 1.0, longest_pause = 60.0;

/* ---- instances --------------------------------------------------------------------------------------------------- */

void instance_hold(instance *by)
{
  atomic_fetch_add(&by->references, 1);
}

void instance_release(instance *by)
{
  if (atomic_fetch_sub(&by->references, 1) == 1) {
    by->next = by->models->closing;
    by->models->closing = by;
    pthread_cond_signal(&by->models->work);
  }
}

static void let_go(instance *by)
{
  /* The last reference is of the model, which goes with the lock: only then another thread closes it. */
  int left = atomic_load(&by->references);
  while (left > 1) {
    if (atomic_compare_exchange_weak(&by->references, &left, left - 1)) {
      return;
    }
  }
  models *m = by->models;
  pthread_mutex_lock(&m->lock);
  instance_release(by);
  pthread_mutex_unlock(&m->lock);
}

void models_retire(model *m)
{
  instance *by = m->open;
  if (by) {
    m->open = NULL;
    by->model = NULL;
    by->models->retired_bytes += by->bytes;
    instance_release(by);
  }
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

void segment_finish(segment *s, int outcome, const tsr_translation *answer)
{
  s->done(s, outcome, answer);
}

void segment_try_again(segment *s)
{
  if (s->is_cancelled(s)) {
    segment_finish(s, SEGMENT_CANCELLED, NULL);
  } else if (++s->tries > MOST_TRIES) {
    segment_finish(s, SEGMENT_FAILED, NULL);
  } else {
    models_submit(s->models, s);
  }
}

double models_next_pause(model *of)
{
  of->pause = of->pause <= 0.0 ? first_pause : 2.0 * of->pause;
  of->pause = of->pause > longest_pause ? longest_pause : of->pause;
  return of->pause;
}

void models_note_failure(models *m, model *of)
{
  double now = clock_seconds();
  m->statistics.failures++;
  of->pause = now - of->lost_at > 2.0 * longest_pause ? 0.0 : of->pause;
  of->lost_at = now;
  of->retry_at = now + models_next_pause(of);
}

void models_lose(instance *by, const char *message)
{
  if (atomic_exchange(&by->is_lost, 1)) {
    return;
  }
  models *m = by->models;
  pthread_mutex_lock(&m->lock);
  model *of = by->model;
  if (of) {
    models_note_failure(m, of);
    of->is_avoiding = 1;
    tsr_cli_warning("%s: %s; going on with another device", of->name, message);
    models_retire(of);
  }
  pthread_mutex_unlock(&m->lock);
}

static void on_answer(void *user, uint64_t ticket, const tsr_translation *answer)
{
  segment *s = user;
  (void)ticket;
  pthread_mutex_lock(s->lock);
  instance *by = s->by;
  s->by = NULL;
  s->ticket = 0;
  pthread_mutex_unlock(s->lock);
  if (answer->n_restarts > 0) {
    atomic_store(&by->has_restarted, 1); /* a thread finds out why */
  }
  tsr_status status = answer->status;
  if (status == TSR_OK) {
    segment_finish(s, SEGMENT_DONE, answer);
  } else if (status == TSR_ERR_DEADLINE) {
    segment_finish(s, SEGMENT_LATE, NULL);
  } else if (status == TSR_ERR_CANCELLED) {
    segment_try_again(s); /* unless it was asked for, the translator is being closed */
  } else if (instance_is_about_device(status) && !answer->is_about_text) {
    models_lose(by, answer->message);
    segment_try_again(s);
  } else {
    tsr_cli_warning("a text was not translated: %s", answer->message);
    segment_finish(s, answer->is_about_text ? SEGMENT_REFUSED : SEGMENT_FAILED, NULL);
  }
  let_go(by);
}

void instance_submit(instance *by, segment *s)
{
  tsr_generate_options search = by->search;
  double left = s->deadline - clock_seconds();
  if (s->is_cancelled(s) || left <= 0.0) {
    let_go(by);
    segment_finish(s, s->is_cancelled(s) ? SEGMENT_CANCELLED : SEGMENT_LATE, NULL);
    return;
  }
  if (s->next_words > 1) {
    search.alternatives = s->next_words;
    search.n_best = 1;
    search.sample = 0;
  } else if (s->n_best > 1) {
    enum { LEAST_BEAM = 4 };
    search.sample = 0;
    search.n_best = s->n_best;
    search.beam = search.beam < LEAST_BEAM ? LEAST_BEAM : search.beam;
    search.beam = search.beam < s->n_best ? s->n_best : search.beam;
  }
  const tsr_translation_request request = {TSR_SIZED(tsr_translation_request),
                                           .long_input = TSR_LONG_SPLIT,
                                           .text = s->text,
                                           .text_size = s->size,
                                           .source_language = s->source,
                                           .target_language = s->target,
                                           .prefix = s->prefix,
                                           .search = &search,
                                           .timeout = left,
                                           .max_source = by->settings->max_source,
                                           .spans = s->alignment,
                                           .alignment = s->alignment,
                                           .piece = s->next_words > 1 ? NULL : s->piece,
                                           .piece_user = s};
  uint64_t ticket = 0;
  instance_hold(by); /* the answer may come before this returns */
  s->hold(s);
  s->begins(s);
  pthread_mutex_lock(s->lock);
  int32_t attempt = ++s->attempt;
  s->by = by;
  pthread_mutex_unlock(s->lock);
  tsr_status status = tsr_translator_submit(by->translator, &request, on_answer, s, &ticket);
  pthread_mutex_lock(s->lock);
  int is_out = s->attempt == attempt && s->by == by;
  s->ticket = is_out && status == TSR_OK ? ticket : s->ticket;
  s->by = is_out && status != TSR_OK ? NULL : s->by;
  pthread_mutex_unlock(s->lock);
  if (status != TSR_OK) {
    tsr_cli_warning("a text was not translated: %s", tsr_error_message());
    let_go(by);
    segment_finish(s, status == TSR_ERR_OUT_OF_MEMORY ? SEGMENT_FAILED : SEGMENT_REFUSED, NULL);
  } else if (is_out && s->is_cancelled(s)) {
    segment_cancel(s);
  }
  s->release(s);
  let_go(by);
}

void segment_cancel(segment *s)
{
  pthread_mutex_lock(s->lock);
  instance *by = s->ticket ? s->by : NULL;
  uint64_t ticket = s->ticket;
  if (by) {
    instance_hold(by);
  }
  pthread_mutex_unlock(s->lock);
  if (by) {
    tsr_translator_cancel(by->translator, ticket);
    let_go(by);
  }
}

void models_submit(models *m, segment *s)
{
  model *of = s->model;
  double now = clock_seconds();
  s->models = m;
  s->next = NULL;
  pthread_mutex_lock(&m->lock);
  of->used = now;
  instance *by = of->hears ? NULL : of->open; /* sounds wait until the model's thread takes them */
  int is_refused = !of->open && of->is_given_up && now < of->retry_at;
  if (by) {
    instance_hold(by);
  } else if (!is_refused) {
    if (of->last) {
      of->last->next = s;
    } else {
      of->first = s;
      of->waits_since = now;
    }
    of->last = s;
    pthread_cond_broadcast(of->open ? &m->sounds : &m->work);
  }
  pthread_mutex_unlock(&m->lock);
  if (by) {
    instance_submit(by, s);
  } else if (is_refused) {
    segment_finish(s, SEGMENT_REFUSED, NULL);
  }
}

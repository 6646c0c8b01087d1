/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that searches: a batch begins with what waits, and what comes later joins it.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/generate/batches.h"
#include "core/translate/translate.h"

/* Sentences that a batch of a class has rows for. */
static int32_t batch_of(const tsr_worker *w, const tsr_class *class)
{
  const tsr_translator *t = w->translator;
  int32_t is_frugal = tsr_search_is_frugal(w->transformer), wanted = t->options.batch;
  int32_t most = wanted > 0 ? wanted : tsr_default_batch(tsr_search_rows(&class->options), is_frugal);
  most = w->seat->limit > 0 && w->seat->limit < most ? w->seat->limit : most;
  return class->options.alternatives > 0 ? 1 : most;
}

/* Batches that run on a seat. */
typedef struct company {
  int32_t n_running; /* of any class */
  int32_t n_idle;    /* workers that may begin one */
  /* Of one class, which texts may join: */
  int32_t n;
  int32_t n_open; /* sentences that they search */
  int32_t room;   /* and that they may take */
} company;

/* With the lock. */
static company company_of(const tsr_seat *seat, const tsr_class *class)
{
  company c = {0};
  for (int32_t i = 0; i < seat->n_workers; i++) {
    const tsr_worker *w = &seat->workers[i];
    c.n_running += w->class != NULL;
    c.n_idle += !w->class && i < seat->n_used;
    if (w->class == class && w->n_free > 0) {
      c.n++;
      c.n_open += w->n_open;
      c.room += w->n_free;
    }
  }
  return c;
}

/* Sentences that a batch has at least, if it is to run beside others. */
static int32_t least_of(const tsr_seat *seat, const tsr_class *class)
{
  int32_t rows = tsr_search_rows(&class->options);
  return rows < seat->least_rows ? seat->least_rows / rows : 1;
}

/* With the lock: whether to begin a batch. Those that run on the device take what they have rows for, unless all are
 * busy enough without it. */
static int32_t may_start(const tsr_worker *w)
{
  const tsr_translator *t = w->translator;
  if (!t->first || w->seat->n_holders > 0 || w->index >= w->seat->n_used) { /* a holder may change n_used */
    return 0;
  }
  const tsr_class *class = t->first->job->class;
  const company c = company_of(w->seat, class);
  if (c.n_running == 0) {
    /* The thread that ran last has its programs at hand, and its processor the weights. */
    return !w->seat->last || w->seat->last == w || !w->seat->last->is_idle;
  }
  int32_t enough = (c.n + 1) * least_of(w->seat, class) - c.n_open;
  enough = enough > c.room + 1 ? c.room + 1 : enough > 1 ? enough : 1;
  return class->n_waiting >= enough;
}

/* 1 if others may join the batch. The words of a shortlist are those of the batch that began. */
static int32_t takes_more(const tsr_worker *w)
{
  return !w->translator->options.static_batches && !w->class->options.shortlist;
}

/* With the lock: sentences that a batch may have, if so many wait. Where more of them make none cheaper, a text is
 * answered sooner if it waits for a place than if all go on slowly together. A batch grows beyond that only if more
 * texts wait than it could ever take. */
static int32_t limit_of(const tsr_worker *w, int32_t waiting)
{
  const int32_t best = w->seat->best_batch;
  if (best == 0 || !takes_more(w)) {
    return w->most;
  }
  int32_t limit = best + (waiting > w->most ? (waiting - w->most) / best * best : 0);
  return limit < w->most ? limit : w->most;
}

/* Sentences that join a batch at least, which may have `limit`. Those that are encoded together cost less, and while so
 * many wait that the batch is larger than the best one, rows may stay free for a step or two. */
static int32_t least_share(const tsr_worker *w, int32_t limit)
{
  enum { TOGETHER = 8 };
  int32_t least = limit / 4 < TOGETHER ? limit / 4 : TOGETHER;
  return w->seat->best_batch > 0 && w->n_open > 0 && least > 1 ? least : 1;
}

/* With the lock: how many of the texts that wait a batch takes. Batches side by side have equal parts of all sentences,
 * so that their steps take as long; a worker that idles and may begin one counts as a batch. */
static int32_t share_of(const tsr_worker *w)
{
  const company c = company_of(w->seat, w->class);
  int32_t waiting = w->class->n_waiting;
  int32_t total = c.n_open + waiting, n_paying = total / least_of(w->seat, w->class), n = c.n;
  n = n_paying > n ? n_paying : n;
  n = n < c.n + c.n_idle ? n : c.n + c.n_idle; /* batches */
  int32_t share = n_paying < n ? waiting : (total + n - 1) / n - w->n_open;
  int32_t rest = waiting - (c.room - w->n_free + (n - c.n) * w->most); /* that nobody else has room for */
  int32_t limit = limit_of(w, waiting), free = limit - w->n_open;
  share = share > rest ? share : rest;
  share = share < free ? share : free;
  share = share < waiting ? share : waiting;
  share = share < w->n_free ? share : w->n_free;
  return share >= least_share(w, limit) ? share : 0;
}

/* ---- what the search asks: without the lock ---------------------------------------------------------------------- */

/* With the lock: takes parts into the batch. They become sentences, the longest first. */
static int32_t take_parts(tsr_worker *w, int32_t room, tsr_sentence *sentences)
{
  tsr_text_part *taken[1024];
  enum { MOST = sizeof taken / sizeof taken[0] };
  /* Short ones that are filled up cost as much as long ones. Of a few, each is answered sooner in its turn. */
  int32_t is_alike = tsr_search_is_frugal(w->transformer) && w->class->n_waiting > w->most, index = 0;
  int32_t n = tsr_queue_take(w->translator, w->class, room < MOST ? room : MOST, is_alike, taken);
  for (int32_t i = 0; i < n; i++) {
    tsr_text_part *part = taken[i];
    while (w->active[index]) {
      index++;
    }
    w->active[index] = part;
    int32_t at = i;
    for (; at > 0 && sentences[at - 1].n_source < part->n_ids; at--) {
      sentences[at] = sentences[at - 1];
    }
    sentences[at] = (tsr_sentence){.source = part->job->source.ids[part->index],
                                   .n_source = part->n_ids,
                                   .prompt = part->prompt,
                                   .number = part->job->number + part->index,
                                   .seed = w->class->options.seed,
                                   .index = index};
  }
  w->translator->statistics.running += n;
  return n;
}

/* With the lock: a part leaves the batch. */
static tsr_text_part *leave(tsr_worker *w, int32_t index)
{
  tsr_text_part *part = w->active[index];
  w->active[index] = NULL;
  w->translator->statistics.running--;
  return part;
}

static void unlock_and_answer(tsr_worker *w)
{
  pthread_mutex_unlock(&w->translator->lock);
  tsr_answer_all(w->translator, &w->answers);
}

static int32_t count_waiting(void *user, int32_t room)
{
  enum { PATIENCE = 1 /* seconds that a text waits for a batch of another class, which then takes nobody else */ };
  tsr_worker *w = user;
  tsr_translator *t = w->translator;
  int32_t n = 0;
  pthread_mutex_lock(&t->lock);
  w->n_free = room;
  if (t->first && w->seat->n_holders == 0 &&
      (t->first->job->class == w->class || tsr_seconds() - t->first->job->asked < PATIENCE)) {
    n = share_of(w);
    if (n == 0) {
      pthread_cond_broadcast(&t->more); /* a worker that idles may begin a batch */
    }
  }
  pthread_mutex_unlock(&t->lock);
  return n;
}

static int32_t join(void *user, int32_t room, tsr_sentence *sentences)
{
  tsr_worker *w = user;
  tsr_translator *t = w->translator;
  pthread_mutex_lock(&t->lock);
  w->n_free = room;
  int32_t n = take_parts(w, share_of(w), sentences);
  w->n_free = room - n;
  w->n_open += n;
  t->statistics.joined += n;
  pthread_mutex_unlock(&t->lock);
  return n;
}

static int32_t look(void *user, int32_t n_open)
{
  tsr_worker *w = user;
  tsr_translator *t = w->translator;
  int32_t n_given_up = 0;
  pthread_mutex_lock(&t->lock);
  t->statistics.rows += n_open;
  w->n_open = n_open;
  tsr_queue_expire(t, &w->answers);
  for (int32_t i = 0; i < w->room; i++) {
    n_given_up += w->active[i] && w->active[i]->job->status != TSR_OK;
  }
  unlock_and_answer(w);
  return n_given_up;
}

static int32_t is_wanted(void *user, const tsr_sentence *sentence)
{
  tsr_worker *w = user;
  tsr_translator *t = w->translator;
  pthread_mutex_lock(&t->lock);
  int32_t is_given_up = w->active[sentence->index]->job->status != TSR_OK;
  if (is_given_up) {
    tsr_part_done(leave(w, sentence->index), &w->answers);
    w->n_open--;
  }
  unlock_and_answer(w);
  return !is_given_up;
}

static void count_runs(tsr_worker *w)
{
  tsr_translator_statistics *s = &w->translator->statistics;
  const tsr_work *work = &w->transformer->work, *before = &w->counted;
  s->encode_runs += work->encode_runs - before->encode_runs;
  s->step_runs += work->step_runs - before->step_runs;
  s->encode_seconds += work->encode_seconds - before->encode_seconds;
  s->step_seconds += work->step_seconds - before->step_seconds;
  w->counted = *work;
}

static void take(void *user, const tsr_sentence *sentence, const tsr_hypothesis *hypotheses)
{
  tsr_worker *w = user;
  tsr_translator *t = w->translator;
  tsr_pieces_end(w->active[sentence->index], hypotheses);
  pthread_mutex_lock(&t->lock);
  tsr_text_part *part = leave(w, sentence->index);
  tsr_job *job = part->job;
  memcpy(job->found + part->index * job->n_hypotheses, hypotheses, (size_t)job->n_hypotheses * sizeof *hypotheses);
  t->statistics.rows++;
  t->statistics.source_tokens += part->n_ids;
  t->statistics.target_tokens += hypotheses->n_ids;
  count_runs(w);
  tsr_part_done(part, &w->answers); /* `look` hands the answers of a step over, or the end of the batch */
  pthread_mutex_unlock(&t->lock);
}

/* ---- a batch ----------------------------------------------------------------------------------------------------- */

static tsr_status search_together(tsr_worker *w, const tsr_sentence *sentences, int32_t n)
{
  const tsr_search_client client = {.user = w,
                                    .take = take,
                                    .count_waiting = count_waiting,
                                    .join = takes_more(w) ? join : NULL,
                                    .look = look,
                                    .is_wanted = is_wanted};
  tsr_search search;
  tsr_generate_options options = w->class->options;
  options.token_user = w->active;
  TSR_TRY(tsr_search_init(&search, w->transformer, &options, &client, sentences, n, w->most));
  search.lock = &w->tell;
  tsr_status status = tsr_search_run(&search);
  tsr_search_finish(&search);
  return status;
}

/* Alternatives take two searches, one after the other, of which the second has as many sentences. */
static tsr_status search_alone(tsr_worker *w, const tsr_sentence *sentence)
{
  tsr_generate_options options = w->class->options;
  const tsr_text_part *part = w->active[sentence->index];
  const int32_t *prefix = part->index == 0 ? part->job->prefix : NULL;
  int32_t n_prefix = prefix ? part->job->n_prefix : 0;
  tsr_generation found;
  options.first_sentence = sentence->number;
  options.prefix = n_prefix > 0 ? &prefix : NULL;
  options.prefix_lengths = n_prefix > 0 ? &n_prefix : NULL;
  TSR_TRY(tsr_generate(w->transformer, 1, &sentence->source, &sentence->n_source, 0, &options, NULL, NULL, &found));
  take(w, sentence, found.hypotheses);
  memset(found.hypotheses, 0, (size_t)found.n_best * sizeof *found.hypotheses); /* they are the job's */
  tsr_generation_finish(&found);
  return TSR_OK;
}

/* With the lock: what is left of a batch that failed goes back, or is given up. */
static void return_parts(tsr_worker *w, tsr_status status)
{
  tsr_translator *t = w->translator;
  const char *message;
  int64_t culprit = tsr_error_sentence(&message);
  char *why = strdup(culprit >= 0 ? message : tsr_error_message());
  int32_t is_of_device = tsr_is_of_device(status), is_too_large = status == TSR_ERR_DEVICE_MEMORY && w->most > 1;
  for (int32_t i = w->room - 1; i >= 0; i--) {
    if (!w->active[i]) {
      continue;
    }
    tsr_text_part *part = leave(w, i);
    if (!is_of_device && (culprit < 0 || culprit == i)) {
      (void)tsr_fail(status, "%s", why ? why : tsr_status_name(status));
      part->job->is_about_text = part->job->status == TSR_OK ? culprit == i : part->job->is_about_text;
      tsr_job_give_up(t, part->job, status, &w->answers);
    }
    if (part->job->status != TSR_OK) {
      tsr_part_done(part, &w->answers);
    } else {
      part->job->n_restarts++;
      tsr_queue_return(t, part);
    }
  }
  if (is_too_large) {
    w->seat->limit = w->most / 2;
    tsr_log(TSR_LOG_WARNING, "%s; going on with batches of %d", why ? why : "", (int)w->seat->limit);
  } else if (is_of_device && w->seat->failure == TSR_OK) {
    w->seat->failure = status;
    w->seat->message = why;
    why = NULL;
  }
  free(why);
  pthread_cond_broadcast(&t->more);
}

/* With the lock: room for a batch of a class. */
static tsr_status reserve(tsr_worker *w)
{
  if (w->most <= w->room) {
    return TSR_OK;
  }
  free(w->active);
  w->room = 0;
  w->active = calloc((size_t)w->most, sizeof *w->active);
  if (!w->active) {
    return tsr_fail_memory((size_t)w->most * sizeof *w->active);
  }
  w->room = w->most;
  return TSR_OK;
}

/* With the lock, which is given up meanwhile: a batch, and all that joins it. */
static void run_batch(tsr_worker *w)
{
  tsr_translator *t = w->translator;
  w->class = t->first->job->class;
  w->seat->last = w;
  w->class->users++; /* it may lose its last job while the search goes on */
  w->most = batch_of(w, w->class);
  tsr_sentence *sentences = malloc((size_t)w->most * sizeof *sentences);
  tsr_status status = sentences ? reserve(w) : tsr_fail_memory((size_t)w->most * sizeof *sentences);
  if (status != TSR_OK) {
    tsr_job_give_up(t, t->first->job, status, &w->answers);
  } else {
    w->n_free = w->most;
    int32_t n = take_parts(w, share_of(w), sentences);
    w->n_free = takes_more(w) ? w->most - n : 0;
    w->n_open = n;
    t->statistics.batches++;
    pthread_cond_broadcast(&t->more); /* another worker may take what is left */
    pthread_mutex_unlock(&t->lock);
    status = w->class->options.alternatives > 0 ? search_alone(w, sentences) : search_together(w, sentences, n);
    for (int32_t i = 0; i < w->room && status != TSR_OK; i++) {
      if (w->active[i]) { /* without the lock, which who receives pieces of the job may wait for */
        tsr_pieces_restart(w->active[i]);
      }
    }
    pthread_mutex_lock(&t->lock);
    count_runs(w);
    if (status != TSR_OK) {
      return_parts(w, status);
    }
  }
  free(sentences);
  tsr_class_leave(t, w->class);
  w->class = NULL;
  w->n_free = w->n_open = 0;
  if (t->first) { /* for whoever left it to this batch, or has the programs at hand */
    pthread_cond_broadcast(&t->more);
  }
  if (w->seat->n_holders > 0) { /* somebody waits until it rests */
    pthread_cond_broadcast(&t->changed);
  }
}

/* With the lock: the seat's device failed. The last worker that sees it looks for another one. That may have failed as
 * well before a worker wakes up, which has to be counted anew then. */
static void stop_for_failure(tsr_worker *w)
{
  tsr_translator *t = w->translator;
  tsr_seat *seat = w->seat;
  if (++seat->n_stopped == seat->n_workers) {
    tsr_seat_replace(t, seat, &w->answers);
    return;
  }
  const int32_t n = seat->n_replaced;
  while (seat->n_replaced == n && !t->is_closing) {
    pthread_cond_wait(&t->more, &t->lock);
  }
}

void *tsr_worker_run(void *worker)
{
  tsr_worker *w = worker;
  tsr_translator *t = w->translator;
  pthread_mutex_lock(&t->lock);
  while (!t->is_closing && !w->seat->is_dead) {
    if (w->seat->failure != TSR_OK && !w->seat->is_held) { /* who holds it replaces it, too */
      stop_for_failure(w);
    } else if (may_start(w)) {
      run_batch(w);
    } else {
      w->is_idle = 1;
      pthread_cond_wait(&t->more, &t->lock);
      w->is_idle = 0;
    }
    if (w->answers) {
      unlock_and_answer(w);
      pthread_mutex_lock(&t->lock);
    }
  }
  pthread_mutex_unlock(&t->lock);
  return NULL;
}

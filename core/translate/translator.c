/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/sized.h"
#include "core/base/status.h"
#include "core/translate/translate.h"

enum { DEFAULT_QUEUE = 100000, MOST_BATCH = 1024, MOST_WORKERS = 1024 };

static tsr_status check_options(const tsr_translator_options *o)
{
  if (o->n_devices < 0 || o->n_devices > TSR_MAX_SEATS || (o->n_devices > 0 && !o->devices)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_options: %d devices; there can be 0 to %d, with their names",
                    (int)o->n_devices, TSR_MAX_SEATS);
  }
  if (o->split && o->n_devices < 2) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_options: a model is split over 2 devices or more, not over %d",
                    (int)o->n_devices);
  }
  if (o->batch < 0 || o->batch > MOST_BATCH || o->workers < 0 || o->workers > MOST_WORKERS || o->queue < 0) {
    return tsr_fail(
        TSR_ERR_ARGUMENT,
        "tsr_translator_options: a batch of %d, %d workers and a queue of %d; these should be 0 to %d, 0 to "
        "%d, and 0 or more",
        (int)o->batch, (int)o->workers, (int)o->queue, MOST_BATCH, MOST_WORKERS);
  }
  return TSR_OK;
}

/* For a model and a tokenizer that the translator has already. */
static tsr_status open_rest(tsr_translator *t)
{
  TSR_TRY(tsr_model_check_reads_text(t->model, "tsr_translator", NULL));
  t->defaults = (tsr_generate_options){TSR_SIZED(tsr_generate_options)};
  TSR_TRY(tsr_generate_defaults(t->model, &t->defaults));
  t->defaults.n_best = 1;
  return tsr_seats_open(t);
}

static tsr_status open_folder(tsr_translator *t, const char *folder)
{
  TSR_TRY(tsr_model_open(folder, &t->own_model));
  t->model = t->own_model;
  TSR_TRY(tsr_model_check_reads_text(t->model, "tsr_translator_open", NULL));
  TSR_TRY(tsr_model_check_weights(t->model)); /* before files that may be missing with them */
  TSR_TRY(tsr_tokenizer_open(t->model, &t->own_tokenizer));
  t->tokenizer = t->own_tokenizer;
  return open_rest(t);
}

/* An empty one, with its options. */
static tsr_status make(const tsr_translator_options *options, tsr_translator **translator)
{
  tsr_translator *t = calloc(1, sizeof *t);
  if (!t) {
    return tsr_fail_memory(sizeof *t);
  }
  pthread_mutex_init(&t->lock, NULL);
  pthread_mutex_init(&t->replacing, NULL);
  pthread_cond_init(&t->more, NULL);
  pthread_cond_init(&t->changed, NULL);
  t->next_deadline = INFINITY;
  *translator = t;
  TSR_TRY(TSR_SIZED_READ(tsr_translator_options, profile, options, &t->options));
  TSR_TRY(check_options(&t->options));
  t->options.queue = t->options.queue > 0 ? t->options.queue : DEFAULT_QUEUE;
  return TSR_OK;
}

/* Hands over what was opened, or frees it. */
static tsr_status finish_opening(tsr_translator *t, tsr_status status, tsr_translator **translator)
{
  if (status != TSR_OK) {
    tsr_translator_close(t);
    return status;
  }
  t->options.devices = NULL; /* the caller's */
  *translator = t;
  return TSR_OK;
}

tsr_status tsr_translator_open(const char *folder, const tsr_translator_options *options, tsr_translator **translator)
{
  tsr_translator *t = NULL;
  if (!folder || !translator) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_open: folder and translator must not be NULL");
  }
  *translator = NULL;
  tsr_status status = make(options, &t);
  return finish_opening(t, status == TSR_OK ? open_folder(t, folder) : status, translator);
}

tsr_status tsr_translator_create(const tsr_model *model, const tsr_tokenizer *tokenizer,
                                 const tsr_translator_options *options, tsr_translator **translator)
{
  tsr_translator *t = NULL;
  if (!model || !tokenizer || !translator) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_create: model, tokenizer and translator must not be NULL");
  }
  *translator = NULL;
  tsr_status status = make(options, &t);
  if (status == TSR_OK) {
    t->model = model;
    t->tokenizer = tokenizer;
    status = tsr_model_check_weights(model);
  }
  if (status == TSR_OK) {
    status = open_rest(t);
  }
  return finish_opening(t, status, translator);
}

/* Gives up all that has no answer. */
static void cancel_all(tsr_translator *t)
{
  tsr_job *answers = NULL;
  pthread_mutex_lock(&t->lock);
  t->is_closing = 1;
  for (tsr_job *job = t->oldest, *newer; job; job = newer) {
    newer = job->newer;
    tsr_job_give_up(t, job, tsr_fail(TSR_ERR_CANCELLED, "the translator was closed"), &answers);
  }
  pthread_cond_broadcast(&t->more);
  pthread_cond_broadcast(&t->changed); /* who waits for a device */
  pthread_mutex_unlock(&t->lock);
  tsr_answer_all(t, &answers);
}

void tsr_translator_close(tsr_translator *translator)
{
  tsr_translator *t = translator;
  if (!t) {
    return;
  }
  cancel_all(t);
  pthread_mutex_lock(&t->lock);
  while (t->n_waiters > 0) {
    pthread_cond_wait(&t->changed, &t->lock);
  }
  pthread_mutex_unlock(&t->lock);
  tsr_seats_close(t);
  for (int32_t i = 0; i < TSR_TABLE; i++) {
    while (t->table[i]) { /* nobody has asked for these answers */
      tsr_job *job = t->table[i];
      tsr_job_remove(t, job);
      tsr_job_free(job);
    }
  }
  tsr_tokenizer_close(t->own_tokenizer);
  tsr_model_close(t->own_model);
  free(t->message);
  pthread_cond_destroy(&t->changed);
  pthread_cond_destroy(&t->more);
  pthread_mutex_destroy(&t->replacing);
  pthread_mutex_destroy(&t->lock);
  free(t);
}

const tsr_model *tsr_translator_model(const tsr_translator *translator)
{
  return translator->model;
}

const tsr_tokenizer *tsr_translator_tokenizer(const tsr_translator *translator)
{
  return translator->tokenizer;
}

int32_t tsr_translator_alignment_layer(const tsr_translator *translator)
{
  return translator->alignment_layer;
}

uint32_t tsr_translator_alignment_heads(const tsr_translator *translator)
{
  return translator->alignment_heads;
}

/* A thread that closes the translator waits until no other one is within it. */
static void enter(tsr_translator *t)
{
  pthread_mutex_lock(&t->lock);
  t->n_waiters++;
  pthread_mutex_unlock(&t->lock);
}

static void leave(tsr_translator *t)
{
  pthread_mutex_lock(&t->lock);
  t->n_waiters--;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
}

tsr_status tsr_translator_use(tsr_translator *translator, int32_t device, tsr_translator_use_fn use, void *user)
{
  tsr_translator *t = translator;
  if (!t || !use || device < 0 || device >= t->n_seats) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_use: translator and use are needed, and one of %d devices",
                    t ? (int)t->n_seats : 0);
  }
  tsr_seat *seat = NULL;
  pthread_mutex_lock(&t->lock);
  t->n_waiters++;
  tsr_status status = tsr_seat_hold(t, &t->seats[device], &seat);
  pthread_mutex_unlock(&t->lock);
  if (status == TSR_OK) {
    status = use(user, seat->transformer);
    pthread_mutex_lock(&t->lock);
    tsr_seat_release(t, seat);
    pthread_mutex_unlock(&t->lock);
  }
  leave(t);
  return status;
}

tsr_status tsr_translator_score(tsr_translator *translator, int32_t n_pairs, const int32_t *const *source,
                                const int32_t *source_lengths, const int32_t *const *target,
                                const int32_t *target_lengths, const tsr_score_options *options,
                                tsr_progress_fn progress, void *user, tsr_scores *scores)
{
  tsr_translator *t = translator;
  if (!t || !scores || n_pairs < 0 || (n_pairs > 0 && (!source || !source_lengths || !target || !target_lengths))) {
    return tsr_fail(TSR_ERR_ARGUMENT,
                    "tsr_translator_score: translator, source, target, their lengths and scores are needed");
  }
  *scores = (tsr_scores){0};
  enter(t);
  tsr_status status =
      tsr_call_score(t, n_pairs, source, source_lengths, target, target_lengths, options, progress, user, scores);
  leave(t);
  return status;
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* As tsr_translator_submit. *is_about_text: with an error, as in tsr_translation; *n_parts: without one. */
static tsr_status submit(tsr_translator *t, const tsr_translation_request *request, tsr_translation_fn answer,
                         void *user, uint64_t *ticket, int32_t *is_about_text, int32_t *n_parts)
{
  tsr_job *job = NULL, *answers = NULL;
  *ticket = 0;
  TSR_TRY(tsr_job_create(t, request, &job, is_about_text));
  job->answer = answer;
  job->user = user;
  *n_parts = job->source.n_parts;
  pthread_mutex_lock(&t->lock);
  tsr_status status = t->options.static_batches ? tsr_seats_start(t) : TSR_OK;
  status = status == TSR_OK ? tsr_queue_put(t, job) : status;
  if (status == TSR_OK) {
    *ticket = job->ticket;
    pthread_cond_broadcast(&t->more);
  } else {
    tsr_class_leave(t, job->class);
  }
  if (status == TSR_OK && job->n_pending == 0) { /* there is nothing to translate */
    answers = job;
  }
  pthread_mutex_unlock(&t->lock);
  tsr_answer_all(t, &answers);
  if (status != TSR_OK) {
    tsr_job_free(job);
  }
  return status;
}

tsr_status tsr_translator_submit(tsr_translator *translator, const tsr_translation_request *request,
                                 tsr_translation_fn answer, void *user, uint64_t *ticket)
{
  int32_t is_about_text = 0, n_parts = 0;
  if (!translator || !request || !ticket) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_submit: translator, request and ticket must not be NULL");
  }
  return submit(translator, request, answer, user, ticket, &is_about_text, &n_parts);
}

tsr_status tsr_translator_wait(tsr_translator *translator, uint64_t ticket, tsr_translation **translation)
{
  tsr_translator *t = translator;
  if (!t || !translation) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_wait: translator and translation must not be NULL");
  }
  *translation = NULL;
  pthread_mutex_lock(&t->lock);
  tsr_job *job = tsr_job_find(t, ticket);
  if (!job || job->answer || job->arrival) {
    pthread_mutex_unlock(&t->lock);
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_wait: no answer of ticket %llu can be waited for",
                    (unsigned long long)ticket);
  }
  pthread_cond_t arrival = PTHREAD_COND_INITIALIZER;
  job->arrival = &arrival;
  t->n_waiters++;
  while (!job->is_answered) {
    pthread_cond_wait(&arrival, &t->lock);
  }
  *translation = job->translation;
  job->translation = NULL;
  tsr_job_remove(t, job);
  t->n_waiters--;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
  pthread_cond_destroy(&arrival);
  tsr_job_free(job);
  return TSR_OK;
}

void tsr_translator_cancel(tsr_translator *translator, uint64_t ticket)
{
  tsr_translator *t = translator;
  tsr_job *answers = NULL;
  if (!t) {
    return;
  }
  pthread_mutex_lock(&t->lock);
  tsr_job *job = tsr_job_find(t, ticket);
  if (job) {
    tsr_job_give_up(t, job, tsr_fail(TSR_ERR_CANCELLED, "the text was given up"), &answers);
  }
  pthread_mutex_unlock(&t->lock);
  tsr_answer_all(t, &answers);
}

void tsr_translator_drain(tsr_translator *translator)
{
  tsr_translator *t = translator;
  if (!t) {
    return;
  }
  pthread_mutex_lock(&t->lock);
  uint64_t last = t->ticket;
  t->n_waiters++;
  while (t->oldest && t->oldest->ticket <= last) {
    pthread_cond_wait(&t->changed, &t->lock);
  }
  t->n_waiters--;
  pthread_cond_broadcast(&t->changed);
  pthread_mutex_unlock(&t->lock);
}

/* Waits until something has left the queue, or was answered. */
static void wait_for_room(tsr_translator *t)
{
  pthread_mutex_lock(&t->lock);
  if (t->n_waiting > 0 && !t->is_closing) {
    pthread_cond_wait(&t->changed, &t->lock);
  }
  pthread_mutex_unlock(&t->lock);
}

/* Waits for the answer of a text that has a ticket. */
static tsr_status take_answer(tsr_translator *t, uint64_t ticket, tsr_translation **answer)
{
  return ticket > 0 ? tsr_translator_wait(t, ticket, answer) : TSR_OK;
}

/* Memory ran out: what was asked for is given up, and what was answered freed. */
static void forget(tsr_translator *t, int32_t n, const uint64_t *tickets, tsr_translation **answers)
{
  for (int32_t i = 0; i < n; i++) {
    if (!answers[i] && tickets[i] > 0) {
      tsr_translator_cancel(t, tickets[i]);
      if (take_answer(t, tickets[i], &answers[i]) != TSR_OK) {
        answers[i] = NULL;
      }
    }
    tsr_translation_free(answers[i]);
    answers[i] = NULL;
  }
}

/* A job of a call, which is given a ticket. */
static tsr_status enter_job(tsr_translator *t, const tsr_translation_request *request, int32_t *n_lost, tsr_job **made,
                            int32_t *is_about_text)
{
  tsr_job *job = NULL;
  TSR_TRY(tsr_job_create(t, request, &job, is_about_text));
  job->n_lost = n_lost;
  pthread_mutex_lock(&t->lock);
  tsr_status status = tsr_job_enter(t, job);
  if (status != TSR_OK) {
    tsr_class_leave(t, job->class);
  }
  pthread_mutex_unlock(&t->lock);
  if (status != TSR_OK) {
    tsr_job_free(job);
    return status;
  }
  *made = job;
  return TSR_OK;
}

/* Request number i of a call, whose number may be that behind the one before it. */
static tsr_status take_request(const tsr_translation_request *given, int64_t next, tsr_translation_request *request)
{
  TSR_TRY(TSR_SIZED_READ(tsr_translation_request, piece_user, given, request));
  request->number = request->number == -1 ? next : request->number;
  return TSR_OK;
}

/* The texts go one by one into the queue. */
static tsr_status translate_queued(tsr_translator *t, int32_t n, const tsr_translation_request *requests,
                                   uint64_t *tickets, tsr_translation **answers)
{
  int32_t n_taken = 0; /* of the answers, from the first on */
  int64_t next = 0;
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < n && status == TSR_OK;) {
    tsr_translation_request request;
    int32_t is_about_text = 0, n_parts = 0;
    tsr_status submitted = take_request(&requests[i], next, &request);
    if (submitted == TSR_OK) {
      submitted = submit(t, &request, NULL, NULL, &tickets[i], &is_about_text, &n_parts);
    }
    if (submitted != TSR_ERR_BUSY) {
      status = submitted != TSR_OK ? tsr_refusal(submitted, is_about_text, &answers[i]) : TSR_OK;
      next = request.number + n_parts;
      i++;
    } else if (n_taken < i) {
      status = take_answer(t, tickets[n_taken], &answers[n_taken]);
      n_taken++;
    } else {
      wait_for_room(t);
    }
  }
  return status;
}

/* The texts are searched together. */
static tsr_status translate_together(tsr_translator *t, int32_t n, const tsr_translation_request *requests,
                                     const volatile int32_t *stop, uint64_t *tickets, tsr_translation **answers)
{
  int32_t n_lost = 0;
  int64_t next = 0;
  tsr_status status = TSR_OK;
  tsr_job **jobs = calloc((size_t)n + 1, sizeof(tsr_job *));
  if (!jobs) {
    return tsr_fail_memory(((size_t)n + 1) * sizeof(tsr_job *));
  }
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    tsr_translation_request request;
    int32_t is_about_text = 0;
    tsr_status created = take_request(&requests[i], next, &request);
    if (created == TSR_OK) {
      created = enter_job(t, &request, &n_lost, &jobs[i], &is_about_text);
    }
    if (created == TSR_OK) {
      tickets[i] = jobs[i]->ticket;
      next = request.number + jobs[i]->source.n_parts;
    } else {
      status = tsr_refusal(created, is_about_text, &answers[i]);
    }
  }
  for (int32_t i = 0; i < n && status != TSR_OK; i++) {
    tsr_translator_cancel(t, tickets[i]);
  }
  tsr_call_run(t, jobs, n, stop);
  free(jobs);
  return status;
}

static tsr_status translate(tsr_translator *t, int32_t n, const tsr_translation_request *requests, int32_t is_together,
                            const volatile int32_t *stop, tsr_translation **answers)
{
  uint64_t *tickets = calloc((size_t)n + 1, sizeof *tickets);
  if (!tickets) {
    return tsr_fail_memory(((size_t)n + 1) * sizeof *tickets);
  }
  memset(answers, 0, (size_t)n * sizeof *answers);
  enter(t);
  tsr_status status = is_together ? translate_together(t, n, requests, stop, tickets, answers)
                                  : translate_queued(t, n, requests, tickets, answers);
  for (int32_t i = 0; i < n && status == TSR_OK; i++) {
    status = answers[i] ? TSR_OK : take_answer(t, tickets[i], &answers[i]);
  }
  if (status != TSR_OK) {
    forget(t, n, tickets, answers);
    status = tsr_fail(status, "out of host memory for the answers");
  }
  leave(t);
  free(tickets);
  return status;
}

tsr_status tsr_translator_translate(tsr_translator *translator, int32_t n, const tsr_translation_request *requests,
                                    tsr_translation **answers)
{
  tsr_translator *t = translator;
  if (!t || n < 0 || (n > 0 && (!requests || !answers))) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_translate: translator, requests and answers are needed");
  }
  return translate(t, n, requests, t->options.static_batches, NULL, answers);
}

tsr_status tsr_translator_translate_together(tsr_translator *translator, int32_t n,
                                             const tsr_translation_request *requests, const volatile int32_t *stop,
                                             tsr_translation **answers)
{
  tsr_translator *t = translator;
  if (!t || n < 0 || (n > 0 && (!requests || !answers))) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_translator_translate_together: translator, requests and answers are needed");
  }
  return translate(t, n, requests, 1, stop, answers);
}

void tsr_translator_measure_sized(tsr_translator *translator, tsr_translator_statistics *statistics, size_t size)
{
  tsr_translator *t = translator;
  pthread_mutex_lock(&t->lock);
  tsr_translator_statistics now = t->statistics;
  now.waiting = t->n_waiting;
  for (int32_t i = 0; i < t->n_seats; i++) {
    int32_t works = !t->seats[i].is_dead && t->seats[i].failure == TSR_OK;
    now.devices += works ? t->seats[i].n_devices : 0;
    now.workers += works ? t->seats[i].n_used : 0;
  }
  pthread_mutex_unlock(&t->lock);
  tsr_sized_fill(&now, sizeof now, statistics, size);
}

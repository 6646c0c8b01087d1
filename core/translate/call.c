/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of one call, which are searched together as tsr_generate does it: the thread that called holds a seat, and
 * its transformer's own threads search.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/generate/request.h"
#include "core/translate/translate.h"

/* What is searched at once: the parts of one class that are not done, in the order of the texts. */
typedef struct call {
  tsr_translator *t;
  tsr_job *const *jobs; /* [n_jobs] NULL: there is none */
  int32_t n_jobs;
  const volatile int32_t *stop; /* the caller's, or NULL */
  tsr_seat *seat;
  const tsr_class *class;
  int32_t n;
  tsr_text_part **parts; /* [n], likewise the next */
  const int32_t **source;
  int32_t *lengths;
  tsr_prompt *prompts;
  int64_t *numbers;
  int64_t n_done;   /* parts, before this search */
  int64_t n_parts;  /* of all jobs */
  tsr_job *answers; /* that are to be handed over at the end */
} call;

static tsr_status reserve(call *c)
{
  size_t room = (size_t)c->n_parts + 1;
  c->parts = malloc(room * sizeof(tsr_text_part *));
  c->source = malloc(room * sizeof(int32_t *));
  c->lengths = malloc(room * sizeof *c->lengths);
  c->prompts = malloc(room * sizeof *c->prompts);
  c->numbers = malloc(room * sizeof *c->numbers);
  return c->parts && c->source && c->lengths && c->prompts && c->numbers ? TSR_OK
                                                                         : tsr_fail_memory(room * sizeof *c->prompts);
}

static void finish(call *c)
{
  free(c->parts);
  free(c->source);
  free(c->lengths);
  free(c->prompts);
  free(c->numbers);
}

/* With the lock: gives up what is not done. The message is the thread's last error's. */
static void give_up(call *c, tsr_status status)
{
  for (int32_t i = 0; i < c->n_jobs; i++) {
    if (c->jobs[i]) {
      tsr_job_give_up(c->t, c->jobs[i], status, &c->answers);
    }
  }
}

static void add(call *c, tsr_text_part *part)
{
  c->parts[c->n] = part;
  c->source[c->n] = part->job->source.ids[part->index];
  c->lengths[c->n] = part->n_ids;
  c->prompts[c->n] = part->prompt;
  c->numbers[c->n] = part->job->number + part->index;
  c->n++;
}

/* With the lock: what is to be searched next; the parts of jobs that were given up are done. */
static void gather(call *c)
{
  c->class = NULL;
  c->n = 0;
  for (int32_t i = 0; i < c->n_jobs; i++) {
    tsr_job *job = c->jobs[i];
    for (int32_t k = 0; job && k < job->source.n_parts; k++) {
      tsr_text_part *part = &job->parts[k];
      if (part->state == TSR_PART_IS_DONE) {
        continue;
      }
      if (job->status != TSR_OK) {
        tsr_part_done(part, &c->answers);
        continue;
      }
      c->class = c->class ? c->class : job->class;
      if (job->class == c->class) {
        add(c, part);
      }
    }
  }
}

/* With the lock: the caller may want no more. */
static void obey(call *c)
{
  if (c->stop && *c->stop) {
    give_up(c, tsr_fail(TSR_ERR_CANCELLED, "the call was stopped"));
  }
}

/* ---- what the search tells and asks: without the lock ------------------------------------------------------------ */

static int32_t look(void *user, int32_t n_open)
{
  call *c = user;
  tsr_translator *t = c->t;
  tsr_job *answers = NULL;
  pthread_mutex_lock(&t->lock);
  t->statistics.rows += n_open;
  tsr_queue_expire(t, &answers);
  obey(c);
  int32_t n_lost = *c->parts[0]->job->n_lost;
  pthread_mutex_unlock(&t->lock);
  tsr_answer_all(t, &answers);
  return n_lost;
}

static int32_t is_wanted(void *user, int32_t index)
{
  call *c = user;
  pthread_mutex_lock(&c->t->lock);
  int32_t is_given_up = c->parts[index]->job->status != TSR_OK;
  pthread_mutex_unlock(&c->t->lock);
  return !is_given_up;
}

static void on_progress(void *user, int64_t done, int64_t total)
{
  call *c = user;
  tsr_translator *t = c->t;
  (void)total; /* of this search */
  pthread_mutex_lock(&t->lock);
  t->statistics.batches++;
  pthread_mutex_unlock(&t->lock);
  if (t->options.progress) {
    t->options.progress(t->options.progress_user, c->n_done + done, c->n_parts);
  }
}

/* ---- a search ---------------------------------------------------------------------------------------------------- */

/* Adds what the transformer did since `before`. */
static void count(call *c, const tsr_generate_statistics *before)
{
  tsr_translator *t = c->t;
  tsr_translator_statistics *s = &t->statistics;
  tsr_generate_statistics now;
  tsr_generate_measure(c->seat->transformer, &now);
  pthread_mutex_lock(&t->lock);
  s->source_tokens += now.source_tokens - before->source_tokens;
  s->target_tokens += now.target_tokens - before->target_tokens;
  s->encode_runs += now.encode_runs - before->encode_runs;
  s->step_runs += now.step_runs - before->step_runs;
  s->encode_seconds += now.encode_seconds - before->encode_seconds;
  s->step_seconds += now.step_seconds - before->step_seconds;
  s->search_seconds += now.seconds - before->seconds;
  s->search_threads = now.workers;
  for (int32_t i = 0; i < c->seat->n_workers; i++) {
    c->seat->workers[i].counted = c->seat->workers[i].transformer->work;
  }
  pthread_mutex_unlock(&t->lock);
}

/* Gives each part that was finished its hypotheses. */
static void collect(call *c, tsr_generation *found)
{
  for (int32_t i = 0; found->hypotheses && i < c->n; i++) {
    tsr_text_part *part = c->parts[i];
    tsr_hypothesis *hypotheses = &found->hypotheses[(int64_t)i * found->n_best];
    if (hypotheses->n_ids < 0) {
      continue;
    }
    size_t size = (size_t)found->n_best * sizeof *hypotheses;
    memcpy(part->job->found + part->index * part->job->n_hypotheses, hypotheses, size);
    tsr_pieces_end(part, hypotheses);
    memset(hypotheses, 0, size); /* they are the job's */
    pthread_mutex_lock(&c->t->lock);
    tsr_part_done(part, &c->answers);
    c->n_done++;
    pthread_mutex_unlock(&c->t->lock);
  }
}

static tsr_status search(call *c)
{
  tsr_generate_options options = c->class->options;
  const tsr_request_watch watch = {.user = c, .look = look, .is_wanted = is_wanted};
  const tsr_request request = {.transformer = c->seat->transformer,
                               .n_sentences = c->n,
                               .source = c->source,
                               .lengths = c->lengths,
                               .prompts = c->prompts,
                               .numbers = c->numbers,
                               .n_batch = c->t->options.batch,
                               .workers = c->t->options.workers,
                               .options = &options,
                               .progress = on_progress,
                               .user = c,
                               .watch = options.alternatives > 0 ? NULL : &watch};
  tsr_generate_statistics before;
  tsr_generation found;
  options.partial = 1;
  options.token_user = c->parts;
  options.first_sentence = c->numbers[0];
  tsr_generate_measure(c->seat->transformer, &before);
  tsr_status status =
      options.alternatives > 0 ? tsr_request_alternatives(&request, &found) : tsr_request_run(&request, &found);
  count(c, &before);
  collect(c, &found);
  tsr_generation_finish(&found);
  return status;
}

/* With the lock, which is given up meanwhile: another device goes on with what is not done. */
static void change_device(call *c, tsr_status status, char *why)
{
  tsr_translator *t = c->t;
  pthread_mutex_unlock(&t->lock);
  for (int32_t i = 0; i < c->n; i++) {
    tsr_text_part *part = c->parts[i];
    if (part->state != TSR_PART_IS_DONE) {
      tsr_pieces_restart(part);
    }
  }
  pthread_mutex_lock(&t->lock);
  for (int32_t i = 0; i < c->n; i++) {
    c->parts[i]->job->n_restarts += c->parts[i]->state != TSR_PART_IS_DONE;
  }
  c->seat->failure = status;
  c->seat->message = why;
  tsr_seat_replace(t, c->seat, &c->answers);
}

/* With the lock: a search failed that no other device can do better. */
static void end_for_error(call *c, tsr_status status, const char *why, int64_t culprit)
{
  (void)tsr_fail(status, "%s", why ? why : tsr_status_name(status));
  if (culprit >= 0 && culprit < c->n) {
    tsr_job *job = c->parts[culprit]->job;
    job->is_about_text = job->status == TSR_OK ? 1 : job->is_about_text;
    tsr_job_give_up(c->t, job, status, &c->answers);
    status = tsr_fail(TSR_ERR_CANCELLED, "given up, because another text of the call could not be translated: %s",
                      why ? why : tsr_status_name(TSR_ERR_OUT_OF_MEMORY));
  }
  give_up(c, status);
}

/* With the lock, which is given up meanwhile: searches what was gathered, as far as it goes on one device. */
static void run(call *c)
{
  tsr_translator *t = c->t;
  const char *message;
  tsr_status status = tsr_seat_hold(t, NULL, &c->seat);
  if (status != TSR_OK) {
    give_up(c, status);
    return;
  }
  int32_t n = c->n;
  t->statistics.running += n;
  pthread_mutex_unlock(&t->lock);
  status = search(c);
  int64_t culprit = tsr_error_sentence(&message);
  char *why = status != TSR_OK ? strdup(culprit >= 0 ? message : tsr_error_message()) : NULL;
  pthread_mutex_lock(&t->lock);
  t->statistics.running -= n;
  if (tsr_is_of_device(status) && (c->seat->is_auto || status != TSR_ERR_DEVICE_MEMORY)) {
    change_device(c, status, why);
    why = NULL;
  } else if (status != TSR_OK) {
    end_for_error(c, status, why, culprit);
  }
  free(why);
  tsr_seat_release(t, c->seat);
}

void tsr_call_run(tsr_translator *t, tsr_job *const *jobs, int32_t n, const volatile int32_t *stop)
{
  call c = {.t = t, .jobs = jobs, .n_jobs = n, .stop = stop};
  for (int32_t i = 0; i < n; i++) {
    c.n_parts += jobs[i] ? jobs[i]->source.n_parts : 0;
  }
  tsr_status status = reserve(&c);
  pthread_mutex_lock(&t->lock);
  for (int32_t i = 0; i < n; i++) {
    if (jobs[i] && jobs[i]->n_pending == 0) { /* there is nothing to translate */
      jobs[i]->next_answer = c.answers;
      c.answers = jobs[i];
    }
  }
  if (status != TSR_OK) {
    give_up(&c, status); /* so that nothing is gathered */
  }
  double now = tsr_seconds();
  for (int32_t i = 0; i < n; i++) {
    if (jobs[i]) {
      jobs[i]->started = now;
    }
  }
  obey(&c);
  for (gather(&c); c.n > 0; gather(&c)) {
    run(&c);
    obey(&c);
  }
  pthread_mutex_unlock(&t->lock);
  tsr_answer_all(t, &c.answers);
  finish(&c);
}

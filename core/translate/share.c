/* SPDX-License-Identifier: Apache-2.0
 *
 * What a device searches at a time of a call, as tsr_generate does it: the thread holds a seat, and the transformer's
 * own threads search.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/generate/request.h"
#include "core/translate/call.h"

/* Parts of one class that a device searches together. */
typedef struct share {
  tsr_call *call;
  tsr_seat *seat; /* the lane's */
  const tsr_class *class;
  int32_t n;
  tsr_text_part **parts; /* [n], likewise the next */
  const int32_t **source;
  int32_t *lengths;
  tsr_prompt *prompts;
  int64_t *numbers;
  int64_t told; /* of the parts, those that progress was told of */
} share;

static tsr_status fill(share *s, void *const *parts)
{
  size_t n = (size_t)s->n;
  s->parts = malloc(n * sizeof(tsr_text_part *));
  s->source = malloc(n * sizeof(int32_t *));
  s->lengths = malloc(n * sizeof *s->lengths);
  s->prompts = malloc(n * sizeof *s->prompts);
  s->numbers = malloc(n * sizeof *s->numbers);
  if (!s->parts || !s->source || !s->lengths || !s->prompts || !s->numbers) {
    return tsr_fail_memory(n * sizeof *s->prompts);
  }
  for (int32_t i = 0; i < s->n; i++) {
    tsr_text_part *part = parts[i];
    s->parts[i] = part;
    s->source[i] = part->job->source.ids[part->index];
    s->lengths[i] = part->n_ids;
    s->prompts[i] = part->prompt;
    s->numbers[i] = part->job->number + part->index;
  }
  return TSR_OK;
}

static void finish(share *s)
{
  free(s->parts);
  free(s->source);
  free(s->lengths);
  free(s->prompts);
  free(s->numbers);
}

/* ---- what the search tells and asks: without the lock ------------------------------------------------------------ */

static int32_t look(void *user, int32_t n_open)
{
  const share *s = user;
  tsr_translator *t = s->call->t;
  tsr_job *answers = NULL;
  pthread_mutex_lock(&t->lock);
  t->statistics.rows += n_open;
  tsr_queue_expire(t, &answers);
  tsr_call_obey(s->call);
  int32_t n_lost = *s->parts[0]->job->n_lost;
  pthread_mutex_unlock(&t->lock);
  tsr_answer_all(t, &answers);
  return n_lost;
}

static int32_t is_wanted(void *user, int32_t index)
{
  const share *s = user;
  tsr_translator *t = s->call->t;
  pthread_mutex_lock(&t->lock);
  int32_t is_given_up = s->parts[index]->job->status != TSR_OK;
  pthread_mutex_unlock(&t->lock);
  return !is_given_up;
}

/* Counts the parts of a share that are done by now, and tells of all shares. */
static void tell(share *s, int64_t done, tsr_progress_fn progress, void *user)
{
  tsr_call *c = s->call;
  done = done < s->n ? done : s->n; /* of alternatives, each counts */
  pthread_mutex_lock(&c->telling);
  c->n_told += done - s->told;
  s->told = done;
  if (progress) {
    progress(user, c->n_told, c->n_items);
  }
  pthread_mutex_unlock(&c->telling);
}

static void on_progress(void *user, int64_t done, int64_t total)
{
  share *s = user;
  tsr_translator *t = s->call->t;
  (void)total; /* of this share */
  pthread_mutex_lock(&t->lock);
  t->statistics.batches++;
  pthread_mutex_unlock(&t->lock);
  tell(s, done, t->options.progress, t->options.progress_user);
}

/* ---- a search ---------------------------------------------------------------------------------------------------- */

/* Adds what the transformer did since `before`. */
static void count(const share *s, const tsr_generate_statistics *before)
{
  tsr_translator *t = s->call->t;
  tsr_translator_statistics *sum = &t->statistics;
  tsr_generate_statistics now;
  tsr_generate_measure(s->seat->transformer, &now);
  pthread_mutex_lock(&t->lock);
  sum->source_tokens += now.source_tokens - before->source_tokens;
  sum->target_tokens += now.target_tokens - before->target_tokens;
  sum->encode_runs += now.encode_runs - before->encode_runs;
  sum->step_runs += now.step_runs - before->step_runs;
  sum->encode_seconds += now.encode_seconds - before->encode_seconds;
  sum->step_seconds += now.step_seconds - before->step_seconds;
  for (int32_t i = 0; i < s->seat->n_workers; i++) {
    s->seat->workers[i].counted = s->seat->workers[i].transformer->work;
  }
  s->seat->n_threads = now.workers;
  pthread_mutex_unlock(&t->lock);
}

/* Gives each part that was finished its hypotheses. */
static void collect(share *s, tsr_generation *found)
{
  tsr_translator *t = s->call->t;
  int64_t n_done = 0;
  for (int32_t i = 0; found->hypotheses && i < s->n; i++) {
    tsr_text_part *part = s->parts[i];
    tsr_hypothesis *hypotheses = &found->hypotheses[(int64_t)i * found->n_best];
    int32_t is_found = hypotheses->n_ids >= 0;
    if (is_found) {
      size_t size = (size_t)found->n_best * sizeof *hypotheses;
      memcpy(part->job->found + part->index * part->job->n_hypotheses, hypotheses, size);
      tsr_pieces_end(part, hypotheses);
      memset(hypotheses, 0, size); /* they are the job's */
    }
    pthread_mutex_lock(&t->lock);
    n_done += is_found || part->job->status != TSR_OK;
    if (is_found) {
      tsr_part_done(part, &s->call->answers);
    }
    pthread_mutex_unlock(&t->lock);
  }
  tell(s, n_done, NULL, NULL); /* what was told, and is searched again, is not done */
}

static tsr_status search(share *s)
{
  const tsr_translator *t = s->call->t;
  tsr_generate_options options = s->class->options;
  const tsr_request_watch watch = {.user = s, .look = look, .is_wanted = is_wanted};
  const tsr_request request = {.transformer = s->seat->transformer,
                               .n_sentences = s->n,
                               .source = s->source,
                               .lengths = s->lengths,
                               .prompts = s->prompts,
                               .numbers = s->numbers,
                               .n_batch = t->options.batch,
                               .workers = t->options.workers,
                               .options = &options,
                               .progress = on_progress,
                               .user = s,
                               .watch = options.alternatives > 0 ? NULL : &watch};
  tsr_generate_statistics before;
  tsr_generation found;
  options.partial = 1;
  options.token_user = s->parts;
  options.first_sentence = s->numbers[0];
  tsr_generate_measure(s->seat->transformer, &before);
  tsr_status status =
      options.alternatives > 0 ? tsr_request_alternatives(&request, &found) : tsr_request_run(&request, &found);
  count(s, &before);
  collect(s, &found);
  tsr_generation_finish(&found);
  return status;
}

/* With the lock: what is not done may be taken by any device. */
static void put_back(const share *s)
{
  for (int32_t i = 0; i < s->n; i++) {
    s->parts[i]->is_taken = 0;
  }
  pthread_cond_broadcast(&s->call->t->changed);
}

/* With the lock, which is given up meanwhile: what is not done will be searched anew. */
static void restart(const share *s)
{
  tsr_translator *t = s->call->t;
  pthread_mutex_unlock(&t->lock);
  for (int32_t i = 0; i < s->n; i++) {
    if (s->parts[i]->state != TSR_PART_IS_DONE) {
      tsr_pieces_restart(s->parts[i]);
    }
  }
  pthread_mutex_lock(&t->lock);
  for (int32_t i = 0; i < s->n; i++) {
    s->parts[i]->job->n_restarts += s->parts[i]->state != TSR_PART_IS_DONE;
  }
}

/* With the lock: a search failed that no other device can do better. */
static void end_for_error(share *s, tsr_status status, const char *why, int64_t culprit)
{
  (void)tsr_fail(status, "%s", why ? why : tsr_status_name(status));
  if (culprit >= 0 && culprit < s->n) {
    tsr_job *job = s->parts[culprit]->job;
    job->is_about_text = job->status == TSR_OK ? 1 : job->is_about_text;
    tsr_job_give_up(s->call->t, job, status, &s->call->answers);
    status = tsr_fail(TSR_ERR_CANCELLED, "given up, because another text of the call could not be translated: %s",
                      why ? why : tsr_status_name(TSR_ERR_OUT_OF_MEMORY));
  }
  tsr_call_give_up(s->call, status);
}

void tsr_share_run(tsr_lane *lane, void *const *parts, int32_t n)
{
  tsr_call *c = lane->call;
  tsr_translator *t = c->t;
  share s = {.call = c, .seat = lane->seat, .class = ((tsr_text_part *)parts[0])->job->class, .n = n};
  const char *message;
  tsr_status status = fill(&s, parts);
  if (status != TSR_OK) {
    tsr_call_give_up(c, status);
    finish(&s);
    return;
  }
  for (int32_t i = 0; i < n; i++) {
    s.parts[i]->is_taken = 1;
  }
  t->statistics.running += n;
  pthread_mutex_unlock(&t->lock);
  status = search(&s);
  int64_t culprit = tsr_error_sentence(&message);
  char *why = status != TSR_OK ? strdup(culprit >= 0 ? message : tsr_error_message()) : NULL;
  pthread_mutex_lock(&t->lock);
  t->statistics.running -= n;
  if (tsr_lane_has_heir(lane, status)) {
    restart(&s);
    put_back(&s);
    tsr_lane_hand_on(lane, status, why);
    why = NULL;
  } else {
    if (status != TSR_OK) {
      end_for_error(&s, status, why, culprit);
    }
    put_back(&s);
  }
  free(why);
  finish(&s);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/translate/translate.h"

enum { MOST_CANDIDATES = 1024 };

static void link_last(tsr_translator *t, tsr_text_part *part)
{
  part->state = TSR_PART_WAITS;
  part->before = t->last;
  part->after = NULL;
  *(t->last ? &t->last->after : &t->first) = part;
  t->last = part;
  t->n_waiting++;
  part->job->class->n_waiting++;
}

static void unlink_part(tsr_translator *t, tsr_text_part *part)
{
  *(part->before ? &part->before->after : &t->first) = part->after;
  *(part->after ? &part->after->before : &t->last) = part->before;
  part->before = part->after = NULL;
  t->n_waiting--;
  part->job->class->n_waiting--;
}

tsr_status tsr_job_enter(tsr_translator *t, tsr_job *job)
{
  if (t->status != TSR_OK) {
    return tsr_fail(t->status, "no device is left: %s", t->message ? t->message : "out of memory for the reason");
  }
  if (t->is_closing) {
    return tsr_fail(TSR_ERR_CANCELLED, "the translator is being closed");
  }
  job->ticket = ++t->ticket;
  job->n_pending = job->source.n_parts;
  tsr_job **list = &t->table[job->ticket % TSR_TABLE];
  job->next = *list;
  *list = job;
  job->older = t->newest;
  *(t->newest ? &t->newest->newer : &t->oldest) = job;
  t->newest = job;
  t->next_deadline = job->deadline < t->next_deadline ? job->deadline : t->next_deadline;
  for (int32_t i = 0; i < job->source.n_parts; i++) {
    job->parts[i].state = TSR_PART_RUNS;
  }
  return TSR_OK;
}

tsr_status tsr_queue_put(tsr_translator *t, tsr_job *job)
{
  if (t->status == TSR_OK && !t->is_closing && t->n_waiting > 0 &&
      t->n_waiting > t->options.queue - job->source.n_parts) {
    return tsr_fail(TSR_ERR_BUSY, "%d texts wait already, and at most %d may; try again later", (int)t->n_waiting,
                    (int)t->options.queue);
  }
  TSR_TRY(tsr_job_enter(t, job));
  for (int32_t i = 0; i < job->source.n_parts; i++) {
    link_last(t, &job->parts[i]);
  }
  return TSR_OK;
}

void tsr_queue_return(tsr_translator *t, tsr_text_part *part)
{
  part->state = TSR_PART_WAITS;
  part->before = NULL;
  part->after = t->first;
  *(t->first ? &t->first->before : &t->last) = part;
  t->first = part;
  t->n_waiting++;
  part->job->class->n_waiting++;
}

/* A part that waits, with what it has more or fewer tokens than the oldest. */
typedef struct candidate {
  tsr_text_part *part;
  int32_t distance;
  int32_t place; /* in the queue */
} candidate;

static int compare(const void *left, const void *right)
{
  const candidate *a = left, *b = right;
  return a->distance != b->distance ? a->distance - b->distance : a->place - b->place;
}

int32_t tsr_queue_take(tsr_translator *t, const tsr_class *class, int32_t n, int32_t alike, tsr_text_part **parts)
{
  candidate found[MOST_CANDIDATES];
  int32_t most = alike && n <= MOST_CANDIDATES / 4 ? 4 * n : n < MOST_CANDIDATES ? n : MOST_CANDIDATES, n_found = 0;
  for (tsr_text_part *part = t->first; part && n_found < most; part = part->after) {
    if (part->job->class == class) {
      int32_t more = n_found > 0 ? part->n_ids - found[0].part->n_ids : 0;
      found[n_found] = (candidate){part, more < 0 ? -more : more, n_found};
      n_found++;
    }
  }
  if (n_found > n) {
    qsort(found, (size_t)n_found, sizeof *found, compare);
  }
  int32_t taken = n < n_found ? n : n_found;
  double now = tsr_seconds();
  for (int32_t i = 0; i < taken; i++) {
    unlink_part(t, found[i].part);
    found[i].part->state = TSR_PART_RUNS;
    found[i].part->job->started = found[i].part->job->started > 0.0 ? found[i].part->job->started : now;
    parts[i] = found[i].part;
  }
  pthread_cond_broadcast(&t->changed); /* there is room */
  return taken;
}

void tsr_part_done(tsr_text_part *part, tsr_job **answers)
{
  part->state = TSR_PART_IS_DONE;
  if (--part->job->n_pending == 0) {
    part->job->next_answer = *answers;
    *answers = part->job;
  }
}

void tsr_job_answered(tsr_translator *t, tsr_job *job)
{
  *(job->older ? &job->older->newer : &t->oldest) = job->newer;
  *(job->newer ? &job->newer->older : &t->newest) = job->older;
  job->older = job->newer = NULL;
  t->statistics.answered++;
  t->statistics.failed += job->status != TSR_OK;
  pthread_cond_broadcast(&t->changed);
}

void tsr_job_remove(tsr_translator *t, tsr_job *job)
{
  tsr_job **link = &t->table[job->ticket % TSR_TABLE];
  while (*link != job) {
    link = &(*link)->next;
  }
  *link = job->next;
  tsr_class_leave(t, job->class);
  pthread_cond_broadcast(&t->changed);
}

void tsr_job_give_up(tsr_translator *t, tsr_job *job, tsr_status status, tsr_job **answers)
{
  if (job->n_pending == 0 || job->status != TSR_OK) { /* one that is done belongs to the thread that answers it */
    return;
  }
  job->status = status;
  job->message = strdup(tsr_error_message());
  if (job->n_lost) {
    ++*job->n_lost;
  }
  for (int32_t i = 0; i < job->source.n_parts && job->n_pending > 0; i++) {
    if (job->parts[i].state == TSR_PART_WAITS) {
      unlink_part(t, &job->parts[i]);
      tsr_part_done(&job->parts[i], answers);
    }
  }
  pthread_cond_broadcast(&t->changed);
}

void tsr_queue_expire(tsr_translator *t, tsr_job **answers)
{
  double now = tsr_seconds();
  if (t->next_deadline > now) {
    return;
  }
  t->next_deadline = INFINITY;
  for (tsr_job *job = t->oldest, *newer; job; job = newer) {
    newer = job->newer;
    if (job->deadline <= now) {
      tsr_job_give_up(
          t, job,
          tsr_fail(TSR_ERR_DEADLINE, "the text was not translated within %.3g seconds", job->deadline - job->asked),
          answers);
    } else if (job->deadline < t->next_deadline) {
      t->next_deadline = job->deadline;
    }
  }
}

tsr_job *tsr_job_find(const tsr_translator *t, uint64_t ticket)
{
  tsr_job *job = t->table[ticket % TSR_TABLE];
  while (job && job->ticket != ticket) {
    job = job->next;
  }
  return job;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of one call, which are searched together.
 */
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/translate/call.h"

void tsr_call_give_up(tsr_call *c, tsr_status status)
{
  for (int32_t i = 0; i < c->n_jobs; i++) {
    if (c->jobs[i]) {
      tsr_job_give_up(c->t, c->jobs[i], status, &c->answers);
    }
  }
}

void tsr_call_obey(tsr_call *c)
{
  if (c->stop && *c->stop) {
    tsr_call_give_up(c, tsr_fail(TSR_ERR_CANCELLED, "the call was stopped"));
  }
}

/* The longest first; of those that are as long, in the order of the texts. */
static int compare(const void *left, const void *right)
{
  const tsr_text_part *a = *(tsr_text_part *const *)left, *b = *(tsr_text_part *const *)right;
  if (a->n_ids != b->n_ids) {
    return a->n_ids > b->n_ids ? -1 : 1;
  }
  if (a->job->ticket != b->job->ticket) {
    return a->job->ticket > b->job->ticket ? 1 : -1;
  }
  return (a->index > b->index) - (a->index < b->index);
}

int32_t tsr_call_gather(tsr_call *c, tsr_text_part **parts)
{
  const tsr_class *class = NULL;
  int32_t n = 0;
  for (int32_t i = 0; i < c->n_jobs; i++) {
    tsr_job *job = c->jobs[i];
    for (int32_t k = 0; job && k < job->source.n_parts; k++) {
      tsr_text_part *part = &job->parts[k];
      if (part->state == TSR_PART_IS_DONE || part->is_taken) {
        continue;
      }
      if (job->status != TSR_OK) {
        tsr_part_done(part, &c->answers);
        continue;
      }
      class = class ? class : job->class;
      if (job->class == class) {
        if (parts) {
          parts[n] = part;
        }
        n++;
      }
    }
  }
  if (parts && n > 1 && class->options.alternatives == 0) {
    qsort(parts, (size_t)n, sizeof(tsr_text_part *), compare);
  }
  return n;
}

void tsr_call_run(tsr_translator *t, tsr_job *const *jobs, int32_t n, const volatile int32_t *stop)
{
  tsr_call c = {.t = t, .jobs = jobs, .n_jobs = n, .stop = stop};
  double now = tsr_seconds();
  pthread_mutex_init(&c.telling, NULL);
  pthread_mutex_lock(&t->lock);
  for (int32_t i = 0; i < n; i++) {
    if (jobs[i]) {
      c.n_parts += jobs[i]->source.n_parts;
      jobs[i]->started = now;
      if (jobs[i]->n_pending == 0) { /* there is nothing to translate */
        jobs[i]->next_answer = c.answers;
        c.answers = jobs[i];
      }
    }
  }
  tsr_call_obey(&c);
  tsr_lanes_run(&c);
  pthread_mutex_unlock(&t->lock);
  tsr_answer_all(t, &c.answers);
  pthread_mutex_destroy(&c.telling);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * The texts of one call, which are searched together.
 */
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/generate/batches.h"
#include "core/translate/call.h"

typedef struct text_call {
  tsr_call call;        /* its items are parts */
  tsr_job *const *jobs; /* [n_jobs] NULL: there is none */
  int32_t n_jobs;
  const volatile int32_t *stop; /* the caller's, or NULL */
} text_call;

void tsr_call_give_up(tsr_call *call, tsr_status status)
{
  text_call *c = (text_call *)call;
  for (int32_t i = 0; i < c->n_jobs; i++) {
    if (c->jobs[i]) {
      tsr_job_give_up(call->t, c->jobs[i], status, &call->answers);
    }
  }
}

void tsr_call_obey(tsr_call *c)
{
  const volatile int32_t *stop = ((const text_call *)c)->stop;
  if (stop && *stop) {
    tsr_call_give_up(c, tsr_fail(TSR_ERR_CANCELLED, "the call was stopped"));
  }
}

/* The longest first; of those that are as long, in the order of the texts. */
static int compare(const void *left, const void *right)
{
  const tsr_text_part *a = *(void *const *)left, *b = *(void *const *)right;
  if (a->n_ids != b->n_ids) {
    return a->n_ids > b->n_ids ? -1 : 1;
  }
  if (a->job->ticket != b->job->ticket) {
    return a->job->ticket > b->job->ticket ? 1 : -1;
  }
  return (a->index > b->index) - (a->index < b->index);
}

/* Parts of the class of the first one, the longest first, but those of alternatives, whose draws depend on the texts
 * before them. The parts of jobs that were given up are done. */
static int32_t gather(tsr_call *call, void **parts)
{
  const text_call *c = (const text_call *)call;
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
        tsr_part_done(part, &call->answers);
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
    qsort(parts, (size_t)n, sizeof(void *), compare);
  }
  return n;
}

/* What a sentence costs: a step per token, more or less, and something for each batch it may be in. */
static int64_t cost_of(const void *part)
{
  return ((const tsr_text_part *)part)->n_ids + 4;
}

static int32_t enough_of(const tsr_lane *lane, const void *part)
{
  const tsr_class *class = ((const tsr_text_part *)part)->job->class;
  int32_t rows = tsr_search_rows(&class->options), is_frugal = tsr_search_is_frugal(lane->seat->transformer);
  int32_t wanted = lane->call->t->options.batch, batch = wanted > 0 ? wanted : tsr_default_batch(rows, is_frugal);
  return class->options.alternatives > 0 ? 0 : batch * lane->seat->n_used;
}

static int32_t is_done(const void *item)
{
  const tsr_text_part *part = item;
  return part->state == TSR_PART_IS_DONE && part->job->status == TSR_OK;
}

static const tsr_call_kind call_of_texts = {.number = TSR_CALL_OF_TEXTS,
                                            .gather = gather,
                                            .cost = cost_of,
                                            .enough = enough_of,
                                            .is_done = is_done,
                                            .run = tsr_share_run,
                                            .give_up = tsr_call_give_up,
                                            .obey = tsr_call_obey};

void tsr_call_run(tsr_translator *t, tsr_job *const *jobs, int32_t n, const volatile int32_t *stop)
{
  text_call of = {.call = {.t = t, .kind = &call_of_texts}, .jobs = jobs, .n_jobs = n, .stop = stop};
  tsr_call *c = &of.call;
  double now = tsr_seconds();
  pthread_mutex_init(&c->telling, NULL);
  pthread_mutex_lock(&t->lock);
  for (int32_t i = 0; i < n; i++) {
    if (jobs[i]) {
      c->n_items += jobs[i]->source.n_parts;
      jobs[i]->started = now;
      if (jobs[i]->n_pending == 0) { /* there is nothing to translate */
        jobs[i]->next_answer = c->answers;
        c->answers = jobs[i];
      }
    }
  }
  tsr_call_obey(c);
  tsr_lanes_run(c);
  pthread_mutex_unlock(&t->lock);
  tsr_answer_all(t, &c->answers);
  pthread_mutex_destroy(&c->telling);
}

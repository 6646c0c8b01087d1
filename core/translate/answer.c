/* SPDX-License-Identifier: Apache-2.0
 *
 * From what the search found in the parts of a text to its translation.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/translate/translate.h"

/* With a forced last token, an output that was cut ends with it. */
static int32_t is_cut(const tsr_generate_options *options, const tsr_hypothesis *h)
{
  int32_t is_forced = options->forced_eos_id >= 0 && h->n_ids + 1 >= options->max_length;
  return h->n_ids > 0 && (is_forced || !tsr_search_is_end(options, h->ids[h->n_ids - 1]));
}

/* Appends the text of a part's hypothesis, after a blank if it is not the first. */
static tsr_status append_text(const tsr_job *job, const tsr_hypothesis *h, char **text)
{
  int32_t skip = h->n_ids > 0 && job->skipped_id >= 0 && h->ids[0] == job->skipped_id;
  char *more = NULL;
  TSR_TRY(tsr_tokenizer_decode(&job->tokenizer, h->ids + skip, h->n_ids - skip, &more));
  if (!*text) {
    *text = more;
    return TSR_OK;
  }
  size_t size = strlen(*text), n_more = strlen(more);
  char *both = realloc(*text, size + n_more + 2);
  if (both) {
    both[size] = ' ';
    memcpy(both + size + 1, more, n_more + 1);
    *text = both;
  }
  tsr_free(more);
  return both ? TSR_OK : tsr_fail_memory(size + n_more + 2);
}

/* Hypothesis number `rank` of all parts. */
static tsr_status join(tsr_job *job, int32_t rank, tsr_translation_hypothesis *all)
{
  const tsr_generate_options *options = &job->class->options;
  int32_t n = job->source.n_parts, n_ids = 0;
  double score = 0.0;
  for (int32_t i = 0; i < n; i++) {
    const tsr_hypothesis *h = &job->found[i * job->n_hypotheses + rank];
    TSR_TRY(append_text(job, h, &all->text));
    all->is_cut |= is_cut(options, h);
    n_ids += h->n_ids;
    score += (double)h->score * h->n_ids;
  }
  all->ids = malloc((size_t)n_ids * sizeof *all->ids + 1);
  if (!all->ids) {
    return tsr_fail_memory((size_t)n_ids * sizeof *all->ids);
  }
  for (int32_t i = 0; i < n; i++) {
    const tsr_hypothesis *h = &job->found[i * job->n_hypotheses + rank];
    for (int32_t k = 0; k < h->n_ids; k++) {
      all->ids[all->n_ids++] = h->ids[k];
    }
  }
  tsr_hypothesis *only = &job->found[rank];
  all->score = n == 1 ? only->score : (float)(score / fmax((double)n_ids, 1.0));
  if (n == 1) {
    all->attention = only->attention;
    all->n_source = only->attention ? only->n_source : 0;
    only->attention = NULL;
  }
  return TSR_OK;
}

/* Room for n hypotheses. */
static tsr_status make_hypotheses(tsr_translation *translation, int32_t n)
{
  translation->hypotheses = calloc((size_t)n, sizeof *translation->hypotheses);
  for (; translation->hypotheses && translation->n_hypotheses < n; translation->n_hypotheses++) {
    tsr_translation_hypothesis *made = calloc(1, sizeof *made);
    if (!made) {
      break;
    }
    translation->hypotheses[translation->n_hypotheses] = made;
  }
  return translation->n_hypotheses == n ? TSR_OK : tsr_fail_memory((size_t)n * sizeof **translation->hypotheses);
}

static tsr_status fill(tsr_job *job, tsr_translation *translation)
{
  int32_t n = job->source.n_parts > 0 ? job->n_hypotheses : 1; /* of nothing, one is enough */
  TSR_TRY(make_hypotheses(translation, n));
  if (job->source.n_parts == 0) {
    translation->hypotheses[0]->score = NAN;
    translation->hypotheses[0]->text = strdup("");
    return translation->hypotheses[0]->text ? TSR_OK : tsr_fail_memory(1);
  }
  for (int32_t rank = 0; rank < n; rank++) {
    TSR_TRY(join(job, rank, translation->hypotheses[rank]));
  }
  return TSR_OK;
}

static void free_hypotheses(tsr_translation *translation)
{
  for (int32_t i = 0; i < translation->n_hypotheses; i++) {
    free(translation->hypotheses[i]->text);
    free(translation->hypotheses[i]->ids);
    free(translation->hypotheses[i]->attention);
    free(translation->hypotheses[i]);
  }
  free(translation->hypotheses);
  translation->hypotheses = NULL;
  translation->n_hypotheses = 0;
}

void tsr_translation_free(tsr_translation *translation)
{
  if (translation) {
    free_hypotheses(translation);
    free(translation->message);
    free(translation);
  }
}

tsr_status tsr_refusal(tsr_status status, tsr_translation **answer)
{
  tsr_translation *made = calloc(1, sizeof *made);
  char *message = strdup(tsr_error_message());
  if (!made || !message) {
    free(made);
    free(message);
    return tsr_fail_memory(sizeof *made);
  }
  made->status = status;
  made->message = message;
  *answer = made;
  return TSR_OK;
}

/* The answer of a job that nobody changes any more. */
static void make_answer(tsr_job *job)
{
  tsr_translation *translation = job->translation;
  double now = tsr_seconds();
  *translation = (tsr_translation){.n_parts = job->source.n_parts,
                                   .n_source_tokens = job->source.n_tokens,
                                   .is_source_cut = job->is_source_cut,
                                   .n_restarts = job->n_restarts,
                                   .waiting_seconds = (job->started > 0.0 ? job->started : now) - job->asked,
                                   .seconds = now - job->asked};
  if (job->status == TSR_OK) {
    job->status = fill(job, translation);
    job->message = job->status != TSR_OK ? strdup(tsr_error_message()) : NULL;
  }
  if (job->status != TSR_OK) {
    free_hypotheses(translation);
  }
  translation->status = job->status;
  translation->message = job->message ? job->message : strdup("");
  job->message = NULL;
}

static void answer(tsr_translator *t, tsr_job *job)
{
  make_answer(job);
  if (job->answer) {
    job->answer(job->user, job->ticket, job->translation);
  }
  pthread_mutex_lock(&t->lock);
  int32_t is_taken = job->answer != NULL;
  tsr_job_answered(t, job);
  if (is_taken) {
    tsr_job_remove(t, job);
  } else {
    job->is_answered = 1;
    if (job->arrival) {
      pthread_cond_signal(job->arrival);
    }
  }
  pthread_mutex_unlock(&t->lock);
  if (is_taken) {
    tsr_job_free(job);
  }
}

void tsr_answer_all(tsr_translator *t, tsr_job **answers)
{
  while (*answers) {
    tsr_job *job = *answers;
    *answers = job->next_answer;
    answer(t, job);
  }
}

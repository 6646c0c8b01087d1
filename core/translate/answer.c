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

/* Messages that take no memory: of an answer without an error, and where there was none left for the reason. */
static char no_message[] = "", lost_message[] = "out of host memory for the reason";

/* With a forced last token, an output that was cut ends with it. */
static int32_t is_cut(const tsr_generate_options *options, const tsr_hypothesis *h)
{
  int32_t is_forced = options->forced_eos_id >= 0 && h->n_ids + 1 >= options->max_length;
  return h->n_ids > 0 && (is_forced || !tsr_search_is_end(options, h->ids[h->n_ids - 1]));
}

/* Tokens before the text: 1 where the first one is none of it, else 0. */
static int32_t count_skipped(const tsr_job *job, const int32_t *ids, int32_t n_ids)
{
  return n_ids > 0 && job->skipped_id >= 0 && ids[0] == job->skipped_id;
}

tsr_status tsr_job_decode(const tsr_job *job, const int32_t *ids, const char *const *replaced, int32_t n_ids,
                          char **text)
{
  int32_t skip = count_skipped(job, ids, n_ids);
  return tsr_tokenizer_decode_replaced(&job->tokenizer, TSR_SIDE_TARGET, skip > 0 ? ids + 1 : ids,
                                       replaced && skip > 0 ? replaced + 1 : replaced, n_ids - skip, text);
}

/* Appends the text of a part's hypothesis, after a blank if it is not the first. With spans [n_ids of the hypothesis]:
 * finds the places of its tokens. */
static tsr_status append_text(const tsr_job *job, const tsr_hypothesis *h, const char *const *replaced, char **text,
                              tsr_text_span *spans)
{
  char *more = NULL;
  TSR_TRY(tsr_job_decode(job, h->ids, replaced, h->n_ids, &more));
  if (spans) {
    int32_t begin = *text ? (int32_t)strlen(*text) + 1 : 0;
    int32_t skip = count_skipped(job, h->ids, h->n_ids);
    spans[0] = (tsr_text_span){0, 0};
    tsr_status status =
        tsr_spans_find(&job->tokenizer, TSR_SIDE_TARGET, skip > 0 ? h->ids + 1 : h->ids,
                       replaced && skip > 0 ? replaced + 1 : replaced, h->n_ids - skip, more, spans + skip);
    for (int32_t i = 0; i < h->n_ids; i++) {
      spans[i].begin += begin;
      spans[i].end += begin;
    }
    if (status != TSR_OK) {
      tsr_free(more);
      return status;
    }
  }
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

/* Room for n ids and what is asked for of each. */
static tsr_status make_lists(const tsr_job *job, int32_t n, tsr_translation_hypothesis *all)
{
  size_t room = (size_t)n + 1;
  all->ids = malloc(room * sizeof *all->ids);
  all->spans = job->has_spans ? malloc(room * sizeof *all->spans) : NULL;
  all->aligned = job->has_alignment ? malloc(room * sizeof *all->aligned) : NULL;
  size_t n_parts = (size_t)job->source.n_parts;
  all->part_ends = malloc(n_parts * sizeof *all->part_ends);
  all->part_attention = job->has_attention ? calloc(n_parts, sizeof *all->part_attention) : NULL;
  int32_t is_missing = !all->ids || (job->has_spans && !all->spans) || (job->has_alignment && !all->aligned) ||
                       !all->part_ends || (job->has_attention && !all->part_attention);
  return is_missing ? tsr_fail_memory(room * sizeof *all->spans) : TSR_OK;
}

/* The tokens of all parts of the source, and their places. */
static tsr_status fill_source(const tsr_job *job, tsr_translation *translation)
{
  size_t n = 1, at = 0;
  int32_t n_parts = job->source.n_parts;
  for (int32_t i = 0; i < n_parts; i++) {
    n += (size_t)job->source.n_ids[i];
  }
  translation->source_ids = malloc(n * sizeof *translation->source_ids);
  translation->source_spans = malloc(n * sizeof *translation->source_spans);
  translation->part_ends = malloc(((size_t)n_parts + 1) * sizeof *translation->part_ends);
  if (!translation->source_ids || !translation->source_spans || !translation->part_ends) {
    return tsr_fail_memory(n * sizeof *translation->source_spans);
  }
  for (int32_t i = 0; i < n_parts; i++) {
    int32_t first = translation->n_source_ids, n_ids = job->source.n_ids[i];
    memcpy(translation->source_ids + first, job->source.ids[i], (size_t)n_ids * sizeof(int32_t));
    TSR_TRY(tsr_spans_find_source(&job->tokenizer, job->source.ids[i], n_ids, job->text, job->text_size, &at,
                                  translation->source_spans + first));
    translation->n_source_ids += n_ids;
    translation->part_ends[translation->n_source_parts++] = translation->n_source_ids;
  }
  return TSR_OK;
}

/* Hypothesis number `rank` of all parts. */
static tsr_status join(tsr_job *job, int32_t rank, tsr_translation_hypothesis *all)
{
  const tsr_generate_options *options = &job->class->options;
  int32_t n = job->source.n_parts, n_ids = 0, n_source = 0;
  double score = 0.0;
  for (int32_t i = 0; i < n; i++) {
    const tsr_hypothesis *h = &job->found[i * job->n_hypotheses + rank];
    all->is_cut |= is_cut(options, h);
    n_ids += h->n_ids;
    score += (double)h->score * h->n_ids;
  }
  TSR_TRY(make_lists(job, n_ids, all));
  for (int32_t i = 0; i < n; i++) {
    tsr_hypothesis *h = &job->found[i * job->n_hypotheses + rank];
    tsr_replaced replaced;
    TSR_TRY(tsr_replaced_find(job, i, h, &replaced));
    tsr_status status = append_text(job, h, replaced.pieces, &all->text, all->spans ? all->spans + all->n_ids : NULL);
    tsr_replaced_finish(&replaced);
    TSR_TRY(status);
    if (all->aligned) {
      tsr_alignment_of(&job->tokenizer, h, job->source.ids[i], n_source, all->aligned + all->n_ids);
    }
    if (h->n_ids > 0) {
      memcpy(all->ids + all->n_ids, h->ids, (size_t)h->n_ids * sizeof *h->ids);
    }
    all->n_ids += h->n_ids;
    n_source += job->source.n_ids[i];
    all->part_ends[all->n_parts++] = all->n_ids;
    if (job->has_attention) {
      all->part_attention[i] = h->attention;
      h->attention = NULL;
    }
  }
  const tsr_hypothesis *only = &job->found[rank];
  all->score = n == 1 ? only->score : (float)(score / fmax((double)n_ids, 1.0));
  if (n == 1 && job->has_attention) {
    all->attention = all->part_attention[0];
    all->n_source = all->attention ? only->n_source : 0;
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
  return job->has_spans ? fill_source(job, translation) : TSR_OK;
}

static void free_contents(tsr_translation *translation)
{
  for (int32_t i = 0; i < translation->n_hypotheses; i++) {
    tsr_translation_hypothesis *h = translation->hypotheses[i];
    for (int32_t part = 0; h->part_attention && part < h->n_parts; part++) {
      free(h->part_attention[part]); /* the only one is also `attention` */
    }
    free(h->part_attention);
    free(h->part_ends);
    free(h->text);
    free(h->ids);
    free(h->spans);
    free(h->aligned);
    free(h);
  }
  free(translation->hypotheses);
  free(translation->source_ids);
  free(translation->source_spans);
  free(translation->part_ends);
  translation->hypotheses = NULL;
  translation->source_ids = translation->part_ends = NULL;
  translation->source_spans = NULL;
  translation->n_hypotheses = translation->n_source_ids = translation->n_source_parts = 0;
}

void tsr_translation_free(tsr_translation *translation)
{
  if (translation) {
    free_contents(translation);
    if (translation->message != no_message && translation->message != lost_message) {
      free(translation->message);
    }
    free(translation);
  }
}

tsr_status tsr_refusal(tsr_status status, int32_t is_about_text, tsr_translation **answer)
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
  made->is_about_text = is_about_text;
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
                                   .has_more_source = job->source.has_more,
                                   .n_restarts = job->n_restarts,
                                   .waiting_seconds = (job->started > 0.0 ? job->started : now) - job->asked,
                                   .seconds = now - job->asked};
  if (job->status == TSR_OK) {
    job->status = job->told_status != TSR_OK ? tsr_fail(job->told_status, "out of host memory for the text as it comes")
                                             : fill(job, translation);
    job->message = job->status != TSR_OK ? strdup(tsr_error_message()) : NULL;
  }
  if (job->status != TSR_OK) {
    free_contents(translation);
  }
  translation->status = job->status;
  translation->is_about_text = job->is_about_text;
  translation->message = job->message ? job->message : job->status == TSR_OK ? no_message : lost_message;
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

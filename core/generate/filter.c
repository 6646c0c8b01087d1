/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/filter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/speech/timestamp_rules.h"

enum { BANNED = 1, IN_OUTPUT = 2, IN_SOURCE = 4 };

static int is_penalty(float penalty)
{
  return penalty != 0.0f && penalty != 1.0f;
}

int32_t tsr_filter_is_by_row(const tsr_generate_options *options)
{
  return options->no_repeat_ngram > 0 || options->encoder_no_repeat_ngram > 0 || options->n_words > 0 ||
         is_penalty(options->repetition_penalty) || is_penalty(options->encoder_repetition_penalty) ||
         options->timestamps;
}

int32_t tsr_filter_phase(const tsr_generate_options *options, int32_t begin, int32_t length)
{
  const int32_t is_forced = begin == 0 && options->forced_bos_id >= 0; /* behind a prefix, no token is */
  const int32_t is_first = options->n_begin_suppressed > 0 && length == 1 + begin + is_forced;
  return (length < options->min_length ? TSR_PHASE_SHORT : 0) | (is_first ? TSR_PHASE_FIRST : 0);
}

int32_t tsr_filter_phases(const tsr_generate_options *options)
{
  return options->n_begin_suppressed > 0 ? 2 * TSR_PHASE_FIRST : options->min_length > 1 ? 2 * TSR_PHASE_SHORT : 1;
}

int32_t tsr_filter_may_raise(const tsr_generate_options *options)
{
  return (is_penalty(options->repetition_penalty) && options->repetition_penalty < 1.0f) ||
         (is_penalty(options->encoder_repetition_penalty) && options->encoder_repetition_penalty > 1.0f);
}

int32_t tsr_filter_shared(const tsr_generate_options *options)
{
  return options->n_suppressed + options->n_begin_suppressed + (options->min_length > 1 ? options->n_eos : 0);
}

tsr_status tsr_filter_init(tsr_filter *filter, const tsr_generate_options *options, int32_t vocabulary)
{
  size_t n = (size_t)vocabulary;
  *filter = (tsr_filter){.options = options,
                         .vocabulary = vocabulary,
                         .marks = calloc(n, sizeof *filter->marks),
                         .marked = malloc(n * sizeof *filter->marked)};
  if (!filter->marks || !filter->marked) {
    tsr_filter_finish(filter);
    return tsr_fail_memory(n * sizeof *filter->marked);
  }
  return TSR_OK;
}

void tsr_filter_finish(tsr_filter *filter)
{
  free(filter->marks);
  free(filter->marked);
  *filter = (tsr_filter){0};
}

/* A source may have ids that the output's vocabulary does not have. */
static void mark(tsr_filter *filter, int32_t token, int32_t how)
{
  if (token >= filter->vocabulary) {
    return;
  }
  if (filter->marks[token] == 0) {
    filter->marked[filter->n_marked++] = token;
  }
  filter->marks[token] |= (uint8_t)how;
}

static void mark_all(tsr_filter *filter, const int32_t *tokens, int32_t n, int32_t how)
{
  for (int32_t i = 0; i < n; i++) {
    mark(filter, tokens[i], how);
  }
}

/* Bans each token that would complete n tokens which stand somewhere in `text`, the last n - 1 of ids being the others.
 * text may be ids itself. */
static void ban_repeats(tsr_filter *filter, const tsr_filter_row *row, const int32_t *text, int32_t text_length,
                        int32_t n)
{
  if (row->length < n - 1) {
    return;
  }
  const int32_t *end = row->ids + row->length - (n - 1);
  for (int32_t i = 0; i + n <= text_length; i++) {
    if (memcmp(text + i, end, (size_t)(n - 1) * sizeof *text) == 0) {
      mark(filter, text[i + n - 1], BANNED);
    }
  }
}

/* Bans the last token of each word whose others end ids. A word longer than ids is left alone, as in the original. */
static void ban_words(tsr_filter *filter, const tsr_filter_row *row)
{
  const tsr_generate_options *options = filter->options;
  for (int32_t i = 0; i < options->n_words; i += 1 + options->words[i]) {
    const int32_t *word = options->words + i + 1;
    int32_t before = options->words[i] - 1;
    if (before < row->length && memcmp(row->ids + row->length - before, word, (size_t)before * sizeof *word) == 0) {
      mark(filter, word[before], BANNED);
    }
  }
}

static void mark_phase(tsr_filter *filter, int32_t phase)
{
  const tsr_generate_options *options = filter->options;
  for (int32_t i = 0; i < filter->n_marked; i++) {
    filter->marks[filter->marked[i]] = 0;
  }
  filter->n_marked = 0;
  mark_all(filter, options->suppressed, options->n_suppressed, BANNED);
  if (phase & TSR_PHASE_FIRST) {
    mark_all(filter, options->begin_suppressed, options->n_begin_suppressed, BANNED);
  }
  if (phase & TSR_PHASE_SHORT) {
    mark_all(filter, options->eos, options->n_eos, BANNED);
  }
}

void tsr_filter_mark(tsr_filter *filter, const tsr_filter_row *row)
{
  const tsr_generate_options *options = filter->options;
  const int32_t given = 1 + row->n_given;
  filter->n_generated = row->length > given ? row->length - given : 0;
  filter->generated = filter->n_generated > 0 ? row->ids + given : NULL;
  mark_phase(filter, tsr_filter_phase(options, row->begin, row->length));
  ban_words(filter, row);
  if (options->no_repeat_ngram > 0) {
    ban_repeats(filter, row, row->ids, row->length, options->no_repeat_ngram);
  }
  if (options->encoder_no_repeat_ngram > 0) {
    ban_repeats(filter, row, row->source, row->source_length, options->encoder_no_repeat_ngram);
  }
  if (is_penalty(options->encoder_repetition_penalty)) {
    mark_all(filter, row->source, row->source_length, IN_SOURCE);
  }
  if (is_penalty(options->repetition_penalty)) {
    mark_all(filter, row->ids, row->length, IN_OUTPUT);
  }
}

static float penalise(float score, float penalty)
{
  return score < 0.0f ? score * penalty : score / penalty;
}

static float change(const tsr_generate_options *options, float score, int32_t marks)
{
  if (marks & BANNED) {
    return -INFINITY;
  }
  if (marks & IN_SOURCE) {
    score = penalise(score, 1.0f / options->encoder_repetition_penalty);
  }
  if (marks & IN_OUTPUT) {
    score = penalise(score, options->repetition_penalty);
  }
  return score;
}

void tsr_filter_apply(const tsr_filter *filter, float *scores, const int32_t *tokens, int32_t n)
{
  const tsr_generate_options *options = filter->options;
  for (int32_t i = 0; tokens && i < n; i++) {
    scores[i] = change(filter->options, scores[i], filter->marks[tokens[i]]);
  }
  for (int32_t i = 0; !tokens && i < filter->n_marked; i++) {
    int32_t token = filter->marked[i];
    scores[token] = change(filter->options, scores[token], filter->marks[token]);
  }
  if (!tokens && options->timestamps) {
    const tsr_timestamp_rules rules = {.eos = options->eos[0],
                                       .no_timestamps = options->no_timestamps_id,
                                       .timestamp_begin = options->timestamp_begin,
                                       .max_initial = options->max_initial_timestamp,
                                       .by_sum = options->timestamp_by_sum};
    tsr_timestamp_rules_apply(&rules, filter->generated, filter->n_generated, scores, filter->vocabulary);
  }
}

float tsr_filter_undo(const tsr_filter *filter, float score, int32_t token)
{
  const tsr_generate_options *options = filter->options;
  if (filter->marks[token] & IN_OUTPUT) {
    score = penalise(score, 1.0f / options->repetition_penalty);
  }
  if (filter->marks[token] & IN_SOURCE) {
    score = penalise(score, options->encoder_repetition_penalty);
  }
  return score;
}

void tsr_filter_mask(tsr_filter *filter, int32_t phase, float *mask)
{
  mark_phase(filter, phase);
  memset(mask, 0, (size_t)filter->vocabulary * sizeof *mask);
  for (int32_t i = 0; i < filter->n_marked; i++) {
    mask[filter->marked[i]] = -INFINITY;
  }
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/beam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

/* Among equals the lower hypothesis comes first, then the lower token. */
static int is_better(const tsr_candidate *a, const tsr_candidate *b)
{
  if (a->sum != b->sum) {
    return a->sum > b->sum;
  }
  return a->hypothesis != b->hypothesis ? a->hypothesis < b->hypothesis : a->token < b->token;
}

static int is_ctranslate2(const tsr_beam *beam)
{
  return beam->options->search == TSR_SEARCH_CTRANSLATE2;
}

int32_t tsr_beam_wanted(const tsr_generate_options *options)
{
  if (options->patience == 0.0f || options->search == TSR_SEARCH_MARIAN) {
    return options->beam;
  }
  double wanted = round((double)options->beam * (double)options->patience);
  return wanted < 1.0 ? 1 : wanted > INT32_MAX ? INT32_MAX : (int32_t)wanted;
}

static int32_t limit_length(const tsr_generate_options *options, int32_t source_length, int32_t n_prompt)
{
  if (options->search != TSR_SEARCH_MARIAN) {
    return options->max_length;
  }
  double factor = options->max_length_factor > 0.0f ? (double)options->max_length_factor : 3.0;
  double length = 1.0 + (double)n_prompt + fmax(1.0, ceil(factor * (double)source_length));
  return length < (double)options->max_length ? (int32_t)length : options->max_length;
}

tsr_status tsr_beam_init(tsr_beam *beam, const tsr_generate_options *options, int32_t source_length,
                         const tsr_prompt *prompt)
{
  const tsr_prompt given = prompt ? *prompt : (tsr_prompt){0};
  size_t n = (size_t)options->beam;
  int32_t max_length = limit_length(options, source_length, given.n);
  size_t ids = n * (size_t)max_length;
  *beam = (tsr_beam){
      .options = options,
      .beam = options->beam,
      .open = options->search == TSR_SEARCH_MARIAN ? 1 : options->beam,
      .max_length = max_length,
      .length = 1,
      .n_given = given.n_given,
      .wanted = tsr_beam_wanted(options),
      .worst = 1e9,
      .sums = malloc(n * sizeof(float)),
      .next_sums = malloc(n * sizeof(float)),
      .ids = malloc(ids * sizeof(int32_t)),
      .next_ids = malloc(ids * sizeof(int32_t)),
      .n_candidates = tsr_search_beam_candidates(options),
      .traced = options->attention || options->coverage_penalty > 0.0f || options->alignment,
  };
  tsr_trace_init(&beam->trace, options->beam,
                 options->alignment ? options->n_alignment_heads * source_length : source_length);
  /* Of CTranslate2, all that end in the last step are kept, and all that are open then. */
  size_t finished = (size_t)beam->wanted + (options->search == TSR_SEARCH_CTRANSLATE2 ? 2 * n : 1);
  beam->finished = calloc(finished, sizeof(tsr_finished));
  beam->candidates = malloc((size_t)beam->n_candidates * sizeof(tsr_candidate));
  if (!beam->sums || !beam->next_sums || !beam->ids || !beam->next_ids || !beam->finished || !beam->candidates) {
    tsr_beam_finish(beam);
    return tsr_fail_memory(2 * ids * sizeof(int32_t));
  }
  for (size_t i = 0; i < n; i++) {
    beam->sums[i] = i == 0 ? given.sum : -1e9f;
    beam->ids[i * (size_t)max_length] = given.start ? *given.start : options->decoder_start_id;
  }
  return TSR_OK;
}

void tsr_beam_finish(tsr_beam *beam)
{
  for (int32_t i = 0; i < beam->n_finished; i++) {
    free(beam->finished[i].ids);
    free(beam->finished[i].attention);
  }
  tsr_trace_finish(&beam->trace);
  free(beam->sums);
  free(beam->next_sums);
  free(beam->ids);
  free(beam->next_ids);
  free(beam->finished);
  free(beam->candidates);
  *beam = (tsr_beam){0};
}

/* Token `at` of a finished hypothesis, the start token counted, or -1. */
static int32_t finished_token(const tsr_beam *beam, const tsr_finished *finished, int32_t at)
{
  if (at < finished->n_ids) {
    return finished->ids[at];
  }
  return at == finished->n_ids && finished->ended ? beam->options->eos[0] : -1;
}

static int agree(const tsr_beam *beam, int32_t at)
{
  int32_t token = tsr_beam_ids(beam, 0)[at];
  for (int32_t i = 1; i < beam->open; i++) {
    if (tsr_beam_ids(beam, i)[at] != token) {
      return 0;
    }
  }
  for (int32_t i = 0; i < beam->n_finished; i++) {
    if (finished_token(beam, &beam->finished[i], at) != token) {
      return 0;
    }
  }
  return 1;
}

int32_t tsr_beam_certain(const tsr_beam *beam)
{
  if (beam->done) {
    return beam->n_finished > 0 ? beam->finished[0].n_ids - 1 + beam->finished[0].ended : 0;
  }
  int32_t n = beam->told;
  while (n + 2 < beam->length && agree(beam, n + 1)) {
    n++;
  }
  return n;
}

int32_t tsr_beam_certain_token(const tsr_beam *beam, int32_t i)
{
  return beam->done ? finished_token(beam, &beam->finished[0], i + 1) : tsr_beam_ids(beam, 0)[i + 1];
}

int32_t tsr_beam_token(const tsr_beam *beam, int32_t n)
{
  return tsr_beam_ids(beam, n)[beam->length - 1];
}

const int32_t *tsr_beam_ids(const tsr_beam *beam, int32_t n)
{
  return beam->ids + (size_t)n * (size_t)beam->max_length;
}

/* The score of a hypothesis of so many tokens after the start, </s> included. One that was stopped within its prompt
 * counts as one of one token. */
static double score_of(const tsr_beam *beam, double sum, int32_t generated)
{
  int32_t counted = is_ctranslate2(beam) ? generated : generated - beam->n_given;
  return tsr_search_score(beam->options, sum, counted > 1 ? counted : 1);
}

/* Keeps a hypothesis if it is among the best so far. `generated` as above. */
static tsr_status add_finished(tsr_beam *beam, int32_t hypothesis, double sum, int32_t generated, int32_t ended)
{
  double score = score_of(beam, sum, generated);
  float *attention = NULL;
  if (beam->traced) {
    TSR_TRY(tsr_trace_read(&beam->trace, hypothesis, ended, &attention));
    score += tsr_trace_penalty(&beam->trace, attention, beam->options->coverage_penalty);
  }
  if (beam->n_finished == beam->wanted && !is_ctranslate2(beam) && !(score > beam->worst)) {
    free(attention);
    return TSR_OK;
  }
  size_t size = (size_t)beam->length * sizeof(int32_t);
  int32_t *ids = malloc(size);
  if (!ids) {
    free(attention);
    return tsr_fail_memory(size);
  }
  memcpy(ids, tsr_beam_ids(beam, hypothesis), size);
  beam->finished[beam->n_finished++] = (tsr_finished){.ids = ids,
                                                      .n_ids = beam->length,
                                                      .ended = ended,
                                                      .score = score,
                                                      .attention = attention,
                                                      .n_read = beam->trace.steps};
  if (beam->n_finished <= beam->wanted || is_ctranslate2(beam)) {
    beam->worst = score < beam->worst ? score : beam->worst;
    return TSR_OK;
  }
  int32_t drop = 0;
  for (int32_t i = 1; i < beam->n_finished; i++) {
    if (beam->finished[i].score < beam->finished[drop].score) {
      drop = i;
    }
  }
  free(beam->finished[drop].ids);
  free(beam->finished[drop].attention);
  beam->n_finished--;
  memmove(&beam->finished[drop], &beam->finished[drop + 1], (size_t)(beam->n_finished - drop) * sizeof *beam->finished);
  beam->worst = beam->finished[0].score;
  for (int32_t i = 1; i < beam->n_finished; i++) {
    beam->worst = beam->finished[i].score < beam->worst ? beam->finished[i].score : beam->worst;
  }
  return TSR_OK;
}

/* best: the best sum among the candidates of the step, those that ended included. */
static int is_done(const tsr_beam *beam, double best)
{
  const tsr_generate_options *options = beam->options;
  if (beam->n_finished < beam->wanted) {
    return 0;
  }
  if (options->early_stopping == TSR_EARLY_TRUE) {
    return 1;
  }
  int32_t generated = beam->length; /* of the candidates: one token more, less the start */
  if (options->early_stopping == TSR_EARLY_NEVER && options->length_penalty > 0.0f) {
    generated = beam->max_length - 1;
  }
  return beam->worst >= score_of(beam, best, generated);
}

/* The best n of all candidates, best first. They are few, and each hypothesis' come nearly in order: inserting them one
 * by one is faster than sorting all. */
static int32_t take_candidates(const tsr_beam *beam, int32_t k, const float *values, const int32_t *indices,
                               tsr_candidate *best, int32_t n)
{
  int32_t kept = 0;
  for (int32_t i = 0; i < beam->open * k; i++) {
    int32_t hypothesis = i / k;
    const tsr_candidate c = {.sum = values[i] + beam->sums[hypothesis], .hypothesis = hypothesis, .token = indices[i]};
    if (kept == n && !is_better(&c, &best[n - 1])) {
      continue;
    }
    int32_t at = kept < n ? kept++ : n - 1;
    while (at > 0 && is_better(&c, &best[at - 1])) {
      best[at] = best[at - 1];
      at--;
    }
    best[at] = c;
  }
  return kept;
}

/* Hypothesis number `next` of the next step goes on with a candidate. */
static void go_on(tsr_beam *beam, int32_t next, const tsr_candidate *c, int32_t *parents)
{
  int32_t *ids = beam->next_ids + (size_t)next * (size_t)beam->max_length;
  memcpy(ids, tsr_beam_ids(beam, c->hypothesis), (size_t)beam->length * sizeof *ids);
  ids[beam->length] = c->token;
  beam->next_sums[next] = c->sum;
  parents[next] = c->hypothesis;
}

static void swap(tsr_beam *beam)
{
  int32_t *ids = beam->ids;
  float *sums = beam->sums;
  beam->ids = beam->next_ids;
  beam->sums = beam->next_sums;
  beam->next_ids = ids;
  beam->next_sums = sums;
  beam->length++;
}

/* N hypotheses go on; an end counts if it is among the best N candidates. */
static tsr_status advance_transformers(tsr_beam *beam, int32_t n_candidates, int32_t *parents)
{
  const tsr_candidate *candidates = beam->candidates;
  int32_t next = 0;
  for (int32_t rank = 0; rank < n_candidates && next < beam->beam; rank++) {
    if (!tsr_search_is_end(beam->options, candidates[rank].token)) {
      go_on(beam, next++, &candidates[rank], parents);
    } else if (rank < beam->beam) {
      TSR_TRY(add_finished(beam, candidates[rank].hypothesis, (double)candidates[rank].sum, beam->length, 1));
    }
  }
  if (next < beam->beam) {
    return tsr_fail(TSR_ERR_INTERNAL, "beam search has %d candidates for a beam of %d", (int)next, (int)beam->beam);
  }
  beam->done = is_done(beam, (double)candidates[0].sum);
  return TSR_OK;
}

/* As many candidates count as the beam is wide; those that end make it narrower. One that is banned is none. */
static tsr_status advance_marian(tsr_beam *beam, int32_t n_candidates, int32_t *parents)
{
  const tsr_candidate *candidates = beam->candidates;
  int32_t width = beam->beam - beam->n_finished;
  int32_t next = 0;
  for (int32_t rank = 0; rank < n_candidates && rank < width; rank++) {
    if (candidates[rank].sum == -INFINITY) {
      break;
    }
    if (!tsr_search_is_end(beam->options, candidates[rank].token)) {
      go_on(beam, next++, &candidates[rank], parents);
    } else {
      TSR_TRY(add_finished(beam, candidates[rank].hypothesis, (double)candidates[rank].sum, beam->length, 1));
    }
  }
  beam->open = next;
  beam->done = next == 0;
  for (; next > 0 && next < beam->beam; next++) {
    const tsr_candidate first = {.sum = -INFINITY, .hypothesis = parents[0], .token = beam->next_ids[beam->length]};
    go_on(beam, next, &first, parents);
  }
  return TSR_OK;
}

/* 1 if a candidate ends its hypothesis; directly behind a prefix only the best one may. */
static int ends(const tsr_beam *beam, int32_t rank)
{
  const int is_first = beam->n_given > 0 && beam->length - 1 == beam->n_given;
  return tsr_search_is_end(beam->options, beam->candidates[rank].token) && (rank == 0 || !is_first);
}

/* Of CTranslate2: when a sentence's search is over. */
static int has_enough(const tsr_beam *beam)
{
  const tsr_generate_options *options = beam->options;
  return options->length_penalty == 0.0f && options->coverage_penalty == 0.0f
             ? beam->n_finished >= options->n_best && beam->best_ended
             : beam->n_finished >= beam->wanted;
}

/* The best N candidates count. One that ends gives its place to the best one behind them that does not; in the last
 * step all others are open to the end. */
static tsr_status advance_ctranslate2(tsr_beam *beam, int32_t n_candidates, int32_t *parents)
{
  const tsr_candidate *candidates = beam->candidates;
  const int is_last = beam->length + 1 == beam->max_length;
  int32_t next = 0, spare = beam->beam;
  for (int32_t rank = 0; rank < beam->beam && rank < n_candidates && candidates[rank].sum != -INFINITY; rank++) {
    int32_t taken = rank;
    if (ends(beam, rank)) {
      TSR_TRY(add_finished(beam, candidates[rank].hypothesis, (double)candidates[rank].sum, beam->length, 1));
      beam->best_ended |= rank == 0;
      taken = -1;
    } else if (tsr_search_is_end(beam->options, candidates[rank].token)) {
      taken = -1; /* refused */
    }
    while (taken < 0 && !is_last && spare < n_candidates && candidates[spare].sum != -INFINITY) {
      taken = tsr_search_is_end(beam->options, candidates[spare].token) ? -1 : spare;
      spare++;
    }
    if (taken >= 0) {
      go_on(beam, next++, &candidates[taken], parents);
    }
  }
  beam->open = next;
  beam->done = next == 0 || (!is_last && has_enough(beam));
  for (; next > 0 && next < beam->beam; next++) {
    const tsr_candidate first = {.sum = -INFINITY, .hypothesis = parents[0], .token = beam->next_ids[beam->length]};
    go_on(beam, next, &first, parents);
  }
  return TSR_OK;
}

/* What is still open ends as it is. */
static tsr_status end_open(tsr_beam *beam)
{
  for (int32_t i = 0; i < beam->open && !beam->done; i++) {
    TSR_TRY(add_finished(beam, i, (double)beam->sums[i], beam->length - 1, 0));
  }
  beam->done = 1;
  return TSR_OK;
}

void tsr_beam_extend(tsr_beam *beam, int32_t token)
{
  for (int32_t i = 0; i < beam->beam; i++) {
    beam->ids[(size_t)i * (size_t)beam->max_length + (size_t)beam->length] = token;
  }
  beam->length++;
}

tsr_status tsr_beam_advance(tsr_beam *beam, int32_t k, const float *values, const int32_t *indices, int32_t *parents)
{
  for (int32_t i = 0; i < beam->beam; i++) {
    parents[i] = i;
  }
  if (beam->done) {
    return TSR_OK;
  }
  int32_t n = take_candidates(beam, k, values, indices, beam->candidates, beam->n_candidates);
  int is_transformers = beam->options->search == TSR_SEARCH_TRANSFORMERS;
  TSR_TRY(is_transformers        ? advance_transformers(beam, n, parents)
          : is_ctranslate2(beam) ? advance_ctranslate2(beam, n, parents)
                                 : advance_marian(beam, n, parents));
  if (beam->traced) {
    tsr_trace_follow(&beam->trace, parents);
  }
  if (is_transformers) {
    swap(beam);
    return TSR_OK;
  }
  if (!beam->done) {
    swap(beam);
  }
  return beam->length < beam->max_length ? TSR_OK : end_open(beam);
}

tsr_status tsr_beam_close(tsr_beam *beam)
{
  TSR_TRY(end_open(beam));
  if (beam->sorted) {
    return TSR_OK; /* once more would turn equals round */
  }
  beam->sorted = 1;
  /* Best first; among equals the one that ended last. */
  for (int32_t i = 1; i < beam->n_finished; i++) {
    tsr_finished moved = beam->finished[i];
    int32_t at = i;
    while (at > 0 && beam->finished[at - 1].score <= moved.score) {
      beam->finished[at] = beam->finished[at - 1];
      at--;
    }
    beam->finished[at] = moved;
  }
  return TSR_OK;
}

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

tsr_status tsr_beam_init(tsr_beam *beam, const tsr_generate_options *options, int32_t start, int32_t eos)
{
  size_t n = (size_t)options->beam;
  size_t ids = n * (size_t)options->max_length;
  *beam = (tsr_beam){
      .beam = options->beam,
      .max_length = options->max_length,
      .early_stopping = options->early_stopping,
      .length_penalty = (double)options->length_penalty,
      .eos_id = eos,
      .length = 1,
      .worst = 1e9,
      .sums = malloc(n * sizeof(float)),
      .next_sums = malloc(n * sizeof(float)),
      .ids = malloc(ids * sizeof(int32_t)),
      .next_ids = malloc(ids * sizeof(int32_t)),
      .finished = calloc(n + 1, sizeof(tsr_finished)),
      .candidates = malloc(2 * n * sizeof(tsr_candidate)),
  };
  if (!beam->sums || !beam->next_sums || !beam->ids || !beam->next_ids || !beam->finished || !beam->candidates) {
    tsr_beam_finish(beam);
    return tsr_fail_memory(2 * ids * sizeof(int32_t));
  }
  for (size_t i = 0; i < n; i++) {
    beam->sums[i] = i == 0 ? 0.0f : -1e9f;
    beam->ids[i * (size_t)options->max_length] = start;
  }
  return TSR_OK;
}

void tsr_beam_finish(tsr_beam *beam)
{
  for (int32_t i = 0; i < beam->n_finished; i++) {
    free(beam->finished[i].ids);
  }
  free(beam->sums);
  free(beam->next_sums);
  free(beam->ids);
  free(beam->next_ids);
  free(beam->finished);
  free(beam->candidates);
  *beam = (tsr_beam){0};
}

int32_t tsr_beam_token(const tsr_beam *beam, int32_t n)
{
  return tsr_beam_ids(beam, n)[beam->length - 1];
}

const int32_t *tsr_beam_ids(const tsr_beam *beam, int32_t n)
{
  return beam->ids + (size_t)n * (size_t)beam->max_length;
}

static double normalise(const tsr_beam *beam, double sum, int32_t generated)
{
  return sum / pow((double)generated, beam->length_penalty);
}

/* Keeps a hypothesis if it is among the best N so far. `generated` counts tokens after the start, </s> included. */
static tsr_status add_finished(tsr_beam *beam, int32_t hypothesis, double sum, int32_t generated, int32_t ended)
{
  double score = normalise(beam, sum, generated);
  if (beam->n_finished == beam->beam && !(score > beam->worst)) {
    return TSR_OK;
  }
  size_t size = (size_t)beam->length * sizeof(int32_t);
  int32_t *ids = malloc(size);
  if (!ids) {
    return tsr_fail_memory(size);
  }
  memcpy(ids, tsr_beam_ids(beam, hypothesis), size);
  beam->finished[beam->n_finished++] =
      (tsr_finished){.ids = ids, .n_ids = beam->length, .ended = ended, .score = score};
  if (beam->n_finished <= beam->beam) {
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
  if (beam->n_finished < beam->beam) {
    return 0;
  }
  if (beam->early_stopping == TSR_EARLY_TRUE) {
    return 1;
  }
  int32_t generated = beam->length; /* of the candidates: one token more, less the start */
  if (beam->early_stopping == TSR_EARLY_NEVER && beam->length_penalty > 0.0) {
    generated = beam->max_length - 1;
  }
  return beam->worst >= normalise(beam, best, generated);
}

/* The best n of all candidates, best first. They are few, and each hypothesis' come nearly in order: inserting them one
 * by one is faster than sorting all. */
static void take_candidates(const tsr_beam *beam, int32_t k, const float *values, const int32_t *indices,
                            tsr_candidate *best, int32_t n)
{
  int32_t kept = 0;
  for (int32_t i = 0; i < beam->beam * k; i++) {
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
}

tsr_status tsr_beam_advance(tsr_beam *beam, int32_t k, const float *values, const int32_t *indices, int32_t *parents)
{
  int32_t n_beam = beam->beam;
  for (int32_t i = 0; i < n_beam; i++) {
    parents[i] = i;
  }
  if (beam->done) {
    return TSR_OK;
  }
  tsr_candidate *candidates = beam->candidates;
  int32_t considered = 2 * n_beam < n_beam * k ? 2 * n_beam : n_beam * k;
  take_candidates(beam, k, values, indices, candidates, considered);
  int32_t next = 0;
  for (int32_t rank = 0; rank < considered && next < n_beam; rank++) {
    const tsr_candidate *c = &candidates[rank];
    if (c->token == beam->eos_id) {
      if (rank < n_beam) {
        TSR_TRY(add_finished(beam, c->hypothesis, (double)c->sum, beam->length, 1));
      }
      continue;
    }
    int32_t *ids = beam->next_ids + (size_t)next * (size_t)beam->max_length;
    memcpy(ids, tsr_beam_ids(beam, c->hypothesis), (size_t)beam->length * sizeof *ids);
    ids[beam->length] = c->token;
    beam->next_sums[next] = c->sum;
    parents[next++] = c->hypothesis;
  }
  if (next < n_beam) {
    return tsr_fail(TSR_ERR_INTERNAL, "beam search has %d candidates for a beam of %d", (int)next, (int)n_beam);
  }
  beam->done = is_done(beam, (double)candidates[0].sum);
  int32_t *ids = beam->ids;
  float *sums = beam->sums;
  beam->ids = beam->next_ids;
  beam->sums = beam->next_sums;
  beam->next_ids = ids;
  beam->next_sums = sums;
  beam->length++;
  return TSR_OK;
}

tsr_status tsr_beam_close(tsr_beam *beam)
{
  for (int32_t i = 0; i < beam->beam && !beam->done; i++) {
    TSR_TRY(add_finished(beam, i, (double)beam->sums[i], beam->length - 1, 0));
  }
  beam->done = 1;
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

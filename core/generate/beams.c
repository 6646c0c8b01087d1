/* SPDX-License-Identifier: Apache-2.0
 *
 * Beam search over a batch. The cache never moves: `rows` tells for each hypothesis which row of the cache holds each
 * of its past positions.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/generate/beam.h"
#include "core/generate/search.h"

typedef struct beams {
  tsr_search *search;
  tsr_beam *beams; /* [n] of the sentences that there is room for; zeroed where none is */
  int32_t n;
  int32_t room;     /* positions of a row of history */
  int32_t *history; /* [n * N][room] cache rows of past positions */
  int32_t *moved;   /* [N][room] */
  int32_t *rows;    /* [B * N][C] what the program reads */
  int64_t n_rows;   /* elements that it has room for */
  int32_t *token;   /* [n * N] */
  int32_t *parents; /* [N] */
  float *forced;    /* [N][forced_k] in place of a step's candidates where a token is forced; likewise the next */
  int32_t *forced_tokens;
  int32_t forced_k;
  tsr_hypothesis *found; /* [n_best] of a sentence that ends */
} beams;

static const int32_t *row_ids(const void *own, int32_t row)
{
  const beams *s = own;
  int32_t b = row / s->search->beam;
  return b < s->search->count && s->search->sentences[b].is_open ? tsr_beam_ids(&s->beams[b], row % s->search->beam)
                                                                 : NULL;
}

static int32_t *history_of(const beams *s, int32_t row)
{
  return s->history + (size_t)row * (size_t)s->room;
}

static tsr_status reserve_rows(beams *s)
{
  const tsr_search *search = s->search;
  int64_t n = (int64_t)search->batch * search->beam * search->capacity;
  if (n <= s->n_rows) {
    return TSR_OK;
  }
  free(s->rows);
  s->n_rows = n;
  s->rows = calloc((size_t)n, sizeof *s->rows);
  return s->rows ? TSR_OK : tsr_fail_memory((size_t)n * sizeof *s->rows);
}

/* Writes what the step reads: last tokens, positions, and the rows of the cache. */
static tsr_status write_step(beams *s)
{
  tsr_search *search = s->search;
  const tsr_compiled *step = search->step;
  int32_t n = search->batch * search->beam;
  size_t capacity = (size_t)search->capacity;
  TSR_TRY(reserve_rows(s));
  for (int32_t r = 0; r < n; r++) {
    int32_t b = r / search->beam;
    s->token[r] = 0;
    if (b < search->count && search->sentences[b].is_open) {
      int32_t position = tsr_search_position(search, b), *history = history_of(s, r);
      history[position] = r;
      memcpy(s->rows + (size_t)r * capacity, history, (size_t)(position + 1) * sizeof *history);
      s->token[r] = tsr_beam_token(&s->beams[b], r % search->beam);
    }
  }
  TSR_TRY(tsr_search_write(search, s->token, 0));
  return tsr_executable_write(step->executable, step->refs.rows, s->rows,
                              n * (int64_t)sizeof(int32_t) * search->capacity);
}

/* Every hypothesis has one candidate, at no cost; the others, which end nothing, can never be chosen before it. */
static void force(beams *s, int32_t forced)
{
  int32_t other = 0;
  while (other == forced || tsr_search_is_end(s->search->options, other)) {
    other++;
  }
  for (int32_t i = 0; i < s->search->beam * s->forced_k; i++) {
    s->forced[i] = i % s->forced_k == 0 ? 0.0f : -INFINITY;
    s->forced_tokens[i] = i % s->forced_k == 0 ? forced : other;
  }
}

/* Whether a step is needed: nothing is computed from a last token that is forced, nor where the cache is filled. */
static int is_needed(const tsr_search *search)
{
  for (int32_t i = 0; i < search->count; i++) {
    const tsr_sentence *sentence = &search->sentences[i];
    if (sentence->is_open && sentence->length > sentence->prefilled &&
        (search->attention || !tsr_search_is_last(search, sentence) ||
         tsr_search_forced(search, sentence, sentence->length) < 0)) {
      return 1;
    }
  }
  return 0;
}

/* The hypotheses of a sentence read what their prompt left in its first row. */
static void follow_prefilled(beams *s, int32_t b)
{
  const tsr_search *search = s->search;
  for (int32_t i = 0; i < search->beam; i++) {
    for (int32_t position = 0; position < search->sentences[b].prefilled; position++) {
      history_of(s, b * search->beam + i)[position] = b * search->beam;
    }
  }
}

static tsr_status advance(void *own)
{
  beams *s = own;
  tsr_search *search = s->search;
  if (!is_needed(search)) {
    return TSR_OK;
  }
  int32_t renewed = 0; /* everything is written before each step */
  TSR_TRY(tsr_search_prepare(search, &renewed));
  TSR_TRY(write_step(s));
  return tsr_search_run_step(search);
}

/* The new hypotheses of a sentence inherit their parents' histories. */
static void move_histories(beams *s, int32_t b)
{
  int32_t n = s->search->beam;
  size_t used = (size_t)s->beams[b].length - 1;
  size_t room = (size_t)s->room;
  int32_t *own = history_of(s, b * n);
  for (int32_t i = 0; i < n; i++) {
    memcpy(s->moved + (size_t)i * room, own + (size_t)i * room, used * sizeof *own);
  }
  for (int32_t i = 0; i < n; i++) {
    memcpy(own + (size_t)i * room, s->moved + (size_t)s->parents[i] * room, used * sizeof *own);
  }
}

/* Hands out what is certain by now; after an answer that is not 0 the sentence is closed. */
static tsr_status tell(const tsr_search *search, tsr_beam *beam, int32_t b)
{
  int32_t n = search->options->token ? tsr_beam_certain(beam) : 0;
  while (beam->told < n) {
    int32_t step = beam->told++;
    int32_t is_last = beam->done && beam->told == n;
    if (tsr_search_tell(search, b, 0, step, tsr_beam_certain_token(beam, step), is_last) != 0) {
      beam->told = INT32_MAX;
    }
  }
  return beam->told == INT32_MAX ? tsr_beam_close(beam) : TSR_OK;
}

/* A sentence takes its candidates. */
static tsr_status take_candidates(beams *s, int32_t b)
{
  const tsr_search *search = s->search;
  const tsr_sentence *sentence = &search->sentences[b];
  tsr_beam *beam = &s->beams[b];
  size_t block = (size_t)search->beam * (size_t)search->k;
  int32_t forced = tsr_search_forced(search, sentence, sentence->length);
  if (beam->traced) {
    const int32_t width = tsr_search_attention_width(search);
    size_t rows = (size_t)search->beam * (size_t)width;
    TSR_TRY(tsr_trace_add(&beam->trace, search->attention + (size_t)b * rows, width, tsr_search_head_share(search)));
  }
  if (sentence->length <= sentence->prompt.n) {
    tsr_beam_extend(beam, forced);
    return TSR_OK;
  }
  if (forced >= 0) {
    force(s, forced);
    TSR_TRY(tsr_beam_advance(beam, s->forced_k, s->forced, s->forced_tokens, s->parents));
  } else {
    TSR_TRY(tsr_beam_advance(beam, search->k, search->values + (size_t)b * block, search->indices + (size_t)b * block,
                             s->parents));
  }
  move_histories(s, b);
  return search->first_only ? tsr_beam_close(beam) : TSR_OK;
}

static tsr_status end(beams *s, int32_t b)
{
  int32_t n_best = s->search->options->n_best;
  tsr_beam *beam = &s->beams[b];
  TSR_TRY(tsr_beam_close(beam));
  TSR_TRY(tell(s->search, beam, b));
  for (int32_t j = 0; j < n_best && j < beam->n_finished; j++) {
    tsr_finished *finished = &beam->finished[j];
    int32_t n = finished->n_ids - 1;
    int32_t *ids = malloc((size_t)(n + 1) * sizeof *ids);
    if (!ids) {
      return tsr_fail_memory((size_t)(n + 1) * sizeof *ids);
    }
    memcpy(ids, finished->ids + 1, (size_t)n * sizeof *ids);
    if (finished->ended) {
      ids[n++] = beam->options->eos[0];
    }
    s->found[j] = (tsr_hypothesis){.ids = ids, .n_ids = n, .score = (float)finished->score};
    if (beam->traced) {
      TSR_TRY(tsr_search_hand_details(s->search, b, j, &finished->attention, finished->n_read));
      tsr_search_hand_over(s->search, b, finished->attention, &s->found[j]);
      finished->attention = NULL;
    }
  }
  /* Where everything else was banned there are fewer. */
  for (int32_t j = beam->n_finished; j < n_best; j++) {
    s->found[j].score = -INFINITY;
  }
  tsr_search_end(s->search, b, s->found);
  memset(s->found, 0, (size_t)n_best * sizeof *s->found);
  tsr_beam_finish(beam);
  return TSR_OK;
}

static tsr_status append(void *own)
{
  beams *s = own;
  tsr_search *search = s->search;
  for (int32_t i = 0; i < search->count; i++) {
    tsr_sentence *sentence = &search->sentences[i];
    tsr_beam *beam = &s->beams[i];
    if (!sentence->is_open) {
      continue;
    }
    TSR_TRY(take_candidates(s, i));
    sentence->length++;
    /* Which of several that ended is the best is known when they are sorted. */
    if (beam->done) {
      TSR_TRY(tsr_beam_close(beam));
    }
    TSR_TRY(tell(search, beam, i));
    if (beam->done || sentence->length == search->options->max_length) {
      TSR_TRY(end(s, i));
    }
  }
  return TSR_OK;
}

/* A sentence's hypotheses take along what they know of the cache. */
static void move(void *own, int32_t from, int32_t to)
{
  beams *s = own;
  int32_t n = s->search->beam;
  int32_t used = s->beams[from].length - 1;
  s->beams[to] = s->beams[from];
  s->beams[from] = (tsr_beam){0};
  for (int32_t i = 0; i < n; i++) {
    const int32_t *old = history_of(s, from * n + i);
    int32_t *new = history_of(s, to * n + i);
    for (int32_t p = 0; p < used; p++) {
      new[p] = old[p] + (to - from) * n;
    }
  }
}

static void drop(void *own, int32_t b)
{
  tsr_beam_finish(&((beams *)own)->beams[b]);
}

static tsr_status start(void *own, int32_t b)
{
  beams *s = own;
  const tsr_sentence *sentence = &s->search->sentences[b];
  follow_prefilled(s, b);
  return tsr_beam_init(&s->beams[b], s->search->options, sentence->n_source, &sentence->prompt);
}

static tsr_status create(tsr_search *search)
{
  beams *s = calloc(1, sizeof *s);
  search->own = s;
  if (!s) {
    return tsr_fail_memory(sizeof *s);
  }
  size_t r = (size_t)search->most * (size_t)search->beam;
  s->search = search;
  s->n = search->most;
  s->room = search->options->max_length;
  s->forced_k = tsr_search_beam_candidates(search->options);
  size_t forced = (size_t)search->beam * (size_t)s->forced_k;
  s->beams = calloc((size_t)s->n, sizeof *s->beams);
  s->history = calloc(r * (size_t)s->room, sizeof *s->history);
  s->moved = malloc((size_t)search->beam * (size_t)s->room * sizeof *s->moved);
  s->token = calloc(r, sizeof *s->token);
  s->parents = malloc((size_t)search->beam * sizeof *s->parents);
  s->forced = malloc(forced * sizeof *s->forced);
  s->forced_tokens = malloc(forced * sizeof *s->forced_tokens);
  s->found = calloc((size_t)search->options->n_best, sizeof *s->found);
  return s->beams && s->history && s->moved && s->token && s->parents && s->forced && s->forced_tokens && s->found
             ? TSR_OK
             : tsr_fail_memory(r * (size_t)s->room * sizeof *s->history);
}

static void finish(void *own)
{
  beams *s = own;
  if (!s) {
    return;
  }
  for (int32_t i = 0; s->beams && i < s->n; i++) {
    tsr_beam_finish(&s->beams[i]);
  }
  for (int32_t i = 0; s->found && i < s->search->options->n_best; i++) {
    free(s->found[i].ids);
    free(s->found[i].attention);
  }
  free(s->beams);
  free(s->found);
  free(s->history);
  free(s->moved);
  free(s->rows);
  free(s->token);
  free(s->parents);
  free(s->forced);
  free(s->forced_tokens);
  free(s);
}

const tsr_search_kind tsr_search_beams = {.create = create,
                                          .finish = finish,
                                          .start = start,
                                          .advance = advance,
                                          .append = append,
                                          .move = move,
                                          .drop = drop,
                                          .ids = row_ids};

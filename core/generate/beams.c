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
  tsr_beam *sentences; /* [n_sentences] */
  int32_t n_sentences; /* when the batch began */
  int32_t hypotheses;  /* R = B * N */
  int32_t room;        /* positions of a row of history */
  int32_t *history;    /* [R][room] cache rows of past positions */
  int32_t *moved;      /* [N][room] */
  int32_t *rows;       /* [R][C] what the program reads */
  int32_t capacity;    /* C that rows was allocated for */
  int32_t *token;      /* [R] */
  int32_t *parents;    /* [N] */
  float *forced;       /* [N][forced_k] in place of a step's candidates where a token is forced; likewise the next */
  int32_t *forced_tokens;
  int32_t forced_k;
  int32_t *open; /* [n_sentences] 1: not done */
  int32_t *from; /* [n_sentences] of tsr_search_shrink */
} beams;

static const int32_t *row_ids(const void *user, int32_t row)
{
  const beams *s = user;
  int32_t sentence = row / s->search->beam;
  if (sentence >= s->search->count || s->sentences[sentence].done) {
    return NULL;
  }
  return tsr_beam_ids(&s->sentences[sentence], row % s->search->beam);
}

/* Writes what the step reads: last tokens, the position, and the rows of the cache. */
static tsr_status write_step(beams *s, int32_t position)
{
  const tsr_search *search = s->search;
  const tsr_compiled *step = search->step;
  size_t capacity = (size_t)search->capacity;
  if (search->capacity != s->capacity) {
    free(s->rows);
    s->rows = calloc((size_t)s->hypotheses * capacity, sizeof *s->rows);
    if (!s->rows) {
      return tsr_fail_memory((size_t)s->hypotheses * capacity * sizeof *s->rows);
    }
    s->capacity = search->capacity;
  }
  for (int32_t r = 0; r < s->hypotheses; r++) {
    int32_t *history = s->history + (size_t)r * (size_t)s->room;
    int32_t sentence = r / search->beam;
    history[position] = r;
    memcpy(s->rows + (size_t)r * capacity, history, (size_t)(position + 1) * sizeof *history);
    s->token[r] = sentence < search->count ? tsr_beam_token(&s->sentences[sentence], r % search->beam) : s->token[0];
  }
  int64_t size = s->hypotheses * (int64_t)sizeof(int32_t);
  TSR_TRY(tsr_executable_write(step->executable, step->refs.token, s->token, size));
  TSR_TRY(tsr_executable_write(step->executable, step->refs.position, &position, (int64_t)sizeof position));
  return tsr_executable_write(step->executable, step->refs.rows, s->rows, size * search->capacity);
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

/* Whether the device has to tell how a sentence goes on. */
static int is_free(const beams *s, int32_t length)
{
  for (int32_t i = 0; i < s->search->count; i++) {
    if (!s->sentences[i].done && tsr_search_forced(s->search, i, length) < 0) {
      return 1;
    }
  }
  return 0;
}

/* The hypotheses of a sentence read what their prompt left in its first row. */
static tsr_status prefill(beams *s)
{
  tsr_search *search = s->search;
  TSR_TRY(tsr_search_prefill(search));
  for (int32_t r = 0; r < s->hypotheses; r++) {
    for (int32_t position = 0; position < search->prefilled; position++) {
      s->history[(size_t)r * (size_t)s->room + (size_t)position] = r / search->beam * search->beam;
    }
  }
  return TSR_OK;
}

static tsr_status advance(beams *s, int32_t length)
{
  tsr_search *search = s->search;
  int32_t last = length + 1 == search->options->max_length;
  if (length > search->prefilled && (!last || is_free(s, length) || search->attention)) {
    int32_t renewed = 0;
    TSR_TRY(tsr_search_prepare(search, length - 1, row_ids, s, &renewed));
    TSR_TRY(write_step(s, length - 1));
    TSR_TRY(tsr_search_run(search, length - 1, row_ids, s));
  }
  return TSR_OK;
}

/* The new hypotheses of a sentence inherit their parents' histories. */
static void move_histories(beams *s, int32_t sentence)
{
  int32_t n = s->search->beam;
  size_t used = (size_t)s->sentences[sentence].length - 1;
  size_t room = (size_t)s->room;
  int32_t *own = s->history + (size_t)sentence * (size_t)n * room;
  for (int32_t i = 0; i < n; i++) {
    memcpy(s->moved + (size_t)i * room, own + (size_t)i * room, used * sizeof *own);
  }
  for (int32_t i = 0; i < n; i++) {
    memcpy(own + (size_t)i * room, s->moved + (size_t)s->parents[i] * room, used * sizeof *own);
  }
}

/* Hands out what is certain by now; after an answer that is not 0 the sentence is closed. */
static tsr_status tell(const tsr_search *search, tsr_beam *beam, int32_t sentence)
{
  int32_t n = search->options->token ? tsr_beam_certain(beam) : 0;
  while (beam->told < n) {
    int32_t step = beam->told++;
    int32_t is_last = beam->done && beam->told == n;
    if (tsr_search_tell(search, sentence, 0, step, tsr_beam_certain_token(beam, step), is_last) != 0) {
      beam->told = INT32_MAX;
    }
  }
  return beam->told == INT32_MAX ? tsr_beam_close(beam) : TSR_OK;
}

/* A sentence of `length` tokens takes its candidates. */
static tsr_status take_candidates(beams *s, int32_t sentence, int32_t length)
{
  const tsr_search *search = s->search;
  tsr_beam *beam = &s->sentences[sentence];
  size_t block = (size_t)search->beam * (size_t)search->k;
  int32_t forced = tsr_search_forced(search, sentence, length);
  if (beam->traced) {
    size_t rows = (size_t)search->beam * (size_t)search->source_room;
    TSR_TRY(tsr_trace_add(&beam->trace, search->attention + (size_t)sentence * rows, search->source_room,
                          tsr_search_head_share(search)));
  }
  if (length <= tsr_search_prompt(search, sentence).n) {
    tsr_beam_extend(beam, forced);
    return TSR_OK;
  }
  if (forced >= 0) {
    force(s, forced);
    TSR_TRY(tsr_beam_advance(beam, s->forced_k, s->forced, s->forced_tokens, s->parents));
  } else {
    TSR_TRY(tsr_beam_advance(beam, search->k, search->values + (size_t)sentence * block,
                             search->indices + (size_t)sentence * block, s->parents));
  }
  move_histories(s, sentence);
  return search->first_only ? tsr_beam_close(beam) : TSR_OK;
}

static tsr_status take_all(beams *s, int32_t length, int32_t *n_open)
{
  *n_open = 0;
  for (int32_t i = 0; i < s->search->count; i++) {
    if (!s->sentences[i].done) {
      TSR_TRY(take_candidates(s, i, length));
      /* Which of several that ended is the best is known when they are sorted. */
      if (s->sentences[i].done) {
        TSR_TRY(tsr_beam_close(&s->sentences[i]));
      }
      TSR_TRY(tell(s->search, &s->sentences[i], i));
    }
    s->open[i] = !s->sentences[i].done;
    *n_open += s->open[i];
  }
  return TSR_OK;
}

static tsr_status collect(const beams *s, int32_t row, tsr_hypothesis *hypotheses)
{
  int32_t n_best = s->search->options->n_best;
  tsr_beam *beam = &s->sentences[row];
  TSR_TRY(tsr_beam_close(beam));
  TSR_TRY(tell(s->search, beam, row));
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
    tsr_hypothesis *h = &hypotheses[s->search->sentence[row] * n_best + j];
    *h = (tsr_hypothesis){.ids = ids, .n_ids = n, .score = (float)finished->score};
    if (beam->traced) {
      tsr_search_hand_over(s->search, row, finished->attention, h);
      finished->attention = NULL;
    }
  }
  /* Where everything else was banned there are fewer. */
  for (int32_t j = beam->n_finished; j < n_best; j++) {
    hypotheses[s->search->sentence[row] * n_best + j].score = -INFINITY;
  }
  return TSR_OK;
}

/* A sentence takes the place of one that is done, and its hypotheses take along what they know of the cache. */
static void move_sentence(beams *s, int32_t from, int32_t to)
{
  int32_t n = s->search->beam;
  size_t used = (size_t)s->sentences[from].length - 1;
  tsr_beam_finish(&s->sentences[to]);
  s->sentences[to] = s->sentences[from];
  s->sentences[from] = (tsr_beam){0};
  for (int32_t i = 0; i < n; i++) {
    const int32_t *old = s->history + (size_t)(from * n + i) * (size_t)s->room;
    int32_t *own = s->history + (size_t)(to * n + i) * (size_t)s->room;
    for (size_t p = 0; p < used; p++) {
      own[p] = old[p] + (to - from) * n;
    }
  }
}

/* Goes on with the open sentences alone; the others' results are there. `used` positions of the cache are filled. */
static tsr_status shrink(beams *s, int32_t used, tsr_hypothesis *hypotheses)
{
  tsr_search *search = s->search;
  for (int32_t i = 0; i < search->count; i++) {
    if (!s->open[i]) {
      TSR_TRY(collect(s, i, hypotheses));
    }
  }
  TSR_TRY(tsr_search_shrink(search, used, s->open, s->from));
  for (int32_t i = 0; i < search->count; i++) {
    if (s->from[i] != i) {
      move_sentence(s, s->from[i], i);
    }
  }
  s->hypotheses = search->batch * search->beam;
  return TSR_OK;
}

static tsr_status create(beams *s)
{
  const tsr_search *search = s->search;
  size_t r = (size_t)s->hypotheses;
  size_t forced = (size_t)search->beam * (size_t)s->forced_k;
  s->sentences = calloc((size_t)search->count, sizeof *s->sentences);
  s->history = calloc(r * (size_t)s->room, sizeof *s->history);
  s->moved = malloc((size_t)search->beam * (size_t)s->room * sizeof *s->moved);
  s->token = calloc(r, sizeof *s->token);
  s->parents = malloc((size_t)search->beam * sizeof *s->parents);
  s->forced = malloc(forced * sizeof *s->forced);
  s->forced_tokens = malloc(forced * sizeof *s->forced_tokens);
  s->open = calloc((size_t)search->count, sizeof *s->open);
  s->from = calloc((size_t)search->count, sizeof *s->from);
  if (!s->sentences || !s->history || !s->moved || !s->token || !s->parents || !s->forced || !s->forced_tokens ||
      !s->open || !s->from) {
    return tsr_fail_memory(r * (size_t)s->room * sizeof *s->history);
  }
  for (int32_t i = 0; i < search->count; i++) {
    tsr_prompt prompt = tsr_search_prompt(search, i);
    TSR_TRY(tsr_beam_init(&s->sentences[i], search->options, search->lengths[i], &prompt));
  }
  return TSR_OK;
}

tsr_status tsr_search_beams(tsr_search *search, tsr_hypothesis *hypotheses)
{
  beams s = {.search = search,
             .n_sentences = search->count,
             .hypotheses = search->batch * search->beam,
             .forced_k = tsr_search_beam_candidates(search->options),
             .room = search->options->max_length};
  tsr_status status = create(&s);
  if (status == TSR_OK) {
    status = prefill(&s);
  }
  int32_t n_open = search->count;
  for (int32_t length = 1; length < search->options->max_length && n_open > 0 && status == TSR_OK; length++) {
    status = advance(&s, length);
    if (status == TSR_OK) {
      status = take_all(&s, length, &n_open);
    }
    if (status == TSR_OK && length + 1 < search->options->max_length && tsr_search_can_shrink(search, n_open)) {
      status = shrink(&s, length, hypotheses);
    }
  }
  for (int32_t i = 0; i < search->count && status == TSR_OK; i++) {
    status = collect(&s, i, hypotheses);
  }
  for (int32_t i = 0; s.sentences && i < s.n_sentences; i++) {
    tsr_beam_finish(&s.sentences[i]);
  }
  free(s.sentences);
  free(s.history);
  free(s.moved);
  free(s.rows);
  free(s.token);
  free(s.parents);
  free(s.forced);
  free(s.forced_tokens);
  free(s.open);
  free(s.from);
  return status;
}

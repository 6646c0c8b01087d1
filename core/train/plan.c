/* SPDX-License-Identifier: Apache-2.0 */
#include "core/train/plan.h"

#include <stdlib.h>

#include "core/base/status.h"
#include "core/train/draws.h"

/* Pairs of the same widths: a list, linked through maker.next. */
typedef struct bucket {
  int32_t source_width;
  int32_t target_width;
  int32_t head; /* -1: empty */
  int32_t tail;
  int32_t count;
} bucket;

typedef struct maker {
  const tsr_pairs *pairs;
  const tsr_batch_plan_options *options;
  tsr_batch_plan plan;
  int32_t planned; /* pairs of plan.order that are in batches */
  int32_t *next;   /* [pairs] the one behind in its bucket; -1: the last */
  bucket *buckets; /* [n_buckets] those that have pairs, the cheapest rows first */
  int32_t n_buckets;
  int32_t *place;  /* [source widths, target widths] of a bucket in `buckets`; -1: no pair has such widths */
  int32_t columns; /* target widths */
} maker;

int32_t tsr_batch_plan_rows(int32_t batch_tokens, int32_t source_width, int32_t target_width)
{
  int32_t rows = batch_tokens / (source_width > target_width ? source_width : target_width);
  return rows > 1 ? rows : 1;
}

static int32_t larger_width(const bucket *b)
{
  return b->source_width > b->target_width ? b->source_width : b->target_width;
}

static int compare_buckets(const void *left, const void *right)
{
  const bucket *a = left;
  const bucket *b = right;
  if (larger_width(a) != larger_width(b)) {
    return larger_width(a) < larger_width(b) ? -1 : 1;
  }
  int32_t a_sum = a->source_width + a->target_width;
  int32_t b_sum = b->source_width + b->target_width;
  if (a_sum != b_sum) {
    return a_sum < b_sum ? -1 : 1;
  }
  return (a->source_width > b->source_width) - (a->source_width < b->source_width);
}

static void shuffle_order(maker *m)
{
  const tsr_batch_plan_options *o = m->options;
  tsr_draws draws = tsr_draws_make(o->seed, TSR_DRAWS_PAIRS, 0, o->epoch, o->pool);
  for (int32_t i = m->pairs->n - 1; i > 0; i--) {
    int32_t k = (int32_t)tsr_draw_below(&draws, (uint32_t)i + 1);
    int32_t kept = m->plan.order[i];
    m->plan.order[i] = m->plan.order[k];
    m->plan.order[k] = kept;
  }
}

static void shuffle_batches(maker *m)
{
  const tsr_batch_plan_options *o = m->options;
  tsr_draws draws = tsr_draws_make(o->seed, TSR_DRAWS_BATCHES, 0, o->epoch, o->pool);
  for (int32_t i = m->plan.n_batches - 1; i > 0; i--) {
    int32_t k = (int32_t)tsr_draw_below(&draws, (uint32_t)i + 1);
    tsr_planned_batch kept = m->plan.batches[i];
    m->plan.batches[i] = m->plan.batches[k];
    m->plan.batches[k] = kept;
  }
}

/* Steps that a length takes, from 0. */
static int32_t steps_of(const maker *m, int32_t length)
{
  return length > 0 ? (length - 1) / m->options->step : 0;
}

/* The length of a source, or that of the window that it is to fill. */
static int32_t source_of(const maker *m, int32_t pair)
{
  const tsr_batch_plan_options *o = m->options;
  const uint64_t line = (uint64_t)m->pairs->lines[pair];
  tsr_draws draws =
      tsr_draws_make(o->seed, TSR_DRAWS_WINDOWS, o->epoch & 0xFFFFFF, (uint32_t)line, (uint32_t)(line >> 32));
  const int is_whole = o->widest_source > 0 && o->whole > 0 && tsr_draw_share(&draws, o->whole);
  return is_whole ? o->widest_source : tsr_pairs_source_length(m->pairs, pair);
}

static int32_t place_of(const maker *m, int32_t pair)
{
  return steps_of(m, source_of(m, pair)) * m->columns + steps_of(m, tsr_pairs_target_length(m->pairs, pair));
}

/* Allocates the table of places; a pair's lengths are what its steps follow from, so it is as large as they need. */
static tsr_status make_places(maker *m)
{
  int32_t source_steps = 0;
  int32_t target_steps = 0;
  for (int32_t i = 0; i < m->pairs->n; i++) {
    int32_t source = steps_of(m, source_of(m, i));
    int32_t target = steps_of(m, tsr_pairs_target_length(m->pairs, i));
    source_steps = source > source_steps ? source : source_steps;
    target_steps = target > target_steps ? target : target_steps;
  }
  m->columns = target_steps + 1;
  size_t n = ((size_t)source_steps + 1) * (size_t)m->columns;
  m->place = malloc(n * sizeof *m->place);
  if (!m->place) {
    return tsr_fail_memory(n * sizeof *m->place);
  }
  for (size_t i = 0; i < n; i++) {
    m->place[i] = -1;
  }
  return TSR_OK;
}

/* The buckets that have pairs, sorted, and where each is found. */
static tsr_status make_buckets(maker *m)
{
  TSR_TRY(make_places(m));
  int32_t room = 0;
  for (int32_t i = 0; i < m->pairs->n; i++) {
    int32_t *place = &m->place[place_of(m, i)];
    if (*place >= 0) {
      continue;
    }
    if (m->n_buckets == room) {
      room = room > 0 ? 2 * room : 64;
      bucket *buckets = realloc(m->buckets, (size_t)room * sizeof *buckets);
      if (!buckets) {
        return tsr_fail_memory((size_t)room * sizeof *buckets);
      }
      m->buckets = buckets;
    }
    int32_t step = m->options->step, widest = m->options->widest_source;
    int32_t width = (steps_of(m, source_of(m, i)) + 1) * step;
    m->buckets[m->n_buckets] = (bucket){.source_width = widest > 0 && width > widest ? widest : width,
                                        .target_width = (steps_of(m, tsr_pairs_target_length(m->pairs, i)) + 1) * step,
                                        .head = -1,
                                        .tail = -1};
    *place = m->n_buckets++;
  }
  qsort(m->buckets, (size_t)m->n_buckets, sizeof *m->buckets, compare_buckets);
  for (int32_t k = 0; k < m->n_buckets; k++) {
    int32_t row = steps_of(m, m->buckets[k].source_width);
    int32_t column = steps_of(m, m->buckets[k].target_width);
    m->place[(int64_t)row * m->columns + column] = k;
  }
  return TSR_OK;
}

static void fill_buckets(maker *m)
{
  for (int32_t i = 0; i < m->pairs->n; i++) {
    int32_t pair = m->plan.order[i];
    bucket *b = &m->buckets[m->place[place_of(m, pair)]];
    m->next[pair] = -1;
    if (b->tail < 0) {
      b->head = pair;
    } else {
      m->next[b->tail] = pair;
    }
    b->tail = pair;
    b->count++;
  }
}

static int32_t batches_of(int32_t count, int32_t rows)
{
  return count / rows + (count % rows > 0);
}

/* Where the rest of a bucket fills up batches: the cheapest bucket that has room for its pairs and then needs no more
 * batches than both did before; NULL if there is none. */
static bucket *find_larger(maker *m, int32_t from)
{
  const bucket *b = &m->buckets[from];
  for (int32_t k = from + 1; k < m->n_buckets; k++) {
    bucket *to = &m->buckets[k];
    if (to->count == 0 || to->source_width < b->source_width || to->target_width < b->target_width) {
      continue;
    }
    int32_t rows = tsr_batch_plan_rows(m->options->batch_tokens, to->source_width, to->target_width);
    if (batches_of(to->count + b->count, rows) <= batches_of(to->count, rows) + 1) {
      return to;
    }
  }
  return NULL;
}

/* Moves all pairs of a bucket to the front of another, so that they are not left over there again. */
static void move_pairs(maker *m, bucket *from, bucket *to)
{
  m->next[from->tail] = to->head;
  to->head = from->head;
  to->count += from->count;
  from->head = from->tail = -1;
  from->count = 0;
}

/* A batch of the first `sentences` pairs of a bucket. The order is written anew from the front: what stands there is in
 * the lists. */
static void take_batch(maker *m, bucket *b, int32_t sentences)
{
  m->plan.batches[m->plan.n_batches++] = (tsr_planned_batch){
      .first = m->planned, .sentences = sentences, .source_width = b->source_width, .target_width = b->target_width};
  for (int32_t i = 0; i < sentences; i++) {
    m->plan.order[m->planned++] = b->head;
    b->head = m->next[b->head];
  }
  b->count -= sentences;
  if (b->count == 0) {
    b->tail = -1;
  }
}

/* At most one batch a pair: there is room. */
static void cut_batches(maker *m)
{
  for (int32_t k = 0; k < m->n_buckets; k++) {
    bucket *b = &m->buckets[k];
    int32_t rows = tsr_batch_plan_rows(m->options->batch_tokens, b->source_width, b->target_width);
    while (b->count >= rows) {
      take_batch(m, b, rows);
    }
    if (b->count == 0) {
      continue;
    }
    bucket *larger = find_larger(m, k);
    if (larger) {
      move_pairs(m, b, larger);
    } else {
      take_batch(m, b, b->count);
    }
  }
}

static tsr_status make(maker *m)
{
  size_t n = (size_t)m->pairs->n;
  m->plan.order = malloc(n * sizeof *m->plan.order + 1);
  m->plan.batches = malloc(n * sizeof *m->plan.batches + 1);
  m->next = malloc(n * sizeof *m->next + 1);
  if (!m->plan.order || !m->plan.batches || !m->next) {
    return tsr_fail_memory(n * (sizeof *m->plan.order + sizeof *m->plan.batches + sizeof *m->next));
  }
  for (int32_t i = 0; i < m->pairs->n; i++) {
    m->plan.order[i] = i;
  }
  if (m->options->shuffle) {
    shuffle_order(m);
  }
  TSR_TRY(make_buckets(m));
  fill_buckets(m);
  cut_batches(m);
  if (m->options->shuffle) {
    shuffle_batches(m);
  }
  return TSR_OK;
}

tsr_status tsr_batch_plan_make(const tsr_pairs *pairs, const tsr_batch_plan_options *options, tsr_batch_plan *plan)
{
  maker m = {.pairs = pairs, .options = options};
  tsr_status status = make(&m);
  free(m.next);
  free(m.buckets);
  free(m.place);
  if (status != TSR_OK) {
    tsr_batch_plan_finish(&m.plan);
  }
  *plan = m.plan;
  return status;
}

void tsr_batch_plan_finish(tsr_batch_plan *plan)
{
  free(plan->order);
  free(plan->batches);
  *plan = (tsr_batch_plan){0};
}

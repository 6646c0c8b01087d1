/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows that go on each for itself: greedy search, a row for each sentence, and sampling, a row for each hypothesis.
 *
 * Plain greedy search is fed back by the device itself; the host only looks at what came out, for the end of sentences.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/generate/details.h"
#include "core/generate/sample.h"
#include "core/generate/search.h"
#include "core/generate/trace.h"

typedef struct rows {
  tsr_search *search;
  int32_t n;         /* rows that there is room for */
  int32_t room;      /* tokens of a row */
  int32_t *ids;      /* [n][room], with the start token */
  int32_t *lengths;  /* [n] tokens of each row; fixed once it has ended */
  int32_t *open;     /* [n] 1: has not ended */
  tsr_trace *traces; /* [n] of the attention, if it is wanted */
  double *sums;      /* [n] of log-probabilities */
  float *logs;     /* [n][room] log-probabilities of the tokens, the start token's place counted; if options->details */
  int32_t *next;   /* [n] */
  int32_t *forced; /* [n] the token that an open row has to go on with, or -1 */
  float *next_logits; /* [n] */
  int32_t *order;     /* [order_room] of tsr_sample */
  int32_t order_room;
  tsr_hypothesis *found; /* [N] of a sentence that ends */
} rows;

static int32_t *row_tokens(const rows *s, int32_t row)
{
  return s->ids + (size_t)row * (size_t)s->room;
}

static const int32_t *row_ids(const void *own, int32_t row)
{
  const rows *s = own;
  return s->open[row] ? row_tokens(s, row) : NULL;
}

/* Rows of the sentences that are there. */
static int32_t count_rows(const rows *s)
{
  return s->search->count * s->search->beam;
}

static const tsr_sentence *sentence_of(const rows *s, int32_t row)
{
  return &s->search->sentences[row / s->search->beam];
}

/* The best candidate, the lowest token among equals. */
static int32_t choose_best(const float *values, const int32_t *tokens, int32_t n)
{
  int32_t best = 0;
  for (int32_t i = 1; i < n; i++) {
    if (values[i] > values[best] || (values[i] == values[best] && tokens[i] < tokens[best])) {
      best = i;
    }
  }
  return best;
}

static tsr_status reserve_order(rows *s)
{
  if (s->search->k <= s->order_room) {
    return TSR_OK;
  }
  free(s->order);
  s->order_room = s->search->k;
  s->order = malloc((size_t)s->order_room * sizeof *s->order);
  return s->order ? TSR_OK : tsr_fail_memory((size_t)s->order_room * sizeof *s->order);
}

/* Chooses the next token of each open row among its candidates. */
static tsr_status choose(rows *s)
{
  tsr_search *search = s->search;
  const tsr_generate_options *options = search->options;
  size_t k = (size_t)search->k;
  TSR_TRY(reserve_order(s));
  for (int32_t r = 0; r < count_rows(s); r++) {
    const float *values = search->values + (size_t)r * k;
    const int32_t *tokens = search->indices + (size_t)r * k;
    if (!s->open[r] || s->forced[r] >= 0) {
      continue;
    }
    int32_t best = 0;
    if (options->sample) {
      const tsr_sentence *sentence = sentence_of(s, r);
      const tsr_draw_place place = {.seed = sentence->seed,
                                    .sentence = sentence->number,
                                    .hypothesis = r % search->beam,
                                    .length = sentence->length};
      best = tsr_sample(options, &place, values, tokens, search->k, s->order);
    } else {
      best = choose_best(values, tokens, search->k);
    }
    s->next[r] = tokens[best];
    if (options->scores) {
      s->sums[r] += (double)tsr_search_log_probability(search, r, best);
    }
    if (options->details) {
      s->logs[(size_t)r * (size_t)s->room + (size_t)s->lengths[r]] =
          tsr_search_changed_log_probability(search, r, best);
    }
  }
  return TSR_OK;
}

static tsr_status run_step(rows *s)
{
  tsr_search *search = s->search;
  int32_t renewed = 0;
  TSR_TRY(tsr_search_prepare(search, &renewed));
  if (renewed || !search->fed_back) {
    TSR_TRY(tsr_search_write(search, s->next, 0));
  }
  return search->fed_back ? tsr_search_run_greedy(search, s->next, s->next_logits) : tsr_search_run_step(search);
}

/* What the next token of the open rows asks for. */
typedef struct outlook {
  int32_t is_free;   /* 1: one is not forced */
  int32_t is_forced; /* 1: one is, and another comes behind it */
  int32_t
      is_needed; /* 1: a step. Nothing is computed from a last token that is forced, nor where the cache is filled */
} outlook;

/* Fills `forced`. */
static outlook look_ahead(const rows *s)
{
  outlook found = {0};
  for (int32_t r = 0; r < count_rows(s); r++) {
    const tsr_sentence *sentence = sentence_of(s, r);
    s->forced[r] = s->open[r] ? tsr_search_forced(s->search, sentence, sentence->length) : -1;
    if (s->open[r]) {
      const int32_t is_free = s->forced[r] < 0, is_last = tsr_search_is_last(s->search, sentence);
      found.is_free |= is_free;
      found.is_forced |= !is_free && !is_last;
      found.is_needed |= sentence->length > sentence->prefilled && (is_free || !is_last || s->search->attention);
    }
  }
  return found;
}

static tsr_status keep_attention(rows *s)
{
  const tsr_search *search = s->search;
  for (int32_t r = 0; search->attention && r < count_rows(s); r++) {
    if (s->open[r]) {
      const int32_t width = tsr_search_attention_width(search);
      TSR_TRY(tsr_trace_add(&s->traces[r], search->attention + (size_t)r * (size_t)width, width,
                            tsr_search_head_share(search)));
    }
  }
  return TSR_OK;
}

static tsr_status advance(void *own)
{
  rows *s = own;
  tsr_search *search = s->search;
  const outlook next = look_ahead(s);
  if (next.is_needed) {
    TSR_TRY(run_step(s));
    TSR_TRY(keep_attention(s));
  }
  if (next.is_free && !search->fed_back) {
    TSR_TRY(choose(s));
  }
  for (int32_t r = 0; r < count_rows(s); r++) {
    s->next[r] = s->forced[r] >= 0 ? s->forced[r] : s->next[r];
  }
  return next.is_forced && search->fed_back && search->step ? tsr_search_write(search, s->next, 1) : TSR_OK;
}

/* What options->details is to know of a row's tokens [n]. */
static tsr_status hand_details(const rows *s, int32_t b, int32_t i, int32_t n)
{
  const tsr_search *search = s->search;
  const float *logs = s->logs + (size_t)(b * search->beam + i) * (size_t)s->room + 1;
  float *copy = malloc((size_t)n * sizeof *copy + 1);
  if (!copy) {
    return tsr_fail_memory((size_t)n * sizeof *copy);
  }
  memcpy(copy, logs, (size_t)n * sizeof *copy);
  tsr_details_put(search->options->details, search->sentences[b].index, i, copy);
  return TSR_OK;
}

/* Hands over a sentence all of whose rows have ended. */
static tsr_status end(rows *s, int32_t b)
{
  tsr_search *search = s->search;
  for (int32_t i = 0; i < search->beam; i++) {
    int32_t row = b * search->beam + i;
    int32_t n = s->lengths[row] - 1;
    tsr_hypothesis *h = &s->found[i];
    *h = (tsr_hypothesis){.ids = malloc((size_t)n * sizeof *h->ids + 1), .n_ids = n, .score = NAN};
    if (!h->ids) {
      return tsr_fail_memory((size_t)n * sizeof *h->ids);
    }
    memcpy(h->ids, row_tokens(s, row) + 1, (size_t)n * sizeof *h->ids);
    if (s->logs) {
      TSR_TRY(hand_details(s, b, i, n));
    }
    int32_t given = search->options->search == TSR_SEARCH_CTRANSLATE2 ? 0 : search->sentences[b].prompt.n_given;
    int32_t counted = n - given;
    counted = counted > 1 ? counted : 1; /* one that was stopped within its prompt */
    if (search->options->scores) {
      h->score = (float)tsr_search_score(search->options, s->sums[row], counted);
    }
    if (search->attention) {
      float *attention;
      TSR_TRY(tsr_trace_read(&s->traces[row], 0, 1, &attention));
      TSR_TRY(tsr_search_hand_details(search, b, i, &attention, s->traces[row].steps));
      h->score += (float)tsr_trace_penalty(&s->traces[row], attention, search->options->coverage_penalty);
      tsr_search_hand_over(search, b, attention, h);
    }
  }
  tsr_search_end(search, b, s->found);
  memset(s->found, 0, (size_t)search->beam * sizeof *s->found);
  return TSR_OK;
}

static tsr_status append(void *own)
{
  rows *s = own;
  tsr_search *search = s->search;
  for (int32_t b = 0; b < search->count; b++) {
    tsr_sentence *sentence = &search->sentences[b];
    if (!sentence->is_open) {
      continue;
    }
    int32_t length = sentence->length++, is_open = 0;
    for (int32_t r = b * search->beam; r < (b + 1) * search->beam; r++) {
      if (!s->open[r]) {
        continue;
      }
      row_tokens(s, r)[length] = s->next[r];
      s->lengths[r] = length + 1;
      int32_t ends = length + 1 == search->options->max_length ||
                     (length > sentence->prompt.n && tsr_search_is_end(search->options, s->next[r]));
      int32_t stop = tsr_search_tell(search, b, r % search->beam, length - 1, s->next[r], ends);
      s->open[r] = !ends && stop == 0;
      is_open |= s->open[r];
    }
    if (!is_open) {
      TSR_TRY(end(s, b));
    }
  }
  return TSR_OK;
}

static void move(void *own, int32_t from, int32_t to)
{
  rows *s = own;
  for (int32_t i = 0; i < s->search->beam; i++) {
    int32_t old = from * s->search->beam + i, new = to * s->search->beam + i;
    memcpy(row_tokens(s, new), row_tokens(s, old), (size_t)s->lengths[old] * sizeof *s->ids);
    s->next[new] = s->next[old];
    s->lengths[new] = s->lengths[old];
    s->open[new] = s->open[old];
    s->open[old] = 0;
    s->sums[new] = s->sums[old];
    if (s->logs) {
      const size_t room = (size_t)s->room;
      memcpy(s->logs + (size_t) new *room, s->logs + (size_t)old * room, (size_t)s->lengths[old] * sizeof *s->logs);
    }
    if (s->traces) {
      tsr_trace_finish(&s->traces[new]);
      s->traces[new] = s->traces[old];
      s->traces[old] = (tsr_trace){0};
    }
  }
}

static void drop(void *own, int32_t b)
{
  rows *s = own;
  memset(s->open + (size_t)b * (size_t)s->search->beam, 0, (size_t)s->search->beam * sizeof *s->open);
}

static tsr_status start(void *own, int32_t b)
{
  rows *s = own;
  const tsr_search *search = s->search;
  const tsr_sentence *sentence = &search->sentences[b];
  for (int32_t r = b * search->beam; r < (b + 1) * search->beam; r++) {
    if (s->traces) {
      tsr_trace_finish(&s->traces[r]);
      tsr_trace_init(&s->traces[r], 1, tsr_search_traced(search, sentence));
    }
    s->open[r] = 1;
    s->next[r] = sentence->prompt.start ? *sentence->prompt.start : search->options->decoder_start_id;
    row_tokens(s, r)[0] = s->next[r];
    s->lengths[r] = 1;
    s->sums[r] = (double)sentence->prompt.sum;
    if (s->logs) {
      memset(s->logs + (size_t)r * (size_t)s->room, 0, (size_t)s->room * sizeof *s->logs);
    }
  }
  return TSR_OK;
}

static tsr_status create(tsr_search *search)
{
  size_t n = (size_t)search->most * (size_t)search->beam;
  rows *s = calloc(1, sizeof *s);
  search->own = s;
  if (!s) {
    return tsr_fail_memory(sizeof *s);
  }
  s->search = search;
  s->n = (int32_t)n;
  s->room = search->options->max_length;
  s->ids = malloc(n * (size_t)s->room * sizeof *s->ids);
  s->lengths = calloc(n, sizeof *s->lengths);
  s->open = calloc(n, sizeof *s->open);
  s->sums = calloc(n, sizeof *s->sums);
  s->next = calloc(n, sizeof *s->next);
  s->forced = calloc(n, sizeof *s->forced);
  s->next_logits = calloc(n, sizeof *s->next_logits);
  s->found = calloc((size_t)search->beam, sizeof *s->found);
  s->logs = search->options->details ? malloc(n * (size_t)s->room * sizeof *s->logs) : NULL;
  s->traces = search->attention ? calloc(n, sizeof *s->traces) : NULL;
  return s->ids && s->lengths && s->open && s->sums && s->next && s->forced && s->next_logits && s->found &&
                 (s->logs || !search->options->details) && (s->traces || !search->attention)
             ? TSR_OK
             : tsr_fail_memory(n * (size_t)s->room * sizeof *s->ids);
}

static void finish(void *own)
{
  rows *s = own;
  if (!s) {
    return;
  }
  for (int32_t r = 0; s->traces && r < s->n; r++) {
    tsr_trace_finish(&s->traces[r]);
  }
  for (int32_t i = 0; s->found && i < s->search->beam; i++) {
    free(s->found[i].ids);
    free(s->found[i].attention);
  }
  free(s->found);
  free(s->traces);
  free(s->ids);
  free(s->lengths);
  free(s->open);
  free(s->sums);
  free(s->logs);
  free(s->next);
  free(s->forced);
  free(s->next_logits);
  free(s->order);
  free(s);
}

const tsr_search_kind tsr_search_independent = {.create = create,
                                                .finish = finish,
                                                .start = start,
                                                .advance = advance,
                                                .append = append,
                                                .move = move,
                                                .drop = drop,
                                                .ids = row_ids};

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
#include "core/generate/sample.h"
#include "core/generate/search.h"
#include "core/generate/trace.h"

typedef struct rows {
  tsr_search *search;
  int32_t n;          /* R = B * N */
  int32_t room;       /* tokens of a row */
  int32_t *ids;       /* [R][room], with the start token */
  int32_t *lengths;   /* [R] tokens of each row; fixed once it has ended */
  int32_t *open;      /* [R] 1: has not ended */
  tsr_trace *traces;  /* [n_rows] of the attention, if it is wanted */
  int32_t n_rows;     /* R when the batch began */
  double *sums;       /* [R] of log-probabilities */
  int32_t *next;      /* [R] */
  int32_t *forced;    /* [R] the token that an open row has to go on with, or -1 */
  float *next_logits; /* [R] */
  int32_t *order;     /* [order_room] of tsr_sample */
  int32_t order_room;
  int32_t *open_sentences; /* [B] 1: one of its rows is open */
  int32_t *from;           /* [B] of tsr_search_shrink */
  int32_t n_open;          /* sentences */
} rows;

static int32_t *row_tokens(const rows *s, int32_t row)
{
  return s->ids + (size_t)row * (size_t)s->room;
}

static const int32_t *row_ids(const void *user, int32_t row)
{
  const rows *s = user;
  return s->open[row] ? row_tokens(s, row) : NULL;
}

/* The tokens and the position from which the device goes on. */
static tsr_status write_tokens(const rows *s, int32_t position)
{
  const tsr_compiled *step = s->search->step;
  TSR_TRY(tsr_executable_write(step->executable, step->refs.token, s->next, s->n * (int64_t)sizeof *s->next));
  return tsr_executable_write(step->executable, step->refs.position, &position, (int64_t)sizeof position);
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

/* Chooses the next token of each open row, of `length` tokens, among its candidates. */
static tsr_status choose(rows *s, int32_t length)
{
  const tsr_search *search = s->search;
  const tsr_generate_options *options = search->options;
  size_t k = (size_t)search->k;
  TSR_TRY(reserve_order(s));
  for (int32_t r = 0; r < search->count * search->beam; r++) {
    const float *values = search->values + (size_t)r * k;
    const int32_t *tokens = search->indices + (size_t)r * k;
    if (!s->open[r] || s->forced[r] >= 0) {
      continue;
    }
    int32_t best = 0;
    if (options->sample) {
      int32_t sentence = search->numbers[search->sentence[r / search->beam]];
      const tsr_draw_place place = {
          .sentence = options->first_sentence + sentence, .hypothesis = r % search->beam, .length = length};
      best = tsr_sample(options, &place, values, tokens, search->k, s->order);
    } else {
      best = choose_best(values, tokens, search->k);
    }
    s->next[r] = tokens[best];
    if (options->scores) {
      s->sums[r] += (double)tsr_search_log_probability(s->search, r, best, length, row_tokens(s, r));
    }
  }
  return TSR_OK;
}

static tsr_status run_step(rows *s, int32_t length)
{
  tsr_search *search = s->search;
  int32_t renewed = 0;
  TSR_TRY(tsr_search_prepare(search, length - 1, row_ids, s, &renewed));
  if (renewed || !search->fed_back) {
    TSR_TRY(write_tokens(s, length - 1));
  }
  return search->fed_back ? tsr_search_run_greedy(search, length - 1, row_ids, s, s->next, s->next_logits)
                          : tsr_search_run(search, length - 1, row_ids, s);
}

/* Fills `forced` for rows of `length` tokens. Returns whether there is one, and in *free whether an open row has
 * none. */
static int32_t find_forced(rows *s, int32_t length, int32_t *is_free)
{
  int32_t found = 0;
  *is_free = 0;
  for (int32_t r = 0; r < s->n; r++) {
    s->forced[r] = s->open[r] ? tsr_search_forced(s->search, r / s->search->beam, length) : -1;
    found |= s->forced[r] >= 0;
    *is_free |= s->open[r] && s->forced[r] < 0;
  }
  return found;
}

static tsr_status keep_attention(rows *s)
{
  const tsr_search *search = s->search;
  for (int32_t r = 0; search->attention && r < search->count * search->beam; r++) {
    if (s->open[r]) {
      TSR_TRY(tsr_trace_add(&s->traces[r], search->attention + (size_t)r * (size_t)search->source_room,
                            search->source_room, tsr_search_head_share(search)));
    }
  }
  return TSR_OK;
}

static tsr_status advance(rows *s, int32_t length)
{
  tsr_search *search = s->search;
  int32_t is_free;
  int32_t is_forced = find_forced(s, length, &is_free);
  int32_t last = length + 1 == search->options->max_length;
  /* Forced last tokens need no step: nothing is computed from them. */
  if (length > search->prefilled && (is_free || !last || search->attention)) {
    TSR_TRY(run_step(s, length));
    TSR_TRY(keep_attention(s));
  }
  if (is_free && !search->fed_back) {
    TSR_TRY(choose(s, length));
  }
  for (int32_t r = 0; r < s->n; r++) {
    s->next[r] = s->forced[r] >= 0 ? s->forced[r] : s->next[r];
  }
  return is_forced && search->fed_back && search->step && !last ? write_tokens(s, length) : TSR_OK;
}

/* Appends the next tokens. */
static void take_tokens(rows *s, int32_t length)
{
  const tsr_search *search = s->search;
  s->n_open = 0;
  for (int32_t b = 0; b < search->count; b++) {
    s->open_sentences[b] = 0;
    for (int32_t r = b * search->beam; r < (b + 1) * search->beam; r++) {
      if (!s->open[r]) {
        continue;
      }
      row_tokens(s, r)[length] = s->next[r];
      s->lengths[r] = length + 1;
      int32_t ends = length + 1 == search->options->max_length ||
                     (length > tsr_search_prompt(search, b).n && tsr_search_is_end(search->options, s->next[r]));
      int32_t stop = tsr_search_tell(search, b, r % search->beam, length - 1, s->next[r], ends);
      s->open[r] = !ends && stop == 0;
      s->open_sentences[b] |= s->open[r];
    }
    s->n_open += s->open_sentences[b];
  }
}

static tsr_status collect(const rows *s, int32_t sentence, tsr_hypothesis *hypotheses)
{
  const tsr_search *search = s->search;
  for (int32_t i = 0; i < search->beam; i++) {
    int32_t row = sentence * search->beam + i;
    int32_t n = s->lengths[row] - 1;
    int32_t *ids = malloc((size_t)n * sizeof *ids + 1);
    if (!ids) {
      return tsr_fail_memory((size_t)n * sizeof *ids);
    }
    memcpy(ids, row_tokens(s, row) + 1, (size_t)n * sizeof *ids);
    int32_t counted = n - tsr_search_prompt(search, sentence).n_given;
    counted = counted > 1 ? counted : 1; /* one that was stopped within its prompt */
    float score = search->options->scores ? (float)tsr_search_score(search->options, s->sums[row], counted) : NAN;
    tsr_hypothesis *h = &hypotheses[search->sentence[sentence] * search->beam + i];
    *h = (tsr_hypothesis){.ids = ids, .n_ids = n, .score = score};
    if (search->attention) {
      float *attention;
      TSR_TRY(tsr_trace_read(&s->traces[row], 0, 1, &attention));
      h->score += (float)tsr_trace_penalty(&s->traces[row], attention, search->options->coverage_penalty);
      tsr_search_hand_over(search, sentence, attention, h);
    }
  }
  return TSR_OK;
}

static void move_row(rows *s, int32_t from, int32_t to, int32_t length)
{
  memcpy(row_tokens(s, to), row_tokens(s, from), (size_t)length * sizeof *s->ids);
  s->next[to] = s->next[from];
  s->lengths[to] = s->lengths[from];
  s->open[to] = s->open[from];
  s->sums[to] = s->sums[from];
  if (s->traces) {
    tsr_trace_finish(&s->traces[to]);
    s->traces[to] = s->traces[from];
    s->traces[from] = (tsr_trace){0};
  }
}

/* Goes on with the open sentences alone; the others' results are there. `length` tokens of each open row are known. */
static tsr_status shrink(rows *s, int32_t length, tsr_hypothesis *hypotheses)
{
  tsr_search *search = s->search;
  for (int32_t b = 0; b < search->count; b++) {
    if (!s->open_sentences[b]) {
      TSR_TRY(collect(s, b, hypotheses));
    }
  }
  TSR_TRY(tsr_search_shrink(search, length - 1, s->open_sentences, s->from));
  for (int32_t b = 0; b < search->count; b++) {
    for (int32_t i = 0; i < search->beam && s->from[b] != b; i++) {
      move_row(s, s->from[b] * search->beam + i, b * search->beam + i, length);
    }
    s->open_sentences[b] = 1;
  }
  s->n = search->batch * search->beam;
  for (int32_t r = search->count * search->beam; r < s->n; r++) {
    s->open[r] = 0;
  }
  return TSR_OK;
}

static tsr_status create(rows *s)
{
  const tsr_search *search = s->search;
  size_t n = (size_t)s->n;
  size_t batch = (size_t)search->batch;
  s->ids = malloc(n * (size_t)s->room * sizeof *s->ids);
  s->lengths = calloc(n, sizeof *s->lengths);
  s->open = calloc(n, sizeof *s->open);
  s->sums = calloc(n, sizeof *s->sums);
  s->next = calloc(n, sizeof *s->next);
  s->forced = calloc(n, sizeof *s->forced);
  s->next_logits = calloc(n, sizeof *s->next_logits);
  s->open_sentences = calloc(batch, sizeof *s->open_sentences);
  s->from = calloc(batch, sizeof *s->from);
  if (!s->ids || !s->lengths || !s->open || !s->sums || !s->next || !s->forced || !s->next_logits ||
      !s->open_sentences || !s->from) {
    return tsr_fail_memory(n * (size_t)s->room * sizeof *s->ids);
  }
  if (search->attention) {
    s->traces = calloc(n, sizeof *s->traces);
    if (!s->traces) {
      return tsr_fail_memory(n * sizeof *s->traces);
    }
  }
  for (int32_t r = 0; r < s->n; r++) {
    if (s->traces) {
      tsr_trace_init(&s->traces[r], 1, search->lengths[r / search->beam]);
    }
    s->open[r] = r < search->count * search->beam;
    const tsr_prompt prompt = s->open[r] ? tsr_search_prompt(search, r / search->beam) : (tsr_prompt){0};
    s->next[r] = prompt.start ? *prompt.start : search->options->decoder_start_id;
    row_tokens(s, r)[0] = s->next[r];
    s->lengths[r] = 1;
    s->sums[r] = (double)prompt.sum;
  }
  return TSR_OK;
}

tsr_status tsr_search_independent(tsr_search *search, tsr_hypothesis *hypotheses)
{
  int32_t max_length = search->options->max_length;
  rows s = {.search = search,
            .n = search->batch * search->beam,
            .n_rows = search->batch * search->beam,
            .room = max_length,
            .n_open = search->count};
  tsr_status status = create(&s);
  if (status == TSR_OK) {
    status = tsr_search_prefill(search);
  }
  for (int32_t length = 1; length < max_length && s.n_open > 0 && status == TSR_OK; length++) {
    status = advance(&s, length);
    if (status == TSR_OK) {
      take_tokens(&s, length);
    }
    if (status == TSR_OK && length + 1 < max_length && tsr_search_can_shrink(search, s.n_open)) {
      status = shrink(&s, length + 1, hypotheses);
    }
  }
  for (int32_t b = 0; b < search->count && status == TSR_OK; b++) {
    status = collect(&s, b, hypotheses);
  }
  for (int32_t r = 0; s.traces && r < s.n_rows; r++) {
    tsr_trace_finish(&s.traces[r]);
  }
  free(s.traces);
  free(s.ids);
  free(s.lengths);
  free(s.open);
  free(s.sums);
  free(s.next);
  free(s.forced);
  free(s.next_logits);
  free(s.order);
  free(s.open_sentences);
  free(s.from);
  return status;
}

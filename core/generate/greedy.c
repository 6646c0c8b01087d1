/* SPDX-License-Identifier: Apache-2.0
 *
 * Greedy search. The device feeds each token back itself; the host only looks at what came out, for the end of
 * sentences.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/generate/search.h"

typedef struct greedy {
  tsr_search *search;
  int32_t room;       /* tokens of a row */
  int32_t *ids;       /* [B][room], with the start token */
  int32_t *lengths;   /* [B] tokens of each row; fixed once it has ended */
  int32_t *open;      /* [B] 1: a sentence that has not ended */
  int32_t *next;      /* [B] */
  float *next_logits; /* [B] */
  int32_t *from;      /* [B] of tsr_search_shrink */
  int32_t n_open;
} greedy;

static const int32_t *row_ids(const void *user, int32_t row)
{
  const greedy *g = user;
  return g->open[row] ? g->ids + (size_t)row * (size_t)g->room : NULL;
}

/* The tokens and the position from which the device goes on. */
static tsr_status write_tokens(const greedy *g, int32_t position)
{
  const tsr_compiled *step = g->search->step;
  TSR_TRY(tsr_executable_write(step->executable, step->token, g->next, g->search->batch * (int64_t)sizeof *g->next));
  return tsr_executable_write(step->executable, step->position, &position, (int64_t)sizeof position);
}

static tsr_status advance(greedy *g, int32_t length)
{
  tsr_search *search = g->search;
  int32_t position = length - 1;
  int32_t forced = tsr_search_forced(search->options, length);
  /* A forced last token needs no step: nothing is computed from it. */
  if (forced < 0 || length + 1 < search->options->max_length) {
    int32_t renewed = 0;
    TSR_TRY(tsr_search_prepare(search, position, row_ids, g, &renewed));
    if (renewed) {
      TSR_TRY(write_tokens(g, position));
    }
    TSR_TRY(tsr_search_run(search, position, search->step->next_logit, g->next_logits, search->step->next, g->next,
                           search->batch));
  }
  if (forced >= 0) {
    for (int32_t b = 0; b < search->batch; b++) {
      g->next[b] = forced;
    }
    if (length + 1 < search->options->max_length) {
      TSR_TRY(write_tokens(g, length));
    }
  }
  return TSR_OK;
}

static void take_tokens(greedy *g, int32_t length)
{
  int32_t eos = g->search->transformer->model->config.eos_id;
  for (int32_t b = 0; b < g->search->count; b++) {
    if (!g->open[b]) {
      continue;
    }
    g->ids[(size_t)b * (size_t)g->room + (size_t)length] = g->next[b];
    g->lengths[b] = length + 1;
    if (g->next[b] == eos) {
      g->open[b] = 0;
      g->n_open--;
    }
  }
}

static tsr_status collect(const greedy *g, int32_t row, tsr_hypothesis *hypotheses)
{
  int32_t n = g->lengths[row] - 1;
  int32_t *ids = malloc((size_t)n * sizeof *ids + 1);
  if (!ids) {
    return tsr_fail_memory((size_t)n * sizeof *ids);
  }
  memcpy(ids, g->ids + (size_t)row * (size_t)g->room + 1, (size_t)n * sizeof *ids);
  hypotheses[g->search->sentence[row]] = (tsr_hypothesis){.ids = ids, .n_ids = n, .score = NAN};
  return TSR_OK;
}

/* Goes on with the open rows alone; the others' results are there. `length` tokens of each row are known. */
static tsr_status shrink(greedy *g, int32_t length, tsr_hypothesis *hypotheses)
{
  tsr_search *search = g->search;
  for (int32_t b = 0; b < search->count; b++) {
    if (!g->open[b]) {
      TSR_TRY(collect(g, b, hypotheses));
    }
  }
  TSR_TRY(tsr_search_shrink(search, length - 1, g->open, g->from));
  for (int32_t b = 0; b < search->count; b++) {
    if (g->from[b] != b) {
      memcpy(g->ids + (size_t)b * (size_t)g->room, g->ids + (size_t)g->from[b] * (size_t)g->room,
             (size_t)length * sizeof *g->ids);
      g->next[b] = g->next[g->from[b]];
      g->lengths[b] = length;
    }
  }
  for (int32_t b = 0; b < search->batch; b++) {
    g->open[b] = b < search->count;
  }
  return TSR_OK;
}

tsr_status tsr_search_greedy(tsr_search *search, tsr_hypothesis *hypotheses)
{
  size_t batch = (size_t)search->batch;
  greedy g = {.search = search,
              .room = search->options->max_length,
              .ids = malloc(batch * (size_t)search->options->max_length * sizeof(int32_t)),
              .lengths = calloc(batch, sizeof(int32_t)),
              .open = calloc(batch, sizeof(int32_t)),
              .next = calloc(batch, sizeof(int32_t)),
              .next_logits = calloc(batch, sizeof(float)),
              .from = calloc(batch, sizeof(int32_t)),
              .n_open = search->count};
  tsr_status status = TSR_OK;
  if (!g.ids || !g.lengths || !g.open || !g.next || !g.next_logits || !g.from) {
    status = tsr_fail_memory(batch * (size_t)search->options->max_length * sizeof(int32_t));
  } else {
    for (int32_t b = 0; b < search->batch; b++) {
      g.next[b] = search->transformer->model->config.decoder_start_id;
      g.ids[(size_t)b * (size_t)g.room] = g.next[b];
      g.lengths[b] = 1;
      g.open[b] = b < search->count;
    }
  }
  for (int32_t length = 1; length < search->options->max_length && g.n_open > 0 && status == TSR_OK; length++) {
    status = advance(&g, length);
    if (status == TSR_OK) {
      take_tokens(&g, length);
    }
    if (status == TSR_OK && length + 1 < search->options->max_length && tsr_search_can_shrink(search, g.n_open)) {
      status = shrink(&g, length + 1, hypotheses);
    }
  }
  for (int32_t b = 0; b < search->count && status == TSR_OK; b++) {
    status = collect(&g, b, hypotheses);
  }
  free(g.ids);
  free(g.lengths);
  free(g.open);
  free(g.next);
  free(g.next_logits);
  free(g.from);
  return status;
}

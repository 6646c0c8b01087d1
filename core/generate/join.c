/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences that join a batch that is running, in the rows of those that have ended.
 */
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/generate/batches.h"
#include "core/generate/search.h"

enum { MOST_ENCODED = 16 /* sentences at once: each has lines of its own, which put its keys and values in place */ };

/* Sentences that may join. */
static int32_t count_free(const tsr_search *search)
{
  int32_t n = search->most_open;
  for (int32_t i = 0; i < search->count; i++) {
    n -= search->sentences[i].is_open;
  }
  return n;
}

/* Gives sentences rows: those of sentences that have ended first. rows [n] receives them. */
static void open_all(tsr_search *search, const tsr_sentence *sentences, int32_t n, int32_t *rows)
{
  int32_t row = 0;
  for (int32_t i = 0; i < n; i++) {
    while (row < search->count && search->sentences[row].is_open) {
      row++;
    }
    search->count = row < search->count ? search->count : row + 1;
    tsr_search_open(search, row, &sentences[i]);
    rows[i] = row;
  }
  int32_t batch = tsr_batch_bucket(search->count);
  search->batch = batch > search->batch ? batch : search->batch;
}

/* Room for the source of a sentence among the states. */
static tsr_status grow_source(tsr_search *search, int32_t longest)
{
  tsr_transformer *t = search->transformer;
  if (longest <= search->source_room) {
    return TSR_OK;
  }
  int32_t room = tsr_source_bucket(longest, tsr_config_source_positions(&t->model->config));
  if (t->model->config.encoder_layers > 0) {
    TSR_TRY(tsr_transformer_grow_cross(t, search->most, search->source_room, room));
  }
  search->source_room = room;
  return search->attention ? tsr_search_reserve_attention(search) : TSR_OK;
}

/* Of n sentences, the longest first, groups [i] receives how many are encoded in a run that begins with number i. Where
 * each position costs time, short ones are not filled up to the length of long ones, unless a run more costs as much.
 * costs [n + 1]. */
static void choose_groups(const tsr_search *search, const tsr_sentence *sentences, int32_t n, int32_t *groups,
                          int64_t *costs)
{
  enum { RUN = 8 /* positions that take as long as what a run costs beside them: it reads all weights */ };
  const int32_t is_frugal = tsr_search_is_frugal(search->transformer);
  costs[n] = 0;
  for (int32_t i = n - 1; i >= 0; i--) {
    costs[i] = INT64_MAX;
    groups[i] = n - i < MOST_ENCODED ? n - i : MOST_ENCODED;
    for (int32_t size = 1; is_frugal && size <= MOST_ENCODED && i + size <= n; size *= 2) {
      int64_t cost = RUN + (int64_t)size * sentences[i].n_source + costs[i + size];
      if (cost < costs[i]) {
        costs[i] = cost;
        groups[i] = size;
      }
    }
  }
}

/* Encodes the sentences in these rows [n], the longest first. */
static tsr_status encode(tsr_search *search, const int32_t *rows, int32_t n)
{
  tsr_transformer *t = search->transformer;
  int32_t batch = tsr_batch_bucket(n), longest = search->lengths[rows[0]];
  int32_t max_positions = tsr_config_source_positions(&t->model->config);
  int32_t width =
      tsr_search_is_frugal(t) ? tsr_source_step(longest, max_positions) : tsr_source_bucket(longest, max_positions);
  const tsr_program_key key = {.kind = TSR_PROGRAM_ENCODE,
                               .size = {.batch = batch, .source = width},
                               .source_room = search->source_room,
                               .joined = search->most};
  int32_t places[MOST_ENCODED];
  for (int32_t i = 0; i < batch; i++) {
    places[i] = (i < n ? rows[i] : search->most) * search->source_room;
  }
  double start = tsr_seconds();
  tsr_compiled *made = NULL;
  TSR_TRY(tsr_transformer_compile(t, &key, &made));
  TSR_TRY(tsr_search_write_source(search, made, rows, n));
  TSR_TRY(tsr_executable_write(made->executable, made->refs.places, places, batch * (int64_t)sizeof *places));
  TSR_TRY(tsr_transformer_run(t, made, 1.0));
  t->work.encode_seconds += tsr_seconds() - start;
  t->work.encode_runs++;
  return TSR_OK;
}

static tsr_status encode_all(tsr_search *search, const tsr_sentence *sentences, int32_t n, const int32_t *rows)
{
  const size_t size = ((size_t)n + 1) * (sizeof(int64_t) + sizeof(int32_t));
  int64_t *costs = malloc(size);
  if (!costs) {
    return tsr_fail_memory(size);
  }
  int32_t *groups = (int32_t *)(costs + n + 1);
  choose_groups(search, sentences, n, groups, costs);
  tsr_status status = TSR_OK;
  for (int32_t i = 0; i < n && status == TSR_OK; i += groups[i]) {
    status = encode(search, rows + i, groups[i]);
  }
  free(costs);
  return status;
}

static tsr_status join(tsr_search *search, const tsr_sentence *sentences, int32_t n, int32_t *rows)
{
  TSR_TRY(grow_source(search, sentences[0].n_source));
  open_all(search, sentences, n, rows);
  if (search->transformer->model->config.encoder_layers > 0) {
    TSR_TRY(encode_all(search, sentences, n, rows));
  }
  for (int32_t i = 0; i < n; i++) {
    TSR_TRY(search->kind->start(search->own, rows[i]));
  }
  search->step = NULL; /* another one, or the same with other inputs */
  return TSR_OK;
}

tsr_status tsr_search_join(tsr_search *search, int32_t *n)
{
  const tsr_search_client *client = search->client;
  int32_t n_free = count_free(search);
  *n = 0;
  search->is_held = n_free > 0 && client->count_waiting(client->user, n_free) > 0;
  if (!search->is_held || !tsr_flight_is_empty(search)) {
    return TSR_OK;
  }
  search->is_held = 0;
  tsr_sentence *sentences = malloc((size_t)n_free * sizeof *sentences);
  int32_t *rows = malloc((size_t)n_free * sizeof *rows);
  tsr_status status = sentences && rows ? TSR_OK : tsr_fail_memory((size_t)n_free * sizeof *sentences);
  if (status == TSR_OK) {
    *n = client->join(client->user, n_free, sentences);
    status = *n > 0 ? join(search, sentences, *n, rows) : TSR_OK;
  }
  free(sentences);
  free(rows);
  return status;
}

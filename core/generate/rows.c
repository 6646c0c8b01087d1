/* SPDX-License-Identifier: Apache-2.0
 *
 * The rows of a batch: room for their positions, and fewer of them as sentences end.
 */
#include <stdlib.h>

#include "core/base/status.h"
#include "core/generate/batches.h"
#include "core/generate/search.h"

enum {
  MIN_CAPACITY = 32,
  MIN_ROWS = 4 /* of a program: fewer hardly make a step shorter, unless each row costs time */
};

/* Positions that the longest result needs: its last token is never fed back. */
static int32_t needed_positions(const tsr_search *search)
{
  return search->options->max_length - 1;
}

int32_t tsr_search_capacity(const tsr_search *search, int32_t positions)
{
  int32_t capacity = MIN_CAPACITY;
  while (capacity < positions) {
    capacity *= 2;
  }
  /* A round number again, so that one program serves neighbouring limits; but no more than the model has. */
  int32_t limit = (needed_positions(search) + 7) / 8 * 8;
  int32_t available = search->transformer->model->config.max_positions;
  limit = limit < available ? limit : available;
  return capacity < limit ? capacity : limit;
}

tsr_status tsr_search_grow(tsr_search *search, int32_t position)
{
  if (position < search->capacity) {
    return TSR_OK;
  }
  int32_t capacity = tsr_search_capacity(search, 2 * search->capacity);
  search->step = NULL;
  int32_t batch = search->joins ? search->most : search->batch; /* all that may ever be in use */
  TSR_TRY(tsr_transformer_grow_cache(search->transformer, batch, search->beam, search->capacity, capacity));
  search->capacity = capacity;
  return TSR_OK;
}

/* ---- fewer rows -------------------------------------------------------------------------------------------------- */

static int32_t rows_for(const tsr_search *search, int32_t n_open)
{
  int32_t is_frugal = tsr_search_is_frugal(search->transformer);
  int32_t least = !is_frugal && search->beam < MIN_ROWS ? MIN_ROWS / search->beam : 1;
  return tsr_batch_bucket(n_open > least ? n_open : least);
}

/* Of a step: with fewer, a row less hardly makes it shorter. */
static int64_t rows_at_once(const tsr_transformer *transformer)
{
  return tsr_device_get_properties(transformer->device)->rows_at_once;
}

int32_t tsr_search_is_frugal(const tsr_transformer *transformer)
{
  return rows_at_once(transformer) == 1;
}

int32_t tsr_search_can_shrink(const tsr_search *search, int32_t n_open)
{
  int32_t batch = rows_for(search, n_open);
  if (tsr_search_is_frugal(search->transformer)) {
    return n_open > 0 && batch < search->batch;
  }
  return n_open > 0 && 2 * batch <= search->batch &&
         (int64_t)search->batch * search->beam >= rows_at_once(search->transformer);
}

/* Fills `from`: whoever has a row below the new count stays; the others take the rows of those that ended. Returns the
 * new count. */
static int32_t choose_rows(const tsr_search *search, int32_t *from)
{
  const tsr_sentence *sentences = search->sentences;
  int32_t n_open = 0;
  for (int32_t i = 0; i < search->count; i++) {
    n_open += sentences[i].is_open;
  }
  int32_t next = n_open;
  for (int32_t i = 0; i < n_open; i++) {
    from[i] = i;
    if (!sentences[i].is_open) {
      while (!sentences[next].is_open) {
        next++;
      }
      from[i] = next++;
    }
  }
  return n_open;
}

/* Positions of the cache that a sentence has filled. */
static int32_t used_positions(const tsr_sentence *sentence)
{
  return sentence->length - 1 > sentence->prefilled ? sentence->length - 1 : sentence->prefilled;
}

/* Through the host, row by row: only what moves, and of that what is used. Each row costs time, wherever it passes. */
static tsr_status move_rows(const tsr_search *search, const int32_t *from, int32_t n_open)
{
  const tsr_transformer *t = search->transformer;
  for (int32_t i = 0; i < n_open; i++) {
    const tsr_sentence *sentence = &search->sentences[from[i]];
    if (from[i] == i) {
      continue;
    }
    if (t->model->config.encoder_layers > 0) {
      TSR_TRY(tsr_transformer_copy_rows(t, &t->cross, search->source_room, sentence->n_source, from[i], i, 1));
    }
    TSR_TRY(tsr_transformer_copy_rows(t, &t->self, search->capacity, used_positions(sentence),
                                      (int64_t)from[i] * search->beam, (int64_t)i * search->beam, search->beam));
  }
  return TSR_OK;
}

/* On the device, in one run. batch: the new number of rows; those behind n_open are anything. */
static tsr_status move_on_device(const tsr_search *search, int32_t batch, const int32_t *from, int32_t n_open)
{
  int32_t n = batch * search->beam;
  tsr_program_key key = {
      .kind = TSR_PROGRAM_MOVE,
      .size = {.batch = search->batch, .source = search->source_room, .target = search->capacity, .beam = search->beam},
      .moved = batch};
  tsr_compiled *move = NULL;
  int32_t *places = calloc((size_t)batch + (size_t)n, sizeof *places);
  if (!places) {
    return tsr_fail_memory(((size_t)batch + (size_t)n) * sizeof *places);
  }
  for (int32_t i = 0; i < batch; i++) {
    places[i] = i < n_open ? from[i] : 0;
    for (int32_t k = 0; k < search->beam; k++) {
      places[batch + i * search->beam + k] = places[i] * search->beam + k;
    }
  }
  tsr_status status = tsr_transformer_compile(search->transformer, &key, &move);
  if (status == TSR_OK && move->refs.from != TSR_NONE) {
    status = tsr_executable_write(move->executable, move->refs.from, places, batch * (int64_t)sizeof *places);
  }
  if (status == TSR_OK) {
    status = tsr_executable_write(move->executable, move->refs.from_rows, places + batch, n * (int64_t)sizeof *places);
  }
  free(places);
  return status == TSR_OK ? tsr_transformer_run(search->transformer, move, 1.0) : status;
}

/* Has the first rows hold the open sentences. */
static tsr_status gather_open(tsr_search *search, int32_t batch, const int32_t *from, int32_t n_open)
{
  int32_t moves = 0;
  for (int32_t i = 0; i < n_open; i++) {
    moves += from[i] != i;
  }
  if (moves > 0) {
    TSR_TRY(tsr_search_is_frugal(search->transformer) ? move_rows(search, from, n_open)
                                                      : move_on_device(search, batch, from, n_open));
  }
  for (int32_t i = 0; i < n_open; i++) {
    if (from[i] != i) {
      search->kind->move(search->own, from[i], i);
      search->sentences[i] = search->sentences[from[i]];
      search->sentences[from[i]].is_open = 0;
      search->lengths[i] = search->lengths[from[i]];
    }
  }
  return TSR_OK;
}

tsr_status tsr_search_shrink(tsr_search *search)
{
  int32_t *from = malloc((size_t)search->count * sizeof *from);
  if (!from) {
    return tsr_fail_memory((size_t)search->count * sizeof *from);
  }
  int32_t n_open = choose_rows(search, from);
  int32_t batch = rows_for(search, n_open);
  tsr_status status = gather_open(search, batch, from, n_open);
  free(from);
  search->count = n_open;
  search->batch = batch;
  for (int32_t i = n_open; i < batch; i++) {
    search->lengths[i] = 0;
  }
  search->step = NULL;
  return status;
}

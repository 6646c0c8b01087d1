/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/generate/batches.h"
#include "core/generate/shortlist.h"

enum {
  MIN_CAPACITY = 32,
  MIN_ROWS = 4 /* of a program: fewer hardly make a step shorter */
};

/* Positions that the longest result needs: its last token is never fed back. */
static int32_t needed_positions(const tsr_search *search)
{
  return search->options->max_length - 1;
}

static int32_t capacity_for(const tsr_search *search, int32_t positions)
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

int32_t tsr_search_rows(const tsr_generate_options *options)
{
  return options->sample ? options->n_best : options->beam;
}

int32_t tsr_search_is_beam(const tsr_generate_options *options)
{
  return options->beam > 1 || options->search == TSR_SEARCH_MARIAN;
}

int32_t tsr_search_beam_candidates(const tsr_generate_options *options)
{
  return (options->n_eos > 1 ? 1 + options->n_eos : 2) * options->beam;
}

/* Who chooses, and among how many. */
static void choose_candidates(tsr_search *search)
{
  const tsr_generate_options *options = search->options;
  int32_t vocabulary = search->filter.vocabulary;
  search->is_by_row = tsr_filter_is_by_row(options);
  search->fed_back = !tsr_search_is_beam(options) && !options->sample && !options->scores && !search->is_by_row;
  search->wanted = tsr_search_is_beam(options) ? tsr_search_beam_candidates(options)
                   : !options->sample          ? 1
                   : options->top_k > 0        ? options->top_k
                                               : vocabulary;
  search->wanted = search->wanted < vocabulary ? search->wanted : vocabulary;
  if (!search->fed_back && !(tsr_search_is_beam(options) && options->renormalize)) {
    enum { FIRST_ROOM = 8 };
    search->room = tsr_filter_shared(options) + (search->is_by_row ? FIRST_ROOM : 0);
  }
  search->whole =
      tsr_filter_may_raise(options) || (tsr_search_is_beam(options) && options->renormalize && search->is_by_row);
}

/* 1 if the program has a mask. */
static int32_t is_masked(const tsr_search *search)
{
  return search->fed_back ||
         (tsr_search_is_beam(search->options) && search->options->renormalize && !search->is_by_row);
}

tsr_status tsr_search_init(tsr_search *search, tsr_transformer *transformer, const tsr_generate_options *options,
                           int32_t count, int32_t batch, const int32_t *lengths)
{
  int32_t vocabulary = transformer->model->config.target_vocabulary;
  int32_t max_positions = transformer->model->config.max_positions;
  int32_t room = tsr_source_bucket(lengths[0], max_positions);
  *search = (tsr_search){.transformer = transformer,
                         .options = options,
                         .count = count,
                         .batch = batch,
                         .source_room = room,
                         .beam = tsr_search_rows(options),
                         .columns = vocabulary,
                         .mask_phase = -1};
  search->source = tsr_search_is_frugal(transformer) ? tsr_source_step(lengths[0], max_positions) : room;
  search->capacity = capacity_for(search, room + room / 2);
  TSR_TRY(tsr_filter_init(&search->filter, options, vocabulary));
  choose_candidates(search);
  if (options->attention || options->coverage_penalty > 0.0f) {
    size_t size = (size_t)batch * (size_t)search->beam * (size_t)room * sizeof *search->attention;
    search->attention = malloc(size);
    if (!search->attention) {
      tsr_search_finish(search);
      return tsr_fail_memory(size);
    }
  }
  search->lengths = malloc((size_t)batch * sizeof *lengths);
  search->sentence = malloc((size_t)count * sizeof *search->sentence);
  search->normalisers = calloc((size_t)batch * (size_t)search->beam, sizeof *search->normalisers);
  search->mask = is_masked(search) ? malloc((size_t)vocabulary * sizeof *search->mask) : NULL;
  if (!search->lengths || !search->sentence || !search->normalisers || (is_masked(search) && !search->mask)) {
    tsr_search_finish(search);
    return tsr_fail_memory((size_t)batch * sizeof *lengths);
  }
  tsr_status status = tsr_flight_init(search);
  if (status != TSR_OK) {
    tsr_search_finish(search);
    return status;
  }
  memcpy(search->lengths, lengths, (size_t)batch * sizeof *lengths);
  for (int32_t i = 0; i < count; i++) {
    search->sentence[i] = i;
  }
  return TSR_OK;
}

void tsr_search_finish(tsr_search *search)
{
  tsr_filter_finish(&search->filter);
  free(search->attention);
  free(search->flight.tokens);
  free(search->flight.logits);
  free(search->chosen);
  free(search->mask);
  free(search->lengths);
  free(search->sentence);
  free(search->scores);
  free(search->values);
  free(search->indices);
  free(search->normalisers);
  *search = (tsr_search){0};
}

tsr_status tsr_search_choose_tokens(tsr_search *search)
{
  const tsr_generate_options *options = search->options;
  const tsr_transformer_config *config = &search->transformer->model->config;
  tsr_token_set set;
  if (!options->shortlist) {
    return TSR_OK;
  }
  TSR_TRY(tsr_token_set_init(&set, options->shortlist, config->target_vocabulary));
  tsr_token_set_add(&set, config->unk_id);
  tsr_token_set_add(&set, options->forced_bos_id); /* -1 is none */
  tsr_token_set_add(&set, options->forced_eos_id);
  for (int32_t i = 0; i < options->n_eos; i++) {
    tsr_token_set_add(&set, options->eos[i]);
  }
  for (int32_t i = 0; i < search->count; i++) {
    tsr_token_set_add_source(&set, options->shortlist, search->texts[search->numbers[i]], search->lengths[i]);
  }
  tsr_status status = tsr_token_set_list(&set, &search->chosen, &search->n_chosen);
  tsr_token_set_finish(&set);
  if (status == TSR_OK) {
    search->columns = search->n_chosen;
    search->wanted = search->wanted < search->columns ? search->wanted : search->columns;
  }
  return status;
}

tsr_status tsr_search_encode(tsr_search *search, const int32_t *source)
{
  tsr_transformer *t = search->transformer;
  int64_t tokens = (int64_t)search->batch * search->source;
  TSR_TRY(tsr_transformer_reserve(t, (int64_t)search->batch * search->source_room,
                                  (int64_t)search->batch * search->beam * search->capacity));
  if (t->model->config.encoder_layers == 0) {
    return TSR_OK;
  }
  tsr_program_key key = {.kind = TSR_PROGRAM_ENCODE,
                         .size = {.batch = search->batch, .source = search->source},
                         .source_room = search->source_room,
                         .shortlist = search->n_chosen};
  tsr_compiled *encode = NULL;
  TSR_TRY(tsr_transformer_compile(t, &key, &encode));
  double start = tsr_seconds();
  TSR_TRY(tsr_executable_write(encode->executable, encode->refs.source, source, tokens * (int64_t)sizeof *source));
  TSR_TRY(tsr_executable_write(encode->executable, encode->refs.source_lengths, search->lengths,
                               search->batch * (int64_t)sizeof *search->lengths));
  if (search->chosen) {
    TSR_TRY(tsr_executable_write(encode->executable, encode->refs.chosen, search->chosen,
                                 search->n_chosen * (int64_t)sizeof *search->chosen));
  }
  TSR_TRY(tsr_transformer_run(t, encode, 1.0));
  t->work.encode_seconds += tsr_seconds() - start;
  t->work.encode_runs++;
  return TSR_OK;
}

/* Positions that every prompt fills: the start token and all but the last of its tokens. */
static int32_t common_positions(const tsr_search *search)
{
  int32_t least = search->prompts ? INT32_MAX : 0;
  for (int32_t i = 0; i < search->count && least > 0; i++) {
    int32_t n = tsr_search_prompt(search, i).n;
    least = n < least ? n : least;
  }
  return least;
}

static tsr_status run_prefill(tsr_search *search, const tsr_program_key *key, int32_t *ids)
{
  for (int32_t b = 0; b < search->batch; b++) {
    tsr_prompt prompt = b < search->count ? tsr_search_prompt(search, b) : (tsr_prompt){0};
    for (int32_t i = 0; i < key->positions; i++) {
      ids[(size_t)b * (size_t)key->positions + (size_t)i] = i > 0 && i <= prompt.n ? prompt.ids[i - 1]
                                                            : prompt.start         ? *prompt.start
                                                                                   : search->options->decoder_start_id;
    }
  }
  tsr_compiled *prefill = NULL;
  TSR_TRY(tsr_transformer_compile(search->transformer, key, &prefill));
  TSR_TRY(tsr_executable_write(prefill->executable, prefill->refs.target, ids,
                               (int64_t)search->batch * key->positions * (int64_t)sizeof *ids));
  if (prefill->refs.source_lengths != TSR_NONE) {
    TSR_TRY(tsr_executable_write(prefill->executable, prefill->refs.source_lengths, search->lengths,
                                 search->batch * (int64_t)sizeof *search->lengths));
  }
  return tsr_transformer_run(search->transformer, prefill, 1.0);
}

tsr_status tsr_search_prefill(tsr_search *search)
{
  enum { LEAST = 3, MOST_ROWS = 16, ROUND = 8 };
  int32_t is_beam = tsr_search_is_beam(search->options);
  int32_t n = common_positions(search);
  if (n < LEAST || search->attention || (!is_beam && search->beam > MOST_ROWS)) {
    return TSR_OK;
  }
  if (search->capacity < n) {
    search->capacity = capacity_for(search, n + n / 2); /* nothing is in the cache yet */
  }
  /* What is kept beyond the prompt is written anew before it is read. */
  int32_t positions = (n + ROUND - 1) / ROUND * ROUND;
  tsr_program_key key = {
      .kind = TSR_PROGRAM_PREFILL,
      .size = {.batch = search->batch, .source = search->source_room, .target = search->capacity, .beam = search->beam},
      .logits = !is_beam,
      .positions = positions < search->capacity ? positions : search->capacity};
  size_t size = (size_t)search->batch * (size_t)key.positions * sizeof(int32_t);
  int32_t *ids = malloc(size);
  if (!ids) {
    return tsr_fail_memory(size);
  }
  double start = tsr_seconds();
  tsr_status status = run_prefill(search, &key, ids);
  free(ids);
  search->prefilled = n;
  search->transformer->work.step_seconds += tsr_seconds() - start;
  search->transformer->work.step_runs++;
  return status;
}

tsr_status tsr_search_grow(tsr_search *search, int32_t position)
{
  if (position < search->capacity) {
    return TSR_OK;
  }
  int32_t capacity = capacity_for(search, 2 * search->capacity);
  search->step = NULL;
  TSR_TRY(tsr_transformer_grow_cache(search->transformer, search->batch, search->beam, search->capacity, capacity));
  search->capacity = capacity;
  return TSR_OK;
}

/* ---- fewer rows -------------------------------------------------------------------------------------------------- */

static int32_t rows_for(const tsr_search *search, int32_t n_open)
{
  int32_t least = search->beam < MIN_ROWS ? MIN_ROWS / search->beam : 1;
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
static int32_t choose_rows(const tsr_search *search, const int32_t *open, int32_t *from)
{
  int32_t n_open = 0;
  for (int32_t i = 0; i < search->count; i++) {
    n_open += open[i] != 0;
  }
  int32_t next = n_open;
  for (int32_t i = 0; i < n_open; i++) {
    from[i] = i;
    if (!open[i]) {
      while (!open[next]) {
        next++;
      }
      from[i] = next++;
    }
  }
  return n_open;
}

/* Through the host, row by row: only what moves, and of that what is used. Each row costs time, wherever it passes. */
static tsr_status move_rows(const tsr_search *search, int32_t used, const int32_t *from, int32_t n_open)
{
  const tsr_transformer *t = search->transformer;
  for (int32_t i = 0; i < n_open; i++) {
    if (from[i] == i) {
      continue;
    }
    if (t->model->config.encoder_layers > 0) {
      TSR_TRY(tsr_transformer_copy_rows(t, &t->cross, search->source_room, search->lengths[i], from[i], i, 1));
    }
    TSR_TRY(tsr_transformer_copy_rows(t, &t->self, search->capacity, used, (int64_t)from[i] * search->beam,
                                      (int64_t)i * search->beam, search->beam));
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

tsr_status tsr_search_shrink(tsr_search *search, int32_t used, const int32_t *open, int32_t *from)
{
  int32_t n_open = choose_rows(search, open, from);
  used = used > search->prefilled ? used : search->prefilled;
  int32_t batch = rows_for(search, n_open);
  int32_t moves = 0;
  for (int32_t i = 0; i < n_open; i++) {
    search->lengths[i] = search->lengths[from[i]];
    search->sentence[i] = search->sentence[from[i]];
    moves += from[i] != i;
  }
  if (moves > 0) {
    TSR_TRY(tsr_search_is_frugal(search->transformer) ? move_rows(search, used, from, n_open)
                                                      : move_on_device(search, batch, from, n_open));
  }
  search->count = n_open;
  search->batch = batch;
  for (int32_t i = n_open; i < batch; i++) {
    search->lengths[i] = 0;
  }
  search->step = NULL;
  return TSR_OK;
}

/* ---- what both searches ask -------------------------------------------------------------------------------------- */

double tsr_search_score(const tsr_generate_options *options, double sum, int32_t generated)
{
  double n = (double)generated;
  if (options->search == TSR_SEARCH_MARIAN) {
    sum -= (double)options->word_penalty * n;
  }
  return sum / pow(options->length_kind == TSR_LENGTH_GNMT ? (5.0 + n) / 6.0 : n, (double)options->length_penalty);
}

float tsr_search_head_share(const tsr_search *search)
{
  return 1.0f / (float)search->transformer->model->config.decoder_heads;
}

void tsr_search_hand_over(const tsr_search *search, int32_t sentence, float *attention, tsr_hypothesis *hypothesis)
{
  if (!search->options->attention) {
    free(attention);
    return;
  }
  hypothesis->attention = attention;
  hypothesis->n_source = search->lengths[sentence];
}

int32_t tsr_search_tell(const tsr_search *search, int32_t sentence, int32_t hypothesis, int32_t step, int32_t id,
                        int32_t is_last)
{
  const tsr_generate_options *options = search->options;
  if (!options->token) {
    return 0;
  }
  const tsr_token token = {.sentence = search->numbers[search->sentence[sentence]],
                           .hypothesis = hypothesis,
                           .step = step,
                           .id = id,
                           .is_last = is_last};
  pthread_mutex_lock(search->lock);
  int32_t answer = options->token(options->token_user, &token);
  pthread_mutex_unlock(search->lock);
  return answer;
}

int32_t tsr_search_is_end(const tsr_generate_options *options, int32_t token)
{
  for (int32_t i = 0; i < options->n_eos; i++) {
    if (options->eos[i] == token) {
      return 1;
    }
  }
  return 0;
}

tsr_prompt tsr_search_prompt(const tsr_search *search, int32_t sentence)
{
  return search->prompts ? search->prompts[search->numbers[search->sentence[sentence]]] : (tsr_prompt){0};
}

int32_t tsr_search_forced(const tsr_search *search, int32_t sentence, int32_t length)
{
  const tsr_generate_options *options = search->options;
  tsr_prompt prompt = tsr_search_prompt(search, sentence);
  if (length <= prompt.n) {
    return prompt.ids[length - 1];
  }
  if (options->forced_eos_id >= 0 && length == options->max_length - 1) {
    return options->forced_eos_id;
  }
  return length == 1 ? options->forced_bos_id : -1;
}

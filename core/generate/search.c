/* SPDX-License-Identifier: Apache-2.0 */
#include "core/generate/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/generate/batches.h"

enum {
  MIN_CAPACITY = 32,
  MIN_ROWS = 4 /* of a program: fewer hardly make a step shorter */
};

/* Whether what is banned depends on the tokens of a row. */
static int bans_by_row(const tsr_generate_options *options)
{
  return options->no_repeat_ngram > 0 || options->n_words > 0;
}

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

static void set_batch(tsr_search *search, int32_t count, int32_t batch)
{
  search->count = count;
  search->batch = batch;
  search->mask_rows = bans_by_row(search->options) ? batch * search->beam : 1;
}

tsr_status tsr_search_init(tsr_search *search, tsr_transformer *transformer, const tsr_generate_options *options,
                           int32_t count, int32_t batch, const int32_t *lengths)
{
  int32_t vocabulary = transformer->model->config.target_vocabulary;
  int32_t max_positions = transformer->model->config.max_positions;
  int32_t room = tsr_source_bucket(lengths[0], max_positions);
  *search = (tsr_search){
      .transformer = transformer, .options = options, .source_room = room, .beam = options->beam, .eos_banned = -1};
  search->source = tsr_search_is_frugal(transformer) ? tsr_source_step(lengths[0], max_positions) : room;
  set_batch(search, count, batch);
  if (search->beam > 1 && !options->renormalize && !bans_by_row(options)) {
    search->banned = options->n_suppressed + (options->min_length > 1);
  }
  search->capacity = capacity_for(search, room + room / 2);
  size_t size = (size_t)search->mask_rows * (size_t)vocabulary * sizeof(float);
  search->mask = malloc(size);
  search->lengths = malloc((size_t)batch * sizeof *lengths);
  search->sentence = malloc((size_t)count * sizeof *search->sentence);
  if (!search->mask || !search->lengths || !search->sentence) {
    tsr_search_finish(search);
    return tsr_fail_memory(size);
  }
  memcpy(search->lengths, lengths, (size_t)batch * sizeof *lengths);
  for (int32_t i = 0; i < count; i++) {
    search->sentence[i] = i;
  }
  return TSR_OK;
}

void tsr_search_finish(tsr_search *search)
{
  free(search->mask);
  free(search->lengths);
  free(search->sentence);
  *search = (tsr_search){0};
}

tsr_status tsr_search_encode(tsr_search *search, const int32_t *source)
{
  tsr_transformer *t = search->transformer;
  int64_t tokens = (int64_t)search->batch * search->source;
  TSR_TRY(tsr_transformer_reserve(t, (int64_t)search->batch * search->source_room,
                                  (int64_t)search->batch * search->beam * search->capacity));
  tsr_program_key key = {.kind = TSR_PROGRAM_ENCODE,
                         .size = {.batch = search->batch, .source = search->source},
                         .source_room = search->source_room};
  tsr_compiled *encode = NULL;
  TSR_TRY(tsr_transformer_compile(t, &key, &encode));
  double start = tsr_seconds();
  TSR_TRY(tsr_executable_write(encode->executable, encode->source, source, tokens * (int64_t)sizeof *source));
  TSR_TRY(tsr_executable_write(encode->executable, encode->source_lengths, search->lengths,
                               search->batch * (int64_t)sizeof *search->lengths));
  TSR_TRY(tsr_transformer_run(t, encode, 1.0));
  t->work.encode_seconds += tsr_seconds() - start;
  t->work.encode_runs++;
  return TSR_OK;
}

/* ---- the mask ---------------------------------------------------------------------------------------------------- */

static void fill_row(const tsr_search *search, float *row, int32_t ban_eos)
{
  const tsr_transformer_config *config = &search->transformer->model->config;
  memset(row, 0, (size_t)config->target_vocabulary * sizeof *row);
  for (int32_t i = 0; i < search->options->n_suppressed; i++) {
    row[search->options->suppressed[i]] = -INFINITY;
  }
  if (ban_eos) {
    row[config->eos_id] = -INFINITY;
  }
}

/* Bans each token that would complete n tokens which already stand somewhere in ids. */
static void ban_repeats(float *row, const int32_t *ids, int32_t length, int32_t n)
{
  for (int32_t i = 0; i + n <= length; i++) {
    if (memcmp(ids + i, ids + length - (n - 1), (size_t)(n - 1) * sizeof *ids) == 0) {
      row[ids[i + n - 1]] = -INFINITY;
    }
  }
}

/* Bans the last token of each word whose others end ids. A word longer than ids is left alone, as in the original. */
static void ban_words(float *row, const int32_t *ids, int32_t length, const tsr_generate_options *options)
{
  for (int32_t i = 0; i < options->n_words; i += 1 + options->words[i]) {
    const int32_t *word = options->words + i + 1;
    int32_t before = options->words[i] - 1;
    if (before < length && memcmp(ids + length - before, word, (size_t)before * sizeof *ids) == 0) {
      row[word[before]] = -INFINITY;
    }
  }
}

/* Brings the mask up to date for hypotheses of `length` tokens. Returns 1 if it changed. */
static int32_t update_mask(tsr_search *search, int32_t length, tsr_search_ids_fn ids, const void *user)
{
  int32_t ban_eos = length < search->options->min_length;
  int32_t n = search->options->no_repeat_ngram;
  int by_row = bans_by_row(search->options);
  if (!by_row && ban_eos == search->eos_banned) {
    return 0;
  }
  search->eos_banned = ban_eos;
  for (int32_t r = 0; r < search->mask_rows; r++) {
    float *row = search->mask + (size_t)r * (size_t)search->transformer->model->config.target_vocabulary;
    const int32_t *tokens = by_row ? ids(user, r) : NULL;
    fill_row(search, row, ban_eos);
    if (tokens) {
      ban_words(row, tokens, length, search->options);
    }
    if (tokens && n > 0) {
      ban_repeats(row, tokens, length, n);
    }
  }
  return 1;
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static tsr_status compile_step(tsr_search *search, int32_t *renewed)
{
  tsr_program_key key = {.kind = search->beam == 1 ? TSR_PROGRAM_GREEDY : TSR_PROGRAM_BEAM,
                         .size = {.batch = search->batch,
                                  .source = search->source_room,
                                  .target = search->capacity,
                                  .beam = search->beam == 1 ? 0 : search->beam},
                         .suppress_rows = bans_by_row(search->options),
                         .renormalize = search->beam > 1 && search->options->renormalize,
                         .banned = search->banned};
  tsr_compiled *step = NULL;
  TSR_TRY(tsr_transformer_compile(search->transformer, &key, &step));
  *renewed = 1;
  search->step = step;
  return tsr_executable_write(step->executable, step->source_lengths, search->lengths,
                              search->batch * (int64_t)sizeof *search->lengths);
}

tsr_status tsr_search_prepare(tsr_search *search, int32_t position, tsr_search_ids_fn ids, const void *user,
                              int32_t *renewed)
{
  *renewed = 0;
  if (position >= search->capacity) {
    int32_t capacity = capacity_for(search, 2 * search->capacity);
    search->step = NULL;
    TSR_TRY(tsr_transformer_widen_cache(search->transformer, (int64_t)search->batch * search->beam, search->capacity,
                                        capacity, position));
    search->capacity = capacity;
  }
  if (!search->step) {
    TSR_TRY(compile_step(search, renewed));
  }
  int32_t changed = update_mask(search, position + 1, ids, user);
  if ((changed || *renewed) && search->step->suppress != TSR_NONE) {
    int64_t size = (int64_t)search->mask_rows * search->transformer->model->config.target_vocabulary *
                   (int64_t)sizeof *search->mask;
    TSR_TRY(tsr_executable_write(search->step->executable, search->step->suppress, search->mask, size));
  }
  return TSR_OK;
}

tsr_status tsr_search_run(tsr_search *search, int32_t position, tsr_ref values, float *to_values, tsr_ref indices,
                          int32_t *to_indices, int32_t n)
{
  tsr_executable *executable = search->step->executable;
  if (search->stopped && atomic_load(search->stopped)) {
    return tsr_fail(TSR_ERR_INTERNAL, "the search was stopped at step %d", (int)position);
  }
  double start = tsr_seconds();
  double share = ((double)position + 1.0) / search->step->key.size.target;
  TSR_TRY(tsr_transformer_run(search->transformer, search->step, share));
  TSR_TRY(tsr_executable_read(executable, values, to_values, n * (int64_t)sizeof *to_values));
  TSR_TRY(tsr_executable_read(executable, indices, to_indices, n * (int64_t)sizeof *to_indices));
  search->transformer->work.step_seconds += tsr_seconds() - start;
  search->transformer->work.step_runs++;
  int32_t vocabulary = search->transformer->model->config.target_vocabulary;
  for (int32_t i = 0; i < n; i++) {
    if (to_indices[i] < 0 || to_indices[i] >= vocabulary) {
      return tsr_fail(TSR_ERR_INTERNAL, "%s chose the token %d at step %d; the vocabulary has the ids 0 to %d",
                      tsr_device_name(search->transformer->device), (int)to_indices[i], (int)position,
                      (int)vocabulary - 1);
    }
  }
  int32_t real = n / search->batch * search->count;
  for (int32_t i = 0; i < real; i++) {
    if (isnan(to_values[i])) {
      return tsr_fail(TSR_ERR_FORMAT,
                      "%s: the logits of step %d hold NaN: the weights are damaged, or too large for their type",
                      search->transformer->model->folder, (int)position);
    }
  }
  return TSR_OK;
}

void tsr_search_ban(const tsr_search *search, float *values, const int32_t *tokens, int32_t n)
{
  if (search->step->suppress != TSR_NONE) {
    return;
  }
  for (int32_t i = 0; i < n; i++) {
    values[i] += search->mask[tokens[i]];
  }
}

/* ---- fewer rows -------------------------------------------------------------------------------------------------- */

static int32_t rows_for(const tsr_search *search, int32_t n_open)
{
  int32_t least = search->beam < MIN_ROWS ? MIN_ROWS / search->beam : 1;
  return tsr_batch_bucket(n_open > least ? n_open : least);
}

int32_t tsr_search_is_frugal(const tsr_transformer *transformer)
{
  int32_t type = tsr_device_get_properties(transformer->device)->type;
  return type == TSR_DEVICE_CPU || type == TSR_DEVICE_REFERENCE;
}

int32_t tsr_search_can_shrink(const tsr_search *search, int32_t n_open)
{
  return tsr_search_is_frugal(search->transformer) && n_open > 0 && rows_for(search, n_open) < search->batch;
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

tsr_status tsr_search_shrink(tsr_search *search, int32_t used, const int32_t *open, int32_t *from)
{
  const tsr_transformer *t = search->transformer;
  int32_t n_open = choose_rows(search, open, from);
  for (int32_t i = 0; i < n_open; i++) {
    if (from[i] == i) {
      continue;
    }
    search->lengths[i] = search->lengths[from[i]];
    search->sentence[i] = search->sentence[from[i]];
    TSR_TRY(tsr_transformer_copy_rows(t, &t->cross, search->source_room, search->lengths[i], from[i], i, 1));
    TSR_TRY(tsr_transformer_copy_rows(t, &t->self, search->capacity, used, (int64_t)from[i] * search->beam,
                                      (int64_t)i * search->beam, search->beam));
  }
  set_batch(search, n_open, rows_for(search, n_open));
  for (int32_t i = n_open; i < search->batch; i++) {
    search->lengths[i] = 0;
  }
  search->step = NULL;
  return TSR_OK;
}

/* ---- what both searches ask -------------------------------------------------------------------------------------- */

int32_t tsr_search_forced(const tsr_generate_options *options, int32_t length)
{
  if (options->forced_eos_id >= 0 && length == options->max_length - 1) {
    return options->forced_eos_id;
  }
  return length == 1 ? options->forced_bos_id : -1;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of a search: the program, what changes the scores, and the candidates that are left.
 */
#include <math.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/generate/search.h"

int32_t tsr_search_position(const tsr_search *search, int32_t sentence)
{
  return sentence < search->count && search->sentences[sentence].is_open ? search->sentences[sentence].length - 1 : 0;
}

int32_t tsr_search_last_position(const tsr_search *search)
{
  int32_t last = 0;
  for (int32_t i = 0; i < search->count; i++) {
    int32_t position = tsr_search_position(search, i);
    last = position > last ? position : last;
  }
  return last;
}

/* ---- what changes the scores ------------------------------------------------------------------------------------- */

int32_t tsr_search_begin(const tsr_search *search, const tsr_sentence *sentence)
{
  return search->transformer->model->config.mels > 0 ? sentence->prompt.n_given : 0;
}

/* Marks the tokens of a row. Returns 0 for one that does not matter. */
static int mark_row(tsr_search *search, int32_t row)
{
  const int32_t *tokens = search->kind->ids(search->own, row);
  if (!tokens) {
    return 0;
  }
  const tsr_sentence *sentence = &search->sentences[row / search->beam];
  tsr_filter_mark(&search->filter, &(tsr_filter_row){.ids = tokens,
                                                     .length = sentence->length,
                                                     .n_given = sentence->prompt.n_given,
                                                     .begin = tsr_search_begin(search, sentence),
                                                     .source = sentence->source,
                                                     .source_length = sentence->n_source});
  return 1;
}

/* Brings the masks up to date: a single one for hypotheses of `length` tokens. Returns 1 if they changed. */
static int32_t update_masks(tsr_search *search, int32_t length)
{
  const size_t vocabulary = (size_t)search->filter.vocabulary;
  int32_t phase = search->n_masks > 1 ? 0 : tsr_filter_phase(search->options, search->begin, length);
  if (phase == search->mask_phase) {
    return 0;
  }
  search->mask_phase = phase;
  for (int32_t i = 0; i < search->n_masks; i++) {
    tsr_filter_mask(&search->filter, phase + i, search->mask + (size_t)i * vocabulary);
  }
  /* With a shortlist nothing joins, and there is one mask. */
  for (int32_t i = 0; i < search->n_chosen; i++) {
    search->mask[i] = search->mask[search->chosen[i]]; /* ascending: what is read lies behind what is written */
  }
  return 1;
}

/* Makes room for what any row has to lose. */
static void update_room(tsr_search *search)
{
  int32_t most = 0;
  for (int32_t row = 0; search->is_by_row && !search->whole && row < search->count * search->beam; row++) {
    if (mark_row(search, row)) {
      most = search->filter.n_marked > most ? search->filter.n_marked : most;
    }
  }
  while (search->room < most) {
    search->room *= 2;
  }
  /* Of a small vocabulary, all are candidates. */
  if (search->wanted + search->room > TSR_MAX_CANDIDATES && search->columns > TSR_MAX_CANDIDATES) {
    search->whole = 1;
  }
}

/* ---- a step ------------------------------------------------------------------------------------------------------ */

static tsr_program_key step_key(const tsr_search *search)
{
  tsr_program_key key = {.kind = search->fed_back ? TSR_PROGRAM_GREEDY : TSR_PROGRAM_BEAM,
                         .size = {.batch = search->batch, .source = search->source_room, .target = search->capacity}};
  if (search->options->alignment) {
    key.alignment = search->options->n_alignment_heads;
  } else if (search->attention) {
    int32_t layers = search->transformer->model->config.decoder_layers;
    key.attention = search->options->attention_layer > 0 ? search->options->attention_layer : layers;
    key.attention_heads = (int32_t)search->options->attention_heads;
  }
  key.shortlist = search->n_chosen;
  key.staggered = search->joins;
  key.masks = search->n_masks;
  key.ahead = search->flight.steps > 1 ? TSR_AHEAD_MANY : search->flight.steps;
  if (!search->fed_back) {
    int32_t k = search->wanted + search->room;
    key.size.beam = search->beam;
    key.logits = !tsr_search_is_beam(search->options);
    key.candidates = search->whole ? TSR_WHOLE_ROWS : k < search->columns ? k : search->columns;
    key.normaliser = key.logits && search->options->scores && !search->whole;
  }
  return key;
}

/* Room for what the step returns. */
static tsr_status reserve_found(tsr_search *search, int32_t candidates)
{
  size_t rows = (size_t)search->most * (size_t)search->beam;
  size_t vocabulary = (size_t)search->columns;
  if (candidates == TSR_WHOLE_ROWS && !search->scores) {
    search->scores = malloc(rows * vocabulary * sizeof *search->scores);
    if (!search->scores) {
      return tsr_fail_memory(rows * vocabulary * sizeof *search->scores);
    }
  }
  int32_t k = candidates == TSR_WHOLE_ROWS ? search->wanted : candidates;
  if (k <= search->k) {
    search->k = k;
    return TSR_OK;
  }
  free(search->values);
  free(search->indices);
  search->k = k;
  search->values = malloc(rows * (size_t)k * sizeof *search->values);
  search->indices = malloc(rows * (size_t)k * sizeof *search->indices);
  return search->values && search->indices ? TSR_OK : tsr_fail_memory(rows * (size_t)k * sizeof *search->values);
}

static tsr_status compile_step(tsr_search *search, int32_t *renewed)
{
  tsr_program_key key = step_key(search);
  if (search->step && search->step->key.candidates == key.candidates) {
    return TSR_OK;
  }
  tsr_compiled *step = NULL;
  search->step = NULL;
  tsr_flight_drop(&search->flight);
  TSR_TRY(tsr_transformer_compile(search->transformer, &key, &step));
  if (!search->fed_back) {
    TSR_TRY(reserve_found(search, key.candidates));
  }
  *renewed = 1;
  search->step = step;
  if (search->chosen) {
    TSR_TRY(tsr_executable_write(step->executable, step->refs.chosen, search->chosen,
                                 search->n_chosen * (int64_t)sizeof *search->chosen));
  }
  return step->refs.source_lengths == TSR_NONE
             ? TSR_OK
             : tsr_executable_write(step->executable, step->refs.source_lengths, search->lengths,
                                    search->batch * (int64_t)sizeof *search->lengths);
}

/* The mask of each position. */
static tsr_status write_phases(const tsr_search *search)
{
  const tsr_compiled *step = search->step;
  const size_t size = (size_t)search->capacity * sizeof(int32_t);
  if (step->refs.phases == TSR_NONE) {
    return TSR_OK;
  }
  int32_t *phases = malloc(size);
  if (!phases) {
    return tsr_fail_memory(size);
  }
  for (int32_t position = 0; position < search->capacity; position++) {
    phases[position] = tsr_filter_phase(search->options, search->begin, position + 1);
  }
  tsr_status status = tsr_executable_write(step->executable, step->refs.phases, phases, (int64_t)size);
  free(phases);
  return status;
}

tsr_status tsr_search_prepare(tsr_search *search, int32_t *renewed)
{
  int32_t position = tsr_search_last_position(search);
  *renewed = 0;
  TSR_TRY(tsr_search_grow(search, position));
  update_room(search);
  TSR_TRY(compile_step(search, renewed));
  if (!search->mask) {
    return TSR_OK;
  }
  int32_t changed = update_masks(search, position + 1);
  if (!changed && !*renewed) {
    return TSR_OK;
  }
  TSR_TRY(write_phases(search));
  return tsr_executable_write(search->step->executable, search->step->refs.suppress, search->mask,
                              (int64_t)search->n_masks * search->columns * (int64_t)sizeof *search->mask);
}

tsr_status tsr_search_write_positions(tsr_search *search, const tsr_compiled *step, int32_t further)
{
  int32_t n = search->joins ? search->batch * search->beam : 1;
  for (int32_t r = 0; r < n && search->joins; r++) {
    search->positions[r] = tsr_search_position(search, r / search->beam) + further;
  }
  if (!search->joins) {
    search->positions[0] = tsr_search_last_position(search) + further;
  }
  return tsr_executable_write(step->executable, step->refs.position, search->positions,
                              n * (int64_t)sizeof *search->positions);
}

tsr_status tsr_search_write(tsr_search *search, const int32_t *tokens, int32_t further)
{
  const tsr_compiled *step = search->step;
  if (step->refs.log_step != TSR_NONE) {
    const int32_t first = 0;
    search->flight.begun = search->steps + further;
    TSR_TRY(tsr_executable_write(step->executable, step->refs.log_step, &first, (int64_t)sizeof first));
  }
  TSR_TRY(tsr_executable_write(step->executable, step->refs.token, tokens,
                               (int64_t)search->batch * search->beam * (int64_t)sizeof *tokens));
  return tsr_search_write_positions(search, step, further);
}

tsr_status tsr_search_check_stopped(const tsr_search *search)
{
  return search->stopped && atomic_load(search->stopped)
             ? tsr_fail(TSR_ERR_INTERNAL, "the search was stopped at step %lld", (long long)search->steps)
             : TSR_OK;
}

tsr_status tsr_search_read_attention(const tsr_search *search, tsr_executable *executable)
{
  const tsr_program_refs *refs = &search->step->refs;
  const tsr_ref from = search->options->alignment ? refs->alignment : refs->attention;
  const int64_t rows = (int64_t)search->batch * search->beam;
  const int64_t size = rows * tsr_search_attention_width(search) * (int64_t)sizeof *search->attention;
  return search->attention ? tsr_executable_read(executable, from, search->attention, size) : TSR_OK;
}

static tsr_status run_step(tsr_search *search)
{
  TSR_TRY(tsr_search_check_stopped(search));
  double share = ((double)tsr_search_last_position(search) + 1.0) / search->step->key.size.target;
  TSR_TRY(tsr_transformer_run(search->transformer, search->step, share));
  TSR_TRY(tsr_search_read_attention(search, search->step->executable));
  search->transformer->work.step_runs++;
  return TSR_OK;
}

static tsr_status check_indices(const tsr_search *search, const int32_t *indices, size_t n)
{
  int32_t vocabulary = search->filter.vocabulary;
  for (size_t i = 0; i < n; i++) {
    if (indices[i] < 0 || indices[i] >= vocabulary) {
      return tsr_fail(TSR_ERR_INTERNAL, "%s chose the token %d at step %lld; the vocabulary has the ids 0 to %d",
                      tsr_device_name(search->transformer->device), (int)indices[i], (long long)search->steps,
                      (int)vocabulary - 1);
    }
  }
  return TSR_OK;
}

/* scores [rows][columns] of the rows from `first` on. */
static tsr_status check_scores(tsr_search *search, int32_t first, size_t rows, size_t columns, const float *scores)
{
  for (size_t i = 0; i < rows * columns; i++) {
    int32_t row = first + (int32_t)(i / columns);
    if (isnan(scores[i]) && search->sentences[row / search->beam].is_open) {
      return tsr_search_not_finite(search, row);
    }
  }
  return TSR_OK;
}

static tsr_status run_and_read(tsr_search *search, int32_t *next, float *logits)
{
  const tsr_compiled *step = search->step;
  int64_t n = search->batch;
  TSR_TRY(run_step(search));
  TSR_TRY(tsr_executable_read(step->executable, step->refs.next_logit, logits, n * (int64_t)sizeof *logits));
  return tsr_executable_read(step->executable, step->refs.next, next, n * (int64_t)sizeof *next);
}

tsr_status tsr_search_run_greedy(tsr_search *search, int32_t *next, float *logits)
{
  double start = tsr_seconds();
  TSR_TRY(search->step->ahead ? tsr_flight_take(search, next, logits) : run_and_read(search, next, logits));
  search->transformer->work.step_seconds += tsr_seconds() - start;
  TSR_TRY(check_scores(search, 0, (size_t)search->count, 1, logits));
  return check_indices(search, next, (size_t)search->batch);
}

static double log_of_sum(const float *scores, int32_t n)
{
  float largest = -INFINITY;
  for (int32_t i = 0; i < n; i++) {
    largest = scores[i] > largest ? scores[i] : largest;
  }
  double sum = 0.0;
  for (int32_t i = 0; i < n; i++) {
    sum += exp((double)scores[i] - (double)largest);
  }
  return largest == -INFINITY ? 0.0 : (double)largest + log(sum);
}

/* Puts the best `k` of n scores into values and indices: a heap whose root is the worst of them. */
static void choose_best(const float *scores, int32_t n, int32_t k, float *values, int32_t *indices)
{
  int32_t kept = 0;
  for (int32_t i = 0; i < n; i++) {
    int32_t at = 0;
    if (kept < k) {
      for (at = kept++; at > 0 && values[(at - 1) / 2] >= scores[i]; at = (at - 1) / 2) {
        values[at] = values[(at - 1) / 2];
        indices[at] = indices[(at - 1) / 2];
      }
    } else {
      if (!(scores[i] > values[0])) {
        continue; /* among equals the lower token stays */
      }
      for (int32_t child = 1; child < k; child = 2 * at + 1) {
        if (child + 1 < k && (values[child + 1] < values[child] ||
                              (values[child + 1] == values[child] && indices[child + 1] > indices[child]))) {
          child++;
        }
        if (!(values[child] < scores[i])) {
          break;
        }
        values[at] = values[child];
        indices[at] = indices[child];
        at = child;
      }
    }
    values[at] = scores[i];
    indices[at] = i;
  }
}

/* Whole rows: changes them, and finds the best candidates. */
static tsr_status search_rows(tsr_search *search)
{
  const tsr_generate_options *options = search->options;
  int32_t columns = search->columns;
  for (int32_t r = 0; r < search->count * search->beam; r++) {
    float *row = search->scores + (size_t)r * (size_t)columns;
    TSR_TRY(check_scores(search, r, 1, (size_t)columns, row));
    if (!mark_row(search, r)) {
      continue;
    }
    if (options->scores && !tsr_search_is_beam(options)) {
      search->normalisers[r] = (float)log_of_sum(row, columns);
    }
    tsr_filter_apply(&search->filter, row, search->chosen, columns);
    if (search->has_changed) {
      search->changed[r] = (float)log_of_sum(row, columns);
    }
    if (tsr_search_is_beam(options) && options->renormalize) {
      float sum = (float)log_of_sum(row, columns);
      for (int32_t i = 0; i < columns; i++) {
        row[i] -= sum;
      }
    }
    int32_t *indices = search->indices + (size_t)r * (size_t)search->k;
    choose_best(row, columns, search->k, search->values + (size_t)r * (size_t)search->k, indices);
    for (int32_t i = 0; search->chosen && i < search->k; i++) {
      indices[i] = search->chosen[indices[i]];
    }
  }
  return TSR_OK;
}

/* The best k of each row came back: changes their scores. */
static tsr_status search_candidates(tsr_search *search)
{
  size_t k = (size_t)search->k;
  size_t rows = (size_t)search->batch * (size_t)search->beam;
  size_t open = (size_t)search->count * (size_t)search->beam;
  TSR_TRY(check_scores(search, 0, open, k, search->values));
  TSR_TRY(check_indices(search, search->indices, rows * k));
  for (size_t r = 0; r < open; r++) {
    float *values = search->values + r * k;
    if (search->step->refs.top_log_probability != TSR_NONE) {
      search->normalisers[r] = values[0] - search->normalisers[r];
    }
    if (!search->mask && mark_row(search, (int32_t)r)) {
      tsr_filter_apply(&search->filter, values, search->indices + r * k, search->k);
    }
  }
  return TSR_OK;
}

float tsr_search_log_probability(tsr_search *search, int32_t row, int32_t i)
{
  size_t at = (size_t)row * (size_t)search->k + (size_t)i;
  float logit = search->values[at];
  if (search->is_by_row) {
    mark_row(search, row);
    logit = tsr_filter_undo(&search->filter, logit, search->indices[at]);
  }
  return logit - search->normalisers[row];
}

float tsr_search_changed_log_probability(const tsr_search *search, int32_t row, int32_t i)
{
  return search->values[(size_t)row * (size_t)search->k + (size_t)i] - search->changed[row];
}

tsr_status tsr_search_run_step(tsr_search *search)
{
  const tsr_compiled *step = search->step;
  int64_t rows = (int64_t)search->batch * search->beam;
  int64_t size = rows * search->k * (int64_t)sizeof(float);
  double start = tsr_seconds();
  TSR_TRY(run_step(search));
  if (step->refs.scores != TSR_NONE) {
    TSR_TRY(tsr_executable_read(step->executable, step->refs.scores, search->scores,
                                rows * search->columns * (int64_t)sizeof *search->scores));
  } else {
    TSR_TRY(tsr_executable_read(step->executable, step->refs.values, search->values, size));
    TSR_TRY(tsr_executable_read(step->executable, step->refs.indices, search->indices, size));
  }
  if (step->refs.top_log_probability != TSR_NONE) {
    TSR_TRY(tsr_executable_read(step->executable, step->refs.top_log_probability, search->normalisers,
                                rows * (int64_t)sizeof *search->normalisers));
  }
  search->transformer->work.step_seconds += tsr_seconds() - start;
  return step->refs.scores != TSR_NONE ? search_rows(search) : search_candidates(search);
}

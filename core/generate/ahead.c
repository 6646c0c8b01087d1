/* SPDX-License-Identifier: Apache-2.0
 *
 * Greedy steps that run ahead of the host. The device feeds its token back and counts the position by itself, so the
 * next step needs nothing of the host, and a GPU that waits for it stands still. Steps go to the device N at a time,
 * and the next N follow before the results of the first are read. Each of the two has results of its own, so nothing is
 * overwritten unread.
 *
 * Where the host has to do something between two steps, the second waits for it: where a token is forced, where a mask
 * of all rows changes, where the cache must grow. Nothing runs behind the last step that any sentence may need. Where
 * the rows become fewer, the steps under way are dropped: what they wrote into the cache lies behind what is used, and
 * is written anew before it is read. So each token that is taken was computed as if nothing ran ahead.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/generate/search.h"
#include "core/transformer/ahead.h"

/* N of a search; 0: no step runs ahead. */
static int32_t choose_steps(const tsr_search *search)
{
  const tsr_device_properties *properties = tsr_device_get_properties(search->transformer->device);
  const tsr_generate_options *options = search->options;
  int32_t wanted = ((int32_t)properties->runs_in_hand + 1) / 2; /* of two submits */
  int32_t steps = options->steps_per_submit > 0 ? options->steps_per_submit : wanted;
  if (!search->fed_back || search->transformer->options.profile || properties->concurrent_runs > 1 ||
      properties->runs_in_hand == 0 || (properties->runs_in_hand == 1 && options->steps_per_submit == 0)) {
    return 0;
  }
  return search->attention ? 1 : steps < options->max_length ? steps : options->max_length;
}

tsr_status tsr_flight_init(tsr_search *search)
{
  tsr_flight *f = &search->flight;
  f->steps = choose_steps(search);
  if (f->steps == 0) {
    return TSR_OK;
  }
  size_t n = (size_t)f->steps * (size_t)search->most;
  f->tokens = malloc(n * sizeof *f->tokens);
  f->logits = malloc(n * sizeof *f->logits);
  return f->tokens && f->logits ? TSR_OK : tsr_fail_memory(n * sizeof *f->tokens);
}

void tsr_flight_drop(tsr_flight *flight)
{
  flight->n[0] = flight->n[1] = flight->n_read = 0;
}

int32_t tsr_flight_is_empty(const tsr_search *search)
{
  const tsr_flight *f = &search->flight;
  return f->n[0] == 0 && search->steps >= f->read + f->n_read;
}

/* 1 if the step `further` + 1 behind the one that is computed now can start before the host has seen what the one
 * before it chose. */
static int is_independent(const tsr_search *search, int32_t further)
{
  const tsr_generate_options *options = search->options;
  for (int32_t i = 0; i < search->count; i++) {
    const tsr_sentence *sentence = &search->sentences[i];
    int32_t length = sentence->length + further;         /* tokens that the step before it goes on from */
    int32_t is_last = length + 2 >= options->max_length; /* it chooses the last token */
    if (sentence->is_open &&
        (tsr_search_forced(search, sentence, length) >= 0 || (is_last && options->forced_eos_id >= 0) ||
         (search->n_masks == 1 &&
          tsr_filter_phase(options, search->begin, length) != tsr_filter_phase(options, search->begin, length + 1)))) {
      return 0;
    }
  }
  return 1;
}

/* Steps from now on that some sentence needs and that all have room for, at most `most`. */
static int32_t count_needed(const tsr_search *search, int32_t most)
{
  int32_t needed = 1;
  for (int32_t i = 0; i < search->count; i++) {
    if (search->sentences[i].is_open) {
      int32_t position = tsr_search_position(search, i), left = search->options->max_length - 1 - position;
      int32_t room = search->capacity - position;
      needed = left > needed ? left : needed;
      most = left > room && room < most ? room : most; /* behind its last step nothing of a sentence is read */
    }
  }
  return needed < most ? needed : most;
}

/* Steps that can start now, one behind the other, if that many may: the host has to see nothing between them. */
static int32_t count_independent(const tsr_search *search)
{
  int32_t most = search->is_held ? 1 : count_needed(search, 2 * search->flight.steps), n = 1;
  while (n < most && is_independent(search, n - 1)) {
    n++;
  }
  return n;
}

/* Starts the step that is computed now, and what may run behind it. */
static tsr_status start_steps(tsr_search *search)
{
  tsr_flight *f = &search->flight;
  f->first = search->steps;
  int32_t most = count_independent(search);
  int32_t next = f->n[0] + f->n[1];
  for (int32_t i = 0; i < 2 && next < most; i++) {
    if (f->n[i] > 0) {
      continue;
    }
    int32_t n = most - next < f->steps ? most - next : f->steps;
    TSR_TRY(tsr_search_check_stopped(search));
    TSR_TRY(tsr_ahead_start(search->step->ahead, i == 0 ? f->set : 1 - f->set, n));
    search->transformer->work.step_runs += n;
    f->n[i] = n;
    next += n;
  }
  return TSR_OK;
}

/* Waits for the first of the submits that are under way. */
static tsr_status read_steps(tsr_search *search)
{
  tsr_flight *f = &search->flight;
  const tsr_ahead *ahead = search->step->ahead;
  TSR_TRY(tsr_ahead_read(ahead, f->set, (int32_t)(f->first - f->begun), f->n[0], f->tokens, f->logits));
  TSR_TRY(tsr_search_read_attention(search, ahead->executables[f->set]));
  f->read = f->first;
  f->n_read = f->n[0];
  f->first += f->n[0];
  f->n[0] = f->n[1];
  f->n[1] = 0;
  f->set = 1 - f->set;
  return TSR_OK;
}

tsr_status tsr_flight_take(tsr_search *search, int32_t *next, float *logits)
{
  tsr_flight *f = &search->flight;
  size_t batch = (size_t)search->batch;
  if (f->n_read == 0 || search->steps >= f->read + f->n_read) {
    TSR_TRY(start_steps(search));
    TSR_TRY(read_steps(search));
  }
  size_t at = (size_t)(search->steps - f->read) * batch;
  memcpy(next, f->tokens + at, batch * sizeof *next);
  memcpy(logits, f->logits + at, batch * sizeof *logits);
  return TSR_OK;
}

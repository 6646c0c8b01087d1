/* SPDX-License-Identifier: Apache-2.0
 *
 * A step that gave NaN runs again, line by line, to find out where that came from.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/status.h"
#include "core/generate/search.h"

/* What a step that feeds back read: it has written its own result over it. */
static tsr_status write_tokens(const tsr_search *search, const tsr_compiled *again, int32_t position,
                               tsr_search_ids_fn ids, const void *user)
{
  int32_t n = search->batch * search->beam;
  int32_t *tokens = malloc((size_t)n * sizeof *tokens);
  if (!tokens) {
    return tsr_fail_memory((size_t)n * sizeof *tokens);
  }
  for (int32_t r = 0; r < n; r++) {
    const int32_t *row = r < search->count * search->beam ? ids(user, r) : NULL;
    tokens[r] = row ? row[position] : 0;
  }
  tsr_status status = tsr_executable_write(again->executable, again->refs.token, tokens, n * (int64_t)sizeof *tokens);
  free(tokens);
  return status == TSR_OK
             ? tsr_executable_write(again->executable, again->refs.position, &position, (int64_t)sizeof position)
             : status;
}

static tsr_status repeat_step(const tsr_search *search, int32_t position, tsr_search_ids_fn ids, const void *user,
                              tsr_compiled *again, tsr_fault *fault, int32_t *reads_state)
{
  TSR_TRY(tsr_transformer_again(search->transformer, &search->step->key, again));
  TSR_TRY(tsr_transformer_copy_inputs(search->step, again));
  if (search->fed_back) {
    TSR_TRY(write_tokens(search, again, position, ids, user));
  }
  return tsr_transformer_find_fault(again, fault, reads_state);
}

/* Of the sentences that have a row now. */
static tsr_status repeat_encoder(const tsr_search *search, tsr_compiled *again, tsr_fault *fault)
{
  const tsr_program_key key = {.kind = TSR_PROGRAM_ENCODE,
                               .size = {.batch = search->batch, .source = search->source},
                               .source_room = search->source_room,
                               .shortlist = search->n_chosen};
  size_t n = (size_t)search->batch * (size_t)search->source;
  int32_t *source = calloc(n, sizeof *source);
  if (!source) {
    return tsr_fail_memory(n * sizeof *source);
  }
  for (int32_t b = 0; b < search->count; b++) {
    const int32_t *text = search->texts[search->numbers[search->sentence[b]]];
    for (int32_t i = 0; i < search->lengths[b]; i++) {
      source[(size_t)b * (size_t)search->source + (size_t)i] = text[i];
    }
  }
  int32_t reads_state;
  tsr_status status = tsr_transformer_again(search->transformer, &key, again);
  if (status == TSR_OK) {
    status = tsr_executable_write(again->executable, again->refs.source, source, (int64_t)(n * sizeof *source));
  }
  if (status == TSR_OK) {
    status = tsr_executable_write(again->executable, again->refs.source_lengths, search->lengths,
                                  search->batch * (int64_t)sizeof *search->lengths);
  }
  if (status == TSR_OK && search->chosen) {
    status = tsr_executable_write(again->executable, again->refs.chosen, search->chosen,
                                  search->n_chosen * (int64_t)sizeof *search->chosen);
  }
  if (status == TSR_OK) {
    status = tsr_transformer_find_fault(again, fault, &reads_state);
  }
  free(source);
  return status;
}

tsr_status tsr_search_not_finite(tsr_search *search, int32_t position, int32_t row, tsr_search_ids_fn ids,
                                 const void *user)
{
  tsr_transformer *t = search->transformer;
  tsr_compiled step = {0};
  tsr_compiled encoder = {0};
  tsr_fault fault = {.line = -1};
  tsr_fault earlier = {.line = -1};
  int32_t reads_state = 0;
  char when[64];
  snprintf(when, sizeof when, "at step %d", (int)position);
  tsr_status status = repeat_step(search, position, ids, user, &step, &fault, &reads_state);
  /* Keys and values are the encoder's, or those of earlier steps, which gave numbers. */
  if (status == TSR_OK && (fault.line < 0 || reads_state) && t->model->config.encoder_layers > 0) {
    status = repeat_encoder(search, &encoder, &earlier);
    fault.largest = fmaxf(fault.largest, earlier.largest); /* what it wrote into states of a smaller type */
  }
  if (status != TSR_OK) {
    status = tsr_transformer_not_found(t, when);
  } else if (earlier.line >= 0) {
    status = tsr_transformer_not_finite(t, "in the encoder", &encoder, &earlier);
  } else {
    status = tsr_transformer_not_finite(t, when, &step, &fault);
  }
  tsr_transformer_again_finish(&encoder);
  tsr_transformer_again_finish(&step);
  return tsr_fail_sentence(status, "", search->numbers[search->sentence[row / search->beam]]);
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step that gave NaN read, so that it can run again, line by line.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/status.h"
#include "core/generate/search.h"

/* What a step that feeds back read: it has written its own result over it. */
static tsr_status write_tokens(const tsr_compiled *again, void *user)
{
  tsr_search *search = user;
  int32_t n = search->batch * search->beam;
  int32_t *tokens = calloc((size_t)n, sizeof *tokens);
  if (!tokens) {
    return tsr_fail_memory((size_t)n * sizeof *tokens);
  }
  for (int32_t r = 0; r < search->count * search->beam; r++) {
    const int32_t *row = search->kind->ids(search->own, r);
    tokens[r] = row ? row[tsr_search_position(search, r / search->beam)] : 0;
  }
  tsr_status status = tsr_executable_write(again->executable, again->refs.token, tokens, n * (int64_t)sizeof *tokens);
  free(tokens);
  return status == TSR_OK ? tsr_search_write_positions(search, again, 0) : status;
}

/* Positions that the encoder computes for those that have a row now: some may have joined. */
static int32_t longest_source(const tsr_search *search)
{
  int32_t longest = search->source;
  for (int32_t b = 0; b < search->count; b++) {
    longest = search->lengths[b] > longest ? search->lengths[b] : longest;
  }
  return longest;
}

/* The sentences that have a row now. */
static tsr_status write_source(const tsr_compiled *again, void *user)
{
  const tsr_search *search = user;
  TSR_TRY(tsr_search_write_source(search, again, NULL, search->count));
  return search->chosen ? tsr_executable_write(again->executable, again->refs.chosen, search->chosen,
                                               search->n_chosen * (int64_t)sizeof *search->chosen)
                        : TSR_OK;
}

tsr_status tsr_search_not_finite(tsr_search *search, int32_t row)
{
  const tsr_program_key encoder = {.kind = TSR_PROGRAM_ENCODE,
                                   .size = {.batch = search->batch, .source = longest_source(search)},
                                   .source_room = search->source_room,
                                   .shortlist = search->n_chosen};
  int32_t sentence = row / search->beam;
  char when[64];
  snprintf(when, sizeof when, "at step %d", (int)tsr_search_position(search, sentence));
  const tsr_nan_step step = {.when = when,
                             .ran = search->step,
                             .write_step = search->fed_back ? write_tokens : NULL,
                             .encoder = &encoder,
                             .write_source = write_source,
                             .user = search};
  return tsr_fail_sentence(tsr_transformer_not_finite(search->transformer, &step), "",
                           search->sentences[sentence].index);
}

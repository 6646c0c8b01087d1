/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step that gave NaN read, so that it can run again, line by line.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/status.h"
#include "core/generate/search.h"

/* A step whose last position gave NaN. */
typedef struct nan_position {
  const tsr_search *search;
  int32_t position;
  tsr_search_ids_fn ids;
  const void *user; /* of ids */
} nan_position;

/* What a step that feeds back read: it has written its own result over it. */
static tsr_status write_tokens(const tsr_compiled *again, void *user)
{
  const nan_position *at = user;
  const tsr_search *search = at->search;
  int32_t n = search->batch * search->beam;
  int32_t *tokens = malloc((size_t)n * sizeof *tokens);
  if (!tokens) {
    return tsr_fail_memory((size_t)n * sizeof *tokens);
  }
  for (int32_t r = 0; r < n; r++) {
    const int32_t *row = r < search->count * search->beam ? at->ids(at->user, r) : NULL;
    tokens[r] = row ? row[at->position] : 0;
  }
  tsr_status status = tsr_executable_write(again->executable, again->refs.token, tokens, n * (int64_t)sizeof *tokens);
  free(tokens);
  return status == TSR_OK ? tsr_executable_write(again->executable, again->refs.position, &at->position,
                                                 (int64_t)sizeof at->position)
                          : status;
}

/* The sentences that have a row now. */
static tsr_status write_source(const tsr_compiled *again, void *user)
{
  const nan_position *at = user;
  const tsr_search *search = at->search;
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
  tsr_status status =
      tsr_executable_write(again->executable, again->refs.source, source, (int64_t)(n * sizeof *source));
  free(source);
  TSR_TRY(status);
  TSR_TRY(tsr_executable_write(again->executable, again->refs.source_lengths, search->lengths,
                               search->batch * (int64_t)sizeof *search->lengths));
  return search->chosen ? tsr_executable_write(again->executable, again->refs.chosen, search->chosen,
                                               search->n_chosen * (int64_t)sizeof *search->chosen)
                        : TSR_OK;
}

tsr_status tsr_search_not_finite(tsr_search *search, int32_t position, int32_t row, tsr_search_ids_fn ids,
                                 const void *user)
{
  const tsr_program_key encoder = {.kind = TSR_PROGRAM_ENCODE,
                                   .size = {.batch = search->batch, .source = search->source},
                                   .source_room = search->source_room,
                                   .shortlist = search->n_chosen};
  nan_position at = {.search = search, .position = position, .ids = ids, .user = user};
  char when[64];
  snprintf(when, sizeof when, "at step %d", (int)position);
  const tsr_nan_step step = {.when = when,
                             .ran = search->step,
                             .write_step = search->fed_back ? write_tokens : NULL,
                             .encoder = &encoder,
                             .write_source = write_source,
                             .user = &at};
  return tsr_fail_sentence(tsr_transformer_not_finite(search->transformer, &step), "",
                           search->numbers[search->sentence[row / search->beam]]);
}

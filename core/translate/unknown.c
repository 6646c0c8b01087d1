/* SPDX-License-Identifier: Apache-2.0
 *
 * Unknown tokens of a translation: each becomes the token of the source that it attended to most.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/translate/translate.h"

/* The token of the source that token i attended to most, special ones left out; -1: there is none. */
static int32_t find_attended(const tsr_job *job, const tsr_hypothesis *h, int32_t i, const int32_t *source)
{
  const float *row = h->attention + (size_t)i * (size_t)h->n_source;
  const int32_t unk = job->tokenizer.side[TSR_SIDE_SOURCE].special[TSR_UNK];
  int32_t best = -1;
  for (int32_t s = 0; s < h->n_source; s++) {
    const int is_text = source[s] == unk || !tsr_token_is_special(&job->tokenizer, TSR_SIDE_SOURCE, source[s]);
    if (is_text && (best < 0 || row[s] > row[best])) {
      best = s;
    }
  }
  return best;
}

/* Where the tokens of a part are in the request's text. */
static tsr_status find_spans(const tsr_job *job, int32_t part, tsr_text_span *spans)
{
  size_t at = 0;
  for (int32_t i = 0; i <= part; i++) {
    tsr_text_span *own = malloc(((size_t)job->source.n_ids[i] + 1) * sizeof *own);
    if (!own) {
      return tsr_fail_memory(((size_t)job->source.n_ids[i] + 1) * sizeof *own);
    }
    tsr_status status = tsr_spans_find_source(&job->tokenizer, job->source.ids[i], job->source.n_ids[i], job->text,
                                              job->text_size, &at, own);
    if (i == part) {
      memcpy(spans, own, (size_t)job->source.n_ids[i] * sizeof *own);
    }
    free(own);
    TSR_TRY(status);
  }
  return TSR_OK;
}

/* A token of the source as a piece; one that the vocabulary lacks as it stands in the text. */
static tsr_status take_piece(const tsr_job *job, int32_t id, tsr_text_span span, tsr_replaced *replaced,
                             const char **piece)
{
  if (id != job->tokenizer.side[TSR_SIDE_SOURCE].special[TSR_UNK]) {
    *piece = tsr_tokenizer_token(&job->tokenizer, TSR_SIDE_SOURCE, id);
    return TSR_OK;
  }
  const size_t size = span.end > span.begin ? (size_t)(span.end - span.begin) : 0;
  char *text = tsr_arena_take(&replaced->arena, size + 1);
  if (!text) {
    return tsr_fail_memory(size + 1);
  }
  memcpy(text, job->text + span.begin, size);
  *piece = text;
  return TSR_OK;
}

static tsr_status replace(const tsr_job *job, int32_t part, const tsr_hypothesis *h, const tsr_text_span *spans,
                          tsr_replaced *replaced)
{
  const int32_t unk = job->tokenizer.side[TSR_SIDE_TARGET].special[TSR_UNK];
  const int32_t *source = job->source.ids[part];
  replaced->pieces = tsr_arena_take(&replaced->arena, ((size_t)h->n_ids + 1) * sizeof *replaced->pieces);
  if (!replaced->pieces) {
    return tsr_fail_memory(((size_t)h->n_ids + 1) * sizeof *replaced->pieces);
  }
  for (int32_t i = 0; i < h->n_ids; i++) {
    const int32_t s = h->ids[i] == unk ? find_attended(job, h, i, source) : -1;
    if (s >= 0) {
      TSR_TRY(take_piece(job, source[s], spans[s], replaced, &replaced->pieces[i]));
    }
  }
  return TSR_OK;
}

tsr_status tsr_replaced_find(const tsr_job *job, int32_t part, const tsr_hypothesis *h, tsr_replaced *replaced)
{
  const int32_t unk = job->tokenizer.side[TSR_SIDE_TARGET].special[TSR_UNK];
  int32_t n = 0;
  *replaced = (tsr_replaced){0};
  for (int32_t i = 0; i < h->n_ids; i++) {
    n += h->ids[i] == unk;
  }
  if (n == 0 || !job->replaces || !h->attention || h->n_source > job->source.n_ids[part]) {
    return TSR_OK;
  }
  tsr_text_span *spans = calloc((size_t)job->source.n_ids[part] + 1, sizeof *spans);
  tsr_status status =
      spans ? find_spans(job, part, spans) : tsr_fail_memory((size_t)job->source.n_ids[part] * sizeof *spans);
  if (status == TSR_OK) {
    status = replace(job, part, h, spans, replaced);
  }
  free(spans);
  if (status != TSR_OK) {
    tsr_replaced_finish(replaced);
  }
  return status;
}

void tsr_replaced_finish(tsr_replaced *replaced)
{
  tsr_arena_finish(&replaced->arena);
  *replaced = (tsr_replaced){0};
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Text as it comes: what is final of a part's text is handed over with each token, the parts in their order.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/text/settled.h"
#include "core/translate/translate.h"

/* With the lock of pieces: hands over what is new of the text of the part whose turn it is. */
static tsr_status tell(tsr_job *job, const tsr_text_part *part)
{
  char *text = NULL;
  TSR_TRY(tsr_job_decode(job, part->told, part->replaced.pieces, part->n_told, &text));
  size_t size = strlen(text), end = part->is_whole ? size : tsr_text_settled(text, size);
  if (end > job->told_bytes) {
    job->piece(job->piece_user, job->ticket, text + job->told_bytes, end - job->told_bytes);
    job->told_bytes = end;
  }
  tsr_free(text);
  return TSR_OK;
}

static tsr_status append(tsr_text_part *part, const int32_t *ids, int32_t n)
{
  if (part->told_room < part->n_told + n) {
    int32_t room = 2 * (part->n_told + n) + 64;
    int32_t *told = realloc(part->told, (size_t)room * sizeof *told);
    if (!told) {
      return tsr_fail_memory((size_t)room * sizeof *told);
    }
    part->told = told;
    part->told_room = room;
  }
  if (n > 0) {
    memcpy(part->told + part->n_told, ids, (size_t)n * sizeof *ids);
  }
  part->n_told += n;
  return TSR_OK;
}

int32_t tsr_pieces_receive(void *parts, const tsr_token *token)
{
  tsr_text_part *part = ((tsr_text_part **)parts)[token->sentence];
  tsr_job *job = part->job;
  if (token->hypothesis > 0 || job->replaces) { /* what an unknown token becomes is known at the end */
    return 0;
  }
  pthread_mutex_lock(&job->telling);
  tsr_status status = append(part, &token->id, 1);
  if (status == TSR_OK && job->told_part == part->index) {
    status = tell(job, part);
  }
  job->told_status = status != TSR_OK ? status : job->told_status;
  pthread_mutex_unlock(&job->telling);
  return status != TSR_OK;
}

void tsr_pieces_end(tsr_text_part *part, const tsr_hypothesis *hypothesis)
{
  tsr_job *job = part->job;
  if (!job->piece) {
    return;
  }
  pthread_mutex_lock(&job->telling);
  part->n_told = 0;
  part->is_whole = 1;
  tsr_replaced_finish(&part->replaced);
  tsr_status status = append(part, hypothesis->ids, hypothesis->n_ids);
  if (status == TSR_OK) {
    status = tsr_replaced_find(job, part->index, hypothesis, &part->replaced);
  }
  while (status == TSR_OK && job->told_part < job->source.n_parts) {
    part = &job->parts[job->told_part];
    status = tell(job, part);
    if (!part->is_whole) {
      break;
    }
    job->told_bytes = 0;
    if (++job->told_part < job->source.n_parts) {
      job->piece(job->piece_user, job->ticket, " ", 1);
    }
  }
  job->told_status = status != TSR_OK ? status : job->told_status;
  pthread_mutex_unlock(&job->telling);
}

void tsr_pieces_restart(tsr_text_part *part)
{
  pthread_mutex_lock(&part->job->telling);
  part->n_told = 0;
  pthread_mutex_unlock(&part->job->telling);
}

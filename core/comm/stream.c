/* SPDX-License-Identifier: Apache-2.0 */
#include "core/comm/stream.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/status.h"
#include "core/comm/parts.h"

typedef struct tsr_sum_stream_parts {
  tsr_ordered_sum sum;
  float *values;
  int32_t n_buckets;
  int32_t *piece; /* [n_buckets + 1] with which a bucket begins */
  int32_t has_thread;
  pthread_t thread;
  pthread_mutex_t lock; /* guards what follows */
  pthread_cond_t changed;
  int32_t n_arrays, is_first, is_last;
  int32_t given, done; /* buckets of this round */
  int32_t is_ending;
  tsr_status status; /* the first error */
  char message[1024];
} parts;

static tsr_status add_bucket(parts *p, int32_t bucket)
{
  for (int32_t i = p->piece[bucket]; i < p->piece[bucket + 1]; i++) {
    float *values = p->values + tsr_ordered_sum_first(&p->sum, i);
    TSR_TRY(tsr_ordered_sum_add(&p->sum, i, values, p->n_arrays, p->is_first));
    TSR_TRY(p->is_last ? tsr_ordered_sum_collect(&p->sum, i, values) : TSR_OK);
  }
  return TSR_OK;
}

static void *add_buckets(void *argument)
{
  parts *p = argument;
  pthread_mutex_lock(&p->lock);
  while (!p->is_ending) {
    if (p->done == p->given || p->status != TSR_OK) {
      pthread_cond_wait(&p->changed, &p->lock);
      continue;
    }
    const int32_t bucket = p->done;
    pthread_mutex_unlock(&p->lock);
    const tsr_status status = add_bucket(p, bucket); /* of the round nothing changes until all are awaited */
    pthread_mutex_lock(&p->lock);
    if (status != TSR_OK) {
      p->status = status;
      snprintf(p->message, sizeof p->message, "%s", tsr_error_message());
    } else {
      p->done = bucket + 1;
    }
    pthread_cond_broadcast(&p->changed);
  }
  pthread_mutex_unlock(&p->lock);
  return NULL;
}

/* ---- the owner's side -------------------------------------------------------------------------------------------- */

/* Which pieces a bucket has: none begins in one and ends in another. */
static void find_pieces(parts *p, const int64_t *ends)
{
  int32_t piece = 0;
  for (int32_t i = 0; i < p->n_buckets; i++) {
    while (piece < p->sum.n_pieces && tsr_ordered_sum_first(&p->sum, piece) < ends[i]) {
      piece++;
    }
    p->piece[i + 1] = piece;
  }
}

tsr_status tsr_sum_stream_open(tsr_sum_stream *stream, tsr_comm *comm, tsr_dtype dtype, const int64_t *ends,
                               int32_t n_buckets, int64_t at_once)
{
  *stream = (tsr_sum_stream){0};
  parts *p = calloc(1, sizeof *p);
  if (!p) {
    return tsr_fail_memory(sizeof *p);
  }
  stream->parts = p;
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->changed, NULL);
  p->n_buckets = n_buckets;
  p->piece = calloc((size_t)n_buckets + 1, sizeof *p->piece);
  p->values = stream->values = calloc((size_t)ends[n_buckets - 1] + 1, sizeof *p->values);
  if (!p->piece || !p->values) {
    return tsr_fail_memory((size_t)ends[n_buckets - 1] * sizeof *p->values);
  }
  TSR_TRY(tsr_ordered_sum_open(&p->sum, comm, dtype, ends, n_buckets, at_once));
  find_pieces(p, ends);
  const int has_others = tsr_comm_size(comm) > 1 && comm->place.any_thread;
  p->has_thread = has_others && pthread_create(&p->thread, NULL, add_buckets, p) == 0;
  return TSR_OK;
}

void tsr_sum_stream_finish(tsr_sum_stream *stream)
{
  parts *p = stream->parts;
  if (!p) {
    return;
  }
  if (p->has_thread) {
    pthread_mutex_lock(&p->lock);
    p->is_ending = 1;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
  }
  tsr_ordered_sum_finish(&p->sum);
  pthread_cond_destroy(&p->changed);
  pthread_mutex_destroy(&p->lock);
  free(p->piece);
  free(p->values);
  free(p);
  *stream = (tsr_sum_stream){0};
}

void tsr_sum_stream_begin(tsr_sum_stream *stream, int32_t n_arrays, int32_t is_first, int32_t is_last)
{
  parts *p = stream->parts;
  pthread_mutex_lock(&p->lock);
  p->n_arrays = n_arrays;
  p->is_first = is_first;
  p->is_last = is_last;
  p->given = p->done = 0;
  pthread_mutex_unlock(&p->lock);
}

/* Under the lock. */
static tsr_status told(const parts *p)
{
  return p->status == TSR_OK ? TSR_OK : tsr_fail(p->status, "%s", p->message);
}

tsr_status tsr_sum_stream_give(tsr_sum_stream *stream)
{
  parts *p = stream->parts;
  if (!p->has_thread) {
    TSR_TRY(add_bucket(p, p->done));
    p->given = ++p->done;
    return TSR_OK;
  }
  pthread_mutex_lock(&p->lock);
  p->given++;
  pthread_cond_broadcast(&p->changed);
  const tsr_status status = told(p);
  pthread_mutex_unlock(&p->lock);
  return status;
}

tsr_status tsr_sum_stream_await(tsr_sum_stream *stream, int32_t bucket)
{
  parts *p = stream->parts;
  pthread_mutex_lock(&p->lock);
  while (p->done <= bucket && p->status == TSR_OK) {
    pthread_cond_wait(&p->changed, &p->lock);
  }
  const tsr_status status = p->done > bucket ? TSR_OK : told(p);
  pthread_mutex_unlock(&p->lock);
  return status;
}

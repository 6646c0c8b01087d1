/* SPDX-License-Identifier: Apache-2.0
 *
 * An ordered sum (ordered.h) whose buckets are added by a thread of its own, so that they travel while their owner
 * computes the next ones. Where the transport takes calls from one thread alone, or nobody else is there, a bucket is
 * added when it is given.
 */
#ifndef TESSERA_CORE_COMM_STREAM_H
#define TESSERA_CORE_COMM_STREAM_H

#include "core/comm/ordered.h"

/* Zero-initialise, open, finish. One thread at a time. From the first bucket of a round that is given until the last
 * one that is awaited, the owner calls nothing else of the communicator. */
typedef struct tsr_sum_stream {
  float *values; /* of a round, for the owner to fill, bucket by bucket, before each is given; after the last round the
                    sums, of each bucket that was awaited */
  struct tsr_sum_stream_parts *parts;
} tsr_sum_stream;

/* As tsr_ordered_sum_open; n_buckets at least 1. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_sum_stream_open(tsr_sum_stream *stream, tsr_comm *comm, tsr_dtype dtype, const int64_t *ends,
                               int32_t n_buckets, int64_t at_once) TSR_MUST_CHECK;

/* Waits until the bucket under way has been added, which takes the other ranks. */
void tsr_sum_stream_finish(tsr_sum_stream *stream);

/* Begins a round, all buckets of the last one having been awaited. n_arrays, is_first: as in tsr_ordered_sum_add;
 * is_last: the sums are collected. */
void tsr_sum_stream_begin(tsr_sum_stream *stream, int32_t n_arrays, int32_t is_first, int32_t is_last);

/* The values of the next bucket are there: each rank gives all, in their order, one without values too. Errors: the
 * transport's, of a bucket before, too. */
tsr_status tsr_sum_stream_give(tsr_sum_stream *stream) TSR_MUST_CHECK;

/* Returns when a bucket that was given has been added, and after the last round collected. */
tsr_status tsr_sum_stream_await(tsr_sum_stream *stream, int32_t bucket) TSR_MUST_CHECK;

#endif

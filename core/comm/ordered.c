/* SPDX-License-Identifier: Apache-2.0 */
#include "core/comm/ordered.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"
#include "core/comm/parts.h"

enum { USUAL_AT_ONCE = 1 << 22 };

/* ---- shares ------------------------------------------------------------------------------------------------------ */

int64_t tsr_ordered_sum_first(const tsr_ordered_sum *sum, int32_t piece)
{
  return sum->first[piece];
}

int64_t tsr_ordered_sum_count(const tsr_ordered_sum *sum, int32_t piece)
{
  return sum->first[piece + 1] - sum->first[piece];
}

/* Where the share of a rank begins in a piece of n elements; that of rank `size`: n. */
static int64_t share_at(const tsr_ordered_sum *sum, int64_t n, int32_t rank)
{
  return n * rank / tsr_comm_size(sum->comm);
}

static int64_t share_of(const tsr_ordered_sum *sum, int64_t n, int32_t rank)
{
  return share_at(sum, n, rank + 1) - share_at(sum, n, rank);
}

/* Divides the array. Returns the elements of the largest piece. */
static int64_t divide(tsr_ordered_sum *sum, const int64_t *ends, int32_t n_buckets, int64_t at_once)
{
  int64_t at = 0, kept = 0, largest = 0;
  for (int32_t i = 0; i < n_buckets; i++) {
    for (; at < ends[i]; sum->n_pieces++) {
      const int64_t n = ends[i] - at < at_once ? ends[i] - at : at_once;
      sum->first[sum->n_pieces] = at;
      sum->kept[sum->n_pieces] = kept;
      kept += share_of(sum, n, tsr_comm_rank(sum->comm));
      at += n;
      largest = n > largest ? n : largest;
    }
  }
  sum->first[sum->n_pieces] = at;
  sum->kept[sum->n_pieces] = kept;
  return largest;
}

tsr_status tsr_ordered_sum_open(tsr_ordered_sum *sum, tsr_comm *comm, tsr_dtype dtype, const int64_t *ends,
                                int32_t n_buckets, int64_t at_once)
{
  const int64_t most = at_once > 0 ? at_once : USUAL_AT_ONCE, size = tsr_comm_size(comm);
  const size_t n_pieces = (size_t)((n_buckets > 0 ? ends[n_buckets - 1] : 0) / most) + (size_t)n_buckets + 1;
  *sum = (tsr_ordered_sum){.comm = comm, .dtype = dtype};
  sum->first = calloc(n_pieces, sizeof *sum->first);
  sum->kept = calloc(n_pieces, sizeof *sum->kept);
  if (!sum->first || !sum->kept) {
    return tsr_fail_memory(n_pieces * sizeof *sum->first);
  }
  const int64_t piece = divide(sum, ends, n_buckets, most), share = piece / size + 1;
  const size_t running = (size_t)(sum->kept[sum->n_pieces] + 1) * sizeof(float);
  const size_t room = (size_t)(piece + size) * sizeof(float);
  sum->running = malloc(running);
  sum->share = malloc((size_t)share * sizeof(float));
  sum->sent = malloc(room);
  /* Every rank but the last may have a share that is smaller by one element than this one's. */
  sum->received = malloc((size_t)(size * share) * sizeof(float) + room);
  sum->sizes = calloc(2 * (size_t)size, sizeof *sum->sizes);
  return sum->running && sum->share && sum->sent && sum->received && sum->sizes ? TSR_OK
                                                                                : tsr_fail_memory(running + 4 * room);
}

void tsr_ordered_sum_finish(tsr_ordered_sum *sum)
{
  free(sum->first);
  free(sum->kept);
  free(sum->running);
  free(sum->share);
  free(sum->sent);
  free(sum->received);
  free(sum->sizes);
  *sum = (tsr_ordered_sum){0};
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/* n numbers as they travel, in sum->sent or, as f32, where they are. *packed: NULL after an error. */
static tsr_status pack(const tsr_ordered_sum *sum, const float *values, int64_t n, const void **packed)
{
  *packed = sum->dtype == TSR_F32 ? (const void *)values : sum->sent;
  return sum->dtype == TSR_F32 ? TSR_OK : tsr_convert(TSR_F32, values, sum->dtype, sum->sent, n);
}

/* A share as it came, in sum->share or, as f32, where it is. */
static tsr_status unpack(const tsr_ordered_sum *sum, const void *received, int64_t n, const float **values)
{
  *values = sum->dtype == TSR_F32 ? received : sum->share;
  return sum->dtype == TSR_F32 ? TSR_OK : tsr_convert(sum->dtype, received, TSR_F32, sum->share, n);
}

/* *received: the shares of the ranks with arrays, by rank. */
static tsr_status exchange(tsr_ordered_sum *sum, const float *values, int64_t n, int32_t n_arrays,
                           const void **received)
{
  tsr_comm *comm = sum->comm;
  const int64_t element = (int64_t)tsr_dtype_size(sum->dtype);
  const int32_t rank = tsr_comm_rank(comm), size = tsr_comm_size(comm), has_array = rank < n_arrays;
  const void *sent;
  TSR_TRY(pack(sum, values, has_array ? n : 0, &sent));
  *received = comm ? sum->received : sent;
  if (!comm) {
    return TSR_OK;
  }
  int64_t *of_sent = sum->sizes, *of_received = sum->sizes + size;
  for (int32_t i = 0; i < size; i++) {
    of_sent[i] = has_array ? share_of(sum, n, i) * element : 0;
    of_received[i] = i < n_arrays ? share_of(sum, n, rank) * element : 0;
  }
  return tsr_comm_check(comm, "exchange",
                        comm->transport->exchange(comm->context, sent, of_sent, sum->received, of_received));
}

tsr_status tsr_ordered_sum_add(tsr_ordered_sum *sum, int32_t piece, const float *values, int32_t n_arrays,
                               int32_t is_first)
{
  const int64_t n = tsr_ordered_sum_count(sum, piece), share = share_of(sum, n, tsr_comm_rank(sum->comm));
  const void *received;
  float *running = sum->running + sum->kept[piece];
  TSR_TRY(exchange(sum, values, n, n_arrays, &received));
  for (int32_t i = 0; i < n_arrays; i++) {
    const void *array = (const char *)received + i * share * (int64_t)tsr_dtype_size(sum->dtype);
    const float *added;
    TSR_TRY(unpack(sum, array, share, &added));
    if (is_first && i == 0) {
      memcpy(running, added, (size_t)share * sizeof *running);
      continue;
    }
    for (int64_t e = 0; e < share; e++) {
      running[e] += added[e];
    }
  }
  return TSR_OK;
}

tsr_status tsr_ordered_sum_collect(tsr_ordered_sum *sum, int32_t piece, float *values)
{
  tsr_comm *comm = sum->comm;
  const int64_t element = (int64_t)tsr_dtype_size(sum->dtype), n = tsr_ordered_sum_count(sum, piece);
  const void *mine;
  TSR_TRY(pack(sum, sum->running + sum->kept[piece], share_of(sum, n, tsr_comm_rank(comm)), &mine));
  if (!comm) {
    return tsr_convert(sum->dtype, mine, TSR_F32, values, n);
  }
  for (int32_t i = 0; i < comm->place.size; i++) {
    sum->sizes[i] = share_of(sum, n, i) * element;
  }
  void *all = sum->dtype == TSR_F32 ? (void *)values : sum->received;
  TSR_TRY(tsr_comm_check(comm, "gather", comm->transport->gather(comm->context, mine, all, sum->sizes)));
  return sum->dtype == TSR_F32 ? TSR_OK : tsr_convert(sum->dtype, all, TSR_F32, values, n);
}

tsr_status tsr_comm_allreduce(tsr_comm *comm, float *values, int64_t n)
{
  if (n < 0 || (n > 0 && !values)) {
    return tsr_fail(TSR_ERR_ARGUMENT, "tsr_comm_allreduce: %lld values at %s", (long long)n,
                    values ? "an address" : "NULL");
  }
  if (!comm || n == 0) {
    return TSR_OK;
  }
  tsr_ordered_sum sum;
  tsr_status status = tsr_ordered_sum_open(&sum, comm, TSR_F32, &n, 1, 0);
  for (int32_t i = 0; i < sum.n_pieces && status == TSR_OK; i++) {
    float *piece = values + tsr_ordered_sum_first(&sum, i);
    status = tsr_ordered_sum_add(&sum, i, piece, comm->place.size, 1);
    if (status == TSR_OK) {
      status = tsr_ordered_sum_collect(&sum, i, piece);
    }
  }
  tsr_ordered_sum_finish(&sum);
  return status;
}

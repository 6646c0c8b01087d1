/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of arrays in a fixed order, whoever holds the arrays.
 *
 * An update of a training adds the gradients of its batches, g0 + g1 + g2 + ..., from the left, in f32. Batch i belongs
 * to rank i modulo the number of ranks. Each rank owns one share of the elements. In each round every rank sends the
 * parts of its array to the shares' owners, and each owner adds what it received, by rank, to the running sum of its
 * share. After the last round everybody receives the shares of all. So the order, and with it each bit of the sum, is
 * that of one process that adds the arrays of all batches.
 */
#ifndef TESSERA_CORE_COMM_ORDERED_H
#define TESSERA_CORE_COMM_ORDERED_H

#include "tessera/comm.h"

/* Zero-initialise, open, finish. One thread at a time. */
typedef struct tsr_ordered_sum {
  tsr_comm *comm;   /* NULL: alone */
  tsr_dtype dtype;  /* TSR_F32, or TSR_BF16: each array is rounded to it before it is added, and so is the sum */
  int32_t n_pieces; /* of an array; each is shared out among the ranks */
  int64_t *first;   /* [n_pieces + 1] element of the array with which a piece begins; the last: elements of an array */
  int64_t *kept;    /* [n_pieces] where this rank's share of a piece begins in `running` */
  float *running;   /* this rank's share of all pieces, one after the other */
  float *share;     /* [share of a piece] that was unpacked */
  void *sent;       /* [piece] of the dtype */
  void *received;   /* [piece, or a share of each rank] of the dtype */
  int64_t *sizes;   /* [2 * size] */
} tsr_ordered_sum;

/* The array is divided into buckets, of which number i ends before element ends[i]; a bucket of more than at_once
 * elements (0: 4 Mi) is divided into pieces of as many. No more than a piece is held at a time, but for the shares of
 * the sums. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_ordered_sum_open(tsr_ordered_sum *sum, tsr_comm *comm, tsr_dtype dtype, const int64_t *ends,
                                int32_t n_buckets, int64_t at_once) TSR_MUST_CHECK;
void tsr_ordered_sum_finish(tsr_ordered_sum *sum);

/* Where a piece lies in the array, and its elements. */
int64_t tsr_ordered_sum_first(const tsr_ordered_sum *sum, int32_t piece);
int64_t tsr_ordered_sum_count(const tsr_ordered_sum *sum, int32_t piece);

/* A round of one piece, whose elements are `values`: adds those of the ranks 0 .. n_arrays - 1 in their order; the
 * other ranks have nothing to add, and their values are not read. is_first: nothing was added before. All ranks call
 * it, piece after piece. Errors: the transport's. */
tsr_status tsr_ordered_sum_add(tsr_ordered_sum *sum, int32_t piece, const float *values, int32_t n_arrays,
                               int32_t is_first) TSR_MUST_CHECK;

/* After the last round of a piece: `values` becomes the piece's sum, on every rank. */
tsr_status tsr_ordered_sum_collect(tsr_ordered_sum *sum, int32_t piece, float *values) TSR_MUST_CHECK;

#endif

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
  int64_t n;        /* elements of an array */
  int64_t at_once;  /* elements of a piece: no more is held at a time, but for the share */
  int32_t n_pieces; /* of an array; each is shared out among the ranks */
  float *running;   /* this rank's share of all pieces, one after the other */
  float *values;    /* [at_once] a piece of an array, for the caller to fill */
  void *sent;       /* [at_once] of the dtype */
  void *received;   /* [at_once + size] of the dtype */
  int64_t *sizes;   /* [2 * size] */
} tsr_ordered_sum;

/* at_once: 0: 4 Mi elements. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_ordered_sum_open(tsr_ordered_sum *sum, tsr_comm *comm, tsr_dtype dtype, int64_t n,
                                int64_t at_once) TSR_MUST_CHECK;
void tsr_ordered_sum_finish(tsr_ordered_sum *sum);

/* Where a piece lies in the array, and its elements. */
int64_t tsr_ordered_sum_first(const tsr_ordered_sum *sum, int32_t piece);
int64_t tsr_ordered_sum_count(const tsr_ordered_sum *sum, int32_t piece);

/* A round of one piece: adds sum->values of the ranks 0 .. n_arrays - 1 in their order; the other ranks have nothing to
 * add, and their values are not read. is_first: nothing was added before. All ranks call it, piece after piece.
 * Errors: the transport's. */
tsr_status tsr_ordered_sum_add(tsr_ordered_sum *sum, int32_t piece, int32_t n_arrays, int32_t is_first) TSR_MUST_CHECK;

/* After the last round: *values is a piece of the sum on every rank, valid until the next call. */
tsr_status tsr_ordered_sum_collect(tsr_ordered_sum *sum, int32_t piece, const float **values) TSR_MUST_CHECK;

#endif

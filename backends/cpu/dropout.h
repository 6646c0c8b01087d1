/* SPDX-License-Identifier: Apache-2.0
 *
 * Which elements a dropout keeps: dropout itself, attention, and the gradients of both ask here. The elements of one
 * dropout are a stream of 16-bit numbers, eight to a block of Philox 4x32-10 (ops.h, tsr_dropout); any part of it can
 * be had without what comes before.
 */
#ifndef CPU_DROPOUT_H
#define CPU_DROPOUT_H

#include "kernel.h"

#define cpu_dropout_of      CPU_WITH_VECTORS(cpu_dropout_of)
#define cpu_dropout_halves  CPU_WITH_VECTORS(cpu_dropout_halves)
#define cpu_dropout_factors CPU_WITH_VECTORS(cpu_dropout_factors)
#define cpu_dropout_row     CPU_WITH_VECTORS(cpu_dropout_row)

enum { CPU_DROPOUT_ROUNDS = 10, CPU_DROPOUT_BLOCK = 8 /* elements */ };

typedef struct cpu_dropout {
  int32_t key[CPU_DROPOUT_ROUNDS][2]; /* of each round */
  int32_t stream;
  int32_t threshold; /* an element whose number is below it is dropped */
  float scale;       /* of those that are kept */
} cpu_dropout;

/* The dropout of a line with this seed, which is read now: [2] i32. rate and stream are the line's. */
cpu_dropout cpu_dropout_of(const cpu_tensor *seed, const tsr_op_attributes *attributes);

/* How many numbers cpu_dropout_halves may write for n_blocks blocks. */
#define CPU_DROPOUT_ROOM(n_blocks) (((n_blocks) + CPU_LANES / 2 - 1) / (CPU_LANES / 2) * (4 * CPU_LANES))

/* The numbers of n_blocks blocks from block `first` on, and more, up to CPU_DROPOUT_ROOM of them. */
void cpu_dropout_halves(const cpu_dropout *dropout, uint64_t first, int64_t n_blocks, uint16_t *halves);

/* factors[i] = 0 or the scale, of the n elements from element `first` on. Two vectors of blocks are made at a time: ask
 * for many elements at once, several rows if they follow one another. */
void cpu_dropout_factors(const cpu_dropout *dropout, uint64_t first, int64_t n, float *factors);

/* y[i] = x[i] dropped out, likewise; 0 also where an x that is dropped is NaN. y may be x. */
void cpu_dropout_row(const cpu_dropout *dropout, uint64_t first, const float *x, int64_t n, float *y);

/* Which of CPU_LANES elements are kept: -1. */
static inline cpu_i32v cpu_kept(const cpu_dropout *dropout, const uint16_t *halves)
{
  return cpu_load_u16(halves) >= cpu_splat_i32(dropout->threshold);
}

#endif

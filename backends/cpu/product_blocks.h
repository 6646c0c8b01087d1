/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of large matrices that change from run to run, as training has them: weights that the optimiser writes,
 * activations, gradients.
 *
 * Nothing can be laid out beforehand. The team therefore lays out a part of b as panels, as large as stays in a core's
 * own cache, and multiplies it, while it lays out the next part. Where a cannot be read as it lies, each task lays out
 * its own rows. Each element is summed in the order of k here as well: how the matrices are cut changes no bit.
 */
#ifndef CPU_PRODUCT_BLOCKS_H
#define CPU_PRODUCT_BLOCKS_H

#include "product.h"

#define cpu_blocks_pay    CPU_AT_LEVEL(cpu_blocks_pay)
#define cpu_blocks_init   CPU_AT_LEVEL(cpu_blocks_init)
#define cpu_blocks_shared CPU_AT_LEVEL(cpu_blocks_shared)
#define cpu_blocks_run    CPU_AT_LEVEL(cpu_blocks_run)

typedef struct cpu_blocks {
  const cpu_product *product;
  float *y;
  int64_t depth_parts, depth_step; /* steps of k in a part */
  int64_t panel_parts;
  int64_t row_blocks;
  int32_t kind_of_a; /* CPU_A_* */
  int32_t lay_out_a;
  uint64_t size_of_b; /* bytes of a part laid out, a multiple of 64 */
} cpu_blocks;

/* 1 if a product of b that is not constant is made faster so than panel by panel. */
int32_t cpu_blocks_pay(const cpu_product *product);

/* The product stays where it is. */
void cpu_blocks_init(cpu_blocks *blocks, const cpu_product *product, float *y);

/* Bytes of memory that all tasks share; of scratch, cpu_product_scratch are enough. */
uint64_t cpu_blocks_shared(const cpu_blocks *blocks);

void cpu_blocks_run(const cpu_blocks *blocks, cpu_team *team);

#endif

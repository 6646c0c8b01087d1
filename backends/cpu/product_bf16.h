/* SPDX-License-Identifier: Apache-2.0
 *
 * Products whose factors are rounded to bf16, as product.h has them: what product.c calls for those that matrix units
 * multiply. A line of reduced precision permits it. Weights of bf16 that are constant are laid out once; others, and
 * what training multiplies, as they come.
 */
#ifndef CPU_PRODUCT_BF16_H
#define CPU_PRODUCT_BF16_H

#include "product.h"

#define cpu_rounded_suits    CPU_AT_LEVEL(cpu_rounded_suits)
#define cpu_rounded_chunk    CPU_AT_LEVEL(cpu_rounded_chunk)
#define cpu_rounded_elements CPU_AT_LEVEL(cpu_rounded_elements)
#define cpu_rounded_pack     CPU_AT_LEVEL(cpu_rounded_pack)
#define cpu_rounded_scratch  CPU_AT_LEVEL(cpu_rounded_scratch)
#define cpu_rounded_shared   CPU_AT_LEVEL(cpu_rounded_shared)
#define cpu_round            CPU_AT_LEVEL(cpu_round)
#define cpu_rounded_part     CPU_AT_LEVEL(cpu_rounded_part)

int32_t cpu_rounded_suits(const cpu_line *line);           /* 1 if both factors may be rounded so */
int64_t cpu_rounded_chunk(const cpu_product *product);     /* rows of a that should be rounded at a time */
int64_t cpu_rounded_elements(const cpu_product *product);  /* of one matrix's panels */
void cpu_rounded_pack(const cpu_layout *layout, void *to); /* a cpu_layout.pack */
uint64_t cpu_rounded_scratch(const cpu_product *product);
uint64_t cpu_rounded_shared(const cpu_product *product); /* a multiple of 64 */

/* A chunk of a, from row `first` of each matrix on, and with the first one what was not laid out before of b. */
void cpu_round(const cpu_product *product, int64_t first, cpu_team *team, void *shared);

/* Of a configured matrix unit, without alpha, bias and activation: to sums [rows][CPU_MATRIX_SUMS_ROW]. */
void cpu_rounded_part(const cpu_product *product, const void *shared, const cpu_part *part, float *sums);

#endif

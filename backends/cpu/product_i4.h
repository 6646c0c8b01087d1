/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with weights of four bits, as product.h has them: what product.c calls for those. They are read as they are
 * stored: a copy in another layout would take as much memory as they were made small to save.
 */
#ifndef CPU_PRODUCT_I4_H
#define CPU_PRODUCT_I4_H

#include "product.h"

#define cpu_four_bits_shared  CPU_AT_LEVEL(cpu_four_bits_shared)
#define cpu_four_bits_scratch CPU_AT_LEVEL(cpu_four_bits_scratch)
#define cpu_four_bits_begin   CPU_AT_LEVEL(cpu_four_bits_begin)
#define cpu_four_bits_part    CPU_AT_LEVEL(cpu_four_bits_part)

uint64_t cpu_four_bits_shared(const cpu_product *product); /* a multiple of 64 */
uint64_t cpu_four_bits_scratch(const cpu_product *product);

/* Quantises all rows of a. */
void cpu_four_bits_begin(const cpu_product *product, cpu_team *team, void *shared);

/* Sums of one panel, to c [part->rows][c_row]; leaves alpha, bias and activation to its caller. */
void cpu_four_bits_part(const cpu_product *product, const void *shared, const cpu_part *part, float *c, int64_t c_row,
                        void *scratch);

#endif

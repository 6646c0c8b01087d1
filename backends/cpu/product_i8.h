/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with weights of i8, as product.h has them: what product.c calls for those.
 */
#ifndef CPU_PRODUCT_I8_H
#define CPU_PRODUCT_I8_H

#include "matrix.h"

#define cpu_quantised_size    CPU_AT_LEVEL(cpu_quantised_size)
#define cpu_quantised_pack    CPU_AT_LEVEL(cpu_quantised_pack)
#define cpu_quantised_scratch CPU_AT_LEVEL(cpu_quantised_scratch)
#define cpu_quantised_unit    CPU_AT_LEVEL(cpu_quantised_unit)
#define cpu_quantised_at      CPU_AT_LEVEL(cpu_quantised_at)
#define cpu_quantise          CPU_AT_LEVEL(cpu_quantise)
#define cpu_quantise_bytes    CPU_AT_LEVEL(cpu_quantise_bytes)
#define cpu_quantised_part    CPU_AT_LEVEL(cpu_quantised_part)
#define cpu_quantised_sums    CPU_AT_LEVEL(cpu_quantised_sums)
#define cpu_quantised_shared  CPU_AT_LEVEL(cpu_quantised_shared)

uint64_t cpu_quantised_size(const cpu_product *product);     /* bytes of one matrix's panels */
void cpu_quantised_pack(const cpu_layout *layout, void *to); /* a cpu_layout.pack */
uint64_t cpu_quantised_scratch(const cpu_product *product);
uint64_t cpu_quantised_shared(const cpu_product *product); /* a multiple of 64 */
void cpu_quantise(const cpu_product *product, cpu_team *team, void *shared);

/* What cpu_quantise made of a row (of all matrices): what one unit is worth, and the whole number of element k. */
float cpu_quantised_unit(const cpu_product *product, const void *shared, int64_t row);
int32_t cpu_quantised_at(const cpu_product *product, const void *shared, int64_t row, int64_t k);

/* Groups of k in a packed matrix: with matrix units whole tiles. What is beyond K is zero in the rows of a. */
static inline int64_t cpu_quantised_groups(int64_t depth)
{
  const int64_t groups = (depth + CPU_GROUP - 1) / CPU_GROUP;
  return CPU_MATRIX_UNITS ? cpu_matrix_words(groups) : groups;
}

/* Where the first group of column n lies in a packed matrix [strips][groups][CPU_STRIP][CPU_GROUP], in bytes; the next
 * one lies CPU_STRIP * CPU_GROUP behind it. */
static inline int64_t cpu_quantised_column(int64_t groups, int64_t n)
{
  return (n / CPU_STRIP * groups * CPU_STRIP + n % CPU_STRIP) * CPU_GROUP;
}

/* A row of n elements side by side as tsr_matmul_i8 quantises it: to bytes. Returns what one unit is worth. */
float cpu_quantise_bytes(const float *a, int64_t n, int8_t *q);

/* Leaves alpha, bias and activation to its caller, who has configured the matrix units where there are some; where
 * there are none, part->panels is 1. c may be cpu_quantised_sums(scratch), in rows of CPU_MATRIX_SUMS_ROW. */
void cpu_quantised_part(const cpu_product *product, const void *shared, const cpu_part *part, float *c, int64_t c_row,
                        void *scratch);
float *cpu_quantised_sums(void *scratch);

#endif

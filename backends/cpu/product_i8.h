/* SPDX-License-Identifier: Apache-2.0
 *
 * Products with weights of i8, as product.h has them: what product.c calls for those.
 */
#ifndef CPU_PRODUCT_I8_H
#define CPU_PRODUCT_I8_H

#include "product.h"

#define cpu_quantised_size    CPU_AT_LEVEL(cpu_quantised_size)
#define cpu_quantised_pack    CPU_AT_LEVEL(cpu_quantised_pack)
#define cpu_quantised_scratch CPU_AT_LEVEL(cpu_quantised_scratch)
#define cpu_quantised_unit    CPU_AT_LEVEL(cpu_quantised_unit)
#define cpu_quantised_at      CPU_AT_LEVEL(cpu_quantised_at)
#define cpu_quantise          CPU_AT_LEVEL(cpu_quantise)
#define cpu_quantised_panel   CPU_AT_LEVEL(cpu_quantised_panel)
#define cpu_quantised_shared  CPU_AT_LEVEL(cpu_quantised_shared)

uint64_t cpu_quantised_size(const cpu_product *product);     /* bytes of one matrix's panels */
void cpu_quantised_pack(const cpu_layout *layout, void *to); /* a cpu_layout.pack */
uint64_t cpu_quantised_scratch(const cpu_product *product);
uint64_t cpu_quantised_shared(const cpu_product *product); /* a multiple of 64 */
void cpu_quantise(const cpu_product *product, cpu_team *team, void *shared);

/* What cpu_quantise made of a row (of all matrices): what one unit is worth, and the whole number of element k. */
float cpu_quantised_unit(const cpu_product *product, const void *shared, int64_t row);
int32_t cpu_quantised_at(const cpu_product *product, const void *shared, int64_t row, int64_t k);

/* Leaves alpha, bias and activation to its caller. */
void cpu_quantised_panel(const cpu_product *product, const void *shared, int64_t matrix, int64_t first, int64_t rows,
                         int64_t panel, float *c, int64_t c_row, void *scratch);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The largest column of a product by a search that computes few of them: see screen.c.
 */
#ifndef CPU_SCREEN_H
#define CPU_SCREEN_H

#include "product.h"

typedef struct cpu_screen cpu_screen;

#define cpu_screen_suits   CPU_AT_LEVEL(cpu_screen_suits)
#define cpu_prepare_screen CPU_AT_LEVEL(cpu_prepare_screen)
#define cpu_run_screen     CPU_AT_LEVEL(cpu_run_screen)

/* 1 for CPU_OP_MATMUL_TOPK lines that this does faster. */
int cpu_screen_suits(const cpu_line *line);

int32_t cpu_prepare_screen(cpu_line *line, cpu_preparation *preparation);
void cpu_run_screen(const cpu_line *line, cpu_team *team);

#endif

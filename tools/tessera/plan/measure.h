/* SPDX-License-Identifier: Apache-2.0
 *
 * The figures of a device that is here, and times of whole programs on it.
 */
#ifndef TESSERA_TOOLS_PLAN_MEASURE_H
#define TESSERA_TOOLS_PLAN_MEASURE_H

#include "tessera/transformer.h"
#include "tools/tessera/plan/card.h"

/* From now on times are those that this process had processors (1), or by the clock (0). */
void plan_time_by_processor(int by_processor);

/* Measures an open device: copies, products, chains of tiny lines. Takes some seconds. Exit code. */
int plan_measure(tsr_runtime *runtime, tsr_device *device, plan_card *card);

/* The median of the seconds that runs of an executable take: it runs for at least `wanted` seconds, and some times. The
 * least would be that of a moment in which nothing else used caches and memory, and no long work has only such. */
tsr_status plan_time_runs(tsr_executable *executable, double wanted, double *seconds) TSR_MUST_CHECK;

/* Compiles a program of few constants and times it likewise. */
tsr_status plan_time_program(tsr_device *device, const tsr_program *program, double wanted,
                             double *seconds) TSR_MUST_CHECK;

/* y [rows, columns] = x [rows, depth] times weights of that type, as models multiply with them. *program is the
 * caller's. */
tsr_status plan_product(int32_t rows, int32_t columns, int32_t depth, tsr_dtype weights, int32_t times,
                        tsr_program **program) TSR_MUST_CHECK;

#endif

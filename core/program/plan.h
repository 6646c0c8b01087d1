/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory plan: temporaries whose lifetimes do not meet share bytes of one arena.
 */
#ifndef TESSERA_CORE_PLAN_H
#define TESSERA_CORE_PLAN_H

#include "tessera/program.h"

typedef struct tsr_memory_plan {
  int64_t *offset;   /* [n_storages], bytes from the arena's start; -1 for what is no temporary */
  int64_t size;      /* of the arena, bytes, a multiple of the alignment */
  int64_t unplanned; /* what one buffer per temporary would take, each rounded up to the alignment */
} tsr_memory_plan;

typedef struct tsr_plan_options {
  int64_t alignment; /* bytes, a power of two */
  int64_t piece; /* no temporary lies across a multiple of this many bytes, itself one of the alignment; 0: any may */
  int32_t keep_all; /* 1: every temporary gets bytes of its own */
  const int32_t
      *operands_until; /* [n_lines]: the line, at least its own, until which what a line reads stays alive, for the
                                    device computes them as one; NULL: no further than the line */
} tsr_plan_options;

/* Places the temporaries. *plan is the caller's until tsr_memory_plan_finish. Errors: TSR_ERR_OUT_OF_MEMORY,
 * TSR_ERR_SHAPE (the sum of sizes overflows), TSR_ERR_DEVICE_MEMORY (a temporary is larger than a piece). */
tsr_status tsr_memory_plan_make(const tsr_program_desc *program, const tsr_plan_options *options,
                                tsr_memory_plan *plan) TSR_MUST_CHECK;
void tsr_memory_plan_finish(tsr_memory_plan *plan); /* takes a zeroed one */

/* tsr_program_measure with such a plan. */
tsr_status tsr_program_measure_for(const tsr_program *program, int64_t alignment, const int32_t *operands_until,
                                   tsr_program_statistics *statistics) TSR_MUST_CHECK;

#endif

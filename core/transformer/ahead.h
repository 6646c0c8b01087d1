/* SPDX-License-Identifier: Apache-2.0
 *
 * A step that is compiled twice, so that the device computes the next one while the host still reads what the last one
 * found. The two share what a step reads and writes over: the token, the position, the mask. Each has results of its
 * own, and the host takes them in turn.
 *
 * Results are the tokens [n, B] and their logits [n, B]: n is 1, or the capacity of the cache where several steps are
 * handed over at once, of which each writes a row.
 */
#ifndef TESSERA_CORE_TRANSFORMER_AHEAD_H
#define TESSERA_CORE_TRANSFORMER_AHEAD_H

#include "core/transformer/transformer.h"

struct tsr_ahead {
  tsr_executable *executables[2];
  tsr_buffer *results[2];
  tsr_buffer *shared[7]; /* token, position, and what else the step has: masks, chosen tokens, lengths, log_step */
  tsr_buffer *arena;     /* of both; NULL: each has its own */
  int64_t logits_offset; /* in results, bytes; the tokens come first */
  int64_t row;           /* bytes of the tokens, or of the logits, of a step */
  int32_t is_log;        /* 1: results have a row for each step */
};

/* Makes compiled->ahead of a program of its key, and compiled->executable, which is the first of the two. Where lines
 * would run on another device there is nothing to gain: *made is 0 then, and nothing was made. */
tsr_status tsr_ahead_make(tsr_transformer *transformer, const tsr_program *program, tsr_compiled *compiled,
                          int32_t *made) TSR_MUST_CHECK;

/* Frees it with both executables. Takes NULL. */
void tsr_ahead_destroy(tsr_ahead *ahead);

/* Starts n steps whose results go to a set, 0 or 1: behind all that were started before. */
tsr_status tsr_ahead_start(const tsr_ahead *ahead, int32_t set, int32_t n) TSR_MUST_CHECK;

/* Waits for what was started last with that set, and reads the results of n steps, the first of them in row `first`:
 * tokens and logits [n, B]. */
tsr_status tsr_ahead_read(const tsr_ahead *ahead, int32_t set, int32_t first, int32_t n, int32_t *tokens,
                          float *logits) TSR_MUST_CHECK;

#endif

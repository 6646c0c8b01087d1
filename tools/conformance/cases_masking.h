/* SPDX-License-Identifier: Apache-2.0
 *
 * tools/conformance/cases_masking.h: what cases of mask, of attention and of its gradient hide.
 */
#ifndef TESSERA_CONFORMANCE_CASES_MASKING_H
#define TESSERA_CONFORMANCE_CASES_MASKING_H

#include "tools/conformance/cases.h"

/* The shape of the additive mask. */
enum { ADDITIVE_NONE, ADDITIVE_FULL, ADDITIVE_KEYS, ADDITIVE_HEADS, ADDITIVE_QUERIES, ADDITIVE_COUNT };

typedef struct masking_params {
  int32_t additive, additive_data, lengths, position, causal, buckets, bidirectional, max_distance;
  int32_t clamped; /* buckets: 2 max_distance + 1 */
} masking_params;

/* What is swept over for all three operators; runs: of 66 sentences. */
enum { CHECK_MASKINGS = 41, CHECK_MASKING_RUNS = 7 };
extern const masking_params check_maskings[CHECK_MASKINGS], check_masking_runs[CHECK_MASKING_RUNS];

/* The operands of a masking of scores, whose queries are dimension 1 where the case is cut; n_queries: of the whole
 * case: [n_batch, n_heads, n_queries, n_keys]. What depends on the query's number is cut only if there is a position.
 * */
tsr_masking check_masking_make(check_build *build, const masking_params *p, int64_t n_batch, int64_t n_heads,
                               int64_t n_queries, int64_t n_keys);

/* Writes a table of relative biases as part of a case's name. Returns `text`. */
char *check_relative_text(int32_t buckets, int32_t bidirectional, int32_t max_distance, int32_t clamped, char *text,
                          size_t size);

/* Writes a masking as part of a case's name. Returns `text`. */
char *check_masking_text(const masking_params *p, char *text, size_t size);

/* The maskings that there are, of other parts. */
masking_params check_masking_draw(check_draw *draw);

#endif

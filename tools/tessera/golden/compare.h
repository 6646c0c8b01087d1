/* SPDX-License-Identifier: Apache-2.0
 *
 * How results are held against recorded ones.
 */
#ifndef TESSERA_TOOLS_GOLDEN_COMPARE_H
#define TESSERA_TOOLS_GOLDEN_COMPARE_H

#include "tessera/generate.h"
#include "tools/tessera/golden/fixture.h"
#include "tools/tessera/golden/report.h"

/* found [n_batch, n_length, width]. Positions whose mask is 0 are left out. NaN is an infinite error. */
golden_error golden_compare_values(const char *name, const golden_recorded *expected, const golden_recorded *mask,
                                   const float *found, double tolerance);

/* The sequences and scores of a recorded search. options: resolved. *summary has its name. Errors: TSR_ERR_FORMAT. */
tsr_status golden_compare_search(const json_t *entry, const tsr_generation *generation,
                                 const tsr_generate_options *options, double tolerance,
                                 tsr_golden_search *summary) TSR_MUST_CHECK;

/* What the configuration says in the places of what the options leave to it. */
void golden_resolve(const tsr_transformer_config *config, tsr_generate_options *options);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's table of operators, for people and as JSON.
 */
#ifndef TESSERA_TOOLS_OPERATORS_H
#define TESSERA_TOOLS_OPERATORS_H

#include <jansson.h>
#include <stdio.h>

void tsr_operators_print(FILE *out);

/* An array: of each operator name, formula, operands and results (of each name, types, optional), tolerance class, and
 * whether it has a gradient. NULL: no memory. */
json_t *tsr_operators_json(void);

#endif

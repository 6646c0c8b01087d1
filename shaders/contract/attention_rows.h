/* SPDX-License-Identifier: Apache-2.0
 *
 * attention.comp's own constants.
 */
#ifndef SHADERS_CONTRACT_ATTENTION_ROWS_H
#define SHADERS_CONTRACT_ATTENTION_ROWS_H

#include "contract.h"

CONSTANT(attention_rows, 5, tile_rows, 1u); /* queries: a power of two, at most 8 and the subgroup */
CONSTANT(attention_rows, 6, parts, 1u);     /* elements or groups of v's last axis per invocation */

#endif

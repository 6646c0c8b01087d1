/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_gradient.comp's own constants.
 */
#ifndef SHADERS_CONTRACT_ATTENTION_GRADIENT_ROWS_H
#define SHADERS_CONTRACT_ATTENTION_GRADIENT_ROWS_H

#include "contract.h"

CONSTANT(attention_gradient_rows, 5, tile_rows, 1u); /* of its own: a power of two, at most 8 and the subgroup */
CONSTANT(attention_gradient_rows, 6, parts, 1u);     /* elements or groups of a result's last axis per invocation */
CONSTANT(attention_gradient_rows, 10, own_step, 1u); /* stride of the last axis */
CONSTANT(attention_gradient_rows, 11, own2_step, 1u);
CONSTANT(attention_gradient_rows, 12, other_step, 1u);
CONSTANT(attention_gradient_rows, 13, other2_step, 1u);

#endif

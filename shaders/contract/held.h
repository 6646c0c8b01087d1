/* SPDX-License-Identifier: Apache-2.0
 *
 * What products of which only the largest are wanted have behind the constants of the product: lib/product_topk.glsl.
 */
#ifndef SHADERS_CONTRACT_HELD_H
#define SHADERS_CONTRACT_HELD_H

#include "contract.h"

CONSTANT(held, 12, held_columns, 64u); /* of a workgroup, a multiple of TILE_COLUMNS */
CONSTANT(held, 13, held_words, 64u);   /* TILE_ROWS * held_columns */
CONSTANT(held, 14, kept, 1u);
CONSTANT(held, 15, with_sums, 0u); /* 1: the sums of exponentials, too */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_gradient_tiled.comp's own constants.
 */
#ifndef SHADERS_CONTRACT_ATTENTION_GRADIENT_TILED_H
#define SHADERS_CONTRACT_ATTENTION_GRADIENT_TILED_H

#include "contract.h"

CONSTANT(attention_gradient_tiled, SPEC_SIZE_X, size, 128u);
CONSTANT(attention_gradient_tiled, 5, tile_shape, 0x42u); /* GRADIENT_TILE_SHAPE */
CONSTANT(attention_gradient_tiled, 6, tile_groups, 8u);   /* of the last axis, in shared memory at a time: 8; 0: all */

/* Rows of its own of one invocation, and of the others */
#define GRADIENT_TILE_SHAPE(rows, others) ((rows) | (others) << 4)
#define GRADIENT_TILE_ROWS(shape)         ((shape)&15u)
#define GRADIENT_TILE_OTHERS(shape)       ((shape) >> 4)

#define GRADIENT_TILE_SIDE    8u /* invocations that share rows */
#define GRADIENT_TILE_PARTS   4u /* at most: of the last axis */
#define GRADIENT_FACTOR_PITCH 9u /* groups of shared memory for what a row's others are multiplied with */

#endif

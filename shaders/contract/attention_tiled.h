/* SPDX-License-Identifier: Apache-2.0
 *
 * attention_tiled.comp's own constants.
 */
#ifndef SHADERS_CONTRACT_ATTENTION_TILED_H
#define SHADERS_CONTRACT_ATTENTION_TILED_H

#include "contract.h"

CONSTANT(attention_tiled, SPEC_SIZE_X, size, 128u);
CONSTANT(attention_tiled, 5, tile_shape, 0x44u); /* ATTENTION_TILE_SHAPE */
CONSTANT(attention_tiled, 6, parts, 1u);         /* groups of v's last axis per invocation */
CONSTANT(attention_tiled, 14, tile_groups, 0u);  /* of a last axis, in shared memory at a time: 8; 0: all */

/* Queries of one invocation, and keys */
#define ATTENTION_TILE_SHAPE(rows, keys) ((rows) | (keys) << 4)
#define ATTENTION_TILE_ROWS(shape)       ((shape)&15u)
#define ATTENTION_TILE_KEYS(shape)       ((shape) >> 4)

#define ATTENTION_TILE_SIDE    8u /* invocations that share queries */
#define ATTENTION_TILE_PARTS   8u /* at most: of v's last axis */
#define ATTENTION_WEIGHT_PITCH 9u /* groups of shared memory for a query's weights */

#endif

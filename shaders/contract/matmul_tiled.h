/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul_tiled.comp's own constants.
 */
#ifndef SHADERS_CONTRACT_MATMUL_TILED_H
#define SHADERS_CONTRACT_MATMUL_TILED_H

#include "contract.h"

CONSTANT(matmul_tiled, 4, tile_rows, 64u);    /* of the workgroup: a multiple of 16 */
CONSTANT(matmul_tiled, 5, tile_columns, 64u); /* a multiple of 32 * column_groups */
CONSTANT(matmul_tiled, 6, row_groups, 2u);    /* of one invocation */
CONSTANT(matmul_tiled, 7, column_groups, 1u);
CONSTANT(matmul_tiled, 8, at_once, 4u);  /* values of k that are multiplied in one piece: 1, 2 or 4 */
CONSTANT(matmul_tiled, 9, layout_a, 0u); /* LAYOUT_* */
CONSTANT(matmul_tiled, 10, layout_b, 0u);

#define LAYOUT_ALONG_DEPTH 1u /* k is the contiguous axis; else m or n is, or none */
#define LAYOUT_VECTORS     2u /* aligned: loads of 2 elements along k, or of 4 along m or n */

#define TILE_DEPTH 16u /* values of k in shared memory */

#endif

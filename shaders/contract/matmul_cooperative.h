/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul_cooperative.comp's own constants.
 */
#ifndef SHADERS_CONTRACT_MATMUL_COOPERATIVE_H
#define SHADERS_CONTRACT_MATMUL_COOPERATIVE_H

#include "contract.h"

/* The device's shape: a [shape_m, shape_k] by b [shape_k, shape_n] */
CONSTANT(matmul_cooperative, 4, shape_m, 16u);
CONSTANT(matmul_cooperative, 5, shape_n, 16u);
CONSTANT(matmul_cooperative, 6, shape_k, 16u);
/* The workgroup's tile, a subgroup's part of it, and the groups of a step along k: whole shapes */
CONSTANT(matmul_cooperative, 7, tile_rows, 128u);
CONSTANT(matmul_cooperative, 8, tile_columns, 128u);
CONSTANT(matmul_cooperative, 9, part_rows, 64u);
CONSTANT(matmul_cooperative, 10, part_columns, 64u);
CONSTANT(matmul_cooperative, 11, step_groups, 8u);
CONSTANT(matmul_cooperative, 12, lanes, 32u);        /* of a subgroup */
CONSTANT(matmul_cooperative, 13, b_along_depth, 1u); /* 1: k is b's contiguous axis, 0: n */
CONSTANT(matmul_cooperative, 14, shared_groups, 2304u);
CONSTANT(matmul_cooperative, 15, halves, 0u);        /* HALVES_* */
CONSTANT(matmul_cooperative, 16, a_along_depth, 1u); /* 1: k is a's contiguous axis, 0: m */
CONSTANT(matmul_cooperative, 17, has_rest, 0u);      /* 1: the last step along k is not whole */
#if defined(CONTRACT_IN_C) || defined(TOPK)
CONSTANT(matmul_cooperative, 18, largest, 1u); /* of each row of the tile that are kept; LARGEST_SUMS */
#endif

#define HALVES_A 1u /* a is rounded already: of b's type in memory */
#define HALVES_Y 2u /* y is rounded to that: for the product that reads it */

#define LARGEST_SUMS 65536u /* the sums of exponentials, too */

#endif

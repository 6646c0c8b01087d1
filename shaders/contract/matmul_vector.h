/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul_vector.comp's own constants.
 */
#ifndef SHADERS_CONTRACT_MATMUL_VECTOR_H
#define SHADERS_CONTRACT_MATMUL_VECTOR_H

#include "contract.h"

CONSTANT(matmul_vector, 4, tile_rows, 1u);
CONSTANT(matmul_vector, 5, loads, 4u);        /* of b at a time: along k of as many columns, else of one at as many k */
CONSTANT(matmul_vector, 6, lanes, 64u);       /* the workgroup's size */
CONSTANT(matmul_vector, 7, depth_lanes, 64u); /* of them, invocations along k: a power of two */
CONSTANT(matmul_vector, 8, a_in_quads, 0u);   /* 1: four neighbours of a along k are loaded at once */
CONSTANT(matmul_vector, 9, along_depth, 1u);  /* 1: k is b's contiguous axis, or none; 0: n */
CONSTANT(matmul_vector, 10, width, 1u);       /* elements of a load of b: those of 16 bytes, or 1 */
CONSTANT(matmul_vector, 11, steps, 1u);       /* along k: loads of each column that are on their way at a time */

#endif

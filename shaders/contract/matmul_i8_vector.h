/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul_i8_vector.comp's own constants.
 */
#ifndef SHADERS_CONTRACT_MATMUL_I8_VECTOR_H
#define SHADERS_CONTRACT_MATMUL_I8_VECTOR_H

#include "contract.h"

CONSTANT(matmul_i8_vector, 4, tile_rows, 1u);
CONSTANT(matmul_i8_vector, 5, tile_columns, 4u);
CONSTANT(matmul_i8_vector, 6, lanes, 32u); /* the workgroup's size; with SUBGROUP not less than a tile's results */

#endif

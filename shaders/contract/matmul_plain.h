/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul_plain.comp's and matmul_i8_plain.comp's own constants.
 */
#ifndef SHADERS_CONTRACT_MATMUL_PLAIN_H
#define SHADERS_CONTRACT_MATMUL_PLAIN_H

#include "contract.h"

CONSTANT(matmul_plain, 4, tile_rows, 8u);    /* at most `lanes` (A_COLUMNS: 4 times those); powers of two */
CONSTANT(matmul_plain, 5, lanes, 8u);        /* the subgroup's */
CONSTANT(matmul_plain, 6, tile_columns, 4u); /* of one lane; 4 with B_ROWS */

#endif

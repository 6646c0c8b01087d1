/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul_i8_tiled.comp's own constants.
 */
#ifndef SHADERS_CONTRACT_MATMUL_I8_TILED_H
#define SHADERS_CONTRACT_MATMUL_I8_TILED_H

#include "contract.h"

CONSTANT(matmul_i8_tiled, 4, side, 16u); /* 8 or 16 */
CONSTANT(matmul_i8_tiled, 5, tile, 1u);  /* rows and columns of one invocation, in fours */

#define I8_STEP 2u /* groups of 16 values of k in shared memory */

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * matmul_generic.comp's and matmul_i8_generic.comp's own constant.
 */
#ifndef SHADERS_CONTRACT_MATMUL_GENERIC_H
#define SHADERS_CONTRACT_MATMUL_GENERIC_H

#include "contract.h"

CONSTANT(matmul_generic, 4, tile_rows, 4u);

#endif

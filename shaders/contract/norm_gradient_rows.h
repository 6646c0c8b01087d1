/* SPDX-License-Identifier: Apache-2.0
 *
 * norm_gradient.comp's own constant.
 */
#ifndef SHADERS_CONTRACT_NORM_GRADIENT_ROWS_H
#define SHADERS_CONTRACT_NORM_GRADIENT_ROWS_H

#include "contract.h"
#include "norm_kinds.h"

CONSTANT(norm_gradient_rows, 2, centred, NORM_CENTRED); /* NORM_* */

#endif

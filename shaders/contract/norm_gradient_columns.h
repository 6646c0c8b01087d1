/* SPDX-License-Identifier: Apache-2.0
 *
 * norm_gradient_columns.comp's own constant.
 */
#ifndef SHADERS_CONTRACT_NORM_GRADIENT_COLUMNS_H
#define SHADERS_CONTRACT_NORM_GRADIENT_COLUMNS_H

#include "contract.h"

CONSTANT(norm_gradient_columns, 2, biased, 0u); /* 1: dbias is wanted */

#endif

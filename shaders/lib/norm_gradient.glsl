/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of the two kernels of the norms' gradients.
 */
#ifndef LIB_NORM_GRADIENT
#define LIB_NORM_GRADIENT

#include "contract/norm_gradient.h"

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_SOFTMAX_GRADIENT_H
#define SHADERS_CONTRACT_SOFTMAX_GRADIENT_H

#include "contract.h"

CONSTANT(softmax_gradient, 2, logarithm, 0u); /* 1: log_softmax */

PUSH(softmax_gradient)
{
  uvec4 extent;
  uvec4 y_stride;
  uvec4 dy_stride;
  uint y_offset;
  uint dy_offset;
  uint rows;
}
PUSH_END(softmax_gradient);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_SOFTMAX_H
#define SHADERS_CONTRACT_SOFTMAX_H

#include "contract.h"

CONSTANT(softmax, 2, logarithm, 0u); /* 1: log_softmax */
CONSTANT(softmax, 3, masked, 0u);    /* 1: there is a mask */

PUSH(softmax)
{
  uvec4 extent;
  uvec4 x_stride;
  uvec4 mask_stride;
  uint x_offset;
  uint mask_offset;
  uint rows;
}
PUSH_END(softmax);

#endif

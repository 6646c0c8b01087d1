/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_SUM_OF_SQUARES_H
#define SHADERS_CONTRACT_SUM_OF_SQUARES_H

#include "contract.h"

CONSTANT(sum_of_squares, 2, squared, 1u); /* 0: the elements themselves, which are sums */
CONSTANT(sum_of_squares, 3, added, 0u);   /* 1: plus is added */

PUSH(sum_of_squares)
{
  uvec4 extent;
  uvec4 x_stride;
  uint x_offset;
  uint plus_offset;
  uint count; /* elements, or groups of four */
  uint share; /* of them, those of one workgroup */
  uint y_at;  /* words into y */
}
PUSH_END(sum_of_squares);

#endif

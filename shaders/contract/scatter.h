/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_SCATTER_H
#define SHADERS_CONTRACT_SCATTER_H

#include "contract.h"
#include "values.h"

CONSTANT(scatter, 2, positioned, 0u); /* 1: position is given */
#if defined(CONTRACT_IN_C) || defined(HALVES)
CONSTANT(scatter, 3, from_type, TYPE_F32);
CONSTANT(scatter, 4, to_type, TYPE_F16);
CONSTANT(scatter, 5, paired, 0u); /* 1: a word of the state at a time */
CONSTANT(scatter, 6, x_step, 1u); /* paired: from an element of x to its neighbour */
#endif

PUSH(scatter)
{
  uvec4 extent; /* of x */
  uvec4 x_stride;
  uvec4 state_stride;
  uint x_offset;
  uint state_offset;
  uint position_offset;
  uint position_stride;
  uint rows; /* of the state */
  uint count;
}
PUSH_END(scatter);

#endif

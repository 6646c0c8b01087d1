/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_ROTATE_H
#define SHADERS_CONTRACT_ROTATE_H

#include "contract.h"

CONSTANT(rotate, 2, alpha_bits, 0x3f800000u);

PUSH(rotate)
{
  uvec4 extent; /* of the pairs: the last one is half of a row */
  uvec4 x_stride;
  uvec4 turns_stride;
  uint x_offset;
  uint turns_offset;
  uint count; /* pairs */
}
PUSH_END(rotate);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_MASK_H
#define SHADERS_CONTRACT_MASK_H

#include "contract.h"
#include "masking.h"

CONSTANT(mask, 2, masking, 0u); /* MASK_* */

PUSH(mask)
{
  uvec4 extent;
  uvec4 x_stride;
  uvec4 additive_stride;
  uint x_offset;
  uint additive_offset;
  uint lengths_offset;
  uint lengths_stride;
  uint position_offset;
  uint position_stride;
  uint bias_offset;
  uint reach;
  uint count;
}
PUSH_END(mask);

#endif

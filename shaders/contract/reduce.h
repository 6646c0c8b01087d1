/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_REDUCE_H
#define SHADERS_CONTRACT_REDUCE_H

#include "contract.h"

CONSTANT(reduce, 2, serial, 0u); /* 1: an invocation per result */

PUSH(reduce)
{
  uvec4 kept_extent;
  uvec4 kept_stride;
  uvec4 summed_extent;
  uvec4 summed_stride;
  uint x_offset;
  uint count; /* results, or groups of them */
  uint terms; /* of each, or groups of them */
  uint part;  /* terms of one part */
  uint y_at;  /* elements or groups into y */
}
PUSH_END(reduce);

#endif

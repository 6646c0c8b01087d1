/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_DROPOUT_H
#define SHADERS_CONTRACT_DROPOUT_H

#include "contract.h"

CONSTANT(dropout, 2, repeat, 0u); /* with QUADS: 1: x repeats one element */

#define DROPOUT_GROUP 8u /* elements that one call of the generator serves: those of an invocation */

PUSH(dropout)
{
  uvec4 extent;
  uvec4 x_stride;
  uint x_offset;
  uint seed_offset;
  uint seed_stride;
  uint stream;
  uint threshold;
  float scale;
  uint count; /* elements of y, or groups of four */
}
PUSH_END(dropout);

#endif

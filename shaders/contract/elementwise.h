/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_ELEMENTWISE_H
#define SHADERS_CONTRACT_ELEMENTWISE_H

#include "contract.h"
#include "values.h"

CONSTANT(elementwise, 2, function, 0u); /* FUNCTION_UNARY + ACTIVATION_*; with GRADIENT ACTIVATION_* itself */
CONSTANT(elementwise, 3, repeat, 0u);   /* with QUADS: bit 0, 1: a, b repeats one element */
CONSTANT(elementwise, 4, axes, 4u);     /* that count: 1, 2 or 4 */

#define FUNCTION_ADD     0u
#define FUNCTION_MUL     1u
#define FUNCTION_ADD_I32 2u
#define FUNCTION_MUL_I32 3u
#define FUNCTION_UNARY   4u
#define GRADIENT_OF_MASK 0u

PUSH(elementwise)
{
  uvec4 extent;
  uvec4 a_stride;
  uvec4 b_stride;
  uint a_offset;
  uint b_offset;
  uint count;
}
PUSH_END(elementwise);

#endif

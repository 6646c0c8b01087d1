/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two kernels of the norms' gradients share.
 */
#ifndef SHADERS_CONTRACT_NORM_GRADIENT_H
#define SHADERS_CONTRACT_NORM_GRADIENT_H

#include "contract.h"

PUSH(norm_gradient)
{
  uvec4 extent;
  uvec4 x_stride;
  uvec4 dy_stride;
  uint x_offset;
  uint dy_offset;
  uint gain_offset;
  uint gain_stride;
  uint rows;
  uint stats_at; /* words into scratch: mean and scale of each row */
  float epsilon;
  float length;  /* elements of a row */
  uint block;    /* rows of one workgroup along the columns */
  uint dgain_at; /* words into the operand, likewise */
  uint dbias_at;
}
PUSH_END(norm_gradient);

#endif

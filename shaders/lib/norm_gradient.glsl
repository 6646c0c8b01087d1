/* SPDX-License-Identifier: Apache-2.0
 *
 * Parameters of the two kernels of the norms' gradients.
 */
#ifndef LIB_NORM_GRADIENT
#define LIB_NORM_GRADIENT

layout(push_constant, std430) uniform parameters
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
};

#endif

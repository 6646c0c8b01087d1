/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_SCATTER_ADD_H
#define SHADERS_CONTRACT_SCATTER_ADD_H

#include "contract.h"

#define STEP_CLEAR 0u
#define STEP_LINK  1u
#define STEP_SUM   2u

CONSTANT(scatter_add, 2, step, STEP_SUM);

PUSH(scatter_add)
{
  uvec4 extent;   /* of y */
  uvec4 x_stride; /* 0 along the axis */
  uint x_offset;
  uint row_stride; /* of x along the axis */
  uint axis;
  uint index_offset;
  uint index_stride;
  uint places;   /* of x along the axis */
  uint rows;     /* of y along the axis */
  uint first_at; /* words into the lists: for each row the first place */
  uint next_at;  /* for each place the next one of the same row */
  uint count;    /* elements of y, or groups of four */
  float alpha;
}
PUSH_END(scatter_add);

#endif

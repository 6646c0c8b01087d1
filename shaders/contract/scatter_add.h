/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_SCATTER_ADD_H
#define SHADERS_CONTRACT_SCATTER_ADD_H

#include "contract.h"

#define STEP_CLEAR 0u
#define STEP_SUM   1u
#define STEP_JOIN  2u

CONSTANT(scatter_add, 2, step, STEP_SUM);
CONSTANT(scatter_add, 3, axes, 4u); /* of y's that count beside the one along which rows lie: the last 1, 2 or 4 */

/* With QUADS strides, offsets and counts of columns are of groups of four. */
PUSH(scatter_add)
{
  uvec4 extent;   /* of y, 1 along the axis: its elements are the columns */
  uvec4 x_stride; /* of the columns */
  uvec4 y_stride; /* likewise */
  uint x_offset;
  uint x_step; /* from a place of x along the axis to the next */
  uint y_step; /* from a row of y to the next */
  uint rows;   /* of y along the axis */
  uint places; /* of x along the axis */
  uint columns;
  uint run;        /* places of a run */
  uint rows_at;    /* words into scratch: of each place, sorted, its row */
  uint places_at;  /* likewise where it lies in x */
  uint partial_at; /* elements or groups into scratch: of each run HEAD and TAIL, each of all columns */
  uint count;      /* of invocations that have something to do */
  float alpha;
  float nothing; /* alpha times a sum of nothing */
}
PUSH_END(scatter_add);

/* Rows that do not lie within a run: what it has of a row that began before it, and of one that begins in it and goes
 * on behind it. A row that does both has a HEAD. */
#define HEAD 0u
#define TAIL 1u

#endif

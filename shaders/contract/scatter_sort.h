/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_SCATTER_SORT_H
#define SHADERS_CONTRACT_SCATTER_SORT_H

#include "contract.h"

#define STEP_SORT  0u
#define STEP_MERGE 1u

#define CHUNK  512u /* places that a workgroup sorts, at most: 4 KiB of shared memory */
#define FAN_IN 32u  /* lists that become one */

CONSTANT(scatter_sort, 2, step, STEP_SORT);

PUSH(scatter_sort)
{
  uint index_offset;
  uint index_stride;
  uint places; /* of x along the axis */
  uint rows;   /* of y along the axis */
  uint list;   /* places of a sorted list: STEP_SORT makes such, at most CHUNK, a power of two; STEP_MERGE reads them */
  uint from_at; /* STEP_MERGE, words into scratch: the rows of the lists, and behind them all their places */
  uint to_at;   /* the same for what the step writes */
}
PUSH_END(scatter_sort);

#endif

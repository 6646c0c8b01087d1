/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_NARROW_H
#define SHADERS_CONTRACT_NARROW_H

#include "contract.h"
#include "values.h"

CONSTANT(narrow, 2, to_type, TYPE_F16); /* or TYPE_BF16 */

PUSH(narrow)
{
  uint rows; /* of one matrix */
  uint inner_batch;
  uint row_groups;  /* groups of eight values in a row */
  uint x_offset;    /* groups of four */
  uint x_stride[3]; /* batch 0, batch 1, m; likewise */
  uint y_at;        /* groups of eight values into the scratch */
  uint count;       /* groups of all rows */
}
PUSH_END(narrow);

#endif

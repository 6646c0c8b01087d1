/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_GATHER_H
#define SHADERS_CONTRACT_GATHER_H

#include "contract.h"
#include "values.h"

CONSTANT(gather, 2, from_type, TYPE_F32);
CONSTANT(gather, 3, to_type, TYPE_F32);
CONSTANT(gather, 4, indexed, 0u); /* 1: rows come from the index */
CONSTANT(gather, 5, scaled, 0u);  /* 1: alpha is not 1 */
CONSTANT(gather, 6, axes, 4u);    /* that count: 1, 2 or 4 */

PUSH(gather)
{
  uvec4 extent; /* of y */
  uvec4 x_stride;
  uvec4 index_stride;
  uint x_offset;
  uint index_offset;
  uint row_stride; /* of x along the axis that the index selects from */
  uint rows;       /* its extent */
  uint count;      /* elements of y, or groups of four */
  float alpha;
/* Without BYTES it ends here. */
#if defined(CONTRACT_IN_C) || defined(BYTES)
  uint scales_offset;
  uint scales_stride;       /* from a row to the next */
  uint scales_group_stride; /* TYPE_I4: from a group of 32 columns to the next */
#endif
}
PUSH_END(gather);

#endif

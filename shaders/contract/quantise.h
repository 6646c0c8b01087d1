/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_QUANTISE_H
#define SHADERS_CONTRACT_QUANTISE_H

#include "contract.h"
#include "values.h"

CONSTANT(quantise, 2, weight_type, TYPE_I8); /* of what is multiplied with the rows: TYPE_I4 has groups in twos */

PUSH(quantise)
{
  uint rows; /* of one matrix */
  uint inner_batch;
  uint depth;       /* elements of a row; with QUADS groups of four */
  uint x_offset;    /* elements, or groups */
  uint x_stride[4]; /* batch 0, batch 1, m, k; likewise */
  uint y_at;        /* words into the scratch */
  uint count;       /* rows of all matrices */
}
PUSH_END(quantise);

#endif

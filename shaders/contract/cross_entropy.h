/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_CROSS_ENTROPY_H
#define SHADERS_CONTRACT_CROSS_ENTROPY_H

#include "contract.h"

PUSH(cross_entropy)
{
  uint extent; /* of a row */
  uint row_stride;
  uint element_stride; /* 1 with QUADS */
  uint x_offset;
  uint labels_offset;
  uint labels_stride;
  uint rows;
  uint vocabulary; /* elements of a row, also with QUADS */
  float smoothing;
}
PUSH_END(cross_entropy);

#endif

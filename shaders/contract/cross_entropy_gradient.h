/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_CROSS_ENTROPY_GRADIENT_H
#define SHADERS_CONTRACT_CROSS_ENTROPY_GRADIENT_H

#include "contract.h"

PUSH(cross_entropy_gradient)
{
  uint extent; /* of a row */
  uint row_stride;
  uint element_stride;
  uint x_offset;
  uint labels_offset;
  uint labels_stride;
  uint lse_offset;
  uint lse_stride;
  uint dloss_offset;
  uint dloss_stride;
  uint count;      /* elements of the logits, or groups of four */
  uint vocabulary; /* elements of a row, also with QUADS */
  float smoothing;
}
PUSH_END(cross_entropy_gradient);

#endif

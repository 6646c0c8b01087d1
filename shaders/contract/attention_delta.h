/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_ATTENTION_DELTA_H
#define SHADERS_CONTRACT_ATTENTION_DELTA_H

#include "contract.h"

/* Strides: of y and dy b, h, l, last; of lse b, h, l */
PUSH(attention_delta)
{
  uint queries;
  uint heads;
  uint width;
  uint count; /* queries of all sentences and heads */
  uint y_offset;
  uint y_stride[4];
  uint dy_offset;
  uint dy_stride[4];
  uint lse_offset;
  uint lse_stride[3];
  uint stats_at; /* pairs of words into stats */
}
PUSH_END(attention_delta);

#endif

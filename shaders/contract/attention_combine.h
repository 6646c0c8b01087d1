/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_ATTENTION_COMBINE_H
#define SHADERS_CONTRACT_ATTENTION_COMBINE_H

#include "attention_options.h"

PUSH(attention_combine)
{
  uint queries;
  uint heads;
  uint width;
  uint rows; /* queries of all sentences and heads */
  uint splits;
  uint partial_at; /* words into scratch: of each query and split its header, and its part of y */
  uint sums;       /* 1: lse is wanted */
}
PUSH_END(attention_combine);

#endif

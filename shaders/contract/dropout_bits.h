/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_DROPOUT_BITS_H
#define SHADERS_CONTRACT_DROPOUT_BITS_H

#include "contract.h"

PUSH(dropout_bits)
{
  uint seed_offset;
  uint seed_stride;
  uint stream;
  uint threshold;
  uint length; /* of a row, elements */
  uint row_words;
  uint count;   /* words */
  uint bits_at; /* likewise */
}
PUSH_END(dropout_bits);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_TOPK_MERGE_H
#define SHADERS_CONTRACT_TOPK_MERGE_H

#include "contract.h"

CONSTANT(topk_merge, 2, k, 1u);
CONSTANT(topk_merge, 3, logarithm, 0u); /* 1: log_softmax, from the lists' sums */
CONSTANT(topk_merge, 4, feeds, 0u);     /* 1: the indices are written to a state, too; k is 1 */

PUSH(topk_merge)
{
  uint rows;
  uint lists;         /* of a row, of k candidates each */
  uint candidates_at; /* words into scratch */
  uint state_at;      /* words: the first row's place */
}
PUSH_END(topk_merge);

#endif

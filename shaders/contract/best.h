/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHADERS_CONTRACT_BEST_H
#define SHADERS_CONTRACT_BEST_H

#include "contract.h"

CONSTANT(best, 2, k, 1u);
CONSTANT(best, 3, logarithm, 0u); /* 1: log_softmax, from the lists' sums */

PUSH(best)
{
  uint rows;
  uint lists;         /* of a row, of k candidates each */
  uint candidates_at; /* words into scratch */
}
PUSH_END(best);

#endif

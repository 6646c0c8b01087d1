/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/random/random.h"

uint64_t tsr_random_next(uint64_t *state)
{
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

int32_t tsr_random_below(uint64_t *state, int32_t n)
{
  return (int32_t)(tsr_random_next(state) % (uint64_t)n);
}

double tsr_random_real(uint64_t *state)
{
  return (double)(tsr_random_next(state) >> 11) * 0x1p-53 * 2.0 - 1.0;
}

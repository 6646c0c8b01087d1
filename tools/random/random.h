/* SPDX-License-Identifier: Apache-2.0
 *
 * Reproducible random numbers: SplitMix64 (Steele, Lea, Flood 2014). `state` is the seed, and moves on.
 */
#ifndef TESSERA_TOOLS_RANDOM_H
#define TESSERA_TOOLS_RANDOM_H

#include <stdint.h>

uint64_t tsr_random_next(uint64_t *state);

/* 0 .. n-1 */
int32_t tsr_random_below(uint64_t *state, int32_t n);

/* -1 up to 1 */
double tsr_random_real(uint64_t *state);

#endif

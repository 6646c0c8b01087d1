/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/philox.h: Philox 4x32-10, the counter-based generator of Salmon et al., "Parallel Random Numbers: As Easy as
 * 1, 2, 3" (2011): four random words as a function of a counter and a key, without a state. Initialisation, the order
 * of the training data, sampling and dropout take their numbers from it, so that a seed tells them all. This header
 * needs no other, and no library.
 */
#ifndef TESSERA_PHILOX_H
#define TESSERA_PHILOX_H

#include <stdint.h>

enum { TSR_PHILOX_ROUNDS = 10 };

/* One block of random words: word 0 of each array is the least significant. Any thread. */
static inline void tsr_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < TSR_PHILOX_ROUNDS; round++) {
    uint64_t product0 = (uint64_t)0xD2511F53u * c0;
    uint64_t product1 = (uint64_t)0xCD9E8D57u * c2;
    c0 = (uint32_t)(product1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)product1;
    c2 = (uint32_t)(product0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)product0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

#endif

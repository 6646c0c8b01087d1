/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences of random numbers that are named by what they are for: the same name, the same numbers, whatever was drawn
 * before or elsewhere.
 */
#ifndef TESSERA_CORE_TRAIN_DRAWS_H
#define TESSERA_CORE_TRAIN_DRAWS_H

#include "tessera/philox.h"

/* What sequences are for: the upper 8 bits of a sequence's name, so that none meets another. */
enum {
  TSR_DRAWS_PAIRS = 1,
  TSR_DRAWS_BATCHES = 2,
  TSR_DRAWS_TASK = 3,
  TSR_DRAWS_MEMBERSHIP = 4,
  TSR_DRAWS_WEIGHTS = 5,
  TSR_DRAWS_DROPOUT = 6,
  TSR_DRAWS_WINDOWS = 7,
  TSR_DRAWS_TIMESTAMPS = 8,
  TSR_DRAWS_MASKS = 9
};

typedef struct tsr_draws {
  uint32_t key[2];
  uint32_t counter[4]; /* of the next block: number, name, place */
  uint32_t words[4];
  int32_t used; /* words of the block that are gone */
} tsr_draws;

/* purpose: TSR_DRAWS_*; detail: below 2^24; place: two words of whatever tells sequences apart. */
static inline tsr_draws tsr_draws_make(uint64_t seed, uint32_t purpose, uint32_t detail, uint32_t place0,
                                       uint32_t place1)
{
  return (tsr_draws){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                     .counter = {0, purpose << 24 | detail, place0, place1},
                     .used = 4};
}

static inline uint32_t tsr_draw(tsr_draws *draws)
{
  if (draws->used == 4) {
    tsr_philox4x32(draws->counter, draws->key, draws->words);
    draws->counter[0]++;
    draws->used = 0;
  }
  return draws->words[draws->used++];
}

/* 1 with the probability `share`. */
static inline int tsr_draw_share(tsr_draws *draws, double share)
{
  return (double)tsr_draw(draws) < share * 0x1p32;
}

/* 0 .. n-1, n above 0; 64 bits are drawn, so that no number is noticeably likelier than another. */
static inline uint32_t tsr_draw_below(tsr_draws *draws, uint32_t n)
{
  uint64_t high = tsr_draw(draws);
  return (uint32_t)((high << 32 | tsr_draw(draws)) % n);
}

#endif

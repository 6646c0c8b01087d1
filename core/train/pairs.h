/* SPDX-License-Identifier: Apache-2.0
 *
 * Token ids of many sentence pairs, one after the other.
 */
#ifndef TESSERA_CORE_TRAIN_PAIRS_H
#define TESSERA_CORE_TRAIN_PAIRS_H

#include "tessera/status.h"

/* What a model of speech reads of a sound: the frames in which it sounds, of mels rows. Whatever is wider than these
 * has silence behind them. */
typedef struct tsr_pair_sound {
  int32_t frames;
  int32_t prompt;   /* ids that the target begins with and that are not learnt */
  float silence;    /* the feature of silence */
  float mean;       /* of the values */
  uint16_t *values; /* [M, frames] f16 */
} tsr_pair_sound;

/* Zero-initialise; finish it in the end. */
typedef struct tsr_pairs {
  int32_t n;
  int32_t room;
  int64_t *bounds; /* [2 * n + 1]: source i is ids[bounds[2i]] .. ids[bounds[2i + 1] - 1], target i what follows */
  int64_t *lines;  /* [n] numbers of the pairs in their corpus, from 1 */
  int32_t *ids;
  int64_t ids_room;
  tsr_pair_sound *sounds; /* [n] the sources, which then have no ids; NULL: text */
} tsr_pairs;

void tsr_pairs_finish(tsr_pairs *pairs);

/* Appends a pair. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_pairs_add(tsr_pairs *pairs, const int32_t *source, int32_t n_source, const int32_t *target,
                         int32_t n_target, int64_t line) TSR_MUST_CHECK;

/* The same of a sound, whose values the pairs take over after success. */
tsr_status tsr_pairs_add_sound(tsr_pairs *pairs, const tsr_pair_sound *sound, const int32_t *target, int32_t n_target,
                               int64_t line) TSR_MUST_CHECK;

/* In ids, or positions of two frames. */
static inline int32_t tsr_pairs_source_length(const tsr_pairs *pairs, int32_t i)
{
  if (pairs->sounds) {
    return (pairs->sounds[i].frames + 1) / 2;
  }
  return (int32_t)(pairs->bounds[2 * (int64_t)i + 1] - pairs->bounds[2 * (int64_t)i]);
}

static inline int32_t tsr_pairs_target_length(const tsr_pairs *pairs, int32_t i)
{
  return (int32_t)(pairs->bounds[2 * (int64_t)i + 2] - pairs->bounds[2 * (int64_t)i + 1]);
}

#endif

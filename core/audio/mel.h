/* SPDX-License-Identifier: Apache-2.0
 *
 * Log-mel features (tessera/audio.h) of a part of a sound.
 */
#ifndef TESSERA_CORE_MEL_H
#define TESSERA_CORE_MEL_H

#include "tessera/audio.h"

/* Where a sound is known. */
typedef struct tsr_sound_part {
  const float *samples; /* [n] */
  int64_t begin;        /* of the samples, in the sound */
  int64_t n;            /* what comes behind them is zero */
  int64_t length;       /* of the sound, which is reflected there; TSR_SOUND_ENDLESS: it goes on */
} tsr_sound_part;

#define TSR_SOUND_ENDLESS ((int64_t)1 << 60)

enum { TSR_MEL_REACH = 200 }; /* samples that a frame takes before its place, and behind it */

/* values [n_mels, stride]: the logarithms l of frames first .. first+n-1 of the sound, n <= stride. Returns the largest
 * of `largest` and these. */
float tsr_mel_logarithms(const tsr_mel *mel, const tsr_sound_part *part, int64_t first, int64_t n, float largest,
                         float *values, int64_t stride);

/* The same without the values; sooner, since it leaves out frames that are too quiet. */
float tsr_mel_largest(const tsr_mel *mel, const tsr_sound_part *part, int64_t first, int64_t n, float largest);

/* Features of n logarithms. */
void tsr_mel_scale(float *values, int64_t n, float largest);

#endif

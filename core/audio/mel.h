/* SPDX-License-Identifier: Apache-2.0
 *
 * Log-mel features of sound, as Whisper's models read them (Radford et al. 2022, "Robust Speech Recognition via
 * Large-Scale Weak Supervision", section 2.2; constants and order of steps as in its published feature extractor).
 *
 * Of a sound of n samples at 16 kHz, frame t has those around sample 160 t, 400 of them under a periodic Hann window;
 * at both ends the sound is reflected. With p the power of a frame's discrete Fourier transform, f the triangular
 * filters of Slaney's mel scale, each of area 1, and the maximum over all mels and frames:
 *
 *     l = log10(max(sum of f p over the bins, 1e-10))
 *     feature = (max(l, max l - 8) + 4) / 4
 *
 * Sums are made in double precision: results are those of the original within 1e-6.
 */
#ifndef TESSERA_CORE_MEL_H
#define TESSERA_CORE_MEL_H

#include <stdint.h>

#include "tessera/status.h"

enum {
  TSR_MEL_RATE = 16000,     /* samples a second */
  TSR_MEL_HOP = 160,        /* samples from a frame to the next */
  TSR_MEL_MOST_MELS = 1024, /* Whisper has 80 or 128 */
};

/* Window, filters and table of the transform; never changes: any number of threads. */
typedef struct tsr_mel tsr_mel;

/* *mel is the caller's until tsr_mel_destroy. n_mels: 1 .. TSR_MEL_MOST_MELS. Errors: TSR_ERR_ARGUMENT,
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_mel_create(int32_t n_mels, tsr_mel **mel) TSR_MUST_CHECK;
void tsr_mel_destroy(tsr_mel *mel); /* takes NULL */

/* features [n_mels, length / TSR_MEL_HOP] of a sound of `length` samples: the n that are given, with zeros behind them,
 * or the first of them. A window of 30 s has length 480,000. Samples from -1 to 1, all finite. Any thread. */
void tsr_mel_features(const tsr_mel *mel, const float *samples, int64_t n, int64_t length, float *features);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Sounds against the recordings of tests/data/goldens/speech/features.
 */
#ifndef TESSERA_TESTS_AUDIO_RECORDED_H
#define TESSERA_TESTS_AUDIO_RECORDED_H

#include <stdint.h>

#include "tessera/audio.h"

/* The samples of a sound that has no more than `room`, allocated. */
float *read_sound(tsr_audio *audio, int64_t room, int64_t *n);

/* Mean and largest difference of a sound's features from what was recorded of fox.wav. */
void compare_recorded(tsr_audio *audio, double *mean, double *largest);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/audio/recorded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>

#include "tessera/checkpoint.h"

#define FEATURES TESSERA_SOURCE_ROOT "/tests/data/goldens/speech/features/"

enum { MELS = 80, FRAMES = 3000 };

float *read_sound(tsr_audio *audio, int64_t room, int64_t *n)
{
  float *samples = calloc((size_t)room, sizeof *samples);
  assert_non_null(samples);
  const tsr_status status = tsr_audio_read(audio, samples, room, n);
  if (status != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  return samples;
}

void compare_recorded(tsr_audio *audio, double *mean, double *largest)
{
  tsr_checkpoint *checkpoint;
  assert_int_equal(tsr_checkpoint_open(FEATURES "features.safetensors", &checkpoint), TSR_OK);
  const tsr_checkpoint_tensor *tensor = tsr_checkpoint_find(checkpoint, "fox.mel80");
  assert_non_null(tensor);
  tsr_checkpoint_tensor_info info;
  tsr_checkpoint_describe(tensor, &info);
  const int64_t stored = info.shape.extent[1];
  float *expected = calloc((size_t)(MELS * stored), sizeof *expected);
  assert_int_equal(tsr_checkpoint_read(tensor, 0, MELS * stored, TSR_F32, expected), TSR_OK);
  static float values[MELS * FRAMES];
  tsr_mel *mel;
  tsr_features *features;
  int32_t got;
  assert_int_equal(tsr_mel_create(MELS, &mel), TSR_OK);
  assert_int_equal(tsr_features_open(audio, mel, &features), TSR_OK);
  const tsr_status status = tsr_features_read(features, 0, FRAMES, TSR_FEATURES_ALONE, values, &got);
  if (status != TSR_OK) {
    fail_msg("%s", tsr_error_message());
  }
  *mean = *largest = 0;
  for (int64_t m = 0; m < MELS; m++) {
    for (int64_t t = 0; t < stored; t++) {
      const double difference = fabs((double)values[m * FRAMES + t] - (double)expected[m * stored + t]);
      *mean += difference / (double)(MELS * stored);
      *largest = fmax(*largest, difference);
    }
  }
  tsr_features_close(features);
  tsr_mel_destroy(mel);
  free(expected);
  tsr_checkpoint_close(checkpoint);
}

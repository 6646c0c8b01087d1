/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins that decode and resample, and do one thing wrong: which, the compiler is told. Without BREAK_*, nothing: a
 * sound of five samples, each of three channels, whatever the file holds.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tessera/audio_plugin.h"

enum { SAMPLES = 5, CHANNELS = 3 };

static int32_t open_sound(const tsr_audio_bytes *bytes, void **sound, tsr_audio_facts *facts, char *message)
{
  int64_t *left = malloc(sizeof *left);
  (void)bytes;
  (void)message;
#ifdef BREAK_UNKNOWN
  free(left);
  snprintf(message, TSR_AUDIO_MESSAGE_ROOM, "never heard of it");
  return TSR_ERR_UNSUPPORTED;
#endif
  *left = SAMPLES;
  *sound = left;
#ifdef BREAK_CHANNELS
  facts->channels = 0;
#else
  facts->channels = CHANNELS;
#endif
  facts->rate = 8000;
  facts->length = SAMPLES;
  snprintf(facts->format, sizeof facts->format, "five");
  return TSR_OK;
}

static int32_t read_sound(void *sound, float *samples, int64_t n, int64_t *got, char *message)
{
  int64_t *left = sound;
  (void)message;
  *got = n < *left ? n : *left;
  *left -= *got;
  for (int64_t i = 0; i < *got * CHANNELS; i++) {
    samples[i] = (float)(1 + i % CHANNELS) / 4;
  }
#ifdef BREAK_GREEDY
  *got = n + 1;
#endif
  return TSR_OK;
}

static void close_sound(void *sound)
{
  free(sound);
}

static int32_t create(int32_t rate, int32_t new_rate, void **resampler, char *message)
{
  (void)rate;
  (void)new_rate;
  (void)message;
  *resampler = calloc(1, sizeof(int64_t));
  return TSR_OK;
}

/* Each sample twice, and two samples fewer than there should be. */
static int32_t resample(void *resampler, const float *samples, int64_t n, int64_t *used, float *resampled, int64_t room,
                        int64_t *made, char *message)
{
  int64_t *taken = resampler;
  (void)message;
  *used = *made = 0;
#ifdef BREAK_IDLE
  return TSR_OK;
#endif
  for (; samples && *used < n && *made + 2 <= room; ++*used) {
    if (++*taken < SAMPLES) {
      resampled[(*made)++] = samples[*used];
      resampled[(*made)++] = samples[*used];
    }
  }
#ifdef BREAK_OVERFULL
  *made = room + 1;
#endif
  return TSR_OK;
}

static const tsr_audio_plugin plugin = {
#ifdef BREAK_SIZE
    .struct_size = 16,
#else
    .struct_size = sizeof(tsr_audio_plugin),
#endif
#ifdef BREAK_MAJOR
    .abi_major = TSR_AUDIO_ABI_MAJOR + 1,
#else
    .abi_major = TSR_AUDIO_ABI_MAJOR,
#endif
    .build_flags = TSR_BUILD_FLAGS,
    .name = "five",
    .description = "five samples",
    .open = open_sound,
    .read = read_sound,
    .close = close_sound,
    .resampler_create = create,
    .resample = resample,
#ifdef BREAK_SLOT
    .resampler_destroy = NULL,
#else
    .resampler_destroy = free,
#endif
};

TSR_BACKEND_EXPORT const tsr_audio_plugin *tessera_audio_query(uint32_t host_abi_major);

const tsr_audio_plugin *tessera_audio_query(uint32_t host_abi_major)
{
#ifdef BREAK_REFUSAL
  host_abi_major++;
#endif
  return host_abi_major == TSR_AUDIO_ABI_MAJOR ? &plugin : NULL;
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Resamples by libsoxr: linear phase, 20 bits of precision, no frequency above half of either rate.
 */
#include <soxr.h>
#include <stdio.h>

#include "tessera/audio_plugin.h"

static int32_t check(soxr_error_t error, char *message)
{
  if (error) {
    snprintf(message, TSR_AUDIO_MESSAGE_ROOM, "%s", soxr_strerror(error));
    return TSR_ERR_INTERNAL;
  }
  return TSR_OK;
}

static int32_t soxr_begin(int32_t rate, int32_t new_rate, void **resampler, char *message)
{
  const soxr_io_spec_t types = soxr_io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  const soxr_runtime_spec_t one_thread = soxr_runtime_spec(1);
  soxr_error_t error = NULL;
  *resampler = soxr_create(rate, new_rate, 1, &error, &types, &quality, &one_thread);
  return check(error, message);
}

static int32_t soxr_step(void *resampler, const float *samples, int64_t n, int64_t *used, float *resampled,
                         int64_t room, int64_t *made, char *message)
{
  size_t taken = 0, given = 0;
  const soxr_error_t error =
      soxr_process(resampler, samples, samples ? (size_t)n : 0, &taken, resampled, (size_t)room, &given);
  *used = (int64_t)taken;
  *made = (int64_t)given;
  return check(error, message);
}

static void soxr_end(void *resampler)
{
  soxr_delete(resampler);
}

static const tsr_audio_plugin soxr_plugin = {
    .struct_size = sizeof(tsr_audio_plugin),
    .abi_major = TSR_AUDIO_ABI_MAJOR,
    .build_flags = TSR_BUILD_FLAGS,
    .name = "soxr",
    .description = "resampling by libsoxr",
    .resampler_create = soxr_begin,
    .resample = soxr_step,
    .resampler_destroy = soxr_end,
};

TSR_BACKEND_EXPORT const tsr_audio_plugin *tessera_audio_query(uint32_t host_abi_major);

const tsr_audio_plugin *tessera_audio_query(uint32_t host_abi_major)
{
  return host_abi_major == TSR_AUDIO_ABI_MAJOR ? &soxr_plugin : NULL;
}

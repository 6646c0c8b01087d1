/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/codec.h"

#if TSR_HAS_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

#include "core/base/status.h"

static int begins(const unsigned char *bytes, size_t size)
{
  int is_frame = size >= 4 && bytes[0] == 0x28 && bytes[1] == 0xB5 && bytes[2] == 0x2F && bytes[3] == 0xFD;
  int is_skippable = size >= 4 && bytes[0] >> 4 == 5 && bytes[1] == 0x2A && bytes[2] == 0x4D && bytes[3] == 0x18;
  return is_frame || is_skippable;
}

#if TSR_HAS_ZSTD
static tsr_status open_zstd(void **state)
{
  *state = ZSTD_createDCtx();
  return *state ? TSR_OK : tsr_fail_memory(ZSTD_DStreamInSize());
}

static void restart_zstd(void *state)
{
  ZSTD_DCtx_reset(state, ZSTD_reset_session_only);
}

static tsr_codec_progress step_zstd(void *state, tsr_codec_step *step)
{
  ZSTD_inBuffer in = {.src = step->in, .size = step->in_size};
  ZSTD_outBuffer out = {.dst = step->out, .size = step->room};
  size_t wanted = ZSTD_decompressStream(state, &out, &in);
  step->in += in.pos;
  step->in_size -= in.pos;
  step->out += out.pos;
  step->room -= out.pos;
  if (!ZSTD_isError(wanted)) {
    return wanted == 0 ? TSR_CODEC_ENDED : TSR_CODEC_GOES_ON;
  }
  switch (ZSTD_getErrorCode(wanted)) {
  case ZSTD_error_memory_allocation:
    return TSR_CODEC_NO_MEMORY;
  case ZSTD_error_frameParameter_windowTooLarge:
    step->fault = "it has a window of more than 128 MiB; compress the text again, with zstd --long=27 at most";
    return TSR_CODEC_BROKEN;
  default:
    step->fault = ZSTD_getErrorName(wanted);
    return TSR_CODEC_BROKEN;
  }
}

static void close_zstd(void *state)
{
  ZSTD_freeDCtx(state);
}
#endif

const tsr_codec tsr_codec_zstd = {
    .format = "zstd",
    .unit = "frame",
    .begins = begins,
#if TSR_HAS_ZSTD
    .open = open_zstd,
    .restart = restart_zstd,
    .step = step_zstd,
    .close = close_zstd,
#endif
};

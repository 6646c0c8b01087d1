/* SPDX-License-Identifier: Apache-2.0 */
#include "core/text/codec.h"

#include <stdlib.h>
#include <zlib.h>

#include "core/base/status.h"

static int begins(const unsigned char *bytes, size_t size)
{
  return size >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B;
}

static tsr_status open_gzip(void **state)
{
  enum { GZIP_ALONE = 16 /* added to the window's size: zlib reads and checks gzip's header and trailer */ };
  z_stream *z = calloc(1, sizeof *z);
  if (!z || inflateInit2(z, MAX_WBITS + GZIP_ALONE) != Z_OK) {
    free(z);
    return tsr_fail_memory(sizeof *z);
  }
  *state = z;
  return TSR_OK;
}

static void restart_gzip(void *state)
{
  inflateReset(state);
}

static tsr_codec_progress step_gzip(void *state, tsr_codec_step *step)
{
  enum { MOST = 1 << 20 /* zlib counts in 32 bits */ };
  z_stream *z = state;
  uInt in = step->in_size < MOST ? (uInt)step->in_size : MOST;
  uInt room = step->room < MOST ? (uInt)step->room : MOST;
  z->next_in = (unsigned char *)step->in;
  z->avail_in = in;
  z->next_out = (unsigned char *)step->out;
  z->avail_out = room;
  int code = inflate(z, Z_NO_FLUSH);
  step->in += in - z->avail_in;
  step->in_size -= in - z->avail_in;
  step->out += room - z->avail_out;
  step->room -= room - z->avail_out;
  switch (code) {
  case Z_OK:
  case Z_BUF_ERROR: /* nothing could be done without more input */
    return TSR_CODEC_GOES_ON;
  case Z_STREAM_END:
    inflateReset(z);
    return TSR_CODEC_ENDED;
  case Z_MEM_ERROR:
    return TSR_CODEC_NO_MEMORY;
  default:
    step->fault = z->msg ? z->msg : "invalid data";
    return TSR_CODEC_BROKEN;
  }
}

static void close_gzip(void *state)
{
  if (state) {
    inflateEnd(state);
    free(state);
  }
}

const tsr_codec tsr_codec_gzip = {
    .format = "gzip",
    .unit = "member",
    .begins = begins,
    .open = open_gzip,
    .restart = restart_gzip,
    .step = step_gzip,
    .close = close_gzip,
};

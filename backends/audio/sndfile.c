/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes by libsndfile, which reads the file through functions of the library.
 */
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/audio_plugin.h"

typedef struct sndfile_sound {
  const tsr_audio_bytes *bytes;
  sf_count_t at; /* of the next byte */
  SNDFILE *file;
  sf_count_t expected; /* samples of each channel that the header promises; -1: none */
  sf_count_t taken;
} sndfile_sound;

static int32_t fail(char *message, int32_t status, const char *why)
{
  snprintf(message, TSR_AUDIO_MESSAGE_ROOM, "%s", why);
  return status;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static sf_count_t length_of(void *context)
{
  return ((const sndfile_sound *)context)->bytes->size;
}

static sf_count_t seek_to(sf_count_t offset, int whence, void *context)
{
  sndfile_sound *sound = context;
  const sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? sound->at : sound->bytes->size;
  const sf_count_t at = from + offset;
  if (sound->bytes->seek(sound->bytes->context, at) != TSR_OK) {
    return -1;
  }
  sound->at = at;
  return at;
}

static sf_count_t read_bytes(void *target, sf_count_t size, void *context)
{
  sndfile_sound *sound = context;
  sf_count_t total = 0;
  int64_t got = 1;
  while (total < size && got > 0) {
    if (sound->bytes->read(sound->bytes->context, (char *)target + total, size - total, &got) != TSR_OK) {
      return total;
    }
    total += got;
    sound->at += got;
  }
  return total;
}

static sf_count_t write_bytes(const void *source, sf_count_t size, void *context)
{
  (void)source;
  (void)size;
  (void)context;
  return 0;
}

static sf_count_t tell(void *context)
{
  return ((const sndfile_sound *)context)->at;
}

/* ---- slots ------------------------------------------------------------------------------------------------------- */

static void sndfile_close(void *context)
{
  sndfile_sound *sound = context;
  if (sound->file) {
    sf_close(sound->file);
  }
  free(sound);
}

/* The name of the file's kind, and where samples have another coding than the kind's usual one, that. */
static void name_format(int format, char *name, size_t size)
{
  SF_FORMAT_INFO kind = {.format = format & SF_FORMAT_TYPEMASK}, coding = {.format = format & SF_FORMAT_SUBMASK};
  const int is_known = sf_command(NULL, SFC_GET_FORMAT_INFO, &kind, sizeof kind) == 0;
  const int has_coding = sf_command(NULL, SFC_GET_FORMAT_INFO, &coding, sizeof coding) == 0;
  snprintf(name, size, "%s%s%s", is_known ? kind.name : "?", has_coding ? ", " : "", has_coding ? coding.name : "");
}

/* FLAC's header says how many samples there are, and none of its decoders ends sooner without a fault. Of other kinds
 * libsndfile itself counts what the file has. */
static int tells_length(const SF_INFO *info)
{
  return (info->format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC && info->frames > 0 && info->frames < SF_COUNT_MAX;
}

static int32_t sndfile_open(const tsr_audio_bytes *bytes, void **context, tsr_audio_facts *facts, char *message)
{
  SF_VIRTUAL_IO functions = {length_of, seek_to, read_bytes, write_bytes, tell};
  SF_INFO info = {0};
  sndfile_sound *sound = calloc(1, sizeof *sound);
  if (!sound) {
    return fail(message, TSR_ERR_OUT_OF_MEMORY, "no memory to open a sound");
  }
  sound->bytes = bytes;
  sound->file = sf_open_virtual(&functions, SFM_READ, &info, sound);
  if (!sound->file) {
    const int code = sf_error(NULL);
    const int is_unknown = code == SF_ERR_UNRECOGNISED_FORMAT || code == SF_ERR_UNSUPPORTED_ENCODING;
    free(sound);
    return fail(message, is_unknown ? TSR_ERR_UNSUPPORTED : TSR_ERR_FORMAT, sf_strerror(NULL));
  }
  sound->expected = tells_length(&info) ? info.frames : -1;
  facts->rate = info.samplerate;
  facts->channels = info.channels;
  facts->length = info.frames >= 0 && info.frames < SF_COUNT_MAX ? info.frames : -1;
  name_format(info.format, facts->format, sizeof facts->format);
  *context = sound;
  return TSR_OK;
}

static int32_t sndfile_read(void *context, float *samples, int64_t n, int64_t *got, char *message)
{
  sndfile_sound *sound = context;
  *got = sf_readf_float(sound->file, samples, n);
  *got = *got < 0 ? 0 : *got;
  sound->taken += *got;
  if (*got < n && sf_error(sound->file) != SF_ERR_NO_ERROR) {
    return fail(message, TSR_ERR_FORMAT, sf_strerror(sound->file));
  }
  if (*got == 0 && sound->taken < sound->expected) {
    snprintf(message, TSR_AUDIO_MESSAGE_ROOM, "the file ends %lld samples before it should",
             (long long)(sound->expected - sound->taken));
    return TSR_ERR_FORMAT;
  }
  return TSR_OK;
}

static const tsr_audio_plugin sndfile_plugin = {
    .struct_size = sizeof(tsr_audio_plugin),
    .abi_major = TSR_AUDIO_ABI_MAJOR,
    .build_flags = TSR_BUILD_FLAGS,
    .name = "sndfile",
    .description = "formats that libsndfile reads",
    .open = sndfile_open,
    .read = sndfile_read,
    .close = sndfile_close,
};

TSR_BACKEND_EXPORT const tsr_audio_plugin *tessera_audio_query(uint32_t host_abi_major);

const tsr_audio_plugin *tessera_audio_query(uint32_t host_abi_major)
{
  return host_abi_major == TSR_AUDIO_ABI_MAJOR ? &sndfile_plugin : NULL;
}

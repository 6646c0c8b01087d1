/* SPDX-License-Identifier: Apache-2.0 */
#include "core/audio/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/base/platform/paths.h"
#include "core/base/status.h"
#include "core/runtime/plugins.h"

const tsr_audio_plugin_kind tsr_audio_decoders[TSR_AUDIO_DECODERS] = {
    {"sndfile", "reads FLAC, Ogg Vorbis, Opus, MP3, AIFF and others",
     "tessera-audio; to build it, libsndfile1-dev and meson setup -Daudio=enabled"},
    {"libav", "reads M4A, WebM, videos and others",
     "tessera-audio-libav; to build it, libavformat-dev, libavcodec-dev, libswresample-dev and meson setup "
     "-Dlibav=enabled"},
};
const tsr_audio_plugin_kind tsr_audio_resampler = {
    "soxr", "resamples", "tessera-audio; to build it, libsoxr-dev and meson setup -Daudio=enabled"};

static int has_all(int decodes, int resamples, const tsr_audio_plugin *t)
{
  const int n_decode = (t->open != NULL) + (t->read != NULL) + (t->close != NULL);
  const int n_resample = (t->resampler_create != NULL) + (t->resample != NULL) + (t->resampler_destroy != NULL);
  return (n_decode == 0 || n_decode == 3) && (n_resample == 0 || n_resample == 3) && (!decodes || n_decode > 0) &&
         (!resamples || n_resample > 0);
}

static tsr_status check_table(const tsr_audio_plugin_kind *kind, const tsr_audio_plugin *t)
{
  if (!t) {
    return tsr_fail(TSR_ERR_PLUGIN, "refuses version %u of the interface of audio plugins",
                    (unsigned)TSR_AUDIO_ABI_MAJOR);
  }
  if (t->abi_major != TSR_AUDIO_ABI_MAJOR || t->struct_size < sizeof *t) {
    return tsr_fail(TSR_ERR_PLUGIN,
                    "an audio plugin of version %u with a table of %u bytes; this program uses version %u, whose table "
                    "has %zu: get the plugin's release for this version of Tessera",
                    (unsigned)t->abi_major, (unsigned)t->struct_size, (unsigned)TSR_AUDIO_ABI_MAJOR, sizeof *t);
  }
  const int resamples = kind == &tsr_audio_resampler;
  if (!t->name || !t->description || !has_all(!resamples, resamples, t)) {
    return tsr_fail(TSR_ERR_PLUGIN, "the plugin leaves a field of its table empty that it needs to be one that %s",
                    kind->work);
  }
  return tsr_build_flags_check("the plugin was", t->build_flags);
}

static tsr_status load(const tsr_audio_plugin_kind *kind, const char *file, tsr_audio_library *library)
{
  void *function;
  tsr_audio_query_fn query;
  TSR_TRY(tsr_library_open(file, "audio plugin", TSR_AUDIO_QUERY_NAME, &library->library, &function));
  memcpy(&query, &function, sizeof query);
  library->table = query(TSR_AUDIO_ABI_MAJOR);
  const tsr_status status = check_table(kind, library->table);
  if (status != TSR_OK) {
    tsr_audio_library_close(library);
  }
  return status;
}

tsr_status tsr_audio_library_open(const tsr_audio_plugin_kind *kind, const char *path, tsr_audio_library *library,
                                  int *is_missing)
{
  char plugin[32];
  tsr_plugin_place search;
  *library = (tsr_audio_library){0};
  *is_missing = 0;
  snprintf(plugin, sizeof plugin, "audio-%s", kind->name);
  TSR_TRY(tsr_plugin_find(path, plugin, &search));
  if (!search.file[0]) {
    *is_missing = 1;
    return tsr_fail(TSR_ERR_PLUGIN,
                    "there is no libtessera-%s" TSR_LIBRARY_SUFFIX ", which %s (Debian: %s); searched: %s", plugin,
                    kind->work, kind->packages, search.searched);
  }
  return tsr_fail_context(load(kind, search.file, library), "%s", search.file);
}

void tsr_audio_library_close(tsr_audio_library *library)
{
  if (library->library) {
    dlclose(library->library);
  }
  *library = (tsr_audio_library){0};
}

tsr_status tsr_audio_library_check(const tsr_audio_library *library, int32_t result, const char *message)
{
  if (result == TSR_OK) {
    return TSR_OK;
  }
  return tsr_fail(result > TSR_OK && result <= TSR_ERR_INTERNAL ? result : TSR_ERR_PLUGIN, "%s: %.*s",
                  library->table->name, TSR_AUDIO_MESSAGE_ROOM - 1, message[0] ? message : "no reason given");
}

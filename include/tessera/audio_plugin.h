/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/audio_plugin.h: the plugin ABI of sound, version 1: who decodes the formats that the library does not read
 * itself, and who resamples.
 *
 * A plugin is a shared object named libtessera-audio-NAME.so (on Windows a DLL) that exports one symbol,
 *
 *     const tsr_audio_plugin *tessera_audio_query(uint32_t host_abi_major);
 *
 * It returns a constant table that stays valid until the shared object is unloaded, or NULL to refuse. The library asks
 * `sndfile`, then `libav`, to decode, and `soxr` to resample. Plugins are looked for where backends are
 * (tessera/backend.h), and are loaded when a sound needs them.
 */
#ifndef TESSERA_AUDIO_PLUGIN_H
#define TESSERA_AUDIO_PLUGIN_H

#include "tessera/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TSR_AUDIO_ABI_MAJOR  1u
#define TSR_AUDIO_QUERY_NAME "tessera_audio_query"

enum { TSR_AUDIO_MESSAGE_ROOM = 256 }; /* bytes, with the NUL */

/* The bytes of a file, which the library reads. Both functions return TSR_OK or a TSR_ERR_ code, of which the plugin
 * tells nobody: it returns an error of its own, and the library knows the reason. */
typedef struct tsr_audio_bytes {
  int32_t (*read)(void *context, void *bytes, int64_t size,
                  int64_t *got);                  /* up to `size`; *got is 0 at the end alone */
  int32_t (*seek)(void *context, int64_t offset); /* the next byte that is read; 0 .. size */
  void *context;
  int64_t size; /* of the file */
} tsr_audio_bytes;
TSR_ABI_PIN(tsr_audio_bytes, size, 24);

/* What a plugin says of a file. */
typedef struct tsr_audio_facts {
  uint32_t struct_size; /* of what the library knows */
  int32_t rate;         /* samples a second, of each channel */
  int32_t channels;
  int32_t reserved;
  int64_t length;  /* samples of each channel, as the header has it; -1: unknown */
  char format[64]; /* of the file, for people: "FLAC" */
} tsr_audio_facts;
TSR_ABI_PIN(tsr_audio_facts, format, 24);

/* A table of functions, constant as long as the plugin is loaded. It has all slots that decode, or all that resample,
 * or both; the others are NULL. Slots that can fail return TSR_OK or a TSR_ERR_ code, and after an error `message`
 * [TSR_AUDIO_MESSAGE_ROOM] tells the user why; it does not name the file. Any thread; one object is used by one at a
 * time. Growth: as in tessera/backend.h; fields are only appended. */
typedef struct tsr_audio_plugin {
  uint32_t struct_size;
  uint32_t abi_major;   /* TSR_AUDIO_ABI_MAJOR */
  uint32_t build_flags; /* TSR_BUILD_FLAGS */
  uint32_t reserved;
  const char *name;
  const char *description;

  /* Opens a file at its beginning, and fills *facts. *bytes lives as long as the sound. TSR_ERR_UNSUPPORTED: a format
   * that the plugin does not know; another one is asked. After an error there is nothing to close. */
  int32_t (*open)(const tsr_audio_bytes *bytes, void **sound, tsr_audio_facts *facts, char *message);
  /* The next n samples of each channel, samples [n, channels], from -1 to 1 where the file has whole numbers. *got is 0
   * at the end alone. A file that ends before its header says is TSR_ERR_FORMAT, if the plugin can tell. */
  int32_t (*read)(void *sound, float *samples, int64_t n, int64_t *got, char *message);
  void (*close)(void *sound);

  /* Begins to turn one channel of `rate` samples a second into one of `new_rate`. */
  int32_t (*resampler_create)(int32_t rate, int32_t new_rate, void **resampler, char *message);
  /* Takes up to n samples, *used of them, and gives up to `room`, *made of them; at least one of both is above 0 while
   * there is anything to do. samples: NULL: all were given; then *made is 0 once all came out. Sample i of what comes
   * out stands for the time i / new_rate: a filter's delay is made up for. */
  int32_t (*resample)(void *resampler, const float *samples, int64_t n, int64_t *used, float *resampled, int64_t room,
                      int64_t *made, char *message);
  void (*resampler_destroy)(void *resampler);
} tsr_audio_plugin;
TSR_ABI_PIN(tsr_audio_plugin, resampler_destroy, 72);

/* A plugin exports a function of this type, named tessera_audio_query. NULL: it refuses that version. */
typedef const tsr_audio_plugin *(*tsr_audio_query_fn)(uint32_t host_abi_major);

#ifdef __cplusplus
}
#endif
#endif

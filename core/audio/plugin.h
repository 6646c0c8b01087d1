/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins of sound: found, loaded, checked.
 */
#ifndef TESSERA_CORE_AUDIO_PLUGIN_H
#define TESSERA_CORE_AUDIO_PLUGIN_H

#include "tessera/audio_plugin.h"
#include "tessera/status.h"

typedef struct tsr_audio_library {
  const tsr_audio_plugin *table; /* NULL: none is loaded */
  void *library;
} tsr_audio_library;

/* Which plugins there are: decoders in the order in which they are asked. */
typedef struct tsr_audio_plugin_kind {
  const char *name;
  const char *work;     /* what it does, for a message */
  const char *packages; /* Debian's: with the plugin, and to build it */
} tsr_audio_plugin_kind;

enum { TSR_AUDIO_DECODERS = 2 };
extern const tsr_audio_plugin_kind tsr_audio_decoders[TSR_AUDIO_DECODERS];
extern const tsr_audio_plugin_kind tsr_audio_resampler;

/* Loads a plugin from the folders of `path` (core/runtime/plugins.h). *is_missing: 1 with TSR_ERR_PLUGIN if there is no
 * such file; the message says where it comes from. Close it after success. Errors: TSR_ERR_PLUGIN,
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_audio_library_open(const tsr_audio_plugin_kind *kind, const char *path, tsr_audio_library *library,
                                  int *is_missing) TSR_MUST_CHECK;
void tsr_audio_library_close(tsr_audio_library *library); /* takes a zeroed one */

/* What a slot returned, with its message. Returns an error for one. */
tsr_status tsr_audio_library_check(const tsr_audio_library *library, int32_t result,
                                   const char *message) TSR_MUST_CHECK;

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Sounds on their way through a model of speech. They wait with their model, as texts do; the thread of an open model
 * takes those that ask for the same, hears them together, and lets others that ask for it join meanwhile.
 */
#ifndef TESSERA_SERVE_HEARING_H
#define TESSERA_SERVE_HEARING_H

#include "tessera/transcriber.h"
#include "tools/tessera/serve/models.h"

enum { SOUND_MESSAGE = 512 };

/* What is asked of a sound. Texts are borrowed. */
typedef struct sound_wishes {
  int32_t task;         /* TSR_SPEECH_* */
  const char *language; /* NULL: the sound tells it */
  const char *prompt;   /* or NULL */
  float temperature;    /* the first one */
  int32_t words;
} sound_wishes;

/* A sound in hand. The caller's, at rest until segment.done; of the segment, it fills model, deadline, done and
 * is_cancelled. With SEGMENT_DONE, `transcript` is there during the call; with SEGMENT_REFUSED, `problem` says why, ""
 * where the model cannot be opened, and `status` is that of a sound that cannot be read on, else TSR_OK. */
typedef struct sound {
  segment segment; /* first */
  tsr_audio *audio;
  double most_seconds; /* of the sound; 0: any number */
  sound_wishes wishes;
  /* Or NULL. Each stretch of text as soon as it is heard, in the thread of the model. After a device that failed, what
   * was told is not told again. */
  void (*piece)(struct sound *s, const char *text, size_t size);
  const tsr_transcript *transcript;
  char problem[SOUND_MESSAGE];
  tsr_status status;
  const char *param;   /* with SEGMENT_REFUSED, which of the wishes is wrong; NULL: none of them alone */
  int32_t is_too_long; /* with SEGMENT_REFUSED */
  size_t told, come;   /* bytes: that were told; of this attempt */
} sound;

/* 1 if it may no more be heard: nobody waits for it, or its deadline has passed. */
int sound_is_over(sound *s);

/* Of an instance with a transcriber: starts the thread that hears what waits for its model. Returns 0 if there can be
 * none. */
int hearing_start(instance *by);
/* Ends it; nothing is in hand. */
void hearing_stop(instance *by);

/* Sums over all models. */
typedef struct hearing_statistics {
  int64_t sounds;  /* that were heard to their end */
  int64_t runs;    /* in which one or several were heard */
  double seconds;  /* of sound */
  int32_t running; /* sounds that are being heard */
} hearing_statistics;
void hearing_measure(hearing_statistics *statistics);

#endif

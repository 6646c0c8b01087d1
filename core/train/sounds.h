/* SPDX-License-Identifier: Apache-2.0
 *
 * Sounds as the sources of pairs: their features, the ids of what is said, and masks.
 */
#ifndef TESSERA_CORE_TRAIN_SOUNDS_H
#define TESSERA_CORE_TRAIN_SOUNDS_H

#include "core/train/pairs.h"
#include "tessera/audio.h"
#include "tessera/eval.h"
#include "tessera/training_data.h"

/* Zero-initialise, open, finish. One thread at a time. */
typedef struct tsr_sound_reader {
  tsr_training_sounds options; /* complete; its pointers but for plugins_path are not used */
  const tsr_tokenizer *tokenizer;
  tsr_speech_tokens tokens;
  int32_t language; /* index; -1: prompts have neither language nor task */
  uint64_t seed;
  char *folder; /* of the list */
  tsr_mel *mel;
  float *samples;  /* [window + 1] */
  float *features; /* [M, 2 * positions] */
} tsr_sound_reader;

/* reader->options are the caller's, as they are; list: the path of the file with the sounds. Finish it also after an
 * error. Errors: TSR_ERR_ARGUMENT, naming the field; TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_sound_reader_open(tsr_sound_reader *reader, const tsr_training_data_options *options,
                                 const char *list) TSR_MUST_CHECK;
void tsr_sound_reader_finish(tsr_sound_reader *reader);

/* Of a pair: the sound, whose values are the caller's to free, and the target's ids, likewise, <|startoftranscript|>
 * left out and <|endoftext|> at their end. language, task: columns of the list, or empty. *is_long: 1: the sound is
 * longer than a window; then it has no values. Errors: those of tsr_audio_open and tsr_audio_read; TSR_ERR_FORMAT (no
 * such language or task; a text with special tokens). */
tsr_status tsr_sound_read(tsr_sound_reader *reader, const tsr_corpus_pair *pair, tsr_span language, tsr_span task,
                          tsr_pair_sound *sound, int32_t *is_long, int32_t **target, int32_t *n_target) TSR_MUST_CHECK;

/* Writes a row of a batch: rows of `width` frames, silence behind the sound. */
void tsr_sound_fill(const tsr_pair_sound *sound, int32_t mels, int32_t width, float *row);

/* Masks a row that was filled. */
void tsr_sound_mask(const tsr_training_sounds *options, uint64_t seed, int64_t epoch, int64_t line,
                    const tsr_pair_sound *sound, int32_t width, float *row);

#endif

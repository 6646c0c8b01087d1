/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of this room share: a transcriber, the sounds of a call, and the windows that are searched together.
 */
#ifndef TESSERA_CORE_TRANSCRIBE_H
#define TESSERA_CORE_TRANSCRIBE_H

#include "tessera/transcriber.h"

struct tsr_transcriber {
  tsr_runtime *runtime;
  int32_t has_runtime; /* it is its own */
  tsr_model *model;
  tsr_transformer_config config;
  tsr_tokenizer *tokenizer;
  tsr_device *device;
  tsr_transformer *transformer;
  tsr_mel *mel;
  tsr_details *details;
  tsr_speech_tokens tokens;
  int32_t is_multilingual;
  int32_t has_timestamps; /* 0: it was trained without, and cannot write them */
  int32_t median_width;   /* of the filter that times of words go through */
  int32_t *languages;     /* [n_languages] ids of their tokens */
  int32_t n_languages;
  int32_t batch;
};

/* What a call asks for. */
typedef struct tsr_transcribe_request {
  tsr_transcribe_options options;
  tsr_generate_options search;
  int32_t language; /* an index; -1: to be detected, or the model has but one */
  int32_t *prompt;  /* [n_prompt] ids */
  int32_t n_prompt;
  int32_t most_of_previous; /* tokens that a window is told of those before it */
} tsr_transcribe_request;

typedef struct tsr_sound {
  int32_t number;
  tsr_audio *audio;
  tsr_features *features;
  int32_t kind;      /* TSR_FEATURES_* of its first window */
  int64_t seek;      /* the frame that the next window begins with */
  int64_t frames;    /* of the whole sound; -1: not known before its end */
  int32_t language;  /* an index; -1: not yet known, or there is none */
  int32_t *previous; /* [n_previous] tokens that the next window may be told of */
  int32_t n_previous;
  int32_t room; /* of previous */
  int32_t is_done;
  int32_t room_of_segments; /* of the transcript's */
  tsr_transcript *transcript;
} tsr_sound;

/* A window, and the best that was found in it so far. */
typedef struct tsr_window {
  tsr_sound *sound;
  float *values;  /* [mels, 2 * source_positions] */
  int32_t frames; /* that the sound has of it */
  int32_t *input; /* [n_input] what the decoder begins with; TSR_DETECTED in the place of an unknown language */
  int32_t n_input;
  int32_t *tokens; /* [n_tokens] what it wrote, without <|endoftext|> */
  int32_t n_tokens;
  double *times; /* [n_tokens + 1] if words are wanted, else NULL: when each token begins, from the window's beginning,
                         * and when the last one ends */
  float *probabilities; /* [n_tokens], or NULL */
  float temperature;
  float language_probability; /* NaN: it was not detected */
  tsr_speech_measures measures;
  int32_t attempts; /* searches so far */
  int32_t verdict;  /* TSR_SPEECH_* of the last one */
} tsr_window;

/* Searches n windows, of different sounds: fills tokens, measures and verdict of each, and the language of a sound that
 * had none. */
tsr_status tsr_windows_search(tsr_transcriber *transcriber, const tsr_transcribe_request *request, tsr_window *windows,
                              int32_t n) TSR_MUST_CHECK;

/* Takes a copy of tokens, of which the last is not <|endoftext|>, in the place of the window's. Errors:
 * TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_window_keep(tsr_window *window, const int32_t *tokens, int32_t n_tokens) TSR_MUST_CHECK;

/* Puts the window's segments into its sound's transcript, and what the next window is told into `previous`; moves seek
 * on. *first: the number of the first new segment. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_window_tell(const tsr_transcriber *transcriber, const tsr_window *window, int32_t *first) TSR_MUST_CHECK;

/* Ends a sound's transcript with the calling thread's error. */
void tsr_transcript_fail(tsr_transcript *transcript, tsr_status status);

#endif

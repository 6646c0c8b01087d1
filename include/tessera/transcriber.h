/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/transcriber.h: speech in, text out: what a model of speech (Whisper) hears in sounds of any length.
 *
 * A sound is heard window by window (30 s in all published models). The timestamps that the model writes cut a window's
 * text into segments and say where the next window begins. Windows of several sounds are computed together. The scheme,
 * its thresholds and their defaults are those of Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak
 * Supervision", section 4.5, as its published code has them.
 */
#ifndef TESSERA_TRANSCRIBER_H
#define TESSERA_TRANSCRIBER_H

#include "tessera/audio.h"
#include "tessera/generate.h"
#include "tessera/speech.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tsr_transcriber tsr_transcriber;

typedef struct tsr_transcriber_options {
  uint32_t struct_size;
  tsr_dtype weights;    /* as in tsr_transformer_options, likewise `strict` */
  const char *device;   /* as tsr_device_open takes it; NULL: TESSERA_DEVICE, else auto */
  tsr_runtime *runtime; /* has the device; outlives the transcriber. NULL: the transcriber makes one */
  int32_t strict;
  int32_t batch; /* windows that are computed together, of as many sounds, at most; 0: 4 */
} tsr_transcriber_options;
TSR_SIZED_PIN(tsr_transcriber_options, batch, 28);

/* Loads the model of a folder onto the device. `options` may be NULL. *transcriber is the caller's until
 * tsr_transcriber_close. Blocks. Errors: those of tsr_model_open, tsr_tokenizer_open, tsr_device_open and
 * tsr_transformer_create; TSR_ERR_UNSUPPORTED (the model reads text; its tokenizer is not one of speech);
 * TSR_ERR_ARGUMENT. */
TSR_API tsr_status tsr_transcriber_open(const char *folder, const tsr_transcriber_options *options,
                                        tsr_transcriber **transcriber) TSR_MUST_CHECK;
TSR_API void tsr_transcriber_close(tsr_transcriber *transcriber); /* takes NULL */

/* These live as long as the transcriber. */
TSR_API const tsr_model *tsr_transcriber_model(const tsr_transcriber *transcriber);
TSR_API const tsr_tokenizer *tsr_transcriber_tokenizer(const tsr_transcriber *transcriber);
TSR_API tsr_device *tsr_transcriber_device(const tsr_transcriber *transcriber);

/* A stretch of a sound, and what is said in it. */
typedef struct tsr_segment {
  double start; /* seconds from the sound's beginning */
  double end;
  const char *text;      /* UTF-8, as the model writes it: most often with a blank at its beginning */
  const int32_t *tokens; /* [n_tokens], timestamps included */
  int32_t n_tokens;
  float temperature; /* of the search that found it */
  /* Of the window that the segment is a part of. */
  double window;           /* where it begins, in seconds */
  float average_logprob;   /* of its tokens; of beam search the score */
  float compression_ratio; /* of its text */
  float no_speech;         /* the probability that nobody speaks; NaN: the model does not say */
  int32_t n_words;         /* with options.words; else 0 */
  tsr_speech_word *words;  /* [n_words] with times from the sound's beginning */
} tsr_segment;

/* What was heard in a sound. */
typedef struct tsr_transcript {
  tsr_status status; /* TSR_OK, or why the transcript ends where it does */
  char *error;       /* a message, if status is not TSR_OK; else NULL */
  /* Its code ("fr"), of the transcriber; NULL: the model has but one, or was to detect it and heard no window. */
  const char *language;
  float language_probability; /* NaN: it was asked for, not detected */
  double duration;            /* seconds of the sound that were heard */
  int32_t n_segments;
  tsr_segment *segments; /* in the order of time */
} tsr_transcript;

/* Receives each segment as soon as its window is done: those of a sound in their order, those of several sounds in
 * turn. The segment is there during the call; its text, tokens and words live as long as the transcript. `sound`: its
 * number in the call. Returns 0 to go on; any other number ends that sound's transcript there. Called in the thread of
 * tsr_transcribe. */
typedef int32_t (*tsr_segment_fn)(void *user, int32_t sound, const tsr_segment *segment);

/* Told after each window how many seconds of a sound were heard, of how many (NaN: not known before its end). Likewise
 * called. */
typedef void (*tsr_heard_fn)(void *user, int32_t sound, double seconds, double of);

/* Gives sounds that come while others are heard: asked for the sound of each number that has none (NULL), in their
 * order, whenever fewer windows than may be are about to be computed together. Returns 1 with a sound, which is at its
 * beginning and lives until `ended`; 0: there is none now. Likewise called. */
typedef int32_t (*tsr_next_sound_fn)(void *user, int32_t sound, tsr_audio **audio);

/* Told when a sound's transcript is whole, or ends with an error: nothing of the sound is read from then on, and the
 * transcript may be read, and finished if it is not needed any more. Others may still be heard. Likewise called. */
typedef void (*tsr_ended_fn)(void *user, int32_t sound);

/* Start from tsr_transcribe_defaults. Pointers are borrowed during the call. */
enum { TSR_MOST_TEMPERATURES = 16 };
typedef struct tsr_transcribe_options {
  uint32_t struct_size;
  int32_t task;              /* TSR_SPEECH_TRANSCRIBE; TSR_SPEECH_TRANSLATE: into English */
  const char *language;      /* as tsr_speech_find_language takes it; NULL: it is detected in the first window */
  const char *prompt;        /* UTF-8: text that precedes the first window, and each that is told no text before it, for
                                names and spelling; NULL: none */
  const int32_t *prompt_ids; /* [n_prompt_ids] the same as ids, <|startofprev|> first, in the place of `prompt` */
  int32_t n_prompt_ids;
  int32_t prompt_stays; /* 1: it precedes every window, before the text that the window is told */
  /* 1: a window is told the text before it, which helps with words that are cut, and may repeat a mistake. After a
   * window that took a temperature above 0.5 the text is forgotten. */
  int32_t condition_on_previous;
  /* 1: the model writes them, unless the folder's generation_config.json has has_timestamps false, as tsr_training_run
   * writes it of a model that was trained without; 0: each window is one segment. */
  int32_t timestamps;
  /* A window's text that is not good enough (tsr_speech_judge) is searched again with the next temperature; the last
   * one's is taken as it is. 0 is `search`; above, tokens are drawn, `best_of` times, and the likeliest text is
   * taken. */
  int32_t n_temperatures;                    /* 1 .. TSR_MOST_TEMPERATURES */
  float temperatures[TSR_MOST_TEMPERATURES]; /* each at least 0 */
  int32_t best_of;                           /* at least 1 */
  float compression_ratio_limit;             /* as in tsr_speech_measures; NaN: none */
  float average_logprob_limit;
  float no_speech_limit;
  /* 1: segments have words, whose times come from what the folder's alignment_heads attend to (tsr_speech_token_times).
   * Beam search gives them no probability: it is 1. */
  int32_t words;
  uint64_t seed; /* of the draws: the same gives the same text */
  /* Beam, lengths, suppressed tokens; NULL: those of the model's folder. The transcriber sets start, prefix and
   * timestamps. */
  const tsr_generate_options *search;
  tsr_segment_fn segment; /* or NULL */
  tsr_heard_fn heard;     /* or NULL */
  void *user;
  tsr_next_sound_fn next; /* or NULL: all sounds are there at the beginning */
  tsr_ended_fn ended;     /* or NULL */
} tsr_transcribe_options;
TSR_SIZED_PIN(tsr_transcribe_options, ended, 184);

/* Fills *options, whose struct_size is set: temperatures 0, 0.2 .. 1, 5 draws, and the limits 2.4, -1 and 0.6; windows
 * are told the text before them; the model writes timestamps. Errors: TSR_ERR_ARGUMENT. */
TSR_API tsr_status tsr_transcribe_defaults(tsr_transcribe_options *options) TSR_MUST_CHECK;

/* Hears n sounds, which are at their beginning, to their end; nobody else reads them meanwhile. Those that are NULL
 * come later, from options.next: the call ends when all that came have ended and no other comes. transcripts [n] are
 * filled, and the caller finishes each with tsr_transcript_finish; after an error there is nothing to finish. What a
 * sound gives does not depend on its company. A sound that cannot be read on ends its transcript with the reason, and
 * the others go on. (One that is longer than a window, and no pipe, is read to its end before its first window is
 * heard, as TSR_FEATURES_WHOLE says: if it is broken anywhere, nothing is heard.) Memory does not depend on the sounds'
 * lengths, but for the transcripts.
 * Blocks. One thread at a time per transcriber. Errors: TSR_ERR_ARGUMENT (an option out of range, by name; a language
 * that the model does not know), TSR_ERR_UNSUPPORTED (a task or a language that the model does not have), those of
 * tsr_generate_features. */
TSR_API tsr_status tsr_transcribe(tsr_transcriber *transcriber, int32_t n, tsr_audio *const *sounds,
                                  const tsr_transcribe_options *options, tsr_transcript *transcripts) TSR_MUST_CHECK;
TSR_API void tsr_transcript_finish(tsr_transcript *transcript);

#ifdef __cplusplus
}
#endif
#endif

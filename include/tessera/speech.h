/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/speech.h: what only models of speech (Whisper) need: the ids of their special tokens, languages by name,
 * transcripts with times, and what follows from the tokens and the attention of a window of sound.
 *
 * Whisper hears sound in windows (30 s in all published models) and writes tokens:
 *
 *     <|startofprev|> earlier text <|startoftranscript|> <|en|> <|transcribe|> <|notimestamps|> text <|endoftext|>
 *
 * The prompt, from <|startofprev|> on, may be missing; so may language and task in models of English alone. Without
 * <|notimestamps|>, timestamps stand before and after each segment of text: <|0.00|> text <|1.20|><|1.20|> text
 * <|2.40|>. They count steps of 0.02 s from the window's beginning; a position of the encoder is one step, and two
 * frames of features. Times in this header are seconds.
 *
 * Functions without a tokenizer are arithmetic on the caller's arrays. Any thread may call any function. Formulas are
 * those of Radford et al. 2022, "Robust Speech Recognition via Large-Scale Weak Supervision", as its published code and
 * Hugging Face's transformers 4.47 have them.
 */
#ifndef TESSERA_SPEECH_H
#define TESSERA_SPEECH_H

#include "tessera/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------------------
 * Tokens of a tokenizer of the kind whisper. Errors of functions that take a tokenizer: TSR_ERR_ARGUMENT (it is of
 * another kind, something is NULL), TSR_ERR_OUT_OF_MEMORY.
 */

/* Ids; -1: the vocabulary has no such token. */
typedef struct tsr_speech_tokens {
  int32_t end_of_text;         /* <|endoftext|>; ids below it are text */
  int32_t start_of_transcript; /* <|startoftranscript|> */
  int32_t translate;           /* <|translate|>: into English */
  int32_t transcribe;          /* <|transcribe|> */
  int32_t start_of_lm;         /* <|startoflm|> */
  int32_t start_of_prev;       /* <|startofprev|> */
  int32_t no_speech;           /* <|nospeech|>, in old folders <|nocaptions|> */
  int32_t no_timestamps;       /* <|notimestamps|> */
  int32_t timestamp_begin;     /* <|0.00|>; this id and all above it are timestamps */
} tsr_speech_tokens;
TSR_API tsr_status tsr_speech_get_tokens(const tsr_tokenizer *tokenizer, tsr_speech_tokens *tokens) TSR_MUST_CHECK;

/* The index of a language, as tsr_tokenizer_language counts them: by its code ("fr"), its token ("<|fr|>"), or an
 * English name ("French"; "Castilian" and "Spanish" are one), whatever the letters' case. tsr_tokenizer_set_languages
 * takes the same names. Errors also: TSR_ERR_ARGUMENT (there is no such language; the message lists the nearest). */
TSR_API tsr_status tsr_speech_find_language(const tsr_tokenizer *tokenizer, const char *name,
                                            int32_t *index) TSR_MUST_CHECK;

/* The id of a language's token; -1 for an index outside, or a tokenizer of another kind. */
TSR_API int32_t tsr_speech_language_id(const tsr_tokenizer *tokenizer, int32_t index);

/* The English name of a language ("french") by its code ("fr"), of the 100 that Whisper knows; else NULL. Static. */
TSR_API const char *tsr_speech_language_name(const char *code);

/* What the decoder begins with: <|startoftranscript|>, the language (an index; -1: none), the task, and
 * <|notimestamps|> unless has_timestamps. prefix: room for TSR_SPEECH_PREFIX ids, of which *n are written. Errors also:
 * TSR_ERR_ARGUMENT (no such language or task). */
enum { TSR_SPEECH_NO_TASK = 0, TSR_SPEECH_TRANSCRIBE = 1, TSR_SPEECH_TRANSLATE = 2 };
enum { TSR_SPEECH_PREFIX = 4 };
TSR_API tsr_status tsr_speech_prefix(const tsr_tokenizer *tokenizer, int32_t language, int32_t task,
                                     int32_t has_timestamps, int32_t *prefix, int32_t *n) TSR_MUST_CHECK;

/* The ids of a text alone, without prefix and <|endoftext|>; tokens that are written in the text stand for themselves.
 * *ids is allocated; the caller frees it with tsr_free. (tsr_tokenizer_encode puts the prefix of the side's language
 * before the text, without a task unless tokenizer_config.json has one, and <|endoftext|> behind.) */
TSR_API tsr_status tsr_speech_encode(const tsr_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids,
                                     int32_t *n_ids) TSR_MUST_CHECK;

/* The ids of a prompt, <|startofprev|> and the text behind one blank, without white space at its ends; *ids as above.
 * Errors also: TSR_ERR_ARGUMENT (the text has a special token, or a timestamp). */
TSR_API tsr_status tsr_speech_prompt(const tsr_tokenizer *tokenizer, const char *text, size_t size, int32_t **ids,
                                     int32_t *n_ids) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * Text of tokens
 */

/* What tsr_speech_decode keeps beside the text. */
enum {
  TSR_SPEECH_KEEP_SPECIAL = 1,   /* special tokens, as they are spelled, and a prompt */
  TSR_SPEECH_KEEP_TIMESTAMPS = 2 /* timestamps: "<|1.20|>" */
};

/* The text of ids, valid UTF-8: bytes that are not become U+FFFD, ids outside the vocabulary nothing. keep:
 * TSR_SPEECH_KEEP_*; 0 gives what tsr_tokenizer_decode gives. Without TSR_SPEECH_KEEP_SPECIAL a prompt that the ids
 * begin with, from <|startofprev|> to before <|startoftranscript|>, is left out, too. Timestamps that are left out are
 * so also where text spells them.
 *
 * Of timestamps that are kept, one that is smaller than the one before begins a new window: times behind it are shifted
 * by what came before: to the first timestamp of the pair that the window ended with, whose second one is left out, or
 * by a whole window if it ended with a single timestamp. positions: those of the encoder, which make a window; 0:
 * 1,500, 30 s. *text is allocated and NUL-terminated; the caller frees it with tsr_free. */
TSR_API tsr_status tsr_speech_decode(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n_ids, int32_t keep,
                                     int32_t positions, char **text) TSR_MUST_CHECK;

/* A segment of a transcript. */
typedef struct tsr_speech_offset {
  const char *text; /* with its special tokens, without timestamps */
  double start;
  double end;
} tsr_speech_offset;

/* The segments that the timestamps of ids tell, of one window or several, cut between adjacent timestamps. What follows
 * the last timestamp is left out. Times are shifted as in tsr_speech_decode, but a window that ended with a pair shifts
 * them by the end of its last segment. *offsets is one allocation with all texts; the caller frees it with tsr_free. */
TSR_API tsr_status tsr_speech_offsets(const tsr_tokenizer *tokenizer, const int32_t *ids, int32_t n_ids,
                                      int32_t positions, tsr_speech_offset **offsets, int32_t *n) TSR_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif

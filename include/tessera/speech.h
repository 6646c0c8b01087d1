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

/* ------------------------------------------------------------------------------------------------------------------
 * Windows of a long recording
 */

/* What a window's tokens tell. */
typedef struct tsr_speech_segment {
  double start;     /* from the recording's beginning */
  double end;       /* likewise */
  int32_t first;    /* its tokens begin at tokens[first] */
  int32_t n_tokens; /* timestamps included */
} tsr_speech_segment;

/* The segments of a window, and how far the next window lies behind it.
 *   tokens          [n_tokens] what the decoder wrote behind the prefix, without <|endoftext|>
 *   seek            the frame, of 0.01 s, that the window begins with
 *   frames          of the window that are the recording's: fewer than a window has only at the recording's end
 *   segments        room for n_tokens + 1
 *   *advance        frames, from 1 to `frames`; or further, if the model writes a timestamp beyond them
 * If there are adjacent timestamps, segments are cut between them. If the last token alone is a timestamp, it ends the
 * last segment, and the next window begins where this one ends. Otherwise the last segment keeps both
 * timestamps of its pair, what follows is left out, and the next window begins at the pair's first timestamp. Without
 * adjacent timestamps all tokens are one segment from the window's beginning to the last timestamp (to the window's end
 * if that is missing or <|0.00|>), and the next window begins where this one ends.
 * Errors: TSR_ERR_ARGUMENT (something is NULL, a negative number, no frames). */
TSR_API tsr_status tsr_speech_segments(const int32_t *tokens, int32_t n_tokens, int32_t timestamp_begin, int64_t seek,
                                       int32_t frames, tsr_speech_segment *segments, int32_t *n_segments,
                                       int64_t *advance) TSR_MUST_CHECK;

/* How many tokens of a segment the windows behind it are told: all but the second timestamp of a pair at its end. That
 * token is then missing from the transcript's tokens, too. */
TSR_API int32_t tsr_speech_segment_kept(const int32_t *tokens, int32_t n_tokens, int32_t timestamp_begin);

/* What the decoder of a window begins with. */
typedef struct tsr_speech_context {
  const int32_t *prompt;   /* [n_prompt] of tsr_speech_prompt */
  const int32_t *previous; /* [n_previous] the tokens of all segments so far, as tsr_speech_segment_kept leaves them */
  const int32_t *prefix;   /* [n_prefix] of tsr_speech_prefix */
  int32_t n_prompt;
  int32_t n_previous;
  int32_t n_prefix;
  int32_t start_of_prev;    /* <|startofprev|> */
  int32_t has_previous;     /* 1: windows are told of the ones before them (condition_on_prev_tokens) */
  int32_t prompt_stays;     /* 1: before the previous tokens stands the prompt, not start_of_prev (all-segments) */
  int32_t most_of_previous; /* tokens; max_target_positions / 2 - 1 in the original */
} tsr_speech_context;

/* Writes the ids to `ids`, which has room for n_prompt + most_of_previous + 1 + n_prefix; *n_ids is how many there are.
 * If has_previous and there are previous tokens: start_of_prev, or the prompt if prompt_stays and there is one, then
 * the last most_of_previous of them; otherwise the prompt. Then the prefix. Errors: TSR_ERR_ARGUMENT. */
TSR_API tsr_status tsr_speech_window_input(const tsr_speech_context *context, int32_t *ids,
                                           int32_t *n_ids) TSR_MUST_CHECK;

/* How many ids of a sequence, prompt and prefix included, Whisper's plain result keeps: not the <|endoftext|> at its
 * end, and, if adjacent timestamps are in it and it does not end with a single one, not what follows the last pair. */
TSR_API int32_t tsr_speech_plain_length(const int32_t *ids, int32_t n_ids, int32_t end_of_text,
                                        int32_t timestamp_begin);

/* ------------------------------------------------------------------------------------------------------------------
 * When a token is spoken
 */

/* Times of tokens from the decoder's attention to the sound.
 *   weights       [heads, rows, frames] of the heads that follow the sound (alignment_heads): a row for each id that
 *                 the decoder reads, prefix included; a column for each position of the encoder
 *   used          of the columns, the first ones that the recording has: 1 to frames
 *   median_width  odd; 7 in all published models
 *   times         [rows + 1] when the id of each row begins, and the id that follows the last one: 0.0 first, never
 *                 decreasing
 * Each head's columns are normalised over the rows (mean 0, population standard deviation 1; a column without deviation
 * is 0), filtered by the median of median_width neighbours (reflected at the ends; if there are more columns than half
 * of the width), and averaged over the heads. Dynamic time warping finds the path from the first row and column to the
 * last with the largest sum; it steps to the next row and column only if that is strictly the best of the three, else
 * to the next row only if that is, else to the next column. times[r + 1] is where the path enters row r.
 * Errors: TSR_ERR_ARGUMENT, TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_speech_token_times(const float *weights, int32_t heads, int32_t rows, int32_t frames,
                                          int32_t used, int32_t median_width, double *times) TSR_MUST_CHECK;

typedef struct tsr_speech_word {
  const char *text; /* with the blank before it */
  double start;
  double end;
  double probability; /* the mean of its tokens' */
  int32_t first;      /* its tokens begin at tokens[first] */
  int32_t n_tokens;
} tsr_speech_word;

/* Groups tokens to words.
 *   language       a code ("ja"), or NULL
 *   tokens         [n_tokens]; ids from <|endoftext|> on, timestamps too, are no words, and end the word before
 *   times          [n_tokens + 1] when each token begins, and when the last one ends
 *   probabilities  [n_tokens], or NULL: all are 1
 * A word begins with a blank, or with punctuation; in zh, ja, th, lo, my and yue each character, or more if their bytes
 * share a token, is a word. Punctuation is then joined to the word that it belongs to: a mark such as ( behind a blank
 * to the word after it, one such as . or ) to the word before it. It changes neither their times nor their probability.
 * *words is one allocation with all texts; the caller frees it with tsr_free. Errors: as of other functions that take a
 * tokenizer. */
TSR_API tsr_status tsr_speech_words(const tsr_tokenizer *tokenizer, const char *language, const int32_t *tokens,
                                    int32_t n_tokens, const double *times, const float *probabilities,
                                    tsr_speech_word **words, int32_t *n_words) TSR_MUST_CHECK;

/* ------------------------------------------------------------------------------------------------------------------
 * How good a window's text is
 */

/* The bytes of a text over the bytes that zlib compresses them to: high for text that repeats itself; 0 for no text.
 * *ratio receives it. Errors: TSR_ERR_ARGUMENT, TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_speech_compression_ratio(const char *text, size_t size, double *ratio) TSR_MUST_CHECK;

/* The sum of the log-probabilities of n tokens, without that of <|endoftext|>, over n + 1. */
TSR_API double tsr_speech_average_logprob(const float *logprobs, int32_t n);

/* What was measured of a window's text, and the limits for it; NaN: not measured, no limit. */
typedef struct tsr_speech_measures {
  double compression_ratio; /* 2.4 is the published limit */
  double average_logprob;   /* -1.0 */
  double no_speech;         /* the probability of <|nospeech|> after <|startoftranscript|>; 0.6 */
} tsr_speech_measures;

enum {
  TSR_SPEECH_ACCEPT = 0, /* the text is good */
  TSR_SPEECH_RETRY = 1,  /* compression_ratio above, or average_logprob below its limit: try a higher temperature */
  TSR_SPEECH_SKIP = 2    /* there is no speech: no_speech above, and average_logprob below its limit or without one */
};
TSR_API int32_t tsr_speech_judge(const tsr_speech_measures *measured, const tsr_speech_measures *limits);

#ifdef __cplusplus
}
#endif
#endif

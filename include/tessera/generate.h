/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/generate.h: search for the best output, greedy, beam and sampling; and the scores of given outputs.
 *
 * The semantics are those of Hugging Face transformers' generate() (4.47 to 4.49), of Marian-NMT's own decoder, or of
 * CTranslate2, so that recorded results can be reproduced. The settings change a step's scores in the order of Hugging
 * Face transformers: encoder_repetition_penalty, repetition_penalty, no_repeat_ngram, encoder_no_repeat_ngram, words,
 * min_length, forced tokens, suppressed tokens; then, when sampling, temperature, top_k, top_p. Greedy search and
 * sampling change logits, beam search log-probabilities. The rules of timestamps come after the suppressed tokens.
 */
#ifndef TESSERA_GENERATE_H
#define TESSERA_GENERATE_H

#include "tessera/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of beam search.
 * TRANSFORMERS: N hypotheses stay open until enough are finished.
 * MARIAN: a hypothesis that ends leaves the beam, which shrinks. The search of a sentence stops when no hypothesis is
 * open, or has as many tokens as max_length_factor times the source.
 * CTRANSLATE2: N hypotheses stay open. If one of the best N continuations of a step ends, it is finished. The search of
 * a sentence stops when N * patience are finished, whatever the others might become (with a length_penalty of 0: when
 * the best one has ended and n_best are finished). At max_length, open hypotheses are finished without an end token. No
 * output begins with the end token; the other tokens then have probabilities with a sum of 1. The length that divides
 * scores includes a prefix. A forced first token is a prefix. Directly after a prefix, the end token counts only if it
 * is the best continuation. */
enum { TSR_SEARCH_TRANSFORMERS = 0, TSR_SEARCH_MARIAN = 1, TSR_SEARCH_CTRANSLATE2 = 2 };
enum { TSR_EARLY_FALSE = 0, TSR_EARLY_TRUE = 1, TSR_EARLY_NEVER = 2 };

/* The divisor of the sum of n tokens' log-probabilities. */
enum {
  TSR_LENGTH_POWER = 0, /* n^length_penalty (Hugging Face) */
  TSR_LENGTH_GNMT = 1   /* ((5 + n) / 6)^length_penalty (Wu et al. 2016) */
};

/* A token of an output, handed out while the search goes on. */
typedef struct tsr_token {
  int32_t sentence;   /* its number in the call */
  int32_t hypothesis; /* sampling: of the sentence, from 0 */
  int32_t step;       /* its place in the output, from 0; a prefix counts */
  int32_t id;
  int32_t is_last; /* 1: the output ends with it */
} tsr_token;

/* Returns 0 to go on. Any other number ends that output (beam search: that sentence's outputs) where it stands; the
 * search of the others goes on. */
typedef int32_t (*tsr_token_fn)(void *user, const tsr_token *token);

/* What is known of outputs beside a tsr_hypothesis. Who makes it hands it to a call (tsr_generate_options.details), and
 * reads it when the call has returned; the next call replaces what it holds. */
typedef struct tsr_details tsr_details;
TSR_API tsr_status tsr_details_create(tsr_details **details) TSR_MUST_CHECK; /* Errors: TSR_ERR_OUT_OF_MEMORY. */
TSR_API void tsr_details_destroy(tsr_details *details);                      /* takes NULL */

/* Greedy search and sampling: log-probabilities [n_ids] of the tokens of a hypothesis, given those before them, after
 * the settings have changed the logits (not temperature, top_k and top_p); 0 of a prefix and of forced tokens. Until
 * the next call. NULL: beam search, or there is no such hypothesis. */
TSR_API const float *tsr_details_log_probabilities(const tsr_details *details, int32_t sentence, int32_t hypothesis);

/* Models of speech, with options.alignment: the weights [n_alignment_heads][*n_rows][source_positions] with which each
 * token that the decoder read attends to the window, in each of the heads: the start token, then all of the hypothesis
 * but the last one. Until the next call. NULL: they were not asked for, or there is no such hypothesis. */
TSR_API const float *tsr_details_alignment(const tsr_details *details, int32_t sentence, int32_t hypothesis,
                                           int32_t *n_rows);

/* Models of speech, with options.languages: the probabilities of the languages [n_languages], whose sum is 1, of a
 * window whose prefix has TSR_DETECTED; else NULL. Until the next call. */
TSR_API const float *tsr_details_languages(const tsr_details *details, int32_t sentence);

/* Likewise, with options.no_speech_id: the probability of that token among all, behind the configuration's start token
 * alone. NaN: it was not asked for. */
TSR_API float tsr_details_no_speech(const tsr_details *details, int32_t sentence);

/* Start from tsr_generate_defaults. Lengths count the start token. Lists of token ids are the caller's and are only
 * read, during the call; each has at most TSR_MAX_LIST elements, and may be anything if its number is 0. */
enum { TSR_MAX_LIST = 1 << 24, TSR_MAX_STEPS_PER_SUBMIT = 1024 };
typedef struct tsr_generate_options {
  uint32_t struct_size;
  int32_t search;          /* TSR_SEARCH_* */
  int32_t beam;            /* N; 1: greedy, or sampling */
  int32_t n_best;          /* hypotheses returned per sentence, 1 .. N; sampling: any number */
  int32_t scores;          /* 1: greedy search and sampling compute scores, too */
  int32_t max_length;      /* of the output with the start token and </s> */
  int32_t min_length;      /* </s> is banned while the output, with the start token, is shorter */
  float length_penalty;    /* exponent */
  int32_t length_kind;     /* TSR_LENGTH_* */
  float word_penalty;      /* MARIAN: taken off the sum for each token, before the sum is divided */
  float max_length_factor; /* MARIAN: most tokens produced for each token of the source; 0: 3 */
  int32_t early_stopping;  /* TSR_EARLY_* */
  float patience; /* N * patience finished hypotheses are enough (Kasai et al. 2022), and kept; 0: 1, which is N */
  int32_t decoder_start_id; /* -1: the configuration's */
  int32_t forced_bos_id;    /* first token after the start; -1: none */
  int32_t forced_eos_id;    /* last token at max_length; -1: none */
  int32_t n_eos;            /* tokens that end a sentence; 0: the configuration's */
  int32_t n_suppressed;
  int32_t n_begin_suppressed;
  int32_t n_words;
  const int32_t *eos;        /* [n_eos]; a search that needs one of them takes the first */
  const int32_t *suppressed; /* [n_suppressed] tokens never produced */
  /* [n_begin_suppressed] tokens that never come first (or after a forced one); of a model of speech, behind the
   * prefix. */
  const int32_t *begin_suppressed;
  const int32_t *words;    /* [n_words] words of two or more tokens never produced: number of tokens, then the tokens */
  int32_t no_repeat_ngram; /* n: no n tokens occur twice in a row of tokens, the start token included; 0: off */
  int32_t encoder_no_repeat_ngram;  /* n: no n tokens of the source's ids come out; 0: off */
  float repetition_penalty;         /* of tokens that the output has: divides positive scores and multiplies others
                                       (Keskar et al. 2019); 0 or 1: off */
  float encoder_repetition_penalty; /* of tokens whose ids are in the source: the same with 1/x; 0 or 1: off */
  int32_t renormalize; /* 1: log-probabilities are normalised again after tokens were banned (beam search) */
  int32_t sample;      /* 1: each token is drawn at random (beam must be 1) */
  float temperature;   /* logits are divided by it; 0: 1 */
  int32_t top_k;       /* only the k most probable tokens are drawn; 0: all */
  float top_p;         /* only the most probable tokens that have this probability together; 0 or 1: all */
  /* N: each of the N most probable tokens at the first place after the prefix is continued, with the search that the
   * other options ask for. The best of each search are the sentence's N hypotheses, in the order of those tokens'
   * probabilities, which count in their scores. If fewer tokens are allowed, the rest are empty and have the score
   * -inf. 0: off; else at least 2, and at most half the vocabulary. A forced first token comes before the place. */
  int32_t alternatives;
  uint64_t seed; /* of the draws: the same seed gives the same text on every device, whatever else is in the batch; a
                    draw depends only on the seed and the numbers of sentence, hypothesis, step and token */
  int64_t first_sentence; /* number of the first sentence of the call: for the draws, and in messages */
  /* What the outputs of the sentences begin with: tokens without the start token. The search goes on from there, as if
   * it had chosen them. They are part of the output and count in limits of its length. In scores, neither they nor
   * their number count (CTRANSLATE2: their number does). With a prefix, no first token is forced. */
  const int32_t *const *prefix;  /* [n_sentences], or NULL: none */
  const int32_t *prefix_lengths; /* [n_sentences], with prefix; at most max_length - 2 */
  /* What the outputs' tokens attend to in the source: the mean over the heads of one layer's cross-attention, or over
   * those that attention_heads names. */
  int32_t attention;       /* 1: hypotheses come with their attention */
  int32_t attention_layer; /* of the decoder, from 1; 0: the last */
  /* beta (Wu et al. 2016): a score rises by beta times the sum over the source's tokens of ln(min(1, attention that all
   * tokens of the output together gave the token)); 0: off. This counts for finished hypotheses, not in the choice of
   * open ones. */
  float coverage_penalty;
  /* The tokens that may come out (shortlist.h), for each batch together; only these share the probability of 1. NULL:
   * all. */
  const struct tsr_shortlist *shortlist;
  /* Receives each token of an output, in order, as soon as it is certain. Greedy search and sampling give a token with
   * the step that chose it. Beam search gives a token when all hypotheses that can still become the best agree on it,
   * but never the newest token of a hypothesis, and the rest when the sentence is done. Outputs of one batch take
   * turns. Called from one thread at a time, not always the caller's, and never after tsr_generate has returned. May be
   * NULL. Not with alternatives. */
  tsr_token_fn token;
  void *token_user;
  /* 1: after an error, the generation still has what was finished; n_ids is -1 in the hypotheses of the other
   * sentences. Not with alternatives. */
  int32_t partial;
  /* Greedy search: a GPU gets N steps at once, and the next N before the first N are read. At the end of a batch, or
   * when its rows become fewer, it wastes less than 2N steps. The results are the same with each N. 0: as the device
   * wants it (runs_in_hand in tessera/backend.h), which is 1 on a GPU. With `attention` N is 1. Whatever N is, each
   * step is read before the next starts on a device that computes while it is called; if the host chooses: in beam
   * search, sampling, with scores, and with tokens that are penalised or banned because of the sentence's tokens; and
   * if steps are timed. */
  int32_t steps_per_submit;
  uint32_t attention_heads; /* bit h: head h of attention_layer, from 0, is one of the averaged heads; 0: all */
  int32_t reserved;
  /* Models of speech: 1: the output has timestamps, by the rules of Whisper's decoder (Radford et al. 2022, "Robust
   * Speech Recognition via Large-Scale Weak Supervision", section 4.5), which begin behind the prefix. They come in
   * pairs around each segment of text, never decrease, and the first token is one. The host chooses. Not with a
   * shortlist. */
  int32_t timestamps;
  int32_t timestamp_begin;       /* id of the first timestamp, <|0.00|>; all above it are timestamps, too */
  int32_t no_timestamps_id;      /* of <|notimestamps|>, which never comes then; -1: there is none */
  int32_t max_initial_timestamp; /* the first is at most timestamp_begin + this; -1: it may be any */
  int32_t timestamp_by_sum;      /* 1: a timestamp comes where all together are likelier than each other token */
  int32_t no_speech_id;          /* of <|nospeech|>, of which details tell the probability; 0 or -1: they do not */
  int32_t n_languages;
  int32_t alignment;        /* 1: details tell what alignment_heads attend to */
  const int32_t *languages; /* [n_languages] of which the likeliest takes the place of TSR_DETECTED in a prefix */
  tsr_details *details;     /* receives more about the outputs; NULL: nothing does. Not with alternatives */
  /* [n_alignment_heads][2] layer and head, both from 0, of the decoder's cross-attention, by which tokens of a model of
   * speech find their time. tsr_generate_defaults takes them from generation_config.json. */
  const int32_t *alignment_heads;
  int32_t n_alignment_heads;
  int32_t reserved2;
} tsr_generate_options;
TSR_SIZED_PIN(tsr_generate_options, reserved2, 300);

/* In a prefix, for a model of speech: the token of the language that the window's sound is in, which the decoder tells
 * first, behind the configuration's start token alone. At most once in a prefix. */
enum { TSR_DETECTED = -1 };

/* Fills *options, whose struct_size is set, with what the model's folder asks for: generation_config.json, else
 * config.json, else the library's defaults (greedy, 20 new tokens), which a model without a folder also gets. The lists
 * are the model's, and live until tsr_model_close. Reads files, and blocks. Any thread. Errors: TSR_ERR_ARGUMENT,
 * TSR_ERR_IO, TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED (a setting that this build does not have, by name). */
TSR_API tsr_status tsr_generate_defaults(const tsr_model *model, tsr_generate_options *options) TSR_MUST_CHECK;

/* Changes the options that a JSON object names, with the keys and meanings of generation_config.json, such as the
 * arguments of one call of Hugging Face's generate(); the rest stays. `json`: `size` bytes; messages call it `name`.
 * Lists become the model's, as above. Any thread. Errors: TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED, naming the key;
 * TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_generate_parse(const tsr_model *model, const char *name, const char *json, size_t size,
                                      tsr_generate_options *options) TSR_MUST_CHECK;

/* Checks options as tsr_generate does before it searches, so that a caller knows early. Any thread. Errors:
 * TSR_ERR_ARGUMENT (an option out of range, by name), TSR_ERR_UNSUPPORTED (a model that does not generate, or not so),
 * TSR_ERR_FORMAT (the model's files do not say how an output begins or ends). */
TSR_API tsr_status tsr_generate_check(const tsr_model *model, const tsr_generate_options *options) TSR_MUST_CHECK;

/* A score is the sum of the tokens' log-probabilities, </s> included, divided as length_kind says. A forced token costs
 * nothing. Greedy search and sampling compute a score only if options.scores is set, else it is NaN. They add the
 * model's own log-probabilities, even if settings changed them for the choice. */
typedef struct tsr_hypothesis {
  int32_t *ids; /* without the start token; ends with </s> unless max_length cut it */
  int32_t n_ids;
  float score;
  int32_t n_source; /* with options.attention: tokens of the source */
  float *attention; /* [n_ids][n_source], each row's sum is 1; else NULL */
} tsr_hypothesis;

typedef struct tsr_generation {
  int32_t n_sentences;
  int32_t n_best;
  tsr_hypothesis *hypotheses; /* [n_sentences][n_best], best first; sampling: in the order of their numbers */
} tsr_generation;

/* Called after each finished batch: `done` sentences of `total`. Not always from the thread that called tsr_generate,
 * but from one at a time, and never after it has returned. */
typedef void (*tsr_progress_fn)(void *user, int64_t done, int64_t total);

/* Generates for any number of sentences, in batches of at most n_batch (0: 32, and fewer with a wide beam on a CPU),
 * sorted and bucketed by length inside; results are in the order of the input. On a device with concurrent_runs, many
 * sentences are spread over threads of the library, one batch on each; few sentences stay together, so that the device
 * can use its threads within an operator (tsr_transformer_options.workers). The results are the same, as long as the
 * device's results for a sentence do not depend on the others in its batch.
 *   source [n_sentences] pointers to token ids (with </s>), lengths [n_sentences]; an empty sentence (length 0) gives
 *   an empty output
 * A decoder alone continues its source: the output begins with the source, as with a prefix, and lengths count it. The
 * start token is the model's (bos), and the source may begin with it; if the model has none, it is the source's first
 * token.
 * *generation is filled; the caller finishes it. On an error it is empty (unless options.partial), and the error is the
 * first that occurred. Blocks. One thread at a time per transformer. Errors: TSR_ERR_ARGUMENT (an id or a length out of
 * range), TSR_ERR_NOT_FINITE (the device computed NaN, or numbers beyond its type), the runtime's. tsr_error_sentence
 * says which sentence the error is about. */
TSR_API tsr_status tsr_generate(tsr_transformer *transformer, int32_t n_sentences, const int32_t *const *source,
                                const int32_t *lengths, int32_t n_batch, const tsr_generate_options *options,
                                tsr_progress_fn progress, void *user, tsr_generation *generation) TSR_MUST_CHECK;
TSR_API void tsr_generation_finish(tsr_generation *generation);

/* The same for a model of speech (config.mels > 0): each sentence is what is said in a window of sound.
 *   features [n_windows] pointers to [M, 2 * source_positions] finite numbers
 *   n_batch  0: 4 windows, as each takes as much memory as a long text
 *   options  decoder_start_id and a prefix say what is asked for: <|startoftranscript|>, the language, the task,
 *            <|notimestamps|>, and before these a prompt, if there is one. Not with settings that look at the source's
 *            tokens
 * Errors also: TSR_ERR_UNSUPPORTED (the model reads text). */
TSR_API tsr_status tsr_generate_features(tsr_transformer *transformer, int32_t n_windows, const float *const *features,
                                         int32_t n_batch, const tsr_generate_options *options, tsr_progress_fn progress,
                                         void *user, tsr_generation *generation) TSR_MUST_CHECK;

/* In which language each window of sound speaks, and whether anybody does: what the model gives for the first token
 * behind the configuration's start token.
 *   features      [n_windows], as above; n_batch: likewise
 *   languages     [n_languages] the ids of their tokens
 *   no_speech_id  of <|nospeech|>; -1: there is none
 *   best          [n_windows] receives the number of the likeliest language, from 0; or NULL
 *   probabilities [n_windows][n_languages] receives those of the languages, with a sum of 1; or NULL
 *   no_speech     [n_windows] receives the probability of no_speech_id among all tokens; or NULL
 * One thread at a time per transformer. Blocks. Errors: TSR_ERR_ARGUMENT (an id out of range, a feature that is not
 * finite), TSR_ERR_UNSUPPORTED (the model does not read sound), TSR_ERR_NOT_FINITE, the runtime's. */
TSR_API tsr_status tsr_detect_language(tsr_transformer *transformer, int32_t n_windows, const float *const *features,
                                       int32_t n_batch, int32_t n_languages, const int32_t *languages,
                                       int32_t no_speech_id, int32_t *best, float *probabilities,
                                       float *no_speech) TSR_MUST_CHECK;

/* What generating has cost since the transformer was created. */
typedef struct tsr_generate_statistics {
  int64_t sentences;
  int64_t source_tokens;
  int64_t target_tokens; /* produced, </s> included */
  int64_t encode_runs;
  int64_t step_runs;     /* wasted steps, too */
  double encode_seconds; /* summed over the threads, so it may exceed the time on the clock; likewise the next */
  double step_seconds;
  double seconds;  /* within tsr_generate, as a clock on the wall shows them */
  int32_t workers; /* threads that the last call used; 0: there was none */
} tsr_generate_statistics;
TSR_API void tsr_generate_measure_sized(const tsr_transformer *transformer, tsr_generate_statistics *statistics,
                                        size_t size);
static inline void tsr_generate_measure(const tsr_transformer *transformer, tsr_generate_statistics *statistics)
{
  tsr_generate_measure_sized(transformer, statistics, sizeof *statistics);
}

/* ------------------------------------------------------------------------------------------------------------------
 * Scoring of given outputs
 */
typedef struct tsr_score_options {
  uint32_t struct_size;
  int32_t n_batch;                 /* sentences computed at once, at most; 0: 32 */
  float length_penalty;            /* exponent */
  const int32_t *decoder_start_id; /* NULL: the configuration's. Borrowed during the call */
} tsr_score_options;
TSR_SIZED_PIN(tsr_score_options, decoder_start_id, 16);

/* How probable the model finds an output. */
typedef struct tsr_target_score {
  double sum;   /* of the tokens' log-probabilities */
  double score; /* sum / n_tokens^length_penalty; 0 without tokens */
  int32_t n_tokens;
  float *tokens; /* [n_tokens] log-probability of each token, given those before it */
} tsr_target_score;

typedef struct tsr_scores {
  int32_t n_sentences;
  tsr_target_score *targets; /* [n_sentences], in the order of the input */
} tsr_scores;

/* Scores any number of outputs, each by teacher forcing in one run: sorted and bucketed by length, in batches whose
 * logits stay on the device, with fewer sentences if the logits would be large.
 *   source, target [n_sentences] pointers to token ids (with </s>, the target without the start token); lengths may be
 *   0; the source of a decoder alone does not count
 *   options: NULL: a length_penalty of 1
 * *scores is filled; the caller finishes it. On an error it is empty. One thread at a time per transformer. Errors:
 * TSR_ERR_ARGUMENT (an id or a length out of range), TSR_ERR_NOT_FINITE (the device computed NaN), the runtime's.
 * tsr_error_sentence tells which sentence the error is about. */
TSR_API tsr_status tsr_score(tsr_transformer *transformer, int32_t n_sentences, const int32_t *const *source,
                             const int32_t *source_lengths, const int32_t *const *target, const int32_t *target_lengths,
                             const tsr_score_options *options, tsr_progress_fn progress, void *user,
                             tsr_scores *scores) TSR_MUST_CHECK;
TSR_API void tsr_scores_finish(tsr_scores *scores);

#ifdef __cplusplus
}
#endif
#endif

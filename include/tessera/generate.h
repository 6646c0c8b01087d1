/* SPDX-License-Identifier: Apache-2.0
 *
 * tessera/generate.h: search for the best output, greedy, beam and sampling; and the scores of outputs that are given.
 *
 * The semantics are those of Hugging Face transformers' generate() (4.47 to 4.49), of Marian-NMT's own decoder, or of
 * CTranslate2, so that recorded results can be reproduced. What changes a step's scores is applied in the order of the
 * first: encoder_repetition_penalty, repetition_penalty, no_repeat_ngram, encoder_no_repeat_ngram, words, min_length,
 * forced tokens, suppressed tokens; then, when sampling, temperature, top_k, top_p. Greedy search and sampling do so
 * with logits, beam search with log-probabilities.
 */
#ifndef TESSERA_GENERATE_H
#define TESSERA_GENERATE_H

#include "tessera/transformer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whose beam search. TRANSFORMERS: N hypotheses stay open until the finished ones are enough. MARIAN: a hypothesis that
 * ends leaves the beam, which shrinks; the search of a sentence stops when none is open, or has as many tokens as
 * max_length_factor times the source. CTRANSLATE2: N hypotheses stay open; of the best N continuations of a step those
 * that end are finished, and the search of a sentence stops when N * patience are, whatever the others may become (with
 * a length_penalty of 0: when the best one has ended and n_best are finished). At max_length what is open is finished
 * without an end. No output begins with its end; the probabilities of the others then have a sum of 1. A prefix counts
 * in the length by which scores are divided, a first token that is forced is one, and behind it an end counts only as
 * the best continuation. */
enum { TSR_SEARCH_TRANSFORMERS = 0, TSR_SEARCH_MARIAN = 1, TSR_SEARCH_CTRANSLATE2 = 2 };
enum { TSR_EARLY_FALSE = 0, TSR_EARLY_TRUE = 1, TSR_EARLY_NEVER = 2 };

/* What the sum of n tokens' log-probabilities is divided by. */
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

/* Returns 0 to go on. Another number ends that output (beam search: that sentence's outputs) where it stands: the
 * search of the others goes on. */
typedef int32_t (*tsr_token_fn)(void *user, const tsr_token *token);

/* Start from tsr_generate_defaults. Lengths count the start token. Lists of token ids are the caller's and are only
 * read, during the call; each has at most TSR_MAX_LIST elements, and is NULL or anything where its number is 0. */
enum { TSR_MAX_LIST = 1 << 24, TSR_MAX_STEPS_PER_SUBMIT = 1024 };
typedef struct tsr_generate_options {
  uint32_t struct_size;
  int32_t search;          /* TSR_SEARCH_* */
  int32_t beam;            /* N; 1: greedy, or sampling */
  int32_t n_best;          /* hypotheses returned per sentence, 1 .. N; sampling: any number */
  int32_t scores;          /* 1: greedy search and sampling compute scores, too */
  int32_t max_length;      /* of the output with the start token and </s> */
  int32_t min_length;      /* </s> is banned while the length, with the start token, is below */
  float length_penalty;    /* exponent */
  int32_t length_kind;     /* TSR_LENGTH_* */
  float word_penalty;      /* MARIAN: for each token, taken off the sum before it is divided */
  float max_length_factor; /* MARIAN: tokens produced at most for each of the source; 0: 3 */
  int32_t early_stopping;  /* TSR_EARLY_* */
  float patience; /* N * patience finished hypotheses are enough (Kasai et al. 2022), and kept; 0: 1, which is N */
  int32_t decoder_start_id; /* -1: the configuration's */
  int32_t forced_bos_id;    /* first token after the start; -1: none */
  int32_t forced_eos_id;    /* last token at max_length; -1: none */
  int32_t n_eos;            /* tokens that end a sentence; 0: the configuration's */
  int32_t n_suppressed;
  int32_t n_begin_suppressed;
  int32_t n_words;
  const int32_t *eos;              /* [n_eos]; the first stands for all where a search has to name one */
  const int32_t *suppressed;       /* [n_suppressed] tokens never produced */
  const int32_t *begin_suppressed; /* [n_begin_suppressed] tokens that are not the first one, a forced one left out */
  const int32_t *words; /* [n_words] words of two or more tokens never produced: each word's number of tokens, them */
  int32_t no_repeat_ngram;         /* n: no n tokens occur twice in a row of tokens, the start token included; 0: off */
  int32_t encoder_no_repeat_ngram; /* n: no n tokens of the source's ids come out; 0: off */
  float repetition_penalty;        /* of tokens that are there already: divides positive scores and multiplies others
                                      (Keskar et al. 2019); 0 or 1: off */
  float encoder_repetition_penalty; /* of tokens whose ids are in the source: the same with 1/x; 0 or 1: off */
  int32_t renormalize; /* 1: log-probabilities are normalised again after tokens were banned (beam search) */
  int32_t sample;      /* 1: each token is drawn at random (beam must be 1) */
  float temperature;   /* logits are divided by it; 0: 1 */
  int32_t top_k;       /* only the k likeliest tokens are drawn; 0: all */
  float top_p;         /* only the likeliest tokens that have this probability together; 0 or 1: all */
  /* N: the N most probable tokens at the first place behind the prefix are each continued, with the search that the
   * other options ask for, of which each gives its best; these are the sentence's N hypotheses, in the order of those
   * tokens' probabilities, which their scores count; fewer (then without tokens, -inf) where not so many are allowed.
   * 0: off; else at least 2, and at most half the vocabulary. A first token that is forced comes before it. */
  int32_t alternatives;
  uint64_t seed; /* of the draws: the same seed, the same text, on every device and whatever else is in the batch;
                    only the sentence's number counts, the hypothesis', the step's and the token's */
  int64_t first_sentence; /* number of the first sentence of the call: for the draws, and in messages */
  /* What the outputs of the sentences begin with: tokens without the start token, as if the search had chosen them, so
   * that it goes on from there. They are part of the output and of its length where that is limited; in scores neither
   * they nor their number count (CTRANSLATE2: their number does), and with one or more of them no first token is
   * forced. */
  const int32_t *const *prefix;  /* [n_sentences], or NULL: none */
  const int32_t *prefix_lengths; /* [n_sentences], with prefix; at most max_length - 2 */
  /* What the outputs' tokens attend to in the source: the mean of the heads of one layer's cross-attention, or of those
   * that attention_heads names. */
  int32_t attention;       /* 1: hypotheses come with it */
  int32_t attention_layer; /* of the decoder, from 1; 0: the last */
  /* beta (Wu et al. 2016): a score rises by beta times the sum over the source's tokens of ln(min(1, what all tokens of
   * the output together attended to it)); 0: off. It counts among finished hypotheses, not in the choice of open
   * ones. */
  float coverage_penalty;
  /* The tokens that may come out (shortlist.h), of each batch together; probabilities have a sum of 1 over these alone.
   * NULL: all. */
  const struct tsr_shortlist *shortlist;
  /* Receives each token of an output, in order, as soon as it is certain: greedy search and sampling hand it out with
   * the step that chose it; beam search when all hypotheses that can still become the best agree on it, the newest
   * token of a hypothesis never, and the rest when the sentence is done. Outputs of one batch take turns. From one
   * thread at a time, not always the caller's, and never after tsr_generate has returned. NULL: nobody asks. Not with
   * alternatives. */
  tsr_token_fn token;
  void *token_user;
  /* 1: after an error, too, the generation has what was finished until then: n_ids is -1 in the hypotheses of the other
   * sentences. Not with alternatives. */
  int32_t partial;
  /* Greedy search, N: a GPU is given N steps at once, and the next N before the first of them are read. What it
   * computes in vain, where all sentences of a batch have ended or its rows become fewer, is less than 2N steps. The
   * results are the same with each N. 0: as the device wants it (runs_in_hand in tessera/backend.h), which is 1 on a
   * GPU. With `attention` N is 1. Each step is read before the next starts, whatever N is, on a device that computes
   * while it is called; where the host chooses: in beam search, sampling, with scores, and with tokens that are
   * penalised or banned for what the sentence holds; and where steps are timed. */
  int32_t steps_per_submit;
  uint32_t attention_heads; /* bit h: head h of attention_layer, from 0, is one of those whose mean it is; 0: all */
  int32_t reserved;
} tsr_generate_options;
TSR_SIZED_PIN(tsr_generate_options, reserved, 236);

/* What the model's folder asks for (generation_config.json, else config.json, else the library's defaults: greedy, 20
 * new tokens; these also for a model without a folder). *options has its struct_size and is filled. Its lists are the
 * model's, and live until tsr_model_close. Reads the files, and blocks for it. Any thread. Errors: TSR_ERR_ARGUMENT,
 * TSR_ERR_IO, TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED (a setting that this build does not have, by name). */
TSR_API tsr_status tsr_generate_defaults(const tsr_model *model, tsr_generate_options *options) TSR_MUST_CHECK;

/* Changes what a JSON object says, with the keys and meanings of generation_config.json, and leaves the rest: the
 * arguments of one call of Hugging Face's generate(). `json`: `size` bytes; `name` stands for it in messages. Lists
 * become the model's, as above. Any thread. Errors: TSR_ERR_FORMAT, TSR_ERR_UNSUPPORTED, naming the key;
 * TSR_ERR_OUT_OF_MEMORY. */
TSR_API tsr_status tsr_generate_parse(const tsr_model *model, const char *name, const char *json, size_t size,
                                      tsr_generate_options *options) TSR_MUST_CHECK;

/* Checks options as tsr_generate does before it searches, so that a caller can tell early. Any thread. Errors:
 * TSR_ERR_ARGUMENT (an option out of range, by name), TSR_ERR_UNSUPPORTED (a model that does not generate, or not so),
 * TSR_ERR_FORMAT (the model's files do not say how an output begins or ends). */
TSR_API tsr_status tsr_generate_check(const tsr_model *model, const tsr_generate_options *options) TSR_MUST_CHECK;

/* A score is the sum of the tokens' log-probabilities, </s> included, divided as length_kind tells. A forced token
 * costs nothing. Greedy search and sampling add what the model itself gives each token, however that was changed for
 * choosing it, and only if options.scores asks for it: else their score is NaN. */
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
 * sorted and bucketed by length inside; results are in the order of the input. On a device with concurrent_runs many
 * sentences are spread over threads of the library, a batch on each; few stay together, for the device to use its
 * threads within an operator (tsr_transformer_options.workers). What comes out is the same, as long as the device's
 * results for a sentence do not depend on the others in its batch.
 *   source [n_sentences] pointers to token ids (with </s>), lengths [n_sentences]; an empty sentence (length 0) gives
 *   an empty output
 * A decoder alone goes on from its source: the output begins with it, as with a prefix, and lengths count it. The start
 * token is the model's (bos), which the source may begin with; of a model without one it is the source's first token.
 * *generation is filled; the caller finishes it. On an error it is empty (unless options.partial), and the error is the
 * first that occurred. Blocks. One thread at a time per transformer. Errors: TSR_ERR_ARGUMENT (an id or a length out of
 * range), TSR_ERR_NOT_FINITE (the device computed NaN, or numbers beyond its type), the runtime's. tsr_error_sentence
 * tells which sentence the error is about. */
TSR_API tsr_status tsr_generate(tsr_transformer *transformer, int32_t n_sentences, const int32_t *const *source,
                                const int32_t *lengths, int32_t n_batch, const tsr_generate_options *options,
                                tsr_progress_fn progress, void *user, tsr_generation *generation) TSR_MUST_CHECK;
TSR_API void tsr_generation_finish(tsr_generation *generation);

/* What generating took since the transformer was created. */
typedef struct tsr_generate_statistics {
  int64_t sentences;
  int64_t source_tokens;
  int64_t target_tokens; /* produced, </s> included */
  int64_t encode_runs;
  int64_t step_runs;     /* those in vain, too */
  double encode_seconds; /* summed over the threads, likewise the next: side by side they pass faster */
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
 * Scoring of outputs that are given
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
 * logits stay on the device, with fewer sentences where these would be large.
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

/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoding of one batch: what greedy and beam search share.
 *
 * Capacity of the cache. A batch starts with room for one and a half times the source's length, at least 32 positions,
 * as a power of two, never more than max_length needs. When a batch outgrows it, the room doubles and the cache moves
 * on the device once. So short sentences never pay for a max_length of 512, and long ones move a few times at most.
 *
 * Rows. A batch goes on with fewer rows when enough of its sentences have ended: those that are open move together, and
 * the step is that of a smaller batch. On a CPU, where each row costs time, that is as soon as there is a smaller batch
 * to go on with. On a GPU a step reads all the weights whatever its rows are, another step has to be recorded, and the
 * states
 * move in a run of their own: there it is when half the rows will do, and no more when a step has few.
 *
 * Choosing. Plain greedy search chooses on the device, which feeds the token back itself; what it must not choose is in
 * a mask for all rows or, where sentences join, in one of a few masks, by the position of each row. A GPU is given the
 * next step before the host has read what the last one chose (ahead.c). Else the device returns the best k of each row,
 * and the host changes their scores (filter.h) and chooses: k is what is wanted and as many more as a row has tokens
 * whose scores sink, so that the best of what is left is among them. Where scores rise, where what is left is scaled
 * anew and depends on the row's tokens, or where k is too large, whole rows come back.
 */
#ifndef TESSERA_CORE_GENERATE_SEARCH_H
#define TESSERA_CORE_GENERATE_SEARCH_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/generate/filter.h"
#include "core/transformer/transformer.h"
#include "tessera/generate.h"

/* What an output begins with. */
typedef struct tsr_prompt {
  const int32_t *ids; /* without the start token; borrowed */
  int32_t n;
  int32_t n_given;      /* of them, those that do not count in scores: the first ones */
  const int32_t *start; /* the start token; NULL: the options' */
  int32_t *language;    /* which of the ids the search puts there, for the language that it detects; NULL: none */
  float sum;            /* of the log-probabilities of the others */
} tsr_prompt;

/* What the output of a source begins with: a prefix, or of a decoder alone the source. options: resolved. Errors:
 * TSR_ERR_ARGUMENT: an id, or more tokens than the maximum length has room for. */
tsr_status tsr_prompt_init(tsr_prompt *prompt, const tsr_transformer_config *config,
                           const tsr_generate_options *options, const int32_t *source, int32_t n_source,
                           const int32_t *prefix, int32_t n_prefix) TSR_MUST_CHECK;

/* Where no prefix is given: the first token that is forced, where the search takes it for one. *n receives 1 or 0. The
 * options'. */
const int32_t *tsr_search_first(const tsr_generate_options *options, int32_t *n);

/* A sentence that is searched, in a row of the batch, or in N. */
typedef struct tsr_sentence {
  const int32_t *source; /* [n_source], borrowed, as its prompt is; of one token or more */
  const float *features; /* [M, 2 S], borrowed, of a model of speech, in the place of source; else NULL */
  int32_t n_source;      /* of a model of speech S */
  tsr_prompt prompt;
  int64_t number; /* for the draws, with the seed */
  uint64_t seed;
  int32_t index; /* by which the client knows it */
  /* The search's own. */
  int32_t is_open;   /* 0: it has ended, and its rows are free */
  int32_t length;    /* tokens of each of its open hypotheses, the start token counted */
  int32_t prefilled; /* positions of the cache that its prompt filled at once */
} tsr_sentence;

/* For whom a search works. It is called by the thread that searches, between steps. */
typedef struct tsr_search_client {
  void *user;
  /* Takes the hypotheses [n_best] of a sentence that has ended, and owns what is in them from then on. */
  void (*take)(void *user, const tsr_sentence *sentence, const tsr_hypothesis *hypotheses);
  /* How many sentences wait to join the batch, at most `room`; NULL, likewise the next: none ever does. Not with a
   * shortlist, which is that of a batch. */
  int32_t (*count_waiting)(void *user, int32_t room);
  /* Fills in sentences that join, at most `room`, the longest first, and returns their number. */
  int32_t (*join)(void *user, int32_t room, tsr_sentence *sentences);
  /* After each step, with the number of sentences that it left open. 0: all of them are wanted; NULL: they always are.
   */
  int32_t (*look)(void *user, int32_t n_open);
  /* Asked of each open sentence if not. 0: it is not wanted any more: its search ends, and nothing is handed over. */
  int32_t (*is_wanted)(void *user, const tsr_sentence *sentence);
} tsr_search_client;

/* Steps of a search that runs ahead of what was read (ahead.c), by their numbers (tsr_search.steps). */
typedef struct tsr_flight {
  int32_t steps;   /* N: of a submit; 0: nothing runs ahead */
  int64_t first;   /* the first step that was started and whose results were not read */
  int32_t n[2];    /* steps of the submits that begin with it; 0: there is none */
  int32_t set;     /* where the results of the first of them lie; those of the other lie in the other one */
  int64_t read;    /* the first step whose results are here */
  int32_t n_read;  /* likewise, how many */
  int64_t begun;   /* the step for which the host wrote tokens and positions last */
  int32_t *tokens; /* [n_read][B] */
  float *logits;   /* [n_read][B] */
} tsr_flight;

typedef struct tsr_search tsr_search;

/* How the rows of a search are followed from one step to the next: each for itself, or as beams. What it keeps is
 * search->own. */
typedef struct tsr_search_kind {
  tsr_status (*create)(tsr_search *search); /* search->own is to be finished also after an error */
  void (*finish)(void *own);                /* takes NULL */
  /* A sentence begins in row b, or in its N rows. */
  tsr_status (*start)(void *own, int32_t b);
  /* Computes a token of each open hypothesis, and chooses it. */
  tsr_status (*advance)(void *own);
  /* Appends it. A sentence that ends by that is handed to the client. */
  tsr_status (*append)(void *own);
  /* A sentence goes on in the row of one that has ended. */
  void (*move)(void *own, int32_t from, int32_t to);
  /* The sentence in row b is not wanted any more. */
  void (*drop)(void *own, int32_t b);
  /* The tokens of the hypothesis of a row; NULL for one that does not matter. */
  const int32_t *(*ids)(const void *own, int32_t row);
} tsr_search_kind;
extern const tsr_search_kind tsr_search_independent; /* greedy or sampled rows */
extern const tsr_search_kind tsr_search_beams;

struct tsr_search {
  const tsr_search_kind *kind;
  tsr_transformer *transformer;
  const tsr_generate_options *options; /* resolved */
  const tsr_search_client *client;
  tsr_sentence *sentences; /* [count] those of the first rows */
  int32_t count;
  int32_t batch;       /* B: sentences that the program has rows for, at least count */
  int32_t most;        /* and that it may ever have */
  int32_t most_open;   /* sentences that are searched at once, at most */
  int32_t joins;       /* 1: sentences join while it runs, and each row has a position of its own */
  int32_t source;      /* S: positions that the encoder computes */
  int32_t source_room; /* positions of the states that the decoder reads, at least as many */
  int32_t beam;        /* N: rows of a sentence */
  int32_t capacity;    /* C */
  int32_t *lengths;    /* [most] of the sources; 0 beyond count */
  int32_t first_only;  /* 1: a beam ends after the first token behind its prompt */
  int32_t begin;       /* tsr_search_begin of all sentences, where it matters for masks of all rows */
  void *own;           /* what its kind keeps */
  int64_t steps;       /* that were taken, and so the number of the one that is computed now */
  tsr_compiled *step;  /* NULL before the first step */
  tsr_filter filter;
  int32_t fed_back;   /* 1: the device chooses and feeds back */
  tsr_flight flight;  /* if so */
  int32_t is_held;    /* 1: no further step is started ahead, for sentences are to join */
  int32_t is_by_row;  /* 1: what changes scores depends on the row */
  int32_t n_masks;    /* of the program: one for each phase where sentences join, else one, or 0 */
  float *mask;        /* [n_masks][V]; NULL: 0 */
  int32_t mask_phase; /* the phase of a single mask; -1: nothing is filled yet */
  int32_t wanted;     /* candidates that a row must have in the end, or the whole vocabulary */
  int32_t room;       /* and how many more come back, to be banned or sink */
  int32_t whole;      /* 1: whole rows come back */
  float *scores;      /* [R][V] if so */
  /* What a step found: k candidates of each row in no particular order, with what the filter made of their scores. */
  int32_t k;
  float *values;         /* [R][k] */
  int32_t *indices;      /* [R][k] */
  float *normalisers;    /* [R] what has to be taken from a logit for its log-probability; if options->scores */
  int32_t has_changed;   /* 1: details tell the log-probabilities of tokens */
  float *changed;        /* [R] if so: the normalisers of logits that the settings have changed */
  pthread_mutex_t *lock; /* held while a token is handed out */
  int32_t *chosen;       /* [n_chosen] the tokens whose logits are computed, ascending; NULL: all */
  int32_t n_chosen;
  int32_t columns;           /* of the logits: n_chosen, or the vocabulary */
  float *attention;          /* [R][source_room] of the last step, summed over the heads, or [R][P][source_room] of the
                                heads that are aligned; NULL: nobody asks */
  int32_t *positions;        /* [most * N] room to write them from */
  const atomic_int *stopped; /* set from outside: the next step fails, for nobody wants the result any more; or NULL */
};

/* Rows of a sentence. */
int32_t tsr_search_rows(const tsr_generate_options *options);

/* 1 for a search with beams; else its rows are independent. */
int32_t tsr_search_is_beam(const tsr_generate_options *options);

/* Candidates that a beam needs of each of its hypotheses. */
int32_t tsr_search_beam_candidates(const tsr_generate_options *options);

/* sentences [count] are copied, the longest is the first; at most `most` are searched at once. Errors:
 * TSR_ERR_OUT_OF_MEMORY (nothing to finish then). */
tsr_status tsr_search_init(tsr_search *search, tsr_transformer *transformer, const tsr_generate_options *options,
                           const tsr_search_client *client, const tsr_sentence *sentences, int32_t count,
                           int32_t most) TSR_MUST_CHECK;
void tsr_search_finish(tsr_search *search);

/* A sentence takes row b of the batch. */
void tsr_search_open(tsr_search *search, int32_t b, const tsr_sentence *sentence);

/* What the attention of a row takes, and how much of it is traced of a sentence. */
int32_t tsr_search_attention_width(const tsr_search *search);
int32_t tsr_search_traced(const tsr_search *search, const tsr_sentence *sentence);

/* Room for the attention of a step, anew. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_search_reserve_attention(tsr_search *search) TSR_MUST_CHECK;

/* Searches until no sentence is open, and none joins. */
tsr_status tsr_search_run(tsr_search *search) TSR_MUST_CHECK;

/* ---- encode.c ---- */

/* Before the encoder runs: chooses the tokens whose logits are computed, if the options have a shortlist. */
tsr_status tsr_search_choose_tokens(tsr_search *search) TSR_MUST_CHECK;

/* What logits [V] behind the start token say of languages [n], n above 0: the number of the likeliest, and the
 * probability of each among them (or NULL); and the probability of a token among all. */
int32_t tsr_language_best(const float *logits, const int32_t *languages, int32_t n, float *probabilities);
float tsr_token_probability(const float *logits, int32_t vocabulary, int32_t token);

/* n windows of features for a model of speech: each is there and holds finite numbers. Errors: TSR_ERR_ARGUMENT, with
 * the window as the sentence. */
tsr_status tsr_windows_check(const tsr_transformer_config *config, int32_t n,
                             const float *const *features) TSR_MUST_CHECK;

/* Runs the encoder, if there is one. */
tsr_status tsr_search_encode(tsr_search *search) TSR_MUST_CHECK;

/* Before that: the first step of a model of speech behind its start token, where a language is to be detected, or the
 * details tell whether anybody speaks. */
tsr_status tsr_search_listen(tsr_search *search) TSR_MUST_CHECK;

/* Before the first step: where all prompts are long enough, fills the cache with what they have in common in number, in
 * one run, so that the steps of hypotheses of up to `prefilled` tokens are left out. The rows of a beam are filled in
 * the first row of their sentence alone. */
tsr_status tsr_search_prefill(tsr_search *search) TSR_MUST_CHECK;

/* Writes what a compiled encoder reads of the sentences in these rows [n] (NULL: in the first n), and their lengths.
 * What its batch has beyond them is empty. Errors also: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_search_write_source(const tsr_search *search, const tsr_compiled *encode, const int32_t *rows,
                                   int32_t n) TSR_MUST_CHECK;

/* ---- join.c ---- */

/* Between two steps: sentences that wait take the rows that are free. They are encoded together, as far as they are of
 * like lengths, and what the encoder gives lies where their rows are. *n receives how many joined. */
tsr_status tsr_search_join(tsr_search *search, int32_t *n) TSR_MUST_CHECK;

/* ---- rows.c ---- */

/* The room that a cache for so many positions has. */
int32_t tsr_search_capacity(const tsr_search *search, int32_t positions);

/* Makes room for a position. */
tsr_status tsr_search_grow(tsr_search *search, int32_t position) TSR_MUST_CHECK;

/* 1 if each row and position costs time in proportion, so that none should be computed for nothing: the device says so
 * (rows_at_once). */
int32_t tsr_search_is_frugal(const tsr_transformer *transformer);

/* With n_open sentences left, whether it is time to go on with fewer rows. */
int32_t tsr_search_can_shrink(const tsr_search *search, int32_t n_open);

/* Goes on with the open sentences alone, in the first rows. The next step is a renewed one. */
tsr_status tsr_search_shrink(tsr_search *search) TSR_MUST_CHECK;

/* ---- step.c ---- */

/* The position that a sentence has reached, where its last tokens stand; of one that has ended: 0. */
int32_t tsr_search_position(const tsr_search *search, int32_t sentence);

/* Tokens of its prompt behind which its first token stands, for the settings: none, as the prefix of a translation is
 * its beginning; of a model of speech all that are given. */
int32_t tsr_search_begin(const tsr_search *search, const tsr_sentence *sentence);

/* The furthest of all. */
int32_t tsr_search_last_position(const tsr_search *search);

/* Before a step: the compiled step, with room for all positions. *renewed is 1 if the program is not that of the last
 * step, so that what it keeps has to be written anew. */
tsr_status tsr_search_prepare(tsr_search *search, int32_t *renewed) TSR_MUST_CHECK;

/* Writes what the prepared step goes on from: tokens [B*N], and the positions; `further`: 1 for the step behind it. */
tsr_status tsr_search_write(tsr_search *search, const int32_t *tokens, int32_t further) TSR_MUST_CHECK;

/* The positions alone, for a step of the same program. */
tsr_status tsr_search_write_positions(tsr_search *search, const tsr_compiled *step, int32_t further) TSR_MUST_CHECK;

/* Runs the prepared step of a search that is fed back: next [B] and their logits. Errors: a NaN is TSR_ERR_NOT_FINITE,
 * naming sentence, step and line; likewise below. */
tsr_status tsr_search_run_greedy(tsr_search *search, int32_t *next, float *logits) TSR_MUST_CHECK;

/* Runs the prepared step of another search: values, indices, normalisers; of the rows that matter. */
tsr_status tsr_search_run_step(tsr_search *search) TSR_MUST_CHECK;

/* Before a step is started: fails if nobody wants its result any more. */
tsr_status tsr_search_check_stopped(const tsr_search *search) TSR_MUST_CHECK;

/* Reads what the last step of an executable attended to, if somebody asks. */
tsr_status tsr_search_read_attention(const tsr_search *search, tsr_executable *executable) TSR_MUST_CHECK;

/* Explains that the last step gave a row NaN: TSR_ERR_NOT_FINITE. Its lines run again, and if need be the encoder's;
 * the search cannot go on. */
tsr_status tsr_search_not_finite(tsr_search *search, int32_t row) TSR_MUST_CHECK;

/* The log-probability that the model itself gives candidate i of an independent row; with options->scores. */
float tsr_search_log_probability(tsr_search *search, int32_t row, int32_t i);

/* The same after the settings have changed the logits; with options->details. */
float tsr_search_changed_log_probability(const tsr_search *search, int32_t row, int32_t i);

/* ---- ahead.c ---- */

/* Chooses flight.steps, and makes room for what they find. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_flight_init(tsr_search *search) TSR_MUST_CHECK;

/* Before the first step of another program: what was started is not wanted any more. */
void tsr_flight_drop(tsr_flight *flight);

/* 1 if no step was started whose results were not taken. */
int32_t tsr_flight_is_empty(const tsr_search *search);

/* What the prepared step found, whose program is compiled to run ahead: next [B] and their logits. Starts it, if it was
 * not, and those behind it, unless search->is_held. */
tsr_status tsr_flight_take(tsr_search *search, int32_t *next, float *logits) TSR_MUST_CHECK;

/* ---- what both kinds ask ---- */

/* The score of a finished hypothesis: sum, of log-probabilities, as the options divide it for so many tokens. */
double tsr_search_score(const tsr_generate_options *options, double sum, int32_t generated);

/* 1 if a token ends a sentence. */
int32_t tsr_search_is_end(const tsr_generate_options *options, int32_t token);

/* The token that the hypotheses of a sentence, with `length` tokens, have to continue with, or -1: the next one of its
 * prompt, or what the options force. */
int32_t tsr_search_forced(const tsr_search *search, const tsr_sentence *sentence, int32_t length);

/* 1 if the next token is the last that an output may have. */
int32_t tsr_search_is_last(const tsr_search *search, const tsr_sentence *sentence);

/* What an attention that was summed over the heads is multiplied by for their mean. */
float tsr_search_head_share(const tsr_search *search);

/* Gives the attention of a sentence's hypothesis, [n_ids][tokens of the source], to it if it is wanted; else frees
 * it. */
void tsr_search_hand_over(const tsr_search *search, int32_t sentence, float *attention, tsr_hypothesis *hypothesis);

/* Before that: gives it to the details if these are about it, as that of hypothesis `number`, for so many tokens that
 * were read; *attention becomes NULL then. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_search_hand_details(const tsr_search *search, int32_t sentence, int32_t number, float **attention,
                                   int32_t rows) TSR_MUST_CHECK;

/* Hands out token `step`, from 0, of a hypothesis of a sentence, if somebody asks. Returns what they answered; 0
 * without anybody. */
int32_t tsr_search_tell(const tsr_search *search, int32_t sentence, int32_t hypothesis, int32_t step, int32_t id,
                        int32_t is_last);

/* Hands over a sentence that has ended. */
void tsr_search_end(tsr_search *search, int32_t sentence, const tsr_hypothesis *hypotheses);

#endif

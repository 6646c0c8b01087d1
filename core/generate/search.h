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
 * a mask for all rows. A GPU is given the next step before the host has read what the last one chose (ahead.c). Else
 * the device returns the best k of each row, and the host changes their scores (filter.h) and chooses: k is what is
 * wanted and as many more as a row has tokens whose scores sink, so that the best of what is left is among them. Where
 * scores rise, or k is too large, whole rows come back.
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
  float sum;            /* of the log-probabilities of the others */
} tsr_prompt;

/* Steps of a search that runs ahead of what was read (ahead.c), each with the number of its position. */
typedef struct tsr_flight {
  int32_t steps;   /* N: of a submit; 0: nothing runs ahead */
  int32_t first;   /* the first step that was started and whose results were not read */
  int32_t n[2];    /* steps of the submits that begin with it; 0: there is none */
  int32_t set;     /* where the results of the first of them lie; those of the other lie in the other one */
  int32_t read;    /* the first step whose results are here */
  int32_t n_read;  /* likewise, how many */
  int32_t *tokens; /* [n_read][B] */
  float *logits;   /* [n_read][B] */
} tsr_flight;

typedef struct tsr_search {
  tsr_transformer *transformer;
  const tsr_generate_options *options; /* resolved */
  int32_t count;                       /* sentences that have a row */
  int32_t batch;                       /* B: rows of the program, at least count */
  int32_t source;                      /* S: positions that the encoder computes */
  int32_t source_room;                 /* positions of the states that the decoder reads, at least as many */
  int32_t beam;                        /* N: rows of a sentence */
  int32_t capacity;                    /* C */
  int32_t *lengths;                    /* [B] of the sources; 0 beyond count */
  int32_t *sentence;                   /* [count] whose row it is: in the order in which the batch began */
  const int32_t *const *texts;         /* the sources by the call's numbers; borrowed, likewise the next */
  const int32_t *numbers;              /* the call's number of each sentence of the batch, as it began */
  const tsr_prompt *prompts;           /* by the call's numbers, or NULL; borrowed */
  int32_t first_only;                  /* 1: a beam ends after the first token behind its prompt */
  tsr_compiled *step;                  /* NULL before the first step */
  tsr_filter filter;
  int32_t fed_back;   /* 1: the device chooses and feeds back */
  tsr_flight flight;  /* if so */
  int32_t is_by_row;  /* 1: what changes scores depends on the row */
  float *mask;        /* [V] of a program that has one; else NULL */
  int32_t mask_phase; /* which mask that is; -1: it is not filled yet */
  int32_t wanted;     /* candidates that a row must have in the end, or the whole vocabulary */
  int32_t room;       /* and how many more come back, to be banned or sink */
  int32_t whole;      /* 1: whole rows come back */
  float *scores;      /* [R][V] if so */
  /* What a step found: k candidates of each row in no particular order, with what the filter made of their scores. */
  int32_t k;
  float *values;         /* [R][k] */
  int32_t *indices;      /* [R][k] */
  float *normalisers;    /* [R] what has to be taken from a logit for its log-probability; if options->scores */
  pthread_mutex_t *lock; /* held while a token is handed out */
  int32_t prefilled;     /* positions of the cache that a prompt filled at once, before the first step */
  int32_t *chosen;       /* [n_chosen] the tokens whose logits are computed, ascending; NULL: all */
  int32_t n_chosen;
  int32_t columns;           /* of the logits: n_chosen, or the vocabulary */
  float *attention;          /* [R][source_room] of the last step, summed over the heads; NULL: nobody asks */
  const atomic_int *stopped; /* set from outside: the next step fails, for nobody wants the result any more; or NULL */
} tsr_search;

/* Rows of a sentence. */
int32_t tsr_search_rows(const tsr_generate_options *options);

/* 1 for a search with beams; else its rows are independent. */
int32_t tsr_search_is_beam(const tsr_generate_options *options);

/* Candidates that a beam needs of each of its hypotheses. */
int32_t tsr_search_beam_candidates(const tsr_generate_options *options);

/* The longest sentence is the first. Errors: TSR_ERR_OUT_OF_MEMORY (nothing to finish then). */
tsr_status tsr_search_init(tsr_search *search, tsr_transformer *transformer, const tsr_generate_options *options,
                           int32_t count, int32_t batch, const int32_t *lengths) TSR_MUST_CHECK;
void tsr_search_finish(tsr_search *search);

/* Before the encoder runs: chooses the tokens whose logits are computed, if the options have a shortlist. */
tsr_status tsr_search_choose_tokens(tsr_search *search) TSR_MUST_CHECK;

/* Runs the encoder, if there is one, on source [B, S]. */
tsr_status tsr_search_encode(tsr_search *search, const int32_t *source) TSR_MUST_CHECK;

/* Before the first step: where all prompts are long enough, fills the cache with what they have in common in number, in
 * one run, so that the steps of hypotheses of up to `prefilled` tokens are left out. The rows of a beam are filled in
 * the first row of their sentence alone. */
tsr_status tsr_search_prefill(tsr_search *search) TSR_MUST_CHECK;

/* Makes room for a position. */
tsr_status tsr_search_grow(tsr_search *search, int32_t position) TSR_MUST_CHECK;

/* The tokens of the hypothesis of a row; NULL for one that does not matter. */
typedef const int32_t *(*tsr_search_ids_fn)(const void *user, int32_t row);

/* Before a step: the compiled step with room for `position`, for hypotheses of position + 1 tokens. *renewed is 1 if
 * the program is not that of the last step, so that what it keeps has to be written anew. */
tsr_status tsr_search_prepare(tsr_search *search, int32_t position, tsr_search_ids_fn ids, const void *user,
                              int32_t *renewed) TSR_MUST_CHECK;

/* Runs the prepared step of a search that is fed back: next [B] and their logits. Errors: a NaN is TSR_ERR_NOT_FINITE,
 * naming sentence, step and line; likewise below. */
tsr_status tsr_search_run_greedy(tsr_search *search, int32_t position, tsr_search_ids_fn ids, const void *user,
                                 int32_t *next, float *logits) TSR_MUST_CHECK;

/* ahead.c. Chooses flight.steps, and makes room for what they find. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_flight_init(tsr_search *search) TSR_MUST_CHECK;

/* Before the first step of another program: what was started is not wanted any more. */
void tsr_flight_drop(tsr_flight *flight);

/* What the prepared step found, whose program is compiled to run ahead: next [B] and their logits. Starts it, if it was
 * not, and those behind it. */
tsr_status tsr_flight_take(tsr_search *search, int32_t position, int32_t *next, float *logits) TSR_MUST_CHECK;

/* Which mask hypotheses of `length` tokens have. */
int32_t tsr_search_mask_phase(const tsr_generate_options *options, int32_t length);

/* Before a step is started: fails if nobody wants its result any more. */
tsr_status tsr_search_check_stopped(const tsr_search *search, int32_t position) TSR_MUST_CHECK;

/* Reads what the last step of an executable attended to, if somebody asks. */
tsr_status tsr_search_read_attention(const tsr_search *search, tsr_executable *executable) TSR_MUST_CHECK;

/* Runs the prepared step of another search: values, indices, normalisers; of the rows that matter. */
tsr_status tsr_search_run(tsr_search *search, int32_t position, tsr_search_ids_fn ids, const void *user) TSR_MUST_CHECK;

/* Explains that the last step, at `position`, gave a row NaN: TSR_ERR_NOT_FINITE. Its lines run again, and if need be
 * the encoder's; the search cannot go on. */
tsr_status tsr_search_not_finite(tsr_search *search, int32_t position, int32_t row, tsr_search_ids_fn ids,
                                 const void *user) TSR_MUST_CHECK;

/* The log-probability that the model itself gives candidate i of an independent row whose tokens are ids [length]; with
 * options->scores. */
float tsr_search_log_probability(tsr_search *search, int32_t row, int32_t i, int32_t length, const int32_t *ids);

/* 1 if each row and position costs time in proportion, so that none should be computed for nothing: the device says so
 * (rows_at_once). */
int32_t tsr_search_is_frugal(const tsr_transformer *transformer);

/* With n_open sentences left, whether it is time to go on with fewer rows. */
int32_t tsr_search_can_shrink(const tsr_search *search, int32_t n_open);

/* Goes on with the sentences for which open [count] is not 0. from [count] receives the row that each of the new rows
 * had before; `used` positions of the cache are filled. The next step is a renewed one. */
tsr_status tsr_search_shrink(tsr_search *search, int32_t used, const int32_t *open, int32_t *from) TSR_MUST_CHECK;

/* The score of a finished hypothesis: sum, of log-probabilities, as the options divide it for so many tokens. */
double tsr_search_score(const tsr_generate_options *options, double sum, int32_t generated);

/* 1 if a token ends a sentence. */
int32_t tsr_search_is_end(const tsr_generate_options *options, int32_t token);

/* What the sentence with the rows row * beam and on begins with; of no tokens if there is nothing. */
tsr_prompt tsr_search_prompt(const tsr_search *search, int32_t sentence);

/* The token that a hypothesis of `length` tokens of that sentence has to continue with, or -1: the next one of its
 * prompt, or what the options force. */
int32_t tsr_search_forced(const tsr_search *search, int32_t sentence, int32_t length);

/* What an attention that was summed over the heads is multiplied by for their mean. */
float tsr_search_head_share(const tsr_search *search);

/* Gives the attention of a sentence's hypothesis, [n_ids][tokens of the source], to it if it is wanted; else frees
 * it. */
void tsr_search_hand_over(const tsr_search *search, int32_t sentence, float *attention, tsr_hypothesis *hypothesis);

/* Hands out token `step`, from 0, of a hypothesis of a sentence, if somebody asks. Returns what they answered; 0
 * without anybody. */
int32_t tsr_search_tell(const tsr_search *search, int32_t sentence, int32_t hypothesis, int32_t step, int32_t id,
                        int32_t is_last);

/* The two searches: greedy or sampled rows, each for itself, and beams. hypotheses [count][n_best] is zeroed and
 * receives the results; what is in it after an error is the
 * caller's to free. */
tsr_status tsr_search_independent(tsr_search *search, tsr_hypothesis *hypotheses) TSR_MUST_CHECK;
tsr_status tsr_search_beams(tsr_search *search, tsr_hypothesis *hypotheses) TSR_MUST_CHECK;

#endif

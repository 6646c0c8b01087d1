/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoding of one batch: what greedy and beam search share.
 *
 * Capacity of the cache. A batch starts with room for one and a half times the source's length, at least 32 positions,
 * as a power of two, never more than max_length needs. When a batch outgrows it, the room doubles and the cache moves
 * through the host once. So short sentences never pay for a max_length of 512, and long ones move a few times at most.
 *
 * Rows. Where a row costs time, on a CPU, a batch goes on with fewer rows when enough of its sentences have ended:
 * those that are open move together, and the step is that of a smaller batch.
 */
#ifndef TESSERA_CORE_GENERATE_SEARCH_H
#define TESSERA_CORE_GENERATE_SEARCH_H

#include <stdatomic.h>

#include "core/transformer/transformer.h"
#include "tessera/generate.h"

typedef struct tsr_search {
  tsr_transformer *transformer;
  const tsr_generate_options *options;
  int32_t count;       /* sentences that have a row */
  int32_t batch;       /* B: rows of the program, at least count */
  int32_t source;      /* S: positions that the encoder computes */
  int32_t source_room; /* positions of the states that the decoder reads, at least as many */
  int32_t beam;        /* N */
  int32_t capacity;    /* C */
  int32_t *lengths;    /* [B] of the sources; 0 beyond count */
  int32_t *sentence;   /* [count] whose row it is: in the order in which the batch began */
  tsr_compiled *step;  /* NULL before the first step */
  float *mask;         /* [rows of suppress][V] */
  int32_t mask_rows;
  int32_t eos_banned;        /* the mask bans </s>; -1: the mask is not filled yet */
  int32_t banned;            /* tokens that the mask may ban in beam search while the program does not see it */
  const atomic_int *stopped; /* set from outside: the next step fails, for nobody wants the result any more; or NULL */
} tsr_search;

/* The longest sentence is the first. Errors: TSR_ERR_OUT_OF_MEMORY (nothing to finish then). */
tsr_status tsr_search_init(tsr_search *search, tsr_transformer *transformer, const tsr_generate_options *options,
                           int32_t count, int32_t batch, const int32_t *lengths) TSR_MUST_CHECK;
void tsr_search_finish(tsr_search *search);

/* Runs the encoder on source [B, S]. */
tsr_status tsr_search_encode(tsr_search *search, const int32_t *source) TSR_MUST_CHECK;

/* Before a step: the compiled step with room for `position`, and the mask for hypotheses of position + 1 tokens.
 * *renewed is 1 if the program is not that of the last step, so that what it keeps has to be written anew. ids(user,
 * row) gives the tokens of a hypothesis, NULL for one that does not matter; it is asked only where what
 * is banned depends on them. */
typedef const int32_t *(*tsr_search_ids_fn)(const void *user, int32_t row);
tsr_status tsr_search_prepare(tsr_search *search, int32_t position, tsr_search_ids_fn ids, const void *user,
                              int32_t *renewed) TSR_MUST_CHECK;

/* Runs the prepared step and reads two outputs of n elements each: f32 and i32. Errors: a NaN among the first is
 * TSR_ERR_FORMAT, naming the step. */
tsr_status tsr_search_run(tsr_search *search, int32_t position, tsr_ref values, float *to_values, tsr_ref indices,
                          int32_t *to_indices, int32_t n) TSR_MUST_CHECK;

/* Takes the banned tokens out of n candidates of a program that does not see the mask: there are few, so the program
 * gives that many more instead of masking every row. Does nothing for one that does. */
void tsr_search_ban(const tsr_search *search, float *values, const int32_t *tokens, int32_t n);

/* 1 if rows and positions cost time in proportion, so that none should be computed for nothing: on a CPU. */
int32_t tsr_search_is_frugal(const tsr_transformer *transformer);

/* With n_open sentences left, whether it is time to go on with fewer rows. */
int32_t tsr_search_can_shrink(const tsr_search *search, int32_t n_open);

/* Goes on with the sentences for which open [count] is not 0. from [count] receives the row that each of the new rows
 * had before; `used` positions of the cache are filled. The next step is a renewed one. */
tsr_status tsr_search_shrink(tsr_search *search, int32_t used, const int32_t *open, int32_t *from) TSR_MUST_CHECK;

/* The token that a hypothesis of `length` tokens has to continue with, or -1. */
int32_t tsr_search_forced(const tsr_generate_options *options, int32_t length);

/* The two searches. hypotheses [count][n_best] is zeroed and receives the results; what is in it after an error is the
 * caller's to free. */
tsr_status tsr_search_greedy(tsr_search *search, tsr_hypothesis *hypotheses) TSR_MUST_CHECK;
tsr_status tsr_search_beams(tsr_search *search, tsr_hypothesis *hypotheses) TSR_MUST_CHECK;

#endif

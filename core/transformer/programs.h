/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs of a model, and what the library knows about them beyond tsr_model_program.
 */
#ifndef TESSERA_CORE_TRANSFORMER_PROGRAMS_H
#define TESSERA_CORE_TRANSFORMER_PROGRAMS_H

#include "core/transformer/layers.h"

/* Beside the public kinds: states of B sentences of N rows -> the states of some of them, in the first places. Inputs
 * from [moved], of sentences, and from_rows [moved * N], of their rows: where each was before. */
enum { TSR_PROGRAM_MOVE = 64 };

/* And: target [B, L], source_lengths [B] -> the cache of L steps that were fed these tokens, logits left out. */
enum { TSR_PROGRAM_PREFILL = 65 };

/* And: the states of `positions` positions a row -> the same in rows of more, in the same buffers: the cache of B*N
 * rows, of size.target, or with a size.source cross-attention's of B rows, of that. */
enum { TSR_PROGRAM_GROW = 66 };

/* tsr_program_key.ahead: how the results are kept of steps that run before those of earlier ones are read
 * (ahead.h). */
enum { TSR_AHEAD_ONE = 1 /* one step's */, TSR_AHEAD_MANY = 2 /* each step's, one row after another */ };

enum { TSR_WHOLE_ROWS = -1, TSR_MAX_CANDIDATES = 1024 /* of topk */ };

/* What tells one program of a model from another; 0 where it does not matter. All are int32_t, so that keys are
 * compared as a whole (tsr_program_key_equal) and no field can be left out. */
typedef struct tsr_program_key {
  int32_t kind; /* TSR_PROGRAM_* */
  tsr_program_size size;
  int32_t source_room; /* ENCODE: positions that the states of cross-attention have room for; 0: size.source */
  int32_t masks;       /* GREEDY, BEAM: n: a row of `suppress` [n, V] is added to the logits, so that the probabilities
                          of what it leaves have a sum of 1; with more than one, `phases` [size.target] tells which one
                          at each position. 0: GREEDY: one; BEAM: none */
  int32_t candidates;  /* BEAM: k, continuations of each row that come back; 0: 2N; TSR_WHOLE_ROWS: all scores do */
  int32_t logits;      /* BEAM: 1: scores are logits, and the rows are independent: none reads another's past; 0: scores
                            are log-probabilities, and `rows` tells whose past each row reads */
  int32_t
      attention; /* GREEDY, BEAM: the decoder's layer, from 1, whose cross-attention is an output, [B, 1, N, S], summed
                          over the heads; 0: none */
  int32_t attention_heads; /* bits of the heads that are summed; 0: all */
  int32_t alignment;  /* BEAM: P: the weights of the P heads that the builder names are kept in the state `alignment`,
                         [B, N, P, S]; 0: none */
  int32_t shortlist;  /* ENCODE, GREEDY, BEAM: K: ENCODE keeps the weights of the tokens `chosen` [K], and the others
                        compute the logits of these alone: `suppress` and `scores` have K columns; 0: all tokens' */
  int32_t normaliser; /* BEAM with logits and candidates: 1: `top_log_probability` is that of the first of them */
  int32_t taps;       /* bits TSR_INSPECT_*: outputs beside the results */
  int32_t moved;      /* MOVE */
  int32_t positions;  /* PREFILL: L; size.target is the cache's capacity, size.beam N. With `logits` all rows of a
                         sentence are filled, else its first. GROW: the capacity so far; size.target is the new one */
  int32_t ahead;      /* GREEDY: TSR_AHEAD_*; 0: the host reads what a step found before it starts the next one */
  int32_t staggered;  /* GREEDY, BEAM: 1: each row has a position of its own: `position` is [B*N], not [1] */
  /* ENCODE: sentences that the states have room for; those that are encoded take the places that `places` [B] tells, as
   * positions of all states in a row (beyond the last: none). 0: B, and these are all */
  int32_t joined;
} tsr_program_key;

_Static_assert(sizeof(tsr_program_key) == 20 * sizeof(int32_t), "a key is so many int32_t, without room between them");

/* 1 if both are of the same program. */
int tsr_program_key_equal(const tsr_program_key *a, const tsr_program_key *b);

/* What is written before a run and read after it; TSR_NONE where a program does not have it. */
typedef struct tsr_program_refs {
  tsr_ref source, features, source_lengths, target; /* features: of a model of speech, in the place of source */
  tsr_ref token, position, rows, suppress, phases, places;
  tsr_ref encoder_output, logits, labels, losses;
  tsr_ref next, next_logit, values, indices, scores, top_log_probability, from, from_rows, attention, chosen, alignment;
  tsr_ref log_next,
      log_logit;    /* GREEDY with TSR_AHEAD_MANY: states [1, C, B] of the steps' results; likewise the next */
  tsr_ref log_step; /* a state [1]: the row for the next step, which counts itself up */
} tsr_program_refs;

/* Builds into an empty program; *refs is filled. Errors: TSR_ERR_ARGUMENT, TSR_ERR_UNSUPPORTED, the program's. */
tsr_status tsr_build_program(const tsr_builder *builder, const tsr_program_key *key,
                             tsr_program_refs *refs) TSR_MUST_CHECK;

/* What GROW is for a state, from one buffer to another: the state TSR_BEFORE_NAME [rows, positions, H, K] fills the
 * beginning of each row of TSR_AFTER_NAME, which has more. */
tsr_status tsr_build_regrown(const tsr_builder *builder, const tsr_program_key *key) TSR_MUST_CHECK;
#define TSR_BEFORE_NAME "before"
#define TSR_AFTER_NAME  "after"

#endif

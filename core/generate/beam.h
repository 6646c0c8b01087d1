/* SPDX-License-Identifier: Apache-2.0
 *
 * Beam search for one sentence, without a device: candidates in, next tokens and finished hypotheses out.
 *
 * Semantics of Hugging Face transformers 4.47 to 4.49, of Marian-NMT, or of CTranslate2.
 * Sums of log-probabilities are f32, as there;
 * scores of finished hypotheses are double.
 */
#ifndef TESSERA_CORE_GENERATE_BEAM_H
#define TESSERA_CORE_GENERATE_BEAM_H

#include "core/generate/search.h"
#include "core/generate/trace.h"

typedef struct tsr_finished {
  int32_t *ids;  /* with the start token, without </s> */
  int32_t n_ids; /* likewise */
  int32_t ended; /* 1: </s> follows; 0: max_length cut it */
  double score;
  float *attention; /* of its tokens and </s>, as tsr_trace_read gives it; NULL where it is not traced */
  int32_t n_read;   /* rows of it */
} tsr_finished;

/* A way to go on with a hypothesis. */
typedef struct tsr_candidate {
  float sum;
  int32_t hypothesis;
  int32_t token;
} tsr_candidate;

typedef struct tsr_beam {
  const tsr_generate_options *options; /* resolved */
  int32_t beam;                        /* N */
  int32_t open;                        /* hypotheses that count: the first ones. TRANSFORMERS: N until it is done */
  int32_t max_length;                  /* of this sentence, with the start token */
  int32_t length;                      /* tokens of each open hypothesis, with the start token */
  int32_t n_given;                     /* of them, those that do not count in scores, the start token left out */
  int32_t best_ended;                  /* CTRANSLATE2: 1: the best candidate of a step has ended */
  int32_t done;                        /* 1: no open hypothesis can still matter */
  int32_t sorted;                      /* 1: the finished are, best first */
  float *sums;                         /* [N] sums of log-probabilities */
  float *next_sums;                    /* [N] */
  int32_t *ids;                        /* [N][max_length] */
  int32_t *next_ids;                   /* [N][max_length] */
  tsr_finished *finished;              /* [wanted + 1], in the order in which they ended */
  int32_t n_finished;
  int32_t wanted;            /* finished hypotheses that are kept: N * patience */
  tsr_trace trace;           /* of the attention, if traced */
  int32_t traced;            /* 1: scores count it, or it is wanted; each step is added before the beam advances */
  int32_t told;              /* tokens that were handed out */
  double worst;              /* score of the worst of them */
  tsr_candidate *candidates; /* [n_candidates] the best of a step */
  int32_t n_candidates;
} tsr_beam;

/* Finished hypotheses that a sentence's search keeps, at least as many as it returns. */
int32_t tsr_beam_wanted(const tsr_generate_options *options);

/* All N hypotheses begin with the start token; only the first counts until they differ. source_length: with </s>.
 * prompt: what they go on with, one token a step (tsr_beam_extend), or NULL. Errors: TSR_ERR_OUT_OF_MEMORY (nothing to
 * finish then). */
tsr_status tsr_beam_init(tsr_beam *beam, const tsr_generate_options *options, int32_t source_length,
                         const tsr_prompt *prompt) TSR_MUST_CHECK;
void tsr_beam_finish(tsr_beam *beam); /* takes a zeroed one */

/* A step in which all hypotheses, which are alike, go on with the next token of the prompt. */
void tsr_beam_extend(tsr_beam *beam, int32_t token);

/* One step. values [N][k] log-probabilities and indices [N][k] tokens: the k best of each open hypothesis. parents [N]
 * receives which hypothesis each new one continues; one that does not count is like the first. Nothing happens when
 * done (parents: themselves).
 * Errors: TSR_ERR_OUT_OF_MEMORY, TSR_ERR_INTERNAL (too few candidates). */
tsr_status tsr_beam_advance(tsr_beam *beam, int32_t k, const float *values, const int32_t *indices,
                            int32_t *parents) TSR_MUST_CHECK;

/* After the last step: what is still open ends as it is, then the finished are sorted, best first. */
tsr_status tsr_beam_close(tsr_beam *beam) TSR_MUST_CHECK;

/* How many tokens, the start token left out, are certain: all of the best once it is closed; before that, those on
 * which all hypotheses agree, their newest left out, so that one at least is left in the end. And token i of them, from
 * 0. */
int32_t tsr_beam_certain(const tsr_beam *beam);
int32_t tsr_beam_certain_token(const tsr_beam *beam, int32_t i);

/* The last token of open hypothesis n, and all of them. */
int32_t tsr_beam_token(const tsr_beam *beam, int32_t n);
const int32_t *tsr_beam_ids(const tsr_beam *beam, int32_t n);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawing a token at random.
 *
 * The token is the one whose logit plus noise is the largest, the noise being Gumbel distributed: that draws from the
 * softmax of the logits (Gumbel 1954), and needs no sum over them. The noise of a token is a function of the seed, the
 * sentence, the hypothesis, the step and the token alone, so that it is the same on every device. Where two devices
 * round a logit differently, by 1e-6 say, another token comes out only if the two largest sums are as close as that:
 * about once in a million tokens; the same holds for which tokens top_k and top_p let through. Comparing one random
 * number with sums of probabilities would fail as often for each of the tokens in the sum.
 */
#ifndef TESSERA_CORE_GENERATE_SAMPLE_H
#define TESSERA_CORE_GENERATE_SAMPLE_H

#include "tessera/generate.h"

/* Where a draw stands. */
typedef struct tsr_draw_place {
  uint64_t seed;
  int64_t sentence;   /* number */
  int32_t hypothesis; /* of the sentence, from 0 */
  int32_t length;     /* tokens before the one that is drawn, the start token included */
} tsr_draw_place;

/* Draws among n tokens. order [n] is room to work in. Returns which of them, 0 .. n-1; that of the lowest token if all
 * are banned. Any thread. */
int32_t tsr_sample(const tsr_generate_options *options, const tsr_draw_place *place, const float *logits,
                   const int32_t *tokens, int32_t n, int32_t *order);

#endif

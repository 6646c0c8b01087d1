/* SPDX-License-Identifier: Apache-2.0
 *
 * What parameters begin with.
 */
#ifndef TESSERA_CORE_TRAIN_INITIALISE_H
#define TESSERA_CORE_TRAIN_INITIALISE_H

#include "tessera/transformer.h"

/* How parameters begin. D is d_model; out and in are a matrix' rows and columns; U(a) is even over -a .. a, N(s) normal
 * with the standard deviation s.
 *
 * TSR_INITIAL_XAVIER: as the reference implementations of "Attention Is All You Need" have it: each product's matrix
 * U(sqrt(6 / (in + out))) (Glorot and Bengio 2010), where q, k and v are matrices of their own though they are stored
 * joined; tables of embeddings and positions, and the logits' weights whether they are the table or not, N(1 / sqrt D);
 * biases 0, gains 1. The row of the pad is 0, unless the pad is also another special token.
 *
 * TSR_INITIAL_FAMILY: as the family's original begins. Marian (Hugging Face): every matrix and table N(0.02), biases 0,
 * gains 1, the pad's row 0. nn_transformer (torch's modules): the stacks' matrices U(sqrt(6 / (in + out))), where q, k
 * and v are one matrix; the biases of the attention 0, those of the feed-forward blocks U(1 / sqrt in); embeddings
 * N(1); the logits' weights and bias U(1 / sqrt D); gains 1. */
enum { TSR_INITIAL_XAVIER = 1, TSR_INITIAL_FAMILY = 2 };

/* "xavier", "family". Errors: TSR_ERR_ARGUMENT. */
tsr_status tsr_initial_find(const char *name, int32_t *method) TSR_MUST_CHECK;

/* Fills parameter number `index` of the model: elements [its shape], n of them. Every number follows from the seed, the
 * parameter's number and its own place, by Philox and double arithmetic rounded once: the same on every machine, but
 * for the rare normal number at the edge of two floats where two C libraries' logarithms differ. Any thread. Errors:
 * TSR_ERR_ARGUMENT. */
tsr_status tsr_initialise(const tsr_model *model, int32_t method, uint64_t seed, int32_t index, float *elements,
                          int64_t n) TSR_MUST_CHECK;

#endif

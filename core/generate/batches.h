/* SPDX-License-Identifier: Apache-2.0
 *
 * Which sentences are searched together, and how many batches at the same time.
 *
 * A batch costs as much as its longest sentence in each of its rows, and its rows are filled up to a number that
 * programs are made for. Spread over threads, each of which walks through all the weights by itself, batches are
 * computed without waiting for one another. That pays from a few rows each if the weights fit into a cache; if they
 * come from memory, only if a batch has rows enough to be busy meanwhile: with fewer the device does better with all
 * its threads in one run.
 */
#ifndef TESSERA_CORE_GENERATE_BATCHES_H
#define TESSERA_CORE_GENERATE_BATCHES_H

#include <stdint.h>

#include "tessera/status.h"

typedef struct tsr_batches {
  int32_t n_workers; /* that compute them side by side, at least 1 */
  int32_t n;
  int32_t *first; /* [n + 1]: batch i has the sentences first[i] .. first[i + 1] - 1 */
} tsr_batches;

/* lengths [n_sentences], longest first, all above 0; n_batch: sentences of a batch at most; beam: rows of a sentence.
 * concurrent: what the device executes side by side, 0 or 1 if nothing; least_rows: of a worker's batch, hypotheses
 * counted; wanted: workers that the caller asks for whatever those say, 0: as they say. Errors: TSR_ERR_OUT_OF_MEMORY
 * (nothing to finish then). */
tsr_status tsr_batches_init(tsr_batches *batches, const int32_t *lengths, int32_t n_sentences, int32_t n_batch,
                            int32_t beam, uint32_t concurrent, int32_t least_rows, int32_t wanted) TSR_MUST_CHECK;
void tsr_batches_finish(tsr_batches *batches);

/* The order in which sentences are computed, their numbers in order [n]: longest first, so that states grow to their
 * full size at once and a want of memory shows early. Errors: TSR_ERR_OUT_OF_MEMORY. */
tsr_status tsr_sort_longest_first(const int32_t *lengths, int32_t n, int32_t *order) TSR_MUST_CHECK;

/* Errors: TSR_ERR_ARGUMENT: a length or an id out of range. */
tsr_status tsr_check_sentence(const int32_t *ids, int32_t n, int32_t max_positions, int32_t vocabulary) TSR_MUST_CHECK;

/* least_rows for weights of that many bytes. */
int32_t tsr_least_rows(int64_t weights);

/* Sentences of a batch with which a step takes the least time for each of them, where rows cost time: weights that come
 * from a cache are soon waited for no more. 0: each sentence more makes the others cheaper. */
int32_t tsr_best_batch(int64_t weights);

/* Sentences of a batch where the caller leaves it open. frugal: rows cost time and memory (tsr_search_is_frugal). */
int32_t tsr_default_batch(int32_t beam, int32_t frugal);

/* Windows of sound of a batch where the caller leaves it open: the keys and values of each take as much memory as those
 * of a long text. */
enum { TSR_DEFAULT_WINDOWS = 4 };

/* The rows of the program for a batch of that many sentences. */
int32_t tsr_batch_bucket(int32_t count);

/* The room for source tokens of the programs for sentences of that length. */
int32_t tsr_source_bucket(int32_t length, int32_t max_positions);

/* The positions that an encoder computes for them where each costs time, on a CPU: fewer are computed for nothing, and
 * more programs are made. */
int32_t tsr_source_step(int32_t length, int32_t max_positions);

#endif

/* SPDX-License-Identifier: Apache-2.0
 *
 * The Levenshtein distance of words. A cell costs[j] of row i is what the first i words of the reference and the first
 * j of the hypothesis cost: errors in the high half, substitutions in the low one, so that the smaller number is the
 * better alignment.
 *
 * An alignment with at most `bound` errors stays near the diagonal. So only the band that it may reach is computed, and
 * if the result is above the bound, again with twice the bound.
 */
#include "core/eval/word_errors.h"

#include <stdlib.h>

#include "core/base/status.h"

#define AN_ERROR       ((uint64_t)1 << 32)
#define A_SUBSTITUTION (AN_ERROR + 1)
#define NO_ALIGNMENT   (UINT64_MAX / 2)

/* Words of one side, without those that both sides have at their beginnings and ends. */
typedef struct sequence {
  const uint32_t *words;
  int64_t n;
} sequence;

static uint64_t least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* The costs of the row above become those of the row of `word`, in columns first to last; columns outside of the band
 * are without an alignment. */
static void compute_row(uint32_t word, const uint32_t *hypothesis, int64_t first, int64_t last, uint64_t *costs)
{
  uint64_t left = NO_ALIGNMENT;
  int64_t j = first;
  uint64_t diagonal = j > 0 ? costs[j - 1] : NO_ALIGNMENT;
  if (j == 0) {
    diagonal = costs[0];
    left = costs[0] += AN_ERROR;
    j = 1;
  } else {
    costs[j - 1] = NO_ALIGNMENT;
  }
  for (; j <= last; j++) {
    uint64_t best = diagonal + (hypothesis[j - 1] == word ? 0 : A_SUBSTITUTION);
    best = least(best, least(left, costs[j]) + AN_ERROR);
    diagonal = costs[j];
    left = costs[j] = best;
  }
}

/* The cost of the best alignment among those with at most `bound` errors, which is at least the difference of the
 * lengths; above the bound if there is none. costs [hypothesis.n + 1]. */
static uint64_t align(sequence hypothesis, sequence reference, int64_t bound, uint64_t *costs)
{
  int64_t difference = hypothesis.n - reference.n;
  int64_t spare = (bound - (difference < 0 ? -difference : difference)) / 2;
  int64_t low = (difference < 0 ? difference : 0) - spare; /* columns of the band, less the row */
  int64_t high = (difference > 0 ? difference : 0) + spare;
  for (int64_t j = 0; j <= hypothesis.n; j++) {
    costs[j] = j <= high ? (uint64_t)j * AN_ERROR : NO_ALIGNMENT;
  }
  for (int64_t i = 1; i <= reference.n; i++) {
    int64_t first = i + low > 0 ? i + low : 0;
    int64_t last = i + high < hypothesis.n ? i + high : hypothesis.n;
    compute_row(reference.words[i - 1], hypothesis.words, first, last, costs);
  }
  return costs[hypothesis.n];
}

static void drop_common_ends(sequence *a, sequence *b)
{
  while (a->n > 0 && b->n > 0 && a->words[0] == b->words[0]) {
    a->words++;
    b->words++;
    a->n--;
    b->n--;
  }
  while (a->n > 0 && b->n > 0 && a->words[a->n - 1] == b->words[b->n - 1]) {
    a->n--;
    b->n--;
  }
}

tsr_status tsr_word_errors_count(const tsr_symbols *hypothesis, const tsr_symbols *reference, tsr_word_errors *errors)
{
  enum { FIRST_SPARE = 16 };
  sequence h = {hypothesis->symbols, (int64_t)hypothesis->n};
  sequence r = {reference->symbols, (int64_t)reference->n};
  drop_common_ends(&h, &r);
  int64_t difference = h.n - r.n;
  int64_t bound = (difference < 0 ? -difference : difference) + FIRST_SPARE;
  uint64_t *costs = malloc(((size_t)h.n + 1) * sizeof *costs);
  if (!costs) {
    return tsr_fail_memory(((size_t)h.n + 1) * sizeof *costs);
  }
  uint64_t cost;
  while ((cost = align(h, r, bound, costs)) / AN_ERROR > (uint64_t)bound) {
    bound *= 2;
  }
  free(costs);
  int64_t n_errors = (int64_t)(cost / AN_ERROR);
  errors->substitutions = (int64_t)(cost % AN_ERROR);
  errors->deletions = (n_errors - errors->substitutions - difference) / 2;
  errors->insertions = errors->deletions + difference;
  return TSR_OK;
}

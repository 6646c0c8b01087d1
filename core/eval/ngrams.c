/* SPDX-License-Identifier: Apache-2.0
 *
 * An n-gram is the (n-1)-gram that it begins with and one more symbol. Each distinct (n-1)-gram has a number, its place
 * in a table; so an n-gram is a pair of numbers, is compared in one step whatever its length, and never mistaken.
 */
#include "core/eval/ngrams.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/status.h"

typedef struct tsr_ngram {
  uint64_t key; /* number of the (n-1)-gram, and the last symbol */
  uint32_t stamp;
  uint32_t count; /* in the reference that has it most often, less those that the hypothesis has matched */
  uint32_t seen;  /* in the reference that is being read */
  uint32_t owner; /* that reference, from 1; 0: none yet */
} tsr_ngram;

enum { HYPOTHESIS = -1 };

uint64_t tsr_hash_mix(uint64_t key)
{
  key ^= key >> 32;
  key *= UINT64_C(0x9E3779B97F4A7C15);
  key ^= key >> 29;
  key *= UINT64_C(0xBF58476D1CE4E5B9);
  return key ^ key >> 32;
}

/* Room for 2 * n entries of the table, all of one order, and n ids. */
static tsr_status reserve(tsr_ngrams *g, size_t n)
{
  if (n > g->ids_room) {
    free(g->ids);
    g->ids = malloc(2 * n * sizeof *g->ids);
    g->ids_room = g->ids ? 2 * n : 0;
    if (!g->ids) {
      return tsr_fail_memory(2 * n * sizeof *g->ids);
    }
  }
  if (2 * n > g->room) {
    size_t room = 64;
    while (room < 2 * n) {
      room *= 2;
    }
    free(g->table);
    g->table = calloc(room, sizeof *g->table);
    g->room = g->table ? room : 0;
    g->stamp = 0;
    if (!g->table) {
      return tsr_fail_memory(room * sizeof *g->table);
    }
  }
  return TSR_OK;
}

/* Empties the table. */
static void begin_order(tsr_ngrams *g)
{
  if (++g->stamp == 0) {
    memset(g->table, 0, g->room * sizeof *g->table);
    g->stamp = 1;
  }
}

/* The place of an n-gram in the part of the table that the mask reaches. */
static uint32_t find(tsr_ngrams *g, size_t mask, uint64_t key)
{
  size_t at = (size_t)tsr_hash_mix(key) & mask;
  while (g->table[at].stamp == g->stamp && g->table[at].key != key) {
    at = (at + 1) & mask;
  }
  if (g->table[at].stamp != g->stamp) {
    g->table[at] = (tsr_ngram){.key = key, .stamp = g->stamp};
  }
  return (uint32_t)at;
}

static int64_t count_of(size_t length, size_t order)
{
  return length >= order ? (int64_t)(length - order + 1) : 0;
}

/* The length of the reference that is nearest to the hypothesis'. */
static size_t nearest_length(size_t n_hypothesis, const tsr_symbols *references, int32_t n_references)
{
  size_t nearest = references[0].n, least = SIZE_MAX;
  for (int32_t r = 0; r < n_references; r++) {
    size_t n = references[r].n, apart = n > n_hypothesis ? n - n_hypothesis : n_hypothesis - n;
    if (apart < least || (apart == least && n < nearest)) {
      least = apart;
      nearest = n;
    }
  }
  return nearest;
}

/* ids: of the (n-1)-grams that begin at each position, and then of the n-grams. */
static void count_reference(tsr_ngrams *g, size_t mask, const tsr_symbols *reference, uint32_t owner, size_t order,
                            uint32_t *ids)
{
  for (size_t k = 0; k + order <= reference->n; k++) {
    ids[k] = find(g, mask, (uint64_t)ids[k] << 32 | reference->symbols[k + order - 1]);
    tsr_ngram *ngram = &g->table[ids[k]];
    ngram->seen = ngram->owner == owner ? ngram->seen + 1 : 1;
    ngram->owner = owner;
    ngram->count = ngram->seen > ngram->count ? ngram->seen : ngram->count;
  }
}

static void match_hypothesis(tsr_ngrams *g, size_t mask, const tsr_symbols *hypothesis, size_t order, uint32_t *ids,
                             tsr_ngram_counts *counts)
{
  for (size_t k = 0; k + order <= hypothesis->n; k++) {
    ids[k] = find(g, mask, (uint64_t)ids[k] << 32 | hypothesis->symbols[k + order - 1]);
    tsr_ngram *ngram = &g->table[ids[k]];
    int matches = ngram->count > 0;
    counts->matches += matches;
    counts->repeats += !matches && ngram->owner == (uint32_t)HYPOTHESIS;
    ngram->count -= (uint32_t)matches;
    ngram->owner = (uint32_t)HYPOTHESIS;
  }
}

tsr_status tsr_ngrams_count(tsr_ngrams *ngrams, const tsr_symbols *hypothesis, const tsr_symbols *references,
                            int32_t n_references, int32_t max_order, tsr_ngram_counts *counts)
{
  const size_t most = (size_t)1 << 31;
  size_t n = hypothesis->n;
  for (int32_t r = 0; r < n_references && n <= most; r++) {
    n = references[r].n <= most ? n + references[r].n : SIZE_MAX;
  }
  if (n > most) {
    return tsr_fail(TSR_ERR_ARGUMENT, "n-grams: expected at most 2^31 symbols, found more");
  }
  TSR_TRY(reserve(ngrams, n > 0 ? n : 1));
  size_t mask = 63;
  while (mask < 2 * n) {
    mask = 2 * mask + 1;
  }
  mask = mask < ngrams->room ? mask : ngrams->room - 1;
  size_t nearest = nearest_length(hypothesis->n, references, n_references);
  memset(ngrams->ids, 0, n * sizeof *ngrams->ids);

  int shared = 1; /* without a match or a repetition there is none of a higher order */
  for (int32_t i = 0; i < max_order; i++) {
    size_t order = (size_t)i + 1;
    counts[i] = (tsr_ngram_counts){.hypothesis = count_of(hypothesis->n, order), .reference = count_of(nearest, order)};
    if (!shared) {
      continue;
    }
    begin_order(ngrams);
    uint32_t *ids = ngrams->ids;
    for (int32_t r = 0; r < n_references; ids += references[r].n, r++) {
      count_reference(ngrams, mask, &references[r], (uint32_t)r + 1, order, ids);
    }
    match_hypothesis(ngrams, mask, hypothesis, order, ids, &counts[i]);
    shared = counts[i].matches > 0 || counts[i].repeats > 0;
  }
  return TSR_OK;
}

void tsr_ngrams_finish(tsr_ngrams *ngrams)
{
  free(ngrams->table);
  free(ngrams->ids);
  *ngrams = (tsr_ngrams){0};
}
